//! NetJSON NetworkGraph (netjson.org, draft 00), alone or in a NetworkCollection.

use core::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::channels::around;
use super::json::{Object, Properties, flag, json, number, text};
use super::location::location;
use super::map::{Map, MapLink, MapNode, OnAir};
use super::metric::{Metric, Quality};
use super::notes::Notes;
use super::{ImportOptions, Result};
use crate::error::{KeyPath, Override, Problem, ScenarioError};
use crate::name::Name;
use crate::resolve::{VALID_CHANNELS, room_of};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    r#type: Value,
    #[serde(default)]
    protocol: Value,
    #[serde(default)]
    metric: Value,
    #[serde(default)]
    router_id: Value,
    #[serde(default)]
    topology_id: Value,
    #[serde(default)]
    label: Value,
    #[serde(default)]
    nodes: Option<Vec<Object<FileNode>>>,
    #[serde(default)]
    links: Option<Vec<Object<FileLink>>>,
    #[serde(default)]
    collection: Option<Vec<Object<File>>>,
}

#[derive(Deserialize)]
struct FileNode {
    id: Name,
    #[serde(default)]
    label: Value,
    #[serde(default)]
    local_addresses: Value,
    #[serde(default)]
    properties: Properties<NodeProperties>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeProperties {
    /// Degrees, see [`location`].
    location: Value,
    /// Device model.
    model: Value,
    /// Channel number of its radio.
    channel: Value,
    /// Channel numbers of several radios.
    channels: Value,
    /// Centre frequency of its radio's channel, MHz.
    frequency: Value,
    /// OLSRv2: `local`, `node`, `lan` or `attached`.
    r#type: Value,
    /// OLSRv2: id of the router; for a prefix, of the router that announces it.
    router_id: Value,
    /// OLSRv2: its address.
    router_addr: Value,
    /// Further addresses.
    addresses: Value,
    /// Marks a gateway.
    is_gateway: Value,
    /// Marks a gateway, or names the gateway that the node uses.
    gateway: Value,
    /// A name.
    hostname: Value,
}

#[derive(Deserialize)]
struct FileLink {
    source: Name,
    target: Name,
    #[serde(default)]
    cost: Option<Cost>,
    #[serde(default)]
    cost_text: Value,
    #[serde(default)]
    properties: Properties<LinkProperties>,
}

/// A number, or a name of infinity.
struct Cost(f64);

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Numbers;
        impl serde::de::Visitor<'_> for Numbers {
            type Value = Cost;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E: serde::de::Error>(self, cost: f64) -> std::result::Result<Cost, E> {
                Ok(Cost(cost))
            }
            fn visit_u64<E: serde::de::Error>(self, cost: u64) -> std::result::Result<Cost, E> {
                Ok(Cost(cost as f64))
            }
            fn visit_i64<E: serde::de::Error>(self, cost: i64) -> std::result::Result<Cost, E> {
                Ok(Cost(cost as f64))
            }
            fn visit_str<E: serde::de::Error>(self, cost: &str) -> std::result::Result<Cost, E> {
                match is_infinite(cost) {
                    true => Ok(Cost(UNREACHABLE_COST)),
                    false => Err(E::invalid_type(serde::de::Unexpected::Str(cost), &self)),
                }
            }
        }
        d.deserialize_any(Numbers)
    }
}

/// A cost above every protocol's infinity.
const UNREACHABLE_COST: f64 = 1e300;

/// Returns true for the names of an infinite cost in olsrd and others.
fn is_infinite(text: &str) -> bool {
    let word = text.trim().to_ascii_lowercase();
    matches!(word.as_str(), "infinite" | "infinity" | "inf" | "∞" | "broken")
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LinkProperties {
    /// Delivery probability from source to target, if the file has it.
    tq: Value,
    /// Mean power of the source at the target, in dBm.
    signal: Value,
    /// Throughput expected by the source's rate control, in Mbit/s.
    throughput: Value,
    /// Channel number.
    channel: Value,
    /// Centre frequency of the channel, MHz.
    frequency: Value,
}

/// Reads properties of a node or link, and counts the ignored values.
struct Reader<'a> {
    notes: &'a mut Notes,
    /// The node or link, for the notes.
    owner: String,
}

