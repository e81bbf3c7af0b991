//! A map, whatever its format, into a [`Draft`].

mod gateways;

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_units::Span;

use super::channels::{Channels, Places};
use super::graph::hops;
use super::metric::Quality;
use super::radios::{Directed, Heard, Radios};
use super::{ImportOptions, Result};
use crate::draft::{
    Draft, FlowsDraft, LinkDraft, LinkEntry, NodeDraft, PerDraft, Routing, SubscribersDraft,
    TopologyDraft, WireDraft,
};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;

/// Mean radius of the Earth, m.
const EARTH: f64 = 6_371_008.8;
/// Names that a warning lists.
const LISTED: usize = 10;
/// A routing daemon keeps no link of which less arrives, so a map with such links is no snapshot of routes.
const IMPLAUSIBLE: f64 = 0.05;

/// A router of a map.
pub(super) struct MapNode {
    pub id: Name,
    /// Other names that a user may know it by.
    pub aliases: Vec<String>,
    /// Degrees north and east.
    pub location: Option<(f64, f64)>,
    /// What the device is.
    pub model: Option<String>,
    /// Channels that its radios are on; nothing where it does not say.
    pub channels: Vec<u32>,
}

/// A link of a map, as one entry of the file.
pub(super) struct MapLink {
    pub source: Name,
    pub target: Name,
    pub quality: Quality,
    /// The other direction, where the entry has it.
    pub back: Option<Quality>,
    /// What the entry says of its radio; of the direction from source to target.
    pub radio: OnAir,
}

/// What a map says of a link beside its quality.
#[derive(Clone, Copy, Default)]
pub(super) struct OnAir {
    /// Mean received power, dBm.
    pub signal: Option<f64>,
    /// Expected throughput, Mbit/s.
    pub throughput: Option<f64>,
    /// Channel number.
    pub channel: Option<u32>,
}

/// What is known of an unordered pair; `.0` in ascending order of index, `.1` in descending.
#[derive(Clone, Copy, Default)]
struct Pair(Option<Heard>, Option<Heard>);

impl Pair {
    /// A direction of which nothing is said is as the other.
    fn both(&self) -> Option<(Heard, Heard)> {
        Some((self.0.or(self.1)?, self.1.or(self.0)?))
    }
}

/// Keeps the better of two; whether there were two.
fn best(known: &mut Option<Heard>, heard: Heard) -> bool {
    match known {
        Some(known) => {
            if heard.better_than(known) {
                *known = heard;
            }
            true
        }
        None => {
            *known = Some(heard);
            false
        }
    }
}

/// A map.
pub(super) struct Map {
    label: Option<String>,
    nodes: Vec<MapNode>,
    index: BTreeMap<Name, usize>,
    /// By pair, and by the channel that entries name.
    radio: BTreeMap<(usize, usize, Option<u32>), Pair>,
    cables: BTreeSet<(usize, usize)>,
    /// Nodes that the map calls gateways.
    pub gateways: Vec<Name>,
    /// Nodes with a way out of the mesh, if they exist.
    pub uplinks: Vec<Name>,
    /// The ends of tunnels.
    pub tunnels: Vec<(Name, Name)>,
    pub warnings: Vec<String>,
    /// Entries of radio links by channel.
    channels: Channels,
    /// Entries that name none, though others do.
    unnamed: usize,
    /// Entries between nodes without a common channel.
    apart: usize,
    parallel: usize,
    dead: usize,
}

impl Map {
    pub fn new(label: Option<String>) -> Self {
        Map {
            label,
            nodes: Vec::new(),
            index: BTreeMap::new(),
            radio: BTreeMap::new(),
            cables: BTreeSet::new(),
            gateways: Vec::new(),
            uplinks: Vec::new(),
            tunnels: Vec::new(),
            warnings: Vec::new(),
            channels: Channels::new(),
            unnamed: 0,
            apart: 0,
            parallel: 0,
            dead: 0,
        }
    }

    pub fn add_node(&mut self, node: MapNode, key: KeyPath) -> Result<()> {
        if self.index.insert(node.id.clone(), self.nodes.len()).is_some() {
            return Err(ScenarioError::at(key, Problem::DuplicateNode(node.id.to_string())));
        }
        self.nodes.push(node);
        Ok(())
    }

    fn find(&self, name: &Name, key: KeyPath) -> Result<usize> {
        let found = self.index.get(name).copied();
        found.ok_or_else(|| ScenarioError::at(key, Problem::UnknownNode(name.to_string())))
    }

    /// The two ends of a link, if it makes sense.
    pub fn check_link(
        &self,
        source: &Name,
        target: &Name,
        key: &KeyPath,
    ) -> Result<(usize, usize)> {
        let a = self.find(source, key.clone().key("source"))?;
        let b = self.find(target, key.clone().key("target"))?;
        if a == b {
            return Err(ScenarioError::at(key.clone(), Problem::SelfLink(source.to_string())));
        }
        Ok((a, b))
    }

