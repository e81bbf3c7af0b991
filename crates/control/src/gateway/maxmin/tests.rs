use fairmesh_units::{FlowId, NodeId, Stream, Time};
use proptest::prelude::*;

use super::level::Level;
use super::service::{Passed, Rules, Service, Standing};
use super::sets::{Set, Sets};
use super::*;
use crate::host::Driver;
use crate::testing::lookup;
use crate::{Action, Counters, FlowCounters, Neighbour, Offers, OptionSet, PathSigns, Place, Site};

const RULES: Rules = Rules { full: 0.93, debt: 2.5, packets: 5.0 };
/// 100 packets a second.
const LIMIT: f64 = 1.2e6;

/// Seconds in which these parts of the limit passed, in full packets.
fn seconds(service: &mut Service, parts: &[f64]) {
    for part in parts {
        told(service, *part, None);
    }
}

/// A second in which this part of the limit passed, after which something is under way or not.
fn told(service: &mut Service, part: f64, under_way: Option<bool>) {
    let packets = (100.0 * part).round();
    let bits = 12_000.0 * packets;
    let passed = Passed { elapsed: 1.0, bits, packets, bound: false, under_way };
    service.look(&passed, LIMIT, &RULES);
}

#[test]
fn who_has_its_limit_wants_nothing() {
    let mut s = Service::default();
    seconds(&mut s, &[0.3, 1.0, 1.0, 0.98, 1.01, 1.0, 1.0, 0.99]);
    assert_eq!((s.standing(), s.want()), (Standing::Sending, 0.0));
    assert!(s.part() > 0.98 && s.full());
}

#[test]
fn pages_and_pauses_are_no_debt() {
    let mut s = Service::default();
    for _ in 0..20 {
        seconds(&mut s, &[0.4, 1.0, 1.0, 0.6, 0.0, 0.0, 0.0, 0.0]);
    }
    assert_eq!((s.standing(), s.want()), (Standing::Idle, 0.0));
    assert!((0.3..0.95).contains(&s.presence()), "{}", s.presence());
}

