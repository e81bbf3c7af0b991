//! The rules of Rangwala 2008 §3.1, each alone and over several nodes.

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::aimd::Aimd;
use super::ideal_exchange::IdealExchange;
use super::link_state::{LinkState, rate_code};
use super::neighbourhood::Neighbourhood;
use super::rate::Rate;
use super::{
    AVERAGE_FIELD, CONGESTION_FIELD, FLOW_FIELD, HEADER_BYTES, INBOUND_FIELD, INSTANT_FIELD,
    LINK_FIELD, NEIGHBOURHOOD_FIELD, PUBLISHED_HEADER_BYTES, RATE_FIELD,
};
use crate::testing::{actions, flow, lookup, start, start_with};
use crate::{
    Action, Class, Event, Feedback, Header, Instance, Link, Neighbour, Place, QueueLength,
    ReceivedFrame, Setting, Site,
};

const K: f64 = 4.0;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Undirected links of the Stack (Fig. 1) and of the Diamond (Fig. 5).
const STACK: [(u32, u32); 8] = [(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)];
const DIAMOND: [(u32, u32); 10] =
    [(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 4), (2, 6), (8, 4), (8, 6)];

fn in_range(links: &[(u32, u32)], a: u32, b: u32) -> bool {
    links.iter().any(|l| *l == (a, b) || *l == (b, a))
}

/// Returns the links with nodes that learn of congestion on i→j.
///
/// Every node has then sent a packet on every link three times, and all nodes in range overhear all packets.
fn reported(links: &[(u32, u32)], i: u32, j: u32) -> Vec<(u32, u32)> {
    let nodes = || 1..=9u32;
    let neighbours = |n: u32| nodes().filter(move |m| in_range(links, n, *m)).map(NodeId);
    let mut books: Vec<Neighbourhood> = nodes()
        .map(|n| Neighbourhood::new(NodeId(n), neighbours(n).collect::<Vec<_>>().into_iter()))
        .collect();
    let own = books[i as usize - 1].own_mut(NodeId(j)).unwrap();
    for length in (0..500).map(|n| 10 - n % 2) {
        own.changed(length, 0.02);
    }
    for _ in 0..3 {
        for from in nodes() {
            let neighbourhood = &books[from as usize - 1];
            let (into, around) = (neighbourhood.inward(), neighbourhood.around(K));
            let stated: Vec<(NodeId, LinkState)> =
                neighbourhood.own.iter().map(|o| (o.to, o.state(K))).collect();
            for to in nodes().filter(|n| in_range(links, from, *n)) {
                let far = books[to as usize - 1].far.iter_mut();
                let far = far.into_iter().find(|f| f.node == NodeId(from)).unwrap();
                for (end, own) in &stated {
                    far.take_report(Time::ZERO, *end, *own, into, around);
                }
            }
        }
    }
    let mut all = Vec::new();
    for x in nodes() {
        let neighbourhood = &books[x as usize - 1];
        let around = neighbourhood.around(K);
        let shared =
            neighbourhood.own.iter().filter(|o| neighbourhood.shared(o.to, around).congested());
        all.extend(shared.map(|o| (x, o.to.0)));
    }
    all
}

/// L(i→j) as it is defined: all links into and out of i, j, and the neighbours of either.
fn neighbourhood(links: &[(u32, u32)], i: u32, j: u32) -> Vec<(u32, u32)> {
    let inside = |n: u32| n == i || n == j || in_range(links, n, i) || in_range(links, n, j);
    let mut all = Vec::new();
    for x in 1..=9 {
        for y in (1..=9).filter(|y| in_range(links, x, *y)) {
            if inside(x) || inside(y) {
                all.push((x, y));
            }
        }
    }
    all
}

#[test]
fn congestion_reaches_exactly_the_links_of_the_neighbourhood() {
    for links in [&STACK[..], &DIAMOND[..]] {
        for &(a, b) in links {
            for (i, j) in [(a, b), (b, a)] {
                assert_eq!(reported(links, i, j), neighbourhood(links, i, j), "{i}→{j}");
            }
        }
    }
    // Statements of §4.1.
    assert_eq!(reported(&STACK, 4, 5).len(), 16, "every link");
    assert!(!reported(&STACK, 1, 2).contains(&(7, 8)));
    let region = reported(&DIAMOND, 1, 2);
    assert!((1..=6).all(|n| region.iter().any(|l| l.0 == n)));
    assert!(region.iter().all(|l| l.0 <= 6 || l.1 <= 6));
}

