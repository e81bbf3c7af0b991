//! Events: frames sent, received and overheard, queues, neighbours, feedback, flows.

use std::cell::Cell;
use std::collections::BTreeMap;

use fairmesh_control::*;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};

use crate::probe::{Probe, everywhere, listen, probe, scenario};

/// Two hops of TCP and one of UDP; node 3 receives only 2.
const LINE: &str = r#"
name = "line"
duration = "6 s"
[radio]
phy = "802.11b"
rate = "2 Mbit/s"
[topology]
links = [[0, 1], [1, 2], [2, 3]]
[[flow]]
from = 0
to = 2
transport = { tcp = "newreno", mss = "1000 B" }
[[flow]]
from = 1
to = 0
traffic = { kind = "cbr", rate = "100 kbit/s", packet = "500 B" }
transport = "udp"
start = "1 s"
stop = "3 s"
"#;

#[test]
fn listening_changes_nothing() {
    let s = scenario(LINE);
    let plain = run(&s, &RunOptions::default()).unwrap();
    let (received, _) = listen(&s, everywhere(EventKind::ALL, &[]), None, |_, _, _| None::<()>);
    assert_eq!(plain.fingerprint, received.fingerprint);
    assert_eq!(plain.totals.drops, received.totals.drops);
}

#[test]
fn every_frame_is_reported_with_its_cost() {
    let s = scenario(LINE);
    let (record, sent) = listen(&s, everywhere(&[EventKind::Sent], &[]), None, |node, _, e| {
        let Event::Sent(s) = e else { return None };
        Some((node, *s))
    });
    let mac = record.totals.mac;
    let attempts: u64 = sent.iter().map(|(_, s)| u64::from(s.attempts)).sum();
    // A frame still in a MAC at the end has no report yet.
    assert!(attempts <= mac.data && mac.data - attempts < 20, "{attempts} of {}", mac.data);
    let failed = sent.iter().filter(|(_, s)| !s.delivered).count() as u64;
    assert_eq!(failed, record.totals.drops.retry_limit);
    for (node, s) in &sent {
        assert_eq!(s.rate, BitRate(2_000_000));
        let (flow, to) = (s.flow.unwrap(), s.to.unwrap());
        let expected = match (flow.0, s.ack, node.0) {
            (0, false, n) => (n + 1, 1040),
            (0, true, n) => (n - 1, 40),
            (_, _, n) => (n - 1, 528),
        };
        // The handshake's segments are smaller than data.
        assert_eq!((to.0, s.bytes), (expected.0, expected.1.min(s.bytes)));
        // DIFS, backoff, preambles, frame, SIFS, ACK at 2 Mbit/s.
        let once = 50 + 310 + 192 + 4 * (u64::from(s.bytes) + 36) + 10 + 248;
        if s.attempts == 1 {
            assert_eq!(s.airtime, Span::from_micros(once));
        } else {
            assert!(s.airtime > Span::from_micros(once));
        }
    }
    assert!(sent.iter().any(|(_, s)| s.ack) && sent.iter().any(|(_, s)| s.attempts > 1));
}

#[test]
fn data_is_received_once_and_overheard_by_others() {
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::Received, EventKind::Overheard], &[]);
    let (record, events) = listen(&s, needs, None, |node, _, e| match e {
        Event::Received(h) => Some((node, *h, true)),
        Event::Overheard(h) => Some((node, *h, false)),
        _ => None,
    });
    for (node, h, received) in &events {
        assert_eq!(*received, h.link.to == *node, "{h:?}");
        assert_ne!(h.link.from, *node);
        assert!(h.link.from.0.abs_diff(node.0) == 1, "{node:?} is out of range of {h:?}");
    }
    let count = |n: u32, flow: u32, ack: bool, received: bool| {
        let is = |(node, h, r): &&(NodeId, ReceivedFrame, bool)| {
            (node.0, h.flow.0, h.ack, *r) == (n, flow, ack, received)
        };
        events.iter().filter(is).count() as u64
    };
    // The destination received the delivered packets: data and the handshake's segments.
    let delivered = record.flows[1].packets_delivered;
    assert_eq!(count(0, 1, false, true), delivered);
    assert!(count(2, 0, false, true) >= record.flows[0].packets_delivered);
    // Node 3 receives node 2, which only acknowledges; node 0 overhears packets forwarded by 1.
    assert_eq!(count(3, 0, false, false), 0);
    assert!(count(3, 0, true, false) > 100 && count(0, 0, false, false) > 100);
}

