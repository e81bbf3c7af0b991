//! `wcp` on the engine's radio: the claims of Rangwala 2008 §4.2 for the Stack.

use fairmesh_engine::measures::jain;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::draft_from_toml;

use fairmesh_units::Span;

fn stack(control: &str, seed: u64) -> RunRecord {
    shipped("stack", control, seed)
}

fn shipped(name: &str, control: &str, seed: u64) -> RunRecord {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let scenario = draft_from_toml(&path, &text).unwrap().build().unwrap();
    let scenario =
        scenario.with_control(fairmesh_control::Registry::standard().lookup(control).unwrap());
    run(&scenario, &RunOptions { seed, sample: Some(Span::from_secs(10)), ..RunOptions::default() })
        .unwrap()
}

fn goodputs(r: &RunRecord) -> Vec<f64> {
    r.flows.iter().map(|f| f.goodput_bps / 1e3).collect()
}

/// Figs. 8 and 9. The optimum is 262 kbit/s by the achievable rate region here.
#[test]
fn the_stack_is_shared_alike_because_congestion_is() {
    for seed in 1..=2 {
        let r = stack("wcp+doubling+two-trips", seed);
        let rates = goodputs(&r);
        // §4.4: within 20 % of the optimum.
        assert!(jain(&rates) >= 0.99, "{rates:?}");
        assert!(rates.iter().sum::<f64>() > 3.0 * 0.8 * 262.0, "{rates:?}");
        assert!(rates.iter().all(|x| *x > 0.77 * 262.0), "{rates:?}");
        // Twenty bytes in every packet and acknowledgement cost slightly more than 1 % of the air.
        let s = r.totals.signalling;
        assert!(s.messages == 0 && s.header_bytes > 0, "{s:?}");
        assert!((0.002..0.02).contains(&s.airtime_share), "{s:?}");
    }
    // Outside the air: seven bytes remain.
    let s = stack("wcp+ideal+doubling+two-trips", 1).totals.signalling;
    assert!(s.outside_messages > 1000 && (0.001..0.005).contains(&s.airtime_share), "{s:?}");
    // Without sharing the middle flow starves as under TCP, but less.
    let rates = goodputs(&stack("wcp+alone+own-rtt+doubling+two-trips", 1));
    assert!(rates[1] < 0.5 * rates[0].min(rates[2]), "{rates:?}");
    assert!(rates[1] > 30.0, "{rates:?}");
}

/// Fig. 10: a flow through two separate congested regions gets notifications from both.
#[test]
fn rates_fall_with_the_congested_regions_on_the_way() {
    let r = shipped("diamond-joined", "wcp+doubling+two-trips", 1);
    let rates = goodputs(&r);
    assert!((0.3..0.65).contains(&(rates[1] / rates[0].min(rates[2]))), "{rates:?}");
    // The curve of the rates set at sources is recorded.
    let set = &r.series.limit_bps;
    assert!(set.iter().all(|c| c.len() == r.series.time_s.len()), "{set:?}");
    let mean = |f: usize| set[f][2..].iter().sum::<f64>() / (set[f].len() - 2) as f64 / 1e3;
    assert!((0.8..1.4).contains(&(mean(0) / rates[0])), "{} {rates:?}", mean(0));
}
