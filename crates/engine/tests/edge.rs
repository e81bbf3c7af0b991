//! Control at the edge in the packet simulator.
//!
//! The subjects are GAP (Mancuso 2010) and load-based marking (Triantafyllidou 2005), compared with the
//! papers' claims. Rates in kbit/s, delays in ms.
//!
//! The full comparisons, with the papers' numbers beside ours, are in reproductions/.

use fairmesh_capacity::gap::{Gap, Load, Regime};
use fairmesh_engine::measures::jain;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{EngineError, RunOptions, run};
use fairmesh_scenario::{Scenario, draft_from_toml};

/// Goodput of TCP in a two-hop tree relative to analytic rates: the mechanisms' own default.
const EFFICIENCY: f64 = 0.8;

fn text(name: &str) -> String {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns a scenario text under a control, with replacements and parameters.
fn build(text: &str, control: &str, changes: &[(&str, &str)]) -> Scenario {
    let mut text = text.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "no {from}");
        text = text.replace(from, to);
    }
    let text = format!("{text}\n[control]\nuse = {control}\n");
    draft_from_toml("test.toml", &text).unwrap().build().unwrap()
}

fn shipped(name: &str, control: &str, changes: &[(&str, &str)]) -> Scenario {
    build(&text(name), control, changes)
}

fn runs(scenario: &Scenario, seeds: u64) -> Vec<RunRecord> {
    let one = |seed| {
        let sample = Some(fairmesh_units::Span::from_secs(1));
        run(scenario, &RunOptions { seed, sample, ..RunOptions::default() }).unwrap()
    };
    (1..=seeds).map(one).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
    sum / n
}

/// Returns the mean goodput of one-hop flows and of the others over runs.
fn sets(records: &[RunRecord]) -> (f64, f64) {
    let sum = |near: bool| {
        mean(records.iter().map(|r| {
            let flows = r.flows.iter().filter(|f| (f.hops == 1) == near);
            flows.map(|f| f.goodput_bps).sum::<f64>() / 1e3
        }))
    };
    (sum(true), sum(false))
}

/// Returns E of (11), per cent, and U = T_S + 2 T_M.
///
/// E is relative to equal shares of the gateway's throughput.
fn accuracy(branches: u32, control: &str) -> (f64, f64) {
    let scenario = shipped(
        "mancuso-branches-8",
        control,
        &[("branches = 8", &format!("branches = {branches}")), ("120 s", "70 s")],
    );
    let records = runs(&scenario, 2);
    let target =
        EFFICIENCY * records[0].flows.iter().map(|f| f.fair_bps.unwrap()).sum::<f64>() / 2e3;
    let (single, multi) = sets(&records);
    let error = ((single - target).abs() + (multi - target).abs()) / target * 50.0;
    (error, single + 2.0 * multi)
}

#[test]
fn gap_meets_its_targets_with_one_branch_and_with_eight() {
    // Mancuso 2010 Table I: 6.7 %; 32.2 % and 15.1 % with 256 and 512 kbit/s of signalling.
    let (error, one) = accuracy(1, "\"gap\"\ngamma = 0.1");
    assert!(error <= 7.0, "{error}");
    let (error, _) = accuracy(8, "\"gap\"\ngamma = 0.1");
    assert!(error <= 32.2, "{error}");
    let (error, eight) = accuracy(8, "\"gap\"\ngamma = 0.2");
    assert!(error <= 15.1, "{error}");
    assert!(eight > 0.99 * one, "utilisation falls from {one} to {eight}");
    let (none, _) = accuracy(1, "\"fifo\"");
    assert!(none > 100.0, "{none}: there would be nothing to control");
}