#[test]
fn queue_lengths_are_reported_at_every_change() {
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::QueueChanges], &[]);
    let (record, lengths) = listen(&s, needs, None, |node, now, e| {
        let Event::Queue(q) = e else { return None };
        Some((node, now, *q))
    });
    // The mean over time follows from the changes.
    for n in 0..4 {
        let mine: Vec<_> = lengths.iter().filter(|(node, ..)| node.0 == n).collect();
        let mut area = 0.0;
        for (i, (_, at, q)) in mine.iter().enumerate() {
            let until = mine.get(i + 1).map_or(Time::ZERO + Span::from_secs(6), |m| m.1);
            area += f64::from(q.packets) * (until - *at).as_secs_f64();
            assert_eq!(q.class, Class::All);
        }
        let mean = record.nodes[n as usize].mean_queue;
        assert!((area / 6.0 - mean).abs() < 0.01 * mean + 1e-6, "node {n}: {} {mean}", area / 6.0);
    }
}

#[test]
fn neighbours_are_counted_like_a_station_dump() {
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::Stations], &[]);
    let every = Some(Span::from_millis(5999));
    let (record, stations) = listen(&s, needs, every, |node, now, e| match e {
        Event::Station(s) if now > Time::ZERO => Some((node, *s)),
        _ => None,
    });
    let of: BTreeMap<(u32, u32), Station> =
        stations.iter().map(|(n, s)| ((n.0, s.node.0), *s)).collect();
    assert_eq!(
        of.keys().copied().collect::<Vec<_>>(),
        [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    );
    for (a, b) in [(0, 1), (1, 2), (2, 1), (1, 0)] {
        let (tx, rx) = (of[&(a, b)], of[&(b, a)]);
        // A packet without an acknowledgement may have been received; one may be in transit.
        assert!(rx.rx_packets.abs_diff(tx.tx_packets) <= 2 + tx.tx_failed, "{tx:?} {rx:?}");
        // Frames and responses on one side, decoded frames on the other.
        assert!(rx.rx_airtime < tx.tx_airtime && rx.rx_airtime > Span::ZERO);
        assert_eq!(tx.tx_rate, BitRate(2_000_000));
    }
    let retries: u64 = of.values().map(|s| s.tx_retries).sum();
    let packets: u64 = of.values().map(|s| s.tx_packets).sum();
    assert!((retries + packets).abs_diff(record.totals.mac.data) < 20);
    assert_eq!(of[&(3, 2)].tx_packets, 0);
}

#[test]
fn sources_get_feedback_of_every_acknowledgement() {
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::Feedback], &[]);
    let (record, feedback) = listen(&s, needs, None, |node, now, e| {
        let Event::Feedback(f) = e else { return None };
        assert_eq!((node, f.flow), (NodeId(0), FlowId(0)), "only a TCP source has feedback");
        Some((now, *f))
    });
    let acked: u64 = feedback.iter().map(|(_, f)| u64::from(f.acked)).sum();
    let delivered = record.flows[0].goodput_bps * 6.0 / 8.0;
    // The last acknowledgements are still in transit.
    assert!(acked as f64 <= delivered && acked as f64 > 0.8 * delivered, "{acked} {delivered}");
    assert!(feedback.iter().all(|(_, f)| !f.marked));
    let timed: Vec<Span> =
        feedback.iter().map(|(_, f)| f.rtt).filter(|r| *r > Span::ZERO).collect();
    assert!(timed.len() * 10 > feedback.len() * 8, "{} of {}", timed.len(), feedback.len());
    // At least two data frames and two acknowledgements at 2 Mbit/s.
    assert!(timed.iter().all(|r| *r > Span::from_millis(2 * 4 + 2) && *r < Span::from_secs(2)));
    let lost: u64 = feedback.iter().map(|(_, f)| u64::from(f.lost)).sum();
    assert!(lost <= record.flows[0].tcp.unwrap().retransmits);
}

