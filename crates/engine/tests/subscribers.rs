//! At a gateway a subscriber's flows of one direction are one share, as in the daemon.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, fair_rates, run};
use fairmesh_scenario::{Scenario, draft_from_toml};

/// Three homes in a chain. `subscribers`: their settings.
fn chain(control: &str, flows: &str, subscribers: &str) -> Scenario {
    let text = format!(
        r#"
        duration = "200 s"
        warmup = "100 s"
        [radio]
        rate = "11 Mbit/s"
        [topology]
        chain = {{ hops = 3 }}
        gateway = 0
        [wired]
        hosts = ["server"]
        [traffic]
        transport = {{ tcp = "newreno", preset = "rfc" }}
        [control]
        use = "{control}"
        {flows}
        {subscribers}
        "#
    );
    draft_from_toml("homes.toml", &text).unwrap().build().unwrap_or_else(|e| panic!("{e}"))
}

const PER_NODE: &str = "[subscribers]\nper = \"node\"";
/// Downloads of all three homes, eight at once in the first.
const EIGHT: &str = "[[flow]]\nfrom = \"server\"\nto = 1\nconnections = 8\n\
    [[flow]]\nfrom = \"server\"\nto = 2\n[[flow]]\nfrom = \"server\"\nto = 3\n";

fn record(scenario: &Scenario) -> RunRecord {
    run(scenario, &RunOptions::default()).unwrap()
}

fn kbit(r: &RunRecord) -> Vec<f64> {
    r.subscribers.iter().map(|s| s.goodput_bps / 1e3).collect()
}

#[test]
fn a_home_with_eight_downloads_has_one_share() {
    for control in ["static-flow", "pfrc", "pfrc+bursts", "rtt"] {
        let homes = kbit(&record(&chain(control, EIGHT, PER_NODE)));
        let (least, most) =
            homes.iter().fold((f64::MAX, 0.0f64), |(l, m), h| (l.min(*h), m.max(*h)));
        assert!(most < 1.5 * least, "{control}: {homes:.0?}");
        assert!(least > 400.0, "{control}: {homes:.0?}");
        // Flow by flow it has many times the goodput of the others.
        let flows = record(&chain(control, EIGHT, ""));
        let first: f64 = flows.flows[..8].iter().map(|f| f.goodput_bps).sum();
        assert!(first > 4.0 * flows.flows[9].goodput_bps, "{control}");
        assert!(flows.subscribers.is_empty());
    }
}

#[test]
fn a_subscriber_of_one_flow_each_way_is_that_flow() {
    for control in ["fifo", "pfrc", "rtt", "static-flow", "arc-fq"] {
        let build = |subscribers: &str| {
            let text = "[[flow]]\nfrom = 1\nto = \"server\"\n[[flow]]\nfrom = \"server\"\nto = 1\n\
                [[flow]]\nfrom = 3\nto = \"server\"\n[[flow]]\nfrom = \"server\"\nto = 3\n";
            record(&chain(control, text, subscribers))
        };
        let (with, without) = (build(PER_NODE), build(""));
        assert_eq!(with.fingerprint, without.fingerprint, "{control}");
        assert_eq!(with.decisions.len(), without.decisions.len());
        assert_eq!(with.subscribers.len(), 2);
    }
}

