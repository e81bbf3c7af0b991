//! Curves of links and of foreign energy.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_units::Span;

fn scenario(more: &str) -> Scenario {
    let text = format!(
        "duration = \"12 s\"\nwarmup = \"2 s\"\n[radio]\nrate = \"2 Mbit/s\"\n\
         [topology]\nchain = {{ hops = 2 }}\n\
         [[flow]]\nfrom = 2\nto = 0\ntraffic = \"bulk\"\n{more}"
    );
    parse("t.toml", text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn measured(scenario: &Scenario, links: bool) -> RunRecord {
    let options = RunOptions { sample: Some(Span::from_secs(1)), links, ..RunOptions::default() };
    run(scenario, &options).unwrap()
}

const OVEN: &str = "[[interferer]]\nnodes = [2]\nperiod = \"16 ms\"\nduty = 0.4\nstart = \"6 s\"\nstop = \"12 s\"\n";

#[test]
fn link_curves_do_not_change_a_run() {
    for more in ["", OVEN, "[control]\nuse = \"cna\"\n"] {
        let s = scenario(more);
        let (with, without) = (measured(&s, true), measured(&s, false));
        assert_eq!(with.fingerprint, without.fingerprint, "{more}");
        assert_eq!(with.series.goodput_bps, without.series.goodput_bps);
        assert!(without.series.links.is_empty() && without.series.foreign.is_empty());
    }
}

#[test]
fn frames_are_those_of_the_mac() {
    let r = measured(&scenario(OVEN), true);
    let used: Vec<_> = r.series.links.iter().filter(|l| l.packets.iter().any(|p| *p > 0)).collect();
    let names: Vec<String> = used.iter().map(|l| format!("{}→{}", l.from, l.to)).collect();
    assert_eq!(names, ["0→1", "1→0", "1→2", "2→1"]);
    for l in &r.series.links {
        assert!(l.packets.len() == 12 && l.frames.len() == 12 && l.airtime == [0.0; 12]);
        assert!(l.packets.iter().zip(&l.frames).all(|(p, f)| f >= p), "{l:?}");
    }
    // All transmissions of a node, except for the frame in progress at the end of the run.
    for n in &r.nodes {
        let own = r.series.links.iter().filter(|l| l.from == n.name);
        let reported: u64 = own.flat_map(|l| &l.frames).sum();
        assert!(
            reported <= n.mac.data && n.mac.data - reported < 20,
            "{}: {reported}, {}",
            n.name,
            n.mac.data
        );
    }
}

#[test]
fn foreign_energy_is_the_ovens() {
    let r = measured(&scenario(OVEN), true);
    let mean = |node: usize, from: usize, to: usize| {
        r.series.foreign[node][from..to].iter().sum::<f64>() / (to - from) as f64
    };
    assert!(mean(2, 0, 6) < 0.02, "before: {}", mean(2, 0, 6));
    // 0.4 of the time, minus the overlap with frames sent or received.
    assert!((0.2..0.42).contains(&mean(2, 6, 12)), "with it: {}", mean(2, 6, 12));
    assert!(mean(0, 6, 12) < 0.1, "far from it: {}", mean(0, 6, 12));
}

#[test]
fn limits_are_those_in_force() {
    let r = measured(&scenario("[control]\nuse = \"cna\"\n"), true);
    let limit = |name: &str| {
        let l = r.series.links.iter().find(|l| format!("{}→{}", l.from, l.to) == name).unwrap();
        l.airtime[5..].iter().sum::<f64>() / 7.0
    };
    let all = ["2→1", "1→0", "1→2", "0→1"].map(limit);
    // Four links with one flow each in one neighbourhood share the air (Jang 2010 §3).
    assert!((0.8..1.2).contains(&all.iter().sum::<f64>()), "{all:?}");
    assert!(all[0] > all[2], "acknowledgements leave some of theirs: {all:?}");
}
