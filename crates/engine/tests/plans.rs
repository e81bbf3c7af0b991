//! Ceilings and guarantees of flows: in the analytic allocation, and enforced by a control.

use fairmesh_engine::{RunOptions, fair_rates, run};
use fairmesh_scenario::{Scenario, draft_from_toml};

/// Four hops, an upload from each node; node 1 has a plan, node 4 a guarantee.
fn chain(control: &str, guarantee: &str) -> Scenario {
    let text = format!(
        r#"
        duration = "300 s"
        warmup = "60 s"
        [radio]
        rate = "1 Mbit/s"
        [topology]
        chain = {{ hops = 4 }}
        gateway = 0
        [traffic]
        transport = {{ preset = "ns2" }}
        [control]
        use = "{control}"
        [[flow]]
        from = 1
        to = 0
        plan = "32 kbit/s"
        [[flow]]
        from = 2
        to = 0
        [[flow]]
        from = 3
        to = 0
        [[flow]]
        from = 4
        to = 0
        guarantee = "{guarantee}"
        "#
    );
    draft_from_toml("plans.toml", &text).unwrap().build().unwrap()
}

#[test]
fn the_analytic_allocation_keeps_plans_and_guarantees() {
    let rates = fair_rates(&chain("fifo", "120 kbit/s")).unwrap().rates_bps;
    // Of IP bytes, 1460 of 1500 are goodput.
    assert!((rates[0] - 32_000.0 * 1460.0 / 1500.0).abs() < 1.0, "{rates:.0?}");
    assert!((rates[3] - 120_000.0 * 1460.0 / 1500.0).abs() < 1.0, "{rates:.0?}");
    assert!((rates[1] - rates[2]).abs() < 1.0 && rates[1] > rates[0], "{rates:.0?}");
    let less = fair_rates(&chain("fifo", "10 kbit/s")).unwrap().rates_bps;
    assert!((less[3] - less[1]).abs() < 1.0, "a guarantee is no bonus: {less:.0?}");
}

#[test]
fn a_guarantee_that_no_rates_can_keep_is_refused() {
    let error = fair_rates(&chain("fifo", "500 kbit/s")).unwrap_err().to_string();
    assert!(error.contains("guaranteed minima take"), "{error}");
}

#[test]
fn relaxed_pfrc_keeps_them() {
    let scenario = chain("pfrc+relaxed", "120 kbit/s");
    let record = run(&scenario, &RunOptions { seed: 1, ..RunOptions::default() }).unwrap();
    let rates: Vec<f64> = record.flows.iter().map(|f| f.goodput_bps / 1e3).collect();
    assert!(rates[0] < 31.2, "at most the plan: {rates:.1?}");
    assert!(rates[3] > 0.9 * 116.8, "nearly the guarantee: {rates:.1?}");
    assert!(rates[1] > 35.0 && rates[2] > 35.0, "and the others live: {rates:.1?}");
    let refused = run(&chain("pfrc+relaxed", "400 kbit/s"), &RunOptions::default());
    assert!(refused.is_err());
}

/// Weights below 1 keep their ratio if all flows share one limit.
///
/// The ratio is exact for datagrams, and for TCP with a buffer that never empties. With five packets, as
/// published, the window of a fast TCP drains it at each loss.
#[test]
fn an_aggregate_is_shared_by_weight() {
    const DATAGRAMS: &str = r#"{ kind = "cbr", rate = "10 Mbit/s" }"#;
    const TCP: &str = r#""bulk""#;
    for (control, queue, traffic, off) in [
        ("static-fq", 5, DATAGRAMS, 0.02),
        ("arc-fq", 5, DATAGRAMS, 0.02),
        ("static-fq", 5, TCP, 0.15),
        ("static-fq", 25, TCP, 0.01),
    ] {
        let text = format!(
            r#"
            duration = "40 s"
            warmup = "15 s"
            [radio]
            phy = "802.11g"
            rate = "24 Mbit/s"
            [topology]
            cell = {{ stations = 3 }}
            gateway = "ap"
            [wired]
            hosts = ["net"]
            [control]
            use = "{control}"
            queue = {queue}
            [traffic]
            traffic = {traffic}
            [[flow]]
            from = "net"
            to = 1
            weight = 0.25
            [[flow]]
            from = "net"
            to = 2
            weight = 0.5
            [[flow]]
            from = "net"
            to = 3
            weight = 1
            "#
        );
        let scenario = draft_from_toml("weights.toml", &text).unwrap().build().unwrap();
        let record = run(&scenario, &RunOptions { seed: 1, ..RunOptions::default() }).unwrap();
        let goodput: Vec<f64> = record.flows.iter().map(|f| f.goodput_bps).collect();
        for (rate, share) in goodput.iter().zip([1.0, 2.0, 4.0]) {
            let ratio = rate / goodput[0] / share;
            assert!((ratio - 1.0).abs() < off, "{control}: {traffic}: {goodput:.0?}");
        }
    }
}