#[test]
fn a_link_is_congested_above_the_threshold_of_its_average_queue() {
    let mut neighbourhood = Neighbourhood::new(NodeId(1), [NodeId(2)].into_iter());
    let own = &mut neighbourhood.own[0];
    // 1 - 0.98^n > 4/10 from the 26th packet on that is inserted into a queue of nine.
    for n in 1..=26 {
        own.changed(9.min(10 * (n - 1)), 0.02);
        assert!(!own.state(K).congested(), "{n}");
        own.changed(10, 0.02);
    }
    assert!(own.state(K).congested());
    own.idle(Span::from_millis(20), 0.02);
    assert!(own.state(K).congested(), "packets still wait");
    own.changed(0, 0.02);
    assert!(own.state(K).congested(), "what leaves does not count");
    for _ in 0..10 {
        own.idle(Span::from_millis(20), 0.02);
    }
    assert!(!own.state(K).congested(), "the average of an empty queue falls with time");
}

#[test]
fn a_link_has_the_mean_round_trips_of_its_flows() {
    let mut neighbourhood = Neighbourhood::new(NodeId(1), [NodeId(2)].into_iter());
    let own = &mut neighbourhood.own[0];
    own.carries(at(0), FlowId(0), LinkState { average: 40, instant: 90, rate: 50 });
    own.carries(at(1), FlowId(1), LinkState { average: 80, instant: 50, rate: 70 });
    // Nothing is known of it, so it does not count.
    own.carries(at(5), FlowId(2), LinkState::default());
    let state = own.state(K);
    assert_eq!((state.average, state.instant, state.rate), (60, 70, 0));
    neighbourhood.forget(at(1));
    assert_eq!(neighbourhood.own[0].state(K).average, 80);
}

fn rate(start: f64) -> Rate {
    Rate::new(FlowId(0), 512, Aimd::new(start, 1.0, 1000.0, true))
}

#[test]
fn halves_once_per_interval_and_rises_by_alpha() {
    let mut r = rate(80.0);
    assert!(r.fall(at(0), Span::from_millis(100)));
    assert_eq!(r.rate(), 40.0);
    assert!(!r.fall(at(99), Span::from_millis(100)), "deaf for t_md");
    assert_eq!(r.rate(), 40.0);
    r.aimd.interval = Span::from_millis(50);
    // It waits a second to measure the delivery, then rises at the end of every interval.
    for ms in (0..=2000).step_by(10) {
        r.rise(at(ms), 0.1);
        // All packets sent arrive.
        r.measure(Span::from_millis(50), 512, 0);
    }
    assert!((r.rate() - 42.1).abs() < 1e-9, "21 intervals: {}", r.rate());
    assert!(r.fall(at(2000), Span::from_millis(100)));
    assert!((r.rate() - 21.05).abs() < 1e-9);
}

#[test]
fn a_new_flow_doubles_until_its_first_notification() {
    let mut r = rate(10.0);
    r.aimd.interval = Span::from_millis(50);
    for ms in (0..=1100).step_by(10) {
        r.rise(at(ms), 0.1);
        r.measure(Span::from_millis(50), 512, 0);
    }
    // At 1, 1.05 and 1.1 s: until then the delivery is unknown.
    assert_eq!(r.rate(), 80.0);
    r.fall(at(1100), Span::from_millis(50));
    r.rise(at(1150), 0.1);
    assert!((r.rate() - 40.1).abs() < 1e-9);
}

#[test]
fn a_rate_that_is_not_used_does_not_grow() {
    let mut r = rate(80.0);
    r.fall(at(0), Span::ZERO);
    for s in 0..200 {
        r.rise(at(s * 100), 5.0);
        r.measure(Span::from_millis(50), 512, 0);
    }
    // Ten packets a second arrive; the rate before they were counted stays.
    let before = r.rate();
    for s in 200..400 {
        r.rise(at(s * 100), 5.0);
        r.measure(Span::from_millis(50), 512, 0);
    }
    assert_eq!(r.rate(), before);
    assert!(before < 100.0);
}

