//! Independent parts of a world, and the record of the whole from those of the parts.
//!
//! Two radios belong together if one senses the other, if a flow, a wire, a subscriber, an interferer or a node with
//! several radios joins them, or if a control at one place serves both. Streams of random numbers are seeded by names,
//! and queues distinguish flows by their numbers in the whole world, so a part runs as it does within the whole.

use std::collections::BTreeMap;
use std::fmt;

use fairmesh_control::{Ability, EventKind, Mechanism};
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::NodeId;

use crate::host;
use crate::record::{DecisionRecord, RunRecord, Series, SignallingRecord, Totals};
use crate::world::collect::subscribers;

/// A part of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Island {
    /// Nodes of the island, in ascending order. A wired host may be in several islands.
    pub nodes: Vec<NodeId>,
    /// Flows of the island, in ascending order.
    pub flows: Vec<usize>,
    /// Gateways of the island.
    pub gateways: Vec<NodeId>,
}

/// Reason for which gateways are in one island.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IslandLink {
    /// A node of the one gateway senses a node of the other.
    Air {
        /// Sender.
        from: String,
        /// Node that senses it.
        to: String,
    },
    /// A flow has nodes or wires of both.
    Flow(String),
    /// A subscriber has flows at both.
    Subscriber(String),
    /// A wired host with a control serves both.
    Host(String),
    /// An interferer disturbs both.
    Interferer(String),
    /// The control treats the whole world as one, for the reason given.
    Control(&'static str),
}

impl fmt::Display for IslandLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IslandLink::Air { from, to } => write!(f, "{to} senses {from}"),
            IslandLink::Flow(name) => write!(f, "flow {name} joins them"),
            IslandLink::Subscriber(name) => write!(f, "subscriber {name} has flows at both"),
            IslandLink::Host(name) => write!(f, "host {name} has a control that serves both"),
            IslandLink::Interferer(name) => write!(f, "interferer {name} disturbs both"),
            IslandLink::Control(why) => f.write_str(why),
        }
    }
}

/// The islands of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Islands {
    /// The islands, in the order of their first nodes.
    ///
    /// Undisturbed nodes without flows are in the last one.
    pub list: Vec<Island>,
    /// Pairs of gateways that are in one island, with a reason for each.
    pub touching: Vec<((NodeId, NodeId), IslandLink)>,
}

/// Disjoint sets, with path halving.
struct Sets(Vec<u32>);

impl Sets {
    fn find(&mut self, mut i: usize) -> usize {
        while self.0[i] as usize != i {
            self.0[i] = self.0[self.0[i] as usize];
            i = self.0[i] as usize;
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        // The smaller number stays, so that sets are named by their first member.
        self.0[a.max(b)] = a.min(b) as u32;
    }
}

/// Search for the islands of a world.
struct Finder<'a> {
    scenario: &'a Scenario,
    /// Nodes, then wires.
    sets: Sets,
    touching: BTreeMap<(NodeId, NodeId), IslandLink>,
    /// By wired host with a control: a gateway that it serves.
    served: BTreeMap<usize, NodeId>,
}

impl Finder<'_> {
    /// Joins nodes or wires; the gateways of these nodes touch for this reason.
    fn join(&mut self, members: &[usize], why: impl Fn() -> IslandLink) {
        let Some(&first) = members.first() else { return };
        members.iter().for_each(|&m| self.sets.join(first, m));
        let nodes = self.scenario.nodes();
        let kind = |m: usize| nodes.get(m).map(|n| n.kind);
        let radios = members.iter().filter(|&&m| kind(m) == Some(NodeKind::Wireless));
        let gateways = radios.filter_map(|&m| self.scenario.gateways().of(NodeId(m as u32)));
        let mut gateways: Vec<NodeId> = gateways.collect();
        gateways.dedup();
        let Some((&known, others)) = gateways.split_first() else { return };
        for &other in others.iter().filter(|&&g| g != known) {
            self.touching.entry((known.min(other), known.max(other))).or_insert_with(&why);
        }
        for &host in members.iter().filter(|&&m| kind(m) == Some(NodeKind::Wired)) {
            let first = *self.served.entry(host).or_insert(known);
            if first != known {
                let pair = (first.min(known), first.max(known));
                self.touching
                    .entry(pair)
                    .or_insert_with(|| IslandLink::Host(nodes[host].name.clone()));
            }
        }
    }

    /// Returns the radios, wires and controlled hosts of a path, which are in one island.
    fn path(&self, path: &[NodeId], controlled: &[bool]) -> Vec<usize> {
        let nodes = self.scenario.nodes();
        let radio =
            |n: &&NodeId| nodes[n.index()].kind == NodeKind::Wireless || controlled[n.index()];
        let mut members: Vec<usize> = path.iter().filter(radio).map(|n| n.index()).collect();
        let wires = path.windows(2).filter_map(|hop| self.scenario.wire(hop[0], hop[1]));
        members.extend(wires.map(|(wire, _)| nodes.len() + wire));
        members
    }
}

