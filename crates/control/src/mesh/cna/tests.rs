//! The paper's worked numbers, first on exact quantities, then through transmitted headers.

use std::collections::BTreeMap;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::links::Meter;
use super::neighbourhood::Neighbourhood;
use super::settled::{self, Hop};
use crate::{
    Action, Actions, Channel, Class, Event, Header, Instance, Link, Message, Neighbour,
    ReceivedFrame, Sent, Setting, Site,
};

/// Pairs of nodes in range, and the traffic between nodes.
pub(super) struct Map {
    pub links: Vec<(u32, u32)>,
    /// Packets as (from, to, flow, acknowledgements).
    pub packets: Vec<(u32, u32, u32, bool)>,
}

impl Map {
    /// Flows along paths, with their acknowledgements on the reverse path.
    pub fn new(links: &[(u32, u32)], paths: &[&[u32]]) -> Self {
        let mut packets = Vec::new();
        for (f, path) in paths.iter().enumerate() {
            for hop in path.windows(2) {
                packets.push((hop[0], hop[1], f as u32, false));
                packets.push((hop[1], hop[0], f as u32, true));
            }
        }
        Map { links: links.to_vec(), packets }
    }

    pub fn stack() -> Self {
        let links = [(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)];
        Map::new(&links, &[&[1, 2, 3], &[4, 5, 6], &[7, 8, 9]])
    }

    /// Jang 2010 Fig. 3(a), with W↔ of 2 on every active link and of 4 between 1 and 2.
    pub fn fig_3() -> Self {
        let links =
            [(1, 2), (2, 5), (5, 6), (5, 11), (6, 11), (11, 12), (6, 7), (7, 8), (6, 9), (9, 10)];
        Map::new(&links, &[&[5, 6, 7, 8], &[11, 12], &[1, 2], &[2, 1]])
    }

    pub fn neighbours(&self, n: u32) -> Vec<u32> {
        let other = |&(a, b): &(u32, u32)| match n {
            _ if a == n => Some(b),
            _ if b == n => Some(a),
            _ => None,
        };
        self.links.iter().filter_map(other).collect()
    }

    pub fn nodes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.links.iter().flat_map(|l| [l.0, l.1]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn settle(&self, used: f64, available: impl Fn(u32) -> f64) -> BTreeMap<u32, Neighbourhood> {
        let hop = |&(from, to, _, ack): &(u32, u32, u32, bool)| Hop { from, to, ack };
        let hops: Vec<Hop> = self.packets.iter().map(hop).collect();
        settled::neighbourhoods(&self.links, &hops, used, available)
    }
}

fn own(
    neighbourhoods: &BTreeMap<u32, Neighbourhood>,
    from: u32,
    to: u32,
) -> super::neighbourhood::OwnLink {
    *neighbourhoods[&from].own.iter().find(|o| o.to.0 == to).unwrap()
}

fn near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-9, "{got} instead of {expected}");
}

/// Jang 2010 §3, Fig. 2(b), (c): NW(1→2) = 8, NW(4→5) = 12, every limit 1/12.
#[test]
fn fig_2_weights_and_limits() {
    let neighbourhoods = Map::stack().settle(1.0, |_| 1.0);
    for (from, to, around) in [(1, 2, 8.0), (2, 3, 8.0), (4, 5, 12.0), (5, 6, 12.0), (8, 9, 8.0)] {
        for (a, b) in [(from, to), (to, from)] {
            let o = own(&neighbourhoods, a, b);
            near(o.around, around);
            near(o.divider, 12.0);
            near(o.airtime, 1.0 / 12.0);
            near(o.scaling, 1.0);
        }
    }
}