    /// Adds one entry. Of several entries for one direction the best counts: parallel links are
    /// several radios, of which a router uses the best.
    pub fn add_link(&mut self, link: MapLink, key: KeyPath) -> Result<()> {
        let (a, b) = self.check_link(&link.source, &link.target, &key)?;
        if link.quality == Quality::Cable {
            self.cables.insert((a.min(b), a.max(b)));
            return Ok(());
        }
        let channel = link.radio.channel.or_else(|| self.common(a, b));
        match channel {
            Some(channel) => *self.channels.entry(channel).or_default() += 1,
            None => self.unnamed += 1,
        }
        // What is said of one direction says nothing of the other's receiver.
        let back = OnAir::default();
        for (from, to, quality, radio) in
            [(a, b, Some(link.quality), link.radio), (b, a, link.back, back)]
        {
            let delivery = match quality {
                None => continue,
                Some(Quality::Radio(delivery)) => delivery,
                Some(Quality::Dead | Quality::Cable) => {
                    self.dead += 1;
                    continue;
                }
            };
            let pair = self.radio.entry((from.min(to), from.max(to), channel)).or_default();
            let slot = if from < to { &mut pair.0 } else { &mut pair.1 };
            let (signal, throughput) = (radio.signal, radio.throughput);
            self.parallel += usize::from(best(slot, Heard { delivery, signal, throughput }));
        }
        Ok(())
    }

    /// The channel of a link between two nodes that say theirs: the only one that both have.
    fn common(&mut self, a: usize, b: usize) -> Option<u32> {
        let (of_a, of_b) = (&self.nodes[a].channels, &self.nodes[b].channels);
        if of_a.is_empty() || of_b.is_empty() {
            return None;
        }
        let mut both = of_a.iter().copied().filter(|c| of_b.contains(c));
        match (both.next(), both.next()) {
            (Some(channel), None) => Some(channel),
            (None, _) => {
                self.apart += 1;
                None
            }
            _ => None,
        }
    }

    /// What is heard by pair and radio. What names no channel is on the one that the pair's other entries name.
    fn heard(&mut self, places: &Places) -> BTreeMap<(usize, usize, usize), Pair> {
        let mut named = BTreeMap::<(usize, usize), BTreeSet<usize>>::new();
        for &(a, b, channel) in self.radio.keys().filter(|k| k.2.is_some()) {
            named.entry((a, b)).or_default().insert(places.at(channel));
        }
        let mut heard = BTreeMap::<_, Pair>::new();
        for (&(a, b, channel), pair) in &self.radio {
            let only = named.get(&(a, b)).filter(|n| channel.is_none() && n.len() == 1);
            let place = only.and_then(|n| n.first().copied()).unwrap_or(places.at(channel));
            let known = heard.entry((a, b, place)).or_default();
            for (slot, more) in [(&mut known.0, pair.0), (&mut known.1, pair.1)] {
                self.parallel += more.map_or(0, |h| usize::from(best(slot, h)));
            }
        }
        heard
    }