/// Returns the reason for which a control treats the whole world as one, if it does.
fn joint_control(scenario: &Scenario) -> Option<&'static str> {
    let controls = std::iter::once(scenario.control()).chain(scenario.at_gateways());
    let needs: Vec<_> = controls.flat_map(Mechanism::all_needs).collect();
    let able = |a: Ability| needs.iter().any(|n| n.abilities.has(a));
    if able(Ability::Peers) || able(Ability::IdealExchange) {
        return Some("the control exchanges messages outside the air");
    }
    let starts = scenario.flows().first().map(|f| (f.start, f.stop));
    let differ = scenario.flows().iter().any(|f| Some((f.start, f.stop)) != starts);
    if differ && needs.iter().any(|n| n.events.has(EventKind::Allocations)) {
        return Some("the control receives every change of fair rates");
    }
    let weight = scenario.flows().first().map_or(1.0, |f| f.weight);
    if scenario.flows().iter().any(|f| f.weight != weight) {
        return Some("weights of flows are relative to those of all others");
    }
    None
}

/// Finds the islands of a world.
pub fn islands(scenario: &Scenario) -> Islands {
    let nodes = scenario.nodes();
    let members = (nodes.len() + scenario.wires().len()) as u32;
    let sets = Sets((0..members).collect());
    let mut finder = Finder { scenario, sets, touching: BTreeMap::new(), served: BTreeMap::new() };
    let name = |n: NodeId| nodes[n.index()].name.clone();
    for h in scenario.sensed_pairs().iter().chain(scenario.leaks()) {
        let air = || IslandLink::Air { from: name(NodeId(h.from)), to: name(NodeId(h.to)) };
        finder.join(&[h.from as usize, h.to as usize], air);
    }
    for (i, node) in nodes.iter().enumerate() {
        if let Some(device) = node.of {
            finder.sets.join(i, device.index());
        }
    }
    for interferer in scenario.interferers() {
        let sensing: Vec<usize> = interferer.sensed_by.iter().map(|h| h.0.index()).collect();
        finder.join(&sensing, || IslandLink::Interferer(interferer.name.clone()));
    }
    for (i, wire) in scenario.wires().iter().enumerate() {
        for end in [wire.a, wire.b] {
            if nodes[end.index()].kind == NodeKind::Wireless {
                finder.join(&[end.index(), nodes.len() + i], || IslandLink::Flow(String::new()));
            }
        }
    }
    let controlled = host::controlled(scenario);
    let mut of_flows = Vec::with_capacity(scenario.flows().len());
    for flow in scenario.flows() {
        let path = finder.path(&flow.path, &controlled);
        finder.join(&path, || IslandLink::Flow(flow.name.clone()));
        of_flows.push(path.first().copied());
    }
    for change in scenario.route_changes() {
        let flow = &scenario.flows()[change.flow];
        let mut path = finder.path(&change.path, &controlled);
        path.extend(finder.path(&flow.path, &controlled));
        finder.join(&path, || IslandLink::Flow(flow.name.clone()));
    }
    for subscriber in &scenario.subscribers().list {
        let own: Vec<usize> = subscriber.flows().filter_map(|f| of_flows[f]).collect();
        finder.join(&own, || IslandLink::Subscriber(subscriber.name.clone()));
    }
    if let Some(why) = joint_control(scenario) {
        let all: Vec<usize> = (0..members as usize).collect();
        finder.join(&all, || IslandLink::Control(why));
    }
    finder.collect(&of_flows)
}