#[test]
fn round_trips_beyond_a_node_are_shorter_than_all_of_it() {
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::RoundTrips, EventKind::Feedback], &[]);
    let (_, trips) = listen(&s, needs, None, |node, _, e| match e {
        Event::RoundTrip(r) if r.flow == FlowId(0) => Some((node.0, r.rtt)),
        Event::Feedback(f) if f.rtt > Span::ZERO => Some((9, f.rtt)),
        _ => None,
    });
    let mean = |n: u32| {
        let of: Vec<f64> = trips.iter().filter(|t| t.0 == n).map(|t| t.1.as_secs_f64()).collect();
        assert!(of.len() > 100, "{} at {n}", of.len());
        of.iter().sum::<f64>() / of.len() as f64
    };
    let [own, first, second] = [mean(9), mean(0), mean(1)];
    assert!((own / first - 1.0).abs() < 0.02, "the sender's own {own}, seen there {first}");
    assert!(second < 0.8 * first && second > 0.1 * first, "{second} {first}");
}

#[test]
fn flows_are_reported_where_they_cross_and_when_idle() {
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::Flows], &[]);
    let (_, seen) = listen(&s, needs, None, |node, now, e| match e {
        Event::FlowSeen(here) => Some((node.0, here.flow.0, true, now, here.next_hop)),
        Event::FlowGone(flow) => Some((node.0, flow.0, false, now, None)),
        _ => None,
    });
    let udp: Vec<_> = seen.iter().filter(|s| s.1 == 1).collect();
    let at = |s: u64| Time::ZERO + Span::from_millis(s);
    assert_eq!(
        udp.iter().map(|s| (s.0, s.2)).collect::<Vec<_>>(),
        [(1, true), (0, true), (0, false), (1, false)]
    );
    assert!(udp[0].3 >= at(1000) && udp[1].3 < at(1300));
    assert!(udp[2].3 > at(4900) && udp[3].3 < at(5400), "{:?}", udp[2].3);
    assert_eq!(udp[0].4, Some(NodeId(0)));
    // TCP's acknowledgements are not a separate flow; no other node sees it.
    let tcp: Vec<_> = seen.iter().filter(|s| s.1 == 0).map(|s| (s.0, s.2)).collect();
    assert_eq!(tcp, [(0, true), (1, true), (2, true)]);
}

#[test]
fn only_subscribed_events_are_delivered() {
    let s = scenario(LINE);
    let others = Cell::new(0);
    let (_, n) = listen(&s, everywhere(&[EventKind::Received], &[]), None, move |_, _, e| {
        if e.kind() != Some(EventKind::Received) {
            others.set(others.get() + 1);
        }
        Some(others.get())
    });
    assert_eq!(n.last(), Some(&0));
}

