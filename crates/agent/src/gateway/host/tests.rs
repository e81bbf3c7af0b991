//! The whole daemon except its runtime, on a virtual clock and a plane with faults.

use fairmesh_linux::{ClassId, Direction, Slot};
use fairmesh_units::BitRate;
use proptest::prelude::*;

use super::*;
use crate::gateway::config::Mode;
use crate::gateway::fake::{Broken, FakeShaper};
use crate::gateway::governor::{ClassIds, Override};
use crate::gateway::report;

/// Returns a configuration of `n` subscribers.
pub(crate) fn config(n: usize, mode: &str, control: &str, extra: &str) -> Config {
    let mut text = format!(
        "mode = \"{mode}\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n\
         [control]\nuse = \"{control}\"\n[[neighbour]]\nname = \"n\"\ncapacity = \"10 Mbit/s\"\n{extra}\n"
    );
    for i in 0..n {
        text += &format!("[[subscriber]]\nname = \"s{i}\"\nprefixes = [\"10.0.{i}.0/24\"]\n");
    }
    Config::parse("test.toml", &text).unwrap()
}

struct Bench {
    host: Host<FakeShaper>,
    now: Time,
}

impl Bench {
    fn new(config: &Config) -> Bench {
        let governor = Governor::new(config, ClassIds::default(), Time::ZERO).unwrap();
        let plane = FakeShaper { capacity: 9e6, ..FakeShaper::default() };
        let mut bench = Bench { host: Host::new(plane, governor), now: Time::ZERO };
        bench.host.poll(Time::ZERO);
        bench
    }

    /// Sets the offered load of all subscribers downstream.
    fn demand(&mut self, rate: f64) {
        for (slot, class) in &mut self.host.plane().classes {
            class.demand = if slot.direction == Direction::Down { rate } else { 0.0 };
        }
    }

    /// Advances in steps of a quarter of a second, and calls the daemon at the times it requests.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 4 {
            self.host.plane().run(0.25);
            self.now += Span::from_millis(250);
            while self.host.next_deadline() <= self.now {
                self.host.poll(self.now);
            }
        }
    }

    fn total(&self, code: &str) -> u64 {
        self.host.governor.journal.total(code)
    }

    fn limits(&mut self) -> Vec<Option<BitRate>> {
        let classes = &self.host.plane().classes;
        let mine = classes
            .iter()
            .filter(|(s, _)| s.direction == Direction::Down && s.class != ClassId::ALL);
        mine.map(|(_, c)| c.rate).collect()
    }
}

fn jain(x: &[f64]) -> f64 {
    let (sum, squares) = (x.iter().sum::<f64>(), x.iter().map(|v| v * v).sum::<f64>());
    sum * sum / (x.len() as f64 * squares)
}

/// Returns the downstream rate of each subscriber over some seconds.
fn got(bench: &mut Bench, seconds: u64) -> Vec<f64> {
    let bytes = |b: &mut Bench| -> Vec<u64> {
        let classes = &b.host.plane().classes;
        let mine = classes
            .iter()
            .filter(|(s, _)| s.direction == Direction::Down && s.class != ClassId::ALL);
        mine.map(|(_, c)| c.bytes).collect()
    };
    let before = bytes(bench);
    bench.pass(seconds);
    bytes(bench).iter().zip(before).map(|(a, b)| (a - b) as f64 * 8.0 / seconds as f64).collect()
}

#[test]
fn pfrc_makes_an_unfair_mesh_fair() {
    let mut b = Bench::new(&config(4, "apply", "pfrc", "[shaping]\nsample = \"10 s\""));
    b.demand(6e6);
    b.host.plane().classes.values_mut().for_each(|c| c.rate = None);
    // Without limits the first takes its 6, the second the 3 left over.
    b.host.plane().run(0.0);
    b.pass(400);
    let rates = got(&mut b, 100);
    assert!(jain(&rates) > 0.99, "{rates:?}");
    assert!(rates.iter().sum::<f64>() > 0.8 * 9e6, "{rates:?}");
    assert_eq!(b.host.phase(), Phase::Running);
    let m = b.host.governor.member("s0").unwrap();
    assert!(m.directions[0].change.as_ref().unwrap().why.code().starts_with("pfrc."));
}