impl Reader<'_> {
    /// Returns a valid number; others are counted.
    fn number(
        &mut self,
        key: &str,
        value: &Value,
        expected: &str,
        passes: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        match number(value) {
            Ok(None) => None,
            Ok(Some(n)) if passes(n) => {
                if value.is_string() {
                    let kind =
                        format!("of `{key}` are numbers written as text and read as numbers");
                    self.notes.add(kind, || format!("{value} of {}", self.owner));
                }
                Some(n)
            }
            _ => {
                self.notes.foreign(key, expected, value, &self.owner);
                None
            }
        }
    }

    fn text(&mut self, key: &str, value: Value) -> Option<String> {
        match value {
            Value::Array(_) | Value::Object(_) | Value::Bool(_) => {
                self.notes.foreign(key, "a text", &value, &self.owner);
                None
            }
            value => text(value).ok().flatten(),
        }
    }

    /// Returns the texts of a list, or a single text.
    fn texts(&mut self, key: &str, value: Value) -> Vec<String> {
        match value {
            Value::Array(all) => all.into_iter().filter_map(|v| self.text(key, v)).collect(),
            other => self.text(key, other).into_iter().collect(),
        }
    }

    fn channel_number(&mut self, key: &str, value: &Value) -> Option<u32> {
        let is = |n: f64| n.fract() == 0.0 && (0.0..1e4).contains(&n);
        let known = |n: f64| is(n) && room_of(n as u32).is_some();
        self.number(key, value, VALID_CHANNELS, known).map(|n| n as u32)
    }

    /// Returns the channel by its number or its frequency, unless the two differ.
    fn channel(&mut self, of: &str, channel: &Value, frequency: &Value) -> Option<u32> {
        let number = self.channel_number(&format!("{of}.properties.channel"), channel);
        let key = format!("{of}.properties.frequency");
        let known = |mhz: f64| around(mhz).is_some_and(|c| room_of(c).is_some());
        let expected = "MHz of a channel at 2.4 or 5 GHz, such as 2412 or 5180";
        let by_mhz = self.number(&key, frequency, expected, known).and_then(around);
        match (number, by_mhz) {
            (Some(a), Some(b)) if a != b => {
                let kind = format!("of `{key}` and `channel` left out (expected the same channel)");
                self.notes.add(kind, || {
                    format!("{frequency} MHz is channel {b}, not {a}, of {}", self.owner)
                });
                None
            }
            (a, b) => a.or(b),
        }
    }

    fn flag(&mut self, key: &str, value: &Value) -> bool {
        flag(value).unwrap_or_else(|()| {
            self.notes.foreign(key, "true or false", value, &self.owner);
            None
        }) == Some(true)
    }
}

/// Parses a prefix in CIDR notation: address and length.
fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.trim().split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length = length.parse().ok()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// Returns the length of a node's prefix; `None` for a router.
///
/// OLSRv2 lists the networks behind routers (`lan`, `attached`) as nodes of the graph.
fn prefix_length(id: &Name, label: Option<&str>, kind: &str, olsr2: bool) -> Option<u8> {
    let own = id.as_str().rsplit('_').next().unwrap_or_default();
    let named = label.and_then(prefix).or_else(|| prefix(id.as_str())).or_else(|| prefix(own));
    let behind = ["lan", "attached"].iter().any(|k| kind.eq_ignore_ascii_case(k));
    match named {
        Some((_, length)) if behind => Some(length),
        // The address of a router may be written with the full length.
        Some((address, length)) if length < if address.is_ipv4() { 32 } else { 128 } => {
            Some(length)
        }
        None if behind && olsr2 => Some(32),
        _ => None,
    }
}

/// Returns the graph of a file: its only one, or the one selected by the options.
fn chosen(file: File, options: &ImportOptions) -> Result<(File, KeyPath)> {
    let mut graphs = Vec::new();
    collect(file, KeyPath::root(), &mut graphs);
    let names: Vec<String> = graphs.iter().enumerate().map(|(i, g)| graph_name(i, &g.0)).collect();
    let list = || names.join(", ");
    let refuse = |what: String, expected| {
        let given = Override { key: "graph".into(), by: "graph".to_owned() };
        let e = ScenarioError::at("graph".into(), Problem::refused(what, expected));
        Err(if options.graph.is_some() { e.caused_by(given) } else { e })
    };
    let at = match &options.graph {
        None if graphs.len() > 1 => {
            let what = format!("the collection has {} graphs", graphs.len());
            return refuse(what, format!("the choice of one: {}", list()));
        }
        None => 0,
        Some(wanted) => {
            let wanted = wanted.trim();
            let is = |i: usize| {
                let g = &graphs[i].0;
                let own = [&g.topology_id, &g.label, &g.router_id, &g.protocol];
                own.iter()
                    .any(|v| v.as_str().is_some_and(|t| t.trim().eq_ignore_ascii_case(wanted)))
                    || wanted == (i + 1).to_string()
            };
            let found: Vec<usize> = (0..graphs.len()).filter(|&i| is(i)).collect();
            match found[..] {
                [one] => one,
                [] => {
                    let what = format!("there is no graph \"{wanted}\"");
                    return refuse(what, format!("one of: {}", list()));
                }
                _ => {
                    let what = format!("{} graphs are named \"{wanted}\"", found.len());
                    let expected = format!("one by its number, 1 to {}: {}", graphs.len(), list());
                    return refuse(what, expected);
                }
            }
        }
    };
    if graphs.is_empty() {
        let problem = Problem::refused(
            "the collection has no graph",
            "a NetJSON NetworkGraph in `collection`",
        );
        return Err(ScenarioError::at("collection".into(), problem));
    }
    Ok(graphs.swap_remove(at))
}

