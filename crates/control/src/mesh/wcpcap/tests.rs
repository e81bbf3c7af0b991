//! Rangwala 2008 §3.2, "Estimating available bandwidth", alone and over several nodes.
//!
//! Includes hosts and neighbours with invalid behaviour.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::estimate::Questions;
use super::headroom_search::QueueCurve;
use super::link_report::{FlowReport, LinkReport, limit_code, limit_of};
use super::neighbourhood::{Rejected, Reports, Topology};
use super::{FLOW_FIELD, HEADER_BYTES, LIMIT_FIELD, REPORT_FIELD, newcomers};
use crate::testing::{actions, flow, start_with};
use crate::{
    Action, Actions, Class, Event, Feedback, FlowHere, FrameLoad, FrameStream, Header, Instance,
    Link, LinkModel, LinkRates, LoadedLink, Message, Neighbour, NoAnswer, Place, QueueLength,
    ReceivedFrame, Sent, Setting, Site,
};

/// Undirected links of the Stack (Fig. 1).
const STACK: &[(u32, u32)] = &[(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)];
/// Undirected links of the Diamond (Fig. 5).
const DIAMOND: &[(u32, u32)] =
    &[(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 4), (2, 6), (8, 4), (8, 6)];
/// Undirected links of the Chain-Cross (Fig. 7).
const CROSS: &[(u32, u32)] =
    &[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (8, 9), (9, 2), (2, 10), (10, 11)];

fn link(from: u32, to: u32) -> Link {
    Link { from: NodeId(from), to: NodeId(to) }
}

fn directed(links: &[(u32, u32)]) -> Vec<Link> {
    links.iter().flat_map(|&(a, b)| [link(a, b), link(b, a)]).collect()
}

fn report(link: Link, data: f64, flows: u32) -> LinkReport {
    let (size, acks, rate) = (500, 0.0, BitRate(11_000_000));
    LinkReport {
        link,
        data,
        size,
        flows,
        top: 0.0,
        acks,
        rate,
        delivery: 1.0,
        limit: 0.0,
        trip: 0.02,
    }
}

/// A radio with a budget of bits: 1 Mbit/s for all links together.
#[derive(Debug)]
struct Budget;
const BUDGET: f64 = 1e6;

impl LinkModel for Budget {
    fn delivery(&self, _: Link, _: u32) -> f64 {
        1.0
    }
    fn prepare(
        &self,
        _: &[LoadedLink],
        _: &[(NodeId, NodeId)],
        _: &[FrameStream],
    ) -> Option<Box<dyn LinkRates>> {
        Some(Box::new(Budget))
    }
}

impl LinkRates for Budget {
    fn busiest(&mut self, loads: &[FrameLoad]) -> Result<f64, NoAnswer> {
        let bits = |l: &FrameLoad| 8.0 * l.packets * f64::from(l.bytes);
        let busy = loads.iter().map(bits).sum::<f64>() / BUDGET;
        if busy < 2.0 { Ok(busy) } else { Err(NoAnswer::Beyond) }
    }

    fn airtime(&self, _: &[FrameLoad]) -> f64 {
        0.0
    }
}

// ---- the neighbourhood

/// L(i→j) as it is defined: all links into and out of i, j, and the neighbours of either.
fn neighbourhood(links: &[(u32, u32)], i: u32, j: u32) -> Vec<Link> {
    let in_range = |a: u32, b: u32| links.iter().any(|l| *l == (a, b) || *l == (b, a));
    let inside = |n: NodeId| n.0 == i || n.0 == j || in_range(n.0, i) || in_range(n.0, j);
    let mut all = directed(links);
    all.retain(|l| inside(l.from) || inside(l.to));
    all.sort();
    all
}

