//! `cna` on the engine's radio: the claims of Jang 2010, and the limits that it enforces.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fairmesh_control::*;
use fairmesh_engine::measures::jain;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run, run_under};
use fairmesh_scenario::{Draft, InterfererDraft, Scenario, draft_from_toml};
use fairmesh_units::{NodeId, Span, Time};

fn shipped(name: &str, seconds: u64, change: impl Fn(&mut Draft)) -> Scenario {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut draft = draft_from_toml(&path, &text).unwrap();
    draft.duration = Span::from_secs(seconds);
    draft.warmup = Some(Span::from_secs(10));
    change(&mut draft);
    draft
        .build()
        .unwrap()
        .with_control(Registry::standard().lookup("cna+tolerant+pass-on").unwrap())
}

fn goodputs(r: &RunRecord) -> Vec<f64> {
    r.flows.iter().map(|f| f.goodput_bps / 1e3).collect()
}

/// Sums of the highest common rates that the simulator carries, kbit/s.
///
/// They are the reference of the aggregate (docs/models/region.md).
const OPTIMA: [(&str, f64, f64); 4] = [
    ("stack", 0.99, 3.0 * 269.0),
    ("diamond", 0.99, 3.0 * 262.0),
    ("half-diamond", 0.99, 3.0 * 294.0),
    ("chain-cross", 0.85, 222.0 + 3.0 * 225.0 + 350.0),
];

#[test]
fn no_flow_starves_on_the_four_topologies_and_losses_are_few() {
    let mut parts = 0.0;
    for (name, least, optimum) in OPTIMA {
        // TCP repeats a lost SYN after 3, 6, 12 s.
        let s = shipped(name, 90, |d| d.warmup = Some(Span::from_secs(30)));
        let mut part = 0.0;
        for seed in 1..=2 {
            let r = run(&s, &RunOptions { seed, ..RunOptions::default() }).unwrap();
            let rates = goodputs(&r);
            assert!(jain(&rates) >= least, "{name}: {rates:?}");
            part += rates.iter().sum::<f64>() / optimum / 2.0;
            for f in &r.flows {
                assert!(f.goodput_bps > 0.55 * f.fair_bps.unwrap(), "{name}: {rates:?}");
            }
            // Messages cost air, headers do not.
            let s = r.totals.signalling;
            assert!(s.header_bytes == 0 && s.airtime_share < 0.01, "{s:?}");
        }
        assert!(part >= 0.8, "{name}: {part} of {optimum}");
        parts += part / 4.0;
    }
    assert!(parts >= 0.88, "{parts} on average");
}

/// A finished packet: instant, airtime, backoff part of it, and true if it arrived.
type Use = (Time, f64, f64, bool);

/// Airtime used by each link, and its limits.
#[derive(Default)]
struct Log {
    used: BTreeMap<(u32, u32), Vec<Use>>,
    limits: BTreeMap<(u32, u32), Vec<(Time, f64)>>,
}

thread_local! {
    static LOG: RefCell<Log> = RefCell::default();
}

/// `cna` with a log of its limits.
fn definition() -> Definition {
    let cna = || Registry::standard().lookup("cna+tolerant+pass-on").unwrap();
    let runs = Runs::at(
        move |_| cna().needs(&Site::default()).into_iter().collect(),
        move |_, setting| {
            let all = Offers::everything("test");
            let node = setting.node;
            let inner = cna().start(setting, &all).unwrap().unwrap();
            Ok(Instance { control: Box::new(Watched(node, inner.control)), plan: inner.plan })
        },
    );
    Definition::new("cna-watched", "cna, and a record of its limits", Origin::ours("Jang 2010"))
        .with_runs(runs)
}

#[derive(Debug)]
struct Watched(NodeId, Box<dyn Control>);

impl Control for Watched {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        self.1.on(now, event, actions);
        LOG.with_borrow_mut(|log| {
            if let Event::Sent(Sent {
                to: Some(to),
                flow: Some(_),
                airtime,
                backoff,
                delivered,
                ..
            }) = event
            {
                let used = log.used.entry((self.0.0, to.0)).or_default();
                used.push((now, airtime.as_secs_f64(), backoff.as_secs_f64(), *delivered));
            }
            for action in actions.iter() {
                if let Action::SetAirtime { class: Class::Link(to), share } = action {
                    let limits = log.limits.entry((self.0.0, to.0)).or_default();
                    limits.push((now, share.get()));
                }
            }
        });
    }
    fn next_deadline(&self) -> Option<Time> {
        self.1.next_deadline()
    }
}

fn watched(s: &Scenario) -> (RunRecord, Log) {
    LOG.take();
    let record = run_under(s, &RunOptions::default(), &Mechanism::of(definition())).unwrap();
    (record, LOG.take())
}

