//! Wires on a flow's path: between radio links, shared, and as the whole path.

use fairmesh_engine::{EngineError, RunOptions, fair_rates, run};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_units::Span;

/// Two meshes of two nodes each, out of range of each other, and a cable between them.
fn two_meshes(rate: &str, rest: &str) -> Scenario {
    let text = format!(
        "name = \"two-meshes\"\nduration = \"12 s\"\nradio = {{ profile = \"graph\", rate = \"11 Mbit/s\" }}\n\
         topology = {{ links = [[1, 2], [3, 4]], gateway = 1 }}\n\
         wire = [{{ from = 2, to = 3, rate = \"{rate}\", delay = \"0.1 ms\", queue = 20 }}]\n{rest}"
    );
    parse("two-meshes.toml", text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn goodputs(s: &Scenario) -> Vec<f64> {
    let record = run(s, &RunOptions::default()).unwrap();
    record.flows.iter().map(|f| f.goodput_bps).collect()
}

fn near(got: f64, want: f64, part: f64) {
    assert!((got / want - 1.0).abs() < part, "{got} instead of {want}");
}

#[test]
fn a_cable_between_radio_links_takes_no_air() {
    let far = two_meshes("100 Mbit/s", "flow = [{ from = 1, to = 4 }]");
    assert_eq!((far.flows()[0].path.len(), far.flows()[0].wireless_hops), (4, 2));
    let near_by = two_meshes("100 Mbit/s", "flow = [{ from = 1, to = 2 }]");
    let (two, one) = (fair_rates(&far).unwrap(), fair_rates(&near_by).unwrap());
    // The two links do not interfere, so the path is as fast as one of them.
    near(two.rates_bps[0], one.rates_bps[0], 1e-9);
    near(two.utilization, 2.0 * two.rates_bps[0], 1e-9);
    near(goodputs(&far)[0], goodputs(&near_by)[0], 0.05);
}

/// A flow of datagrams of 1500 bytes on the wire, more than it carries.
fn datagrams(from: u32, to: u32) -> String {
    format!(
        "{{ from = {from}, to = {to}, transport = \"udp\", \
         traffic = {{ kind = \"cbr\", rate = \"3 Mbit/s\", packet = \"1472 B\" }} }}"
    )
}

/// Goodput of a wire of 1 Mbit/s.
const FULL: f64 = 1e6 * 1472.0 / 1500.0;

#[test]
fn a_slow_cable_limits_the_flows_that_share_it() {
    let flows = [datagrams(1, 4), datagrams(1, 3), datagrams(1, 2)].join(", ");
    let s = two_meshes("1 Mbit/s", &format!("flow = [{flows}]"));
    let fair = fair_rates(&s).unwrap();
    for flow in 0..2 {
        near(fair.rates_bps[flow], FULL / 2.0, 1e-9);
        assert_eq!(fair.bottleneck[flow], None);
    }
    near(fair.rates_bps[2], 3e6, 1e-9);
    let got = goodputs(&s);
    near(got[0] + got[1], FULL, 0.01);
}

#[test]
fn a_way_of_cables_alone_has_a_fair_rate() {
    let flows = [datagrams(2, 3), datagrams(3, 2)].join(", ");
    let s = two_meshes("1 Mbit/s", &format!("flow = [{flows}]"));
    // Full duplex: each direction has its own capacity.
    for rate in fair_rates(&s).unwrap().rates_bps {
        near(rate, FULL, 1e-9);
    }
    for got in goodputs(&s) {
        near(got, FULL, 0.01);
    }
}

/// A node behind a switch: radio, wire, wired host, wire, radio.
#[test]
fn a_switch_between_radio_links() {
    let s = parse(
        "switch.toml",
        br#"
        name = "switch"
        duration = "10 s"
        radio = { profile = "graph", rate = "11 Mbit/s" }
        topology = { links = [[1, 2], [3, 4]], gateway = 1 }
        node = [{ id = "switch", kind = "wired" }]
        wire = [{ from = 2, to = "switch" }, { from = "switch", to = 3 }]
        flow = [{ from = 4, to = 1 }]
        "#,
        &ImportOptions::default(),
    )
    .unwrap();
    assert_eq!((s.flows()[0].path.len(), s.flows()[0].wireless_hops), (5, 2));
    near(goodputs(&s)[0], fair_rates(&s).unwrap().rates_bps[0], 0.2);
}

#[test]
fn every_control_runs_across_a_cable() {
    let flows = "traffic = { flows = \"both\" }\n";
    for entry in fairmesh_control::Registry::standard().all() {
        let control = format!("{flows}control = {{ use = \"{}\" }}", entry.name);
        let s = two_meshes("20 Mbit/s", &control);
        let s = s.with_times(Span::from_secs(4), Span::from_secs(1)).unwrap();
        match run(&s, &RunOptions::default()) {
            Ok(record) => {
                let far = record.flows.iter().filter(|f| f.from == "4" || f.to == "4");
                assert!(far.clone().count() == 2, "{}", entry.name);
                for f in far {
                    assert!(f.goodput_bps > 0.0, "{}: {}", entry.name, f.name);
                }
            }
            // Missing settings of a mechanism are a separate case.
            Err(e @ (EngineError::Control(_) | EngineError::Conflict { .. })) => {
                let e = e.to_string();
                assert!(e.contains("expected") || e.contains("needs"), "{e}")
            }
            Err(e) => panic!("{}: {e}", entry.name),
        }
    }
}