/// Fig. 2(d): acknowledgements use 60 % of theirs.
///
/// By the equations of §3, a unit of reusable airtime is 0.4/12/8 outside and 0.4/12/12 in the middle; the
/// middle flow's links receive from all six, the others from two of either kind.
#[test]
fn fig_2_redistribution() {
    let neighbourhoods = Map::stack().settle(0.6, |_| 1.0);
    let (outer, middle) = (0.4 / 12.0 / 8.0, 0.4 / 12.0 / 12.0);
    let nra = [2.0 * outer + 2.0 * middle, 4.0 * outer + 2.0 * middle];
    for (from, to, nra) in [(1, 2, nra[0]), (2, 3, nra[0]), (4, 5, nra[1]), (5, 6, nra[1])] {
        near(own(&neighbourhoods, from, to).airtime, 1.0 / 12.0 + nra);
        near(own(&neighbourhoods, to, from).airtime, 0.6 / 12.0 + nra);
    }
    // All of it is used again, and nothing twice: in the middle's neighbourhood the sum is one.
    let all: f64 =
        Map::stack().packets.iter().map(|p| own(&neighbourhoods, p.0, p.1).airtime).sum();
    near(all, 1.0);
}

/// Fig. 2(e): 40 % of the air around node 1 is gone.
///
/// The links around 1↔2 share the rest, those of the bottom flow keep theirs.
#[test]
fn fig_2_interference() {
    let before = Map::stack().settle(0.6, |_| 1.0);
    let neighbourhoods = Map::stack().settle(0.6, |n| if n == 1 { 0.6 } else { 1.0 });
    let limit = |from, to| {
        let o = own(&neighbourhoods, from, to);
        o.airtime * o.scaling
    };
    let around: f64 =
        [(1, 2), (2, 3), (4, 5), (5, 6)].into_iter().map(|(a, b)| limit(a, b) + limit(b, a)).sum();
    near(around, 0.6);
    for (a, b) in [(7, 8), (8, 9), (8, 7), (9, 8)] {
        near(limit(a, b), own(&before, a, b).airtime);
    }
}

/// Fig. 3: W′5 = 10, W′6 = 8, 6 in common, so NW(5↔6) = 12.
#[test]
fn fig_3_two_hop_sums() {
    let neighbourhoods = Map::fig_3().settle(1.0, |_| 1.0);
    near(neighbourhoods[&5].two.weight, 10.0);
    near(neighbourhoods[&6].two.weight, 8.0);
    near(own(&neighbourhoods, 5, 6).around, 12.0);
    near(own(&neighbourhoods, 6, 5).around, 12.0);
}

/// The footnote of §3: with A = W / D no neighbourhood is given more than all of its airtime.
#[test]
fn no_neighbourhood_is_given_too_much() {
    use proptest::prelude::*;
    proptest!(ProptestConfig::with_cases(60), |(
        links in prop::collection::vec((0u32..8, 0u32..8), 6..16),
        picks in prop::collection::vec(any::<u32>(), 1..6),
        used in 0.0f64..=1.0,
    )| {
        let mut unique: Vec<_> =
            links.into_iter().filter(|l| l.0 != l.1).map(|l| (l.0.min(l.1), l.0.max(l.1))).collect();
        unique.sort_unstable();
        unique.dedup();
        prop_assume!(!unique.is_empty());
        let path = |p: &u32| {
            let (a, b) = unique[*p as usize % unique.len()];
            vec![a, b]
        };
        let paths: Vec<Vec<u32>> = picks.iter().map(path).collect();
        let paths: Vec<&[u32]> = paths.iter().map(Vec::as_slice).collect();
        let map = Map::new(&unique, &paths);
        let neighbourhoods = map.settle(used, |_| 1.0);
        for &(i, j) in &unique {
            let near = |n: u32| n == i || n == j || map.neighbours(i).contains(&n) || map.neighbours(j).contains(&n);
            let mut seen: Vec<(u32, u32)> = map.packets.iter().map(|p| (p.0, p.1)).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.retain(|(a, b)| near(*a) || near(*b));
            let weight = |a: u32, b: u32| own(&neighbourhoods, a, b).out;
            let (given, all): (f64, f64) = seen.iter().fold((0.0, 0.0), |(g, w), &(a, b)| {
                (g + own(&neighbourhoods, a, b).share(), w + weight(a, b))
            });
            let active = neighbourhoods[&i].own.iter().find(|o| o.to.0 == j).filter(|o| o.weight() > 0.0);
            if let Some(o) = active {
                prop_assert!(given <= 1.0 + 1e-9, "{given} around {i}-{j}");
                // Table 2 gives the sum over the neighbourhood.
                prop_assert!((o.around - all).abs() < 1e-9, "{} {all}", o.around);
            }
        }
    });
}

