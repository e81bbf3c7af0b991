use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::{TCP_PART, decode, encode};
use crate::testing::{limits_of, lookup, reasons_of};
use crate::{
    Action, Actions, Allocation, Channel, Class, Control, Counters, Event, FlowCounters, FlowHere,
    Instance, Leaf, Limit, Message, Neighbour, Offers, Place, Point, Sent, Setting, Site,
    StartError,
};

/// U*, in bit/s of IP: the throughput of a lone neighbour.
const CAPACITY: u64 = 1_000_000;

fn here(flow: u32, place: Place, hops: u32, fair: u64) -> FlowHere {
    // Application data and IP bytes are the same, for round numbers.
    FlowHere::new(FlowId(flow), place, 1500, 1500)
        .with_next_hop((place != Place::Sink).then_some(NodeId(0)))
        .with_fair(Some(BitRate(fair)))
        .with_hops(Some(hops))
}

fn setting(node: u32, flows: Vec<FlowHere>, neighbours: &[u32]) -> Setting {
    let link = |n: &u32| Neighbour::new(NodeId(*n), BitRate(2 * CAPACITY), BitRate(CAPACITY));
    let site =
        Site::new().with_gateway(node == 0).with_sources(node != 0).with_hops(Some(node.min(1)));
    Setting::new(NodeId(node), site, Stream::new(7, &format!("control/{node}")))
        .with_flows(flows)
        .with_neighbours(neighbours.iter().map(link))
}

fn try_start(
    name: &str,
    setting: Setting,
    parameters: &[(&str, f64)],
) -> Result<Option<Instance>, StartError> {
    let mut mechanism = lookup(name).unwrap();
    // The rates of the model are reached here.
    mechanism.set("efficiency", 1.0).unwrap();
    for (parameter, value) in parameters {
        mechanism.set(parameter, *value).unwrap();
    }
    let offers = Offers::everything("test");
    mechanism.start(setting, &offers)
}

fn start(name: &str, setting: Setting, parameters: &[(&str, f64)]) -> Instance {
    try_start(name, setting, parameters).unwrap().unwrap()
}

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// A gateway as in the fluid model: neighbours first, then the other nodes.
///
/// Flow i comes from neighbour i + 1; one more flow stands for all other nodes and costs twice the airtime.
struct Loop {
    gateway: Option<Box<dyn Control>>,
    nodes: Vec<Node>,
    now: Time,
    busy: f64,
    multi: f64,
    multi_bits: f64,
    demand: f64,
}

struct Node {
    control: Box<dyn Control>,
    limit: f64,
    bits: f64,
    /// Demand in bit/s.
    demand: f64,
    mean: f64,
}

const TICK: Span = Span::from_millis(5);

impl Loop {
    fn new(name: &str, neighbours: u32, fair: u64, parameters: &[(&str, f64)]) -> Self {
        let ids: Vec<u32> = (1..=neighbours).collect();
        let mut flows: Vec<FlowHere> =
            (0..neighbours).map(|f| here(f, Place::Sink, 1, fair)).collect();
        flows.push(here(neighbours, Place::Sink, 2, fair));
        let gateway = try_start(name, setting(0, flows, &ids), parameters).unwrap();
        let node = |n: u32| {
            let flows =
                vec![here(n - 1, Place::Source, 1, fair), here(9, Place::Forwarder, 2, fair)];
            let i = start(name, setting(n, flows, &[0]), parameters);
            assert_eq!(i.plan.point, Point::Local, "forwarded traffic is not limited");
            let [class] = i.plan.classes[..] else { panic!("one class") };
            assert_eq!((class.class, class.leaf), (Class::All, Leaf::DropTail { packets: 50 }));
            let Limit::Rate(rate) = class.limit else { panic!("a limit") };
            Node {
                control: i.control,
                limit: rate.0 as f64,
                bits: 0.0,
                demand: f64::INFINITY,
                mean: 0.0,
            }
        };
        Loop {
            gateway: gateway.map(|g| g.control),
            nodes: ids.into_iter().map(node).collect(),
            now: Time::ZERO,
            busy: 0.0,
            multi: 0.0,
            multi_bits: 0.0,
            demand: f64::INFINITY,
        }
    }

