//! Nodes that exchange values, on a medium of small capacity without losses unless set.

use std::collections::BTreeMap;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use crate::testing::start_with;
use crate::{
    Action, Actions, Class, Counters, Event, FlowHere, Header, Instance, Link, Merge, Message,
    Neighbour, Place, QueueLength, ReceivedFrame, Sent, Setting, Site,
};

/// Links of the tests, and paths of the flows.
pub(super) struct Mesh {
    pub links: Vec<(u32, u32)>,
    pub paths: Vec<Vec<u32>>,
    nodes: BTreeMap<u32, Instance>,
    fields: BTreeMap<u32, Header>,
    /// By flow: the limit at its entry to the mesh, IP bit/s.
    pub limits: BTreeMap<u32, f64>,
    pub reasons: Vec<(u32, &'static str)>,
    pub now: Time,
    /// Capacity of a node for data of all flows at it and its neighbours, IP bit/s.
    ///
    /// Packets wait above it.
    pub carries: fn(u32) -> f64,
    /// Number of packets that wait above the capacity.
    pub waits: u32,
    /// Node with a counter that is stuck at that number.
    pub stuck: Option<u32>,
    /// Link that loses all packets.
    pub dead: Option<(u32, u32)>,
    /// A node that neither receives nor sends anything.
    pub gone: Option<u32>,
    /// True for flows with backlog.
    pub active: Vec<bool>,
    /// True if sinks acknowledge.
    pub acks: bool,
}

/// Packets of 1000 bytes, all of them data.
const PACKET: u32 = 1000;
const STEP: Span = Span::from_millis(10);

impl Mesh {
    pub fn new(links: &[(u32, u32)], paths: &[&[u32]], numbers: &[(&str, f64)]) -> Self {
        let mut ids: Vec<u32> = links.iter().flat_map(|l| [l.0, l.1]).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut mesh = Mesh {
            links: links.to_vec(),
            paths: paths.iter().map(|p| p.to_vec()).collect(),
            nodes: BTreeMap::new(),
            fields: BTreeMap::new(),
            limits: BTreeMap::new(),
            reasons: Vec::new(),
            now: Time::ZERO,
            carries: |_| 1e6,
            waits: 8,
            stuck: None,
            dead: None,
            gone: None,
            active: vec![true; paths.len()],
            acks: true,
        };
        for n in ids {
            let near = mesh.neighbours(n);
            let link = |k: u32| Neighbour::new(NodeId(k), BitRate(11_000_000), BitRate(5_000_000));
            let mut flows = Vec::new();
            for (f, path) in paths.iter().enumerate() {
                let Some(at) = path.iter().position(|p| *p == n) else { continue };
                let last = at + 1 == path.len();
                let place = match at {
                    0 => Place::Source,
                    _ if last => Place::Sink,
                    _ => Place::Forwarder,
                };
                let next = path.get(at + 1).map(|k| NodeId(*k));
                let here = FlowHere::new(FlowId(f as u32), place, PACKET, PACKET);
                flows.push(here.with_next_hop(next));
            }
            let setting = Setting::new(NodeId(n), Site::new(), Stream::new(u64::from(n), "mesh"))
                .with_flows(flows)
                .with_neighbours(near.into_iter().map(link));
            mesh.nodes.insert(n, start_with("mesh-maxmin", setting, numbers).unwrap());
        }
        mesh
    }

    pub fn stack() -> Self {
        let links = [(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)];
        Mesh::new(&links, &[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9]], &[])
    }

    pub fn neighbours(&self, n: u32) -> Vec<u32> {
        let other = |&(a, b): &(u32, u32)| match n {
            _ if a == n => Some(b),
            _ if b == n => Some(a),
            _ => None,
        };
        self.links.iter().filter_map(other).collect()
    }