/// As flows, acknowledgements would always look starved.
///
/// All limits would stay at half the lower bound.
#[test]
fn acknowledgements_are_no_flows() {
    let mut b = Bench::new(&config(4, "apply", "pfrc", ""));
    b.demand(6e6);
    b.host.plane().answered = true;
    b.pass(400);
    let rates = got(&mut b, 100);
    assert!(jain(&rates) > 0.99, "{rates:?}");
    assert!(rates.iter().sum::<f64>() > 0.8 * 9e6, "{rates:?}");
    // A subscriber that then uploads is a flow.
    b.host.plane().answered = false;
    b.host.plane().classes.get_mut(&FakeShaper::slot(1, Direction::Up)).unwrap().demand = 6e6;
    let before = b.total("pfrc.flows");
    b.pass(30);
    assert!(b.total("pfrc.flows") > before);
}

#[test]
fn observing_sets_no_limits_and_reports_intended_ones() {
    let mut b = Bench::new(&config(4, "observe", "pfrc", ""));
    b.demand(6e6);
    b.pass(200);
    assert!(b.host.plane().free());
    assert_eq!(b.host.plane().rate_calls, 0);
    let m = b.host.governor.member("s3").unwrap();
    assert!(b.host.governor.meant(m, 0).0.is_some(), "what it would do");
    assert!(b.total("pfrc.starved") > 0, "distant homes starve, and a reason reports it");
}

#[test]
fn one_limit_for_all_follows_the_traffic_of_both_directions() {
    let mut b = Bench::new(&config(3, "apply", "arc-fq", ""));
    b.demand(6e6);
    b.pass(100);
    let all = |b: &mut Bench, d| b.host.plane().rate(0, d).unwrap().0 as f64;
    let (down, up) = (all(&mut b, Direction::Down), all(&mut b, Direction::Up));
    assert!((down / (down + up) - 0.9).abs() < 0.02, "{down} {up}");
    assert!(b.limits().iter().all(Option::is_none));
}

#[test]
fn ceilings_hold_without_a_control() {
    let config = config(2, "apply", "fifo", "[plan.x]\ndown = \"1 Mbit/s\"");
    let mut config = config;
    config.subscribers[1].plan.down.ceiling = Some(BitRate(1_000_000));
    let mut b = Bench::new(&config);
    b.pass(1);
    assert_eq!(b.host.plane().rate(1, Direction::Down), None);
    // 1 Mbit/s of IP packets of 1500 bytes in frames of 1514.
    assert_eq!(b.host.plane().rate(2, Direction::Down), Some(BitRate(1_009_334)));
}

/// After each kind of fault nothing is limited within two epochs, and its event is reported.
///
/// Limits return afterwards.
#[test]
fn every_fault_lifts_the_limits_within_two_epochs_and_is_named() {
    let cases = [
        (Broken::Stuck, "counters.stuck"),
        (Broken::Missing, "counter.missing"),
        (Broken::Absurd, "counter.absurd"),
        (Broken::Backwards, "counter.backwards"),
        (Broken::Sample, "sample.failed"),
        (Broken::Interface, "interface.lost"),
        (Broken::RulesAgain, "rules.gone"),
        (Broken::Renew, "renew.failed"),
    ];
    for (broken, event) in cases {
        let mut b = Bench::new(&config(4, "apply", "pfrc", ""));
        b.demand(6e6);
        b.pass(60);
        assert!(!b.host.plane().free(), "{broken:?}");
        b.host.plane().broken = broken;
        // Two epochs, the one that had begun, and the sample at its end.
        b.pass(30);
        if matches!(broken, Broken::Interface | Broken::RulesAgain) {
            assert!(matches!(b.host.phase(), Phase::Absent { .. }), "{broken:?}");
        } else {
            assert!(
                matches!(b.host.phase(), Phase::Safe { .. }),
                "{broken:?}: {:?}",
                b.host.phase()
            );
            assert!(b.host.plane().free(), "{broken:?}");
        }
        assert!(b.total(event) > 0, "{event}");
        b.host.plane().broken = Broken::Nothing;
        b.pass(60);
        assert_eq!(b.host.phase(), Phase::Running, "{broken:?}");
        assert!(!b.host.plane().free(), "{broken:?}: limited again");
        b.pass(400);
        let rates = got(&mut b, 100);
        assert!(jain(&rates) > 0.99, "{broken:?}: {rates:?}");
    }
}

