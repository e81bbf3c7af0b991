use fairmesh_units::{NodeId, Stream, Time};
use proptest::prelude::*;

use super::*;
use crate::testing::{flow, gateway, limits_of, reasons_of, start};
use crate::{
    Action, Channel, Counters, FlowCounters, PathSigns, RoundTripSample, RoundTripSource, Site,
};

/// Samples of a home in a control period.
#[derive(Clone, Copy, Debug)]
struct HomeSamples {
    /// Part of the limit that passed.
    used: f64,
    /// Part of the limit that its class dropped.
    dropped: f64,
    queued: u32,
    /// Median and minimum round trip, in ms.
    trip: Option<(u64, u64)>,
    oldest: Option<u64>,
}

/// A home that sends all it may over a mesh with this delay.
fn busy(delay: u64) -> HomeSamples {
    HomeSamples {
        used: 1.0,
        dropped: 0.0,
        queued: 5,
        trip: Some((20 + delay, 20)),
        oldest: Some(20 + delay),
    }
}

/// Gateway with two links of 900 kbit/s: the level starts at 150 kbit/s for all.
struct Bench {
    instance: Instance,
    now: Time,
    bytes: Vec<u64>,
    drops: Vec<u64>,
    channel: Channel,
    reasons: Vec<String>,
    /// bit/s, by flow.
    limits: Vec<u64>,
}

impl Bench {
    fn new(flows: &[u32]) -> Bench {
        let instance = start("rtt", gateway(flows));
        let limit = |c: &ClassPlan| match c.limit {
            Limit::Rate(rate) => rate.0,
            _ => panic!("{c:?}"),
        };
        let limits = instance.plan.classes.iter().map(limit).collect();
        let none = Span::ZERO;
        let channel = Channel { active: none, busy: none, receive: none, transmit: none };
        let bytes = vec![0; flows.len()];
        let drops = bytes.clone();
        Bench { instance, now: Time::ZERO, bytes, drops, channel, reasons: Vec::new(), limits }
    }

    /// Runs a second with these samples of the homes.
    ///
    /// `idle` is the idle fraction of the air, if it is known.
    fn second(&mut self, seen: &[HomeSamples], idle: Option<f64>) {
        self.now += Span::from_secs(1);
        let mut actions = Actions::new();
        let control = &mut self.instance.control;
        for (k, seen) in seen.iter().enumerate() {
            let flow = FlowId(k as u32);
            self.bytes[k] += (seen.used * self.limits[k] as f64 / 8.0) as u64;
            self.drops[k] += (seen.dropped * self.limits[k] as f64 / 12_000.0) as u64;
            let drops = self.drops[k];
            let (bytes, packets) = (self.bytes[k], self.bytes[k] / 1500);
            let counters = Counters {
                class: Class::Flow(flow),
                bytes,
                packets,
                drops,
                overlimits: 0,
                queued_packets: seen.queued,
                queued_bytes: u64::from(seen.queued) * 1500,
            };
            control.on(self.now, &Event::Counters(counters), &mut actions);
            let counters = FlowCounters { flow, bytes, packets };
            control.on(self.now, &Event::FlowCounters(counters), &mut actions);
            let ms = Span::from_millis;
            let trip = seen.trip.map(|(median, base)| RoundTripSample {
                median: ms(median),
                base: ms(base),
                count: 10,
                source: RoundTripSource::Tcp,
            });
            let signs = PathSigns::new(flow).with_trips(trip, seen.oldest.map(ms));
            control.on(self.now, &Event::PathSigns(signs), &mut actions);
        }
        if let Some(idle) = idle {
            self.channel.active += Span::from_secs(1);
            self.channel.busy += Span::from_secs_f64(1.0 - idle);
            control.on(self.now, &Event::Channel(self.channel), &mut actions);
        }
        control.on(self.now, &Event::Deadline, &mut actions);
        self.reasons.extend(reasons_of(&actions));
        for (class, rate) in limits_of(&actions) {
            let Class::Flow(flow) = class else { panic!("{class}") };
            self.limits[flow.index()] = rate;
        }
    }

    fn seconds(&mut self, count: usize, seen: &[HomeSamples]) {
        (0..count).for_each(|_| self.second(seen, None));
    }
}

#[test]
fn all_homes_have_one_rate_by_weight_and_plan() {
    let mut setting = gateway(&[0, 1, 2]);
    setting.flows[1].weight = 2.0;
    setting.flows[2].ceiling = Some(BitRate(20_000));
    let instance = start("rtt", setting);
    let limits: Vec<Limit> = instance.plan.classes.iter().map(|c| c.limit).collect();
    // 900 kbit/s over 6, for a weight of 4.
    let rates = [37_500, 75_000, 20_000].map(|r| Limit::Rate(BitRate(r)));
    assert_eq!(limits, rates);
}