    /// Runs for some seconds; the mean rates are then in `mean` and `multi`.
    fn run(&mut self, seconds: u64) {
        let ticks = seconds * 1_000_000_000 / TICK.as_nanos();
        let (mut multi, capacity) = (0.0, CAPACITY as f64);
        let saturation = 0.9;
        for node in &mut self.nodes {
            node.mean = 0.0;
        }
        for _ in 0..ticks {
            self.now += TICK;
            let mut left = capacity;
            for node in &mut self.nodes {
                let rate = node.limit.min(node.demand).min(left);
                left -= rate;
                node.bits += rate * TICK.as_secs_f64();
                node.mean += rate / ticks as f64;
            }
            let rest = self.demand.min(left / 2.0);
            self.multi_bits += rest * TICK.as_secs_f64();
            multi += rest / ticks as f64;
            let used = 1.0 - (left - 2.0 * rest) / capacity;
            self.busy += saturation * used * TICK.as_secs_f64();
            self.serve();
        }
        self.multi = multi;
    }

    fn channel(&self) -> Channel {
        Channel {
            active: self.now.since(Time::ZERO),
            busy: Span::from_secs_f64(self.busy),
            receive: Span::ZERO,
            transmit: Span::ZERO,
        }
    }

    /// Runs the deadlines that are due, and their actions.
    fn serve(&mut self) {
        let (now, channel) = (self.now, self.channel());
        let mut actions = Actions::new();
        let mut bits = None;
        if let Some(gateway) = &mut self.gateway
            && gateway.next_deadline().is_some_and(|d| d <= now)
        {
            for (f, node) in self.nodes.iter().enumerate() {
                let bytes = (node.bits / 8.0) as u64;
                let c = FlowCounters { flow: FlowId(f as u32), bytes, packets: bytes / 1500 };
                gateway.on(now, &Event::FlowCounters(c), &mut actions);
            }
            let (f, bytes) = (self.nodes.len() as u32, (self.multi_bits / 8.0) as u64);
            let c = FlowCounters { flow: FlowId(f), bytes, packets: bytes / 1500 };
            gateway.on(now, &Event::FlowCounters(c), &mut actions);
            gateway.on(now, &Event::Channel(channel), &mut actions);
            gateway.on(now, &Event::Deadline, &mut actions);
            for action in actions.iter() {
                match action {
                    Action::Send { to: None, .. } => bits = Some(actions.body(action).to_vec()),
                    Action::AckBits { bits: b } => bits = Some(vec![*b]),
                    Action::Because(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        for node in &mut self.nodes {
            let mut actions = Actions::new();
            if let Some(body) = &bits {
                let message = Message { from: NodeId(0), body };
                node.control.on(now, &Event::Message(message), &mut actions);
            }
            if node.control.next_deadline().is_some_and(|d| d <= now) {
                let counters = Counters {
                    class: Class::All,
                    bytes: (node.bits / 8.0) as u64,
                    packets: 0,
                    drops: 0,
                    overlimits: 0,
                    queued_packets: u32::from(node.demand > node.limit),
                    queued_bytes: 0,
                };
                node.control.on(now, &Event::Counters(counters), &mut actions);
                node.control.on(now, &Event::Channel(channel), &mut actions);
                node.control.on(now, &Event::Deadline, &mut actions);
            }
            if let Some((class, rate)) = limits_of(&actions).pop() {
                assert_eq!(class, Class::All);
                node.limit = rate as f64;
            }
        }
    }

    fn means(&self) -> Vec<f64> {
        let all = self.nodes.iter().map(|n| n.mean).chain([self.multi]);
        all.map(|m| m / CAPACITY as f64).collect()
    }
}

/// Parameters of §VI.D: two neighbours and a two-hop node, a quarter of the capacity each.
///
/// A neighbour takes U* to be TCP's throughput over its link; here it is all of the link.
const ROBUSTNESS: &[(&str, f64)] = &[("gamma", 0.2), ("alpha", 0.01 / TCP_PART), ("beta", 0.9)];

fn near(values: &[f64], expected: &[f64], part: f64) {
    for (v, e) in values.iter().zip(expected) {
        assert!((v - e).abs() <= part * e, "{values:?}, expected {expected:?}");
    }
}

#[test]
fn the_numbers_of_a_model_are_those_of_the_mechanism() {
    use super::Numbers;
    let plain = Numbers::of(&lookup("pfrc").unwrap());
    assert_eq!((plain.gamma, plain.period, plain.efficiency), (0.1, 0.1, 0.8));
    let mut gap = lookup("gap+aggregate").unwrap();
    gap.set("gamma", 0.2).unwrap();
    gap.set("alpha", 0.05).unwrap();
    assert_eq!(Numbers::of(&gap), Numbers { gamma: 0.2, alpha: 0.05, ..plain });
}

#[test]
fn everyone_gets_its_share_when_all_are_backlogged() {
    for name in ["gap", "gap+aggregate", "gap+overhear"] {
        let mut l = Loop::new(name, 2, CAPACITY / 4, ROBUSTNESS);
        l.run(20);
        l.run(60);
        near(&l.means(), &[0.25, 0.25, 0.25], 0.05);
    }
}

#[test]
fn shares_survive_an_estimation_error_of_40_per_cent() {
    // Fig. 7(b).
    let parameters: Vec<(&str, f64)> = ROBUSTNESS.iter().copied().chain([("noise", 0.4)]).collect();
    let mut l = Loop::new("gap", 2, CAPACITY / 4, &parameters);
    l.run(20);
    l.run(100);
    near(&l.means(), &[0.25, 0.25, 0.25], 0.10);
}

#[test]
fn unused_capacity_is_used_up_to_the_threshold() {
    let mut l = Loop::new("gap", 2, CAPACITY / 4, ROBUSTNESS);
    l.demand = 0.0;
    l.run(60);
    l.run(60);
    // (1 − γ) U* for both, and there is no reason for a difference.
    near(&l.means(), &[0.4, 0.4, 0.0], 0.06);
    // Demand comes back through the signalling bandwidth, within seconds.
    l.demand = f64::INFINITY;
    l.run(5);
    l.run(5);
    near(&l.means(), &[0.25, 0.25, 0.25], 0.08);
}

#[test]
fn only_the_aggregate_variant_reuses_the_guarantee_of_an_idle_neighbour() {
    // §VI.E: with I_U alone the other neighbour stays at its own guarantee while multi-hop nodes
    // are backlogged; with I_S it gets the neighbours' unused guarantee.
    let mean = |name: &str| {
        let mut l = Loop::new(name, 2, CAPACITY / 4, ROBUSTNESS);
        l.run(20);
        l.nodes[0].demand = 0.0;
        l.run(60);
        l.run(60);
        l.means()
    };
    near(&mean("gap"), &[0.0, 0.25, 0.375], 0.06);
    near(&mean("gap+aggregate"), &[0.0, 0.5, 0.25], 0.06);
}

#[test]
fn a_neighbour_that_needs_little_is_left_alone() {
    let mut l = Loop::new("gap", 2, CAPACITY / 4, ROBUSTNESS);
    l.nodes[0].demand = 0.1 * CAPACITY as f64;
    l.run(30);
    l.run(60);
    near(&l.means(), &[0.1, 0.25, 0.325], 0.06);
}

/// Returns the actions of one update.
fn step(node: &mut Instance, at: u64, bytes: u64, waiting: u32, bit: Option<u8>) -> Actions {
    let mut actions = Actions::new();
    if let Some(bit) = bit {
        let message = Message { from: NodeId(0), body: &[bit] };
        node.control.on(ms(at), &Event::Message(message), &mut actions);
        assert_eq!(node.control.next_deadline(), Some(ms(at)), "updated at the first message");
    }
    let counters = Counters {
        class: Class::All,
        bytes,
        packets: 0,
        drops: 0,
        overlimits: 0,
        queued_packets: waiting,
        queued_bytes: 0,
    };
    node.control.on(ms(at), &Event::Counters(counters), &mut actions);
    node.control.on(ms(at), &Event::Deadline, &mut actions);
    actions
}

#[test]
fn algorithm_1_line_by_line() {
    let (low, high) = (encode(false, true), encode(true, true));
    // F = 250 kbit/s; 31,250 bytes in 100 ms are 2.5 Mbit/s, 2,500 bytes 200 kbit/s.
    let fresh = || {
        let flows = vec![here(1, Place::Source, 1, 250_000)];
        let mut node = start("gap", setting(1, flows, &[0]), &[("weight", 1.0)]);
        assert!(step(&mut node, 100, 0, 1, Some(low)).is_empty(), "nothing to compare with");
        node
    };
    let limit =
        |bytes, waiting, bit| limits_of(&step(&mut fresh(), 200, bytes, waiting, Some(bit)));
    let all = |rate| vec![(Class::All, rate)];
    assert_eq!(limit(2_500, 1, high), all(255_500), "T < F grows whatever the bit");
    assert_eq!(limit(2_500, 0, low), [], "but only on demand");
    assert_eq!(limit(31_250, 1, low), all(255_500), "T > F grows on a low bit");
    assert_eq!(limit(31_250, 0, low), [], "but only on demand");
    assert_eq!(limit(31_250, 1, high), all(225_000), "T > F gives way on a high bit");
    assert_eq!(limit(2_500, 0, high), [], "T < F does not");
    let mut node = fresh();
    let why = reasons_of(&step(&mut node, 200, 31_250, 1, Some(high)));
    assert_eq!(
        why,
        ["the gateway is in use, 2.5 Mbit/s pass, 250 kbit/s are guaranteed: down to 225 kbit/s"]
    );
}

#[test]
fn i_s_stands_beside_i_u() {
    let flows = vec![here(1, Place::Source, 1, 250_000)];
    let mut node = start("gap", setting(1, flows, &[0]), &[("weight", 1.0)]);
    step(&mut node, 100, 0, 1, Some(encode(true, true)));
    let up = step(&mut node, 200, 31_250, 1, Some(encode(true, false)));
    assert_eq!(limits_of(&up), [(Class::All, 255_500)], "neighbours together have too little");
}

#[test]
fn without_messages_a_neighbour_returns_to_its_guarantee() {
    let flows = vec![here(1, Place::Source, 1, 250_000)];
    let mut node = start("gap", setting(1, flows, &[0]), &[("weight", 1.0)]);
    let low = encode(false, true);
    for n in 1..=5 {
        step(&mut node, 100 * n, 31_250 * n, 1, Some(low));
    }
    // Four increases from the guarantee; then the gateway sends nothing more.
    let quiet = step(&mut node, 700, 200_000, 1, None);
    assert!(quiet.is_empty());
    let actions = step(&mut node, 1_500, 300_000, 1, None);
    assert_eq!(limits_of(&actions), [(Class::All, 250_000)]);
    assert!(step(&mut node, 1_700, 350_000, 1, None).is_empty());
    let back = step(&mut node, 1_800, 400_000, 1, Some(low));
    assert_eq!(limits_of(&back), [(Class::All, 255_500)], "and resumes at the next message");
}

#[test]
fn the_guarantee_is_the_smallest_rate_ever_allocated() {
    let flows = vec![here(1, Place::Source, 1, 250_000)];
    let mut node = start("gap", setting(1, flows, &[0]), &[("weight", 1.0)]);
    let mut actions = Actions::new();
    for rate in [500_000, 100_000, 0, 400_000] {
        let allocation = Allocation { flow: FlowId(1), rate: BitRate(rate) };
        node.control.on(ms(1), &Event::Allocation(allocation), &mut actions);
    }
    let high = encode(true, true);
    step(&mut node, 100, 0, 1, Some(high));
    // 2,500 bytes in 100 ms are 200 kbit/s: above 100.
    assert_eq!(limits_of(&step(&mut node, 200, 2_500, 1, Some(high))), [(Class::All, 225_000)]);
}

#[test]
fn guarantees_may_fill_the_link_and_no_more() {
    let refused = |promised: u64| {
        let flow = here(1, Place::Source, 1, 250_000).with_guarantee(Some(BitRate(promised)));
        try_start("gap", setting(1, vec![flow], &[0]), &[]).err().map(|e| e.to_string())
    };
    assert_eq!(refused(CAPACITY), None);
    let why = refused(CAPACITY + 1).expect("more than the link carries");
    assert!(why.contains("guarantee"), "{why}");
}

#[test]
fn an_allocation_counts_as_a_whole() {
    // Rates change one after the other: half of the airtime moves from one flow to the other.
    let flows = vec![here(0, Place::Sink, 1, 900_000), here(1, Place::Sink, 1, 100_000)];
    let mut gateway = start("gap", setting(0, flows, &[1, 2]), &[("weight", 1.0), ("gamma", 0.1)]);
    let mut high = Vec::new();
    for n in 1..=8u64 {
        let mut actions = Actions::new();
        if n == 2 {
            for (flow, rate) in [(1, 900_000), (0, 100_000)] {
                let allocation = Allocation { flow: FlowId(flow), rate: BitRate(rate) };
                gateway.control.on(ms(25 * n), &Event::Allocation(allocation), &mut actions);
            }
        }
        // 950 kbit/s pass: above 90 % of 1 Mbit/s, far below 90 % of 1.8.
        let bytes = 950_000 / 8 * 25 * n / 1_000;
        let passed = FlowCounters { flow: FlowId(0), bytes, packets: n };
        let active = Span::from_millis(25 * n);
        let (receive, transmit) = (Span::ZERO, Span::ZERO);
        let channel = Channel { active, busy: Span::from_millis(2 * n), receive, transmit };
        gateway.control.on(ms(25 * n), &Event::FlowCounters(passed), &mut actions);
        gateway.control.on(ms(25 * n), &Event::Channel(channel), &mut actions);
        gateway.control.on(ms(25 * n), &Event::Deadline, &mut actions);
        let sent = actions.iter().find(|a| matches!(a, Action::Send { .. }));
        high.extend(sent.and_then(|a| decode(actions.body(a))).map(|bits| bits.0));
    }
    assert_eq!(high, [true, true]);
}

#[test]
fn acknowledgements_carry_the_bit_only_when_it_changes() {
    let flows = vec![here(0, Place::Sink, 1, 100_000)];
    let mut gateway = start("gap+ack", setting(0, flows, &[1, 2]), &[("weight", 1.0)]);
    let mut sent = Vec::new();
    for n in 1..=12u64 {
        let busy = if n <= 8 { 25 * n } else { 200 };
        let channel = Channel {
            active: Span::from_millis(25 * n),
            busy: Span::from_millis(busy),
            receive: Span::ZERO,
            transmit: Span::ZERO,
        };
        let mut actions = Actions::new();
        gateway.control.on(ms(25 * n), &Event::Channel(channel), &mut actions);
        gateway.control.on(ms(25 * n), &Event::Deadline, &mut actions);
        sent.extend(actions.iter().filter_map(|a| match a {
            Action::AckBits { bits } => Some((25 * n, decode(&[*bits]).unwrap())),
            _ => None,
        }));
    }
    assert_eq!(sent, [(100, (true, true)), (300, (false, true))]);
    // The other end: with its own period, from the bits of the last acknowledgements.
    let flows = vec![here(1, Place::Source, 1, 250_000)];
    let mut node = start("gap+ack", setting(1, flows, &[0]), &[("weight", 1.0)]);
    let frame = Sent {
        to: Some(NodeId(0)),
        flow: Some(FlowId(1)),
        ack: false,
        bytes: 1500,
        airtime: Span::from_millis(2),
        backoff: Span::ZERO,
        attempts: 1,
        rate: BitRate(11_000_000),
        delivered: true,
        ack_bits: Some(encode(true, true)),
    };
    step(&mut node, 100, 0, 1, None);
    node.control.on(ms(150), &Event::Sent(frame), &mut Actions::new());
    assert_eq!(limits_of(&step(&mut node, 200, 31_250, 1, None)), [(Class::All, 225_000)]);
    assert_eq!(limits_of(&step(&mut node, 300, 62_500, 1, None)), [], "no new message");
}

#[test]
fn a_gateway_without_survey_sends_no_signal() {
    let flows = vec![here(0, Place::Sink, 1, 100_000)];
    let mut gateway = start("gap", setting(0, flows, &[1, 2]), &[]);
    let mut sent = Vec::new();
    for n in 1..=80u64 {
        let now = ms(25 * n);
        // Its survey sticks after half a second, while data passes.
        let shown = (25 * n).min(500);
        let channel = Channel {
            active: Span::from_millis(25 * n),
            busy: Span::from_millis(shown),
            receive: Span::ZERO,
            transmit: Span::ZERO,
        };
        let mut actions = Actions::new();
        let passed = FlowCounters { flow: FlowId(0), bytes: 1500 * n, packets: n };
        gateway.control.on(now, &Event::FlowCounters(passed), &mut actions);
        gateway.control.on(now, &Event::Channel(channel), &mut actions);
        gateway.control.on(now, &Event::Deadline, &mut actions);
        if actions.iter().any(|a| matches!(a, Action::Send { .. })) {
            sent.push(25 * n);
        }
        if reasons_of(&actions).iter().any(|r| r.starts_with("the survey has had no value")) {
            assert_eq!(25 * n, 1_500, "ten updates after the last sound sample");
        }
    }
    assert_eq!(sent.last(), Some(&1_400));
}

#[test]
fn impossible_settings_are_refused() {
    let refused = |setting, parameters: &[(&str, f64)]| {
        try_start("gap", setting, parameters).unwrap_err().to_string()
    };
    let gateway = || setting(0, vec![here(0, Place::Sink, 1, 100_000)], &[1, 2]);
    assert_eq!(
        refused(gateway(), &[("guarantee", 600.0), ("gamma", 0.5)]),
        "gap: gamma must be at most 0.400, what the guarantees leave of the gateway, not 0.5"
    );
    assert_eq!(
        refused(gateway(), &[("guarantee", 1_200.0)]),
        "gap: guarantees add up to 1.2 Mbit/s; the links of this gateway are only sure to carry 1 \
         Mbit/s"
    );
    assert_eq!(refused(setting(0, vec![], &[]), &[]), "gap: the gateway has no neighbour");
    // Together, which only the gateway can check.
    let many = || (0..4).map(|f| here(f, Place::Sink, 1, 100_000)).collect::<Vec<_>>();
    let sum = refused(setting(0, many(), &[1, 2, 3, 4]), &[("guarantee", 400.0)]);
    assert!(sum.contains("add up to 1.6 Mbit/s"), "{sum}");
    let gamma = refused(setting(0, many(), &[1, 2, 3, 4]), &[("guarantee", 230.0)]);
    assert!(gamma.contains("at most 0.080"), "{gamma}");
    let each = many().into_iter().map(|f| FlowHere { guarantee: Some(BitRate(300_000)), ..f });
    let sum = refused(setting(0, each.collect(), &[1, 2, 3, 4]), &[]);
    assert!(sum.contains("add up to 1.2 Mbit/s"), "{sum}");
    let mut promised = here(1, Place::Source, 1, 100_000);
    promised.guarantee = Some(BitRate(2 * CAPACITY));
    assert!(
        refused(setting(1, vec![promised], &[0]), &[]).contains("guarantees add up to 2 Mbit/s")
    );
    // A node does not know the others, but the capacity left beside its own guarantee.
    let lone = setting(1, vec![here(1, Place::Source, 1, 100_000)], &[0]);
    let gamma = refused(lone, &[("guarantee", 600.0), ("gamma", 0.5)]);
    assert!(gamma.contains("gamma must be at most 0.400"), "{gamma}");
    let mut parameters = lookup("gap").unwrap();
    assert!(
        parameters.set("gamma", f64::NAN).is_err() && parameters.set("saturation", 1.1).is_err()
    );
}

#[test]
fn only_its_own_messages_count() {
    for used in [false, true] {
        for single in [false, true] {
            assert_eq!(decode(&[encode(used, single)]), Some((used, single)));
        }
    }
    for junk in [&[][..], &[0], &[1], &[0x51, 0], &[0xff], &[0x54]] {
        assert_eq!(decode(junk), None, "{junk:?}");
    }
}

/// A node that estimates by itself, with surveys that carry no information.
#[test]
fn a_stuck_survey_leaves_an_overhearing_neighbour_its_guarantee() {
    let flows = vec![here(0, Place::Source, 1, 400_000)];
    let mut node = start("gap+overhear", setting(1, flows, &[0]), &[]);
    let mut limits = Vec::new();
    let mut reasons = Vec::new();
    for k in 1..60u64 {
        let mut actions = Actions::new();
        // The radio's time stands still after a second.
        let time = Span::from_millis(100 * k.min(10));
        let busy = Span::from_millis(20 * k.min(10));
        let survey = Channel { active: time, busy, receive: busy, transmit: Span::ZERO };
        let counters = Counters {
            class: Class::All,
            bytes: 12_500 * k,
            packets: 9 * k,
            drops: 0,
            overlimits: 0,
            queued_packets: 5,
            queued_bytes: 5000,
        };
        node.control.on(ms(100 * k), &Event::Channel(survey), &mut actions);
        node.control.on(ms(100 * k), &Event::Counters(counters), &mut actions);
        node.control.on(ms(100 * k), &Event::Deadline, &mut actions);
        limits.extend(limits_of(&actions).iter().map(|l| l.1));
        reasons.extend(reasons_of(&actions));
    }
    assert!(limits.iter().any(|l| *l > 400_000), "below the threshold it may have more");
    assert_eq!(limits.last(), Some(&400_000));
    assert!(reasons.last().unwrap().contains("nothing received from the gateway"), "{reasons:?}");
}

/// A slower link bounds the limit, but not below the guarantee; a faster one leaves it.
#[test]
fn a_changed_link_leaves_the_guarantee() {
    let flows = vec![here(0, Place::Source, 1, 0)];
    let parameters = [("guarantee", 500.0)];
    let mut node = start("gap", setting(1, flows, &[0]), &parameters);
    let mut on = |capacity: u64| {
        let link = [Neighbour::new(NodeId(0), BitRate(2 * capacity), BitRate(capacity))];
        let mut actions = Actions::new();
        node.control.on(ms(100), &Event::Neighbours(&link), &mut actions);
        let rate = |a: &Action| match *a {
            Action::SetRate { rate, .. } => rate.map(|r| r.0),
            _ => None,
        };
        actions.iter().find_map(rate)
    };
    assert_eq!(on(100_000), None, "the limit is the guarantee");
    assert_eq!(on(50_000_000), None);
    assert_eq!(on(600_000), None);
}