#[test]
fn a_failed_apply_releases_at_once_and_if_that_fails_removes() {
    for (broken, removes) in [(Broken::Apply, 0), (Broken::ApplyAndRelease, 1)] {
        let mut b = Bench::new(&config(4, "apply", "pfrc", ""));
        b.demand(6e6);
        b.pass(60);
        b.host.plane().broken = broken;
        b.pass(11);
        assert!(b.host.plane().free());
        assert!(b.total("apply.failed") > 0);
        assert!(b.host.plane().removes >= removes, "{broken:?}");
        b.host.plane().broken = Broken::Nothing;
        b.pass(60);
        assert_eq!(b.host.phase(), Phase::Running);
        assert!(!b.host.plane().free());
    }
}

/// `nft flush ruleset`, as firewalls run it when they are reloaded.
#[test]
fn flushed_rules_are_restored_at_once() {
    let mut b = Bench::new(&config(4, "apply", "pfrc", "[shaping]\nsample = \"60 s\""));
    b.demand(6e6);
    b.pass(60);
    let (before, installs) = (b.limits(), b.host.plane().installs);
    b.host.plane().broken = Broken::Rules;
    b.pass(3);
    assert_eq!((b.total("rules.gone"), b.host.plane().installs), (1, installs + 1));
    assert_eq!(b.host.phase(), Phase::Running);
    assert_eq!(b.limits(), before, "the same limits as before");
}

/// Limits expire in the kernel without renewals, so renewals must be independent of all else.
#[test]
fn limits_are_renewed_well_before_they_lapse() {
    let mut b = Bench::new(&config(2, "apply", "fifo", "[shaping]\nsample = \"60 s\""));
    let before = b.host.plane().renewals;
    b.pass(100);
    let renewals = b.host.plane().renewals - before;
    assert!((40..=60).contains(&renewals), "{renewals} in 100 s");
}

#[test]
fn one_bad_counter_frees_one_subscriber() {
    let mut b = Bench::new(&config(4, "apply", "pfrc", ""));
    b.demand(6e6);
    b.pass(60);
    let slot = Slot { class: ClassId(2), direction: Direction::Down };
    for _ in 0..3 {
        b.host.plane().classes.get_mut(&slot).unwrap().bytes = 0;
        b.host.plane().classes.get_mut(&slot).unwrap().demand = 0.0;
        b.host.plane().classes.get_mut(&slot).unwrap().packets = 0;
        b.pass(10);
        // Decreases with every sample.
        b.host.plane().classes.get_mut(&slot).unwrap().bytes = 1;
    }
    assert!(b.total("counter.backwards") > 0);
    assert_eq!(b.host.phase(), Phase::Running, "the others are not touched");
    assert!(b.host.plane().rate(1, Direction::Down).is_some());
}

#[test]
fn an_interface_that_flaps_is_left_alone_for_a_while() {
    let mut b = Bench::new(&config(2, "apply", "pfrc", ""));
    for _ in 0..40 {
        b.host.plane().broken = Broken::Interface;
        b.host.link(b.now, "bat0", false);
        b.pass(1);
        b.host.plane().broken = Broken::Nothing;
        b.host.link(b.now, "bat0", true);
        b.pass(1);
    }
    assert!(b.total("interface.flapping") > 0);
    assert!(b.host.plane().installs < 20, "{}", b.host.plane().installs);
    b.pass(60);
    assert_eq!(b.host.phase(), Phase::Running);
}

