//! Scenario files into a validated world.
//!
//! Three formats go in: TOML (docs/scenarios.md), NetJSON NetworkGraph and meshviewer.json;
//! [`parse`] tells them apart. A [`Draft`] is the mirror of the TOML, also for building worlds
//! without text. [`Draft::build`] turns it into a [`Scenario`]: nodes, who hears whom at what
//! power, routes, flows, every number checked.
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
mod resolve;
mod routing;
mod scenario;
mod subscriber;
mod text;
mod toml_file;
mod transform;

pub use draft::{
    AccessDraft, AdaptationDraft, CategoryDraft, CellLayout, ChainDraft, ChainLayout,
    CongestionDraft, ControlDraft, DelayedAck, Direction, Draft, DscpDraft, EcnDraft, EdcaDefaults,
    EdcaDraft, ErrorsDraft, FadingDraft, FlowDraft, FlowsDraft, FurtherRadioDraft, GridLayout,
    InterfererDraft, LinkDraft, LinkEntry, LlcDraft, NodeDraft, PerDraft, PhyName, Profile,
    QueueDraft, QueueKind, QueueTable, QuicDraft, RadioDraft, RandomLayout, RateChangeDraft,
    ReceptionDraft, RouteChangeDraft, Routing, RtsDraft, Rules, SnrDraft, SubscriberDraft,
    SubscribersDraft, TcpDraft, TcpPreset, TopologyDraft, TrafficDraft, TrafficKind, TrafficTable,
    TransportDraft, TreeLayout, WireDraft, WiredDraft,
};
pub use edit::{Edit, EditError, put, value};
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
pub use text::Quantity;
pub use toml_file::draft_from_toml;

/// The JSON Schema of the TOML form, for editors, with the mechanisms that a scenario may name.
pub fn json_schema(registry: &fairmesh_control::Registry) -> serde_json::Value {
    let mut value: serde_json::Value = schemars::schema_for!(Draft).into();
    if let Some(schema) = value.as_object_mut() {
        schema.insert("title".to_owned(), "fairmesh scenario".into());
        draft::restrict_controls(&mut schema["$defs"]["Control"], registry);
    }
    value
}
