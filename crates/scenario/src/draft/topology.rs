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

/// `[topology]`: one of `chain`, `grid`, `random`, `tree`, `cell`, `positions`, `links`.
///
/// It has none of them if every `[[node]]` has a position.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopologyDraft {
    /// Nodes 0, 1, … in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainLayout>,
    /// Nodes in rows, 0 in the corner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<GridLayout>,
    /// Nodes at random positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomLayout>,
    /// Branches around a gateway `gw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeLayout>,
    /// An access point `ap` and stations 1, 2, … in range of each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellLayout>,
    /// Positions of nodes 0, 1, …: x and y in metres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<[f64; 2]>>,
    /// Links that decode: pairs for both directions, or tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<LinkEntry>>,
    /// Pairs that sense and disturb each other without decoding, in addition to `links`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub senses: Vec<[Name; 2]>,
    /// 1: only linked nodes sense each other. 2: nodes two links apart do, too. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sense_hops: Option<u32>,
    /// Node that connects the mesh to the wired world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Name>,
    /// Several gateways instead of `gateway`, all connected to the same wired world.
    ///
    /// Every node uses the nearest by `routing`, the first of this list among equals, unless its
    /// `[[node]]` names one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<Name>,
    /// Metric that routes minimise.
    pub routing: Routing,
    /// Default radios of nodes, by name; all by default. `main` is `[radio]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radios: Option<Vec<String>>,
    /// True if routes alternate between the radios that two nodes have in common.
    ///
    /// The first serves links at the gateway, the next those one hop away, and so on. False by default:
    /// routes minimise their cost.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub alternate: bool,
}

impl TopologyDraft {
    /// Returns the gateways as written, each with its key.
    pub(crate) fn all_gateways(&self) -> impl Iterator<Item = (&Name, KeyPath)> {
        let one = self.gateway.iter().map(|name| (name, KeyPath::from("topology.gateway")));
        let key = |i| KeyPath::from("topology.gateways").index(i);
        one.chain(self.gateways.iter().enumerate().map(move |(i, name)| (name, key(i))))
    }
}

/// Metric that routes minimise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// The number of links and wires.
    #[default]
    Hops,
    /// Expected transmissions, 1 / (delivery forward × delivery back) per link.
    Etx,
    /// Airtime of a frame of 1024 bytes with its overhead, by the link's rate.
    ///
    /// It is divided by the link's delivery in both directions.
    Airtime,
}

/// Nodes 0 to `hops` in a line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainLayout {
    /// Number of links, one less than nodes.
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
    /// Number of nodes.
    pub nodes: u32,
    /// Extent along x.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub width: Distance,
    /// Extent along y; `width` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Distance>")]
    pub height: Option<Distance>,
    /// Seed of the placement, separate from the run's; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// True to draw again until every node reaches every other; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
}

/// Branches around a gateway `gw`:
/// `s1`, `s2`, … one hop away, `m1`, … two hops, then `t3.1`, ….
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeLayout {
    /// Branches of the gateway.
    pub branches: u32,
    /// Hops from the gateway to the end of each branch; 2 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// True if nodes one hop from the gateway are linked with each other; false by default.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub meshed: bool,
}

/// An access point and its stations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellLayout {
    /// Number of stations, which are named 1, 2, ….
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
    /// One end; the transmitter if the link is directed.
    pub from: Name,
    /// The other end.
    pub to: Name,
    /// Kind of radio that it uses; by default a link on each kind that both ends have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radio: Option<String>,
    /// Data rate; the radio's by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// MCS of its data with 802.11n, ac or ax; the radio's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// Spatial streams of the link; the radio's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u8>,
    /// Width of its frames; the radio's by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Frequency>")]
    pub width: Option<Frequency>,
    /// Guard interval of the link; the radio's by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub guard: Option<Span>,
    /// Probability that a data frame arrives, without collisions; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<f64>,
    /// `delivery` in the other direction; equal by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_back: Option<f64>,
    /// Mean received power, dBm, for `radio.errors.snr` and the capture margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<f64>,
    /// `signal` in the other direction; equal by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_back: Option<f64>,
    /// True: only `from` to `to`.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub directed: bool,
}

impl LinkDraft {
    /// Returns a link in both directions, without details.
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

/// `[[node]]`: details of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDraft {
    /// Name of the node.
    pub id: Name,
    /// Position, x and y in metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<[f64; 2]>,
    /// `wireless` by default; a `wired` host has wires only.
    #[serde(default)]
    pub kind: NodeKind,
    /// One of `topology.gateways` for its traffic; the nearest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Name>,
    /// Radios of the node, by name; `topology.radios` by default. Its flows use the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radios: Option<Vec<String>>,
    /// Queue of its wireless interface; the radio's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueDraft>,
    /// Airtime weight at its neighbours, if their queue shares airtime; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub airtime_weight: Option<f64>,
}

impl NodeDraft {
    /// Returns a wireless node without further details.
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