/// The interface appears after the daemon, and later as another kind of link.
///
/// Each time the header bytes that the kernel counts are read again.
#[test]
fn headers_are_read_when_an_interface_appears_and_again_when_it_changes() {
    let plan = "[plan.all]\ndown = \"1 Mbit/s\"\nup = \"1 Mbit/s\"";
    let mut config = config(1, "apply", "fifo", plan);
    for s in &mut config.subscribers {
        s.plan.down.ceiling = Some(BitRate(1_000_000));
        s.plan.up.ceiling = Some(BitRate(1_000_000));
    }
    let governor = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
    let plane = FakeShaper { capacity: 9e6, broken: Broken::Interface, ..FakeShaper::default() };
    let mut b = Bench { host: Host::new(plane, governor), now: Time::ZERO };
    b.host.poll(Time::ZERO);
    b.pass(5);
    assert_eq!((b.host.phase().name(), b.host.plane().installs), ("absent", 0));
    let mut limits = |headers: [u16; 2]| {
        b.host.plane().broken = Broken::Interface;
        b.host.link(b.now, "bat0", false);
        b.pass(1);
        b.host.plane().headers = Some(headers);
        b.host.plane().broken = Broken::Nothing;
        b.host.link(b.now, "bat0", true);
        b.pass(15);
        assert_eq!(b.host.phase(), Phase::Running);
        let class = b.host.governor.members()[0].class.0;
        let passed = |b: &Bench| {
            let meter = &b.host.governor.members()[0].directions[0].meter;
            (meter.bytes, meter.packets)
        };
        let before = passed(&b);
        b.demand(5e5);
        b.pass(60);
        let after = passed(&b);
        let packet = (after.0 - before.0) / (after.1 - before.1);
        let plane = b.host.plane();
        (Direction::BOTH.map(|d| plane.rate(class, d).unwrap().0), packet)
    };
    // 1 Mbit/s of IP packets of 1500 bytes, in frames.
    let frames = |header: u64| (1_000_000 * (1500 + header)).div_ceil(1500);
    // The plane sends frames of 1514 bytes in any case.
    assert_eq!(limits([14, 14]), ([frames(14); 2], 1500), "after it has appeared");
    assert_eq!(limits([0, 14]), ([frames(0), frames(14)], 1514), "it is a tunnel now");
    assert_eq!(limits([18, 0]), ([frames(18), frames(0)], 1496), "and a VLAN beside one");
}

fn found(names: impl Iterator<Item = u32>) -> Vec<Subscriber> {
    let one = |n: u32| Subscriber {
        name: format!("d{n}"),
        prefixes: vec![format!("172.16.{}.{}/32", n / 256 % 256, n % 256).parse().unwrap()],
        macs: Vec::new(),
        plan: Default::default(),
        hops: None,
    };
    names.map(one).collect()
}

#[test]
fn a_subscriber_that_appears_a_thousand_times_a_second_moves_nothing() {
    let extra = "[discover]\nroutes = true\nmost = 50\nlinger = \"0 s\"";
    let mut b = Bench::new(&config(2, "apply", "pfrc", extra));
    b.pass(1);
    let relayouts = b.host.plane().relayouts;
    for i in 0..5000_u32 {
        // Present, gone, present again, for five seconds.
        b.host.discovered(b.now, found(if i % 2 == 0 { 0..1 } else { 0..0 }));
        b.now += Span::from_millis(1);
        b.host.poll(b.now);
    }
    assert!(b.host.plane().relayouts - relayouts <= 6, "{}", b.host.plane().relayouts);
    // A new one each time, beside twice as many as are taken.
    for i in 0..5000_u32 {
        b.host.discovered(b.now, found((0..i.min(100)).chain(i..i + 1)));
        b.host.poll(b.now);
    }
    assert!(b.host.governor.members().len() <= 52);
    assert!(b.total("discover.full") > 0);
    let messages = b.host.governor.journal.take().len();
    assert!(messages < 200, "{messages} lines");
}