    pub fn deliver(&mut self, n: u32, event: Event<'_>) {
        let mut actions = Actions::new();
        let Some(node) = self.nodes.get_mut(&n).filter(|_| self.gone != Some(n)) else { return };
        node.control.on(self.now, &event, &mut actions);
        let list: Vec<Action> = actions.iter().copied().collect();
        for action in &list {
            match *action {
                Action::Because(r) => self.reasons.push((n, r.code)),
                Action::SetRate { class: Class::Flow(f), rate } => {
                    self.limits.insert(f.0, rate.map_or(f64::INFINITY, |r| r.0 as f64));
                }
                Action::Annotate { class: Class::All, slot, value, .. } => {
                    // The annotation stands alone: merging happens on the path.
                    let header = self.fields.entry(n).or_default();
                    header.write(slot, Merge::Set, value);
                }
                Action::Send { to, .. } => {
                    let body = actions.body(action).to_vec();
                    let receivers = to.map_or_else(|| self.neighbours(n), |t| vec![t.0]);
                    for k in receivers {
                        let from = NodeId(n);
                        self.deliver(k, Event::Message(Message { from, body: &body }));
                    }
                }
                _ => {}
            }
        }
    }

    /// A packet of a flow crosses a path, hop by hop; `ack`: back.
    fn cross(&mut self, flow: u32, path: &[u32], ack: bool) {
        let mut header = Header::default();
        for hop in path.windows(2) {
            let (a, b) = (hop[0], hop[1]);
            let delivered = self.dead != Some((a, b));
            let own = self.fields.get(&a).copied().unwrap_or_default();
            header.write(0, Merge::Min, if own.0[0] == 0 { 255 } else { own.0[0] });
            header.write(1, Merge::Set, own.0[1]);
            let bytes = if ack { 40 } else { PACKET };
            self.deliver(a, sent(b, flow, ack, bytes, delivered));
            if !delivered {
                return;
            }
            let link = Link { from: NodeId(a), to: NodeId(b) };
            let frame = ReceivedFrame { link, flow: FlowId(flow), ack, bytes, header };
            for k in self.neighbours(a) {
                self.deliver(
                    k,
                    if k == b { Event::Received(frame) } else { Event::Overheard(frame) },
                );
            }
        }
    }

    /// Returns the rate of the flows that meet at a node, in bit/s.
    ///
    /// These are flows with a node of their path at it or at a neighbour.
    fn load(&self, n: u32) -> f64 {
        let near = self.neighbours(n);
        let meets = |p: &[u32]| p.iter().any(|k| *k == n || near.contains(k));
        let of = |f: usize| self.limits.get(&(f as u32)).copied().unwrap_or(0.0);
        let flows = self.paths.iter().enumerate().filter(|(f, p)| self.active[*f] && meets(p));
        flows.map(|(f, _)| of(f).min(5e6)).sum()
    }

    pub fn run(&mut self, seconds: f64) {
        let end = self.now + Span::from_secs_f64(seconds);
        let mut owed = vec![0.0; self.paths.len()];
        while self.now < end {
            self.now += STEP;
            let ids: Vec<u32> = self.nodes.keys().copied().collect();
            for &n in &ids {
                let over = self.load(n) > (self.carries)(n) || self.stuck == Some(n);
                let packets = if over { self.waits } else { 0 };
                let length = QueueLength { class: Class::All, packets, bytes: 0 };
                self.deliver(n, Event::Queue(length));
            }
            for (f, owed) in owed.iter_mut().enumerate() {
                let limit = self.limits.get(&(f as u32)).copied().unwrap_or(0.0).min(5e6);
                *owed += if self.active[f] { limit * STEP.as_secs_f64() / 8.0 } else { 0.0 };
                while *owed >= f64::from(PACKET) {
                    *owed -= f64::from(PACKET);
                    let path = self.paths[f].clone();
                    self.cross(f as u32, &path, false);
                    let back: Vec<u32> = path.iter().rev().copied().collect();
                    if self.acks && self.dead.is_none_or(|d| !path.contains(&d.0)) {
                        self.cross(f as u32, &back, true);
                    }
                }
            }
            for &n in &ids {
                if self.nodes[&n].control.next_deadline().is_some_and(|d| d <= self.now) {
                    for f in 0..self.paths.len() {
                        if self.paths[f][0] == n {
                            self.deliver(n, counters(f as u32, u32::from(self.active[f])));
                        }
                    }
                    self.deliver(n, Event::Deadline);
                }
            }
        }
    }