#[test]
fn the_level_rises_to_the_edge_and_rests_there() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(30, &[busy(0); 2]);
    let empty = b.limits[0];
    assert!(empty > 2 * 75_000, "{:?}", b.limits);
    // 12 packets of 900 kbit/s and 8 times 20 ms are more than the longest delay: 300 ms.
    b.seconds(20, &[busy(300), busy(200)]);
    let edge = b.limits[0];
    b.seconds(20, &[busy(300), busy(200)]);
    assert!((0.97..1.03).contains(&(b.limits[0] as f64 / edge as f64)), "{edge} {:?}", b.limits);
    assert_eq!(b.limits[0], b.limits[1], "one level");
    b.seconds(10, &[busy(900), busy(600)]);
    assert!(b.limits[0] < edge * 8 / 10, "{edge} {:?}", b.limits);
    assert!(b.reasons.iter().any(|r| r.contains("flow 0 has")), "{:?}", b.reasons);
}

#[test]
fn the_level_rises_fast_until_a_way_is_half_full_for_the_first_time() {
    let mut b = Bench::new(&[0, 1]);
    let grown = |b: &mut Bench| {
        let before = b.limits[0] as f64;
        b.seconds(5, &[busy(0); 2]);
        b.limits[0] as f64 / before
    };
    b.seconds(1, &[busy(0); 2]);
    let fast = grown(&mut b);
    b.seconds(10, &[busy(200); 2]);
    b.seconds(1, &[busy(0); 2]);
    let slow = grown(&mut b);
    assert!(fast > 1.6 && slow < 1.25, "{fast} {slow}");
}

#[test]
fn a_home_whose_way_has_room_gets_more_unless_the_others_pay_for_it() {
    let mut b = Bench::new(&[0, 1, 2]);
    let [full, room] = [busy(300), busy(10)];
    b.seconds(80, &[full, full, room]);
    let raised = b.limits[2] as f64 / b.limits[0] as f64;
    assert!(raised > 1.5, "{:?}", b.limits);
    assert_eq!(b.limits[0], b.limits[1]);
    assert!(b.reasons.iter().any(|r| r.contains("on paths with free capacity")), "{:?}", b.reasons);
    // Its path fills up: it has another bottleneck now, or the same.
    b.seconds(200, &[full, full, full]);
    assert!((b.limits[2] as f64 / b.limits[0] as f64 - 1.0).abs() < 0.005, "{:?}", b.limits);
    // The delay of the others grows with the rate of the third.
    let mut b = Bench::new(&[0, 1, 2]);
    for _ in 0..240 {
        let more = b.limits[2] as f64 / b.limits[0] as f64 - 1.0;
        let full = busy(300 + (1500.0 * more) as u64);
        b.second(&[full, full, room], None);
    }
    assert!(b.reasons.iter().any(|r| r.contains("had less for it")), "{:?}", b.reasons);
    assert!(b.limits[2] as f64 <= 1.26 * b.limits[0] as f64, "{:?}", b.limits);
}

#[test]
fn a_newcomer_does_not_change_which_step_is_undone() {
    let mut homes: Vec<Home> = [3, 5].map(|f| Home::new(FlowId(f), &tuning::SHIPPED)).into();
    for home in &mut homes {
        (home.class, home.active, home.held_part, home.mean) = (true, 1.0, 1.0, 1.0);
    }
    homes[1].mean = 0.1;
    let mut raise = Raise::new(&tuning::SHIPPED);
    let mut period = |level: f64, homes: &mut [Home]| raise.look(20.0, level, homes);
    assert_eq!(period(1e6, &mut homes), None, "the number of active homes is not known yet");
    assert_eq!(period(1e6, &mut homes), Some(Outcome::Raised));
    homes.insert(0, Home::new(FlowId(1), &tuning::SHIPPED));
    assert_eq!(period(0.9e6, &mut homes), Some(Outcome::Undone));
    assert_eq!(homes.iter().map(|h| h.raised).collect::<Vec<_>>(), [1.0; 3]);
}