#[test]
fn discovered_subscribers_cannot_take_configured_addresses() {
    let extra = "[discover]\nroutes = true\nplan = \"guest\"\n[plan.guest]\nweight = 0.5";
    let mut b = Bench::new(&config(2, "apply", "pfrc", extra));
    let mut thief = found(0..1);
    thief[0].prefixes = vec!["10.0.1.0/24".parse().unwrap(), "172.16.0.0/32".parse().unwrap()];
    b.host.discovered(b.now, thief);
    b.pass(2);
    let m = b.host.governor.member("d0").unwrap();
    assert_eq!(m.subscriber.prefixes, ["172.16.0.0/32".parse().unwrap()]);
    assert_eq!(m.subscriber.plan.weight, 0.5);
    assert!(b.total("discover.taken") > 0);
    let class = m_class(&b, "d0");
    assert!(b.host.plane().rate(class, Direction::Down).is_some(), "limited from the start");
    // It lingers, then goes.
    b.pass(500);
    b.host.discovered(b.now, Vec::new());
    assert!(b.host.governor.member("d0").is_ok());
    b.pass(200);
    b.host.discovered(b.now, Vec::new());
    assert!(b.host.governor.member("d0").is_err());
}

/// The configuration assigns 10.0.1.0/24 to a subscriber, and so each of its addresses.
#[test]
fn discovered_subscribers_cannot_take_parts_of_configured_prefixes() {
    let extra = "[discover]\nroutes = true";
    let mut b = Bench::new(&config(2, "apply", "pfrc", extra));
    let mut thief = found(0..2);
    thief[0].prefixes = vec!["10.0.1.7/32".parse().unwrap()];
    // A prefix around it is permitted: the longer of two prefixes decides.
    thief[1].prefixes = vec!["10.0.0.0/16".parse().unwrap()];
    b.host.discovered(b.now, thief);
    assert!(b.host.governor.member("d0").is_err());
    assert!(b.host.governor.member("d1").is_ok());
    assert_eq!(b.total("discover.taken"), 1);
    // An earlier owner loses it when the configuration assigns it to another subscriber.
    let mut early = found(5..6);
    early[0].prefixes = vec!["10.0.3.7/32".parse().unwrap()];
    b.host.discovered(b.now, early);
    assert!(b.host.governor.member("d5").is_ok());
    b.host.reload(b.now, &config(4, "apply", "pfrc", extra)).unwrap();
    assert!(b.host.governor.member("d5").is_err());
}

#[test]
fn a_hundred_thousand_addresses_are_taken_within_bounds() {
    let extra = "[discover]\nroutes = true\nmost = 1000";
    let mut b = Bench::new(&config(2, "apply", "fifo", extra));
    let mut many = found(0..100_000);
    for (i, s) in many.iter_mut().enumerate() {
        let [_, x, y, z] = (i as u32).to_be_bytes();
        s.prefixes = vec![format!("172.{}.{y}.{z}/32", 16 + x).parse().unwrap()];
    }
    b.host.discovered(b.now, many.clone());
    assert_eq!(b.host.governor.members().len(), 1002);
    assert_eq!(b.total("discover.full"), 99_000);
    // All of them belong to one subscriber.
    let all = many.iter().flat_map(|s| s.prefixes.clone()).collect();
    let greedy = Subscriber { name: "greedy".into(), prefixes: all, ..many[0].clone() };
    let mut b = Bench::new(&config(2, "apply", "fifo", extra));
    b.host.discovered(b.now, vec![greedy]);
    assert_eq!(b.host.governor.member("greedy").unwrap().subscriber.prefixes.len(), 1024);
    assert_eq!(b.total("discover.addresses"), 1);
}

