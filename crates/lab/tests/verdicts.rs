//! Verdicts of real runs.
//!
//! A flow starves only relative to its demand, and the reason names the hop.

use std::fs;
use std::path::Path;

use fairmesh_lab::batch::{Batch, Pool};
use fairmesh_lab::control::Registry;
use fairmesh_lab::{Changes, Comparison, source};

/// Compares controls on a scenario in a file of its own.
fn compare(name: &str, toml: &str, controls: &[&str], seeds: u64) -> Comparison {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verdict-{name}.toml"));
    fs::write(&file, toml).unwrap();
    let registry = Registry::standard();
    let loaded = source::load(&file, &Changes::default(), &registry).unwrap();
    let batch = Batch::new(&loaded.scenario, controls, &registry, 1..=seeds).unwrap();
    Comparison::of(&batch.run(&Pool::default()).unwrap())
}

const CHAIN: &str = "duration = \"60 s\"\nwarmup = \"5 s\"\n[radio]\nphy = \"802.11b\"\nrate = \"1 Mbit/s\"\n\
                     [topology]\nchain = { hops = 3 }\ngateway = 0\n";

#[test]
fn a_lone_reader_of_pages_does_not_starve() {
    let web = "[[flow]]\nfrom = 0\nto = 3\n\
               traffic = { kind = \"http\", size = \"10 kB\", pause = \"10 s\" }\n";
    let c = compare("web", &format!("{CHAIN}{web}"), &["fifo"], 2);
    let r = &c.results[0];
    let f = &r.flows[0];
    assert!(f.goodput_bps.mean < 0.1 * f.fair_bps.unwrap(), "the premise: {f:?}");
    assert!(f.active_share < 0.3, "{}", f.active_share);
    assert!(r.starving.is_empty(), "{:?}", r.starving);
    assert!(r.min_over_fair.unwrap().mean > 0.1, "the measures use the same rule");
}

#[test]
fn a_slow_sender_of_datagrams_is_judged_by_its_own_rate() {
    let cbr = "[[flow]]\nfrom = 3\nto = 0\n\
               traffic = { kind = \"cbr\", rate = \"2 kbit/s\", packet = \"100 B\" }\n";
    let c = compare("cbr", &format!("{CHAIN}{cbr}"), &["fifo"], 2);
    let f = &c.results[0].flows[0];
    assert!(c.results[0].starving.is_empty());
    assert!(f.over_fair.unwrap() > 0.9 && f.fair_bps.unwrap() < 2.1e3, "{f:?}");
}

#[test]
fn the_middle_of_the_stack_starves_by_terminals_that_its_sender_cannot_sense() {
    let stack = "duration = \"60 s\"\nwarmup = \"10 s\"\n\
                 [radio]\nphy = \"802.11b\"\nrate = \"11 Mbit/s\"\nprofile = \"graph\"\nqueue = 64\n\
                 [topology]\nlinks = [[1,2],[2,3],[4,5],[5,6],[7,8],[8,9],[2,5],[5,8]]\n\
                 [[flow]]\nfrom = 1\nto = 3\n[[flow]]\nfrom = 4\nto = 6\n[[flow]]\nfrom = 7\nto = 9\n";
    let c = compare("stack", stack, &["fifo", "source"], 2);
    let fifo = &c.results[0];
    assert_eq!(fifo.starving.len(), 1, "{:?}", fifo.starving);
    let starving = &fifo.starving[0];
    assert_eq!(starving.label, "4 → 6");
    let hop = starving.worst_hop.as_ref().expect("a hop that loses frames");
    assert_eq!((hop.from.as_str(), hop.to.as_str()), ("4", "5"));
    assert!(hop.unanswered > 0.3, "{hop:?}");
    // Node 5 senses nodes 2 and 8; node 4 senses neither.
    let main = hop.main_overlap().unwrap();
    assert!(["2", "8"].contains(&main.station.as_str()) && !main.sensed, "{hop:?}");
    // Gain and cost of the other control, compared with fifo.
    let source = &c.results[1];
    assert!(source.starving.is_empty(), "{:?}", source.starving);
    let tradeoff = source.tradeoff.as_ref().unwrap();
    assert_eq!((tradeoff.baseline.as_str(), tradeoff.slowest), ("fifo", 1));
    assert!(tradeoff.slowest_bps.mean > 5.0 * tradeoff.slowest_baseline_bps.mean);
    assert!(tradeoff.sum_change.mean < -0.05, "fairness has its price here: {tradeoff:?}");
    assert!(fifo.tradeoff.is_none());
}

#[test]
fn fair_rates_of_radios_that_aggregate_are_marked_as_bounds() {
    let n = "duration = \"5 s\"\nwarmup = \"1 s\"\n[radio]\nphy = \"802.11n\"\nmcs = 4\n\
             [topology]\nchain = { hops = 2 }\ngateway = 0\n[traffic]\nflows = \"up\"\n";
    assert!(compare("n", n, &["fifo"], 1).results[0].fair_is_upper_bound);
    let b = n.replace("802.11n", "802.11b").replace("mcs = 4\n", "");
    assert!(!compare("b", &b, &["fifo"], 1).results[0].fair_is_upper_bound);
}

#[test]
fn lost_data_lost_answers_and_the_warm_up_are_counted_apart() {
    let busy = format!("{CHAIN}[traffic]\nflows = \"up\"\n");
    let c = compare("losses", &busy, &["fifo"], 1);
    for f in &c.results[0].flows {
        let (all, data, answers) = (f.drops.total(), f.data_drops.total(), f.answer_drops.total());
        assert!(data + answers <= all, "{f:?}");
    }
    let lost: f64 = c.results[0].flows.iter().map(|f| f.data_drops.total()).sum();
    assert!(lost > 0.0, "the test shows nothing");
}