    pub fn limit(&self, flow: u32) -> f64 {
        self.limits[&flow]
    }

    pub fn reason_count(&self, node: u32, code: &str) -> usize {
        self.reasons.iter().filter(|r| **r == (node, code)).count()
    }
}

pub(super) fn sent(to: u32, flow: u32, ack: bool, bytes: u32, delivered: bool) -> Event<'static> {
    Event::Sent(Sent {
        to: Some(NodeId(to)),
        flow: Some(FlowId(flow)),
        ack,
        bytes,
        airtime: Span::from_millis(1),
        backoff: Span::ZERO,
        attempts: if delivered { 1 } else { 7 },
        rate: BitRate(11_000_000),
        delivered,
        ack_bits: None,
    })
}

fn counters(flow: u32, waits: u32) -> Event<'static> {
    Event::Counters(Counters {
        class: Class::Flow(FlowId(flow)),
        bytes: 0,
        packets: 0,
        drops: 0,
        overlimits: 0,
        queued_packets: waits,
        queued_bytes: 0,
    })
}

pub(super) fn about(got: f64, expected: f64, by: f64) {
    assert!((got / expected - 1.0).abs() <= by, "{got} instead of {expected}");
}

/// Node 5 carries 1200 kbit/s of the three flows around it; there is no other bottleneck.
///
/// The outer flows are out of each other's range and learn of it over two hops.
#[test]
fn one_bottleneck_gives_all_around_it_the_same() {
    let mut mesh = Mesh::stack();
    mesh.carries = |n| if n == 5 { 1.2e6 } else { 1e9 };
    mesh.run(40.0);
    let mut sums = [0.0; 3];
    for _ in 0..100 {
        mesh.run(0.2);
        (0..3).for_each(|f| sums[f] += mesh.limit(f as u32) / 100.0);
    }
    for sum in sums {
        about(sum, 400e3, 0.12);
    }
}

/// Five flows in a row, each next to its predecessor; the last one's node carries little.
///
/// Flows beyond its two hops have the rest of their own neighbourhood: water-filling.
#[test]
fn flows_away_from_a_bottleneck_are_not_limited_by_it() {
    let links = [(1, 2), (3, 4), (5, 6), (7, 8), (2, 4), (4, 6), (6, 8)];
    let mut mesh = Mesh::new(&links, &[&[1, 2], &[3, 4], &[5, 6], &[7, 8]], &[]);
    mesh.carries = |n| match n {
        7 | 8 => 400e3,
        1 | 2 => 2e6,
        _ => 1e9,
    };
    mesh.run(60.0);
    let mut sums = [0.0; 4];
    for _ in 0..100 {
        mesh.run(0.2);
        (0..4).for_each(|f| sums[f] += mesh.limit(f as u32) / 100.0);
    }
    about(sums[2], 200e3, 0.15);
    about(sums[3], 200e3, 0.15);
    assert!(sums[0] > 700e3, "{sums:?}");
}

#[test]
fn a_new_flow_has_its_share_within_three_seconds_and_leaves_it_when_it_ends() {
    let mut mesh = Mesh::stack();
    mesh.carries = |n| if [2, 5, 8].contains(&n) { 1.2e6 } else { 1e9 };
    mesh.active[1] = false;
    mesh.run(60.0);
    let before = mesh.limit(0);
    about(before, 1.2e6, 0.2);
    mesh.active[1] = true;
    mesh.run(3.0);
    assert!(mesh.limit(1) >= 0.9 * mesh.limit(0).min(400e3), "{:?}", mesh.limits);
    mesh.run(30.0);
    about(mesh.limit(0), 400e3, 0.25);
    mesh.active[1] = false;
    mesh.run(15.0);
    assert!(mesh.limit(0) > 0.85 * before, "{:?}", mesh.limits);
}

