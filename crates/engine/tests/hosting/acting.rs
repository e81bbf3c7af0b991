//! Header fields, marks, losses, pacing, classes per link.

use std::cell::RefCell;
use std::rc::Rc;

use fairmesh_control::*;
use fairmesh_engine::record::RunRecord;
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};

use crate::probe::{Probe, everywhere, probe, scenario};

fn line(ecn: bool) -> String {
    format!(
        r#"
name = "line"
duration = "10 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
links = [[0, 1], [1, 2]]
[[flow]]
from = 0
to = 2
transport = {{ tcp = "newreno", mss = "1000 B", ecn = {ecn} }}
"#
    )
}

/// Runs with these actions at one node from the start.
fn with(
    toml: &str,
    needs: Needs,
    at: u32,
    begin: impl Fn(&mut Actions) + 'static,
    on_event: impl FnMut(NodeId, &Event<'_>) + 'static,
) -> RunRecord {
    planned(toml, needs, |_| Plan::none(), at, begin, on_event)
}

fn planned(
    toml: &str,
    needs: Needs,
    plan: fn(&Setting) -> Plan,
    at: u32,
    begin: impl Fn(&mut Actions) + 'static,
    mut on_event: impl FnMut(NodeId, &Event<'_>) + 'static,
) -> RunRecord {
    let mut begun = false;
    let act = move |node: NodeId, _: Time, e: &Event<'_>, a: &mut Actions| {
        if *e == Event::Deadline && node == NodeId(at) && !begun {
            begun = true;
            a.because(Reason::new("probe.begin", "begin", &[]));
            begin(a);
        }
        on_event(node, e);
    };
    let every = Some(Span::from_secs(100));
    probe(&scenario(toml), Probe { needs, plan, every, act: Box::new(act) })
}

#[test]
fn fields_travel_merge_and_come_back() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let kept = seen.clone();
    let mut needs = everywhere(
        &[EventKind::Received, EventKind::Overheard, EventKind::Feedback],
        &[Ability::Annotate],
    );
    needs.header_bytes = 12;
    let record = {
        let mut begun = [false; 3];
        let act = move |node: NodeId, _: Time, e: &Event<'_>, a: &mut Actions| {
            if *e == Event::Deadline && !std::mem::replace(&mut begun[node.index()], true) {
                a.because(Reason::new("probe.begin", "begin", &[]));
                // Slot 0: last sender; slot 1: maximum over all nodes; slot 2: the source only.
                a.annotate(Class::All, 0, Merge::Set, 100 + node.0);
                a.annotate(Class::Link(NodeId(node.0 + 1)), 1, Merge::Max, 50 - node.0);
                if node == NodeId(0) {
                    a.annotate(Class::Flow(FlowId(0)), 2, Merge::Set, 7);
                }
            }
            match e {
                Event::Received(h) if !h.ack => {
                    kept.borrow_mut().push(('r', node.0, h.header.0[..3].to_vec()));
                }
                Event::Received(h) => {
                    kept.borrow_mut().push(('a', node.0, h.header.0[..3].to_vec()))
                }
                Event::Overheard(h) if !h.ack => {
                    kept.borrow_mut().push(('o', node.0, h.header.0[..3].to_vec()));
                }
                Event::Feedback(f) => {
                    kept.borrow_mut().push(('f', node.0, f.header.0[..3].to_vec()))
                }
                _ => {}
            }
        };
        let every = Some(Span::from_secs(100));
        probe(
            &scenario(&line(false)),
            Probe { needs, plan: |_| Plan::none(), every, act: Box::new(act) },
        )
    };
    let seen = seen.take();
    let all = |kind: char, node: u32, fields: [u32; 3]| {
        let mine: Vec<_> = seen.iter().filter(|s| (s.0, s.1) == (kind, node)).collect();
        let right = mine.iter().filter(|s| s.2 == fields).count();
        // The handshake's segments are acknowledgements or precede the first data.
        assert!(
            right > 200 && right + 3 >= mine.len(),
            "{kind} at {node}: {right} of {}",
            mine.len()
        );
    };
    all('r', 1, [100, 50, 7]);
    all('r', 2, [101, 50, 7]);
    all('o', 0, [101, 50, 7]);
    // Acknowledgements carry the fields of their sender.
    all('a', 1, [102, 0, 0]);
    all('a', 0, [101, 0, 0]);
    // And the echo of the header with which the data arrived.
    all('f', 0, [101, 50, 7]);
    let s = record.totals.signalling;
    assert_eq!(s.header_bytes % 12, 0);
    // Twelve bytes in every data frame, acknowledgements of TCP included.
    assert!(s.header_bytes / 12 <= record.totals.mac.data);
    assert!(s.header_bytes / 12 + 20 > record.totals.mac.data);
    // 12 bytes at 11 Mbit/s are 8.7 µs; whole microseconds are sent.
    let each = s.airtime_s / (s.header_bytes as f64 / 12.0);
    assert!((8.0e-6..=9.0e-6).contains(&each), "{each}");
    assert_eq!(s.messages, 0);
}