#[test]
fn a_home_that_loses_half_of_its_packets_for_long_is_a_flood_and_lowers_nobody() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(30, &[busy(0); 2]);
    let before = b.limits[1];
    let flood = HomeSamples { dropped: 2.0, ..busy(0) };
    b.seconds(7, &[flood, busy(0)]);
    assert!(!b.reasons.iter().any(|r| r.contains("is a flood")), "{:?}", b.reasons);
    b.seconds(2, &[flood, busy(0)]);
    assert!(b.reasons.iter().any(|r| r.contains("flow 0 is a flood")), "{:?}", b.reasons);
    let named = b.limits[1];
    assert!(named >= before);
    b.seconds(60, &[HomeSamples { trip: Some((9_000, 20)), ..flood }, busy(900)]);
    assert_eq!(b.limits[1], named);
    b.seconds(20, &[busy(0); 2]);
    assert!(
        b.reasons.iter().any(|r| r.contains("flow 0 is not a flood any more")),
        "{:?}",
        b.reasons
    );
}

#[test]
fn topology_gives_multiples_of_the_level() {
    let mut setting = gateway(&[0, 1]);
    setting.flows[0].fair = Some(BitRate(300_000));
    setting.flows[1].fair = Some(BitRate(100_000));
    let mut instance = start("rtt+topology", setting);
    let limit = |c: &ClassPlan| c.limit;
    let limits: Vec<Limit> = instance.plan.classes.iter().map(limit).collect();
    // 900 kbit/s over 6, in four parts.
    assert_eq!(limits, [112_500, 37_500].map(|r| Limit::Rate(BitRate(r))));
    let fair = Event::Allocation(crate::Allocation { flow: FlowId(0), rate: BitRate(100_000) });
    let mut actions = Actions::new();
    instance.control.on(Time::ZERO, &fair, &mut actions);
    instance.control.on(Time::ZERO + Span::from_secs(1), &Event::Deadline, &mut actions);
    instance.control.on(Time::ZERO + Span::from_secs(2), &Event::Deadline, &mut actions);
    let limits: Vec<u64> = limits_of(&actions).iter().map(|l| l.1).collect();
    assert_eq!(limits[0], limits[1], "one level");
}

#[test]
fn a_home_that_uses_less_leaves_the_rest_to_others_at_once() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(20, &[busy(290); 2]);
    let both = b.limits[0];
    let quiet = HomeSamples { used: 0.0, dropped: 0.0, queued: 0, trip: None, oldest: None };
    b.seconds(30, &[busy(290), quiet]);
    assert!(b.limits[0] as f64 > 1.7 * both as f64, "{both} {:?}", b.limits);
}

#[test]
fn without_round_trips_nothing_is_raised() {
    let mut b = Bench::new(&[0, 1]);
    let blind = HomeSamples { trip: None, oldest: None, ..busy(0) };
    b.seconds(10, &[blind; 2]);
    let before = b.limits.clone();
    b.seconds(60, &[blind; 2]);
    assert_eq!(b.limits, before);
    let blind = b.reasons.iter().filter(|r| r.contains("no round trip is known"));
    assert_eq!(blind.count(), 1, "{:?}", b.reasons);
}

#[test]
fn nothing_is_raised_while_a_packet_is_late_unless_its_class_is_full() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(20, &[busy(290); 2]);
    let before = b.limits[0];
    // Waits in its own class: not starving, whatever its oldest packet does.
    b.seconds(5, &[HomeSamples { oldest: Some(5_000), ..busy(290) }, busy(290)]);
    assert!(b.limits[0] as f64 > 0.95 * before as f64, "{before} {:?}", b.limits);
    // Half of its limit passes and a packet waits: the others get no more. Then it is answered, and they do.
    let stalled = HomeSamples {
        used: 0.6,
        dropped: 0.0,
        queued: 0,
        trip: Some((20, 20)),
        oldest: Some(1_500),
    };
    b.seconds(20, &[stalled, busy(0)]);
    let before = b.limits[1];
    b.seconds(20, &[stalled, busy(0)]);
    assert_eq!(b.limits[1], before);
    b.seconds(20, &[busy(0); 2]);
    assert!(b.limits[1] > before, "{before} {:?}", b.limits);
    // A missing answer limits the others for a minute at most.
    let before = b.limits[1];
    b.seconds(20, &[HomeSamples { oldest: Some(70_000), ..stalled }, busy(0)]);
    assert!(b.limits[1] > before, "{before} {:?}", b.limits);
}

#[test]
fn a_reduction_that_does_not_help_is_undone() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(30, &[busy(0); 2]);
    let before = b.limits[0];
    // A delay that does not answer to the level: another network's queue.
    b.seconds(60, &[busy(2_000); 2]);
    assert!(b.reasons.iter().any(|r| r.contains("has not made the delay shorter")));
    assert!(b.limits[0] as f64 > 0.85 * before as f64, "{before} {:?}", b.limits);
}