#[test]
fn directions_are_shares_of_their_own_and_terms_are_the_subscribers() {
    let flows = "[[flow]]\nfrom = \"server\"\nto = 1\nconnections = 4\n\
        [[flow]]\nfrom = 1\nto = \"server\"\nconnections = 4\n\
        [[flow]]\nfrom = \"server\"\nto = 2\nconnections = 2\n[[flow]]\nfrom = \"server\"\nto = 3\n";
    let terms = "[subscribers]\nper = \"node\"\n[[subscriber]]\nnodes = [1]\ndown = \"200 kbit/s\"\n\
        [[subscriber]]\nnodes = [2]\nweight = 2";
    let r = record(&chain("pfrc", flows, terms));
    let [one, two, three] = &r.subscribers[..] else { panic!("{:?}", r.subscribers) };
    let ceiling = 200e3 * 1460.0 / 1500.0;
    assert!(
        one.goodput_down_bps < 1.02 * ceiling && one.goodput_down_bps > 0.85 * ceiling,
        "{one:?}"
    );
    assert!(one.goodput_up_bps > 2.0 * one.goodput_down_bps, "{one:?}");
    let ratio = two.goodput_bps / three.goodput_bps;
    assert!((1.7..2.3).contains(&ratio), "by weight: {ratio:.2}");
    assert_eq!(one.flows, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_leaf_is_fair_among_connections_or_the_controls_own() {
    // A call beside downloads, in a class of 600 kbit/s.
    let flows = "[[flow]]\nfrom = \"server\"\nto = 2\nconnections = 8\n\
        [[flow]]\nfrom = \"server\"\nto = 2\n\
        traffic = { kind = \"cbr\", rate = \"40 kbit/s\", packet = \"160 B\" }\n";
    let terms = |leaf: &str| {
        format!(
            "[subscribers]\nleaf = \"{leaf}\"\n[[subscriber]]\nnodes = [2]\ndown = \"600 kbit/s\""
        )
    };
    let call = |leaf: &str| {
        let r = record(&chain("pfrc", flows, &terms(leaf)));
        r.flows[8].packets_delivered as f64 / r.flows[8].packets_sent as f64
    };
    let (fair, shared) = (call("fq"), call("control"));
    assert!(fair > 0.98, "{fair}");
    assert!(shared < 0.9, "{shared}");
}

#[test]
fn fq_codel_in_a_class_shortens_the_wait_of_a_lone_transfer_too() {
    let flows = "[[flow]]\nfrom = \"server\"\nto = 2\n[[flow]]\nfrom = 2\nto = \"server\"\n";
    let terms = |leaf: &str| {
        format!(
            "[subscribers]\nper = \"node\"\nleaf = \"{leaf}\"\n\
             [[subscriber]]\nnodes = [2]\ndown = \"400 kbit/s\"\nup = \"400 kbit/s\""
        )
    };
    let run = |leaf: &str| record(&chain("rtt", flows, &terms(leaf)));
    let (plain, codel) = (run("control"), run("fq_codel"));
    for (plain, codel) in plain.flows.iter().zip(&codel.flows) {
        assert!(plain.delay_s.p50 > 0.15, "{:?}", plain.delay_s);
        assert!(codel.delay_s.p50 < 0.4 * plain.delay_s.p50, "{:?}", codel.delay_s);
        assert!(codel.goodput_bps > 0.9 * plain.goodput_bps, "{}", codel.goodput_bps);
        assert!(codel.drops.limiter > 0 && codel.drops.queue == 0, "{:?}", codel.drops);
    }
}

#[test]
fn analytic_shares_are_the_subscribers() {
    let rates = |flows: &str, terms: &str| {
        let s = chain("fifo", flows, terms);
        let rates = fair_rates(&s).unwrap().rates_bps;
        s.subscribers()
            .list
            .iter()
            .map(|s| s.flows().map(|f| rates[f]).sum::<f64>() / 1e3)
            .collect::<Vec<f64>>()
    };
    let same = |homes: &[f64]| homes.iter().all(|h| (h - homes[0]).abs() < 1e-6 * homes[0]);
    let eight = rates(EIGHT, PER_NODE);
    assert!(same(&eight), "{eight:.1?}");
    // Both directions together; capacity unused by a call belongs to its home.
    let mixed = format!(
        "{EIGHT}[[flow]]\nfrom = 3\nto = \"server\"\n[[flow]]\nfrom = \"server\"\nto = 2\n\
         traffic = {{ kind = \"cbr\", rate = \"40 kbit/s\", packet = \"1472 B\" }}\n"
    );
    let homes = rates(&mixed, PER_NODE);
    assert!((homes[0] - homes[1]).abs() < 0.01 * homes[0], "{homes:.1?}");
    assert!((homes[2] - homes[1]).abs() < 0.01 * homes[0], "{homes:.1?}");
}
