//! The governor alone: counters and time in, limits and events out.
//!
//! Covers also its parts: a meter, the plausibility of counters, the control's view.

use fairmesh_linux::{ClassCounters, ClassId, Direction, IpNet, RateChange, SentCounters, Slot};
use fairmesh_units::{BitRate, FlowId, Span, Time};

use super::direction::{MAX_FAULTS, MeterResult};
use super::*;

mod aggregate;
mod members;

const HEADER: u64 = 14;

fn text(n: usize, control: &str, extra: &str) -> String {
    let mut text = format!(
        "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n\
         [control]\nuse = \"{control}\"\n[[neighbour]]\nname = \"n\"\ncapacity = \"10 Mbit/s\"\n{extra}\n"
    );
    for i in 0..n {
        text += &format!("[[subscriber]]\nname = \"s{i}\"\nprefixes = [\"10.0.{i}.0/24\"]\n");
    }
    text
}

fn config(n: usize, control: &str, extra: &str) -> Config {
    Config::parse("test.toml", &text(n, control, extra)).unwrap()
}

fn governor(config: &Config) -> Governor {
    let mut g = Governor::new(config, ClassIds::default(), Time::ZERO).unwrap();
    g.laid_out();
    g
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn down(class: u16) -> Slot {
    Slot { class: ClassId(class), direction: Direction::Down }
}

fn up(class: u16) -> Slot {
    Slot { class: ClassId(class), direction: Direction::Up }
}

fn counted(slot: Slot, bytes: u64, packets: u64) -> ClassCounters {
    ClassCounters {
        slot,
        bytes,
        packets,
        drops: 0,
        overlimits: 0,
        backlog_packets: 0,
        backlog_bytes: 0,
    }
}

fn sent(bytes: u64, unmapped: u64, bypass: u64) -> Option<SentCounters> {
    Some(SentCounters { bytes, unmapped, bypass })
}

/// Returns the changes for the kernel, and confirms them.
fn take_changes(g: &mut Governor) -> Vec<RateChange> {
    let mut out = Vec::new();
    g.changes(&mut out);
    g.applied();
    out
}

fn rate(bits: u64) -> Option<BitRate> {
    Some(BitRate(bits))
}

// --- Numbers ------------------------------------------------------------------------------------

#[test]
fn flows_are_classes_and_directions() {
    assert_eq!((flow(down(3)), flow(up(3))), (FlowId(6), FlowId(7)));
    assert_eq!((slot(FlowId(6)), slot(FlowId(7))), (down(3), up(3)));
    assert_eq!((Direction::Down.index(), Direction::Up.index()), (0, 1));
    assert_eq!((direction_name(0), direction_name(1)), ("down", "up"));
    let g = governor(&config(2, "fifo", ""));
    let classes: Vec<u16> = g.members().iter().map(|m| m.class.0).take(2).collect();
    assert_eq!(classes, [1, 2]);
    assert_eq!(g.member(" s1 ").unwrap().class.0, 2);
    assert_eq!(g.member("s2").unwrap_err(), UnknownSubscriber("s2".into()));
    assert_eq!(g.class_ids().known("s1"), Some(ClassId(2)));
    assert_eq!(g.mode(), Mode::Apply);
    assert_eq!(g.mechanism().to_string(), "fifo");
}

#[test]
fn names_of_causes_are_stable() {
    let faults = [Fault::Missing, Fault::Backwards, Fault::Absurd];
    let codes = faults.map(Fault::code);
    assert_eq!(codes, ["counter.missing", "counter.backwards", "counter.absurd"]);
    let words = faults.map(Fault::description);
    assert!(
        words[0].contains("no counter")
            && words[1].contains("decreased")
            && words[2].contains("more")
    );
    let limiters =
        [Limiter::Nothing, Limiter::Control, Limiter::Aggregate, Limiter::Plan, Limiter::Override];
    assert_eq!(
        limiters.map(Limiter::name),
        ["nothing", "control", "aggregate", "plan", "override"]
    );
    let codes = [
        LimitReason::Start,
        LimitReason::Override("o"),
        LimitReason::Safety("s"),
        LimitReason::Reload,
        LimitReason::Links,
    ];
    assert_eq!(codes.map(|w| w.code().to_owned()), ["start", "o", "s", "reload", "links"]);
}

// --- A meter ------------------------------------------------------------------------------------

/// Returns a meter that has seen 10 packets of 1014 bytes at second 10.
fn meter() -> Meter {
    let mut m = Meter::default();
    assert_eq!(m.sample(at(10), &counted(down(1), 10_140, 10), 1 << 20, HEADER), MeterResult::Base);
    m
}

#[test]
fn a_meter_counts_ip_bytes_from_its_first_look_on() {
    let mut m = meter();
    assert_eq!((m.bytes, m.packets, m.rate, m.known()), (0, 0, None, true));
    let mut c = counted(down(1), 10_140 + 2_028, 12);
    (c.drops, c.overlimits, c.backlog_bytes) = (3, 5, 77);
    assert_eq!(m.sample(at(12), &c, 1 << 20, HEADER), MeterResult::Moved(2_028));
    assert_eq!((m.bytes, m.packets, m.drops, m.overlimits, m.backlog), (2_000, 2, 3, 5, 77));
    // 2,000 bytes in 2 s.
    assert_eq!(m.rate, rate(8_000));
    // A sample at the same instant has no rate; a sample without traffic is valid.
    assert_eq!(m.sample(at(12), &c, 1 << 20, HEADER), MeterResult::Moved(0));
    assert_eq!(m.rate, None);
    assert_eq!(m.sample(at(13), &c, 1 << 20, HEADER), MeterResult::Moved(0));
    assert_eq!((m.rate, m.bytes), (rate(0), 2_000));
    // Decreasing counters of drops do not make the bytes implausible.
    c.drops = 1;
    assert_eq!(m.sample(at(14), &c, 1 << 20, HEADER), MeterResult::Moved(0));
    assert_eq!(m.drops, 3);
}

#[test]
fn a_meter_rejects_implausible_counters() {
    for (bytes, packets, fault) in [
        (10_139, 10, Fault::Backwards),
        (10_140, 9, Fault::Backwards),
        (10_140 + 1_001, 11, Fault::Absurd),
    ] {
        let mut m = meter();
        let look = m.sample(at(11), &counted(down(1), bytes, packets), 1_000, HEADER);
        assert_eq!(look, MeterResult::Bad(fault));
        assert_eq!((m.bytes, m.packets, m.rate, m.fault), (0, 0, None, Some(fault)));
        assert!(!m.known() && !m.distrusted(), "once is not enough");
        // The next sample begins after the implausible one, and is good again.
        let look = m.sample(at(12), &counted(down(1), bytes + 500, packets + 1), 1_000, HEADER);
        assert_eq!(look, MeterResult::Moved(500));
        assert!(m.known() && m.fault.is_none() && m.bytes == 486);
    }
    // The largest possible increase is plausible.
    let mut m = meter();
    assert_eq!(
        m.sample(at(11), &counted(down(1), 11_140, 11), 1_000, HEADER),
        MeterResult::Moved(1_000)
    );
}

#[test]
fn a_meter_is_distrusted_at_the_second_fault_in_a_row() {
    let mut m = meter();
    for faults in 1..=3_u8 {
        let look =
            m.sample(at(10), &counted(down(1), 9_000 - u64::from(faults), 5), 1 << 20, HEADER);
        assert_eq!(look, MeterResult::Bad(Fault::Backwards));
        assert_eq!(m.distrusted(), faults >= MAX_FAULTS);
    }
    m.rebase();
    assert!(m.rate.is_none() && !m.known());
    assert_eq!(m.sample(at(11), &counted(down(1), 5, 1), 1 << 20, HEADER), MeterResult::Base);
    assert!(m.known() && !m.distrusted(), "the class was created again");
}

#[test]
fn a_meter_reports_a_missing_class() {
    let mut m = Meter::default();
    assert_eq!(m.close(), None, "a class that is being made");
    let mut m = meter();
    assert_eq!(m.close(), None, "it was sampled");
    assert_eq!(m.close(), Some(Fault::Missing));
    assert!(!m.distrusted());
    assert_eq!(m.close(), Some(Fault::Missing));
    assert!(m.distrusted() && m.fault == Some(Fault::Missing));
    // After a fault it counts as missing even though it was created again.
    m.rebase();
    assert_eq!(m.close(), Some(Fault::Missing));
}

// --- Plausibility -------------------------------------------------------------------------------

const SLACK: u64 = 256 * 1024;

#[test]
fn a_class_cannot_have_moved_more_than_its_interface() {
    let mut p = Plausibility::default();
    p.look(at(10), [sent(1_000_000, 0, 0), None]);
    assert_eq!((p.credible(0), p.credible(1)), (SLACK, SLACK), "no time has passed");
    p.look(at(11), [sent(1_400_000, 0, 0), None]);
    assert_eq!(p.credible(0), 500_000 + SLACK, "and a quarter more");
    assert_eq!(p.credible(1), 125_000_000_000 + SLACK, "1 Tbit/s if unknown");
    // An interface with a counter above any possible rate.
    p.look(at(12), [sent(u64::MAX, 0, 0), None]);
    assert_eq!(p.credible(0), 125_000_000_000 + SLACK);
    // An interface with a decreasing counter was created again: nothing is known.
    p.look(at(13), [sent(5, 0, 0), None]);
    assert_eq!(p.credible(0), 125_000_000_000 + SLACK);
}

/// Judges one sample per second of a direction.
///
/// Each round has the bytes and counts of its classes.
fn looks(rounds: &[(u64, u64, u32, u32, u64)]) -> Vec<Sanity> {
    let mut p = Plausibility::default();
    let (mut total, mut nobodys) = (0, 0);
    p.look(at(0), [sent(0, 0, 0), sent(0, 0, 0)]);
    let one = |(i, (others, unmapped, good, bad, moved)): (usize, &(u64, u64, u32, u32, u64))| {
        total += others + unmapped;
        nobodys += unmapped;
        let half = nobodys / 2;
        p.look(at(i as u64 + 1), [sent(total, half, nobodys - half), sent(0, 0, 0)]);
        for n in 0..*good {
            p.moved(0, if n == 0 { *moved } else { 0 });
        }
        for _ in 0..*bad {
            p.bad(0);
        }
        p.judge()
    };
    rounds.iter().enumerate().map(one).collect()
}

#[test]
fn classes_that_stand_still_while_the_interface_sends_are_stuck_at_the_second_look() {
    let still = (1_000_000, 0, 2, 0, 0);
    assert_eq!(looks(&[still, still, still]), [Sanity::Doubtful, Sanity::Stuck, Sanity::Stuck]);
    let moves = (1_000_000, 0, 2, 0, 1);
    assert_eq!(looks(&[still, moves, still]), [Sanity::Doubtful, Sanity::Sane, Sanity::Doubtful]);
    // Unmapped traffic, little traffic, or no class with a valid counter: no fault.
    for fine in
        [(0, 1_000_000, 2, 0, 0), (65_536, 0, 2, 0, 0), (0, 0, 2, 0, 0), (1_000_000, 0, 0, 0, 0)]
    {
        assert_eq!(looks(&[fine, fine]), [Sanity::Sane, Sanity::Sane], "{fine:?}");
    }
    // A tenth above the threshold.
    let limit = 65_536 * 10 / 9;
    let (little, enough) = ((limit - 10, 0, 2, 0, 0), (limit + 10, 0, 2, 0, 0));
    assert_eq!(looks(&[little, little]), [Sanity::Sane, Sanity::Sane]);
    assert_eq!(looks(&[enough, enough]), [Sanity::Doubtful, Sanity::Stuck]);
}

/// The first counter of a class gives no increase, so the interface's traffic may be its own.
#[test]
fn traffic_of_new_classes_is_no_fault() {
    let mut p = Plausibility::default();
    p.look(at(0), [sent(0, 0, 0), sent(0, 0, 0)]);
    let mut sample = |second: u64, new: u32| {
        p.look(at(second), [sent(second * 1_000_000, 0, 0), sent(0, 0, 0)]);
        p.moved(0, 0);
        (0..new).for_each(|_| p.based(0));
        p.judge()
    };
    let verdicts = [0, 1, 0].into_iter().zip(1..).map(|(new, second)| sample(second, new));
    // A new class neither adds to a suspicion nor ends it.
    assert_eq!(verdicts.collect::<Vec<_>>(), [Sanity::Doubtful, Sanity::Sane, Sanity::Stuck]);
}

#[test]
fn most_counters_bad_is_nonsense_at_the_second_look() {
    let bad = (0, 0, 1, 2, 0);
    assert_eq!(looks(&[bad, bad]), [Sanity::Doubtful, Sanity::Nonsense]);
    let half = (0, 0, 2, 2, 10);
    assert_eq!(looks(&[half, half]), [Sanity::Sane, Sanity::Sane]);
    assert_eq!(looks(&[bad, half, bad]), [Sanity::Doubtful, Sanity::Sane, Sanity::Doubtful]);
    // A counter that begins is not a bad one.
    let mut p = Plausibility::default();
    for second in 0..3 {
        p.look(at(second), [None, None]);
        p.bad(1);
        p.based(1);
        assert_eq!(p.judge(), Sanity::Sane);
    }
    // The worse of two directions counts.
    for second in 3..5 {
        p.look(at(second), [None, None]);
        p.bad(1);
        p.moved(0, 5);
        assert_eq!(p.judge(), if second == 3 { Sanity::Doubtful } else { Sanity::Nonsense });
    }
}

#[test]
fn downstreams_part_follows_by_halves() {
    let mut p = Plausibility::default();
    p.look(at(0), [None, None]);
    p.moved(0, 65_535);
    assert_eq!(p.part(0, 0.5), 0.5, "too few bytes for a verdict");
    p.moved(0, 34_465);
    p.moved(1, 300_000);
    assert_eq!(p.part(0, 0.5), 0.375, "between a half and a quarter");
    assert_eq!(p.part(1, 0.5), 0.625);
}

// --- Limits -------------------------------------------------------------------------------------

#[test]
fn a_limit_is_sent_once_in_frames_and_rounded_up() {
    let mut config = config(2, "fifo", "");
    config.subscribers[0].plan.down.ceiling = rate(1_000_000);
    config.subscribers[1].plan.up.ceiling = rate(2_000_000);
    let mut g = governor(&config);
    g.set_headers(14, 0);
    let first = take_changes(&mut g);
    // 1 Mbit/s in packets of 1500 bytes are 1,009,333 bit/s and a third in frames of 1514.
    let expected = [(down(1), rate(1_009_334)), (up(2), rate(2_000_000))];
    assert_eq!(first, expected.map(|(slot, rate)| RateChange { slot, rate }));
    assert_eq!(take_changes(&mut g), [], "nothing is new");
    // A change that was sent and not confirmed is sent again.
    g.forget_limits();
    let mut out = Vec::new();
    g.changes(&mut out);
    let again = out.len();
    g.changes(&mut out);
    assert_eq!(out.len(), again, "not applied yet");
    assert!(again >= 6, "all classes and both aggregates: {again}");
    g.applied();
    assert_eq!(take_changes(&mut g), []);
    // After limits were lifted from outside they are sent again, but only those of limited classes.
    g.released();
    assert_eq!(take_changes(&mut g), first);
}

#[test]
fn a_subscriber_without_class_gets_no_limit() {
    let mut config = config(1, "fifo", "");
    config.subscribers[0].plan.down.ceiling = rate(1_000_000);
    let mut g = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
    assert!(g.layout_changed());
    assert_eq!(take_changes(&mut g), []);
    assert!(g.layout().subscribers.iter().any(|s| s.class == ClassId(1) && s.turn == 1514));
    assert_eq!(g.base_layout().subscribers, []);
    g.laid_out();
    assert!(!g.layout_changed());
    assert_eq!(take_changes(&mut g).len(), 1);
}

/// Weights below 1 keep their ratio; a ratio beyond the range of quanta is reported.
#[test]
fn turns_have_the_ratio_of_the_weights() {
    let turns = |g: &Governor| {
        let all = g.layout().subscribers.into_iter();
        all.filter(|s| s.class.0 <= 3).map(|s| s.turn).collect::<Vec<_>>()
    };
    let text = text(3, "static-fq", "")
        .replace("prefixes", "fair_down = \"1 Mbit/s\"\nfair_up = \"1 Mbit/s\"\nprefixes");
    let mut config = Config::parse("test.toml", &text).unwrap();
    for (s, weight) in config.subscribers.iter_mut().zip([0.5, 1.0, 2.0]) {
        s.plan.weight = weight;
    }
    let mut g = governor(&config);
    assert_eq!(turns(&g), [1514, 3028, 6056]);
    assert_eq!(g.journal.total("weights.raised"), 0);
    config.subscribers[0].plan.weight = 0.01;
    config.subscribers[2].plan.weight = 50.0;
    g.reload(&config, at(1)).unwrap();
    assert!(g.layout_changed());
    assert_eq!(turns(&g), [1514, 3028, 151_400]);
    assert_eq!(g.journal.total("weights.raised"), 1);
}

#[test]
fn observing_and_faults_are_free() {
    let mut config = config(1, "fifo", "");
    config.subscribers[0].plan.down.ceiling = rate(1_000_000);
    let mut g = governor(&config);
    assert_eq!(take_changes(&mut g).len(), 1);
    assert_eq!(g.suspension(), Suspension::None);
    g.suspend(Suspension::Fault("x"));
    assert_eq!(g.suspension(), Suspension::Fault("x"));
    assert_eq!(take_changes(&mut g), [RateChange { slot: down(1), rate: None }]);
    g.suspend(Suspension::None);
    assert_eq!(take_changes(&mut g).len(), 1);
    config.mode = Mode::Observe;
    g.reload(&config, at(1)).unwrap();
    assert_eq!(take_changes(&mut g), [RateChange { slot: down(1), rate: None }]);
    // The intended limit is still known.
    let m = g.member("s0").unwrap();
    assert_eq!(g.meant(m, 0), (rate(1_000_000), Limiter::Plan));
    assert_eq!(g.meant(m, 1), (None, Limiter::Nothing));
}

/// A distrusted meter lifts the limit of its own class and no other.
#[test]
fn a_class_that_cannot_be_counted_is_not_limited() {
    let mut config = config(2, "fifo", "");
    for s in &mut config.subscribers {
        s.plan.down.ceiling = rate(1_000_000);
    }
    let mut g = governor(&config);
    assert_eq!(take_changes(&mut g).len(), 2);
    let all = |bytes: u64| {
        [down(1), up(1), down(2), up(2)]
            .map(|slot| counted(slot, if slot == down(2) { bytes } else { 5_000 }, 5))
    };
    g.sample(at(1), &all(9_000), [None, None]);
    assert_eq!(g.sample(at(2), &all(8_000), [None, None]), Sanity::Sane);
    assert_eq!(take_changes(&mut g), [], "once is not enough");
    assert_eq!(g.journal.total("counter.backwards"), 1);
    g.sample(at(3), &all(7_000), [None, None]);
    assert_eq!(take_changes(&mut g), [RateChange { slot: down(2), rate: None }]);
    let notice = g.journal.take().pop().unwrap();
    assert_eq!(notice.text, "\"s1\" (down) has a counter that decreased");
    g.sample(at(4), &all(7_500), [None, None]);
    assert_eq!(take_changes(&mut g).len(), 1, "limited again");
    // Not part of the sample.
    g.sample(at(5), &all(7_500)[..2], [None, None]);
    g.sample(at(6), &all(7_500)[..2], [None, None]);
    assert_eq!(g.journal.total("counter.missing"), 4);
    let freed = take_changes(&mut g);
    assert_eq!(freed, [RateChange { slot: down(2), rate: None }]);
    // Created again: counters restart without a fault.
    g.reinstalled();
    g.sample(at(7), &all(3), [None, None]);
    assert_eq!(g.journal.total("counter.backwards"), 2);
    assert_eq!(take_changes(&mut g).len(), 2, "all limits are set on new classes");
}

#[test]
fn an_override_goes_first_then_plan_then_control() {
    let fair = "fair_down = \"3 Mbit/s\"\nfair_up = \"3 Mbit/s\"\n";
    let mut config = Config::parse("t", &(text(1, "static-flow", "") + fair)).unwrap();
    let limit_of = |config: &Config| {
        let g = governor(config);
        let m = g.member("s0").unwrap();
        g.meant(m, 0)
    };
    let control = limit_of(&config);
    assert_eq!(control.1, Limiter::Control);
    let fair = control.0.unwrap().0;
    assert!(fair >= 3_000_000, "{fair} in IP bytes");
    let plan = &mut config.subscribers[0].plan.down;
    plan.ceiling = rate(fair + 1);
    assert_eq!(limit_of(&config), (rate(fair), Limiter::Control));
    config.subscribers[0].plan.down.ceiling = rate(fair);
    assert_eq!(limit_of(&config), (rate(fair), Limiter::Plan), "the same is the plan's");
    config.subscribers[0].plan.down.ceiling = rate(1_000_000);
    assert_eq!(limit_of(&config), (rate(1_000_000), Limiter::Plan));

    let mut g = governor(&config);
    take_changes(&mut g);
    let value = Override { rate: None, until: at(50) };
    g.set_override(at(1), "s0", &[Direction::Down], Some(value)).unwrap();
    let m = g.member("s0").unwrap();
    assert_eq!(g.meant(m, 0), (None, Limiter::Override));
    assert_ne!(g.meant(m, 1).1, Limiter::Override);
    let change = m.directions[0].change.clone().unwrap();
    assert_eq!((change.at, change.from, change.to), (at(1), rate(1_000_000), None));
    assert_eq!(change.why, LimitReason::Override("override"));
    assert!(g.next_deadline() <= at(50));
    assert_eq!(take_changes(&mut g), [RateChange { slot: down(1), rate: None }]);
    // It ends at its time, not before.
    g.tick(at(49));
    assert_eq!(take_changes(&mut g), []);
    g.tick(at(50));
    assert_eq!(take_changes(&mut g).len(), 1);
    assert_eq!(g.journal.total("override.ended"), 1);
    assert_eq!(g.journal.take().pop().unwrap().text, "the override of \"s0\" (down) has ended");
    let change = g.member("s0").unwrap().directions[0].change.clone().unwrap();
    assert_eq!(change.why, LimitReason::Override("override.ended"));
    // Or when it is cleared.
    let value = Override { rate: rate(5_000), until: at(500) };
    g.set_override(at(60), "s0", &Direction::BOTH, Some(value)).unwrap();
    assert_eq!(g.overrides().count(), 2);
    g.set_override(at(61), "s0", &Direction::BOTH, None).unwrap();
    let change = g.member("s0").unwrap().directions[0].change.clone().unwrap();
    assert_eq!(change.why, LimitReason::Override("override.cleared"));
    assert_eq!(g.overrides().count(), 0);
}

#[test]
fn deadlines_are_looks_and_ends_of_overrides() {
    let mut g = governor(&config(1, "fifo", "[shaping]\nsample = \"30 s\""));
    assert_eq!((g.next_sample(), g.next_deadline()), (Time::ZERO, Time::ZERO), "at once");
    g.sample(at(5), &[], [None, None]);
    assert_eq!((g.next_sample(), g.next_deadline()), (at(35), at(35)));
    let value = Override { rate: None, until: at(20) };
    g.set_override(at(6), "s0", &[Direction::Up], Some(value)).unwrap();
    assert_eq!((g.next_sample(), g.next_deadline()), (at(35), at(20)));
    g.blind(at(7));
    assert_eq!(g.next_sample(), at(37));
    // A control's deadline is first if it is sooner.
    let extra = "[shaping]\nsample = \"30 s\"";
    let mut g = governor(
        &Config::parse("t", &text(1, "pfrc", extra).replace("\n[[nei", "\nepoch = 4\n[[nei"))
            .unwrap(),
    );
    g.sample(Time::ZERO, &[], [None, None]);
    assert_eq!(g.next_sample(), at(4));
}

#[test]
fn a_guarantee_holds_against_the_control_and_gives_way_to_the_ceiling() {
    let mut config = config(4, "pfrc", "");
    config.subscribers[0].plan.down.guarantee = rate(1_500_000);
    let g = governor(&config);
    let of = |name: &str| g.meant(g.member(name).unwrap(), 0).0.unwrap().0;
    assert!(of("s0") >= 1_500_000, "{}", of("s0"));
    assert!(of("s1") < 1_500_000, "{}", of("s1"));
}

// --- The aggregate ------------------------------------------------------------------------------

#[test]
fn sentences_have_names_in_place_of_numbers() {
    use fairmesh_control::{Class, Reason, Value};
    let g = governor(&config(2, "fifo", ""));
    let explain = |sentence, values: &[Value]| g.explain(&Reason::new("x.y", sentence, values));
    let values = [Value::Flow(flow(up(2))), Value::Class(Class::Flow(flow(down(1))))];
    assert_eq!(explain("{} goes before {}.", &values), "\"s1\" (up) goes before \"s0\" (down).");
    assert_eq!(explain("nothing", &[]), "nothing");
    assert_eq!(explain("{}", &[Value::Flow(FlowId(99))]), "99", "an absent subscriber");
}

// --- The control's view -------------------------------------------------------------------------

/// Adds the given bytes and packets in each second; the control decides meanwhile.
fn run(g: &mut Governor, seconds: std::ops::Range<u64>, each: &[(Slot, u64, u64)]) {
    for second in seconds {
        let all: Vec<ClassCounters> = each
            .iter()
            .map(|(slot, bytes, packets)| counted(*slot, bytes * second, packets * second))
            .collect();
        let total = |d| all.iter().filter(|c| c.slot.direction == d).map(|c| c.bytes).sum();
        let interfaces = Direction::BOTH.map(|d| sent(total(d), 0, 0));
        assert_eq!(g.sample(at(second), &all, interfaces), Sanity::Sane);
        take_changes(g);
    }
}

#[test]
fn the_control_decides_by_samples_and_events_name_subscribers() {
    let mut g = governor(&config(2, "pfrc", ""));
    let start = g.meant(g.member("s0").unwrap(), 0).0;
    // One has ten times the traffic of the other.
    let each = [(down(1), 500_000, 340), (up(1), 0, 0), (down(2), 50_000, 34), (up(2), 0, 0)];
    run(&mut g, 0..60, &each);
    assert!(g.journal.total("pfrc.starved") > 0, "a starved subscriber");
    assert_ne!(g.meant(g.member("s0").unwrap(), 0).0, start);
    let take_changes: Vec<String> = g.journal.take().into_iter().map(|n| n.text).collect();
    assert!(take_changes.iter().any(|t| t.contains("\"s1\" (down)")), "{take_changes:?}");
    assert!(take_changes.iter().all(|t| !t.contains("{}")), "{take_changes:?}");
    let m = g.member("s0").unwrap();
    let change = m.directions[0].change.clone().unwrap();
    assert!(change.why.code().starts_with("pfrc."), "{change:?}");
    let LimitReason::Decision(reason) = &change.why else { panic!("{change:?}") };
    assert!(!g.explain(reason).contains("{}"));
    let rate = m.directions[0].meter.rate.unwrap().0;
    assert_eq!(rate, (500_000 - 340 * 14) * 8);
    assert!(g.learned().is_some());
}

/// Upstream traffic that does not respond to drops is marked as a flood.
///
/// It is counted, and reported as a warning.
#[test]
fn a_flood_is_named() {
    let mut g = governor(&config(3, "rtt", ""));
    let mut total = [[0_u64; 3]; 6];
    for second in 0..40_u64 {
        let mut all = Vec::new();
        for (k, total) in total.iter_mut().enumerate() {
            let slot = if k % 2 == 0 { down(k as u16 / 2 + 1) } else { up(k as u16 / 2 + 1) };
            let limit = g.meant(g.member(&format!("s{}", k / 2)).unwrap(), k % 2).0;
            let granted = limit.map_or(0, |l| l.0 / 12_112);
            // The first subscriber sends 400 packets a second from second 20 on, the others at their limits.
            let brings = match k {
                1 if second >= 20 => 400,
                1 => 0,
                _ => granted,
            };
            let passed = brings.min(granted);
            *total = [total[0] + 1514 * passed, total[1] + passed, total[2] + brings - passed];
            all.push(ClassCounters { drops: total[2], ..counted(slot, total[0], total[1]) });
        }
        let sum = |d| all.iter().filter(|c| c.slot.direction == d).map(|c| c.bytes).sum();
        let interfaces = Direction::BOTH.map(|d| sent(sum(d), 0, 0));
        assert_eq!(g.sample(at(second), &all, interfaces), Sanity::Sane);
        take_changes(&mut g);
        let named = g.floods(g.member("s0").unwrap(), 1);
        assert!(second >= 20 || !named, "{second}");
        assert!(second < 30 || named, "{second}");
    }
    assert_eq!(g.journal.total("rtt.flood"), 1);
    let floods = |s: &str, d| g.floods(g.member(s).unwrap(), d);
    assert!(!floods("s0", 0) && !floods("s1", 0) && !floods("s1", 1));
    let take_changes = g.journal.totals().find(|t| t.0 == "rtt.flood").unwrap();
    assert_eq!(take_changes.1, Level::Warning);
}

/// A measured rate of a link replaces the configured one; the search continues.
#[test]
fn measured_rates_of_links_bound_the_control() {
    let mut c = config(2, "pfrc", "");
    let rate = BitRate(54_000_000);
    (c.neighbours[0].rate, c.neighbours[0].capacity) =
        (rate, crate::gateway::config::capacity_of(rate));
    c.neighbours[0].mac = Some("02:00:00:00:00:01".parse().unwrap());
    let name = c.neighbours[0].name.clone();
    let mut g = governor(&c);
    let (hint, bound) = (g.links()[0].rate, g.bound().unwrap());
    let before = g.learned().unwrap();
    let rates = |rate| [Some(rate)];
    // Within a fourth nothing changes.
    g.measure(at(10), &rates(BitRate(hint.0 * 9 / 10))).unwrap();
    assert_eq!((g.bound(), g.journal.total("neighbour.measured")), (Some(bound), 0));
    g.measure(at(20), &rates(BitRate(hint.0 / 3))).unwrap();
    assert_eq!(g.journal.total("neighbour.measured"), 1);
    assert!(g.bound().unwrap() < bound, "{:?}", g.bound());
    let link = g.links()[0].clone();
    assert!(g.is_measured(&link) && link.name == name && link.rate.0 == hint.0 / 3);
    assert!(g.learned().unwrap() <= before);
    // At most once in ten minutes.
    g.measure(at(40), &rates(hint)).unwrap();
    assert_eq!(g.links()[0].rate.0, hint.0 / 3);
    g.measure(at(700), &rates(hint)).unwrap();
    assert_eq!(g.bound(), Some(bound));
    // Links without an address keep the configured rate.
    c.neighbours[0].mac = None;
    let mut plain = governor(&c);
    plain.measure(at(10), &rates(BitRate(hint.0 / 3))).unwrap();
    assert_eq!(plain.bound(), Some(bound));
}

/// Samples of a fault never reach the control, nor does traffic without limits.
#[test]
fn while_limits_are_lifted_the_control_learns_nothing() {
    let each = [(down(1), 500_000, 340), (up(1), 0, 0), (down(2), 50_000, 34), (up(2), 0, 0)];
    let mut g = governor(&config(2, "pfrc", ""));
    g.suspend(Suspension::Fault("x"));
    run(&mut g, 0..60, &each);
    assert_eq!(g.journal.total("pfrc.starved"), 0);
    g.suspend(Suspension::None);
    run(&mut g, 60..120, &each);
    assert!(g.journal.total("pfrc.starved") > 0);
}

#[test]
fn acknowledgements_are_not_shown_and_small_packets_are() {
    // Uploads of 1514 bytes, answered by 66: a direction of small packets beside one of large ones.
    let each = |answer: u64, data: u64| {
        [
            (down(1), 100 * answer, 100),
            (up(1), 100 * data, 100),
            (down(2), 100 * 1514, 100),
            (up(2), 0, 0),
        ]
    };
    let starved = |each: [(Slot, u64, u64); 4]| {
        let mut g = governor(&config(2, "pfrc", ""));
        run(&mut g, 0..60, &each);
        let take_changes: Vec<String> = g.journal.take().into_iter().map(|n| n.text).collect();
        take_changes.iter().any(|t| t.contains("\"s0\" (down)"))
    };
    assert!(!starved(each(66, 1514)), "acknowledgements");
    assert!(starved(each(66, 66)), "small packets both ways are a flow");
    assert!(starved(each(200, 1514)), "larger than any acknowledgement");
}

#[test]
fn the_learned_rate_is_returned_and_restored() {
    let mut g = governor(&config(2, "pfrc", ""));
    let fresh = g.learned().unwrap();
    g.recall(at(1), BitRate(fresh.0 * 2));
    assert_eq!(g.learned(), Some(BitRate(fresh.0 * 2)));
    assert_eq!(g.journal.total("pfrc.recalled"), 1);
    assert_eq!(governor(&config(2, "fifo", "")).learned(), None);
    // A reload with the same control keeps it, one with other links restarts it.
    g.reload(&config(3, "pfrc", ""), at(2)).unwrap();
    assert_eq!(g.learned(), Some(BitRate(fresh.0 * 2)));
    let other = text(3, "pfrc", "").replace("10 Mbit/s", "9 Mbit/s");
    g.reload(&Config::parse("t", &other).unwrap(), at(3)).unwrap();
    assert!(g.learned().unwrap() < fresh);
    let change = g.member("s0").unwrap().directions[0].change.clone().unwrap();
    assert_eq!(change.why, LimitReason::Reload);
}

#[test]
fn a_reload_that_the_control_refuses_changes_nothing() {
    let mut g = governor(&config(1, "pfrc", ""));
    let mut greedy = config(2, "pfrc", "");
    greedy.subscribers[0].plan.down.guarantee = rate(9_900_000);
    assert!(g.reload(&greedy, at(1)).is_err());
    assert!(Governor::trial(&greedy).is_err());
    assert!(g.member("s1").is_err());
    assert!(Governor::trial(&config(2, "pfrc", "")).is_ok());
}

// --- Present subscribers ------------------------------------------------------------------------

/// A starting daemon must not apply the control's initial limits.
///
/// Before its first counters the control divides the capacity by all possible senders, which would throttle every
/// subscriber for an epoch.
#[test]
fn initial_limits_of_the_control_are_not_applied() {
    for (control, begins) in [("pfrc", true), ("pfrc+bursts", true), ("static-flow", false)] {
        let rates = "fair_down = \"500 kbit/s\"\nfair_up = \"500 kbit/s\"\n";
        let text =
            text(50, control, "").replace("[[subscriber]]\n", &format!("[[subscriber]]\n{rates}"));
        let config = Config::parse("test.toml", &text).unwrap();
        let mut g = governor(&config);
        let choked = g.meant(&g.members()[0], 0).0;
        assert!(choked < rate(600_000), "{control}: {choked:?}");
        g.defer_initial_limits(at(0));
        let free = g.meant(&g.members()[0], 0);
        assert_eq!(free.0.is_none(), begins, "{control}: {free:?}");
        g.recall(at(0), BitRate(5_000_000));
        assert_eq!(g.meant(&g.members()[0], 0).0.is_none(), begins, "{control}: restarted");
        // An operator's limit always applies.
        let value = Override { rate: rate(70_000), until: at(1000) };
        g.set_override(at(0), "s1", &[Direction::Down], Some(value)).unwrap();
        assert_eq!(g.meant(g.member("s1").unwrap(), 0).0, rate(70_000));
        // Two send; their limits are decided by traffic, even if they equal the initial ones.
        let (first, second) = (g.members()[0].class.0, g.members()[1].class.0);
        let each = [(down(first), 1_000_000, 700), (down(second), 1_000_000, 700)];
        run(&mut g, 1..60, &each);
        assert!(g.meant(&g.members()[0], 0).0.is_some(), "{control}");
    }
}