/// Nodes that run the mechanism, on a lossless medium.
pub(super) struct Mesh {
    pub map: Map,
    pub nodes: BTreeMap<u32, Instance>,
    pub fields: BTreeMap<(u32, u32), Header>,
    pub shares: BTreeMap<(u32, u32), f64>,
    pub reasons: Vec<(u32, &'static str)>,
    pub now: Time,
    /// Fraction of its limit that a packet's link uses: data, acknowledgements.
    pub used: [f64; 2],
    /// Fraction of a packet's airtime that is its initial backoff.
    pub backoff: f64,
    /// Share of the time in which a node senses foreign energy.
    pub foreign: fn(u32) -> f64,
    pub messages: usize,
    /// True for a node that loses all messages.
    pub mute: fn(u32) -> bool,
    /// Broken channel counters of a node.
    pub broken: fn(u32, Time) -> Option<Channel>,
}

const STEP: Span = Span::from_millis(20);

impl Mesh {
    /// A mesh under `cna+tolerant+pass-on`.
    pub fn new(map: Map, parameters: &[(&str, f64)]) -> Self {
        Mesh::under("cna+tolerant+pass-on", map, parameters)
    }

    pub fn under(control: &str, map: Map, parameters: &[(&str, f64)]) -> Self {
        let start = |n: u32| {
            let link = |m| Neighbour::new(NodeId(m), BitRate(11_000_000), BitRate(6_000_000));
            let stream = Stream::new(1, &format!("control/n{n}"));
            let setting = Setting::new(NodeId(n), Site::new(), stream)
                .with_neighbours(map.neighbours(n).into_iter().map(link));
            (n, crate::testing::start_with(control, setting, parameters).unwrap())
        };
        let nodes = map.nodes().into_iter().map(start).collect();
        Mesh {
            map,
            nodes,
            fields: BTreeMap::new(),
            shares: BTreeMap::new(),
            reasons: Vec::new(),
            now: Time::ZERO,
            used: [1.0, 1.0],
            backoff: 0.0,
            foreign: |_| 0.0,
            messages: 0,
            mute: |_| false,
            broken: |_, _| None,
        }
    }

    pub fn deliver(&mut self, node: u32, event: Event<'_>) {
        let mut actions = Actions::new();
        let instance = self.nodes.get_mut(&node).unwrap();
        instance.control.on(self.now, &event, &mut actions);
        let mut sent = Vec::new();
        for action in actions.iter() {
            match *action {
                Action::Because(r) => self.reasons.push((node, r.code)),
                Action::SetAirtime { class: Class::Link(to), share } => {
                    self.shares.insert((node, to.0), share.get());
                }
                Action::Annotate { class: Class::Link(to), slot, merge, value } => {
                    self.fields.entry((node, to.0)).or_default().write(slot, merge, value);
                }
                Action::Send { to, .. } => sent.push((to, actions.body(action).to_vec())),
                ref other => panic!("{other:?}"),
            }
        }
        self.messages += sent.len();
        if (self.mute)(node) {
            return;
        }
        for (to, body) in sent {
            for n in self.map.neighbours(node) {
                if to.is_some_and(|to| to.0 != n) {
                    continue;
                }
                self.deliver(n, Event::Message(Message { from: NodeId(node), body: &body }));
            }
        }
    }

    fn deadlines(&mut self) {
        for n in self.map.nodes() {
            while self.nodes[&n].control.next_deadline().is_some_and(|d| d <= self.now) {
                let active = self.now.since(Time::ZERO);
                let busy = Span::from_secs_f64(active.as_secs_f64() * (self.foreign)(n));
                let channel = Channel { active, busy, receive: Span::ZERO, transmit: Span::ZERO };
                self.deliver(n, Event::Channel((self.broken)(n, self.now).unwrap_or(channel)));
                self.deliver(n, Event::Deadline);
            }
        }
    }