#[test]
fn reports_of_a_link_reach_exactly_the_nodes_that_need_them() {
    for links in [STACK, DIAMOND, CROSS] {
        let nodes: BTreeSet<u32> = links.iter().flat_map(|l| [l.0, l.1]).collect();
        let new = |n: &u32| Reports::new(Topology::new(NodeId(*n), directed(links).into_iter()));
        let mut reports: Vec<Reports> = nodes.iter().map(new).collect();
        let in_range = |a: u32, b: u32| links.iter().any(|l| *l == (a, b) || *l == (b, a));
        // In every round each node reports one of its links and forwards one report; all nodes in range receive it.
        for round in 0..120 {
            for (at, &n) in nodes.iter().enumerate() {
                let mut own = directed(links);
                own.retain(|l| l.from.0 == n);
                let mine = report(own[round % own.len()], f64::from(n) * 1e4, 1);
                let passed = reports[at].pass(round % reports[at].passed().max(1));
                let reported: Vec<LinkReport> =
                    [Some(mine), passed].into_iter().flatten().collect();
                for (to, &m) in nodes.iter().enumerate() {
                    for t in reported.iter().filter(|_| in_range(n, m)) {
                        assert_eq!(reports[to].take(Time::ZERO, Some(NodeId(n)), *t), Ok(()));
                    }
                }
            }
        }
        for (at, &i) in nodes.iter().enumerate() {
            for j in nodes.iter().filter(|j| in_range(i, **j)) {
                let middle = reports[at].topology.middle(NodeId(*j));
                let mut known: Vec<Link> = reports[at].among(&middle).map(|n| n.link).collect();
                let right =
                    reports[at].among(&middle).all(|n| n.data == f64::from(n.link.from.0) * 1e4);
                known.extend(directed(links).iter().filter(|l| l.from.0 == i));
                known.sort();
                assert_eq!(known, neighbourhood(links, i, *j), "{i}→{j}");
                assert!(right, "what is reported of a link is its transmitter's");
            }
        }
    }
}

#[test]
fn old_reports_expire_and_do_not_circulate() {
    let mut reports = Reports::new(Topology::new(NodeId(5), directed(STACK).into_iter()));
    let reported = report(link(1, 2), 1e5, 1);
    assert_eq!(reports.take(Time::ZERO, Some(NodeId(2)), reported), Ok(()));
    assert_eq!(reports.pass(0), Some(reported));
    // 8 is no nearer to 1 than this node: it only repeats reports of this node.
    assert_eq!(
        reports.take(Time::ZERO, Some(NodeId(8)), LinkReport { data: 9e5, ..reported }),
        Ok(())
    );
    assert_eq!(reports.pass(0), Some(reported));
    assert_eq!(
        reports.take(Time::ZERO, Some(NodeId(2)), report(link(1, 9), 1e5, 1)),
        Err(Rejected::Unknown)
    );
    reports.forget(Time::ZERO + Span::from_secs(3), Span::from_secs(3));
    assert_eq!(reports.pass(0), None);
    // A node three hops away needs no forwarding: no node beyond has this node in the middle.
    let mut end = Reports::new(Topology::new(NodeId(4), directed(STACK).into_iter()));
    end.take(Time::ZERO, Some(NodeId(5)), reported).unwrap();
    assert_eq!(end.pass(0), None);
}

// ---- Fig. 4

#[test]
fn the_largest_delta_is_found() {
    let mut questions = Questions::default();
    let mut headroom = |all: &[LinkReport], u: f64| {
        let found = questions.headroom(&Budget, all, Vec::new(), u, &mut QueueCurve::default());
        found.unwrap().delta
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 0.02 * 100e3, "{a} {b}");
    // x = 100, 200 and 100 kbit/s with 1, 2 and 1 flows: 400 + 4δ = 700.
    let all = [report(link(1, 2), 1e5, 1), report(link(2, 3), 2e5, 2), report(link(5, 6), 1e5, 1)];
    near(headroom(&all, 0.7), 75e3);
    near(headroom(&all, 0.4), 0.0);
    near(headroom(&all, 0.2), -50e3);
    // At most all that flows have can be taken away.
    near(headroom(&all, 1e-9), -100e3);
    // Far beyond the model's range.
    let flood = [report(link(1, 2), 9e6, 1)];
    near(headroom(&flood, 0.7), -8.3e6);
    // No load: all of the air.
    assert!(headroom(&[report(link(1, 2), 1e3, 1)], 0.7) > 680e3);
}

