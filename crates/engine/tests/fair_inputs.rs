//! Fair rates as an input of a run: their source, and runs without them.

use fairmesh_control::Registry;
use fairmesh_engine::{
    EngineError, Inputs, RunOptions, Simulation, fair_rates, needs_fair_rates, run, run_under,
};
use fairmesh_scenario::{Scenario, draft_from_toml};

/// Guarantees above the capacity, which the capacity model rejects.
const OVERCOMMITTED: &str = r#"
    duration = "3 s"
    [radio]
    phy = "802.11b"
    rate = "2 Mbit/s"
    [topology]
    links = [[0, 1], [0, 2]]
    gateway = 0
    [[flow]]
    from = 0
    to = 1
    guarantee = "1.5 Mbit/s"
    [[flow]]
    from = 0
    to = 2
    guarantee = "1.5 Mbit/s"
"#;

fn overcommitted() -> Scenario {
    draft_from_toml("overcommitted.toml", OVERCOMMITTED).unwrap().build().unwrap()
}

#[test]
fn a_scenario_without_fair_rates_runs_and_has_no_measures_against_them() {
    let scenario = overcommitted();
    assert!(matches!(fair_rates(&scenario), Err(EngineError::Capacity(_))));
    assert!(!needs_fair_rates(&scenario, None));
    let record = run(&scenario, &RunOptions::default()).unwrap();
    for flow in &record.flows {
        assert!(flow.goodput_bps > 10e3, "{flow:?}");
        assert_eq!(flow.fair_bps, None);
    }
    assert_eq!(record.sharers().1, None);
}

#[test]
fn a_control_that_needs_fair_rates_is_refused_with_the_reason() {
    let scenario = overcommitted();
    let control = Registry::standard().lookup("static-flow").unwrap();
    assert!(needs_fair_rates(&scenario, Some(&control)));
    let refused = run_under(&scenario, &RunOptions::default(), &control).unwrap_err();
    assert!(matches!(refused, EngineError::Capacity(_)), "{refused}");
    // Without fair rates, the simulator names the missing input.
    let inputs = Inputs { control: Some(control), ..Inputs::default() };
    let refused = Simulation::new(scenario.into(), &RunOptions::default(), inputs);
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("fair rate"), "{refused}");
}

#[test]
fn fair_rates_do_not_change_a_run() {
    let text = OVERCOMMITTED.replace("1.5 Mbit/s", "100 kbit/s");
    let scenario = draft_from_toml("pair.toml", &text).unwrap().build().unwrap();
    let with = run(&scenario, &RunOptions::default()).unwrap();
    let simulation =
        Simulation::new(scenario.into(), &RunOptions::default(), Inputs::default()).unwrap();
    let without = simulation.finish().unwrap();
    assert!(with.flows[0].fair_bps.is_some() && without.flows[0].fair_bps.is_none());
    assert_eq!(with.fingerprint, without.fingerprint);
    assert_eq!(format!("{:?}", with.totals), format!("{:?}", without.totals));
}
