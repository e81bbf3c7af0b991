//! Neighbours without the protocol or with false values, lost messages, broken counters.

use std::collections::BTreeMap;

use fairmesh_units::{FlowId, NodeId, Span, Time};
use proptest::prelude::*;

use super::codec::{self, OneHop, TwoHop};
use super::message;
use super::tests::{Map, Mesh};
use crate::{Channel, Event, Header, Link, Message, ReceivedFrame};

use super::{MIN_FLOW_SHARE, plausible};

fn overhear(mesh: &mut Mesh, from: u32, to: u32, words: [u32; 2]) {
    let header = Header([words[0], words[1], 0, 0, 0, 0, 0, 0]);
    // An acknowledgement of the flow from 1: no new flow.
    let (link, flow) = (Link { from: NodeId(from), to: NodeId(to) }, FlowId(0));
    let frame = ReceivedFrame { link, flow, ack: true, bytes: 40, header };
    for n in mesh.map.neighbours(from) {
        mesh.deliver(n, if n == to { Event::Received(frame) } else { Event::Overheard(frame) });
    }
}

fn count(mesh: &Mesh, node: u32, code: &str) -> usize {
    mesh.reasons.iter().filter(|r| **r == (node, code)).count()
}

fn close(after: &BTreeMap<(u32, u32), f64>, before: &BTreeMap<(u32, u32), f64>) {
    for (link, share) in after {
        assert!((share / before[link] - 1.0).abs() < 0.05, "{link:?}: {share} {}", before[link]);
    }
}

#[test]
fn a_reserved_bit_from_a_stranger_is_ignored_and_named() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(4.0);
    let before = mesh.shares.clone();
    for _ in 0..9 {
        overhear(&mut mesh, 2, 1, [0x8000, 0]);
    }
    mesh.run(0.5);
    // Reported the first, second, fourth and eighth time.
    assert_eq!(count(&mesh, 1, "cna.bad-header"), 4);
    close(&mesh.shares, &before);
}

/// A fragment carries only the number of flows of its link; the number counts at once.
#[test]
fn a_fragment_carries_the_weight_of_its_link() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(4.0);
    let before = mesh.share(5, 6);
    overhear(&mut mesh, 2, 1, [0x2000, codec::fragment(8.0)]);
    mesh.run(0.02);
    // Six links of two flows are twelve; with eight on 1↔2 they are eighteen.
    let part = mesh.share(5, 6) / before;
    assert!((part - 12.0 / 18.0).abs() < 0.03, "{part}");
}

/// Counts of flows at the ends of a link: eight at one end only, or equal at both ends.
#[test]
fn ends_of_a_link_may_count_differently_within_bounds() {
    let counts: [(f64, f64); 3] = [(0.0, 8.0), (1.0, 10.0), (6.0, 20.0)];
    for (own, most) in counts {
        assert!(plausible(most, own) && !plausible(most + 1.0, own), "{own}");
    }
}

#[test]
fn a_neighbour_that_lies_cannot_starve_or_flood() {
    let one = |weight: f64, reusable: f64| OneHop {
        weight,
        largest: 256.0,
        used: 0.0,
        reusable,
        airtime: 1.0,
        available: 1.0 / 31.0,
        scaling: 1.0 / 31.0,
    };
    for (weight, reusable) in [(256.0, 0.0), (1.0, 0.1)] {
        let mut mesh = Mesh::new(Map::stack(), &[]);
        mesh.run(4.0);
        let two =
            TwoHop { weight: 1.0, largest: 256.0, reusable, airtime: 2.0, scaling: 1.0 / 31.0 };
        for _ in 0..50 {
            overhear(&mut mesh, 2, 5, codec::one_hop(&one(weight, reusable), 0.5));
            overhear(&mut mesh, 2, 5, codec::two_hop(&two, 0.5));
            mesh.run(0.02);
        }
        for (link, share) in &mesh.shares {
            assert!((MIN_FLOW_SHARE..=1.0).contains(share), "{link:?}: {share}");
        }
        // The node that has this link knows better, and reports the first, second, … time.
        let named = count(&mesh, 5, "cna.contradiction");
        assert_eq!(named, if weight > 1.0 { 6 } else { 0 });
        // When the false values end, so does their effect.
        mesh.run(5.0);
        assert!(mesh.share(4, 5) > 0.07, "{:?}", mesh.shares);
    }
}

#[test]
fn absurd_values_are_ignored_and_named() {
    let sound = OneHop { weight: 2.0, largest: 12.0, scaling: 1.0, ..OneHop::default() };
    let absurd = [
        // No flow on a link that a packet crosses; a neighbourhood lighter than the link.
        codec::one_hop(&OneHop { weight: 0.0, ..sound }, 0.5),
        codec::one_hop(&OneHop { weight: 12.0, largest: 2.0, ..sound }, 0.5),
        codec::two_hop(&TwoHop { weight: 12.0, largest: 2.0, ..TwoHop::default() }, 0.5),
        // There is no such kind of header.
        [0xffff_9fff, 0xff],
    ];
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(4.0);
    let before = mesh.shares.clone();
    for words in absurd {
        overhear(&mut mesh, 2, 1, words);
    }
    mesh.run(0.5);
    assert_eq!(count(&mesh, 1, "cna.bad-header"), 3, "the first, second and fourth");
    close(&mesh.shares, &before);
}

