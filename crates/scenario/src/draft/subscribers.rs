//! `[subscribers]` and `[[subscriber]]`: groups of flows with a common share at a gateway.

use fairmesh_units::BitRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::scenario::SharedLeaf;
use crate::text;

/// `[subscribers]`: settings of all subscribers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubscribersDraft {
    /// `node`: every node of the mesh is a subscriber, with all its flows through the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<PerDraft>,
    /// Queueing of the packets of several flows in their common class; `fq` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<SharedLeaf>,
}

/// Rule that makes subscribers of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PerDraft {
    /// Every node of the mesh except the gateway.
    Node,
}

/// `[[subscriber]]`: one subscriber.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriberDraft {
    /// Name; by default that of its node, if it has one node and no `flows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes of the mesh; their flows through the gateway belong to the subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Name>>,
    /// Names of flows that belong to the subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<String>>,
    /// Share relative to other subscribers, in each direction; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Maximum rate downstream, in IP bytes.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub down: Option<BitRate>,
    /// Maximum rate upstream, in IP bytes.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub up: Option<BitRate>,
    /// Guaranteed minimum downstream, in IP bytes.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub guarantee_down: Option<BitRate>,
    /// Guaranteed minimum upstream, in IP bytes.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub guarantee_up: Option<BitRate>,
}
