//! A scenario as written.
//!
//! It is the structure of the TOML file, also for building worlds without text.
//!
//! Every field is a key of the file (docs/scenarios.md has all of them with defaults and examples);
//! [`Draft::build`] checks it and computes the [`Scenario`](crate::Scenario).

mod access;
mod application;
mod by_kind;
mod control;
mod errors;
mod queue;
mod quic;
mod radio;
mod radios;
mod subscribers;
mod tcp;
mod topology;
mod traffic;
mod transport;

use std::collections::BTreeMap;

use fairmesh_units::{BitRate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access::{AccessDraft, CategoryDraft, DscpDraft, EdcaDefaults, EdcaDraft};
pub use application::{BulkDraft, CbrDraft, FileDraft, HttpDraft, LimitedDraft, TrafficDraft};
pub use control::ControlDraft;
pub(crate) use control::restrict as restrict_controls;
pub use errors::{ChainDraft, ErrorsDraft, FadingDraft, SnrDraft};
pub(crate) use queue::USUAL_PACKETS;
pub use queue::{
    CakeDraft, CodelDraft, DropTailDraft, DualPi2Draft, FqCodelDraft, FqDraft, FredDraft,
    IsolationDraft, Mac80211Draft, MarkDraft, QueueDraft, QueueTable, RedDraft, WfqDraft,
};
pub use quic::QuicDraft;
pub use radio::{
    AdaptationDraft, LlcDraft, Ns2Rule, PhyName, Profile, RadioDraft, ReceptionDraft, RtsDraft,
    Rules,
};
pub use radios::FurtherRadioDraft;
pub use subscribers::{PerDraft, SubscriberDraft, SubscribersDraft};
pub use tcp::{CongestionDraft, DelayedAck, EcnDraft, TcpDraft, TcpPreset};
pub use topology::{
    CellLayout, ChainLayout, GridLayout, LinkDraft, LinkEntry, NodeDraft, RandomLayout, Routing,
    TopologyDraft, TreeLayout,
};
pub use traffic::{Direction, FlowDraft, FlowsDraft};
pub use transport::TransportDraft;

use crate::name::Name;
use crate::origin::Origin;
use crate::text;

/// A scenario as written.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Name of the scenario; by default the file's name without its extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Purpose of the scenario, for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Simulated time.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub duration: Span,
    /// Start of the measured interval; a tenth of `duration` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub warmup: Option<Span>,
    /// PHY, MAC, propagation, queue and frame errors.
    #[serde(default)]
    pub radio: RadioDraft,
    /// Further kinds of radio, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub radios: BTreeMap<String, FurtherRadioDraft>,
    /// Layout or links of the mesh, and its routing.
    #[serde(default)]
    pub topology: TopologyDraft,
    /// Details of individual nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node: Vec<NodeDraft>,
    /// Details of links that the topology already has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkDraft>,
    /// Wired hosts behind one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wired: Option<WiredDraft>,
    /// Individual wires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<WireDraft>,
    /// Defaults of all flows, and the shorthand for one flow per node.
    #[serde(default)]
    pub traffic: FlowsDraft,
    /// Individual flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FlowDraft>,
    /// Settings of all subscribers of the gateway.
    #[serde(default)]
    pub subscribers: SubscribersDraft,
    /// Individual subscribers: groups of flows with a common share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscriber: Vec<SubscriberDraft>,
    /// Transmitters that are not part of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interferer: Vec<InterfererDraft>,
    /// Changes of link rates during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_change: Vec<RateChangeDraft>,
    /// Changes of flow paths during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_change: Vec<RouteChangeDraft>,
    /// The fairness mechanism.
    #[serde(default)]
    pub control: ControlDraft,
    /// Source file and overrides of the values, for messages.
    #[serde(skip)]
    pub origin: Origin,
}

/// `[[route_change]]`: another path for packets that leave their source from `at` on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteChangeDraft {
    /// Time of the change.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub at: Span,
    /// Name of the flow.
    pub flow: String,
    /// Nodes of the new path, both ends included.
    pub path: Vec<Name>,
}

/// `[[rate_change]]`: another rate of a link from `at` on, in both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateChangeDraft {
    /// Time of the change.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub at: Span,
    /// One end; the transmitter if it is directed.
    pub from: Name,
    /// The other end.
    pub to: Name,
    /// New data rate; one of the PHY's.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: BitRate,
    /// True: only `from` to `to`.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub directed: bool,
}

/// `[wired]`: hosts connected to one node, each by a separate wire.
///
/// With several gateways, to each of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WiredDraft {
    /// Names of the hosts.
    pub hosts: Vec<Name>,
    /// Node that they are connected to; by default the gateway, or all gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Name>,
    /// Rate of each wire; 100 Mbit/s by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// One-way delay of each wire; 1 ms by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub delay: Option<Span>,
    /// Queue length at each end of each wire, packets; 1000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
}

/// `[[wire]]`: a full-duplex wire between two nodes, wireless or wired.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireDraft {
    /// One end.
    pub from: Name,
    /// The other end.
    pub to: Name,
    /// Rate; 100 Mbit/s by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// One-way delay; 1 ms by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub delay: Option<Span>,
    /// Queue length at each end, packets; 1000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
}

/// `[[interferer]]`: a transmitter without medium access rules.
///
/// It occupies the channel within its range.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfererDraft {
    /// Name; "interferer 1" and so on by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes that sense it; alternative to `position`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Name>>,
    /// Position, x and y in metres: it is sensed like a node of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<[f64; 2]>,
    /// Kind of radio with the channel that it occupies; `main`, which is `[radio]`, by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<String>,
    /// Received power in dBm at every node of `nodes`; -60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// Period of bursts; 100 ms by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub period: Option<Span>,
    /// Busy share of each period, above 0 and below 1.
    pub duty: f64,
    /// Jitter: each period is multiplied by a random factor from 1 − jitter to 1 + jitter.
    ///
    /// 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Start of the first burst; 0 s by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// Time from which no burst starts; never by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
}