/// QUIC is UDP to a middlebox at the gateway: it encrypts all that TCP's headers would show.
#[test]
fn signs_of_tcp_are_seen_of_tcp_and_not_of_quic() {
    let seen = |transport: &str| {
        let s = scenario(&format!(
            "duration = \"3 s\"\n[radio]\nphy = \"802.11b\"\nrate = \"11 Mbit/s\"\n\
             [topology]\nchain = {{ hops = 2 }}\ngateway = 0\n[wired]\nhosts = [\"host\"]\n\
             [[flow]]\nfrom = \"host\"\nto = 2\ntransport = {transport}\n"
        ));
        let needs = Needs {
            at: PlacementSet::of(&[Placement::Gateway]),
            events: EventSet::of(&[EventKind::PathSigns, EventKind::FlowCounters]),
            ..Needs::default()
        };
        let log = std::rc::Rc::new(Cell::new((0, 0)));
        let kept = log.clone();
        let act = move |_: NodeId, _: Time, event: &Event<'_>, _: &mut Actions| {
            let (signs, counters) = kept.get();
            match event {
                Event::PathSigns(_) => kept.set((signs + 1, counters)),
                Event::FlowCounters(c) if c.bytes > 0 => kept.set((signs, counters + 1)),
                _ => {}
            }
        };
        let every = Some(Span::from_millis(100));
        let plan = |_: &Setting| Plan::none();
        let record = probe(&s, Probe { needs, plan, every, act: Box::new(act) });
        assert!(record.flows[0].goodput_bps > 100_000.0);
        log.get()
    };
    let (signs, counters) = seen("{ tcp = \"cubic\", preset = \"linux\" }");
    assert!(signs > 20 && counters > 20, "{signs} {counters}");
    let (signs, counters) = seen("{ quic = \"cubic\" }");
    assert!(signs == 0 && counters > 20, "{signs} {counters}");
}

fn at_300_kbps(setting: &Setting) -> Plan {
    let class = |flow: &FlowHere| ClassPlan {
        class: Class::Flow(flow.flow),
        limit: Limit::Rate(BitRate(300_000)),
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: 20 },
    };
    let classes = setting.flows.iter().map(class).collect();
    Plan { point: Point::Transit, classes, template: None }
}

/// A TCP with round trips in its headers.
const TCP: &str = "transport = { tcp = \"cubic\", preset = \"linux\" }";
/// Traffic without round trips in its headers.
///
/// These are QUIC, and datagrams below and above the capacity of the mesh.
const QUIC: &str = "transport = { quic = \"cubic\" }";
const CBR: &str =
    "traffic = { kind = \"cbr\", rate = \"200 kbit/s\", packet = \"1000 B\" }\ntransport = \"udp\"";
const FLOOD: &str =
    "traffic = { kind = \"cbr\", rate = \"9 Mbit/s\", packet = \"1000 B\" }\ntransport = \"udp\"";

/// Returns round trips through the mesh of one home, down or up, while it is alone.
///
/// These are medians of samples and the minimum, ms, at a gateway that limits the home to 300 kbit/s or not
/// at all; the best source among them; and the record.
fn mesh_round_trips(
    transport: &str,
    up: bool,
    limited: bool,
) -> (Vec<f64>, f64, Option<RoundTripSource>, RunRecord) {
    let (from, to) = if up { ("3", "\"host\"") } else { ("\"host\"", "3") };
    let s = scenario(&format!(
        "duration = \"20 s\"\n[radio]\nphy = \"802.11b\"\nrate = \"11 Mbit/s\"\n\
         [topology]\nchain = {{ hops = 3 }}\ngateway = 0\n[wired]\nhosts = [\"host\"]\ndelay = \"30 ms\"\n\
         [[flow]]\nfrom = {from}\nto = {to}\n{transport}\n"
    ));
    let needs = Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::PathSigns, EventKind::Probes]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        ..Needs::default()
    };
    let log = std::rc::Rc::new(std::cell::RefCell::new((Vec::new(), f64::INFINITY, None)));
    let kept = log.clone();
    let act = move |_: NodeId, _: Time, event: &Event<'_>, _: &mut Actions| {
        if let Event::PathSigns(PathSigns { round_trip: Some(trip), .. }) = event {
            let (medians, base, source) = &mut *kept.borrow_mut();
            *source = Some(source.map_or(trip.source, |s: RoundTripSource| s.min(trip.source)));
            medians.push(1e3 * trip.median.as_secs_f64());
            *base = base.min(1e3 * trip.base.as_secs_f64());
        }
    };
    let plan: fn(&Setting) -> Plan = if limited { at_300_kbps } else { |_| Plan::none() };
    let record =
        probe(&s, Probe { needs, plan, every: Some(Span::from_secs(1)), act: Box::new(act) });
    let (medians, base, source) = log.take();
    (medians, base, source, record)
}