/// Collects the graphs of a file, including those of nested collections.
fn collect(file: File, key: KeyPath, graphs: &mut Vec<(File, KeyPath)>) {
    match file.r#type.as_str() {
        Some("NetworkGraph") => graphs.push((file, key)),
        Some("NetworkCollection") => {
            for (i, Object(member)) in file.collection.into_iter().flatten().enumerate() {
                collect(member, key.clone().key("collection").index(i), graphs);
            }
        }
        _ => {}
    }
}

/// Returns the number of a graph and its identifiers.
fn graph_name(i: usize, graph: &File) -> String {
    let words = [&graph.topology_id, &graph.label, &graph.router_id, &graph.protocol];
    let words: Vec<&str> =
        words.iter().filter_map(|v| v.as_str()).filter(|t| !t.trim().is_empty()).collect();
    format!("{} ({})", i + 1, words.join(", "))
}

pub(super) fn read(source: &str, options: &ImportOptions) -> Result<Map> {
    let Object(file) = json::<Object<File>>(source)?;
    let (file, root) = chosen(file, options)?;
    let missing = |key: &str| ScenarioError::at(root.clone(), Problem::MissingKey(key.into()));
    let nodes = file.nodes.ok_or_else(|| missing("nodes"))?;
    let links = file.links.ok_or_else(|| missing("links"))?;
    let mut map = Map::new(file.label.as_str().map(str::to_owned));
    let mut notes = Notes::default();
    let mut top = Reader { notes: &mut notes, owner: "the graph".to_owned() };
    let metric = top.text("metric", file.metric).unwrap_or_default();
    let protocol = top.text("protocol", file.protocol).unwrap_or_default();
    map.uplinks.extend(top.text("router_id", file.router_id).map(Name::from));
    let olsr2 = Metric::guess("", &protocol, &[]) == Some(Metric::Olsr2);
    for (i, Object(node)) in nodes.into_iter().enumerate() {
        let key = root.clone().key("nodes").index(i);
        add_node(&mut map, &mut notes, node, olsr2, key)?;
    }
    map.check_addresses(&root.clone().key("nodes"), "local_addresses")?;
    let requested = options.metric;
    let costs: Vec<f64> = links.iter().filter_map(|l| l.0.cost.as_ref().map(|c| c.0)).collect();
    let meaning = requested.or_else(|| Metric::guess(&metric, &protocol, &costs));
    match (meaning, meaning.and_then(Metric::unit)) {
        (None, _) => map.warnings.push(format!(
            "the metric \"{metric}\" is not known: every link without `properties.tq` counts as perfect"
        )),
        (Some(Metric::Olsr2), _) if requested.is_none() => map.warnings.push(
            "costs of OLSRv2 do not give a delivery probability: every link without `properties.tq` counts as perfect"
                .to_owned(),
        ),
        (_, Some(unit)) if requested.is_none() => {
            map.warnings.push(format!("the costs of links are read as throughputs in {unit}"));
        }
        _ => {}
    }
    let metric = meaning.unwrap_or(Metric::None);
    for (i, Object(link)) in links.into_iter().enumerate() {
        let key = root.clone().key("links").index(i);
        add_link(&mut map, &mut notes, link, metric, key)?;
    }
    map.notes(notes);
    Ok(map)
}

