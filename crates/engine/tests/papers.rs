//! Results of the papers for plain 802.11, with UDP and TCP and without control.
//!
//! The scenarios are the shipped ones, with shorter durations where a mean over seeds is
//! equivalent. Figures in kbit/s. docs/models/radio.md lists the differences between ns-2 and this
//! radio; ns-3 under the same rules agrees with every number here within its interval.

use fairmesh_engine::measures::jain;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{Draft, Name, TrafficDraft, draft_from_toml};
use fairmesh_units::{BitRate, Bytes, Span};

fn shipped(name: &str) -> Draft {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    draft_from_toml(&path, &text).unwrap()
}

/// Mean goodput of each flow over these seeds, kbit/s.
fn goodputs(draft: &Draft, seeds: u64) -> Vec<f64> {
    let scenario = draft.build().unwrap();
    let mut means = vec![0.0; scenario.flows().len()];
    for seed in 1..=seeds {
        let record = run(&scenario, &RunOptions { seed, ..RunOptions::default() }).unwrap();
        for (mean, flow) in means.iter_mut().zip(&record.flows) {
            *mean += flow.goodput_bps / 1e3 / seeds as f64;
        }
    }
    means
}

fn chain_udp(name: &str, kbps: u64) -> Vec<f64> {
    let mut draft = shipped(name);
    draft.traffic.traffic = Some(TrafficDraft::cbr(BitRate(kbps * 1000), Bytes(1500), 0.5));
    goodputs(&draft, 3)
}

fn near(got: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((got / expected - 1.0).abs() < tolerance, "{what}: {got:.1} instead of {expected:.1}");
}

/// Jamshaid 2010 Fig. 3.2a: up to the fair share, about 150 kbit/s, all demands are met.
///
/// Above it the flow of three hops loses first, then that of two, and with them the sum.
#[test]
fn uploads_over_a_chain_collapse_beyond_the_fair_share() {
    for load in [50, 100, 140] {
        for (i, rate) in chain_udp("chain-3-udp-up", load).into_iter().enumerate() {
            near(rate, load as f64, 0.025, &format!("flow {} at {load}", i + 1));
        }
    }
    let loads = [150, 200, 250, 300, 350, 400];
    let rates: Vec<Vec<f64>> = loads.iter().map(|&l| chain_udp("chain-3-udp-up", l)).collect();
    for (load, r) in loads.iter().zip(&rates).skip(1) {
        assert!(r[0] > r[1] && r[1] > r[2], "{load}: {r:?}");
    }
    for (w, load) in rates.windows(2).zip(&loads) {
        assert!(w[1][2] < w[0][2], "flow 3 beyond {load}: {w:?}");
        assert!(w[1][0] > w[0][0], "flow 1 beyond {load}: {w:?}");
    }
    // Three hops fall to 3/4 before two hops have lost a tenth.
    assert!(rates[1][2] < 0.8 * 150.0 && rates[1][1] > 0.9 * 150.0, "{:?}", rates[1]);
    assert!(rates[5][2] < 30.0 && rates[5][1] < 90.0 && rates[5][0] > 300.0, "{:?}", rates[5]);
    let sum = |r: &[f64]| r.iter().sum::<f64>();
    assert!(sum(&rates[5]) < 0.96 * sum(&rates[0]), "capacity is lost");
}

/// Jamshaid 2010 Fig. 3.2b.
///
/// Downloads are dropped before they cost airtime, so no flow loses more.
#[test]
fn downloads_over_a_chain_do_not_collapse() {
    for load in [200, 300, 400] {
        let rates = chain_udp("chain-3-udp-down", load);
        for (i, &rate) in rates.iter().enumerate() {
            near(rate, 150.0, 0.07, &format!("flow {} at {load}", i + 1));
        }
        assert!(jain(&rates) > 0.995);
    }
}

/// Jamshaid 2010 Fig. 3.4.
///
/// One TCP flow gets nearly 800 kbit/s over one hop, a half over two, a third over three, and levels off at
/// about a sixth.
#[test]
fn tcp_over_one_to_eight_hops() {
    let goodput = |hops: usize| {
        let mut draft = shipped("chain-8");
        draft.traffic.nodes = Some(vec![Name::from(hops)]);
        goodputs(&draft, 3)[0]
    };
    let by_hops: Vec<f64> = (1..=8).map(goodput).collect();
    near(by_hops[0], 780.0, 0.04, "one hop");
    near(by_hops[1] / by_hops[0], 0.5, 0.05, "two hops of one");
    near(by_hops[2] / by_hops[0], 0.3, 0.1, "three hops of one");
    assert!(by_hops.windows(2).all(|w| w[1] < w[0] * 1.03), "never rises: {by_hops:?}");
    for (hops, rate) in by_hops.iter().enumerate().skip(5) {
        near(*rate, 140.0, 0.1, &format!("{} hops", hops + 1));
    }
    assert!(by_hops[7] / by_hops[6] > 0.9, "levels off: {by_hops:?}");
}

/// Jamshaid 2010 Fig. 3.5: of three TCP uploads the farthest gets by far the least.
///
/// (ns-2 gives the nearest more than the second; here and in ns-3 these two are about equal.)
#[test]
fn the_farthest_of_three_uploads_starves() {
    let rates = goodputs(&shipped("chain-3-up"), 10);
    assert!(rates[2] < 0.45 * rates[0] && rates[2] < 0.45 * rates[1], "{rates:?}");
    near(rates.iter().sum(), 450.0, 0.08, "together");
}

/// Rangwala 2008 §4.2, plain TCP (SACK, RTS/CTS).
#[test]
fn starving_flows_in_the_four_topologies() {
    let rates = |name: &str| {
        let mut draft = shipped(name);
        draft.duration = Span::from_secs(60);
        draft.warmup = Some(Span::from_secs(10));
        goodputs(&draft, 3)
    };
    // Stack, Fig. 9 and Diamond, Fig. 10: the middle flow.
    for name in ["stack", "diamond"] {
        let r = rates(name);
        assert!(r[1] < 0.05 * r[0].min(r[2]), "{name}: {r:?}");
        near(r[0], r[2], 0.05, name);
    }
    // As §4.2 states: "TCP starves flows traversing the congested links", 1-2 and 7-8.
    let r = rates("diamond-joined");
    assert!(r[0].max(r[2]) < 0.05 * r[1], "{r:?}");
    let r = rates("half-diamond-joined");
    assert!(r[1] > 0.2 * r[0], "{r:?}");
    // Half-Diamond, Fig. 11: TCP does better than elsewhere.
    let r = rates("half-diamond");
    assert!(r[1] > 0.1 * r[0] && r[1] < 0.5 * r[0], "{r:?}");
    // Chain-Cross, Fig. 12: both flows over the most congested link, 1-2.
    let r = rates("chain-cross");
    assert!(r[0] < 10.0 && r[1] < 10.0, "1->7 and 1->2: {r:?}");
    assert!(r[2..].iter().all(|&rate| rate > 1000.0), "the others: {r:?}");
}