/// δ also raises the acknowledgements of data, in the measured proportion.
#[test]
fn acknowledgements_grow_with_the_data_that_they_answer() {
    let data = LinkReport { size: 500, ..report(link(1, 2), 400e3, 1) };
    let acks = LinkReport { flows: 0, data: 0.0, acks: 100.0, ..report(link(2, 1), 0.0, 0) };
    let each = f64::from(8 * (40 + HEADER_BYTES)) / (8.0 * 500.0);
    // 400 kbit/s in 100 packets/s and 100 acknowledgements; both rise by δ / 400 kbit/s.
    let used = 400e3 * (1.0 + each);
    let expected = (0.7 * BUDGET - used) / (1.0 + each);
    let found = Questions::default()
        .headroom(&Budget, &[data, acks], Vec::new(), 0.7, &mut QueueCurve::default())
        .unwrap()
        .delta;
    assert!((found - expected).abs() < 0.02 * 400e3, "{found} {expected}");
}

/// A radio with equations that do not converge from half a megabit on.
///
/// For packets of 1000 bytes they do not hold at all.
#[derive(Debug)]
struct Doubtful;

impl LinkModel for Doubtful {
    fn delivery(&self, _: Link, _: u32) -> f64 {
        1.0
    }
    fn prepare(
        &self,
        _: &[LoadedLink],
        _: &[(NodeId, NodeId)],
        _: &[FrameStream],
    ) -> Option<Box<dyn LinkRates>> {
        Some(Box::new(Doubtful))
    }
}

impl LinkRates for Doubtful {
    fn busiest(&mut self, loads: &[FrameLoad]) -> Result<f64, NoAnswer> {
        let busy = Budget.busiest(loads)?;
        match loads.iter().any(|l| l.bytes == 1000) {
            true => Err(NoAnswer::Outside),
            false if busy > 0.5 => Err(NoAnswer::NotSettled),
            false => Ok(busy),
        }
    }

    fn airtime(&self, loads: &[FrameLoad]) -> f64 {
        2.0 * loads.iter().map(|l| 8.0 * l.packets * f64::from(l.bytes)).sum::<f64>() / BUDGET
    }
}

/// If the model has no answer, all links count as one channel; it takes twice the time here.
///
/// The model's answers are used otherwise.
#[test]
fn a_model_without_answer_sets_no_boundary() {
    let found = |size: u32, u: f64| {
        let all = [LinkReport { size, ..report(link(1, 2), 1e5, 1) }];
        let last = &mut QueueCurve::default();
        Questions::default().headroom(&Doubtful, &all, Vec::new(), u, last).unwrap()
    };
    for (size, u, unknown, delta) in [
        (500, 0.4, None, 300e3),
        (500, 0.7, Some(NoAnswer::NotSettled), 250e3),
        (1000, 0.4, Some(NoAnswer::Outside), 100e3),
        // Never below a rate of 0 for the flows.
        (1000, 0.1, Some(NoAnswer::Outside), -50e3),
    ] {
        let headroom = found(size, u);
        assert_eq!(headroom.unknown, unknown, "{size} {u}");
        assert!((headroom.delta - delta).abs() < 0.02 * 100e3, "{size} {u}: {}", headroom.delta);
    }
}

// ---- a node

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Node 2 of the Stack, which forwards flow 0 from 1 to 3 and is the source of flow 1 to 5.
fn node(name: &str, parameters: &[(&str, f64)]) -> Instance {
    let neighbour = |n| Neighbour::new(NodeId(n), BitRate(11_000_000), BitRate(4_000_000));
    let here = |id, place, to| FlowHere {
        place,
        next_hop: Some(NodeId(to)),
        payload: 460,
        packet: 500 - HEADER_BYTES,
        ..flow(id)
    };
    let site = Site::new().with_sources(true);
    let setting = Setting::new(NodeId(2), site, Stream::new(1, "control/n2"))
        .with_flows([here(0, Place::Forwarder, 3), here(1, Place::Source, 5)])
        .with_neighbours([1, 3, 5].map(neighbour))
        .with_links(directed(STACK))
        .with_model(Some(Arc::new(Budget)));
    start_with(name, setting, parameters).unwrap()
}