impl Log {
    /// Airtime permitted to a link between two instants.
    fn allowed(&self, link: (u32, u32), from: Time, to: Time) -> f64 {
        let limits = self.limits.get(&link).map_or(&[][..], Vec::as_slice);
        // A link starts with a tenth.
        let (mut at, mut share, mut sum) = (from, 0.1, 0.0);
        for &(when, next) in limits {
            if when >= to {
                break;
            }
            if when > at {
                sum += share * (when - at).as_secs_f64();
                at = when;
            }
            share = next;
        }
        sum + share * (to - at).as_secs_f64()
    }
}

#[test]
fn no_window_uses_more_than_its_limit_and_a_packet() {
    let s = shipped("stack", 30, |_| {});
    let (_, log) = watched(&s);
    assert_eq!(log.used.len(), 12);
    let mut costs: Vec<f64> = log.used[&(0, 1)].iter().map(|u| u.1).collect();
    costs.sort_by(f64::total_cmp);
    let packet = costs[costs.len() / 2];
    for (&link, used) in &log.used {
        let mut worst: f64 = 0.0;
        let cheapest = used.iter().map(|u| u.1).fold(1.0, f64::min);
        for i in 0..used.len() {
            // Reported when the MAC has finished: the first packet of a window may have been taken
            // from the bucket before its start, so the window extends back to the previous report.
            let from = if i > 0 { used[i - 1].0 } else { Time::ZERO };
            let end = used[i].0 + Span::from_millis(100);
            let inside = &used[i..].iter().take_while(|u| u.0 < end).collect::<Vec<_>>();
            let sum: f64 = inside.iter().map(|u| u.1).sum();
            // A bucket is one data packet deep, and retries of the last packet are paid for later.
            let last = inside[inside.len() - 1].1;
            let largest = packet + (last - cheapest).max(0.0);
            let until = inside[inside.len() - 1].0;
            worst = worst.max((sum - log.allowed(link, from, until)) / largest);
        }
        assert!(worst <= 1.0, "{link:?}: {worst} packets");
    }
}

#[test]
fn limits_follow_a_new_flow_within_a_second() {
    let s = shipped("stack", 60, |d| d.flow[1].start = Some(Span::from_secs(15)));
    let (_, log) = watched(&s);
    let at = |link, t: Time| {
        let limits: &Vec<(Time, f64)> = &log.limits[&link];
        limits.iter().rev().find(|l| l.0 <= t).unwrap().1
    };
    // 5→6 carries the middle flow from here on; nodes by position. The first packet that arrives is
    // the first that other nodes can detect.
    let arrival = log.used[&(4, 5)].iter().find(|u| u.3).unwrap().0;
    assert!(arrival < Time::ZERO + Span::from_secs(26), "{arrival:?}");
    for link in [(0, 1), (7, 8)] {
        let (before, after) =
            (Time::ZERO + Span::from_millis(14_900), arrival + Span::from_secs(1));
        // Half of the time before, and an average of the rest.
        let (from, to) = (Time::ZERO + Span::from_secs(30), Time::ZERO + Span::from_secs(60));
        let later = log.allowed(link, from, to) / 30.0;
        assert!(at(link, before) > 1.8 * later, "{} {later}", at(link, before));
        assert!(at(link, after) < 1.15 * later, "{} {later}", at(link, after));
    }
}

#[test]
fn foreign_energy_is_left_its_share() {
    let s = shipped("stack", 40, |d| {
        d.interferer = vec![InterfererDraft {
            radio: None,
            name: None,
            nodes: Some(vec![1usize.into()]),
            position: None,
            power: None,
            period: Some(Span::from_millis(20)),
            duty: 0.4,
            jitter: Some(0.1),
            start: None,
            stop: None,
        }];
    });
    let (_, log) = watched(&s);
    // Links around 1↔2, by position.
    let used: f64 = [(0, 1), (1, 2), (3, 4), (4, 5)]
        .into_iter()
        .flat_map(|(a, b)| [(a, b), (b, a)])
        .flat_map(|link| log.used.get(&link).into_iter().flatten())
        .filter(|u| u.0 >= Time::ZERO + Span::from_secs(10))
        .map(|u| u.1 - u.2)
        .sum();
    // A backoff is not energy; the rest beside 40 % is used well.
    let share = used / 30.0;
    assert!(share <= 0.6 && share > 0.4, "{share}");
}

/// Frames of the mesh that stations sense without decoding.
///
/// A card counts them as received, not as foreign energy. On five hops at 1 and 2 Mbit/s they starve no flow.
#[test]
fn frames_too_weak_to_decode_are_not_foreign() {
    let s = shipped("jamshaid-fig-7.6a", 60, |_| {});
    let r = run(&s, &RunOptions::default()).unwrap();
    let rates = goodputs(&r);
    assert!(rates.iter().sum::<f64>() > 380.0, "{rates:?}");
    for f in &r.flows {
        assert!(f.goodput_bps > 0.35 * f.fair_bps.unwrap(), "{rates:?}");
    }
}