#[test]
fn the_bit_can_be_overheard_with_any_number_of_branches() {
    // §IV.A. A node's own survey does not sense the first hops of other branches.
    let (error, one) = accuracy(1, "\"gap+overhear\"");
    assert!(error <= 7.0, "{error}");
    let (error, eight) = accuracy(8, "\"gap+overhear\"");
    assert!(error <= 15.1, "{error}");
    assert!(eight > 0.99 * one, "utilisation falls from {one} to {eight}");
    // The limit is not constant: if two-hop nodes are idle, their part is used.
    let idle = text("mancuso-branches-8").replace("120 s", "50 s");
    let flows: String =
        (1..=8).map(|i| format!("[[flow]]\nfrom = \"s{i}\"\nto = \"gw\"\n")).collect();
    let idle = format!("{}\n{flows}", idle.replace("flows = \"up\"\n", ""));
    let share = EFFICIENCY * 3254.0 / 3.0;
    let control = format!("\"gap+overhear\"\nguarantee = {:.0}", share * 1.04 / 8.0);
    let (single, _) = sets(&runs(&build(&idle, &control, &[]), 1));
    let threshold = 0.9 * EFFICIENCY * 3254.0;
    assert!((single / threshold - 1.0).abs() < 0.1, "{single}, not {threshold}");
}

#[test]
fn shares_survive_errors_of_estimation() {
    // §VI.D, also with half of its signalling bandwidth.
    for gamma in [0.1, 0.2] {
        let control = format!("\"gap\"\nnoise = 0.4\ngamma = {gamma}");
        let records = runs(&shipped("mancuso-fig-7", &control, &[]), 3);
        for (i, flow) in records[0].flows.iter().enumerate() {
            let share = EFFICIENCY * flow.fair_bps.unwrap();
            let got = mean(records.iter().map(|r| r.flows[i].goodput_bps));
            assert!((got / share - 1.0).abs() < 0.1, "{gamma}: {} {got}, not {share}", flow.name);
        }
    }
}

/// Returns the mean goodput of a set of flows between two instants of the first run.
fn between(record: &RunRecord, near: bool, from: f64, to: f64) -> f64 {
    let of = record.flows.iter().enumerate().filter(|(_, f)| (f.hops == 1) == near);
    let curve = |i: usize| {
        let series = record.series.time_s.iter().zip(&record.series.goodput_bps[i]);
        mean(series.filter(|(t, _)| **t > from && **t <= to).map(|(_, v)| *v))
    };
    of.map(|(i, _)| curve(i)).sum::<f64>() / 1e3
}

#[test]
fn gap_tracks_demand_down_and_up_within_seconds() {
    // Fig. 5(a); its share of 868 kbit/s is below the first demands.
    let record = runs(&shipped("mancuso-fig-5a", "\"gap\"", &[]), 1).remove(0);
    for (step, demand) in [(2, 600.0), (3, 300.0), (4, 0.0), (5, 300.0), (6, 600.0)] {
        let from = 30.0 * f64::from(step);
        let multi = between(&record, false, from + 5.0, from + 30.0);
        assert!((multi - demand).abs() <= 0.05 * demand + 1.0, "step {step}: {multi}");
        // The rest below the threshold is used: 0.9 · 0.8 · 3254 less twice the demand.
        let single = between(&record, true, from + 10.0, from + 30.0);
        let limit = 0.9 * EFFICIENCY * 3254.0 - 2.0 * demand;
        assert!((single / limit - 1.0).abs() < 0.1, "step {step}: {single}, not {limit}");
    }
    let (begin, end) = (between(&record, false, 10.0, 30.0), between(&record, false, 250.0, 270.0));
    assert!(begin > 868.0 && end > 868.0, "more than its share is wanted: {begin} {end}");
}

#[test]
fn gap_hands_guarantees_on_only_together() {
    // Fig. 8: S1 and S2 have become idle.
    let single = |control: &str| {
        let record = runs(&shipped("mancuso-fig-8", control, &[("150 s", "90 s")]), 1).remove(0);
        between(&record, true, 70.0, 90.0) / between(&record, true, 10.0, 30.0)
    };
    let (own, together) = (single("\"gap\""), single("\"gap+aggregate\""));
    assert!(own < 0.65, "{own}: each keeps to its own guarantee");
    assert!(together > 0.75, "{together}: the two that are left have all of it");
}