#[test]
fn goodput_is_corrected_for_losses() {
    let mut r = rate(50.0);
    assert_eq!(r.space(true), Span::from_millis(20));
    for _ in 0..5000 {
        r.measure(Span::ZERO, 512 * 4, 1);
    }
    assert!((r.loss - 0.2).abs() < 1e-6, "{}", r.loss);
    assert_eq!(r.space(false), Span::from_millis(20));
    assert!((r.space(true).as_secs_f64() - 0.016).abs() < 1e-6);
}

#[test]
fn intervals_stay_within_bounds() {
    assert_eq!(Aimd::interval_of(0, 70), Span::from_millis(70), "none shared: its own");
    assert_eq!(Aimd::interval_of(300, 70), Span::from_millis(300));
    assert_eq!(Aimd::interval_of(0, 0), Span::from_millis(5));
    assert_eq!(Aimd::interval_of(u32::MAX, 1), Span::from_millis(4095));
}

/// Node 1 of a chain 0–1–2 with an own flow to 2.
fn setting() -> Setting {
    let link = |n| Neighbour::new(NodeId(n), BitRate(11_000_000), BitRate(4_000_000));
    let mut own = flow(0);
    (own.place, own.next_hop) = (Place::Source, Some(NodeId(2)));
    let mut passing = flow(1);
    passing.next_hop = Some(NodeId(2));
    let site = Site::new().with_sources(true);
    Setting::new(NodeId(1), site, Stream::new(1, "control/n1"))
        .with_flows([own, passing])
        .with_neighbours([0, 2].map(link))
}

fn fields(i: &mut Instance, now: Time) -> Vec<(Class, u8, u32)> {
    fields_after(i, now, Event::Deadline)
}

fn fields_after(i: &mut Instance, now: Time, event: Event<'_>) -> Vec<(Class, u8, u32)> {
    let field = |a: &Action| match *a {
        Action::Annotate { class, slot, value, .. } => Some((class, slot, value)),
        _ => None,
    };
    actions(i, now, event).iter().filter_map(field).collect()
}

fn spacings(i: &mut Instance, now: Time, event: Event<'_>) -> Vec<Span> {
    let pace = |a: &Action| match *a {
        Action::Pace { interval, .. } => interval,
        _ => None,
    };
    actions(i, now, event).iter().filter_map(pace).collect()
}

fn received(from: u32, to: u32, words: &[(u8, LinkState)]) -> ReceivedFrame {
    let mut header = Header::default();
    for (slot, word) in words {
        header.0[usize::from(*slot)] = word.encode();
    }
    let link = Link { from: NodeId(from), to: NodeId(to) };
    ReceivedFrame { link, flow: FlowId(1), ack: false, bytes: 572, header }
}

const LINK: Class = Class::Link(NodeId(2));

#[test]
fn packets_are_marked_and_carry_the_longest_round_trips() {
    let mut i = start("wcp", setting());
    fields(&mut i, at(0));
    let far = LinkState { average: 120, instant: 300, rate: 40 };
    // Node 0's link is congested; the state around node 2 concerns only the link to it. This is
    // reported at once, round trips with the next tick.
    let mut written =
        fields_after(&mut i, at(5), Event::Received(received(0, 1, &[(LINK_FIELD, far)])));
    assert!(written.contains(&(LINK, CONGESTION_FIELD, 1)), "{written:?}");
    let longer = LinkState { average: 500, instant: 200, rate: 0 };
    actions(&mut i, at(6), Event::Overheard(received(2, 3, &[(NEIGHBOURHOOD_FIELD, longer)])));
    written.extend(fields(&mut i, at(20)));
    for expected in
        [(LINK, CONGESTION_FIELD, 1), (LINK, AVERAGE_FIELD, 500), (LINK, INSTANT_FIELD, 300)]
    {
        assert!(written.contains(&expected), "{expected:?} in {written:?}");
    }
    assert!(written.contains(&(LINK, INBOUND_FIELD, far.encode())), "it is a link into here");
    assert!(
        written.contains(&(LINK, NEIGHBOURHOOD_FIELD, far.encode())),
        "hearsay goes no further"
    );
    assert!(written.contains(&(Class::Link(NodeId(0)), AVERAGE_FIELD, 120)));
    // Without further reports it is forgotten after a second.
    let mut later = Vec::new();
    for ms in (40..=1100).step_by(20) {
        later.extend(fields(&mut i, at(ms)));
    }
    assert!(
        later.contains(&(LINK, CONGESTION_FIELD, 0)) && later.contains(&(LINK, AVERAGE_FIELD, 0)),
        "{later:?}"
    );
}

