use fairmesh_units::{Stream, Time};
use proptest::prelude::*;

use super::message::{FlowLimit, FlowReport};
use super::*;
use crate::testing::{actions, gateway, reasons_of, start};
use crate::{Counters, FlowCounters, Limit, Message, RoundTripSample, RoundTripSource};

/// A gateway in a small world: the demands of its flows, and their throughput.
struct Box {
    node: NodeId,
    instance: Instance,
    limits: BTreeMap<FlowId, u64>,
    sent: BTreeMap<FlowId, (u64, u64)>,
    /// Bytes of its flows in the mesh.
    queue: f64,
    /// Time of its last call.
    at: Time,
    reasons: Vec<String>,
}

/// Two gateways with backlogged flows that share airtime.
struct World {
    boxes: Vec<Box>,
    /// Capacity of all flows together, in bit/s.
    air: f64,
    /// Bytes that crossed the mesh, by gateway and flow.
    crossed: BTreeMap<(usize, FlowId), f64>,
    /// Messages on the wire: arrival, receiver, sender, body.
    wire: Vec<(Time, usize, NodeId, Vec<u8>)>,
    delay: Span,
    loss: f64,
    again: bool,
    cut: bool,
    chance: Stream,
    now: Time,
    messages: usize,
}

const TICK: Span = Span::from_millis(25);
/// Bytes of a gateway's flows that may wait in the mesh.
const QUEUE: f64 = 100e3;

fn world(flows: &[&[u32]], air: f64) -> World {
    let boxes = flows.iter().zip(0..).map(|(flows, n)| {
        let setting = Setting { node: NodeId(n), ..gateway(flows) };
        let instance = start("rtt+peers", setting);
        let limit = |c: &crate::ClassPlan| match (c.class, c.limit) {
            (Class::Flow(f), Limit::Rate(r)) => Some((f, r.0)),
            _ => None,
        };
        Box {
            node: NodeId(n),
            limits: instance.plan.classes.iter().filter_map(limit).collect(),
            sent: flows.iter().map(|f| (FlowId(*f), (0, 0))).collect(),
            instance,
            queue: 0.0,
            at: Time::ZERO,
            reasons: Vec::new(),
        }
    });
    World {
        boxes: boxes.collect(),
        air,
        crossed: BTreeMap::new(),
        wire: Vec::new(),
        delay: Span::from_millis(20),
        loss: 0.0,
        again: false,
        cut: false,
        chance: Stream::new(1, "peers/test"),
        now: Time::ZERO,
        messages: 0,
    }
}

impl World {
    fn run(&mut self, seconds: u64) {
        let end = self.now + Span::from_secs(seconds);
        while self.now < end {
            self.now += TICK;
            // The first box's traffic crosses the mesh first: the others' flows wait, and lose the excess.
            let mut left = self.air * TICK.as_secs_f64() / 8.0;
            for (n, b) in self.boxes.iter_mut().enumerate() {
                let mut offered = 0.0;
                for (flow, sent) in &mut b.sent {
                    let bytes = b.limits[flow] as f64 * TICK.as_secs_f64() / 8.0;
                    offered += bytes;
                    (sent.0, sent.1) = (sent.0 + bytes.round() as u64, sent.0 / 1500);
                }
                let waits = (b.queue + offered).min(QUEUE + left);
                let served = waits.min(left);
                (b.queue, left) = (waits - served, left - served);
                for flow in b.sent.keys() {
                    let part = b.limits[flow] as f64 * TICK.as_secs_f64() / 8.0 / offered;
                    *self.crossed.entry((n, *flow)).or_default() += served * part;
                }
            }
            for n in 0..self.boxes.len() {
                if self.boxes[n].instance.control.next_deadline().is_some_and(|d| d <= self.now) {
                    self.deadline(n);
                }
            }
            let (due, later) =
                std::mem::take(&mut self.wire).into_iter().partition(|m| m.0 <= self.now);
            self.wire = later;
            for (_, to, from, body) in due {
                self.event(to, Event::Message(Message { from, body: &body }));
            }
        }
    }

