//! Conversion of a map of any format to a [`Draft`].

mod gateways;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_units::Span;

use super::channels::{Channels, Places};
use super::graph::hops;
use super::location::{Degrees, places};
use super::metric::Quality;
use super::notes::Notes;
use super::radios::{Directed, Radios, Reception};
use super::{ImportOptions, Result};
use crate::draft::{
    Draft, FlowsDraft, LinkDraft, LinkEntry, NodeDraft, PerDraft, Routing, SubscribersDraft,
    TopologyDraft, WireDraft,
};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;
use names::{Names, Unresolved};

/// Maximum number of names in a warning.
const MAX_LISTED_NAMES: usize = 10;
/// Delivery below which routing daemons drop a link.
///
/// A map with such links is not a snapshot of routes.
const MIN_ROUTED_DELIVERY: f64 = 0.05;

/// A router of a map.
pub(super) struct MapNode {
    pub id: Name,
    /// Addresses of its interfaces, unique to this node.
    pub addresses: Vec<String>,
    /// Other names of the node, not necessarily unique.
    pub names: Vec<String>,
    /// Degrees north and east.
    pub location: Option<Degrees>,
    /// Device model.
    pub model: Option<String>,
    /// Channels of its radios; empty if the map has none.
    pub channels: Vec<u32>,
}

/// A link of a map: one entry of the file.
pub(super) struct MapLink {
    pub source: Name,
    pub target: Name,
    pub quality: Quality,
    /// The other direction, if the entry has it.
    pub back: Option<Quality>,
    /// Radio data of the entry, for the direction from source to target.
    pub radio: OnAir,
}

/// Radio data of a link in a map, without its quality.
#[derive(Clone, Copy, Default)]
pub(super) struct OnAir {
    /// Mean received power, in dBm.
    pub signal: Option<f64>,
    /// Expected throughput, in Mbit/s.
    pub throughput: Option<f64>,
    /// Channel number.
    pub channel: Option<u32>,
}

/// Both directions of an unordered pair.
///
/// `.0` in ascending order of index, `.1` in descending. A direction without delivery is dead.
#[derive(Clone, Copy, Default)]
struct Pair(Option<Reception>, Option<Reception>);

impl Pair {
    /// Returns both directions; one without an entry equals the other.
    ///
    /// A link with a dead direction is not a link: acknowledgements do not return.
    fn both(&self) -> Option<(Reception, Reception)> {
        let (there, back) = (self.0.or(self.1)?, self.1.or(self.0)?);
        (there.delivery > 0.0 && back.delivery > 0.0).then_some((there, back))
    }
}

/// Keeps the better of two; returns true if there were two.
fn best(known: &mut Option<Reception>, received: Reception) -> bool {
    match known {
        Some(known) => {
            if received.better_than(known) {
                *known = received;
            }
            true
        }
        None => {
            *known = Some(received);
            false
        }
    }
}

/// A map.
pub(super) struct Map {
    label: Option<String>,
    nodes: Vec<MapNode>,
    names: Names,
    /// Ids of nodes that are address prefixes behind routers; true for the default route.
    prefixes: BTreeMap<Name, bool>,
    /// By pair and channel of the entries: the pair, and its number of entries.
    radio: BTreeMap<(usize, usize, Option<u32>), (Pair, usize)>,
    cables: BTreeSet<(usize, usize)>,
    /// Nodes marked as gateways.
    pub gateways: Vec<Name>,
    /// Gateways that nodes use, if the map marks no gateway.
    pub used_gateways: Vec<Name>,
    /// Nodes with an uplink, if any.
    pub uplinks: Vec<Name>,
    /// Ends of tunnels.
    pub tunnels: Vec<(Name, Name)>,
    pub warnings: Vec<String>,
    /// Entries between nodes without a common channel.
    apart: usize,
    /// Entries between two addresses of one node.
    own: usize,
    parallel: usize,
}