#[test]
fn no_neighbour_and_impossible_plans_are_refused() {
    let site = Site::new().with_gateway(true).with_hops(Some(0));
    let alone = Setting::new(NodeId(0), site, Stream::new(1, "x")).with_flows([flow(0)]);
    let offers = crate::Offers::everything("test");
    assert!(crate::testing::lookup("rtt").unwrap().start(alone, &offers).is_err());
    let mut setting = gateway(&[0]);
    setting.flows[0].guarantee = Some(BitRate(800_000));
    assert!(crate::testing::lookup("rtt").unwrap().start(setting, &offers).is_err());
}

fn seen() -> impl Strategy<Value = HomeSamples> {
    (
        prop_oneof![Just(0.0), 0.0..1.2f64, Just(50.0)],
        0.0..5.0f64,
        0u32..30,
        proptest::option::of((1u64..20_000, 1u64..2_000)),
        proptest::option::of(0u64..100_000),
    )
        .prop_map(|(used, dropped, queued, trip, oldest)| {
            let trip = trip.map(|(median, base)| (median.max(base), base));
            HomeSamples { used, dropped, queued, trip, oldest }
        })
}

proptest! {
    /// For any samples, limits stay within bounds.
    ///
    /// These are a 36th of the slowest link for all, and the capacity of the neighbours' links.
    #[test]
    fn limits_stay_within_bounds(looks in proptest::collection::vec((seen(), seen(), proptest::option::of(0.0..1.0f64)), 1..120)) {
        let mut b = Bench::new(&[0, 1]);
        for (one, two, idle) in looks {
            b.second(&[one, two], idle);
            for limit in &b.limits {
                prop_assert!((900_000 / 72 - 1..=900_000).contains(limit), "{:?}", b.limits);
            }
        }
    }

    /// While three quarters of the gateway's air are idle, the total rate does not fall.
    #[test]
    fn nothing_is_lowered_while_the_air_is_idle(
        before in proptest::collection::vec(seen(), 1..40),
        delays in proptest::collection::vec(0u64..5_000, 1..40),
    ) {
        let mut b = Bench::new(&[0]);
        for one in before {
            b.second(&[one], None);
        }
        b.second(&[busy(0)], Some(0.8));
        b.second(&[busy(0)], Some(0.8));
        let mut learned = b.instance.control.learned().unwrap();
        for delay in delays {
            b.second(&[busy(delay)], Some(0.8));
            let now = b.instance.control.learned().unwrap();
            prop_assert!(now >= learned, "{learned:?} {now:?}");
            learned = now;
        }
    }
}

#[test]
fn newcomers_get_a_class_and_the_gone_lose_theirs() {
    let mut b = Bench::new(&[0]);
    let mut actions = Actions::new();
    b.instance.control.on(Time::ZERO, &Event::FlowSeen(flow(1)), &mut actions);
    assert_eq!(limits_of(&actions).len(), 1);
    actions.clear();
    b.instance.control.on(Time::ZERO, &Event::FlowGone(FlowId(1)), &mut actions);
    assert!(actions.iter().any(|a| *a == Action::Remove { class: Class::Flow(FlowId(1)) }));
}

/// Operators see that the search is in progress, its duration, and the bound of the level.
#[test]
fn the_state_is_learning_until_a_home_is_half_full() {
    let mut bench = Bench::new(&[0]);
    let at = |s| Time::ZERO + Span::from_secs(s);
    assert_eq!(bench.instance.control.progress(), None, "before the first look");
    for _ in 0..5 {
        bench.second(&[busy(0)], None);
    }
    let progress = bench.instance.control.progress().unwrap();
    assert_eq!((progress.learning, progress.since), (true, at(1)));
    assert_eq!(progress.bound.map(|b| b.code), Some("rtt.level"));
    bench.second(&[busy(400)], None);
    bench.second(&[busy(400)], None);
    let progress = bench.instance.control.progress().unwrap();
    assert_eq!((progress.learning, progress.since), (false, at(6)));
    bench.second(&[HomeSamples { trip: None, oldest: Some(9000), queued: 0, ..busy(0) }], None);
    let later = bench.instance.control.progress().unwrap();
    assert_eq!((later.learning, later.since), (false, at(6)), "found once is found");
}

/// Samples of homes that carry these rates in kbit/s regardless of their limits.
fn unlimited(b: &Bench, kbit: &[f64]) -> Vec<HomeSamples> {
    let seen = |(k, rate): (usize, &f64)| HomeSamples {
        used: 1e3 * rate / b.limits[k] as f64,
        queued: 0,
        ..busy(900)
    };
    kbit.iter().enumerate().map(seen).collect()
}