/// A queue in the mesh shows in the round trip.
///
/// A queue in the gateway's class and the wire behind it do not.
#[test]
fn the_round_trip_through_the_mesh_has_the_queues_of_the_mesh_alone() {
    for up in [false, true] {
        let (free, base, source, record) = mesh_round_trips(TCP, up, false);
        let (held, held_base, ..) = mesh_round_trips(TCP, up, true);
        assert_eq!((source, record.totals.signalling.probes), (Some(RoundTripSource::Tcp), 0));
        assert!(free.len() > 15 && held.len() > 15, "{free:?} {held:?}");
        let (free, held) = (middle(free), middle(held));
        // Three hops of 1500 bytes at 11 Mbit/s and back take about 8 ms; the wire would add 60.
        assert!(base > 3.0 && base < 30.0 && held_base < 30.0, "{up}: {base} {held_base}");
        assert!(held < 2.5 * base, "{up}: {held} for {base}");
        assert!(free > 3.0 * held, "{up}: {free} and {held}");
    }
}

/// QUIC with the spin bit has round trips without probes, down and up.
///
/// They do not include the queue of the gateway's class.
#[test]
fn the_spin_bit_gives_the_round_trip_of_quic() {
    const SPIN: &str = "transport = { quic = \"cubic\", spin = true }";
    for up in [false, true] {
        let (held, base, source, _) = mesh_round_trips(SPIN, up, true);
        assert_eq!(source, Some(RoundTripSource::Spin));
        assert!(held.len() > 12 && base > 1.0 && base < 40.0, "{held:?} {base}");
        let (free, _, source, record) = mesh_round_trips(SPIN, up, false);
        assert_eq!(source, Some(RoundTripSource::Spin));
        // The spin bit is used after eight round trips; until then probes may be sent.
        assert!(record.totals.signalling.probes <= 3, "{:?}", record.totals.signalling);
        let (free, held) = (middle(free), middle(held));
        assert!(held < 60.0 && free > 2.0 * held, "{up}: {free} and {held}");
    }
}

/// If headers give no round trip, echo probes do.
///
/// They bypass the classes of the gateway, pass the queues of the mesh, at most once a second, and count as
/// airtime.
#[test]
fn probes_give_the_round_trips_that_quic_and_datagrams_do_not() {
    for (transport, up) in [(QUIC, false), (QUIC, true), (CBR, false), (CBR, true)] {
        let (held, base, source, record) = mesh_round_trips(transport, up, true);
        assert_eq!(source, Some(RoundTripSource::Probe), "{transport}");
        assert!(held.len() > 12, "{held:?}");
        // Three hops of 84 bytes and back.
        assert!(base > 1.0 && base < 15.0, "{base}");
        let signalling = record.totals.signalling;
        assert!((12..=20).contains(&signalling.probes), "{signalling:?}");
        assert!(signalling.message_frames >= 5 * signalling.probes, "{signalling:?}");
        assert!(signalling.airtime_s > 0.0 && signalling.airtime_share < 0.01, "{signalling:?}");
        let held = middle(held);
        assert!(held < 40.0, "{transport}: {held}");
    }
    let (empty, ..) = mesh_round_trips(CBR, false, false);
    let (full, ..) = mesh_round_trips(FLOOD, false, false);
    let (empty, full) = (middle(empty), middle(full));
    assert!(full > 5.0 * empty, "a full queue shows: {full} for {empty}");
}

fn middle(mut medians: Vec<f64>) -> f64 {
    medians.sort_by(f64::total_cmp);
    medians[medians.len() / 2]
}