#[test]
fn a_node_without_a_link_has_nothing_to_wait_for() {
    assert_eq!(start("wcp", setting()).control.next_deadline(), Some(Time::ZERO));
    let alone = setting().with_neighbours([]);
    assert_eq!(start("wcp", alone).control.next_deadline(), None);
}

#[test]
fn every_flow_of_the_node_is_paced_once() {
    let mut two = setting();
    let mut other = flow(7);
    (other.place, other.next_hop) = (Place::Source, Some(NodeId(0)));
    two.flows.push(other);
    let mut i = start("wcp", two);
    let paced = |i: &mut Instance, now: Time| -> Vec<u32> {
        let flow = |a: &Action| match *a {
            Action::Pace { flow, .. } => Some(flow.0),
            _ => None,
        };
        actions(i, now, Event::Deadline).iter().filter_map(flow).collect()
    };
    assert_eq!(paced(&mut i, at(0)), [0, 7], "both of its own, not the one that passes");
    // Announced again, as after a change of route: it is the same flow at the same rate.
    actions(&mut i, at(10), Event::FlowSeen(other));
    assert_eq!(paced(&mut i, at(20)), []);
    let mut third = other;
    third.flow = FlowId(8);
    actions(&mut i, at(30), Event::FlowSeen(third));
    assert_eq!(paced(&mut i, at(40)), [8]);
}

/// A source starts with at most the packets that its link carries, 4 Mbit/s here.
///
/// The round trips of a flow of this node count for the link that it uses, and for no other.
#[test]
fn a_source_counts_on_its_own_link() {
    let mut two = setting();
    let mut other = flow(7);
    (other.place, other.next_hop) = (Place::Source, Some(NodeId(0)));
    two.flows.push(other);
    let mut i = start("wcp", two);
    fields(&mut i, at(0));
    let rtt = Span::from_millis(30);
    let header = Header::default();
    let fed = Feedback { flow: FlowId(0), rtt, acked: 1460, lost: 0, marked: false, header };
    actions(&mut i, at(5), Event::Feedback(fed));
    let mut written = fields(&mut i, at(20));
    written.extend(fields(&mut i, at(40)));
    let last = |class| {
        let word = written.iter().rfind(|w| w.0 == class && w.1 == LINK_FIELD);
        word.map_or(0, |w| LinkState::decode(w.2).instant)
    };
    assert_eq!((last(LINK), last(Class::Link(NodeId(0)))), (30, 0), "{written:?}");
}

#[test]
fn no_source_sends_more_than_its_link_carries() {
    let mut i = start_with("wcp", setting(), &[("start", 1e5)]).unwrap();
    let paced = spacings(&mut i, at(0), Event::Deadline);
    let packet = 8.0 * f64::from(flow(0).packet) / 4e6;
    assert!((paced[0].as_secs_f64() - packet).abs() < 1e-6, "{paced:?}, a packet takes {packet} s");
}

