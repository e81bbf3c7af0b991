//! Minutes of a mesh in which one home takes nearly everything, replayed.

use super::super::{DirectionUse, HistorySettings, HomeUse, MeshUse, Ring, Stamp, Usage};
use super::*;

const WALL: u64 = 1_800_000_000;
const MINUTES: u64 = 120;

fn config(control: &str, extra: &str) -> Config {
    let text = format!(
        "[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n[control]\nuse = \"{control}\"\n\
         [[neighbour]]\nname = \"n\"\ncapacity = \"10 Mbit/s\"\n[discover]\nroutes = true\nplan = \"p\"\n{extra}\n\
         [[subscriber]]\nname = \"near\"\nprefixes = [\"10.0.0.1\"]\nfair_down = \"1 Mbit/s\"\nfair_up = \"1 Mbit/s\"\n"
    );
    Config::parse("gateway.toml", &text).unwrap()
}

/// Homes with their rates downstream, in bit/s; true: it starves.
type Homes<'a> = &'a [(&'a str, u64, bool)];

/// One home takes nearly everything.
const UNFAIR: Homes<'_> =
    &[("near", 6_000_000, false), ("middle", 2_000_000, false), ("far", 20_000, true)];

/// Writes minutes with these homes.
fn record(folder: &Path, mesh: MeshUse, homes: Homes<'_>) {
    let period = HistorySettings::PERIOD;
    let settings = HistorySettings { folder: folder.to_owned(), size: 4 << 20, period };
    let mut ring = Ring::open(&settings).unwrap();
    for i in 1..=MINUTES {
        let home = |&(name, bits, starved): &(&str, u64, bool)| {
            let usage = Usage {
                bytes: bits * 60 / 8,
                active: 60,
                starved: if starved { 60 } else { 0 },
                starved_bytes: if starved { bits * 60 / 8 } else { 0 },
                ..Usage::default()
            };
            let answers = Usage { bytes: bits * 60 / 8 / 30, ..Usage::default() };
            let [down, up] =
                [usage, answers].map(|usage| DirectionUse { usage, reason: String::new() });
            HomeUse { name: name.to_owned(), directions: [down, up] }
        };
        let homes = homes.iter().map(home).collect();
        let stamp = Stamp { run: 1, up: 60 * i, wall: WALL + 60 * i, first: 0, last: 0 };
        ring.store(Period { stamp, end: 0, mesh, homes }).unwrap();
    }
}

fn congested() -> MeshUse {
    MeshUse { seconds: 60, visible: 60, congested: 60, ..MeshUse::default() }
}

fn replayed(config: &Config, mesh: MeshUse) -> Replay {
    replay_of(config, mesh, UNFAIR)
}

fn replay_of(config: &Config, mesh: MeshUse, homes: Homes<'_>) -> Replay {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), mesh, homes);
    replay(config, folder.path(), WALL, WALL + 60 * MINUTES).unwrap()
}

fn of<'a>(replay: &'a Replay, name: &str) -> &'a ReplayedHome {
    replay.homes.iter().find(|h| h.name == name && h.direction == "down").unwrap()
}

#[test]
fn limits_take_from_the_largest_and_leave_to_the_starved() {
    let replay = replayed(&config("pfrc+bursts", "[plan.p]\nweight = 1"), congested());
    assert_eq!((replay.control.as_deref(), replay.unknown.as_deref()), (Some("pfrc+bursts"), None));
    assert_eq!((replay.seconds, replay.left_out_seconds), (60 * MINUTES, 0));
    let (near, far) = (of(&replay, "near"), of(&replay, "far"));
    println!("{:#?}", replay.homes);
    assert!(far.starved && !near.starved && far.seconds == 60 * MINUTES);
    assert_eq!((near.carried_bits_per_second, far.carried_bits_per_second), (6_000_000, 20_000));
    // Three equal homes: at most a third of 8 Mbit/s, and a sixth of the airtime per byte at least.
    assert!(far.most_bits_per_second <= 2_800_000, "{far:?}");
    assert!((200_000..1_200_000).contains(&far.least_bits_per_second), "{far:?}");
    assert!(far.most_bits_per_second > 1_000_000, "{far:?}");
    assert!(near.most_bits_per_second < 4_500_000, "{near:?}");
    // The recorded airtime is never exceeded.
    for of in
        [|h: &ReplayedHome| h.least_bits_per_second, |h: &ReplayedHome| h.carried_bits_per_second]
    {
        let sum: u64 = replay.homes.iter().map(of).sum();
        assert!(sum <= 8_300_000, "{sum}");
    }
}

/// Goodput in bit/s of homes one to three hops away, without limits and under `pfrc+bursts`.
///
/// Printed by `fairmesh compare --control fifo,pfrc+bursts --seeds 3` for downloads by NewReno over 802.11b at 11 Mbit/s.
const SIMULATED: [(&str, u64, u64); 3] =
    [("near", 3_552_000, 1_087_000), ("middle", 396_000, 957_000), ("far", 327_000, 807_000)];

