//! Several gateways.
//!
//! The cases: a control for each, controls that exchange reports, and one that sees all.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{Scenario, draft_from_toml};

/// A line of eight nodes with a gateway at each end.
///
/// Homes next to one of them and far from the other.
fn line(control: &str, homes: &str, more: &str) -> Scenario {
    let text = format!(
        r#"
        duration = "300 s"
        warmup = "120 s"
        [radio]
        phy = "802.11b"
        rate = "11 Mbit/s"
        [topology]
        chain = {{ hops = 7 }}
        gateways = [0, 7]
        [wired]
        hosts = ["server"]
        [traffic]
        flows = "up"
        nodes = {homes}
        host = "server"
        transport = {{ tcp = "newreno", preset = "rfc" }}
        [subscribers]
        per = "node"
        [control]
        use = "{control}"
        {more}
        "#
    );
    draft_from_toml("line.toml", &text).unwrap().build().unwrap_or_else(|e| panic!("{e}"))
}

fn record(scenario: &Scenario) -> RunRecord {
    run(scenario, &RunOptions::default()).unwrap()
}

fn kbit(r: &RunRecord) -> Vec<f64> {
    r.subscribers.iter().map(|s| s.goodput_bps / 1e3).collect()
}

fn least(r: &RunRecord) -> f64 {
    kbit(r).into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn every_gateway_limits_its_own_subscribers_only() {
    let mut s = line("static-flow", "[1, 2, 5, 6]", "");
    assert_eq!(fairmesh_engine::controlled_nodes(&s), 2);
    let r = record(&s);
    let nodes: std::collections::BTreeSet<&str> =
        r.decisions.iter().map(|d| d.node.as_str()).collect();
    assert!(nodes.iter().all(|n| ["0", "7"].contains(n)), "{nodes:?}");
    // A ceiling at 0 applies there, and not to flows through 7.
    let ceiling = "[[subscriber]]\nnodes = [1]\nup = \"50 kbit/s\"";
    s = line("pfrc", "[1, 2, 5, 6]", ceiling);
    let homes = kbit(&record(&s));
    assert!(homes[0] < 52.0 && homes[0] > 40.0, "{homes:.0?}");
    assert!(homes[1..].iter().all(|h| *h > 60.0), "{homes:.0?}");
}

#[test]
fn traffic_that_passes_a_gateway_over_the_air_is_not_its_own() {
    // Home 1 uses gateway 7 and only passes gateway 0 over the air.
    let text = r#"
        duration = "60 s"
        [radio]
        rate = "11 Mbit/s"
        [topology]
        links = [[1, 0], [0, 2], [2, 3]]
        gateways = [0, 3]
        [[node]]
        id = 1
        gateway = 3
        [wired]
        hosts = ["server"]
        [[flow]]
        from = 1
        to = "server"
        [[flow]]
        from = 2
        to = "server"
        [control]
        use = "CONTROL"
        limit = 200_000
        "#;
    let run = |control: &str| {
        let text = text.replace("CONTROL", control);
        let s = draft_from_toml("past.toml", &text).unwrap().build().unwrap();
        assert_eq!(s.flows()[0].path.len(), 5, "over 0 and 2 to 3");
        record(&s)
    };
    // The limit of all traffic at 0 applies to 2 alone, that at 3 to 1.
    let r = run("static");
    let kbit: Vec<f64> = r.flows.iter().map(|f| f.goodput_bps / 1e3).collect();
    assert!(kbit.iter().all(|k| (170.0..200.0).contains(k)), "{kbit:.0?}");
}

#[test]
fn gateways_that_exchange_counters_share_as_one() {
    let text = include_str!("../../../scenarios/two-gateways.toml");
    let world = |control: &str| {
        let s = draft_from_toml("two-gateways.toml", text).unwrap().build().unwrap();
        record(&s.with_control(fairmesh_control::Registry::standard().lookup(control).unwrap()))
    };
    let (apart, exchanging) = (world("rtt"), world("rtt+peers"));
    // A single control over all gateways gave the slowest home 404 kbit/s (docs/controls/peers.md).
    assert!(least(&exchanging) > 0.9 * 404.0, "{:.0?}", kbit(&exchanging));
    assert!(
        least(&exchanging) > 1.5 * least(&apart),
        "{:.0?} {:.0?}",
        kbit(&exchanging),
        kbit(&apart)
    );
    // The messages are counted, and used no air.
    let signalling = &exchanging.totals.signalling;
    let each = signalling.outside_bytes / signalling.outside_messages.max(1);
    assert!(signalling.outside_messages > 500 && each < 200, "{signalling:?}");
    assert_eq!(signalling.message_frames, 0);
}

#[test]
fn mechanisms_for_one_gateway_are_refused_by_name() {
    for control in ["gap", "ifa"] {
        let refused = run(&line(control, "[1, 6]", ""), &RunOptions::default()).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("knows one gateway; the mesh has 2"), "{text}");
    }
}

/// Gateways with their own control run as with that control alone, to the last bit.
///
/// The other nodes run the scenario's, whether or not the gateways are in the list of participating
/// nodes.
#[test]
fn gateways_run_a_control_of_their_own() {
    let alone = record(&line("pfrc", "[1, 2, 5, 6]", ""));
    let s = line("fifo", "[1, 2, 5, 6]", "gateway = \"pfrc\"");
    let r = record(&s);
    assert_eq!((r.control.as_str(), &r.fingerprint), ("fifo, gateways pfrc", &alone.fingerprint));
    let theirs = |r: &RunRecord| -> std::collections::BTreeMap<String, usize> {
        let mut nodes = std::collections::BTreeMap::new();
        r.decisions.iter().for_each(|d| *nodes.entry(d.node.clone()).or_default() += 1);
        nodes
    };
    let both = line("mesh-maxmin", "[1, 2, 5, 6]", "gateway = \"rtt\"\nnodes = [1, 2]");
    let r = record(&both);
    let nodes = theirs(&r);
    assert!(["0", "7", "1"].iter().all(|n| nodes.contains_key(*n)), "{nodes:?}");
    assert!(["5", "6"].iter().all(|n| !nodes.contains_key(*n)), "{nodes:?}");
    assert!(least(&r) > 0.0);
}