/// Discovered subscribers are found again only after a restart.
#[test]
fn an_override_waits_for_a_subscriber_that_is_not_here_yet() {
    let mut b =
        Bench::new(&config(1, "apply", "fifo", "[discover]\nroutes = true\nlinger = \"1 s\""));
    let value = |seconds| Override {
        rate: Some(BitRate(500_000)),
        until: Time::ZERO + Span::from_secs(seconds),
    };
    b.host.governor.restore_override(b.now, "d0", Direction::Down, value(100));
    b.host.governor.restore_override(b.now, "d1", Direction::Up, value(5));
    assert_eq!(b.host.governor.overrides().count(), 2);
    b.pass(10);
    assert_eq!(b.host.governor.overrides().count(), 1, "its time is up");
    b.host.discovered(b.now, found(0..2));
    b.pass(2);
    let class = m_class(&b, "d0");
    assert_eq!(b.host.plane().rate(class, Direction::Down), Some(BitRate(504_667)));
    // Briefly absent and back: the override is still its own.
    b.host.discovered(b.now, Vec::new());
    assert!(b.host.governor.member("d0").is_err());
    assert_eq!(b.host.governor.overrides().count(), 1);
    b.host.discovered(b.now, found(0..1));
    b.pass(2);
    let class = m_class(&b, "d0");
    assert_eq!(b.host.plane().rate(class, Direction::Down), Some(BitRate(504_667)));
    b.pass(100);
    assert_eq!(b.host.plane().rate(class, Direction::Down), None);
}

fn m_class(b: &Bench, name: &str) -> u16 {
    b.host.governor.member(name).unwrap().class.0
}

#[test]
fn an_override_goes_before_everything_and_ends_by_itself() {
    let mut b = Bench::new(&config(2, "apply", "pfrc", ""));
    b.demand(6e6);
    b.pass(30);
    let until = b.now + Span::from_secs(60);
    let value = Override { rate: Some(BitRate(500_000)), until };
    b.host.governor.set_override(b.now, " s1 ", &[Direction::Down], Some(value)).unwrap();
    b.host.poll(b.now);
    assert_eq!(b.host.plane().rate(2, Direction::Down), Some(BitRate(504_667)));
    b.pass(59);
    assert_eq!(b.host.plane().rate(2, Direction::Down), Some(BitRate(504_667)));
    b.pass(2);
    assert_ne!(b.host.plane().rate(2, Direction::Down), Some(BitRate(504_667)));
    assert_eq!(b.total("override.ended"), 1);
    let why = &b.host.governor.member("s1").unwrap().directions[0].change;
    assert_eq!(why.as_ref().unwrap().why.code(), "override.ended");
    assert!(b.host.governor.set_override(b.now, "nobody", &[Direction::Up], None).is_err());
}

#[test]
fn a_reload_changes_only_changed_keys() {
    let mut b = Bench::new(&config(4, "apply", "pfrc", ""));
    b.demand(6e6);
    b.pass(300);
    let before = b.limits();
    let (installs, relayouts) = (b.host.plane().installs, b.host.plane().relayouts);
    b.host.reload(b.now, &config(4, "apply", "pfrc", "")).unwrap();
    b.host.poll(b.now);
    assert_eq!(b.limits(), before, "the same configuration");
    assert_eq!((b.host.plane().installs, b.host.plane().relayouts), (installs, relayouts));
    // No limit passes through "none" or an initial value on the way.
    b.host.reload(b.now, &config(5, "apply", "pfrc", "")).unwrap();
    b.host.poll(b.now);
    assert_eq!(b.limits()[..4], before);
    assert_eq!(b.host.plane().relayouts, relayouts + 1);
    // Refused: changes that need a restart, and those that the control refuses.
    let mut other = config(5, "apply", "pfrc", "");
    other.layout.queue = 7;
    assert!(b.host.reload(b.now, &other).unwrap_err().to_string().starts_with("shaping.queue: "));
    let mut greedy = config(5, "apply", "pfrc", "");
    greedy.subscribers[0].plan.down.guarantee = Some(BitRate(9_000_000));
    greedy.mode = Mode::Observe;
    assert!(b.host.reload(b.now, &greedy).unwrap_err().to_string().contains("guarantees"));
    b.host.poll(b.now);
    assert_eq!(b.limits()[..4], before);
    // To observing: limits are lifted, nothing else happens.
    b.host.reload(b.now, &config(5, "observe", "pfrc", "")).unwrap();
    b.host.poll(b.now);
    assert!(b.host.plane().free());
    assert_eq!(b.host.plane().installs, installs);
}