#[test]
fn header_bytes_cost_goodput() {
    let needs = |n| Needs { header_bytes: n, ..everywhere(&[], &[Ability::Annotate]) };
    let [none, some] =
        [0, 400].map(|n| with(&line(false), needs(n), 0, |_| {}, |_, _| {}).flows[0].goodput_bps);
    assert!(some < 0.95 * none, "{some} {none}");
}

#[test]
fn marks_reach_a_sender_that_asked_for_them() {
    let run = |ecn: bool| {
        let marked = Rc::new(RefCell::new((0u32, 0u32)));
        let kept = marked.clone();
        let record = with(
            &line(ecn),
            everywhere(&[EventKind::Feedback], &[Ability::Mark]),
            1,
            |a| a.mark(Class::All, 0.02),
            move |_, e| {
                if let Event::Feedback(f) = e {
                    let mut k = kept.borrow_mut();
                    *k = (k.0 + 1, k.1 + u32::from(f.marked));
                }
            },
        );
        (record, marked.take())
    };
    let (record, (acks, marked)) = run(true);
    assert!(marked > 20 && marked < acks, "{marked} of {acks}");
    assert_eq!(record.totals.drops.limiter, 0);
    let (plain, (_, marked)) = run(false);
    assert_eq!((marked, plain.totals.drops.limiter), (0, 0), "not ECN-capable: left alone");
    assert!(record.flows[0].goodput_bps < plain.flows[0].goodput_bps);
}

#[test]
fn losses_by_chance_hit_the_class_they_were_meant_for() {
    let drop = |class| {
        with(
            &line(false),
            everywhere(&[], &[Ability::Drop]),
            1,
            move |a| a.drop(class, 0.05),
            |_, _| {},
        )
    };
    let r = drop(Class::Flow(FlowId(0)));
    let (lost, sent) = (r.totals.drops.limiter as f64, r.flows[0].packets_sent as f64);
    assert!((lost / sent - 0.05).abs() < 0.025, "{lost} of {sent}");
    // The packets to node 0 are acknowledgements: they are cumulative, so their losses cost little.
    let back = drop(Class::Link(NodeId(0)));
    assert!(back.totals.drops.limiter > 20);
    let goodput = |r: &RunRecord| r.flows[0].goodput_bps;
    assert!(goodput(&back) > 1.1 * goodput(&r), "{} {}", goodput(&back), goodput(&r));
    assert_eq!(drop(Class::Flow(FlowId(5))).totals.drops.limiter, 0);
}

#[test]
fn paced_senders_keep_their_distance() {
    let r = with(
        &line(false),
        everywhere(&[], &[Ability::Pace]),
        0,
        |a| a.pace(FlowId(0), Span::from_millis(20)),
        |_, _| {},
    );
    // 50 segments of 1000 bytes per second.
    assert!((r.flows[0].goodput_bps / 400e3 - 1.0).abs() < 0.03, "{}", r.flows[0].goodput_bps);
}

#[test]
fn links_have_classes_of_their_own() {
    let toml = r#"
name = "fork"
duration = "10 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
links = [[0, 1], [0, 2]]
[traffic]
traffic = { kind = "cbr", rate = "400 kbit/s", packet = "1000 B" }
transport = "udp"
[[flow]]
from = 0
to = 1
[[flow]]
from = 0
to = 2
"#;
    let plan = |_: &Setting| Plan {
        point: Point::Local,
        classes: Vec::new(),
        template: Some(ClassPlan {
            class: Class::Link(NodeId(0)),
            limit: Limit::None,
            burst: Bytes(1500),
            leaf: Leaf::DropTail { packets: 5 },
        }),
    };
    let abilities = [Ability::LimitLocal, Ability::LinkClasses];
    let r = planned(
        toml,
        everywhere(&[], &abilities),
        plan,
        0,
        |a| a.set_rate(Class::Link(NodeId(2)), BitRate(102_800)),
        |_, _| {},
    );
    assert!((r.flows[0].goodput_bps / 400e3 - 1.0).abs() < 0.03);
    // 102.8 kbit/s of IP are 100 of data.
    assert!((r.flows[1].goodput_bps / 100e3 - 1.0).abs() < 0.03, "{}", r.flows[1].goodput_bps);
    assert_eq!(r.flows[0].drops.limiter, 0);
}