#[test]
fn simulated_rates_under_the_control_are_within_the_replay() {
    let homes = SIMULATED.map(|(name, free, _)| (name, free, name != "near"));
    let replay = replay_of(&config("pfrc+bursts", "[plan.p]\nweight = 1"), congested(), &homes);
    for (name, _, with) in SIMULATED {
        let home = of(&replay, name);
        println!("{name}: {with} of {home:?}");
        let [least, most] = [home.least_bits_per_second, home.most_bits_per_second];
        // Goodput lacks the headers.
        assert!(least <= with * 21 / 20 && with <= most, "{name}: {with} bit/s, {home:?}");
    }
}

#[test]
fn a_plan_alone_leaves_the_rest_to_other_homes() {
    // `middle` and `far` may have 500 kbit/s; `near` has no plan, so it may take what `middle` has to leave.
    let free = replayed(&config("fifo", "[plan.p]\ndown = \"500 kbit/s\""), congested());
    let near = of(&free, "near");
    assert!(
        near.least_bits_per_second >= 6_000_000 && near.most_bits_per_second <= 7_500_000,
        "{near:?}"
    );
    let far = of(&free, "far");
    assert_eq!((far.least_bits_per_second, far.most_bits_per_second), (20_000, 500_000));
    assert_eq!(of(&free, "middle").most_bits_per_second, 500_000);
    let none = replayed(&config("fifo", "[plan.p]\nweight = 1"), congested());
    let far = of(&none, "far");
    assert_eq!((far.least_bits_per_second, far.most_bits_per_second), (20_000, 20_000));
}

#[test]
fn controls_that_need_samples_are_not_replayed() {
    let plan = "[plan.p]\nfair_down = \"1 Mbit/s\"\nfair_up = \"1 Mbit/s\"";
    for (control, reason) in [
        ("rtt", "rtt needs the round trips of each sample, which minutes do not have"),
        ("static-fq", "static-fq has one limit for all homes, which is not replayed"),
    ] {
        let replay = replayed(&config(control, plan), congested());
        assert_eq!((replay.control, replay.unknown.as_deref()), (None, Some(reason)));
        assert_eq!((replay.seconds, replay.left_out_seconds), (0, 60 * MINUTES));
        assert_eq!(replay.homes, []);
    }
    let enforced = replayed(
        &config("pfrc+bursts", "[plan.p]\nweight = 1"),
        MeshUse { apply: 60, enforced: 60, ..congested() },
    );
    assert_eq!((enforced.seconds, enforced.left_out_seconds, enforced.homes.len()), (0, 0, 0));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    /// Rates keep to limits and airtime; starved homes have what was recorded or their limits.
    #[test]
    fn rates_keep_to_airtime_and_limits(
        homes in proptest::collection::vec((0_u32..9_000_000, proptest::bool::ANY, proptest::bool::ANY, proptest::option::of(10_000_u32..5_000_000)), 1..8),
        costly in proptest::bool::ANY,
    ) {
        let mut text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"eth0\"\n\
            [control]\nuse = \"fifo\"\n".to_owned();
        for (i, home) in homes.iter().enumerate() {
            text += &format!("[[subscriber]]\nname = \"h{i}\"\nprefixes = [\"10.0.0.{i}\"]\n");
            if let Some(limit) = home.3 {
                text += &format!("down = \"{limit} bit/s\"\n");
            }
        }
        let config = Config::parse("t", &text).unwrap();
        let governor = Governor::new(&config, ClassIds::default(), Time::ZERO).unwrap();
        let mesh = Mesh::new(governor, if costly { STARVED_AIRTIME_FACTOR } else { 1.0 }, costly);
        let loads: Vec<Load> = homes
            .iter()
            .enumerate()
            .map(|(at, (rate, open, starved, _))| Load {
                at, d: 0, rate: f64::from(*rate), packet: 1500.0, open: *open, starved: *starved,
            })
            .collect();
        let airtime: f64 = loads.iter().map(|l| l.rate * mesh.cost(l)).sum();
        let rates = mesh.rates(&loads, airtime);
        let used: f64 = loads.iter().zip(&rates).map(|(l, r)| r * mesh.cost(l)).sum();
        assert!(used <= airtime * (1.0 + 1e-9) + 1e-3, "{used} of {airtime}");
        for (load, rate) in loads.iter().zip(&rates) {
            assert!(*rate <= mesh.limit(load) + 1e-3, "{load:?} {rate}");
            if load.starved {
                assert!(*rate >= load.rate.min(mesh.limit(load)) - 1e-3, "{load:?} {rate}");
            } else if !costly {
                assert!(*rate <= load.rate + 1e-3, "{load:?} {rate}");
            }
        }
    }
}