/// A node that pauses for every request must still send under any number of requests.
#[test]
fn a_flood_of_requests_does_not_stop_a_node() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(4.0);
    let (mut silent, mut all) = (0, 0);
    for _ in 0..250 {
        mesh.deliver(5, Event::Message(Message { from: NodeId(4), body: b"\x01\x01\x00\x05" }));
        mesh.run(0.02);
        all += 1;
        silent += usize::from(mesh.share(5, 6) <= MIN_FLOW_SHARE);
    }
    assert!(silent > 0 && 5 * silent < all, "{silent} of {all}");
    // Claims of undelivered flows are accepted for ten seconds, and up to eight flows.
    let one = OneHop { weight: 256.0, largest: 256.0, scaling: 1.0, ..OneHop::default() };
    let two = TwoHop { weight: 256.0, largest: 256.0, scaling: 1.0, ..TwoHop::default() };
    let body = message::link(NodeId(5), true, &one, &two, 0.5);
    mesh.deliver(5, Event::Message(Message { from: NodeId(4), body: &body }));
    mesh.run(1.0);
    assert!(mesh.share(5, 6) >= MIN_FLOW_SHARE, "{:?}", mesh.shares);
    mesh.run(15.0);
    assert!(mesh.share(5, 6) > 0.07, "{:?}", mesh.shares);
}

#[test]
fn missing_topology_messages_lower_the_limits_and_are_reported() {
    let run = |mute: fn(u32) -> bool| {
        let mut mesh = Mesh::new(Map::stack(), &[("topology", 0.5)]);
        mesh.mute = mute;
        mesh.used = [1.0, 0.6];
        mesh.run(6.0);
        mesh
    };
    let (reported, unreported) = (run(|_| false), run(|n| n == 5));
    // Flows that both ends count may be counted twice, as far as one of them knows.
    let sum = |mesh: &Mesh| mesh.shares.values().sum::<f64>();
    assert!(
        sum(&unreported) <= 1.02 * sum(&reported)
            && unreported.shares.values().all(|s| *s >= MIN_FLOW_SHARE)
    );
    assert!(count(&unreported, 4, "cna.no-topology") > 0);
    assert_eq!(count(&reported, 4, "cna.no-topology"), 0);
}

#[test]
fn counters_that_jump_or_freeze_leave_limits_as_they_were() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(4.0);
    let before = mesh.shares.clone();
    // The counters of node 5 stand still, those of node 2 run backwards, those of node 8 jump.
    mesh.broken = |n, now| {
        let at = now.since(Time::ZERO);
        let (active, busy) = match n {
            5 => (Span::from_secs(1), Span::ZERO),
            2 => (Span::from_secs(100).saturating_sub(at), Span::ZERO),
            8 => (at, at * (at.as_nanos() / 100_000_000 % 7)),
            _ => return None,
        };
        Some(Channel { active, busy, receive: Span::ZERO, transmit: Span::ZERO })
    };
    mesh.run(3.0);
    for n in [2, 5, 8] {
        assert!(count(&mesh, n, "cna.bad-counters") >= 3, "{n}: {:?}", mesh.reasons);
    }
    close(&mesh.shares, &before);
}

#[test]
fn messages_that_make_no_sense_are_named() {
    let mut mesh = Mesh::new(Map::stack(), &[]);
    mesh.run(1.5);
    for body in [&b"\x01\x09"[..], b"\x02\x00\x01short", b"", b"\x07"] {
        mesh.deliver(5, Event::Message(Message { from: NodeId(4), body }));
    }
    assert_eq!(count(&mesh, 5, "cna.bad-message"), 3, "the first, second and fourth");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// For any headers and messages, limits stay within their bounds.
    ///
    /// The sum of a node's own limits stays below all of its airtime once the others send nothing more.
    #[test]
    fn any_header_leaves_limits_within_bounds(
        words in prop::collection::vec((any::<u32>(), any::<u32>(), 0usize..8), 1..80),
        body in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut mesh = Mesh::new(Map::stack(), &[]);
        mesh.run(0.5);
        for (word, tos, link) in words {
            let (a, b) = mesh.map.links[link];
            overhear(&mut mesh, a, b, [word | 0x8000, tos]);
            mesh.deliver(b, Event::Message(Message { from: NodeId(a), body: &body }));
            mesh.run(0.04);
            for (link, share) in &mesh.shares {
                prop_assert!((MIN_FLOW_SHARE..=1.0).contains(share), "{link:?}: {share}");
            }
        }
    }
}