/// A restart begins at the level of the last run, not at the lower bound.
#[test]
fn the_learned_rate_survives_a_restart() {
    for control in ["pfrc", "arc-fq", "fifo"] {
        let mut b = Bench::new(&config(4, "apply", control, ""));
        b.demand(6e6);
        b.pass(400);
        let Some(learned) = b.host.governor.learned() else {
            assert_eq!(control, "fifo");
            continue;
        };
        let mut again = Bench::new(&config(4, "apply", control, ""));
        let fresh = again.host.governor.learned().unwrap();
        assert!(fresh.0 * 3 / 2 < learned.0, "{control}: {fresh} {learned}");
        again.host.governor.recall(Time::ZERO, learned);
        again.host.poll(Time::ZERO);
        assert_eq!(again.host.governor.learned(), Some(learned));
        assert_eq!(
            again.total(if control == "pfrc" { "pfrc.recalled" } else { "arc-fq.recalled" }),
            1
        );
        again.demand(6e6);
        again.pass(40);
        let now = again.host.governor.learned().unwrap().0 as f64;
        assert!((now / learned.0 as f64 - 1.0).abs() < 0.3, "{control}: {now} {learned}");
        // An impossible value is reduced to the capacity of the links.
        again.host.governor.recall(again.now, BitRate(u64::MAX));
        assert!(again.host.governor.learned().unwrap() <= BitRate(10_000_000));
    }
}