impl Map {
    pub fn new(label: Option<String>) -> Self {
        Map {
            label,
            nodes: Vec::new(),
            names: Names::default(),
            prefixes: BTreeMap::new(),
            radio: BTreeMap::new(),
            cables: BTreeSet::new(),
            gateways: Vec::new(),
            used_gateways: Vec::new(),
            uplinks: Vec::new(),
            tunnels: Vec::new(),
            warnings: Vec::new(),
            apart: 0,
            own: 0,
            parallel: 0,
        }
    }

    pub fn add_node(&mut self, node: MapNode, key: KeyPath) -> Result<()> {
        if self.prefixes.contains_key(&node.id) || !self.names.add(&node, self.nodes.len()) {
            return Err(ScenarioError::at(key, Problem::DuplicateNode(node.id.to_string())));
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node that is an address prefix.
    ///
    /// `owner` is the router that announces it, if the node names it.
    pub fn add_prefix(&mut self, id: Name, default: bool, owner: Option<String>) {
        if default {
            // The router with the default route is the gateway.
            self.gateways.extend(owner.map(Name::from));
        }
        self.prefixes.insert(id, default);
    }

    pub fn is_prefix(&self, id: &Name) -> bool {
        self.prefixes.contains_key(id)
    }

    /// Adds a link between a router and an address prefix.
    pub fn add_prefix_link(&mut self, source: &Name, target: &Name) {
        for (prefix, router) in [(source, target), (target, source)] {
            if self.prefixes.get(prefix) == Some(&true) && !self.is_prefix(router) {
                self.gateways.push(router.clone());
            }
        }
    }

    /// Adds the notes about ignored values.
    pub fn notes(&mut self, notes: Notes) {
        self.warnings.extend(notes.texts());
    }

    /// Refuses an interface address shared by two nodes.
    ///
    /// `nodes` is the key of the nodes, `addresses` that of a node's addresses.
    pub fn check_addresses(&self, nodes: &KeyPath, addresses: &str) -> Result<()> {
        for (i, node) in self.nodes.iter().enumerate() {
            for (j, address) in node.addresses.iter().enumerate() {
                let Some(other) = self.names.other(address, i) else { continue };
                let key = nodes.clone().index(i).key(addresses).index(j);
                let what = format!(
                    "\"{address}\" is an address of \"{}\" and of \"{}\"",
                    node.id, self.nodes[other].id
                );
                let problem = Problem::refused(what, "each address at one node");
                return Err(ScenarioError::at(key, problem));
            }
        }
        Ok(())
    }

    /// Returns the node of an id, an address or a label.
    fn find(&self, name: &Name, key: KeyPath) -> Result<usize> {
        self.names.find(name).map_err(|e| {
            let problem = match e {
                Unresolved::Unknown => Problem::UnknownNode(name.to_string()),
                Unresolved::Ambiguous(a, b) => Problem::refused(
                    format!(
                        "\"{name}\" is a name of \"{}\" and of \"{}\"",
                        self.nodes[a].id, self.nodes[b].id
                    ),
                    "the id of one node",
                ),
            };
            ScenarioError::at(key, problem)
        })
    }

    /// Returns the two ends of a link. A link of a node to itself is refused.
    pub fn check_link(
        &self,
        source: &Name,
        target: &Name,
        key: &KeyPath,
    ) -> Result<(usize, usize)> {
        let a = self.find(source, key.clone().key("source"))?;
        let b = self.find(target, key.clone().key("target"))?;
        if source == target {
            return Err(ScenarioError::at(key.clone(), Problem::SelfLink(source.to_string())));
        }
        Ok((a, b))
    }

    /// Adds one entry.
    ///
    /// Of several entries for one direction the best counts: parallel links are several radios, and
    /// a router uses the best one.
    pub fn add_link(&mut self, link: MapLink, key: KeyPath) -> Result<()> {
        let (a, b) = self.check_link(&link.source, &link.target, &key)?;
        if a == b {
            self.own += 1;
            return Ok(());
        }
        if link.quality == Quality::Cable {
            self.cables.insert((a.min(b), a.max(b)));
            return Ok(());
        }
        let channel = link.radio.channel.or_else(|| self.common(a, b));
        // Signal and throughput of an entry belong to its own direction.
        let back = OnAir::default();
        for (from, to, quality, radio) in
            [(a, b, Some(link.quality), link.radio), (b, a, link.back, back)]
        {
            let delivery = match quality {
                None => continue,
                Some(Quality::Radio(delivery)) => delivery,
                Some(Quality::Dead | Quality::Cable) => 0.0,
            };
            let (pair, _) = self.radio.entry((from.min(to), from.max(to), channel)).or_default();
            let slot = if from < to { &mut pair.0 } else { &mut pair.1 };
            let (signal, throughput) = (radio.signal, radio.throughput);
            let doubled = best(slot, Reception { delivery, signal, throughput });
            self.parallel += usize::from(doubled && delivery > 0.0);
        }
        self.radio.entry((a.min(b), a.max(b), channel)).or_default().1 += 1;
        Ok(())
    }

    /// Returns the channel of a link between two nodes with known channels: the only common one.
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

    /// Returns the links, by pair and radio.
    ///
    /// An entry without a channel uses the only channel that the other entries of the pair name.
    fn received(&mut self, places: &Places) -> BTreeMap<(usize, usize, usize), Pair> {
        let mut named = BTreeMap::<(usize, usize), BTreeSet<usize>>::new();
        for &(a, b, channel) in self.radio.keys().filter(|k| k.2.is_some()) {
            named.entry((a, b)).or_default().insert(places.at(channel));
        }
        let mut received = BTreeMap::<_, Pair>::new();
        for (&(a, b, channel), (pair, _)) in &self.radio {
            let only = named.get(&(a, b)).filter(|n| channel.is_none() && n.len() == 1);
            let place = only.and_then(|n| n.first().copied()).unwrap_or(places.at(channel));
            let known = received.entry((a, b, place)).or_default();
            for (slot, more) in [(&mut known.0, pair.0), (&mut known.1, pair.1)] {
                let mut doubled = |h: Reception| best(slot, h) && h.delivery > 0.0;
                self.parallel += more.map_or(0, |h| usize::from(doubled(h)));
            }
        }
        received
    }

    /// Returns the numbers of live radio links by channel, and of those without one.
    fn channels(&self) -> (Channels, usize) {
        let (mut channels, mut unnamed) = (Channels::new(), 0);
        for (&(_, _, channel), (pair, entries)) in &self.radio {
            match channel {
                _ if pair.both().is_none() => {}
                Some(channel) => *channels.entry(channel).or_default() += entries,
                None => unnamed += entries,
            }
        }
        (channels, unnamed)
    }

    /// Removes links with a dead direction and adds a note.
    fn drop_dead_links(&mut self, received: &mut BTreeMap<(usize, usize, usize), Pair>) {
        let mut dead = Vec::new();
        received.retain(|&(a, b, _), pair| {
            let alive = pair.both().is_some();
            if !alive {
                dead.push(format!("{} ~ {}", self.nodes[a].id, self.nodes[b].id));
            }
            alive
        });
        if !dead.is_empty() {
            let more = if dead.len() > MAX_LISTED_NAMES { ", …" } else { "" };
            self.warnings.push(format!(
                "{} links let nothing through in a direction (infinite cost or transmit quality 0) and were left out: {}{more}",
                dead.len(),
                dead[..dead.len().min(MAX_LISTED_NAMES)].join(", ")
            ));
        }
    }

    /// Returns the scenario as it would be written.
    pub fn draft(mut self, options: &ImportOptions, name: String) -> Result<(Draft, Vec<String>)> {
        let models: Vec<Option<String>> = self.nodes.iter().map(|n| n.model.clone()).collect();
        let (channels, unnamed) = self.channels();
        let places = Radios::places(options, &models, &channels)?;
        let mut received = self.received(&places);
        self.drop_dead_links(&mut received);
        let around = self.around(&received);
        let gateways = self.chosen(options, &around)?;
        let hops = hops(&around, &gateways);
        let homes = self.homes(options, &gateways, &hops)?;
        if self.parallel > 0 {
            let text =
                format!("parallel links merged, the best of each pair kept: {}", self.parallel);
            self.warnings.push(text);
        }
        if self.own > 0 {
            let text =
                format!("{} links between two addresses of one node were left out", self.own);
            self.warnings.push(text);
        }
        if !self.prefixes.is_empty() {
            let text = format!(
                "{} nodes are address prefixes behind routers and were left out",
                self.prefixes.len()
            );
            self.warnings.push(text);
        }
        let sites = self.places(&received);
        let pairs = || received.values().filter_map(Pair::both);
        let describe = |h: &Reception| h.signal.is_some();
        let signals =
            pairs().all(|(a, b)| describe(&a) && describe(&b)) && pairs().next().is_some();
        let mut radios = Radios::of(options, &models, &places, &channels, signals);
        let several = places.all.len() > 1;
        let id = |i: usize| self.nodes[i].id.clone();
        let (mut links, mut directed) = (Vec::new(), Vec::new());
        let mut on = vec![BTreeSet::new(); self.nodes.len()];
        for (&(a, b, place), pair) in &received {
            let Some((there, back)) = pair.both() else { continue };
            let radio = several.then(|| places.name(place));
            let plain = LinkDraft { radio, ..LinkDraft::new(id(a), id(b)) };
            let entries = radios.link((a, b, place), plain, there, back);
            links.extend(entries.into_iter().map(LinkEntry::Table));
            let (received, back) = (there, back);
            directed.push(Directed { from: a, to: b, place, received });
            directed.push(Directed { from: b, to: a, place, received: back });
            [a, b].into_iter().for_each(|n| {
                on[n].insert(place);
            });
        }
        // A node has a radio where it has links; without links, the first.
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
        if several && unnamed > 0 {
            let first = places.all[0].channel;
            self.warnings.push(format!(
                "{} links name no channel: they are on the one that their ends' other entries name, else on {first}",
                unnamed
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

    /// Returns a warning about links that routing daemons would drop.
    fn implausible(&self, links: &[Directed]) -> Option<String> {
        let mut bad: Vec<_> =
            links.iter().filter(|l| l.received.delivery < MIN_ROUTED_DELIVERY).collect();
        bad.sort_by(|a, b| a.received.delivery.total_cmp(&b.received.delivery));
        let name = |i: usize| self.nodes[i].id.as_str();
        let show = |l: &&Directed| {
            format!("{} → {} ({:.1} %)", name(l.from), name(l.to), 100.0 * l.received.delivery)
        };
        let shown: Vec<String> = bad.iter().take(MAX_LISTED_NAMES).map(show).collect();
        let more = if bad.len() > MAX_LISTED_NAMES { ", …" } else { "" };
        (!bad.is_empty()).then(|| {
            format!(
                "{} directed links deliver less than {} % of frames, which is implausible for links in use: {}{more}",
                bad.len(),
                100.0 * MIN_ROUTED_DELIVERY,
                shown.join(", ")
            )
        })
    }

    /// Returns the neighbours by radio or cable.
    fn around(&self, received: &BTreeMap<(usize, usize, usize), Pair>) -> Vec<Vec<usize>> {
        let mut around = vec![Vec::new(); self.nodes.len()];
        let mut pairs: Vec<(usize, usize)> = received.keys().map(|k| (k.0, k.1)).collect();
        pairs.dedup();
        for &(a, b) in pairs.iter().chain(&self.cables) {
            around[a].push(b);
            around[b].push(a);
        }
        around
    }

    /// Returns metres around the median location.
    fn places(
        &mut self,
        received: &BTreeMap<(usize, usize, usize), Pair>,
    ) -> Vec<Option<[f64; 2]>> {
        let locations: Vec<Option<Degrees>> = self.nodes.iter().map(|n| n.location).collect();
        let links = received.keys().map(|k| (k.0, k.1));
        let (places, notes) = places(&locations, links, |i| self.nodes[i].id.as_str());
        self.warnings.extend(notes);
        places
    }
}
