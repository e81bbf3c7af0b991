//! A home that sends unresponsive datagrams, and traffic that could be mistaken for it.

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{Draft, Name, draft_from_toml};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::Span;

fn shipped(name: &str) -> Draft {
    let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    draft_from_toml(&path, &text).unwrap()
}

fn record(draft: &Draft, control: &str, seed: u64) -> RunRecord {
    let mut draft = draft.clone();
    draft.control.name = control.to_owned();
    run(&draft.build().unwrap(), &RunOptions { seed, ..RunOptions::default() }).unwrap()
}

/// Instants of the control's decisions with this code, s.
fn times(record: &RunRecord, code: &str) -> Vec<f64> {
    record.decisions.iter().filter(|d| d.code == code).map(|d| d.time_s).collect()
}

/// Goodput of the homes without the flood, kbit/s, nearest first.
fn others(record: &RunRecord) -> [f64; 3] {
    let of = |home: &str| {
        let home = record.subscribers.iter().find(|s| s.name == home).unwrap();
        home.goodput_bps / 1e3
    };
    ["1", "3", "4"].map(of)
}

/// Returns the homes with one more TCP flow instead of the flood.
fn without(draft: &Draft) -> Draft {
    let mut draft = draft.clone();
    let flood = draft.flow.iter_mut().find(|f| f.name.as_deref() == Some("flood")).unwrap();
    flood.traffic = None;
    draft
}

#[test]
fn a_flood_is_named_within_ten_seconds_and_held_where_it_starts() {
    let draft = shipped("flood");
    for seed in 1..=3 {
        let spared = others(&record(&without(&draft), "rtt+agents", seed));
        let held = record(&draft, "rtt+agents", seed);
        let named = times(&held, "rtt.flood");
        assert!((60.0..=70.0).contains(&named[0]), "{seed}: {named:?}");
        assert_eq!(named.len(), 1, "{seed}: {named:?}");
        // Neither a second flow of the same home nor another home's is named.
        assert!(
            held.decisions.iter().all(|d| {
                d.code != "rtt.flood" || d.reason.starts_with("flow 2 (up) is a flood")
            })
        );
        let now = others(&held);
        // Home 1 may have received more than the common share, by another course of the search.
        let share = spared.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(now.iter().all(|now| *now > 0.9 * share), "{seed}: {now:.1?} of {spared:.1?}");
        let sum = |homes: &[f64]| homes.iter().sum::<f64>();
        assert!(sum(&now) > 0.9 * sum(&spared), "{seed}: {now:.1?} of {spared:.1?}");
        // The flood uses up its home's share, and no more.
        let own = held.subscribers.iter().find(|s| s.name == "2").unwrap().goodput_bps / 1e3;
        assert!(own < 1.2 * sum(&now) / 3.0, "{seed}: {own:.1} beside {now:.1?}");
        assert!(held.totals.signalling.messages > 20, "{:?}", held.totals.signalling);
    }
}

#[test]
fn without_an_agent_there_it_is_named_and_nothing_holds_it() {
    let draft = shipped("flood");
    let plain = record(&draft, "rtt", 1);
    assert!((60.0..=70.0).contains(&times(&plain, "rtt.flood")[0]));
    let mut elsewhere = draft.clone();
    elsewhere.control.agents = Some([1, 3, 4].map(Name::from).to_vec());
    let deaf = record(&elsewhere, "rtt+agents", 1);
    assert!((78.0..=95.0).contains(&times(&deaf, "rtt.deaf")[0]));
    assert_eq!(times(&deaf, "rtt.held"), [0.0; 0]);
    let [.., far] = others(&record(&draft, "rtt+agents", 1));
    for record in [&plain, &deaf] {
        assert!(others(record)[2] < 0.2 * far, "{:?}", others(record));
        // It is not rewarded: its goodput does not exceed that of the nearest home.
        let own = record.subscribers.iter().find(|s| s.name == "2").unwrap().goodput_bps / 1e3;
        assert!(own < 1.2 * others(record)[0], "{own:.0}, {:?}", others(record));
    }
}

#[test]
fn an_agent_discards_limits_that_are_not_renewed() {
    let mut draft = shipped("flood");
    // The messages end with the flood.
    let flood = draft.flow.iter_mut().find(|f| f.name.as_deref() == Some("flood")).unwrap();
    flood.stop = Some(Span::from_secs(120));
    draft.flow.retain(|f| f.name.as_deref() == Some("flood"));
    draft.traffic.nodes = Some([1, 3, 4].map(Name::from).to_vec());
    let record = record(&draft, "rtt+agents", 1);
    let calm = times(&record, "rtt.calm");
    assert!((130.0..=160.0).contains(&calm[0]), "{calm:?}");
    let ended: Vec<f64> =
        ["agent.lifted", "agent.forgotten"].iter().flat_map(|c| times(&record, c)).collect();
    assert!(ended.len() == 1 && ended[0] <= calm[0] + 16.0, "{ended:?} {calm:?}");
}

/// Transfers, pages, calls below their share, hidden and lossy links.
///
/// They all respond at least as well as a transport.
#[test]
fn other_traffic_is_not_taken_for_a_flood() {
    for name in [
        "households-evening",
        "neighbourhood-evening",
        "neighbourhood",
        "jamshaid-fig-8.2",
        "jamshaid-fig-7.3",
        "chain-8",
        "stack",
    ] {
        let draft = shipped(name);
        let floods = |t: &TrafficSpec| matches!(t, TrafficSpec::Cbr { .. });
        let calls = draft.build().unwrap().flows().iter().filter(|f| floods(&f.traffic)).count();
        let record = record(&draft, "rtt", 1);
        assert_eq!(times(&record, "rtt.flood"), [0.0; 0], "{name}, {calls} calls");
    }
}

/// Twelve transfers that start together under a limit of two packets a second respond.
///
/// They lose most of their data for some seconds.
#[test]
fn many_connections_at_a_low_limit_answer() {
    for tcp in ["tcp = \"newreno\"", "tcp = \"cubic\", preset = \"linux\""] {
        let text = format!(
            r#"
            duration = "200 s"
            [radio]
            phy = "802.11b"
            rate = "1 Mbit/s"
            [topology]
            chain = {{ hops = 8 }}
            gateway = 0
            [wired]
            hosts = ["server"]
            [subscribers]
            per = "node"
            [traffic]
            flows = "up"
            nodes = [1, 2, 4, 5, 7, 8]
            host = "server"
            transport = {{ {tcp} }}
            [[flow]]
            from = 3
            to = "server"
            connections = 12
            start = "100 s"
            [control]
            use = "rtt"
            # As short as the daemon's: in longer ones they are hardly ever suspected.
            queue = 5
            "#
        );
        let draft = draft_from_toml("many.toml", &text).unwrap();
        for seed in 1..=3 {
            let record = record(&draft, "rtt", seed);
            assert_eq!(times(&record, "rtt.flood"), [0.0; 0], "{tcp}, {seed}");
        }
    }
}