#[test]
fn a_notification_halves_the_rate_for_the_time_in_its_packet() {
    let mut i = start("wcp", setting());
    assert_eq!(spacings(&mut i, at(0), Event::Deadline), [Span::from_millis(100)]);
    let reported = |marked: u32, instant: u32| {
        let mut header = Header::default();
        header.0[usize::from(CONGESTION_FIELD)] = marked;
        header.0[usize::from(INSTANT_FIELD)] = instant;
        let rtt = Span::from_millis(30);
        Event::Feedback(Feedback {
            flow: FlowId(0),
            rtt,
            acked: 1460,
            lost: 0,
            marked: false,
            header,
        })
    };
    assert_eq!(spacings(&mut i, at(10), reported(0, 400)), []);
    assert_eq!(spacings(&mut i, at(11), reported(1, 400)), [Span::from_millis(200)]);
    assert_eq!(spacings(&mut i, at(410), reported(1, 50)), [], "t_md is 400 ms");
    assert_eq!(spacings(&mut i, at(411), reported(1, 50)), [Span::from_millis(400)]);
    // §3.1: once the shared instantaneous round trip. Variants of this project: twice, and three
    // times.
    for (name, ends) in [("wcp", 411), ("wcp+two-trips", 811), ("wcp+three-trips", 1211)] {
        let mut i = start(name, setting());
        actions(&mut i, at(0), Event::Deadline);
        assert_eq!(spacings(&mut i, at(11), reported(1, 400)).len(), 1);
        assert_eq!(spacings(&mut i, at(ends - 1), reported(1, 400)).len(), 0);
        assert_eq!(spacings(&mut i, at(ends), reported(1, 400)).len(), 1);
    }
    // Without shared round trips it uses its own 30 ms.
    let mut own = start("wcp+own-rtt", setting());
    actions(&mut own, at(0), Event::Deadline);
    assert_eq!(spacings(&mut own, at(11), reported(1, 400)).len(), 1);
    assert_eq!(spacings(&mut own, at(40), reported(1, 400)).len(), 0);
    assert_eq!(spacings(&mut own, at(41), reported(1, 400)).len(), 1);
}

#[test]
fn an_acknowledgement_marked_on_its_way_back_is_a_notification() {
    let back = |flow: u32, ack: bool, marked: u32| {
        let mut received = received(2, 1, &[]);
        (received.flow, received.ack) = (FlowId(flow), ack);
        received.header.0[usize::from(CONGESTION_FIELD)] = marked;
        received.header.0[usize::from(INSTANT_FIELD)] = 100;
        Event::Received(received)
    };
    let mut i = start("wcp", setting());
    actions(&mut i, at(0), Event::Deadline);
    for event in [back(0, true, 0), back(0, false, 1), back(1, true, 1)] {
        assert_eq!(spacings(&mut i, at(5), event), [], "no mark, no acknowledgement, passing by");
    }
    assert_eq!(spacings(&mut i, at(10), back(0, true, 1)), [Span::from_millis(200)]);
    assert_eq!(spacings(&mut i, at(109), back(0, true, 1)), [], "t_md is 100 ms");
    assert_eq!(spacings(&mut i, at(110), back(0, true, 1)), [Span::from_millis(400)]);
    // With rates in the network, sources follow the routers' rates.
    let mut i = start("wcp+in-network", setting());
    actions(&mut i, at(0), Event::Deadline);
    assert_eq!(spacings(&mut i, at(10), back(0, true, 1)), []);
}

#[test]
fn alone_a_link_marks_only_for_itself() {
    let mut i = start_with("wcp+alone", setting(), &[("weight", 1.0)]).unwrap();
    fields(&mut i, at(0));
    let far = LinkState { average: 120, instant: 300, rate: 40 };
    actions(&mut i, at(5), Event::Received(received(0, 1, &[(LINK_FIELD, far)])));
    assert!(!fields(&mut i, at(20)).contains(&(LINK, CONGESTION_FIELD, 1)));
    let queue = QueueLength { class: LINK, packets: 5, bytes: 2860 };
    let written = fields_after(&mut i, at(25), Event::Queue(queue));
    assert!(written.contains(&(LINK, CONGESTION_FIELD, 1)));
    assert!(!written.contains(&(Class::Link(NodeId(0)), CONGESTION_FIELD, 1)));
}