#[test]
fn the_bit_in_acknowledgements_needs_no_messages() {
    let changes = [("120 s", "60 s")];
    let with_messages = runs(&shipped("mancuso-branches-1", "\"gap\"", &changes), 1).remove(0);
    assert!(
        with_messages.totals.signalling.messages > 500
            && with_messages.totals.signalling.airtime_s > 0.0
    );
    let idle = runs(&shipped("mancuso-branches-1", "\"gap+ack\"", &changes), 1).remove(0);
    assert_eq!((idle.totals.signalling.messages, idle.totals.signalling.header_bytes), (0, 0));
    let (single, multi) = sets(&[idle]);
    assert!(multi > 700.0 && single < 1.35 * 868.0, "{single} {multi}");
}

/// Returns one branch with offered loads; `None` is backlogged.
fn loads(single: Option<u32>, multi: Option<u32>) -> String {
    let base = text("mancuso-branches-1").replace("120 s", "70 s");
    let flow = |from: &str, load: Option<u32>| {
        let traffic = load.map_or(String::new(), |l| {
            format!(
                "traffic = {{ kind = \"limited\", rate = \"{l} kbit/s\", packet = \"1000 B\" }}\n"
            )
        });
        format!("[[flow]]\nfrom = \"{from}\"\nto = \"gw\"\n{traffic}")
    };
    let traffic = base.replace("flows = \"up\"\n", "");
    format!("{traffic}\n{}{}", flow("s1", single), flow("m1", multi))
}

#[test]
fn the_fluid_model_and_the_simulator_have_the_same_equilibrium() {
    // §V.B (a), (b), its border, and (c). In the model's units two hops cost twice.
    let (capacity, share) = (EFFICIENCY * 3254.0, EFFICIENCY * 3254.0 / 3.0);
    let model = Gap::new(capacity, share, 0.1, 1.0, 1.0).unwrap();
    let cases = [
        (Some(500), None, Regime::Light),
        (Some(1500), Some(300), Regime::Unsaturated),
        (None, Some(300), Regime::Threshold),
        (None, None, Regime::Saturated),
    ];
    for (single, multi, regime) in cases {
        let want = |load: Option<u32>| load.map_or(f64::INFINITY, f64::from);
        let rest = model.equilibrium(Load { single: want(single), multi: 2.0 * want(multi) });
        assert_eq!(rest.regime, regime);
        // F in IP bytes: 1040 for 1000 of data.
        let control = format!("\"gap\"\ngamma = 0.1\nguarantee = {:.0}", share * 1.04);
        let (s, m) = sets(&runs(&build(&loads(single, multi), &control, &[]), 2));
        assert!((s / rest.single - 1.0).abs() < 0.1, "{regime:?}: S {s}, not {}", rest.single);
        assert!((2.0 * m / rest.multi - 1.0).abs() < 0.1, "{regime:?}: M {m}, not {}", rest.multi);
    }
}

#[test]
fn impossible_gap_settings_are_refused_in_one_line() {
    let refused = |control: &str| {
        let scenario = shipped("mancuso-branches-8", control, &[]);
        let EngineError::Control(why) = run(&scenario, &RunOptions::default()).unwrap_err() else {
            panic!("another error")
        };
        why.to_string()
    };
    let gamma = refused("\"gap\"\ngamma = 0.6\nguarantee = 350");
    assert!(gamma.starts_with("gap: gamma must be at most 0.5"), "{gamma}");
    let together = refused("\"gap\"\nguarantee = 900");
    assert!(together.starts_with("gap: guarantees add up to 7.2 Mbit/s"), "{together}");
    let guarantee = refused("\"gap\"\nguarantee = 7000");
    assert!(guarantee.starts_with("gap: guarantees add up to 7 Mbit/s"), "{guarantee}");
    // Shorter than a round trip, which the file alone shows, so that the error names its line.
    let short = text("triantafyllidou-hidden") + "\n[control]\nuse = \"lbm\"\nt_avg = 0.01\n";
    let problem = draft_from_toml("t.toml", &short).unwrap().build().unwrap_err().to_string();
    assert!(problem.contains("t_avg") && problem.contains("0.05 to 60"), "{problem}");
}

