//! Unknown nodes, false values, stale levels, a vanished neighbour, stuck counters, NaN.

use fairmesh_units::{FlowId, NodeId, Span, Time};
use proptest::prelude::*;

use super::codec::{self, Circles, Values};
use super::level::{Level, Rule};
use super::message;
use super::tests::{Mesh, about, sent};
use crate::{Channel, Event, Header, Link, Message, ReceivedFrame};

const RULE: Rule = Rule {
    backlog: 2.0,
    rise: 0.1,
    fall: 0.1,
    damping: 0.1,
    headroom: 0.5,
    loss: 15.0,
    aside: 1.7,
    brisk: 3.0,
};

fn overhear(mesh: &mut Mesh, at: u32, from: u32, to: u32, words: [u32; 2]) {
    let header = Header([words[0], words[1], 0, 0, 0, 0, 0, 0]);
    let link = Link { from: NodeId(from), to: NodeId(to) };
    let frame = ReceivedFrame { link, flow: FlowId(9), ack: true, bytes: 40, header };
    mesh.deliver(at, if at == to { Event::Received(frame) } else { Event::Overheard(frame) });
}

fn settled() -> Mesh {
    let mut mesh = Mesh::stack();
    mesh.carries = |n| if n == 5 { 1.2e6 } else { 1e9 };
    mesh.run(40.0);
    mesh
}

#[test]
fn strangers_and_nonsense_are_named_and_change_nothing() {
    let mut mesh = settled();
    let before = mesh.limit(1);
    let least = codec::word(Values::Levels(Circles([1, 1, 1])));
    for _ in 0..9 {
        // Node 9 is not a neighbour of node 4; node 5 sends impossible values.
        overhear(&mut mesh, 4, 9, 8, [1, least]);
        overhear(&mut mesh, 4, 5, 6, [0, 1]);
        mesh.deliver(4, Event::Message(Message { from: NodeId(5), body: b"\x01\x02" }));
        mesh.deliver(
            4,
            Event::Message(Message { from: NodeId(9), body: &message::way(FlowId(1), 1) }),
        );
    }
    mesh.run(0.3);
    // Reported the first, second, fourth and eighth time; unknown nodes sent eighteen times.
    for (code, times) in [("bad-header", 4), ("bad-message", 4), ("stranger", 5)] {
        assert_eq!(mesh.reason_count(4, &format!("mesh-maxmin.{code}")), times, "{code}");
    }
    about(mesh.limit(1), before, 0.15);
}

/// A plausible false level is accepted: it lowers flows around to the bound and no further.
///
/// It is forgotten three seconds after its last report, so all have their levels again within ten.
#[test]
fn a_liars_level_is_bounded_and_forgotten() {
    let mut mesh = settled();
    let before = mesh.limit(1);
    let least = codec::word(Values::Levels(Circles([1, 1, 1])));
    for _ in 0..40 {
        overhear(&mut mesh, 4, 5, 6, [1, least]);
        mesh.run(0.05);
        let limits: Vec<f64> = mesh.limits.values().copied().collect();
        assert!(limits.iter().all(|l| *l >= codec::MIN_RATE), "{limits:?}");
    }
    mesh.run(10.0);
    assert!(mesh.limit(1) > 0.8 * before, "{} of {before}", mesh.limit(1));
    // The opposite false value: capacity for every flow.
    let most = codec::word(Values::Levels(Circles([255, 255, 255])));
    for _ in 0..40 {
        overhear(&mut mesh, 4, 5, 6, [255, most]);
        mesh.run(0.05);
        assert!(mesh.limits.values().all(|l| *l <= 5e6));
    }
    mesh.run(10.0);
    about(mesh.limit(1), before, 0.25);
}

#[test]
fn a_neighbour_that_vanishes_is_named_and_costs_others_nothing_for_long() {
    let mut mesh = Mesh::stack();
    mesh.carries = |n| if [2, 8].contains(&n) { 1.2e6 } else { 1e9 };
    mesh.active[1] = false;
    mesh.run(60.0);
    let before = mesh.limit(0);
    // Node 6 is gone; node 5 keeps sending to it, once a second.
    mesh.gone = Some(6);
    for _ in 0..9 {
        mesh.deliver(5, sent(6, 1, false, 1000, false));
        mesh.run(1.0);
    }
    assert_eq!(mesh.reason_count(5, "mesh-maxmin.vanished"), 1);
    for _ in 0..10 {
        mesh.deliver(5, sent(6, 1, false, 1000, false));
        mesh.run(1.0);
    }
    assert!(mesh.limit(0) > 0.85 * before, "{} of {before}", mesh.limit(0));
    // The node is back, and gone again.
    mesh.gone = None;
    mesh.deliver(5, sent(6, 1, false, 1000, true));
    mesh.run(0.2);
    mesh.gone = Some(6);
    for _ in 0..10 {
        mesh.deliver(5, sent(6, 1, false, 1000, false));
        mesh.run(1.0);
    }
    assert_eq!(mesh.reason_count(5, "mesh-maxmin.vanished"), 2);
}

