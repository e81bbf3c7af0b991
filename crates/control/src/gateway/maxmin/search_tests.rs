//! The search over a network with one rule: the fraction of its limit that each backlogged flow gets.

use fairmesh_units::{FlowId, Span, Time};

use super::search::Search;
use super::service::{PACKET, Passed, Rules};
use super::subscriber::{ROOM, Subscriber};
use crate::gateway::bounds::Bounds;
use crate::{Action, Actions, Class, Counters, Event, FlowCounters, Limit};

const RULES: Rules = Rules { full: 0.93, debt: 2.5, packets: 5.0 };
/// The search begins with 500 kbit/s for all together.
const BOUNDS: Bounds = Bounds { lower: 1e6, lowest: 500e3, upper: 3e6 };

struct Network {
    search: Search,
    all: Vec<Subscriber>,
    /// Reasons of the last step.
    said: Vec<&'static str>,
}

impl Network {
    fn new(flows: u32) -> Self {
        let mut all: Vec<Subscriber> = (0..flows).map(|f| Subscriber::new(FlowId(f))).collect();
        let mut search = Search::new(BOUNDS, 0.97, 0.95);
        search.begin(&all);
        all.iter_mut().for_each(|s| _ = s.allow(search.level()));
        Network { search, all, said: Vec::new() }
    }

    /// A second in which who has this limit gets so much, bit/s.
    fn second(&mut self, carries: impl Fn(usize, f64) -> f64) {
        for (i, s) in self.all.iter_mut().enumerate() {
            let bits = carries(i, s.limit);
            let packets = bits / PACKET;
            let passed = Passed { elapsed: 1.0, bits, packets, bound: false, under_way: None };
            s.service.look(&passed, s.limit, &RULES);
        }
        let mut actions = Actions::new();
        self.search.step(1.0, &mut self.all, &mut actions);
        self.all.iter_mut().for_each(|s| _ = s.allow(self.search.level()));
        let code = |a: &Action| if let Action::Because(r) = a { Some(r.code) } else { None };
        self.said = actions.iter().filter_map(code).collect();
    }

    fn says(&self, code: &str) -> bool {
        self.said.contains(&code)
    }
}

#[test]
fn who_stays_short_whatever_the_others_give_up_has_a_limit_of_its_own() {
    let mut net = Network::new(4);
    let share = |_, limit: f64| limit.min(100e3);
    (0..200).for_each(|_| net.second(share));
    let before = net.search.level();
    assert!((85e3..100e3).contains(&before), "{before}");
    // From now on the last one has a fifth, however little the others have.
    let (mut cuts, mut seconds, mut lowest) = (0, 0, before);
    while net.all[3].cap.is_none() {
        net.second(|i, limit| if i == 3 { 20e3 } else { share(i, limit) });
        cuts += u32::from(net.says("maxmin.short"));
        lowest = net.search.level().min(lowest);
        seconds += 1;
        assert!(seconds < 300, "{:?}", net.all[3]);
    }
    assert!(cuts >= 3 && (0.4..0.6).contains(&(lowest / before)), "{cuts}: {lowest} of {before}");
    assert!((net.all[3].cap.unwrap() / (ROOM * 20e3) - 1.0).abs() < 0.05, "{:?}", net.all[3].cap);
    // The others get theirs back.
    (0..20).for_each(|_| net.second(|i, limit| if i == 3 { 20e3 } else { share(i, limit) }));
    assert!(net.search.level() > 0.9 * before, "{} of {before}", net.search.level());
}

#[test]
fn what_all_are_short_of_is_lowered_by_more_than_one_cut_but_not_at_once() {
    let mut net = Network::new(4);
    (0..200).for_each(|_| net.second(|_, limit| limit.min(100e3)));
    // The air gets worse by a third: each cut is given time to help.
    let mut cuts = Vec::new();
    for second in 0..200 {
        net.second(|_, limit| limit.min(65e3));
        if net.says("maxmin.short") {
            cuts.push(second);
        }
    }
    assert!(cuts.len() >= 3, "{cuts:?}");
    assert!(cuts.windows(2).all(|c| c[1] - c[0] > 8), "{cuts:?}");
    assert!((58e3..66e3).contains(&net.search.level()), "{}", net.search.level());
}