    fn packet(&mut self, (from, to, flow, ack): (u32, u32, u32, bool)) {
        let (link, flow) = (Link { from: NodeId(from), to: NodeId(to) }, FlowId(flow));
        let header = self.fields.get(&(from, to)).copied().unwrap_or_default();
        let frame = ReceivedFrame { link, flow, ack, bytes: 1500, header };
        for n in self.map.neighbours(from) {
            let event = if n == to { Event::Received(frame) } else { Event::Overheard(frame) };
            self.deliver(n, event);
        }
        // All flows of the link together use its share.
        let flows = self.map.packets.iter().filter(|p| (p.0, p.1) == (from, to)).count() as f64;
        let share = self.shares.get(&(from, to)).copied().unwrap_or(0.1);
        let seconds = STEP.as_secs_f64() * share * self.used[usize::from(ack)] / flows;
        let sent = Sent {
            to: Some(NodeId(to)),
            flow: Some(flow),
            ack,
            bytes: 1500,
            airtime: Span::from_secs_f64(seconds),
            backoff: Span::from_secs_f64(self.backoff * seconds),
            attempts: 1,
            rate: BitRate(11_000_000),
            delivered: true,
            ack_bits: None,
        };
        self.deliver(from, Event::Sent(sent));
    }

    /// Every flow sends a packet on each hop every 20 ms.
    pub fn run(&mut self, seconds: f64) {
        let end = self.now + Span::from_secs_f64(seconds);
        while self.now < end {
            self.now += STEP;
            self.deadlines();
            for p in self.map.packets.clone() {
                self.packet(p);
            }
        }
    }

    pub fn share(&self, from: u32, to: u32) -> f64 {
        self.shares[&(from, to)]
    }
}

/// Less one per cent for broadcasts.
const FREE: f64 = 0.99;

fn about(got: f64, expected: f64, tolerance: f64) {
    assert!((got / expected - 1.0).abs() <= tolerance, "{got} instead of {expected}");
}

#[test]
fn the_stack_through_headers() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(4.0);
    for (&(a, b), &share) in &mesh.shares {
        assert!(mesh.map.packets.iter().any(|p| (p.0, p.1) == (a, b)), "{a} to {b}");
        about(share, FREE / 12.0, 0.031);
    }
    assert_eq!(mesh.shares.len(), 12);
    // Two topology messages per node so far, and none of a one-way link.
    assert_eq!(
        mesh.messages,
        2 * 9,
        "{:?}",
        mesh.reasons.iter().filter(|r| !r.1.contains("header")).collect::<Vec<_>>()
    );
}

#[test]
fn unused_airtime_through_headers() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.used = [1.0, 0.5];
    mesh.run(20.0);
    // Acknowledgements use half of their limit, whatever it is.
    let used =
        |&(a, b, _, ack): &(u32, u32, u32, bool)| mesh.share(a, b) * mesh.used[usize::from(ack)];
    let all: f64 = mesh.map.packets.iter().map(used).sum();
    assert!(mesh.share(4, 5) > 1.3 * FREE / 12.0, "{:?}", mesh.shares);
    assert!(mesh.share(1, 2) > 1.2 * FREE / 12.0, "{:?}", mesh.shares);
    assert!(mesh.share(2, 1) < FREE / 12.0, "{:?}", mesh.shares);
    // Nearly all of the middle's air is used, and no more than that.
    assert!(all > 0.92 && all < 1.03, "{all} of {:?}", mesh.shares);
}

#[test]
fn initial_backoff_lowers_no_share_unless_counted() {
    let share = |part: f64, counts: f64| {
        let mut mesh = Mesh::new(Map::stack(), &[("backoff", counts)]);
        mesh.backoff = part;
        mesh.run(10.0);
        mesh.share(4, 5)
    };
    let all = share(0.0, 0.0);
    about(all, FREE / 12.0, 0.031);
    about(share(0.4, 1.0), all, 0.01);
    assert!(share(0.4, 0.0) > 1.3 * all);
}

