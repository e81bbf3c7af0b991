//! Maps as scenarios: simulated time.

use std::path::Path;

use fairmesh_control::Registry;
use fairmesh_lab::Changes;
use fairmesh_lab::source::{load, load_long_enough};
use fairmesh_units::Span;

/// Packets of a full segment that every flow has at its fair rate, in bits.
const ENOUGH: f64 = 200.0 * 8.0 * 1460.0;

/// Writes a chain of `n` routers as NetJSON.
fn chain(folder: &Path, n: usize, cost: f64) -> std::path::PathBuf {
    let nodes: Vec<String> = (0..n).map(|i| format!(r#"{{"id": "10.0.0.{i}"}}"#)).collect();
    let link = |i: usize| {
        format!(r#"{{"source": "10.0.0.{}", "target": "10.0.0.{i}", "cost": {cost}}}"#, i - 1)
    };
    let links: Vec<String> = (1..n).map(link).collect();
    let text = format!(
        r#"{{"type": "NetworkGraph", "protocol": "olsr", "version": "1", "metric": "etx", "router_id": "10.0.0.0",
        "nodes": [{}], "links": [{}]}}"#,
        nodes.join(","),
        links.join(",")
    );
    let path = folder.join(format!("chain-{n}-{cost}.json"));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_compared_map_runs_long_enough_for_its_slowest_flow() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::standard();
    let [long, short, endless] =
        [(150, 2.0), (3, 2.0), (150, 6.0)].map(|(n, cost)| chain(folder.path(), n, cost));
    let usual = load(&long, &Changes::default(), &registry).unwrap().scenario;
    let few = |s: &fairmesh_scenario::Scenario| s.warnings().join(" ").contains("fewer than 200");
    assert!(few(&usual), "the usual minute is too short for this map: {:?}", usual.warnings());

    let compared = load_long_enough(&long, &Changes::default(), &registry).unwrap().scenario;
    assert!(compared.duration() > usual.duration());
    assert!(!few(&compared), "{}: {:?}", compared.duration(), compared.warnings());
    let stated = format!("simulated time {} instead of 60 s", compared.duration());
    assert!(
        compared.warnings().iter().any(|w| w.starts_with(&stated)),
        "{:?}",
        compared.warnings()
    );
    let measured = compared.duration().saturating_sub(compared.warmup()).as_secs_f64();
    let fair = fairmesh_engine::fair_rates(&compared).unwrap().rates_bps;
    assert_eq!(fair.len(), 149);
    assert!(fair.iter().all(|rate| rate * measured >= ENOUGH), "{fair:?} in {measured} s");
    // No longer than needed.
    let slowest = fair.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(slowest * (measured - 10.0) < ENOUGH);

    // A requested duration is kept, and a short chain needs no more than the default one.
    let asked = Changes { duration: Some(Span::from_secs(30)), ..Changes::default() };
    let asked = load_long_enough(&long, &asked, &registry).unwrap().scenario;
    assert_eq!(asked.duration(), Span::from_secs(30));
    // A duration of more than an hour is set only by the user.
    let endless = load_long_enough(&endless, &Changes::default(), &registry).unwrap().scenario;
    assert_eq!(endless.duration(), Span::from_secs(3600));
    assert!(few(&endless) && endless.warnings().join(" ").contains("is too short for 200 packets"));
    let short = load_long_enough(&short, &Changes::default(), &registry).unwrap().scenario;
    assert_eq!(short.duration(), Span::from_secs(60));
}
