//! NetJSON NetworkGraph (netjson.org, draft 00).

use serde::Deserialize;

use super::channels::around;
use super::map::{Map, MapLink, MapNode, OnAir};
use super::metric::{Metric, Quality};
use super::{Result, json};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;
use crate::resolve::{CHANNELS, room_of};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    metric: Option<String>,
    #[serde(default)]
    router_id: Option<Name>,
    #[serde(default)]
    label: Option<String>,
    nodes: Vec<FileNode>,
    links: Vec<FileLink>,
}

#[derive(Deserialize)]
struct FileNode {
    id: Name,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    local_addresses: Option<Vec<String>>,
    #[serde(default)]
    properties: Option<NodeProperties>,
}

#[derive(Deserialize)]
struct NodeProperties {
    #[serde(default)]
    location: Option<Location>,
    /// What the device is.
    #[serde(default)]
    model: Option<String>,
    /// Channel number of its radio.
    #[serde(default)]
    channel: Option<u32>,
    /// Those of several radios.
    #[serde(default)]
    channels: Vec<u32>,
    /// The middle of its radio's channel, MHz.
    #[serde(default)]
    frequency: Option<f64>,
}

impl NodeProperties {
    /// The channels that it names.
    fn on(&self, key: &KeyPath) -> Result<Vec<u32>> {
        let key = key.clone().key("properties");
        let mut all = self.channels.clone();
        for (i, channel) in self.channels.iter().enumerate() {
            check_channel(*channel, key.clone().key("channels").index(i))?;
        }
        all.extend(channel(self.channel, self.frequency, &key)?);
        Ok(all)
    }
}

fn check_channel(number: u32, key: KeyPath) -> Result<()> {
    match room_of(number) {
        Some(_) => Ok(()),
        None => Err(ScenarioError::at(key, Problem::range(number, CHANNELS))),
    }
}

/// The channel that is named by its number or its frequency, not by two that differ.
fn channel(number: Option<u32>, mhz: Option<f64>, key: &KeyPath) -> Result<Option<u32>> {
    if let Some(number) = number {
        check_channel(number, key.clone().key("channel"))?;
    }
    let Some(mhz) = mhz else { return Ok(number) };
    let problem = match around(mhz).filter(|c| room_of(*c).is_some()) {
        None => Problem::range(mhz, "MHz of a channel, such as 2412 or 5180"),
        Some(c) if number.is_some_and(|n| n != c) => Problem::refused(
            format!("{mhz} MHz is channel {c}"),
            "the frequency of `channel`, or one of the two",
        ),
        found => return Ok(found),
    };
    Err(ScenarioError::at(key.clone().key("frequency"), problem))
}

#[derive(Deserialize)]
struct Location {
    #[serde(default, alias = "latitude")]
    lat: Option<f64>,
    #[serde(default, alias = "longitude", alias = "lon")]
    lng: Option<f64>,
}

#[derive(Deserialize)]
struct FileLink {
    source: Name,
    target: Name,
    #[serde(default)]
    cost: Option<f64>,
    #[serde(default)]
    properties: Option<LinkProperties>,
}

#[derive(Deserialize)]
struct LinkProperties {
    /// The delivery probability from source to target, where the file knows it.
    #[serde(default)]
    tq: Option<f64>,
    /// Mean power of the source at the target, dBm.
    #[serde(default)]
    signal: Option<f64>,
    /// What the source's rate control expects of it, Mbit/s.
    #[serde(default)]
    throughput: Option<f64>,
    /// Channel number.
    #[serde(default)]
    channel: Option<u32>,
    /// The middle of the channel, MHz.
    #[serde(default)]
    frequency: Option<f64>,
}

impl LinkProperties {
    fn radio(&self, key: &KeyPath) -> Result<OnAir> {
        let LinkProperties { signal, throughput, .. } = *self;
        let fail = |name, problem| {
            Err(ScenarioError::at(key.clone().key("properties").key(name), problem))
        };
        let channel = channel(self.channel, self.frequency, &key.clone().key("properties"))?;
        match (signal, throughput) {
            (Some(dbm), _) if !(-120.0..=30.0).contains(&dbm) => {
                fail("signal", Problem::range(dbm, "-120 to 30 dBm"))
            }
            (_, Some(mbit)) if !(mbit > 0.0 && mbit <= 1e5) => {
                fail("throughput", Problem::range(mbit, "Mbit/s above 0, at most 100000"))
            }
            _ => Ok(OnAir { signal, throughput, channel }),
        }
    }
}

pub(super) fn read(text: &str, metric: Option<Metric>) -> Result<Map> {
    let file: File = json(text)?;
    let mut map = Map::new(file.label);
    map.uplinks.extend(file.router_id);
    for (i, node) in file.nodes.into_iter().enumerate() {
        let key = KeyPath::from("nodes").index(i);
        let channels = node.properties.as_ref().map_or(Ok(Vec::new()), |p| p.on(&key))?;
        let (location, model) = node.properties.map_or((None, None), |p| (p.location, p.model));
        let mut aliases: Vec<String> = node.local_addresses.unwrap_or_default();
        aliases.extend(node.label);
        map.add_node(
            MapNode {
                id: node.id,
                aliases,
                location: location.and_then(|l| l.lat.zip(l.lng)),
                model,
                channels,
            },
            key.key("id"),
        )?;
    }
    let metric = metric.or_else(|| {
        let costs: Vec<f64> = file.links.iter().filter_map(|l| l.cost).collect();
        let (name, protocol) = (file.metric.as_deref(), file.protocol.as_deref());
        Metric::guess(name.unwrap_or_default(), protocol.unwrap_or_default(), &costs)
    });
    if metric.is_none() {
        map.warnings.push(format!(
            "the metric \"{}\" is not known: every link without `properties.tq` counts as perfect",
            file.metric.unwrap_or_default()
        ));
    }
    let metric = metric.unwrap_or(Metric::None);
    for (i, link) in file.links.into_iter().enumerate() {
        let key = KeyPath::from("links").index(i);
        let mut radio = link.properties.as_ref().map_or(Ok(OnAir::default()), |p| p.radio(&key))?;
        let tq = link.properties.and_then(|p| p.tq);
        let (quality, value, cost_key) = match (tq, link.cost) {
            (Some(tq), _) => (tq_quality(tq), tq, "properties.tq"),
            (None, Some(cost)) => (metric.quality(cost), cost, "cost"),
            (None, None) => (Some(Quality::Radio(1.0)), 1.0, "cost"),
        };
        let Some(quality) = quality else {
            let expected = if tq.is_some() { Metric::Tq } else { metric }.expected();
            return Err(ScenarioError::at(key.key(cost_key), Problem::range(value, expected)));
        };
        if let (Metric::Throughput, Some(mbit)) = (metric, link.cost.filter(|c| *c > 0.0)) {
            radio.throughput = radio.throughput.or(Some(mbit));
        }
        let (source, target) = (link.source, link.target);
        map.add_link(MapLink { source, target, quality, back: None, radio }, key)?;
    }
    Ok(map)
}

fn tq_quality(tq: f64) -> Option<Quality> {
    let metric = if tq > 1.0 { Metric::Tq255 } else { Metric::Tq };
    metric.quality(tq)
}