/// Returns Jain's index, throughput and mean delay of downloads through an access point.
fn downloads(stations: usize, control: &str, ecn: &str) -> (f64, f64, f64) {
    let mut scenario = text("triantafyllidou-infrastructure")
        .split("[[flow]]")
        .next()
        .unwrap()
        .replace("200 s", "60 s")
        .replace("stations = 5", &format!("stations = {stations}"))
        .replace("\"h1\", \"h2\", \"h3\", \"h4\", \"h5\"", "\"server\"")
        .replace("[traffic]", "[traffic]\nflows = \"down\"\nhost = \"server\"");
    scenario = scenario.replace("ecn = true", &format!("ecn = {ecn}"));
    let records = runs(&build(&scenario, control, &[]), 2);
    let goodput = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps / 1e3).collect::<Vec<_>>();
    let delay = |r: &RunRecord| mean(r.flows.iter().map(|f| 1e3 * f.delay_s.mean));
    (
        mean(records.iter().map(|r| jain(&goodput(r)))),
        mean(records.iter().map(|r| goodput(r).iter().sum())),
        mean(records.iter().map(delay)),
    )
}

#[test]
fn marks_at_the_access_point_shorten_delays_at_equal_throughput() {
    // Triantafyllidou 2005 Fig. 3.3, Tables 3.1 and 3.2; 25 ms of every delay are the wire's.
    let target = "\"lbm+adaptive+even\"\ndelay_min = 0.05\ndelay_max = 0.06";
    for stations in [5, 15] {
        let (unfair, plain, long) = downloads(stations, "\"fifo\"", "true");
        let (fair, marked, short) = downloads(stations, target, "true");
        assert!(fair > unfair, "{stations}: {fair} {unfair}");
        assert!(marked > 0.97 * plain, "{stations}: {marked} {plain}");
        assert!(short - 25.0 < 0.75 * (long - 25.0), "{stations}: {short} {long}");
    }
}

#[test]
fn rho0_holds_the_delay_of_table_3_2() {
    for stations in [3, 20] {
        let (_, plain, _) = downloads(stations, "\"fifo\"", "true");
        let (_, steps, delay) = downloads(stations, "\"lbm+adaptive+even\"", "true");
        assert!((10.0..=15.0).contains(&(delay - 25.0)), "{stations}: {delay}");
        let (_, pi, delay) = downloads(stations, "\"lbm+pi+even\"", "true");
        assert!((10.0..=15.0).contains(&(delay - 25.0)), "{stations}, pi: {delay}");
        assert!(pi > 0.93 * plain && pi > steps, "{stations}: {pi} of {plain}, by steps {steps}");
    }
}

#[test]
fn a_target_within_round_trips_costs_no_throughput() {
    let target = "\"lbm+pi+even\"\ndelay_min = 0.02\ndelay_max = 0.03";
    for stations in [3, 20] {
        let (_, plain, long) = downloads(stations, "\"fifo\"", "true");
        let (_, marked, short) = downloads(stations, target, "true");
        assert!(marked > 0.97 * plain, "{stations}: {marked} {plain}");
        assert!(short - 25.0 < 0.25 * (long - 25.0), "{stations}: {short} {long}");
    }
}

#[test]
fn flows_without_ecn_are_left_as_they_are() {
    assert_eq!(downloads(3, "\"fifo\"", "false"), downloads(3, "\"lbm\"", "false"));
    assert_ne!(downloads(3, "\"fifo\"", "true"), downloads(3, "\"lbm\"", "true"));
}

#[test]
fn ect1_is_left_alone() {
    let plain = downloads(3, "\"fifo\"", "\"ect1\"");
    assert_eq!(plain, downloads(3, "\"lbm\"", "\"ect1\""), "to the byte");
}

