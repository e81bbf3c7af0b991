//! Scenario files into a validated world.
//!
//! Three input formats: TOML (docs/scenarios.md), NetJSON NetworkGraph and meshviewer.json;
//! [`parse`] detects the format. A [`Draft`] has the structure of the TOML file, also for building
//! worlds without text. [`Draft::build`] turns it into a [`Scenario`]: nodes, received powers,
//! routes, flows, every number checked.
//!
//! ```
//! use fairmesh_scenario::{ImportOptions, parse};
//!
//! let text = br#"
//!     duration = "60 s"
//!     [radio]
//!     rate = "1 Mbit/s"
//!     [topology]
//!     chain = { hops = 3 }
//!     gateway = 0
//!     [traffic]
//!     flows = "up"
//! "#;
//! let scenario = parse("chain.toml", text, &ImportOptions::default()).unwrap();
//! assert_eq!(scenario.flows()[2].path.len(), 4);
//!
//! let error = parse("x.toml", b"duration = \"60\"", &ImportOptions::default()).unwrap_err();
//! assert!(error.to_string().starts_with("x.toml:1: duration: \"60\" has no unit; expected a time"));
//! ```

mod air;
mod canonical;
mod draft;
mod edit;
mod error;
mod gateways;
mod generate;
mod import;
mod name;
mod neighbours;
mod origin;
mod part;
mod resolve;
mod routing;
mod scenario;
mod schema;
mod subscriber;
mod text;
mod toml_file;
mod transform;

pub use draft::{
    AccessDraft, AdaptationDraft, BulkDraft, CakeDraft, CategoryDraft, CbrDraft, CellLayout,
    ChainDraft, ChainLayout, CodelDraft, CongestionDraft, ControlDraft, DelayedAck, Direction,
    Draft, DropTailDraft, DscpDraft, DualPi2Draft, EcnDraft, EdcaDefaults, EdcaDraft, ErrorsDraft,
    FadingDraft, FileDraft, FlowDraft, FlowsDraft, FqCodelDraft, FqDraft, FredDraft,
    FurtherRadioDraft, GridLayout, HttpDraft, InterfererDraft, IsolationDraft, LimitedDraft,
    LinkDraft, LinkEntry, LlcDraft, Mac80211Draft, MarkDraft, NodeDraft, Ns2Rule, PerDraft,
    PhyName, Profile, QueueDraft, QueueTable, QuicDraft, RadioDraft, RandomLayout, RateChangeDraft,
    ReceptionDraft, RedDraft, RouteChangeDraft, Routing, RtsDraft, Rules, SnrDraft,
    SubscriberDraft, SubscribersDraft, TcpDraft, TcpPreset, TopologyDraft, TrafficDraft,
    TransportDraft, TreeLayout, WfqDraft, WireDraft, WiredDraft,
};
pub use edit::{Edit, EditError, get, put, value};
pub use error::{KeyPath, Override, Problem, ScenarioError, Step};
pub use import::{
    Format, ImportOptions, MAX_FILE_BYTES, MAX_TOML_BYTES, Metric, draft, draft_from_map,
    format_of, parse,
};
pub use name::Name;
pub use origin::Origin;
pub use resolve::{MAX_FLOWS, MAX_NODES, MAX_PAIRS};
pub use scenario::{
    Flow, FurtherRadio, Gateways, InterfaceQueue, Interferer, Link, Node, NodeKind, RateChange,
    RouteChange, Scenario, Share, SharedLeaf, Subscriber, Subscribers, Transport, Wire,
};
pub use schema::json_schema;
pub use text::Quantity;
pub use toml_file::draft_from_toml;