    /// The scenario as it would be written.
    pub fn draft(mut self, options: &ImportOptions, name: String) -> Result<(Draft, Vec<String>)> {
        let models: Vec<Option<String>> = self.nodes.iter().map(|n| n.model.clone()).collect();
        let places = Radios::places(options, &models, &self.channels)?;
        let heard = self.heard(&places);
        let around = self.around();
        let gateways = self.chosen(options, &around)?;
        let hops = hops(&around, &gateways);
        let homes = self.homes(options, &gateways, &hops)?;
        if self.parallel > 0 {
            let text = format!("{} parallel links were merged, the best counts", self.parallel);
            self.warnings.push(text);
        }
        if self.dead > 0 {
            self.warnings
                .push(format!("{} links let nothing through and were left out", self.dead));
        }
        let sites = self.places();
        let pairs = || heard.values().filter_map(Pair::both);
        let told = |h: &Heard| h.signal.is_some();
        let signals = pairs().all(|(a, b)| told(&a) && told(&b)) && pairs().next().is_some();
        let mut radios = Radios::of(options, &models, &places, &self.channels, signals);
        let several = places.all.len() > 1;
        let id = |i: usize| self.nodes[i].id.clone();
        let (mut links, mut directed) = (Vec::new(), Vec::new());
        let mut on = vec![BTreeSet::new(); self.nodes.len()];
        for (&(a, b, place), pair) in &heard {
            let Some((there, back)) = pair.both() else { continue };
            let radio = several.then(|| places.name(place));
            let plain = LinkDraft { radio, ..LinkDraft::new(id(a), id(b)) };
            let entries = radios.link((a, b, place), plain, there, back);
            links.extend(entries.into_iter().map(LinkEntry::Table));
            let (heard, back) = (there, back);
            directed.push(Directed { from: a, to: b, place, heard });
            directed.push(Directed { from: b, to: a, place, heard: back });
            [a, b].into_iter().for_each(|n| {
                on[n].insert(place);
            });
        }
        // A node has a radio where it has links, or the first.
        let own = |i: usize| {
            let of = &on[i];
            let named: Vec<String> = of.iter().map(|&p| places.name(p)).collect();
            several.then(|| if named.is_empty() { vec![places.name(0)] } else { named })
        };
        let cable = |&(a, b): &(usize, usize)| WireDraft {
            from: id(a),
            to: id(b),
            rate: None,
            delay: None,
            queue: None,
        };
        let notes = radios.rates(&directed);
        let draft = Draft {
            name: Some(name),
            description: self.label.clone().unwrap_or_default(),
            duration: options.duration,
            warmup: Some(Span::from_nanos(options.duration.as_nanos() / 6)),
            radio: radios.radio,
            radios: radios.further.into_iter().collect(),
            topology: TopologyDraft {
                links: Some(links),
                sense_hops: Some(options.sense_hops),
                gateway: (gateways.len() == 1).then(|| id(gateways[0])),
                gateways: match gateways.len() {
                    1 => Vec::new(),
                    _ => gateways.iter().map(|&g| id(g)).collect(),
                },
                routing: Routing::Etx,
                ..TopologyDraft::default()
            },
            node: (0..self.nodes.len())
                .map(|i| NodeDraft {
                    position: sites.get(i).copied().flatten(),
                    radios: own(i),
                    ..NodeDraft::new(id(i))
                })
                .collect(),
            wire: self.cables.iter().map(cable).collect(),
            subscribers: SubscribersDraft {
                per: options.subscribers.then_some(PerDraft::Node),
                ..SubscribersDraft::default()
            },
            traffic: FlowsDraft {
                flows: Some(options.direction),
                connections: options.connections,
                nodes: Some(homes.into_iter().map(id).collect()),
                ..FlowsDraft::default()
            },
            ..Draft::default()
        };
        self.warnings.extend(radios.notes);
        if several && self.unnamed > 0 {
            let first = places.all[0].channel;
            self.warnings.push(format!(
                "{} links name no channel: they are on the one that their ends' other entries name, else on {first}",
                self.unnamed
            ));
        }
        if self.apart > 0 {
            self.warnings.push(format!(
                "{} links are between nodes that name no common channel",
                self.apart
            ));
        }
        self.warnings.extend(notes);
        self.warnings.extend(self.implausible(&directed));
        Ok((draft, self.warnings))
    }

    /// A warning about links that no routing daemon would keep.
    fn implausible(&self, links: &[Directed]) -> Option<String> {
        let mut bad: Vec<_> = links.iter().filter(|l| l.heard.delivery < IMPLAUSIBLE).collect();
        bad.sort_by(|a, b| a.heard.delivery.total_cmp(&b.heard.delivery));
        let name = |i: usize| self.nodes[i].id.as_str();
        let show = |l: &&Directed| {
            format!("{} → {} ({:.1} %)", name(l.from), name(l.to), 100.0 * l.heard.delivery)
        };
        let shown: Vec<String> = bad.iter().take(LISTED).map(show).collect();
        let more = if bad.len() > LISTED { ", …" } else { "" };
        (!bad.is_empty()).then(|| {
            format!(
                "{} directed links deliver less than {} % of frames, which is implausible for links in use: {}{more}",
                bad.len(),
                100.0 * IMPLAUSIBLE,
                shown.join(", ")
            )
        })
    }

    /// Neighbours over radio or cable.
    fn around(&self) -> Vec<Vec<usize>> {
        let mut around = vec![Vec::new(); self.nodes.len()];
        let mut pairs: Vec<(usize, usize)> = self.radio.keys().map(|k| (k.0, k.1)).collect();
        pairs.dedup();
        for &(a, b) in pairs.iter().chain(&self.cables) {
            around[a].push(b);
            around[b].push(a);
        }
        around
    }

    /// Metres around the median location: one router placed wrongly moves no other.
    fn places(&mut self) -> Vec<Option<[f64; 2]>> {
        let sane = |&(lat, lng): &(f64, f64)| {
            // A location of exactly zero was never set.
            lat.abs() <= 90.0 && lng.abs() <= 180.0 && (lat, lng) != (0.0, 0.0)
        };
        let given = self.nodes.iter().filter(|n| n.location.is_some()).count();
        let known: Vec<(f64, f64)> =
            self.nodes.iter().filter_map(|n| n.location).filter(sane).collect();
        if given > known.len() {
            let text = format!("{} impossible locations were ignored", given - known.len());
            self.warnings.push(text);
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        let lat0 = median(known.iter().map(|l| l.0).collect());
        let lng0 = median(known.iter().map(|l| l.1).collect());
        // Equirectangular projection.
        let shrink = libm::cos(lat0.to_radians());
        let place = |(lat, lng): (f64, f64)| {
            [EARTH * shrink * (lng - lng0).to_radians(), EARTH * (lat - lat0).to_radians()]
        };
        // Beyond this the projection means nothing, and `Draft::build` would refuse it.
        let near = |p: &[f64; 2]| p.iter().all(|v| v.abs() < 9e6);
        self.nodes.iter().map(|n| n.location.filter(sane).map(place).filter(near)).collect()
    }
}