/// Returns measures of one of the four multihop cases.
///
/// They are Jain's index, throughput, delay of the first flow, header bytes.
fn case(name: &str, control: &str) -> (f64, f64, f64, u64) {
    let records = runs(&shipped(name, control, &[]), 4);
    let rates = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps).collect::<Vec<_>>();
    let fair = mean(records.iter().map(|r| jain(&rates(r))));
    let sum = mean(records.iter().map(|r| rates(r).iter().sum()));
    let delay = mean(records.iter().map(|r| r.flows[0].delay_s.mean));
    (fair, sum, delay, records[0].totals.signalling.header_bytes)
}

#[test]
fn marks_by_collision_domain_help_hidden_and_exposed_terminals() {
    // Fig. 4.4, 4.5, 4.8, Table 4.2.
    for name in ["triantafyllidou-hidden", "triantafyllidou-exposed"] {
        let (unfair, plain, long, none) = case(name, "\"fifo\"");
        let gentle = case(name, "\"lbm+multihop+even\"\nrho0 = 0.1\nalpha = 0.5");
        let (fair, marked, short, bytes) = gentle;
        assert!(fair > unfair + 0.03, "{name}: {fair} {unfair}");
        assert!(marked > 0.97 * plain, "{name}: {marked} {plain}");
        let part = if name.ends_with("hidden") { 1.0 / 3.0 } else { 0.5 };
        assert!(short < part * long, "{name}: {short} {long}");
        assert!(none == 0 && bytes > 0, "receive rates travel in real bytes");
        let steep = case(name, "\"lbm+multihop+even\"\nrho0 = 0.1");
        assert!(steep.0 > unfair + 0.05, "{name}: {} {unfair}", steep.0);
        assert!(steep.1 > 0.92 * plain, "{name}: {} {plain}", steep.1);
        if name.ends_with("hidden") {
            assert!(steep.2 < 0.25 * long, "Table 4.2: {} {long}", steep.2);
        }
    }
}

#[test]
fn marks_by_collision_domain_help_flows_over_two_hops() {
    // Fig. 4.10, 4.11. Evenly spaced marks carry more; random marks hold the one-hop flow down for
    // longer, which is fairer and costs throughput.
    for name in ["triantafyllidou-multihop-a", "triantafyllidou-multihop-b"] {
        let (unfair, plain, ..) = case(name, "\"fifo\"");
        let even = case(name, "\"lbm+multihop+even\"\nrho0 = 0.1");
        let least = if name.ends_with("-a") { unfair + 0.01 } else { unfair - 0.04 };
        assert!(even.0 > least && even.1 > 0.95 * plain, "{name}: {even:?}, not {unfair} {plain}");
        let random = case(name, "\"lbm+multihop\"\nrho0 = 0.1");
        assert!(random.0 > unfair + 0.05 && random.1 < even.1, "{name}: {random:?} {even:?}");
    }
}

#[test]
fn delays_to_the_acknowledgement_begin_at_the_first_radio_and_end_there() {
    // The delay to the station includes the wire of 25 ms before the access point, this delay does
    // not; only this delay includes the return of the acknowledgement.
    let scenario = shipped("triantafyllidou-infrastructure", "\"fifo\"", &[]);
    let options = RunOptions { acknowledged: true, ..RunOptions::default() };
    let record = run(&scenario, &options).unwrap();
    let plain = run(&scenario, &RunOptions::default()).unwrap();
    assert_eq!(record.fingerprint, plain.fingerprint, "measuring changes nothing");
    let flow = &record.flows[0];
    assert!(plain.flows[0].acknowledged_delay_s.is_none() && flow.packets_delivered > 1000);
    let (there, back) = (flow.delay_s.mean - 0.025, flow.acknowledged_delay_s.unwrap().mean);
    assert!(back > there + 0.0005 && back < there + 0.010, "{back} s and {there} s");
}