/// As published (§3), unused airtime of a link is given away once.
///
/// A link that uses nothing of the airtime it is given keeps its limit.
#[test]
fn unused_airtime_is_given_once_as_published() {
    for control in ["cna", "cna+tolerant"] {
        let mut mesh = Mesh::under(control, Map::stack(), &[]);
        mesh.used = [1.0, 0.5];
        mesh.run(20.0);
        assert!(mesh.share(4, 5) > 1.1 * FREE / 12.0, "{control}: {:?}", mesh.shares);
        let all: f64 = mesh.shares.values().sum();
        assert!(all < 1.25, "{control}: {all} of {:?}", mesh.shares);
    }
}

/// §4: backoffs are part of a packet's airtime, and nothing is attributed to lost frames.
#[test]
fn published_limits_count_backoffs_and_all_foreign_energy() {
    let share = |control: &str, backoff: f64, foreign: f64| {
        let mut mesh = Mesh::under(control, Map::stack(), &[]);
        mesh.backoff = backoff;
        mesh.foreign = match foreign > 0.0 {
            true => |_| 0.08,
            false => |_| 0.0,
        };
        mesh.run(12.0);
        mesh.share(4, 5)
    };
    let calm = share("cna", 0.0, 0.0);
    about(share("cna", 0.4, 0.0), calm, 0.01);
    assert!(share("cna+pass-on", 0.4, 0.0) > 1.3 * calm);
    // Codes are rounded down in steps of 1/31.
    let disturbed = share("cna", 0.0, 0.08);
    assert!(disturbed < 0.95 * calm && disturbed > 0.8 * calm, "{disturbed} of {calm}");
    about(share("cna+tolerant", 0.0, 0.08), share("cna+tolerant", 0.0, 0.0), 0.001);
}

/// A flow with undelivered packets is unknown to nodes out of its range.
///
/// The published protocol has no message for it.
#[test]
fn as_published_a_flow_that_does_not_get_through_makes_no_room() {
    let mut mesh = Mesh::under("cna", Map::stack(), &[]);
    mesh.map.packets.retain(|p| p.2 != 1);
    mesh.run(4.0);
    mesh.deliver(4, given_up());
    mesh.run(1.5);
    assert!(
        !mesh.reasons.iter().any(|r| ["cna.unheard", "cna.newcomer", "cna.still"].contains(&r.1))
    );
    // Rounded down twice: U and S in steps of 1/31, without the margins of `+tolerant`.
    about(mesh.share(1, 2), FREE / 4.0, 0.05);
}

#[test]
fn fig_3_through_headers() {
    let mut mesh = Mesh::new(Map::fig_3(), &[]);
    mesh.run(4.0);
    // The busiest neighbourhood of 5↔6 is its own: 12.
    about(mesh.share(5, 6), FREE / 12.0, 0.031);
    about(mesh.share(6, 5), FREE / 12.0, 0.031);
    // 1↔2: within two hops of 1 or 2 are 1↔2 and 5↔6: 6; but 5↔6 is in its neighbourhood.
    about(mesh.share(1, 2), FREE * 2.0 / 12.0, 0.031);
}

#[test]
fn a_new_flow_counts_within_a_second_and_an_ended_one_after_the_window() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    let middle: Vec<_> = mesh.map.packets.iter().copied().filter(|p| p.2 == 1).collect();
    mesh.map.packets.retain(|p| p.2 != 1);
    mesh.run(4.0);
    // §1: without the middle flow the outer ones do not meet. Each has four directed links.
    about(mesh.share(1, 2), FREE / 4.0, 0.031);
    mesh.map.packets.extend(&middle);
    mesh.run(1.0);
    about(mesh.share(1, 2), FREE / 12.0, 0.031);
    let idle = |mesh: &Mesh, node| mesh.reasons.contains(&(node, "cna.idle"));
    assert!(!idle(&mesh, 1) && !idle(&mesh, 4) && mesh.reasons.contains(&(4, "cna.limit")));
    mesh.map.packets.retain(|p| p.2 != 1);
    // Twice the window: counted by the nodes that carried it, then reported by them.
    mesh.run(5.0);
    assert!(!idle(&mesh, 1) && idle(&mesh, 4), "no flow goes there any more");
    about(mesh.share(1, 2), FREE / 4.0, 0.031);
    about(mesh.share(9, 8), FREE / 4.0, 0.031);
}