/// Feedback to a QUIC source: round trips, and losses that it has detected.
#[test]
fn a_quic_source_gets_feedback_of_its_acknowledgements() {
    let s = scenario(&LINE.replace("{ tcp = \"newreno\", mss = \"1000 B\" }", "\"quic\""));
    let needs = everywhere(&[EventKind::Feedback], &[]);
    let (record, received) = listen(&s, needs, None, |node, _, e| {
        let Event::Feedback(f) = e else { return None };
        Some((node, f.rtt, f.acked, f.lost))
    });
    assert!(received.iter().all(|(node, ..)| *node == NodeId(0)));
    let acked: u64 = received.iter().map(|h| u64::from(h.2)).sum();
    let lost: u64 = received.iter().map(|h| u64::from(h.3)).sum();
    let quic = record.flows[0].quic.unwrap();
    assert!(
        acked > 100_000 && received.iter().filter(|h| h.1 > Span::ZERO).count() > 50,
        "{acked}"
    );
    assert!(lost <= quic.lost, "{lost} {quic:?}");
    assert!(record.flows[0].tcp.is_none());
}

/// Sums of each link and flow over a run, and the sums of its frames.
#[test]
fn sums_per_period_add_up_to_the_frames() {
    type Counts = BTreeMap<(u32, u32, Option<(u32, bool)>), [u64; 3]>;
    fn add(counts: &mut Counts, key: (NodeId, NodeId, Option<(FlowId, bool)>), more: [u64; 3]) {
        let (from, to, flow) = key;
        let entry = counts.entry((from.0, to.0, flow.map(|f| (f.0.0, f.1)))).or_default();
        entry.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
    }
    let s = scenario(LINE);
    let needs = everywhere(&[EventKind::Sent], &[]);
    let (record, frames) = listen(&s, needs, None, |node, _, e| {
        let Event::Sent(t) = e else { return None };
        Some((node, t.to?, (t.flow?, t.ack), [u64::from(t.attempts), u64::from(t.bytes)]))
    });
    let (mut links, mut flows) = (Counts::new(), Counts::new());
    for (from, to, flow, [attempts, bytes]) in frames {
        add(&mut links, (from, to, None), [1, attempts, bytes]);
        add(&mut flows, (from, to, Some(flow)), [1, 0, bytes]);
    }
    let needs = Needs {
        delivery: Delivery { sums: Some(Span::from_millis(100)), ..Delivery::default() },
        ..everywhere(&[EventKind::Stations, EventKind::FlowLinks], &[])
    };
    let (sampled, sums) = listen(&s, needs, None, |node, now, e| match *e {
        Event::SentSum(t) => {
            let counts = [t.packets, t.attempts, t.bytes as u32].map(u64::from);
            Some((now, node, t.to, None, counts))
        }
        Event::FlowSum(f) if f.link.from == node => {
            let counts = [u64::from(f.packets), 0, f.bytes];
            Some((now, node, f.link.to, Some((f.flow, f.ack)), counts))
        }
        Event::Sent(_) | Event::Station(_) => panic!("{e:?}"),
        _ => None,
    });
    assert_eq!(record.fingerprint, sampled.fingerprint, "counting changes nothing");
    let (mut links_of_sums, mut flows_of_sums) = (Counts::new(), Counts::new());
    for (now, from, to, flow, counts) in sums {
        assert_eq!(now.as_nanos() % 100_000_000, 0, "{now}");
        let of = if flow.is_some() { &mut flows_of_sums } else { &mut links_of_sums };
        add(of, (from, to, flow), counts);
    }
    // The last tenth of a second, and the first, which is the base, have no sum.
    for (frames, sums) in [(links, links_of_sums), (flows, flows_of_sums)] {
        assert_eq!(frames.keys().collect::<Vec<_>>(), sums.keys().collect::<Vec<_>>());
        for (key, all) in frames {
            let summed = sums[&key];
            for (all, summed) in all.into_iter().zip(summed) {
                assert!(summed <= all && 20 * summed >= 19 * all, "{key:?}: {summed} of {all}");
            }
        }
    }
}
