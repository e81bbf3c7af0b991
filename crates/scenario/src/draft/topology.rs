//! `[topology]`, `[[node]]` and `[[link]]`.

use core::fmt;

use fairmesh_units::{BitRate, Distance, Frequency, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::QueueDraft;
use crate::error::KeyPath;
use crate::name::Name;
use crate::scenario::NodeKind;
use crate::text;

/// `[topology]`: exactly one of `chain`, `grid`, `random`, `tree`, `cell`, `positions`, `links`; or
/// none, where every `[[node]]` has a position.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopologyDraft {
    /// Nodes 0, 1, … in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainLayout>,
    /// Nodes in rows, 0 in the corner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<GridLayout>,
    /// Nodes at random places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomLayout>,
    /// Branches around a gateway `gw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeLayout>,
    /// One access point `ap` and stations 1, 2, … that all hear each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellLayout>,
    /// Places of nodes 0, 1, …: x and y in metres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<[f64; 2]>>,
    /// Who decodes whom: pairs for both directions, or tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<LinkEntry>>,
    /// Pairs that sense and disturb each other without decoding, beside `links`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub senses: Vec<[Name; 2]>,
    /// 1: only linked nodes sense each other. 2: nodes two links apart do so too. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sense_hops: Option<u32>,
    /// The node that joins the mesh to the wired world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Name>,
    /// In place of `gateway`: several, all of them joined to the same wired world. Every node goes through the
    /// nearest as `routing` counts, of equals the first of this list, unless its `[[node]]` names one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<Name>,
    /// What a route minimises.
    pub routing: Routing,
    /// The radios of nodes that name none, by name; all by default. `main` is `[radio]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radios: Option<Vec<String>>,
    /// Where two nodes have several radios in common, routes take them in turn: the first for links at the gateway, the
    /// next for those one hop on, and so forth. False by default: every route takes what costs it least.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub alternate: bool,
}

impl TopologyDraft {
    /// The gateways as they are written, each with its key.
    pub(crate) fn all_gateways(&self) -> impl Iterator<Item = (&Name, KeyPath)> {
        let one = self.gateway.iter().map(|name| (name, KeyPath::from("topology.gateway")));
        let key = |i| KeyPath::from("topology.gateways").index(i);
        one.chain(self.gateways.iter().enumerate().map(move |(i, name)| (name, key(i))))
    }
}

/// What a route minimises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// The number of links and wires.
    #[default]
    Hops,
    /// Expected transmissions, 1 / (delivery forward × delivery back) per link.
    Etx,
    /// Airtime: a frame of 1024 bytes with its overhead, by the link's rate, over its delivery there and back.
    Airtime,
}

/// Nodes 0 to `hops` in a line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainLayout {
    /// Links end to end: one fewer than nodes.
    pub hops: u32,
    /// Distance between neighbours; 200 m by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub spacing: Option<Distance>,
}

/// Nodes row by row: node `columns × row + column`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridLayout {
    /// Rows, along y.
    pub rows: u32,
    /// Columns, along x.
    pub columns: u32,
    /// Distance between neighbours; 200 m by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub spacing: Option<Distance>,
}

/// Nodes 0, 1, … uniformly over a rectangle.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomLayout {
    /// How many.
    pub nodes: u32,
    /// Extent along x.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub width: Distance,
    /// Extent along y; `width` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub height: Option<Distance>,
    /// Seed of the placement, apart from the run's; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// Draw again until every node reaches every other; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
}

/// Branches around a gateway `gw`: `s1`, `s2`, … one hop away, `m1`, … two hops, then `t3.1`, ….
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeLayout {
    /// Branches of the gateway.
    pub branches: u32,
    /// Hops from the gateway to the end of each branch; 2 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Nodes one hop from the gateway are linked with each other too; false by default.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub meshed: bool,
}

/// One access point and its stations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellLayout {
    /// Stations 1 to this.
    pub stations: u32,
}

/// A link of `topology.links`: a pair, or a table.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum LinkEntry {
    /// Both directions, at the radio's rate, without loss.
    Pair([Name; 2]),
    /// With details.
    Table(LinkDraft),
}

impl<'de> Deserialize<'de> for LinkEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = LinkEntry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair of node names such as [1, 2], or a table with `from` and `to`")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<LinkEntry, A::Error> {
                let pair = <[Name; 2]>::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                Ok(LinkEntry::Pair(pair))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<LinkEntry, A::Error> {
                LinkDraft::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(LinkEntry::Table)
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl JsonSchema for LinkEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LinkEntry".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let name = g.subschema_for::<Name>();
        let table = g.subschema_for::<LinkDraft>();
        json_schema!({ "anyOf": [
            { "type": "array", "items": name, "minItems": 2, "maxItems": 2 },
            table,
        ] })
    }
}

/// A link with details.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDraft {
    /// One end; the transmitter where the link is directed.
    pub from: Name,
    /// The other end.
    pub to: Name,
    /// The kind of radio that it runs on; by default there is one on each that both ends have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<String>,
    /// Data rate; the radio's by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// MCS of its data with 802.11n, ac or ax; the radio's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// Its spatial streams; the radio's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u8>,
    /// Width of its frames; the radio's by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Frequency>")]
    pub width: Option<Frequency>,
    /// Its guard interval; the radio's by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub guard: Option<Span>,
    /// Probability that a data frame arrives, collisions apart; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<f64>,
    /// The same in the other direction; as `delivery` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_back: Option<f64>,
    /// Mean received power, dBm: what `radio.errors.snr` and the capture margin go by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<f64>,
    /// The same in the other direction; as `signal` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_back: Option<f64>,
    /// Only `from` to `to`.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub directed: bool,
}

impl LinkDraft {
    /// Both directions, without details.
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        LinkDraft {
            from: from.into(),
            to: to.into(),
            radio: None,
            rate: None,
            mcs: None,
            streams: None,
            width: None,
            guard: None,
            delivery: None,
            delivery_back: None,
            signal: None,
            signal_back: None,
            directed: false,
        }
    }
}

/// `[[node]]`: details of one node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDraft {
    /// Its name.
    pub id: Name,
    /// Its place, x and y in metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<[f64; 2]>,
    /// `wireless` by default; a `wired` host has wires only.
    #[serde(default)]
    pub kind: NodeKind,
    /// The one of `topology.gateways` that its traffic goes through; the nearest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Name>,
    /// Its radios, by name; `topology.radios` by default. Its flows begin and end at the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radios: Option<Vec<String>>,
    /// Queue of its wireless interface; the radio's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueDraft>,
    /// Airtime that its neighbours give it, to that of others, where their queue shares airtime out; 1 by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub airtime_weight: Option<f64>,
}

impl NodeDraft {
    /// A wireless node without further details.
    pub fn new(id: impl Into<Name>) -> Self {
        NodeDraft {
            id: id.into(),
            position: None,
            kind: NodeKind::Wireless,
            gateway: None,
            radios: None,
            queue: None,
            airtime_weight: None,
        }
    }
}
