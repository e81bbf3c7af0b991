//! `[subscribers]` and `[[subscriber]]`: whose flows are one to a gateway.

use fairmesh_units::BitRate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::scenario::SharedLeaf;
use crate::text;

/// `[subscribers]`: what holds for all of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubscribersDraft {
    /// `node`: every node of the mesh is a subscriber, with all its flows through the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<PerDraft>,
    /// How packets of several flows wait in the class that they share; `fq` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<SharedLeaf>,
}

/// Who is a subscriber without being named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PerDraft {
    /// Every node of the mesh but the gateway.
    Node,
}

/// `[[subscriber]]`: one of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriberDraft {
    /// Name; that of its node where it has one node and no `flows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes of the mesh whose flows through the gateway are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Name>>,
    /// Names of flows that are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<String>>,
    /// Share relative to other subscribers, in each direction; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// At most this downstream, in IP bytes.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub down: Option<BitRate>,
    /// At most this upstream, in IP bytes.
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