fn sent(flow: u32, to: u32) -> Event<'static> {
    Event::Sent(Sent {
        to: Some(NodeId(to)),
        flow: Some(FlowId(flow)),
        ack: false,
        bytes: 500,
        airtime: Span::from_millis(2),
        backoff: Span::ZERO,
        attempts: 1,
        rate: BitRate(11_000_000),
        delivered: true,
        ack_bits: None,
    })
}

fn received(flow: u32, on: Link, words: [u32; 3]) -> Event<'static> {
    let mut header = Header::default();
    header.0[usize::from(REPORT_FIELD)..][..3].copy_from_slice(&words);
    let (flow, ack, bytes) = (FlowId(flow), false, 500);
    let received = ReceivedFrame { link: on, flow, ack, bytes, header };
    if on.to == NodeId(2) { Event::Received(received) } else { Event::Overheard(received) }
}

fn feedback(limit: u32) -> Event<'static> {
    let mut header = Header::default();
    header.0[usize::from(LIMIT_FIELD)] = limit;
    let (flow, rtt, acked) = (FlowId(1), Span::from_millis(20), 460);
    Event::Feedback(Feedback { flow, rtt, acked, lost: 0, marked: false, header })
}

/// Runs to `until` with these events every 10 ms; returns all actions.
fn live(i: &mut Instance, from: u64, until: u64, events: &[Event<'_>]) -> Actions {
    let mut all = Actions::new();
    for ms in from..until {
        while let Some(due) = i.control.next_deadline().filter(|d| *d <= at(ms)) {
            i.control.on(due.max(at(ms)), &Event::Deadline, &mut all);
        }
        for e in events.iter().filter(|_| ms % 10 == 0) {
            i.control.on(at(ms), e, &mut all);
        }
    }
    all
}

/// The feedback written into packets to a node, in bit/s.
fn written(actions: &Actions, to: u32) -> Vec<f64> {
    let write = |a: &Action| match a {
        Action::Annotate { class: Class::Link(n), slot: LIMIT_FIELD, value, .. } if n.0 == to => {
            limit_of(*value)
        }
        _ => None,
    };
    actions.iter().filter_map(write).collect()
}

/// The spacings set, as packets per second.
fn paces(actions: &Actions) -> Vec<f64> {
    let pace = |a: &Action| match a {
        Action::Pace { interval: Some(s), window: false, .. } => Some(1.0 / s.as_secs_f64()),
        _ => None,
    };
    actions.iter().filter_map(pace).collect()
}

#[test]
fn links_share_the_headroom_among_all_flows_around() {
    // 100 packets of 500 bytes per second each: 400 kbit/s on 2→3 and on 5→6, one flow each.
    let mut i = node("wcpcap", &[("rho", 1.0), ("u", 1.0)]);
    let other = received(7, link(5, 6), report(link(5, 6), 400e3, 1).words());
    let all = live(&mut i, 0, 3000, &[sent(0, 3), other]);
    // 800 + 2δ = 1000 kbit/s.
    let last = *written(&all, 3).last().unwrap();
    assert!((last - 500e3).abs() < 12e3, "{last}");
    // Three more flows there: 400 + 300 + 4δ = 1000, from the rate of the fastest flow.
    let more = received(7, link(5, 6), report(link(5, 6), 300e3, 3).words());
    let all = live(&mut i, 3000, 9000, &[sent(0, 3), more]);
    let last = *written(&all, 3).last().unwrap();
    assert!((last - 475e3).abs() < 12e3, "{last}");
}

/// §3.2: a tenth of the headroom in every epoch.
///
/// `+opening` takes half of it until there is almost none.
#[test]
fn a_larger_part_of_the_headroom_is_taken_at_first_only_by_our_variant() {
    let first = |control| {
        let mut i = node(control, &[("u", 1.0)]);
        *written(&live(&mut i, 0, 3000, &[sent(0, 3)]), 3).last().unwrap()
    };
    // 400 kbit/s is the rate of the fastest flow, and there is room for 600 more.
    assert!((first("wcpcap") - 460e3).abs() < 10e3, "{}", first("wcpcap"));
    assert!(first("wcpcap+opening") > 600e3, "{}", first("wcpcap+opening"));
}

#[test]
fn rates_fall_at_once_and_rise_by_parts() {
    let parameters = [("u", 1.0)];
    let mut i = node("wcpcap", &parameters);
    let all = live(&mut i, 0, 3000, &[sent(0, 3)]);
    // 400 kbit/s is the rate of the fastest flow, and there is room for 600 more: a tenth of it.
    let last = *written(&all, 3).last().unwrap();
    assert!((last - 460e3).abs() < 10e3, "{last}");
    // One flow around that has far more than R is not yet where R has it: R stays.
    let ahead = received(7, link(5, 6), report(link(5, 6), 800e3, 1).words());
    let all = live(&mut i, 3000, 3200, &[sent(0, 3), ahead]);
    assert!(written(&all, 3).iter().all(|r| (r - 460e3).abs() < 15e3), "{:?}", written(&all, 3));
    // 1.1 Mbit/s in all, none above R, is 0.1 too many for three flows.
    let crowd = received(7, link(5, 6), report(link(5, 6), 700e3, 2).words());
    let all = live(&mut i, 3200, 3700, &[sent(0, 3), crowd]);
    let first = written(&all, 3)[0];
    assert!((first - 375e3).abs() < 15e3, "{first}");
}

/// Until rates are valid, every flow around gets the same.
#[test]
fn a_link_that_came_into_use_begins_where_all_are_alike() {
    let mut i = node("wcpcap", &[("u", 1.0)]);
    let ahead = received(7, link(5, 6), report(link(5, 6), 900e3, 1).words());
    let all = live(&mut i, 0, 2400, &[sent(0, 3), ahead]);
    let rates = written(&all, 3);
    assert!(!rates.is_empty() && rates.iter().all(|r| (r - 500e3).abs() < 10e3), "{rates:?}");
}

#[test]
fn sources_send_at_the_rate_fed_back() {
    let mut i = node("wcpcap", &[]);
    let all = live(&mut i, 0, 1, &[]);
    assert_eq!(paces(&all).len(), 1, "{all:?}");
    assert!((paces(&all)[0] - 10.0).abs() < 0.1);
    let reported = actions(&mut i, at(5), feedback(limit_code(200e3)));
    assert!((paces(&reported)[0] - 50.0).abs() < 0.5, "{reported:?}");
    // A repetition changes nothing.
    assert!(paces(&actions(&mut i, at(6), feedback(limit_code(200e3)))).is_empty());
}

/// Packets carry the lowest of all rates around, including those of neighbours.
#[test]
fn the_least_rate_around_counts() {
    let mut i = node("wcpcap", &[]);
    let tight = LinkReport { limit: 50e3, ..report(link(5, 6), 100e3, 1) };
    let all = live(&mut i, 0, 2000, &[sent(0, 3), received(7, link(5, 6), tight.words())]);
    let last = *written(&all, 3).last().unwrap();
    assert!((last - 50e3).abs() < 1e3, "{last}");
    // Without further reports it no longer counts.
    let all = live(&mut i, 2000, 9000, &[sent(0, 3)]);
    assert!(*written(&all, 3).last().unwrap() > 300e3);
}

#[test]
fn persistent_queues_lower_rates_by_the_undelivered_part() {
    let waits = |packets| {
        Event::Queue(QueueLength { class: Class::All, packets, bytes: 500 * u64::from(packets) })
    };
    // Another link has 550 kbit/s for its flow, this one 400; the model sees room. The source of
    // the flow may send 600, or the 400 that it gets.
    let other = received(7, link(5, 6), report(link(5, 6), 550e3, 1).words());
    let asks = |rate| {
        let mut header = Header::default();
        header.0[usize::from(FLOW_FIELD)] = FlowReport { trip: 0.02, rate }.word();
        let (flow, ack, bytes) = (FlowId(0), false, 500);
        Event::Received(ReceivedFrame { link: link(1, 2), flow, ack, bytes, header })
    };
    let after = |waiting, rate, control| {
        let mut i = node(control, &[("u", 0.99)]);
        let all = live(&mut i, 0, 6000, &[asks(rate), sent(0, 3), other, waits(waiting)]);
        (*written(&all, 3).last().unwrap(), named(&all, "wcpcap.backlog"))
    };
    let (free, reports) = after(2, 600e3, "wcpcap+yielding");
    assert!(free > 520e3 && reports == 0, "{free}");
    let (bound, reports) = after(40, 600e3, "wcpcap+yielding");
    assert!((350e3..385e3).contains(&bound) && reports > 0, "{bound}");
    let (held, reports) = after(40, 400e3, "wcpcap+yielding");
    assert!((480e3..510e3).contains(&held) && reports > 0, "{held}");
    let (asked, _) = after(40, 600e3, "wcpcap");
    assert!(asked > 480e3, "{asked}: published, R goes by the model alone");
}

// ---- invalid input

fn named(actions: &Actions, code: &str) -> usize {
    let is = |a: &&Action| matches!(a, Action::Because(r) if r.code == code);
    actions.iter().filter(is).count()
}

#[test]
fn impossible_reports_change_nothing_and_are_named() {
    let mut honest = node("wcpcap", &[]);
    let mut lied = node("wcpcap", &[]);
    let calm = live(&mut honest, 0, 3000, &[sent(0, 3)]);
    let absurd =
        received(7, link(5, 6), LinkReport { data: 90e6, ..report(link(5, 6), 1.0, 1) }.words());
    let nowhere = received(7, link(5, 6), report(link(7, 9), 400e3, 1).words());
    let noise = received(7, link(5, 6), [u32::MAX; 3]);
    // A link of this node: its own data are better.
    let mine = received(7, link(5, 6), report(link(2, 3), 1.0, 31).words());
    let all = live(&mut lied, 0, 3000, &[sent(0, 3), absurd, nowhere, noise, mine]);
    assert_eq!(written(&calm, 3), written(&all, 3));
    assert!(named(&all, "wcpcap.absurd") > 0 && named(&all, "wcpcap.unknown") > 0);
    // Reported occasionally, not each time.
    assert!(named(&all, "wcpcap.absurd") < 20);
}

#[test]
fn a_liar_cannot_starve_or_flood() {
    // 9 Mbit/s on a neighbour's link, or a rate of next to nothing: never below a packet a second.
    let greedy = received(7, link(5, 6), report(link(5, 6), 9e6, 31).words());
    let mean = LinkReport { limit: 1e3, ..report(link(5, 6), 1e3, 1) };
    for lie in [greedy, received(7, link(5, 6), mean.words())] {
        let mut i = node("wcpcap", &[]);
        let all = live(&mut i, 0, 5000, &[sent(0, 3), sent(1, 5), lie]);
        let last = *written(&all, 3).last().unwrap();
        let reported = actions(&mut i, at(6000), feedback(limit_code(last)));
        assert!(paces(&reported)[0] >= 0.99, "{last} {reported:?}");
    }
    // And never more than the link carries, for any feedback.
    let mut i = node("wcpcap", &[]);
    live(&mut i, 0, 10, &[]);
    let reported = actions(&mut i, at(10), feedback(u32::MAX));
    assert!(paces(&reported)[0] <= 1001.0, "{reported:?}");
}

#[test]
fn feedback_that_stops_leaves_the_rate_and_is_named() {
    let mut i = node("wcpcap", &[]);
    live(&mut i, 0, 10, &[]);
    assert_eq!(named(&actions(&mut i, at(10), feedback(0)), "wcpcap.unset"), 0, "nothing yet");
    actions(&mut i, at(11), feedback(limit_code(200e3)));
    let reported = actions(&mut i, at(12), feedback(0));
    assert_eq!((paces(&reported).len(), named(&reported, "wcpcap.unset")), (0, 1));
}

#[test]
fn without_transmit_status_received_frames_count() {
    let mut i = node("wcpcap", &[]);
    // A single frame is reported, and then none, while data keeps coming.
    live(&mut i, 0, 11, &[sent(0, 3)]);
    let comes = received(0, link(1, 2), [0; 3]);
    let all = live(&mut i, 11, 6000, &[comes]);
    assert!(named(&all, "wcpcap.silent") > 0);
    let last = *written(&all, 3).last().unwrap();
    assert!((380e3..700e3).contains(&last), "{last}");
}

#[test]
fn outside_the_air_anything_may_arrive() {
    let mut i = node("wcpcap+ideal", &[("u", 1.0), ("rho", 1.0)]);
    let reported = report(link(5, 6), 400e3, 1).plain();
    let other = Event::Message(Message { from: NodeId(5), body: &reported });
    let junk = Event::Message(Message { from: NodeId(5), body: b"junk" });
    let all = live(&mut i, 0, 3000, &[sent(0, 3), other, junk]);
    assert!((*written(&all, 3).last().unwrap() - 500e3).abs() < 12e3);
    assert!(named(&all, "wcpcap.absurd") > 0);
    let tells = all.iter().filter(|a| matches!(a, Action::HandOver { .. })).count();
    assert!(tells > 3, "its own link is reported every epoch");
    let worded = |a: &&Action| matches!(a, Action::Annotate { slot: REPORT_FIELD, .. });
    assert_eq!(all.iter().filter(worded).count(), 0, "nothing of it is in packets");
}

#[test]
fn a_host_without_a_model_is_refused_by_name() {
    let mut setting = crate::testing::gateway(&[]);
    let offers = crate::Offers {
        knowledge: crate::KnowledgeSet::ALL
            .without(crate::KnowledgeSet::of(&[crate::Knowledge::LinkModel])),
        ..crate::Offers::everything("the Linux gateway")
    };
    let wcpcap = crate::testing::lookup("wcpcap").unwrap();
    assert_eq!(
        wcpcap.start(setting.clone(), &offers).unwrap_err().to_string(),
        "wcpcap cannot run on the Linux gateway: not known: a model of what links can carry \
         together"
    );
    // A host that offers a model and provides none.
    setting.model = None;
    let promised = crate::Offers { knowledge: crate::KnowledgeSet::ALL, ..offers };
    assert_eq!(
        wcpcap.start(setting, &promised).unwrap_err().to_string(),
        "wcpcap: the host gives no model of what its links can carry"
    );
}

// ---- newcomers and leavers

/// Returns the messages that a node sends in this time, ms: receiver and body.
fn reported(i: &mut Instance, from: u64, until: u64) -> Vec<(Option<NodeId>, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(due) = i.control.next_deadline().filter(|d| *d <= at(until)) {
        let done = actions(i, due.max(at(from)), Event::Deadline);
        for action in done.iter() {
            if let crate::Action::Send { to, .. } = action {
                all.push((*to, done.body(action).to_vec()));
            }
        }
    }
    all
}

fn lost(flow: u32, to: u32) -> Event<'static> {
    match sent(flow, to) {
        Event::Sent(s) => Event::Sent(Sent { delivered: false, ..s }),
        other => other,
    }
}

