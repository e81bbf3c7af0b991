//! Airtime limits of links, in the radio's queue.

use std::cell::RefCell;
use std::rc::Rc;

use fairmesh_control::*;
use fairmesh_units::{Bytes, NodeId, Span, Time};

use crate::probe::{Probe, everywhere, probe, scenario};

fn fork(extra: &str) -> String {
    format!(
        r#"
name = "fork"
duration = "20 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
{extra}
[topology]
links = [[0, 1], [0, 2]]
[traffic]
traffic = {{ kind = "cbr", rate = "4 Mbit/s", packet = "1472 B" }}
transport = "udp"
[[flow]]
from = 0
to = 1
[[flow]]
from = 0
to = 2
"#
    )
}

/// Buckets of one packet.
fn plan(setting: &Setting) -> Plan {
    buckets(setting, 1500)
}

/// Buckets of ten: a bucket of one overflows while the MAC retries another link's frame.
fn deep(setting: &Setting) -> Plan {
    buckets(setting, 15_000)
}

fn buckets(setting: &Setting, burst: u64) -> Plan {
    let class = |n: &Neighbour| ClassPlan {
        class: Class::Link(n.node),
        limit: Limit::Airtime(Share::new(0.2)),
        burst: Bytes(burst),
        leaf: Leaf::Fair { packets: 10 },
    };
    Plan {
        point: Point::Interface,
        classes: setting.neighbours.iter().map(class).collect(),
        template: None,
    }
}

/// Airtime used by each link of node 0: (instant, receiver, seconds).
type Uses = Vec<(Time, u32, f64)>;

fn run(
    toml: &str,
    plan: fn(&Setting) -> Plan,
    then: impl Fn(Time, &mut Actions) + 'static,
) -> (fairmesh_engine::record::RunRecord, Uses) {
    let uses = Rc::new(RefCell::new(Uses::new()));
    let kept = uses.clone();
    let act = move |node: NodeId, now: Time, e: &Event<'_>, a: &mut Actions| match e {
        Event::Sent(s) if node == NodeId(0) => {
            kept.borrow_mut().push((now, s.to.unwrap().0, s.airtime.as_secs_f64()));
        }
        Event::Deadline if node == NodeId(0) => then(now, a),
        _ => {}
    };
    let abilities = [Ability::ReplaceQueue, Ability::LinkClasses, Ability::Airtime];
    let needs = everywhere(&[EventKind::Sent], &abilities);
    let every = Some(Span::from_secs(10));
    let record = probe(&scenario(toml), Probe { needs, plan, every, act: Box::new(act) });
    (record, uses.take())
}

fn share(uses: &Uses, to: u32, from_s: u64, until_s: u64) -> f64 {
    let (a, b) = (Time::ZERO + Span::from_secs(from_s), Time::ZERO + Span::from_secs(until_s));
    let sum: f64 = uses.iter().filter(|u| u.1 == to && u.0 >= a && u.0 < b).map(|u| u.2).sum();
    sum / (until_s - from_s) as f64
}

/// Maximum airtime of a link in any 100 ms above its share, in packets.
fn excess(uses: &Uses, to: u32, share: f64) -> f64 {
    let mine: Vec<_> = uses.iter().filter(|u| u.1 == to).collect();
    let one = mine.iter().map(|u| u.2).fold(0.0, f64::max);
    let window = |i: usize| -> f64 {
        let end = mine[i].0 + Span::from_millis(100);
        mine[i..].iter().take_while(|u| u.0 < end).map(|u| u.2).sum()
    };
    (0..mine.len()).map(|i| (window(i) - 0.1 * share) / one).fold(0.0, f64::max)
}

#[test]
fn backlogged_links_use_their_share_and_not_a_packet_more() {
    let (record, uses) = run(&fork(""), plan, |_, _| {});
    for to in [1, 2] {
        let used = share(&uses, to, 1, 20);
        assert!((used - 0.2).abs() < 0.004, "{to}: {used}");
        assert!(excess(&uses, to, 0.2) <= 1.0 + 1e-9, "{}", excess(&uses, to, 0.2));
    }
    // Packets refused by the links count against the limiter.
    assert!(record.totals.drops.limiter > 100 && record.totals.drops.queue == 0);
}

#[test]
fn limits_change_at_once() {
    let (_, uses) = run(&fork(""), plan, |now, a| {
        if now > Time::ZERO {
            a.because(Reason::new("probe.change", "change", &[]));
            a.set_airtime(Class::Link(NodeId(1)), Share::new(0.5));
            a.set_airtime(Class::Link(NodeId(2)), Share::new(0.05));
        }
    });
    for (to, from, until, expected) in
        [(1, 1, 10, 0.2), (2, 1, 10, 0.2), (1, 10, 20, 0.5), (2, 10, 20, 0.05)]
    {
        let used = share(&uses, to, from, until);
        assert!((used - expected).abs() < 0.02 * expected + 0.002, "{to}: {used} of {expected}");
    }
}

#[test]
fn retries_are_charged_to_the_link_that_needs_them() {
    // Half of the frames to 2 are lost, so it gets half the packets for the same airtime.
    let lossy = fork("").replace(
        "links = [[0, 1], [0, 2]]",
        "links = [[0, 1], { from = 0, to = 2, delivery = 0.5 }]",
    );
    let (record, uses) = run(&lossy, deep, |_, _| {});
    for to in [1, 2] {
        let used = share(&uses, to, 1, 20);
        assert!((used - 0.2).abs() < 0.01, "{to}: {used}");
    }
    let [good, bad] = [0, 1].map(|f| record.flows[f].goodput_bps);
    assert!(bad < 0.55 * good, "{bad} {good}");
}

#[test]
fn slower_rates_cost_more_of_the_share() {
    let slow = format!("{}\n[[link]]\nfrom = 0\nto = 2\nrate = \"1 Mbit/s\"\n", fork(""));
    let (record, uses) = run(&slow, deep, |_, _| {});
    for to in [1, 2] {
        let used = share(&uses, to, 1, 20);
        assert!((used - 0.2).abs() < 0.01, "{to}: {used}");
    }
    let [fast, slow] = [0, 1].map(|f| record.flows[f].goodput_bps);
    // 13.1 ms a packet instead of 1.93.
    assert!((fast / slow - 13.1 / 1.93).abs() < 0.5, "{fast} {slow}");
}

#[test]
fn airtime_limits_outside_the_radio_queue_are_refused() {
    let s = scenario(&fork(""));
    let wrong = |setting: &Setting| Plan { point: Point::Transit, ..plan(setting) };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let needs = everywhere(&[], &[Ability::Airtime]);
        probe(&s, Probe { needs, plan: wrong, every: None, act: Box::new(|_, _, _, _| {}) })
    }));
    let message = *caught.unwrap_err().downcast::<String>().unwrap();
    let refused = "probe cannot run on the simulator: not possible: a limit in airtime for each \
                   neighbour, of traffic that crosses the node";
    assert!(message.contains(refused), "{message}");
}