/// A link with few packets is averaged for as long as it takes to see ten of them.
#[test]
fn a_link_with_few_packets_is_averaged_longer() {
    // A link that used a fifth of the airtime, and nothing in a tick with this number of packets.
    let after = |packets: u32| {
        let mut meter = Meter::new(NodeId(2), 0.2);
        (0..packets).for_each(|_| meter.spent(Span::ZERO, Span::ZERO));
        meter.average(0.1, 0.5);
        meter.used
    };
    // At a gain of a half ten packets are five a tick; of the first tick's, half are the average.
    near(after(100), 0.2 * (1.0 - 0.5));
    near(after(6), 0.2 * (1.0 - 0.5 * 3.0 / 5.0));
    near(after(1), 0.2 * (1.0 - 0.5 * 0.1));
}

#[test]
fn weights_are_flows() {
    // §5: a link with two flows has twice the limit of a link with one.
    let links = [(1, 2), (2, 3), (11, 1)];
    let mut mesh = Mesh::new(Map::new(&links, &[&[1, 2, 3], &[11, 1, 2, 3]]), &[]);
    mesh.run(4.0);
    about(mesh.share(1, 2), 2.0 * mesh.share(11, 1), 0.031);
    about(mesh.share(11, 1), FREE / 10.0, 0.031);
}

#[test]
fn shares_fit_into_the_time_without_interference() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.foreign = |n| if n == 1 { 0.4 } else { 0.0 };
    mesh.run(12.0);
    let around: f64 = [(1, 2), (2, 3), (4, 5), (5, 6)]
        .into_iter()
        .map(|(a, b)| mesh.share(a, b) + mesh.share(b, a))
        .sum();
    assert!(around <= 0.6 && around > 0.5, "{around}");
    about(mesh.share(7, 8), FREE / 12.0, 0.031);
}

/// §4: acknowledgements of 8 → 7 take another path, so 6 cannot overhear packets from 7 to 8.
#[test]
fn one_way_links_are_reported_by_a_message() {
    let mut map = Map::new(&[(5, 6), (6, 7), (7, 8)], &[&[5, 6]]);
    map.packets.push((8, 7, 9, false));
    let mut mesh = Mesh::new(map, &[]);
    mesh.run(6.0);
    assert!(mesh.reasons.contains(&(7, "cna.one-way")));
    // 5↔6 and 8→7 lie within two hops of 6.
    about(mesh.share(5, 6), FREE / 3.0, 0.031);
    about(mesh.share(8, 7), FREE / 3.0, 0.031);
    // Ten times in the first second, then twice a second, in addition to topology messages.
    let count = mesh.reasons.iter().filter(|r| r.1 == "cna.one-way").count();
    assert!((17..=22).contains(&count), "{count}");
}

/// The first packet of flow 1 from node 4, discarded by the MAC.
fn given_up() -> Event<'static> {
    Event::Sent(Sent {
        to: Some(NodeId(5)),
        flow: Some(FlowId(1)),
        ack: false,
        bytes: 40,
        airtime: Span::from_millis(2),
        backoff: Span::ZERO,
        attempts: 7,
        rate: BitRate(11_000_000),
        delivered: false,
        ack_bits: None,
    })
}

/// A flow that collides with others is reported by messages until its packets are delivered.
#[test]
fn a_flow_that_does_not_get_through_makes_room_for_itself() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.map.packets.retain(|p| p.2 != 1);
    mesh.run(4.0);
    about(mesh.share(1, 2), FREE / 4.0, 0.031);
    // Node 4 has discarded the first packet of its flow, and TCP waits.
    mesh.deliver(4, given_up());
    mesh.run(1.5);
    assert!(mesh.reasons.contains(&(4, "cna.unheard")));
    // Eight links of the outer flows and 4→5.
    about(mesh.share(1, 2), FREE / 9.0, 0.1);
    mesh.run(10.0);
    about(mesh.share(1, 2), FREE / 9.0, 0.1);
    mesh.run(35.0);
    about(mesh.share(1, 2), FREE / 4.0, 0.031);
}
