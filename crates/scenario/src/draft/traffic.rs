//! `[traffic]` and `[[flow]]`.

use fairmesh_units::{BitRate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessDraft, DscpDraft, TrafficDraft, TransportDraft};
use crate::name::Name;
use crate::text;

/// `[traffic]`: defaults of all flows, and the shorthand for one flow per node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsDraft {
    /// Adds a flow for every node of `nodes`, in addition to those of `[[flow]]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Direction>,
    /// Nodes with such a flow; by default every wireless node except the gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Name>>,
    /// The other end of those flows; by default the gateway, or each node's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// Number of parallel flows of each kind; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Application; `bulk` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficDraft>,
    /// Transport; by default `udp` with `cbr`, otherwise `tcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportDraft>,
    /// Access category of every flow's packets, in both directions and over all hops.
    ///
    /// Best effort by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessDraft>,
    /// Access category by the packets' DSCP, as Linux maps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpDraft>,
    /// Start of every flow; 0 s by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// Maximum random delay of each start; 1 s by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start_jitter: Option<Span>,
    /// End of every flow; that of the run by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
}

/// Direction of the flows of the shorthand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From every node to the host.
    Up,
    /// From the host to every node.
    Down,
    /// One each way.
    Both,
}

/// `[[flow]]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowDraft {
    /// Name; `from->to` by default, with a number where that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Source of the data; for `http`, the server.
    pub from: Name,
    /// Destination of the data; for `http`, the client.
    pub to: Name,
    /// Number of parallel flows; `traffic.connections` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Application; `traffic.traffic` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficDraft>,
    /// Transport; `traffic.transport` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportDraft>,
    /// Access category of its packets, in both directions and over all hops.
    ///
    /// That of `[traffic]` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessDraft>,
    /// Access category by the packets' DSCP, as Linux maps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpDraft>,
    /// Start; `traffic.start` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// Maximum random delay of the start; `traffic.start_jitter` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start_jitter: Option<Span>,
    /// End; `traffic.stop` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
    /// Share relative to other flows, for controls with weights; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Subscribed rate: maximum in IP bytes, for controls with plans.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub plan: Option<BitRate>,
    /// Guaranteed minimum in IP bytes, for controls with guarantees.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub guarantee: Option<BitRate>,
    /// Nodes of its path, both ends included; the shortest route by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<Name>>,
}

impl FlowDraft {
    /// Returns a flow with all defaults.
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        FlowDraft {
            name: None,
            from: from.into(),
            to: to.into(),
            connections: None,
            traffic: None,
            transport: None,
            access: None,
            dscp: None,
            start: None,
            start_jitter: None,
            stop: None,
            weight: None,
            plan: None,
            guarantee: None,
            path: None,
        }
    }
}