#[test]
fn a_stop_leaves_no_limit() {
    for remove in [false, true] {
        let mut b = Bench::new(&config(3, "apply", "pfrc", ""));
        b.demand(6e6);
        b.pass(30);
        b.host.stop(b.now, remove).unwrap();
        assert!(b.host.plane().free());
        assert_eq!(b.host.plane().installed, !remove);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// After any sequence of faults no class is ever stopped.
    ///
    /// Limits apply only while the daemon runs and applies, and after a time without faults it runs again.
    #[test]
    fn limits_return_after_any_sequence_of_faults(
        control in prop::sample::select(vec![
            "pfrc", "pfrc+bursts", "pfrc+constrained", "pfrc+exponential", "arc-fq", "arc-fq+exponential", "fifo",
        ]),
        steps in prop::collection::vec((0..15_u8, 0..40_u64), 1..40),
    ) {
        let extra = "[discover]\nroutes = true\nmost = 20\nlinger = \"5 s\"";
        let mut b = Bench::new(&config(3, "apply", control, extra));
        b.demand(6e6);
        for (what, seconds) in steps {
            let p = b.host.plane();
            match what {
                0 => p.broken = Broken::Nothing,
                1 => p.broken = Broken::Stuck,
                2 => p.broken = Broken::Missing,
                3 => p.broken = Broken::Absurd,
                4 => p.broken = Broken::Backwards,
                5 => p.broken = Broken::Sample,
                6 => p.broken = Broken::Apply,
                7 => p.broken = Broken::ApplyAndRelease,
                8 => p.broken = Broken::Interface,
                12 => p.broken = Broken::Rules,
                13 => p.broken = Broken::RulesAgain,
                14 => p.broken = Broken::Renew,
                9 => b.host.discovered(b.now, found(0..seconds as u32)),
                10 => {
                    let mode = if seconds % 2 == 0 { "apply" } else { "observe" };
                    let _ = b.host.reload(b.now, &config(1 + seconds as usize % 5, mode, control, extra));
                }
                _ => b.host.link(b.now, "bat0", seconds % 2 == 0),
            }
            // As the daemon does after every message.
            b.host.poll(b.now);
            b.pass(seconds);
            if b.host.phase() != Phase::Running || b.host.governor.mode() == Mode::Observe {
                prop_assert!(b.host.plane().broken == Broken::Interface || b.host.plane().free());
            }
        }
        b.host.plane().broken = Broken::Nothing;
        b.host.reload(b.now, &config(3, "apply", control, extra)).unwrap();
        b.demand(6e6);
        b.pass(120);
        prop_assert_eq!(b.host.phase(), Phase::Running);
        prop_assert!(control == "fifo" || !b.host.plane().free());
    }
}

/// A new subscriber may need another classifier, and a check may find a faulty one.
///
/// Each is reported once.
#[test]
fn a_changed_classifier_is_reported_once() {
    let mut b = Bench::new(&config(4, "apply", "pfrc", ""));
    b.demand(6e6);
    b.pass(10);
    let messages = |b: &Bench| {
        let all = b.host.governor.journal.recent();
        all.filter(|n| n.code == "classifier.changed").map(|n| n.text.clone()).collect::<Vec<_>>()
    };
    let shown =
        |b: &Bench| report::status_text(&report::status(&b.host, b.now, Default::default()));
    assert!(shown(&b).contains("classified by: priority (down), priority (up)\n"), "{}", shown(&b));
    b.host.reload(b.now, &config(5, "apply", "pfrc", "")).unwrap();
    b.host.plane().marks = true;
    assert!(messages(&b).is_empty());
    b.host.poll(b.now);
    let up = "up: packets are classified by mark (bpf), no longer by priority";
    assert_eq!(messages(&b), [up]);
    assert!(shown(&b).contains("classified by: priority (down), mark (bpf) (up)\n"));
    b.host.verify();
    assert_eq!(messages(&b), [up], "reported once");
    b.host.plane().marks = false;
    b.host.verify();
    assert_eq!(messages(&b).len(), 2);
}

/// Ineffective limits are reported as such, once, and so is their recovery.
#[test]
fn ineffective_limits_are_reported_as_degraded() {
    let mut b = Bench::new(&config(2, "apply", "pfrc", ""));
    b.pass(10);
    assert_eq!((b.host.phase_name(), b.host.faults().len()), ("running", 0));
    let port = |sent: u64| Deviation::Bypassed { direction: Direction::Down, sent, shaped: 0 };
    b.host.plane().deviations = vec![port(1)];
    b.pass(5);
    assert_eq!(b.host.phase_name(), "degraded");
    assert!(b.host.faults()[0].contains("of which 0 passed"), "{:?}", b.host.faults());
    b.host.plane().deviations = vec![port(2)];
    b.pass(20);
    assert_eq!(b.total("traffic.bypasses"), 1, "one event however long it lasts");
    b.host.plane().deviations.clear();
    b.pass(5);
    assert_eq!((b.host.phase_name(), b.total("limits.act")), ("running", 1));
    // A fault that the plane has repaired is an event and no state.
    let limits = Deviation::Limits { direction: Direction::Up, classes: 3 };
    b.host.plane().deviations = vec![limits];
    b.pass(1);
    b.host.plane().deviations.clear();
    b.pass(3);
    assert!(b.total("limits.changed") <= 1 && b.host.phase_name() == "running");
}

/// A program that hangs blocks neither the loop nor the limits in force.
#[test]
fn a_hung_program_is_reported_and_waited_for() {
    let mut b = Bench::new(&config(2, "apply", "pfrc", ""));
    b.demand(6e6);
    b.pass(60);
    b.host.plane().busy = true;
    let mut more = config(3, "apply", "pfrc", "");
    more.discover = None;
    let now = b.now;
    b.host.reload(now, &more).unwrap();
    let looks = b.host.plane().looks;
    b.pass(30);
    assert_eq!(b.host.phase_name(), "degraded");
    assert!(b.host.faults()[0].contains("nft has not ended"), "{:?}", b.host.faults());
    assert_eq!(b.total("program.busy"), 1);
    assert!(b.host.plane().looks > looks && !b.host.plane().free(), "the loop goes on");
    b.host.plane().busy = false;
    b.pass(5);
    assert_eq!(b.host.phase_name(), "running");
    assert_eq!(b.host.plane().layout.as_ref().unwrap().subscribers.len(), 3);
}