#[test]
fn who_has_more_than_the_level_has_it_again_after_a_climb_that_failed() {
    let mut net = Network::new(2);
    // The far flow gets at most 100 kbit/s, the near one its full limit.
    let carries = |i: usize, limit: f64| if i == 1 { limit.min(100e3) } else { limit };
    let (mut before, mut failed) = (1.0, 0);
    for _ in 0..1500 {
        let factor = net.all[0].factor;
        net.second(carries);
        if net.says("maxmin.rise") {
            before = factor;
            assert!(before <= 1.0 || net.all[0].factor < before, "it keeps just what it has");
        }
        if net.says("maxmin.edge") && before > 1.1 {
            failed += 1;
            assert!((net.all[0].factor / before - 1.0).abs() < 1e-9, "{before}: {:?}", net.all[0]);
        }
    }
    assert!(failed >= 2, "{failed}: {:?}", net.search);
    assert!(net.all[0].limit > 2.0 * net.all[1].limit, "{:?}", net.all);
}

#[test]
fn the_highest_level_of_late_is_forgotten_within_minutes() {
    let mut net = Network::new(4);
    let alone = |i: usize, limit: f64| if i == 0 { limit.min(400e3) } else { 0.0 };
    (0..150).for_each(|_| net.second(alone));
    let high = net.search.level();
    assert!(high > 300e3, "{high}");
    (0..20).for_each(|_| net.second(|_, limit| limit.min(100e3)));
    assert!(net.search.level() < 0.4 * high);
    let after = net.search.highest(0.0);
    assert!((0.5..0.8).contains(&(after / high)), "{after} of {high}");
    (0..120).for_each(|_| net.second(|_, limit| limit.min(100e3)));
    assert!(net.search.highest(0.0) < 0.35 * high, "{} of {high}", net.search.highest(0.0));
}

#[test]
fn who_is_short_without_suffering_is_watched_for_twice_what_it_takes_to_show() {
    let mut net = Network::new(2);
    (0..300).for_each(|_| net.second(|_, limit| limit.min(100e3)));
    // Until the level was moved to where it rests.
    let mut before = net.search.level();
    for waited in 0.. {
        net.second(|_, limit| limit.min(100e3));
        let now = net.search.level();
        if net.said.is_empty() && now != before {
            break;
        }
        before = now;
        assert!(waited < 1000, "{:?}", net.search);
    }
    // It takes four seconds and ten packets at a limit.
    let pace = 4.0 + 10.0 * PACKET / net.all[0].limit;
    let mut seconds = 0.0;
    while !net.says("maxmin.short") {
        net.second(|i, limit| if i == 0 { 0.75 * limit } else { limit.min(100e3) });
        seconds += 1.0;
        assert!(seconds < 100.0, "{:?}", net.all[0]);
    }
    assert!(seconds > 2.0 * pace && seconds < 2.0 * pace + 2.5, "{seconds} of {pace}");
}

/// Two fill whatever they may; four bring 98 kbit/s while these have much, and 120 when they have less: too little
/// of a gain to be seen. All are asked further down, where the four fill their limits.
#[test]
fn who_never_fills_its_limit_is_asked_where_it_does() {
    let (mut control, plan) = super::tests::begin(6, 24_000_000);
    let mut limits = vec![0.0; 6];
    for (limit, class) in limits.iter_mut().zip(&plan.classes) {
        let Limit::Rate(rate) = class.limit else { panic!("{class:?}") };
        *limit = rate.0 as f64;
    }
    let (mut bytes, mut greedy) = ([0_u64; 6], 0.0);
    for second in 1..=400 {
        let now = Time::ZERO + Span::from_secs(second);
        let mut actions = Actions::new();
        let others = if limits[0] > 130e3 { 98e3 } else { 120e3 };
        for (f, bytes) in (0..6).zip(&mut bytes) {
            let rate = if f < 2 { limits[f as usize] } else { limits[f as usize].min(others) };
            *bytes += (rate / 8.0) as u64;
            let flow = Counters {
                class: Class::Flow(FlowId(f)),
                bytes: *bytes,
                packets: *bytes / 1500,
                drops: 0,
                overlimits: 0,
                queued_packets: 0,
                queued_bytes: 0,
            };
            control.on(now, &Event::Counters(flow), &mut actions);
            let (flow, bytes, packets) = (FlowId(f), flow.bytes, flow.packets);
            let flow = FlowCounters { flow, bytes, packets };
            control.on(now, &Event::FlowCounters(flow), &mut actions);
        }
        control.on(now, &Event::Deadline, &mut actions);
        for action in actions.iter() {
            if let Action::SetRate { class: Class::Flow(f), rate: Some(rate) } = action {
                limits[f.index()] = rate.0 as f64;
            }
        }
        greedy += if second > 300 { limits[0] / 100.0 } else { 0.0 };
    }
    assert!((90e3..160e3).contains(&greedy), "{greedy}: {limits:?}");
}
