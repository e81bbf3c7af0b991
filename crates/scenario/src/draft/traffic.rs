//! `[traffic]` and `[[flow]]`.

use fairmesh_units::{BitRate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessDraft, DscpDraft, TrafficDraft, TransportDraft};
use crate::name::Name;
use crate::text;

/// `[traffic]`: what every flow is unless it says otherwise, and the shorthand for one flow per
/// node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsDraft {
    /// Makes one flow for every node of `nodes`, beside those of `[[flow]]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Direction>,
    /// The nodes that get a flow; by default every wireless node but the gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Name>>,
    /// The other end of those flows; by default the gateway, of several each node's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// How many flows of each kind there are side by side; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// What the application does; `bulk` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficDraft>,
    /// Transport; by default `udp` for `cbr`, else `tcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportDraft>,
    /// Access category of every flow's packets, both ways and over all hops; best effort by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessDraft>,
    /// The same by the packets' DSCP, as Linux maps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpDraft>,
    /// Start of every flow; 0 s by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// Each start is late by a random time up to this; 1 s by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start_jitter: Option<Span>,
    /// End of every flow; that of the run by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
}

/// Which way the flows of the shorthand go.
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
    /// Destination of the data; for `http`, the client that asks.
    pub to: Name,
    /// So many of them side by side; `traffic.connections` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// What the application does; `traffic.traffic` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficDraft>,
    /// Transport; `traffic.transport` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportDraft>,
    /// Access category of its packets, both ways and over all hops; that of `[traffic]` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessDraft>,
    /// The same by the packets' DSCP, as Linux maps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpDraft>,
    /// Start; `traffic.start` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// The start is late by a random time up to this; `traffic.start_jitter` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start_jitter: Option<Span>,
    /// End; `traffic.stop` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
    /// Share relative to other flows, where the control knows weights; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The subscriber's plan: never more than this in IP bytes, where the control knows plans.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub plan: Option<BitRate>,
    /// Guaranteed minimum in IP bytes, where the control knows guarantees.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub guarantee: Option<BitRate>,
    /// The nodes on the way, both ends included; the shortest route by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<Name>>,
}

impl FlowDraft {
    /// A flow with every default.
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