impl Finder<'_> {
    fn collect(mut self, of_flows: &[Option<usize>]) -> Islands {
        let scenario = self.scenario;
        let nodes = scenario.nodes();
        let mut flows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (f, member) in of_flows.iter().enumerate() {
            // A flow between processes of one wired host touches nothing; the first island has it.
            let set = member.map_or(0, |m| self.sets.find(m));
            flows.entry(set).or_default().push(f);
        }
        for interferer in scenario.interferers() {
            if let Some((node, _)) = interferer.sensed_by.first() {
                flows.entry(self.sets.find(node.index())).or_default();
            }
        }
        // By set; sets without flows together, at the end.
        let mut members: BTreeMap<usize, Vec<NodeId>> =
            flows.keys().map(|set| (*set, Vec::new())).collect();
        let mut rest = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let id = NodeId(i as u32);
            let set = self.sets.find(i);
            match members.get_mut(&set) {
                Some(own) => own.push(id),
                None if node.kind == NodeKind::Wired => {}
                None => rest.push(id),
            }
        }
        for (i, wire) in scenario.wires().iter().enumerate() {
            let set = self.sets.find(nodes.len() + i);
            if let Some(own) = members.get_mut(&set) {
                own.extend([wire.a, wire.b]);
            }
        }
        let mut list: Vec<Island> = Vec::new();
        for (set, mut own) in members {
            let flows = flows.remove(&set).unwrap_or_default();
            own.extend(flows.iter().flat_map(|&f| scenario.flows()[f].path.iter().copied()));
            list.push(self.island(own, flows));
        }
        if !rest.is_empty() {
            list.push(self.island(rest, Vec::new()));
        }
        list.sort_by_key(|island| (island.flows.is_empty(), island.nodes.first().copied()));
        Islands { list, touching: self.touching.into_iter().collect() }
    }

    fn island(&self, mut nodes: Vec<NodeId>, flows: Vec<usize>) -> Island {
        nodes.sort_unstable();
        nodes.dedup();
        let gateways = self.scenario.gateways().list().iter().copied();
        let gateways = gateways.filter(|g| nodes.binary_search(g).is_ok()).collect();
        Island { nodes, flows, gateways }
    }
}

impl Island {
    /// Returns the island as a separate world.
    pub fn part(&self, scenario: &Scenario) -> Scenario {
        scenario.part(&self.nodes, &self.flows)
    }
}