/// Discarded packets are reported to their receiver, some ten times a second.
///
/// This ends when one is delivered, or when TCP has given up for a long time.
#[test]
fn undelivered_flows_are_reported_by_messages() {
    let mut i = node("wcpcap", &[]);
    // A new flow is reported for its first second at most.
    let first = reported(&mut i, 0, 3000);
    assert!((8..=17).contains(&first.len()), "{}", first.len());
    actions(&mut i, at(3001), sent(1, 5));
    assert!(reported(&mut i, 3001, 4000).is_empty(), "it gets through");
    actions(&mut i, at(4001), lost(1, 5));
    let cries = reported(&mut i, 4001, 12000);
    // Five seconds of messages, and a report that the flow has left.
    let (cries, gone) = cries.split_at(cries.iter().position(|c| c.0.is_none()).unwrap());
    assert!((40..=84).contains(&cries.len()), "{}", cries.len());
    for (to, body) in cries {
        assert_eq!(*to, Some(NodeId(5)));
        // One report, of the link to 5: its ends come first.
        assert!(body.len() == 13 && body[..5] == [1, 0, 2, 0, 5], "{body:?}");
    }
    assert!((3..=9).contains(&gone.len()), "{}", gone.len());
    actions(&mut i, at(13000), lost(1, 5));
    assert!(!reported(&mut i, 13000, 13500).is_empty());
    actions(&mut i, at(13501), sent(1, 5));
    assert!(reported(&mut i, 13501, 14000).is_empty());
}