#[test]
fn limits_begin_with_what_homes_carried_on_average_without_them() {
    let mut b = Bench::new(&[0, 1, 2]);
    let carried = [300.0, 150.0, 60.0];
    for _ in 0..30 {
        let seen = unlimited(&b, &carried);
        b.second(&seen, None);
    }
    let progress = b.instance.control.progress().unwrap();
    assert_eq!(progress.bound.map(|b| b.code), Some("rtt.unlimited"));
    assert!(progress.learning, "nothing shows what the mesh carries under limits");
    assert!((0..3).all(|f| !b.instance.control.floods(FlowId(f))), "no limit, no flood");
    assert!(b.limits.iter().all(|l| (165_000..175_000).contains(l)), "{:?}", b.limits);
    // In force: the delay of the mesh takes some seconds to go.
    for _ in 0..5 {
        let before = b.limits[0] as f64;
        b.second(&[busy(900); 3], None);
        assert!(b.limits[0] as f64 > 0.88 * before, "{before} {:?}", b.limits);
    }
    assert!(b.limits[2] > 60_000 && b.limits[1] > 90_000, "{:?}", b.limits);
    assert!(b.reasons.iter().any(|r| r.contains("limits are not in force")), "{:?}", b.reasons);
}

#[test]
fn a_report_that_comes_late_does_not_count_as_unlimited() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(10, &[busy(300); 2]);
    let before = b.limits[0];
    // The counters of two seconds at once, as another gateway's may come.
    let now = b.now + Span::from_secs(1);
    b.instance.control.on(now, &Event::Deadline, &mut Actions::new());
    b.now = now;
    b.second(&[HomeSamples { used: 2.0, queued: 0, ..busy(300) }; 2], None);
    assert!(b.limits[0] <= before + before / 10, "{before} {:?}", b.limits);
    assert!(!b.reasons.iter().any(|r| r.contains("not in force")), "{:?}", b.reasons);
}

/// Each doubling of a late packet's age lowers the others once.
///
/// Withheld answers lower them by less than half.
#[test]
fn each_retry_that_fails_lowers_the_level_once() {
    let mut b = Bench::new(&[0, 1]);
    b.seconds(20, &[busy(290); 2]);
    let stalled = |age| HomeSamples { used: 0.6, queued: 0, oldest: Some(age), ..busy(290) };
    let before = b.limits[1] as f64;
    // 0.4 s after the least round trip: the first one.
    b.seconds(1, &[stalled(430), busy(290)]);
    let first = b.limits[1] as f64;
    assert!((0.92..0.96).contains(&(first / before)), "{before} {:?}", b.limits);
    b.seconds(5, &[stalled(430), busy(290)]);
    assert!(b.limits[1] as f64 > 0.97 * first, "{first} {:?}", b.limits);
    b.seconds(1, &[stalled(840), busy(290)]);
    assert!((b.limits[1] as f64) < 0.96 * first, "{first} {:?}", b.limits);
    // A minute without any answer.
    (1..60).for_each(|age| b.second(&[stalled(1_000 * age), busy(290)], None));
    assert!(b.limits[1] as f64 > 0.55 * before, "{before} {:?}", b.limits);
}

#[test]
fn a_study_can_set_each_constant() {
    for (name, value) in rtt_constants() {
        let moved = Tuning::with(&[(name, 2.0 * value)]).unwrap();
        let differs = format!("{moved:?}") != format!("{:?}", tuning::SHIPPED);
        assert!(differs && value > 0.0, "{name}: {value}");
        assert_eq!(Tuning::with(&[(name, value)]), Some(tuning::SHIPPED));
    }
    assert!(rtt_constants().len() <= 18, "with the packet and TCP's timeout they are 20");
    assert!(Tuning::with(&[("none", 2.0)]).is_none());
    let limits = |definition: Definition| {
        let mut registry = crate::Registry::empty();
        registry.add(definition).unwrap();
        let offers = crate::Offers::everything("a test");
        let moved = registry.lookup("moved").unwrap().start(gateway(&[0, 1]), &offers);
        let instance = moved.unwrap().unwrap();
        instance.plan.classes.iter().map(|c| c.limit).collect::<Vec<_>>()
    };
    let of = |divisor| limits(rtt_with("moved".into(), &[("initial_divisor", divisor)]).unwrap());
    assert_eq!(of(6.0), [Limit::Rate(BitRate(75_000)); 2]);
    assert_eq!(of(3.0), [Limit::Rate(BitRate(150_000)); 2]);
}