impl Islands {
    /// Returns the record of the whole world from those of the islands, in their order.
    ///
    /// Every number is that of a run of the whole, to the last bit, except two that describe the simulation: the
    /// fingerprint, which depends on the order of frames of different islands, is a hash of the islands' fingerprints;
    /// the number of events is their sum, which counts shared timers of controls several times.
    ///
    /// # Panics
    /// If there are not as many records as islands, or a record is another world's.
    pub fn merge(&self, scenario: &Scenario, records: Vec<RunRecord>) -> RunRecord {
        assert_eq!(records.len(), self.list.len(), "a record for each island");
        let mut fingerprint = 0xcbf2_9ce4_8422_2325_u64;
        let mut flows: Vec<_> = (0..scenario.flows().len()).map(|_| None).collect();
        let mut nodes: Vec<_> = (0..scenario.nodes().len()).map(|_| None).collect();
        let mut totals = Totals::default();
        let mut links = BTreeMap::new();
        let mut decisions: Vec<(NodeId, DecisionRecord)> = Vec::new();
        let mut curves = Curves::new(scenario);
        let mut whole = None;
        let number: BTreeMap<&str, u32> =
            scenario.nodes().iter().zip(0..).map(|(n, i)| (n.name.as_str(), i)).collect();
        let node = |name: &str| NodeId(number.get(name).copied().unwrap_or(0));
        let mut fair = true;
        for (island, mut record) in self.list.iter().zip(records) {
            for byte in record.fingerprint.bytes() {
                fingerprint = (fingerprint ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            curves.take(island, &mut record);
            fair &= record.flows.iter().all(|f| f.fair_bps.is_some());
            for (&at, flow) in island.flows.iter().zip(std::mem::take(&mut record.flows)) {
                flows[at] = Some(flow);
            }
            for own in std::mem::take(&mut record.nodes) {
                let at = node(&own.name).index();
                nodes[at] = Some(own);
            }
            for link in std::mem::take(&mut record.links) {
                links.insert((node(&link.from), node(&link.to)), link);
            }
            let own = std::mem::take(&mut record.decisions);
            decisions.extend(own.into_iter().map(|d| (node(&d.node), d)));
            add(&mut totals, &record.totals);
            whole.get_or_insert(record);
        }
        let mut flows: Vec<_> = flows.into_iter().flatten().collect();
        if !fair {
            // The capacity model has no rates for a world if it has none for a part.
            flows.iter_mut().for_each(|f| f.fair_bps = None);
        }
        decisions.sort_by(|(a, x), (b, y)| x.time_s.total_cmp(&y.time_s).then(a.cmp(b)));
        decisions.truncate(crate::control_loop::MAX_DECISIONS);
        let seconds = scenario.duration().as_secs_f64();
        let s = &mut totals.signalling;
        s.bytes_per_s = (s.message_bytes + s.header_bytes) as f64 / seconds;
        s.airtime_share = s.airtime_s / seconds;
        let record = whole.expect("a world has an island");
        RunRecord {
            fingerprint: format!("{fingerprint:016x}"),
            subscribers: subscribers(scenario, &flows),
            flows,
            nodes: nodes.into_iter().flatten().collect(),
            links: links.into_values().collect(),
            totals,
            series: curves.series,
            decisions: decisions.into_iter().map(|(_, d)| d).collect(),
            ..record
        }
    }
}

/// Curves of the whole, filled island by island.
struct Curves {
    series: Series,
    flows: usize,
    radios: usize,
}

impl Curves {
    fn new(scenario: &Scenario) -> Self {
        let series = Series::default();
        Curves { series, flows: scenario.flows().len(), radios: scenario.wireless().count() }
    }

    fn take(&mut self, island: &Island, record: &mut RunRecord) {
        let own = std::mem::take(&mut record.series);
        let s = &mut self.series;
        let place = |all: &mut Vec<Vec<f64>>, len: usize, own: Vec<Vec<f64>>, at: &[usize]| {
            if !own.is_empty() {
                all.resize(len, Vec::new());
                own.into_iter().zip(at).for_each(|(curve, &at)| all[at] = curve);
            }
        };
        place(&mut s.goodput_bps, self.flows, own.goodput_bps, &island.flows);
        place(&mut s.cwnd_bytes, self.flows, own.cwnd_bytes, &island.flows);
        place(&mut s.limit_bps, self.flows, own.limit_bps, &island.flows);
        // Radios come before wired hosts, in the whole and in each part.
        let radios: Vec<usize> =
            island.nodes.iter().map(|n| n.index()).filter(|&n| n < self.radios).collect();
        place(&mut s.queue_packets, self.radios, own.queue_packets, &radios);
        place(&mut s.foreign, self.radios, own.foreign, &radios);
        s.links.extend(own.links);
        if s.time_s.is_empty() {
            s.time_s = own.time_s;
        }
    }
}

fn add(sum: &mut Totals, own: &Totals) {
    let Totals {
        transmissions,
        events,
        packets,
        delivered,
        stale,
        in_flight,
        drops,
        mac,
        signalling,
    } = own;
    sum.transmissions += transmissions;
    sum.events += events;
    sum.packets += packets;
    sum.delivered += delivered;
    sum.stale += stale;
    sum.in_flight += in_flight;
    sum.drops.add(drops);
    sum.mac.add(mac);
    add_signalling(&mut sum.signalling, signalling);
}

fn add_signalling(sum: &mut SignallingRecord, own: &SignallingRecord) {
    let SignallingRecord {
        messages,
        probes,
        message_frames,
        message_bytes,
        messages_lost,
        header_bytes,
        outside_messages,
        outside_bytes,
        airtime_s,
        bytes_per_s: _,
        airtime_share: _,
    } = own;
    sum.messages += messages;
    sum.probes += probes;
    sum.message_frames += message_frames;
    sum.message_bytes += message_bytes;
    sum.messages_lost += messages_lost;
    sum.header_bytes += header_bytes;
    sum.outside_messages += outside_messages;
    sum.outside_bytes += outside_bytes;
    // Airtime is counted in nanoseconds; their sum is exact, that of seconds is not.
    let nanos = |s: f64| (s * 1e9).round();
    sum.airtime_s = (nanos(sum.airtime_s) + nanos(*airtime_s)) / 1e9;
}