fn add_node(
    map: &mut Map,
    notes: &mut Notes,
    node: FileNode,
    olsr2: bool,
    key: KeyPath,
) -> Result<()> {
    let p = node.properties.0.unwrap_or_default();
    let mut reader = Reader { notes, owner: format!("node \"{}\"", node.id) };
    let label = reader.text("nodes.label", node.label);
    let kind = p.r#type.as_str().unwrap_or_default();
    let owner = reader.text("nodes.properties.router_id", p.router_id);
    if let Some(length) = prefix_length(&node.id, label.as_deref(), kind, olsr2) {
        map.add_prefix(node.id, length == 0, owner);
        return Ok(());
    }
    let mut channels: Vec<u32> = match &p.channels {
        Value::Array(all) => {
            let key = "nodes.properties.channels";
            all.iter().filter_map(|c| reader.channel_number(key, c)).collect()
        }
        one => reader.channel_number("nodes.properties.channels", one).into_iter().collect(),
    };
    channels.extend(reader.channel("nodes", &p.channel, &p.frequency));
    let addresses = reader.texts("nodes.local_addresses", node.local_addresses);
    let mut names: Vec<String> = label.into_iter().chain(owner).collect();
    names.extend(reader.text("nodes.properties.router_addr", p.router_addr));
    names.extend(reader.text("nodes.properties.hostname", p.hostname));
    names.extend(reader.texts("nodes.properties.addresses", p.addresses));
    if reader.flag("nodes.properties.is_gateway", &p.is_gateway) {
        map.gateways.push(node.id.clone());
    }
    // A boolean marks a gateway; another value names the gateway used.
    match flag(&p.gateway) {
        Ok(Some(true)) => map.gateways.push(node.id.clone()),
        Ok(_) => {}
        Err(()) => map.used_gateways.extend(text(p.gateway).ok().flatten().map(Name::from)),
    }
    let location = location(&p.location, "nodes.properties.location", &reader.owner, reader.notes);
    let model = reader.text("nodes.properties.model", p.model);
    map.add_node(
        MapNode { id: node.id, addresses, names, location, model, channels },
        key.key("id"),
    )
}

fn add_link(
    map: &mut Map,
    notes: &mut Notes,
    link: FileLink,
    metric: Metric,
    key: KeyPath,
) -> Result<()> {
    let p = link.properties.0.unwrap_or_default();
    let owner = format!("link \"{}\" to \"{}\"", link.source, link.target);
    let mut reader = Reader { notes, owner };
    if map.is_prefix(&link.source) || map.is_prefix(&link.target) {
        map.add_prefix_link(&link.source, &link.target);
        return Ok(());
    }
    let at = |name: &str| format!("links.properties.{name}");
    let tq = reader.number(&at("tq"), &p.tq, "0 to 1, or 0 to 255", |v| (0.0..=255.0).contains(&v));
    let signal =
        reader.number(&at("signal"), &p.signal, "-120 to 30 dBm", |v| (-120.0..=30.0).contains(&v));
    let expected = "Mbit/s above 0, at most 100000";
    let mut throughput =
        reader.number(&at("throughput"), &p.throughput, expected, |v| v > 0.0 && v <= 1e5);
    let channel = reader.channel("links", &p.channel, &p.frequency);
    let cost = link.cost.map(|c| c.0);
    // A number has priority over the text.
    let infinite = cost.is_none() && link.cost_text.as_str().is_some_and(is_infinite);
    let quality = match (tq, cost) {
        _ if infinite => Quality::Dead,
        // A link at its protocol's infinity is not in use, regardless of its quality.
        (_, Some(cost)) if metric.quality(cost) == Some(Quality::Dead) => Quality::Dead,
        (Some(tq), _) => tq_quality(tq),
        (None, Some(cost)) => metric.quality(cost).ok_or_else(|| {
            let problem = Problem::range(cost, metric.expected());
            ScenarioError::at(key.clone().key("cost"), problem)
        })?,
        (None, None) => {
            let kind = "of `links.cost` are missing: these links count as perfect";
            reader.notes.add(kind, || reader.owner.clone());
            Quality::Radio(1.0)
        }
    };
    throughput = throughput.or(cost.and_then(|c| metric.mbit(c)));
    let radio = OnAir { signal, throughput, channel };
    let (source, target) = (link.source, link.target);
    map.add_link(MapLink { source, target, quality, back: None, radio }, key)
}

/// Returns the quality of a `tq`: 0 to 1, or 0 to 255.
fn tq_quality(tq: f64) -> Quality {
    let metric = if tq > 1.0 { Metric::Tq255 } else { Metric::Tq };
    metric.quality(tq).unwrap_or(Quality::Dead)
}