/// A node that receives such a report forwards it for half a second.
///
/// Other nodes do not forward that; an invalid message is reported.
#[test]
fn reports_of_undelivered_flows_are_forwarded() {
    let mut i = node("wcpcap", &[]);
    reported(&mut i, 0, 3000);
    let words = report(link(5, 4), 1e3, 1).words();
    let reports: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
    let message = |flag: u8| [&[flag][..], &reports].concat();
    let from = NodeId(5);
    actions(&mut i, at(7000), Event::Message(Message { from, body: &message(1) }));
    let echo = reported(&mut i, 7000, 9000);
    assert!((4..=9).contains(&echo.len()), "{}", echo.len());
    for (to, body) in echo {
        assert!(to.is_none() && body[0] == 0 && body[1..].chunks(12).any(|r| r == &reports[..]));
    }
    actions(&mut i, at(9000), Event::Message(Message { from, body: &message(0) }));
    assert!(reported(&mut i, 9000, 10000).is_empty());
    for (n, garbage) in [&[][..], &[2], &[1, 0], &[0; 1 + 12 * 7]].into_iter().enumerate() {
        let done = actions(&mut i, at(10000), Event::Message(Message { from, body: garbage }));
        let reports = usize::from((n + 1).is_power_of_two());
        assert_eq!(named(&done, "wcpcap.absurd"), reports, "{garbage:?}");
    }
    assert!(reported(&mut i, 10000, 11000).is_empty());
}