#[test]
fn pages_as_long_as_half_a_minute_are_not_much_to_send() {
    // At a low limit a page fills it for long. Who pauses by choice again and again has no backlog.
    let mut s = Service::default();
    for _ in 0..6 {
        seconds(&mut s, &[1.0; 15]);
        seconds(&mut s, &[0.5, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
    assert!(!s.backlogged() && s.sometimes());
}

#[test]
fn what_follows_a_change_is_judged_without_its_first_seconds() {
    let mut s = Service::default();
    seconds(&mut s, &[1.0; 20]);
    s.begin_trial();
    seconds(&mut s, &[0.2, 0.2, 1.0, 1.0, 1.0, 1.0, 0.8, 0.8, 0.8]);
    let (seen, part) = s.trial();
    assert!((4.0..=7.0).contains(&seen), "{seen}");
    assert!((0.85..0.98).contains(&part), "{part}");
    // A silence counts once something follows it.
    s.begin_trial();
    seconds(&mut s, &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    assert!(s.trial().1 < 0.8, "{:?}", s.trial());
}

/// A window that its limit has halved has half at least; who has less is short of something else, too.
#[test]
fn who_has_less_than_half_is_short_though_its_limit_drops_packets() {
    let part_of_trial = |part: f64| {
        let mut s = Service::default();
        seconds(&mut s, &[1.0; 20]);
        s.begin_trial();
        let packets = (100.0 * part).round();
        let bits = 12_000.0 * packets;
        let passed = Passed { elapsed: 1.0, bits, packets, bound: true, under_way: None };
        (0..20).for_each(|_| s.look(&passed, LIMIT, &RULES));
        s.trial().1
    };
    assert!(part_of_trial(0.5) >= 0.99 && part_of_trial(0.7) >= 0.99);
    assert!((0.55..0.65).contains(&part_of_trial(0.3)), "{}", part_of_trial(0.3));
}

#[test]
fn half_of_its_limit_for_ten_seconds_is_suffering() {
    let mut s = Service::default();
    seconds(&mut s, &[1.0; 15]);
    assert_eq!(s.want(), 0.0);
    seconds(&mut s, &[0.5; 10]);
    assert!(s.want() >= 1.0 && s.backlogged(), "{}", s.want());
    assert!(s.part() < 0.9);
    // A little above: short in the long run, but nobody suffers.
    let mut mild = Service::default();
    seconds(&mut mild, &[0.9; 40]);
    assert!(mild.want() < 0.5 && mild.part() < 0.94, "{} {}", mild.want(), mild.part());
    assert!(mild.backlogged());
}

#[test]
fn what_its_limit_has_dropped_is_its_own_choice() {
    let mut s = Service::default();
    for _ in 0..30 {
        let passed =
            Passed { elapsed: 1.0, bits: 6e5, packets: 50.0, bound: true, under_way: None };
        s.look(&passed, LIMIT, &RULES);
    }
    assert_eq!(s.want(), 0.0);
}

#[test]
fn small_packets_are_no_transfer() {
    let mut s = Service::default();
    for _ in 0..60 {
        let passed =
            Passed { elapsed: 1.0, bits: 64_000.0, packets: 50.0, bound: false, under_way: None };
        s.look(&passed, LIMIT, &RULES);
    }
    assert_eq!((s.standing(), s.want()), (Standing::Sending, 0.0));
}

#[test]
fn starved_is_not_ended() {
    // A long transfer that loses a window: a packet now and then, and silence.
    let mut s = Service::default();
    seconds(&mut s, &[1.0; 30]);
    seconds(&mut s, &[0.01, 0.0, 0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0]);
    assert!(s.want() >= 1.0, "{}", s.want());
    seconds(&mut s, &[0.0; 40]);
    assert_eq!(s.standing(), Standing::Lost);
    seconds(&mut s, &[0.0; 40]);
    assert_eq!(s.standing(), Standing::Idle, "after the longest of TCP's timeouts");
    // One that ends does so within ten seconds.
    let mut done = Service::default();
    seconds(&mut done, &[1.0; 30]);
    seconds(&mut done, &[0.0; 10]);
    assert_eq!(done.standing(), Standing::Idle);
}

#[test]
fn who_ended_more_than_a_minute_ago_has_to_show_again_that_it_has_much_to_send() {
    let again = |silence: usize| {
        let mut s = Service::default();
        seconds(&mut s, &[1.0; 30]);
        seconds(&mut s, &vec![0.0; silence]);
        seconds(&mut s, &[1.0, 1.0]);
        s.backlogged()
    };
    assert!(again(30));
    assert!(!again(100));
}

#[test]
fn what_was_acknowledged_has_ended_and_what_was_not_is_stalled() {
    // The same counters: only TCP's headers tell them apart.
    let run = |under_way| {
        let mut s = Service::default();
        (0..30).for_each(|_| told(&mut s, 1.0, Some(true)));
        (0..3).for_each(|_| told(&mut s, 0.0, Some(under_way)));
        (s.standing(), s.want(), s)
    };
    let (standing, want, mut done) = run(false);
    assert_eq!((standing, want), (Standing::Idle, 0.0), "after three seconds, not after seven");
    assert!(run(true).1 > 0.0, "it waits in vain");
    // Its pause is none that it suffers from, however often.
    for _ in 0..4 {
        (0..4).for_each(|_| told(&mut done, 0.0, Some(false)));
        (0..14).for_each(|_| told(&mut done, 1.0, Some(true)));
        told(&mut done, 0.4, Some(false));
    }
    assert!(done.want() < 0.1 && done.reads() && !done.backlogged(), "{done:?}");
    let (_, _, mut stalled) = run(true);
    (0..7).for_each(|_| told(&mut stalled, 0.0, Some(true)));
    assert_eq!(stalled.standing(), Standing::Lost);
    assert!(stalled.want() >= 1.0);
}

#[test]
fn slow_pages_are_doubted_without_signs_and_not_with_them() {
    let pages = |told_of: bool| {
        let mut s = Service::default();
        for _ in 0..30 {
            for (part, under_way) in [(0.3, true), (0.3, false)] {
                told(&mut s, part, told_of.then_some(under_way));
            }
            (0..4).for_each(|_| told(&mut s, 0.0, told_of.then_some(false)));
        }
        told(&mut s, 0.3, told_of.then_some(true));
        s
    };
    assert!(pages(false).doubtful(0.5));
    assert!(!pages(true).doubtful(0.5));
}

#[test]
fn signs_are_used_where_they_are_offered() {
    let events = |name: &str, offers: &Offers| {
        let setting = Setting::new(NodeId(0), Site::new().with_gateway(true), Stream::new(1, "t"))
            .with_neighbours([Neighbour::new(NodeId(1), BitRate(900_000), BitRate(900_000))]);
        let driver = Driver::start(&lookup(name).unwrap(), setting, offers).unwrap().unwrap();
        driver.needs().events
    };
    let all = Offers::everything("a test");
    let few = Offers { events: all.events.without(EventSet::of(&[EventKind::PathSigns])), ..all };
    assert!(events("maxmin", &all).has(EventKind::PathSigns));
    assert!(!events("maxmin", &few).has(EventKind::PathSigns), "it runs without");
    assert!(!events("maxmin+counters", &all).has(EventKind::PathSigns));
}

#[test]
fn a_set_that_failed_is_split_by_hops_and_then_by_branch() {
    let mut all: Vec<Subscriber> = (0..4).map(|f| Subscriber::new(FlowId(f))).collect();
    for (s, (branch, hops)) in all.iter_mut().zip([(7, 3), (7, 2), (5, 1), (6, 2)]) {
        (s.branch, s.hops, s.limit) = (Some(NodeId(branch)), Some(hops), LIMIT);
        seconds(&mut s.service, &[1.0; 30]);
        assert!(s.ready());
    }
    let mut sets = Sets::default();
    sets.refuse(Set { who: vec![0, 1, 2, 3], raise: 1.25 }, &[], 0.0, &mut all);
    sets.pass(1000.0);
    let near = sets.next(&all).unwrap();
    assert_eq!(near.who, [2], "the nearest first");
    let far = sets.next(&all).unwrap();
    assert_eq!(far.who, [3, 1, 0]);
    sets.refuse(far, &[], 0.0, &mut all);
    sets.pass(1000.0);
    let alike = sets.next(&all).unwrap();
    assert_eq!(alike.who, [3, 1], "those at one distance");
    sets.refuse(alike, &[], 0.0, &mut all);
    sets.pass(1000.0);
    assert_eq!(sets.next(&all).unwrap().who, [3], "one branch");
}

#[test]
fn who_is_short_of_a_set_parts_it_and_a_failure_is_paid_for() {
    let mut all: Vec<Subscriber> = (0..4).map(|f| Subscriber::new(FlowId(f))).collect();
    for (s, (branch, hops)) in all.iter_mut().zip([(5, 1), (5, 4), (5, 5), (6, 4)]) {
        (s.branch, s.hops, s.limit) = (Some(NodeId(branch)), Some(hops), LIMIT);
        seconds(&mut s.service, &[1.0; 30]);
    }
    let mut sets = Sets::default();
    sets.refuse(Set { who: vec![0, 1, 2, 3], raise: 1.25 }, &[2], 1.0, &mut all);
    assert_eq!(sets.next(&all).unwrap().who, [0, 3], "away from whoever suffers");
    // What failures cost is saved up before the next.
    sets.refuse(Set { who: vec![0, 3], raise: 1.25 }, &[], 100.0, &mut all);
    assert!(sets.next(&all).is_none());
    sets.pass(10_000.0);
    assert!(sets.next(&all).is_some());
    // Who was short with all others waits, and whoever shares most of the way.
    Sets::bound(&[2], &mut all);
    assert_eq!(all.iter().map(Subscriber::ready).collect::<Vec<_>>(), [true, false, false, true]);
}

#[test]
fn who_has_least_comes_first_and_what_nobody_missed_is_raised_further() {
    let mut all: Vec<Subscriber> = (0..3).map(|f| Subscriber::new(FlowId(f))).collect();
    for s in &mut all {
        (s.hops, s.limit) = (Some(s.flow.0 + 1), LIMIT);
        seconds(&mut s.service, &[1.0; 30]);
    }
    let mut sets = Sets::default();
    let first = sets.next(&all).unwrap();
    assert_eq!((first.who.as_slice(), first.raise), ([0].as_slice(), 1.4));
    all[0].factor = 1.4;
    sets.keep(first);
    assert_eq!(sets.next(&all).unwrap().who, [1, 2], "they have less");
    all[1].put_off();
    all[2].put_off();
    let again = sets.next(&all).unwrap();
    assert_eq!((again.who.as_slice(), again.raise), ([0].as_slice(), 1.5));
}

fn start(flows: u32) -> (Box<dyn Control>, Plan) {
    begin(flows, 900_000)
}

pub(super) fn begin(flows: u32, link: u64) -> (Box<dyn Control>, Plan) {
    let here = |f| FlowHere::new(FlowId(f), Place::Forwarder, 1460, 1500);
    let setting = Setting::new(NodeId(0), Site::new().with_gateway(true), Stream::new(1, "t"))
        .with_flows((0..flows).map(here))
        .with_neighbours([Neighbour::new(NodeId(1), BitRate(link), BitRate(link))]);
    let offers = crate::Offers::everything("a test");
    let i = lookup("maxmin").unwrap().start(setting, &offers).unwrap().unwrap();
    (i.control, i.plan)
}

#[test]
fn it_begins_low_but_where_pages_still_look_like_pages() {
    let limits = |link| {
        let (_, plan) = begin(3, link);
        plan.classes.iter().map(|c| c.limit).collect::<Vec<Limit>>()
    };
    assert_eq!(limits(900_000), vec![Limit::Rate(BitRate(50_000)); 3], "a sixth for all");
    assert_eq!(limits(3_600_000), vec![Limit::Rate(BitRate(100_000)); 3], "enough for a page");
    assert_eq!(limits(18_000_000), vec![Limit::Rate(BitRate(250_000)); 3], "a quarter of a sixth");
}

#[test]
fn an_edge_that_was_an_accident_does_not_make_it_slow() {
    let mut level = Level::new(100.0, 1e6, 0.97);
    level.set(level.next().unwrap());
    level.meet();
    level.back();
    assert!(!level.young());
    while level.now() <= 120.0 {
        level.pass(1000.0);
        level.set(level.next().unwrap());
        level.carries();
    }
    assert!(level.young(), "{level:?}");
    assert_eq!(level.next(), Some(1.25 * level.now()));
    // Where it is met twice it is believed.
    for _ in 0..2 {
        level.set(500.0);
        level.meet();
    }
    level.set(600.0);
    level.carries();
    assert!(!level.young());
}

#[test]
fn who_is_short_in_the_first_seconds_is_no_edge_but_once() {
    let mut level = Level::new(100.0, 1e6, 0.97);
    assert!(level.startles());
    level.lower(0.9);
    assert_eq!(level.next(), Some(1.25 * level.now()));
    assert!(level.young() && !level.startles(), "{level:?}");
    let mut level = Level::new(100.0, 1e6, 0.97);
    level.meet();
    assert!(!level.startles(), "an edge was met");
}

#[test]
fn guarantees_and_ceilings_are_checked() {
    let here = FlowHere::new(FlowId(0), Place::Forwarder, 1460, 1500);
    let refused = |here: FlowHere| {
        let setting = Setting::new(NodeId(0), Site::new().with_gateway(true), Stream::new(1, "t"))
            .with_flows([here])
            .with_neighbours([Neighbour::new(NodeId(1), BitRate(900_000), BitRate(900_000))]);
        build(&Options::of(lookup("maxmin").unwrap().chosen()), setting).unwrap_err().code()
    };
    let rate = |r| Some(BitRate(r));
    assert_eq!(refused(here.with_guarantee(rate(300_001))), "any.guarantees");
    let crossed = here.with_guarantee(rate(2000)).with_ceiling(rate(1000));
    assert_eq!(refused(crossed), "maxmin.ceiling");
    assert_eq!(refused(here.with_weight(f64::NAN)), "any.weight");
}

#[test]
fn agents_of_other_gateways_homes_are_refused() {
    let setting = Setting::new(NodeId(0), Site::new().with_gateway(true), Stream::new(1, "t"))
        .with_neighbours([Neighbour::new(NodeId(1), BitRate(900_000), BitRate(900_000))]);
    let offers = crate::Offers::everything("a test");
    let refused = lookup("maxmin+agents+peers").unwrap().start(setting, &offers).unwrap_err();
    assert!(refused.to_string().contains("agents"), "{refused}");
}

proptest! {
    /// Counters that stick, run backwards, leap or are missing, and clocks that jump: limits stay
    /// within what the links carry.
    #[test]
    fn limits_keep_their_bounds(
        steps in proptest::collection::vec(
            (0_u32..6, any::<u64>(), 0_u64..100, 0_u64..4, 0_u64..50), 1..200),
    ) {
        let (mut control, _) = start(4);
        let (mut now, mut actions) = (Time::ZERO, Actions::new());
        let mut total = [0_u64; 6];
        for (flow, absurd, packets, kind, wait) in steps {
            let f = flow as usize;
            total[f] = match kind {
                0 => absurd,
                1 => total[f].saturating_sub(1500),
                _ => total[f].wrapping_add(1500 * packets),
            };
            let flow = FlowId(flow);
            let counters = FlowCounters { flow, bytes: total[f], packets: total[f] / 1500 };
            control.on(now, &Event::FlowCounters(counters), &mut actions);
            let class = Counters {
                class: Class::Flow(flow), bytes: total[f], packets: total[f] / 1500,
                drops: absurd, overlimits: 0, queued_packets: 0, queued_bytes: 0,
            };
            control.on(now, &Event::Counters(class), &mut actions);
            if packets % 3 == 0 {
                let signs = PathSigns::new(flow).with_awaited(absurd).with_repeated(packets);
                control.on(now, &Event::PathSigns(signs), &mut actions);
            }
            match kind {
                2 if packets == 0 => control.on(now, &Event::FlowGone(flow), &mut actions),
                3 if packets == 0 => {
                    let here = FlowHere::new(flow, Place::Forwarder, 1460, 1500);
                    control.on(now, &Event::FlowSeen(here), &mut actions);
                }
                _ => {}
            }
            now = now.max(control.next_deadline().unwrap()) + Span::from_secs(wait * wait / 40);
            control.on(now, &Event::Deadline, &mut actions);
            prop_assert!(control.next_deadline().unwrap() > now);
            for action in actions.iter() {
                if let Action::SetRate { rate, .. } = action {
                    let rate = rate.map_or(0, |r| r.0);
                    // The level times what somebody alone may have above it.
                    prop_assert!((1..=2_000_000).contains(&rate), "{rate}");
                }
            }
            actions.clear();
        }
    }
}