#[test]
fn in_the_network_routers_halve_rates_and_spare_slower_flows() {
    let word = |packets: f64| LinkState { average: 20, instant: 200, rate: rate_code(packets) };
    // A flow from node 0 at 80 or 20 packets/s, and 40 on the congested link: the router's own rate
    // starts at 10. Flow 0 of node 1 is at 10 and spared.
    for (rate, stated) in [(80.0, 5.0), (20.0, 10.0)] {
        let mut i = start("wcp+in-network", setting());
        spacings(&mut i, at(0), Event::Deadline);
        let event =
            Event::Received(received(0, 1, &[(FLOW_FIELD, word(rate)), (LINK_FIELD, word(40.0))]));
        let mut rates = Vec::new();
        for action in actions(&mut i, at(5), event).iter() {
            match *action {
                Action::Pace { .. } => panic!("flow 0 is spared"),
                Action::Annotate { class, slot: RATE_FIELD, value, .. } => {
                    rates.push((class, f64::from(value) / 16.0));
                }
                _ => {}
            }
        }
        assert_eq!(rates, [(Class::Flow(FlowId(1)), stated)]);
    }
}

#[test]
fn in_the_network_a_source_goes_by_the_slowest_router() {
    let mut i = start("wcp+in-network", setting());
    assert_eq!(spacings(&mut i, at(0), Event::Deadline), [Span::from_millis(100)]);
    let reported = |rate: u32, marked: u32| {
        let mut header = Header::default();
        header.0[usize::from(RATE_FIELD)] = rate;
        header.0[usize::from(CONGESTION_FIELD)] = marked;
        let rtt = Span::from_millis(30);
        Event::Feedback(Feedback {
            flow: FlowId(0),
            rtt,
            acked: 512,
            lost: 0,
            marked: false,
            header,
        })
    };
    assert_eq!(spacings(&mut i, at(10), reported(16 * 5, 0)), [Span::from_millis(200)]);
    // Its limit is not above its own rate, and the bit has no effect here.
    assert_eq!(spacings(&mut i, at(20), reported(0xffff_ffff, 1)), []);
    assert_eq!(spacings(&mut i, at(20), Event::Deadline), [Span::from_millis(100)]);
    // Its own link is congested: it does not wait for a round trip.
    for n in 0..100 {
        let queue = QueueLength { class: LINK, packets: 20 + n % 2, bytes: 11_440 };
        let slower = spacings(&mut i, at(30), Event::Queue(queue));
        if !slower.is_empty() {
            assert_eq!(slower, [Span::from_millis(200)]);
            return;
        }
    }
    panic!("it never halved");
}

#[test]
fn outside_the_air_exactly_the_neighbourhood_counts() {
    // Node 2 of the Stack, link 2→3.
    let links =
        |n: u32| move |l: &&(u32, u32)| in_range(&STACK, n, l.0) || in_range(&STACK, n, l.1);
    let known: Vec<Link> = STACK
        .iter()
        .filter(links(2))
        .map(|&(a, b)| Link { from: NodeId(a), to: NodeId(b) })
        .collect();
    let neighbours = [NodeId(1), NodeId(3), NodeId(5)];
    let congested = LinkState { average: 10, instant: 10, rate: 1 };
    let reported = |from: u32, to: u32| {
        let mut ideal = IdealExchange::new(NodeId(2), &neighbours, &known);
        let body: Vec<u8> = [to, congested.encode()].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert!(ideal.take_message(at(0), NodeId(from), &body), "news");
        assert!(!ideal.take_message(at(1), NodeId(from), &body), "no news");
        ideal.take_message(at(1), NodeId(from), &body[..5]);
        [3, 5].map(|to| ideal.shared(NodeId(to), LinkState::default()).congested())
    };
    assert_eq!(reported(4, 5), [true, true]);
    assert_eq!(reported(8, 9), [false, true], "8 is a neighbour of 5");
    assert_eq!(reported(7, 8), [false, true], "so is the end of 7→8");
    assert_eq!(reported(8, 5), [true, true], "5 is a neighbour of 2");
}

#[test]
fn a_header_costs_its_bytes_and_nothing_shared_costs_one() {
    let bytes = |name: &str| lookup(name).unwrap().needs(&Site::default()).unwrap().header_bytes;
    assert_eq!(bytes("wcp"), HEADER_BYTES);
    assert_eq!(bytes("wcp+alone"), HEADER_BYTES);
    assert_eq!(bytes("wcp+alone+own-rtt"), 1);
    assert_eq!(
        (bytes("wcp+ideal"), bytes("wcp+in-network")),
        (PUBLISHED_HEADER_BYTES, HEADER_BYTES + 2)
    );
}