/// Nothing is delivered to a neighbour that is received all the time: its packets collide.
///
/// The nodes around give way until TCP tries again, which may be after many seconds.
#[test]
fn a_received_neighbour_is_present_without_deliveries() {
    let mut mesh = Mesh::stack();
    mesh.active[1] = false;
    mesh.carries = |_| 1.5e6;
    mesh.run(30.0);
    let word = codec::word(Values::Levels(Circles::default()));
    let mut limits = vec![mesh.limit(0)];
    for _ in 0..3 {
        mesh.deliver(4, sent(5, 1, false, 40, false));
        for _ in 0..5 {
            overhear(&mut mesh, 4, 5, 8, [255, word]);
            mesh.run(1.0);
        }
        limits.push(mesh.limit(0));
    }
    assert_eq!(mesh.reason_count(4, "mesh-maxmin.vanished"), 0);
    assert!(limits.windows(2).all(|w| w[1] < 0.95 * w[0]), "{limits:?}");
    // Not permanently: a link may work one way only.
    for _ in 0..20 {
        mesh.deliver(4, sent(5, 1, false, 40, false));
        overhear(&mut mesh, 4, 5, 8, [255, word]);
        mesh.run(1.0);
    }
    assert_eq!(mesh.reason_count(4, "mesh-maxmin.vanished"), 1);
    mesh.run(60.0);
    assert!(mesh.limit(0) > 0.8 * limits[0], "{} of {limits:?}", mesh.limit(0));
}

/// A queue that reports to be full while nothing leaves it.
#[test]
fn a_counter_that_sticks_is_taken_for_empty() {
    let mut mesh = Mesh::new(&[(1, 2), (2, 3)], &[&[1, 2]], &[]);
    mesh.carries = |_| 600e3;
    mesh.run(40.0);
    let before = mesh.limit(0);
    // Node 3 has nothing to send.
    mesh.stuck = Some(3);
    mesh.run(10.0);
    assert!(mesh.reason_count(3, "mesh-maxmin.stuck") > 0);
    about(mesh.limit(0), before, 0.25);
}

#[test]
fn channel_counters_that_jump_or_stand_still_are_named() {
    let mut mesh = settled();
    let ms = Span::from_millis;
    let channel = |active, busy| {
        Event::Channel(Channel {
            active: ms(active),
            busy: ms(busy),
            receive: Span::ZERO,
            transmit: Span::ZERO,
        })
    };
    for (active, busy) in [(1000, 500), (1000, 500), (2000, 100), (2100, 90_000)] {
        // Just before a deadline.
        mesh.run(0.1);
        mesh.now += ms(95);
        mesh.deliver(4, channel(active, busy));
    }
    assert!(mesh.reason_count(4, "mesh-maxmin.bad-counters") >= 1);
}

#[test]
fn an_invalid_level_is_reset() {
    let fine = (Span::from_millis(100), 1.0, 0.0, 3e5);
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        let mut level = Level::new(2e5, (2e3, 5e6));
        assert!(level.look(&RULE, fine.0, fine.1, fine.2, fine.3, 1.0));
        let before = level.rate();
        let waited = level.look(&RULE, fine.0, odd, 0.0, 3e5, 1.0);
        let fastest = level.look(&RULE, fine.0, 1.0, 0.0, odd, 1.0);
        // Infinity is clamped to the maximum; NaN and negative values are refused.
        assert_eq!(waited, odd == f64::INFINITY, "{odd}");
        assert_eq!(fastest, odd == -1.0, "{odd}");
        assert!(level.rate().is_finite() && level.rate() > 0.8 * before, "{odd}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// For any input, limits stay within their bounds, and it has no effect ten seconds later.
    #[test]
    fn any_header_leaves_limits_within_bounds(
        words in prop::collection::vec((any::<u32>(), any::<u32>(), 0usize..8), 1..60),
        body in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let mut mesh = Mesh::stack();
        mesh.carries = |n| if n == 5 { 1.2e6 } else { 1e9 };
        mesh.run(2.0);
        for (way, circles, link) in words {
            let (a, b) = mesh.links[link];
            for n in mesh.neighbours(a) {
                overhear(&mut mesh, n, a, b, [way % 300, circles | 1 << 31]);
            }
            mesh.deliver(b, Event::Message(Message { from: NodeId(a), body: &body }));
            mesh.run(0.05);
            for limit in mesh.limits.values() {
                prop_assert!((codec::MIN_RATE..=5e6).contains(limit), "{limit}");
            }
        }
        mesh.run(30.0);
        let mut mean = 0.0;
        for _ in 0..20 {
            mesh.run(0.5);
            mean += mesh.limit(1) / 20.0;
        }
        prop_assert!((280e3..520e3).contains(&mean), "{mean}");
    }

    /// A level under any pressure stays within its bounds.
    #[test]
    fn any_pressure_leaves_a_level_within_bounds(
        looks in prop::collection::vec(
            (any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>(), 0u64..5_000),
            1..200,
        ),
    ) {
        let mut level = Level::new(2e5, (2e3, 5e6));
        for (waited, lost, fastest, lower, ms) in looks {
            if !level.look(&RULE, Span::from_millis(ms), waited, lost, fastest, lower) {
                level = Level::new(2e5, (2e3, 5e6));
            }
            prop_assert!((2e3..=5e6).contains(&level.rate()));
            prop_assert!((2e3..=5e6).contains(&level.reported(&RULE)));
        }
    }
}

/// Time does not run backwards, but hosts are late.
#[test]
fn a_host_that_was_suspended_moves_levels_by_a_bounded_step() {
    let mut mesh = settled();
    let before = mesh.limit(1);
    mesh.now = Time::from_nanos(mesh.now.as_nanos() + 600_000_000_000);
    mesh.run(10.0);
    assert!(mesh.limit(1) > 0.3 * before, "{} of {before}", mesh.limit(1));
}