/// A flow with discarded packets gets capacity, though almost no packets wait.
#[test]
fn a_flow_that_does_not_get_through_lowers_the_level_of_those_around() {
    let mut mesh = Mesh::stack();
    mesh.active[1] = false;
    mesh.carries = |_| 1.5e6;
    mesh.run(30.0);
    let before = mesh.limit(0);
    // Its first packet is the only one that waits.
    (mesh.stuck, mesh.waits) = (Some(4), 1);
    for _ in 0..6 {
        mesh.deliver(4, sent(5, 1, false, 40, false));
        mesh.run(1.0);
    }
    assert!(mesh.reason_count(4, "mesh-maxmin.unheard") > 0);
    // Node 5 sends this to its other neighbours, once a second, until the hold time after the last report.
    let count = mesh.reason_count(5, "mesh-maxmin.cried");
    assert!((1..=3 * 7).contains(&count), "{count}");
    assert!(mesh.limit(0) < 0.8 * before, "{} of {before}", mesh.limit(0));
}

/// At a few packets per second, the predecessor of most packets was delivered long ago.
#[test]
fn a_flow_of_few_packets_is_not_undelivered() {
    let mut mesh = Mesh::stack();
    mesh.active[0] = false;
    mesh.run(10.0);
    for _ in 0..50 {
        mesh.waits = 1;
        mesh.stuck = Some(1);
        mesh.run(0.05);
        mesh.stuck = None;
        mesh.deliver(1, sent(2, 0, false, PACKET, true));
        mesh.run(0.95);
    }
    assert_eq!(mesh.reason_count(1, "mesh-maxmin.unheard"), 0);
    mesh.stuck = Some(1);
    mesh.run(0.5);
    assert!(mesh.reason_count(1, "mesh-maxmin.unheard") > 0);
}

/// Flows of datagrams, without acknowledgements.
///
/// A forwarding node reports their limit to the node before it.
#[test]
fn limits_of_flows_without_acknowledgements_are_sent_in_messages() {
    let links = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)];
    let mut mesh = Mesh::new(&links, &[&[1, 2, 3, 4, 5, 6, 7]], &[]);
    mesh.acks = false;
    mesh.carries = |n| if n == 7 { 300e3 } else { 1e9 };
    mesh.run(60.0);
    assert!(
        mesh.reason_count(7, "mesh-maxmin.one-way") > 0
            && mesh.reason_count(6, "mesh-maxmin.way") > 0
    );
    // Levels oscillate around the capacity: messages come twice a second.
    let mut mean = 0.0;
    for _ in 0..200 {
        mesh.run(0.1);
        mean += mesh.limit(0) / 200.0;
    }
    about(mean, 300e3, 0.35);
}

/// A link's new rate leaves the level, and a neighbour that is gone no longer counts.
#[test]
fn changed_neighbours_leave_the_level() {
    let mut mesh = Mesh::stack();
    mesh.carries = |n| if n == 5 { 1.2e6 } else { 1e9 };
    mesh.run(40.0);
    let before = mesh.limit(1);
    let near = |ids: &[u32], capacity: u64| -> Vec<Neighbour> {
        let link = |id| Neighbour::new(NodeId(id), BitRate(2 * capacity), BitRate(capacity));
        ids.iter().map(|id| link(*id)).collect()
    };
    mesh.deliver(5, Event::Neighbours(&near(&[2, 4, 6, 8], 20_000_000)));
    mesh.run(0.3);
    about(mesh.limit(1), before, 0.1);
    // A link slower than the level bounds it.
    mesh.deliver(5, Event::Neighbours(&near(&[2, 4, 6, 8], 100_000)));
    mesh.run(1.0);
    assert!(mesh.limit(1) < 120e3, "{}", mesh.limit(1));
    // Node 8 moves away from node 5: the flow behind it is no longer limited there.
    mesh.deliver(5, Event::Neighbours(&near(&[2, 4, 6], 5_000_000)));
    mesh.deliver(8, Event::Neighbours(&near(&[7, 9], 5_000_000)));
    mesh.links.retain(|l| *l != (5, 8));
    mesh.run(20.0);
    assert!(mesh.limit(2) > 2.0 * mesh.limit(1), "{} {}", mesh.limit(2), mesh.limit(1));
}