    fn deadline(&mut self, n: usize) {
        let sent: Vec<(FlowId, (u64, u64))> =
            self.boxes[n].sent.iter().map(|(f, s)| (*f, *s)).collect();
        for (flow, (bytes, packets)) in sent {
            let class = Class::Flow(flow);
            let (drops, overlimits, queued_packets, queued_bytes) = (0, 0, 5, 7500);
            let counters =
                Counters { class, bytes, packets, drops, overlimits, queued_packets, queued_bytes };
            self.event(n, Event::Counters(counters));
            self.event(n, Event::FlowCounters(FlowCounters { flow, bytes, packets }));
            let base = Span::from_millis(20);
            let delay = self.boxes[n].queue * 8.0 / self.air;
            let median = Span::from_secs_f64(0.02 + delay);
            let source = RoundTripSource::Tcp;
            let trip = RoundTripSample { median, base, count: 10, source };
            self.event(n, Event::PathSigns(PathSigns::new(flow).with_trips(Some(trip), None)));
        }
        self.event(n, Event::Deadline);
    }

    fn event(&mut self, n: usize, event: Event<'_>) {
        let boxes = self.boxes.len();
        let b = &mut self.boxes[n];
        b.at = self.now;
        let done = actions(&mut b.instance, self.now, event);
        b.reasons.extend(reasons_of(&done));
        for action in done.iter() {
            match action {
                Action::SetRate { class: Class::Flow(f), rate: Some(rate) } => {
                    assert!(b.limits.contains_key(f), "{f:?} is not a flow of {:?}", b.node);
                    b.limits.insert(*f, rate.0);
                }
                Action::HandOver { reach: Reach::Gateways, .. } => {
                    self.messages += 1;
                    let body = done.body(action);
                    for to in (0..boxes).filter(|to| *to != n) {
                        if self.cut || self.chance.chance(self.loss) {
                            continue;
                        }
                        let from = NodeId(n as u32);
                        self.wire.push((self.now + self.delay, to, from, body.to_vec()));
                        if self.again {
                            // The same message again, much later.
                            let late = self.now + self.delay + Span::from_secs(5);
                            self.wire.push((late, to, from, body.to_vec()));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the rate of every flow over some seconds, in kbit/s.
    fn rates(&mut self, seconds: u64) -> Vec<f64> {
        let before: Vec<f64> = self.crossed.values().copied().collect();
        self.run(seconds);
        let after: Vec<f64> = self.crossed.values().copied().collect();
        let rate = |(a, b): (&f64, &f64)| (b - a) * 8.0 / seconds as f64 / 1e3;
        before.iter().zip(&after).map(rate).collect()
    }
}

fn least(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::INFINITY, f64::min)
}

const AIR: f64 = 600e3;

/// Returns the lowest rate of the same six flows under one box.
fn one_box() -> f64 {
    let mut w = world(&[&[0, 1, 2, 3, 4, 5]], AIR);
    w.run(150);
    least(&w.rates(60))
}

#[test]
fn starvation_behind_one_gateway_lowers_limits_behind_the_other() {
    let mut w = world(&[&[0, 1], &[0, 1, 2, 3]], AIR);
    w.run(150);
    let rates = w.rates(60);
    let one = one_box();
    assert!(least(&rates) > 0.9 * one, "{rates:.0?}, one box {one:.0}");
    assert!(w.boxes[1].reasons.iter().any(|r| r.starts_with("gateway 0 governs: flow")));
    let elsewhere = w.boxes[0].reasons.iter().any(|r| r.contains("of gateway 1"));
    assert!(elsewhere, "{:?}", w.boxes[0].reasons);
    // Two messages a second, one each.
    assert!((380..460).contains(&w.messages), "{}", w.messages);
    // Without messages the first box takes all that it can.
    let mut apart = world(&[&[0, 1], &[0, 1, 2, 3]], AIR);
    apart.cut = true;
    apart.run(150);
    let rates = apart.rates(60);
    assert!(least(&rates) < 0.7 * one, "{rates:.0?}");
}

#[test]
fn lost_late_and_repeated_messages_do_not_matter() {
    let one = one_box();
    for (loss, delay, again) in [(0.3, 20, false), (0.0, 600, false), (0.1, 200, true)] {
        let mut w = world(&[&[0, 1], &[0, 1, 2, 3]], AIR);
        (w.loss, w.delay, w.again) = (loss, Span::from_millis(delay), again);
        w.run(240);
        let rates = w.rates(60);
        assert!(
            least(&rates) > 0.85 * one,
            "loss {loss}, {delay} ms: {rates:.0?}, one box {one:.0}"
        );
    }
}

#[test]
fn a_gateway_is_removed_at_its_timeout_and_returns() {
    let mut w = world(&[&[0, 1], &[0, 1, 2, 3]], AIR);
    w.run(120);
    let all = |w: &World| w.boxes[1].limits.values().sum::<u64>();
    let had = all(&w);
    w.cut = true;
    w.run(12);
    // It continues from the earlier rates of its homes, far above the start of a search.
    assert!(4 * all(&w) > 3 * had, "{} of {had} bit/s", all(&w));
    let logged = |b: &Box, text: &str| b.reasons.iter().any(|r| r.contains(text));
    assert!(logged(&w.boxes[0], "gateway 1 has not answered and is left out"));
    assert!(logged(&w.boxes[1], "gateway 0 governs no more"));
    // The others' former capacity is used again, and these homes continue to search for more.
    let rates = w.rates(60);
    assert!(rates[0] + rates[1] > 400.0, "{rates:.0?}");
    assert!(w.boxes[1].limits.values().all(|l| *l > 5000), "{:?}", w.boxes[1].limits);
    let before = w.boxes[1].reasons.len();
    w.run(30);
    assert!(w.boxes[1].reasons.len() > before, "it searches for itself");
    w.cut = false;
    w.run(200);
    let rates = w.rates(60);
    let one = one_box();
    assert!(least(&rates) > 0.9 * one, "{rates:.0?}, one box {one:.0}");
}

#[test]
fn the_smallest_of_three_leads_until_it_times_out() {
    let mut w = world(&[&[0], &[0], &[0, 1]], AIR);
    w.run(5);
    let last =
        |w: &World, n: usize| w.boxes[n].reasons.iter().rfind(|r| r.contains("govern")).cloned();
    assert_eq!(last(&w, 1).map(|r| r.starts_with("gateway 0 governs")), Some(true));
    assert_eq!(last(&w, 2).map(|r| r.starts_with("gateway 0 governs")), Some(true));
    // The first one dies: it neither receives nor sends anything.
    w.boxes[0].instance.control = std::boxed::Box::new(Dead);
    w.run(20);
    assert_eq!(last(&w, 1).as_deref(), Some("governs gateway 2 too"));
    assert_eq!(last(&w, 2).map(|r| r.starts_with("gateway 1 governs")), Some(true));
}

#[derive(Debug)]
struct Dead;

impl Control for Dead {
    fn on(&mut self, _: Time, _: &Event<'_>, _: &mut Actions) {}
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

fn heading(from: u32, leader: u32, sequence: u64) -> Heading {
    let (from, leader) = (NodeId(from), NodeId(leader));
    Heading { from, leader, run: 0, sequence, sampled: 1000 * sequence, version: sequence }
}

fn body(heading: Heading, content: &Content) -> Vec<u8> {
    let mut out = Vec::new();
    PeerMessage::pack(heading, content, |body| out = body.to_vec());
    out
}

#[test]
fn a_liar_takes_no_more_than_nine_tenths() {
    let setting = Setting { node: NodeId(5), ..gateway(&[0, 1]) };
    let mut i = start("rtt+peers", setting);
    // A twelfth of 900 kbit/s for two, and a tenth of that.
    let floor = 900_000 / 12 / 2 / 10;
    let low = |gateway| FlowLimit { gateway: NodeId(gateway), flow: FlowId(1), rate: BitRate(1) };
    let content = Content::Limits(vec![low(5), low(7), FlowLimit { flow: FlowId(77), ..low(5) }]);
    let report = |n| body(heading(1, 1, n), &content);
    let at = Time::ZERO + Span::from_secs(1);
    let first = report(1);
    let done = actions(&mut i, at, Event::Message(Message { from: NodeId(1), body: &first }));
    let limits = crate::testing::limits_of(&done);
    assert_eq!(limits, [(Class::Flow(FlowId(1)), floor)], "flows that it has not are nobody's");
    // Messages in another gateway's name, and replayed ones, are rejected.
    for (from, body) in [(2, report(2)), (1, first), (1, body(heading(1, 9, 3), &content))] {
        let done = actions(&mut i, at, Event::Message(Message { from: NodeId(from), body: &body }));
        assert_eq!(crate::testing::limits_of(&done), [], "{from}");
    }
}

#[test]
fn a_follower_that_claims_a_thousand_homes_leaves_the_others_a_tenth() {
    let mut i = start("rtt+peers", gateway(&[0, 1]));
    let floor = 900_000 / 12 / 2 / 10;
    let report = |flow, n: u64| FlowReport {
        flow: FlowId(flow),
        bytes: 3000 * n,
        packets: 2 * n,
        drops: Some(0),
        weight: 1e6,
        hops: None,
        branch: None,
        guarantee: None,
        ceiling: None,
        packet: 1500,
        queued: 5,
        trip: Some(RoundTripSample {
            median: Span::from_secs(60),
            base: Span::from_millis(1),
            count: 10,
            source: RoundTripSource::Tcp,
        }),
        oldest: Some(Span::from_secs(30)),
    };
    let (mut lowest, mut sequence) = (u64::MAX, 0);
    for second in 1..200 {
        let at = Time::ZERO + Span::from_secs(second);
        for chunk in 0..40 {
            let reports: Vec<_> = (0..25).map(|k| report(25 * chunk + k, second)).collect();
            sequence += 1;
            let heading = Heading { sampled: 1000 * second, ..heading(3, 0, sequence) };
            let body = body(heading, &Content::Report(reports));
            let done =
                actions(&mut i, at, Event::Message(Message { from: NodeId(3), body: &body }));
            lowest = crate::testing::limits_of(&done).iter().map(|l| l.1).fold(lowest, u64::min);
        }
        for flow in [0, 1].map(FlowId) {
            let (bytes, packets) = (second * 9000, second * 6);
            actions(&mut i, at, Event::FlowCounters(FlowCounters { flow, bytes, packets }));
        }
        let done = actions(&mut i, at, Event::Deadline);
        lowest = crate::testing::limits_of(&done).iter().map(|l| l.1).fold(lowest, u64::min);
    }
    assert_eq!(lowest, floor);
}

fn reports() -> impl Strategy<Value = FlowReport> {
    let sold = (any::<Option<u64>>(), any::<Option<u64>>());
    let known = (any::<Option<u32>>(), any::<Option<u32>>());
    let weight = prop_oneof![Just(1.0f32), 0.001f32..1000.0];
    let counted = (any::<u64>(), any::<u64>(), any::<Option<u64>>());
    let micros = || (0..u64::MAX / 1000).prop_map(Span::from_micros);
    let source = prop::sample::select(&RoundTripSource::ALL);
    let trip = prop::option::of((micros(), micros(), any::<u32>(), source));
    let signs = (any::<u32>(), trip, prop::option::of(micros()));
    (any::<u32>(), counted, weight, known, sold, any::<u32>(), signs).prop_map(
        |(flow, (bytes, packets, drops), weight, (hops, branch), (g, c), packet, signs)| {
            FlowReport {
                flow: FlowId(flow),
                bytes,
                packets,
                drops,
                weight,
                hops,
                branch: branch.map(NodeId),
                guarantee: g.map(BitRate),
                ceiling: c.map(BitRate),
                packet,
                queued: signs.0,
                trip: signs.1.map(|(median, base, count, source)| RoundTripSample {
                    median,
                    base,
                    count,
                    source,
                }),
                oldest: signs.2,
            }
        },
    )
}

fn headings() -> impl Strategy<Value = Heading> {
    let numbers = (any::<u64>(), 0..u64::MAX / 2, any::<u64>(), any::<u64>());
    (any::<u32>(), any::<u32>(), numbers).prop_map(
        |(from, leader, (run, sequence, sampled, version))| {
            let (from, leader) = (NodeId(from), NodeId(leader));
            Heading { from, leader, run, sequence, sampled, version }
        },
    )
}

proptest! {
    #[test]
    fn packed_reports_are_decoded(heading in headings(), all in prop::collection::vec(reports(), 0..120)) {
        let mut read = Vec::new();
        let mut next = heading.sequence;
        let end = PeerMessage::pack(heading, &Content::Report(all.clone()), |body| {
            assert!(body.len() <= message::MAX_MESSAGE_BYTES);
            let m = PeerMessage::decode(body).expect("a message");
            assert_eq!(m.heading, Heading { sequence: next, ..heading });
            next += 1;
            let Content::Report(part) = m.content else { panic!("{m:?}") };
            read.extend(part);
        });
        prop_assert_eq!(end, next);
        prop_assert_eq!(read, all);
    }

    #[test]
    fn invalid_messages_are_rejected_or_change_little(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
        let _ = PeerMessage::decode(&bytes);
        let content = Content::Limits(vec![
            FlowLimit { gateway: NodeId(3), flow: FlowId(700), rate: BitRate(123_456) }; 9
        ]);
        let mut whole = body(heading(1, 2, 3), &content);
        whole.truncate(cut);
        if let Some(m) = PeerMessage::decode(&whole) {
            // Cut between records it is a shorter message.
            let Content::Limits(all) = m.content else { panic!() };
            prop_assert!(all.len() <= 9 && all.iter().all(|l| l.rate.0 == 123_456));
        }
    }

    /// Whatever messages come, only own flows are limited, and never to 0.
    #[test]
    fn limits_stay_within_bounds_under_any_peer_messages(
        content in prop::collection::vec((headings(), prop::collection::vec(reports(), 0..5), any::<bool>()), 1..40),
    ) {
        let setting = Setting { node: NodeId(5), ..gateway(&[0, 1]) };
        let mut i = start("rtt+peers", setting);
        let mut now = Time::ZERO;
        for (n, (heading, reports, limits)) in content.into_iter().enumerate() {
            now += Span::from_millis(500);
            let heading = Heading { from: NodeId(heading.from.0 % 8), leader: NodeId(heading.leader.0 % 8), ..heading };
            let limit = |r: &FlowReport| FlowLimit { gateway: NodeId(5), flow: FlowId(r.flow.0 % 4), rate: BitRate(r.bytes.max(1)) };
            let content = match limits {
                true => Content::Limits(reports.iter().map(limit).collect()),
                false => Content::Report(reports),
            };
            let body = body(heading, &content);
            let mut done = actions(&mut i, now, Event::Message(Message { from: heading.from, body: &body }));
            let mut all: Vec<Action> = done.iter().copied().collect();
            for flow in [0, 1].map(FlowId) {
                let (bytes, packets) = (n as u64 * 1500, n as u64);
                actions(&mut i, now, Event::FlowCounters(FlowCounters { flow, bytes, packets }));
            }
            if i.control.next_deadline().is_some_and(|due| due <= now) {
                done = actions(&mut i, now, Event::Deadline);
                all.extend(done.iter().copied());
            }
            for action in all {
                if let Action::SetRate { class, rate } = action {
                    prop_assert!(matches!(class, Class::Flow(FlowId(0 | 1))), "{class}");
                    prop_assert!(rate.is_none_or(|r| r.0 > 0));
                }
            }
        }
    }
}

/// A restart that the host reports: messages are accepted although the run number is equal.
///
/// Counters and flows begin again.
#[test]
fn a_restarted_gateway_is_accepted_at_once_if_the_host_detects_it() {
    let mut w = world(&[&[0, 1], &[0, 1, 2, 3]], AIR);
    w.run(150);
    for who in [1, 0] {
        let flows: Vec<u32> = w.boxes[who].sent.keys().map(|f| f.0).collect();
        let setting = Setting { node: NodeId(who as u32), ..gateway(&flows) };
        w.boxes[who].instance = start("rtt+peers", setting);
        w.boxes[who].sent.values_mut().for_each(|sent| *sent = (0, 0));
        w.wire.clear();
        w.event(1 - who, Event::Restarted(NodeId(who as u32)));
        w.run(100);
        let rates = w.rates(60);
        assert!(least(&rates) > 0.85 * one_box(), "{who}: {rates:.0?}");
        assert_eq!(w.boxes[1].instance.control.follows(), Some(NodeId(0)));
        assert_eq!(w.boxes[0].instance.control.follows(), None);
    }
}