/// Flows with undelivered packets count as if they had the rate of the fastest flow around.
#[test]
fn undelivered_flows_are_given_headroom() {
    let silent = report(link(5, 4), newcomers::UNDELIVERED_RATE_BOUND, 2);
    let mut around = [report(link(1, 2), 300e3, 1), silent, report(link(3, 4), 2e3, 1)];
    newcomers::make_room(&mut around);
    assert_eq!(around.map(|n| n.data), [300e3, 600e3, 2e3], "who sends little is no newcomer");
}

/// Flows that are idle for a second and a half have left, and their node reports this.
///
/// It does not while packets of a node around are not delivered.
#[test]
fn ended_flows_are_reported() {
    let gone = |cry: bool| {
        let mut i = node("wcpcap", &[]);
        reported(&mut i, 0, 2000);
        actions(&mut i, at(2000), sent(1, 5));
        if cry {
            let words = report(link(5, 4), 1e3, 1).words();
            let body: Vec<u8> =
                [0].into_iter().chain(words.iter().flat_map(|w| w.to_be_bytes())).collect();
            actions(&mut i, at(2100), Event::Message(Message { from: NodeId(5), body: &body }));
        }
        reported(&mut i, 2100, 4200)
    };
    let reports = gone(false);
    assert!((3..=9).contains(&reports.len()), "{}", reports.len());
    for (to, body) in reports {
        let report = LinkReport::read(core::array::from_fn(|w| {
            body[1 + 4 * w..5 + 4 * w].iter().fold(0, |all: u32, b| all << 8 | u32::from(*b))
        }));
        assert!(to.is_none() && body[0] == 1);
        assert!(report.unwrap().unwrap().is_empty());
    }
    assert!(gone(true).is_empty());
}
