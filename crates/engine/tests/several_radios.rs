//! Nodes with several radios, on several channels.

use fairmesh_capacity::link::{Access, Traffic, saturated_goodput};
use fairmesh_engine::record::{FlowRecord, RunRecord};
use fairmesh_engine::{Observer, RunOptions, fair_rates, run, run_observed, run_under};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_units::NodeId;
use proptest::prelude::*;

fn read(text: &str) -> Scenario {
    parse("t.toml", text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn simulate(text: &str) -> RunRecord {
    run(&read(text), &RunOptions::default()).unwrap()
}

/// One datagram flow over two hops, above the capacity of any link.
fn chain(further: &str) -> String {
    format!(
        r#"
        duration = "10 s"
        warmup = "1 s"
        [radio]
        phy = "802.11a"
        rate = "24 Mbit/s"
        channel = 36
        {further}
        [topology]
        chain = {{ hops = 2 }}
        gateway = 0
        {turns}
        [[flow]]
        from = 2
        to = 0
        traffic = {{ kind = "cbr", rate = "50 Mbit/s", packet = "1472 B" }}
        "#,
        turns = if further.is_empty() { "" } else { "alternate = true" },
    )
}

/// If the hops do not share air, the second is as fast as the first, and both as a lone link.
#[test]
fn a_chain_on_two_channels_carries_as_much_as_a_lone_link() {
    let one = simulate(&chain("")).flows[0].goodput_bps;
    let text = chain("[radios.other]\nchannel = 149");
    let two = simulate(&text).flows[0].goodput_bps;
    let scenario = read(&text);
    let lone = saturated_goodput(
        &scenario.mac().phy,
        scenario.mac().rate,
        &Traffic::udp(1472, true),
        Access::Basic,
    );
    assert!((two / lone - 1.0).abs() < 0.005, "{two} of {lone}");
    assert!(one < two / 2.0 * 1.005 && one > two / 2.0 * 0.9, "{one} of {two}");
    // The fair-rate model agrees.
    let fair = fair_rates(&scenario).unwrap().rates_bps[0];
    assert!((fair / lone - 1.0).abs() < 0.005, "{fair} of {lone}");
    let path: Vec<&str> = scenario.flows()[0]
        .path
        .iter()
        .map(|n| scenario.nodes()[n.index()].name.as_str())
        .collect();
    // From 2 over the second radio, at 1 across to the first.
    assert_eq!(path, ["2", "2/other", "1/other", "1", "0"]);
    assert_eq!(scenario.flows()[0].wireless_hops, 2);
}

/// A cell of three senders around its access point, at this position.
fn cell(name: &str, radio: &str, x: f64, rate: &str) -> String {
    let mut text = String::new();
    for (k, dx) in [(0, 0.0), (1, 30.0), (2, -40.0), (3, 55.0)] {
        text += &format!(
            "[[node]]\nid = \"{name}{k}\"\nposition = [{}, {}]\nradios = [\"{radio}\"]\n",
            x + dx,
            dx / 2.0
        );
    }
    for k in 1..4 {
        text +=
            &format!("[[flow]]\nname = \"{name}{k}\"\nfrom = \"{name}{k}\"\nto = \"{name}0\"\n");
        text += &match k {
            1 => format!("traffic = {{ kind = \"cbr\", rate = \"{rate}\" }}\n"),
            _ => "traffic = \"bulk\"\n".to_owned(),
        };
    }
    text
}

fn cells(channels: (u32, u32), phy: &str, which: &[&str]) -> String {
    let further = match which.contains(&"b") {
        true => format!("[radios.b]\nchannel = {}\n", channels.1),
        false => String::new(),
    };
    // Alone it is the only radio, still on its own channel.
    let mut text = format!(
        "duration = \"5 s\"\n[radio]\nphy = \"{phy}\"\nchannel = {}\n{further}",
        channels.0
    );
    if which.contains(&"a") {
        text += &cell("a", "main", 0.0, "3 Mbit/s");
    }
    if which.contains(&"b") {
        text += &cell("b", "b", 20.0, "5 Mbit/s");
    }
    text
}

fn of<'a>(record: &'a RunRecord, cell: &'a str) -> Vec<&'a FlowRecord> {
    record.flows.iter().filter(|f| f.name.starts_with(cell)).collect()
}

/// Two cells within range of each other.
///
/// On channels 1 and 11 both behave as alone, to the last bit; on one channel, or on two that overlap, they
/// do not.
#[test]
fn cells_on_orthogonal_channels_are_as_alone() {
    for (phy, channels) in [("802.11g", (1, 11)), ("802.11b", (1, 13))] {
        let both = simulate(&cells(channels, phy, &["a", "b"]));
        let first = simulate(&cells(channels, phy, &["a"]));
        let alone = cells((channels.1, 0), phy, &[]) + &cell("b", "main", 20.0, "5 Mbit/s");
        let second = simulate(&alone);
        for (cell, lone) in [("a", &first), ("b", &second)] {
            let (here, there) = (of(&both, cell), of(lone, cell));
            assert_eq!(here.len(), 3);
            for (x, y) in here.iter().zip(there) {
                assert_eq!(x.goodput_bps, y.goodput_bps, "{phy} {}", x.name);
                assert_eq!(
                    (x.packets_sent, x.packets_delivered),
                    (y.packets_sent, y.packets_delivered)
                );
                assert_eq!(x.drops, y.drops);
                assert_eq!(x.tcp.as_ref().map(|t| t.segments), y.tcp.as_ref().map(|t| t.segments));
            }
            for node in lone.nodes.iter() {
                let same = both.nodes.iter().find(|n| n.name == node.name).unwrap();
                assert_eq!(
                    (same.airtime_tx, same.airtime_busy),
                    (node.airtime_tx, node.airtime_busy)
                );
            }
        }
    }
    let apart = simulate(&cells((1, 11), "802.11g", &["a", "b"]));
    let overlap = simulate(&cells((1, 3), "802.11g", &["a", "b"]));
    let sum = |r: &RunRecord| r.flows.iter().map(|f| f.goodput_bps).sum::<f64>();
    assert!(sum(&overlap) < 0.75 * sum(&apart), "{} of {}", sum(&overlap), sum(&apart));
}

/// A backhaul at 5 GHz, access at 2.4 GHz, and a wired server behind the gateway.
///
/// The radios have different PHYs.
const MESH: &str = r#"
duration = "6 s"
warmup = "1 s"
[radio]
phy = "802.11ac"
channel = 36
width = "40 MHz"
mcs = 4
[radios.access]
phy = "802.11n"
channel = 1
mcs = 5
[topology]
links = [
  { from = "gw", to = "b", radio = "main" },
  { from = "b", to = "c", radio = "main" },
  ["b", "h1"],
  ["c", "h2"],
  ["gw", "h3"],
]
gateway = "gw"
[[node]]
id = "h1"
radios = ["access"]
[[node]]
id = "h2"
radios = ["access"]
[[node]]
id = "h3"
radios = ["access"]
[wired]
hosts = ["server"]
[traffic]
flows = "both"
host = "server"
nodes = ["h1", "h2", "h3"]
"#;

/// Observed transmissions: the starts at each radio.
#[derive(Default)]
struct Sent(std::collections::BTreeMap<NodeId, Vec<(u64, u64, Option<u16>)>>);

impl Observer for Sent {
    fn frame(&mut self, f: &fairmesh_engine::observe::AirFrame) {
        let one = (f.start.as_nanos(), f.end.as_nanos(), f.channel_mhz);
        self.0.entry(f.from).or_default().push(one);
    }
}

#[test]
fn radios_of_one_node_send_at_once_each_on_its_channel() {
    let scenario = read(MESH);
    let (seen, sent) = run_observed(&scenario, &RunOptions::default(), Sent::default()).unwrap();
    assert_eq!(seen.fingerprint, run(&scenario, &RunOptions::default()).unwrap().fingerprint);
    let node = scenario.node("b").unwrap();
    let access = scenario.node("b/access").unwrap();
    let (own, other) = (&sent.0[&node], &sent.0[&access]);
    assert!(own.iter().all(|f| f.2 == Some(5180)) && other.iter().all(|f| f.2 == Some(2412)));
    let overlaps = own.iter().any(|a| other.iter().any(|b| a.0 < b.1 && b.0 < a.1));
    assert!(overlaps, "no two frames of the node's radios at once");
}

#[test]
fn every_flow_of_a_dual_band_mesh_arrives_and_every_packet_is_accounted_for() {
    let record = simulate(MESH);
    for f in &record.flows {
        assert!(
            f.goodput_bps > 100e3 && f.fair_bps.unwrap() > 100e3,
            "{}: {}",
            f.name,
            f.goodput_bps
        );
    }
    conserved(&record);
    // Every radio has a separate row: b, c and the gateway have two.
    let names: Vec<&str> = record.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    assert!(names.contains(&"gw/access") && names.contains(&"c/access"));
}

fn conserved(record: &RunRecord) {
    let t = &record.totals;
    let gone = t.delivered + t.drops.total() + t.stale + t.in_flight;
    assert_eq!(t.packets, gone, "packets {} {:?}", t.packets, t);
    for n in &record.nodes {
        let sum = n.airtime_tx + n.airtime_busy + n.airtime_idle;
        assert!((sum - 1.0).abs() < 1e-9, "{}: {sum}", n.name);
    }
}

#[test]
fn controls_of_the_gateway_work_over_both_radios_and_others_are_refused_by_name() {
    let scenario = read(MESH);
    let run = |name: &str| {
        let mechanism = fairmesh_control::Registry::standard().lookup(name).unwrap();
        run_under(&scenario, &RunOptions::default(), &mechanism).map_err(|e| e.to_string())
    };
    for name in ["rtt", "rtt+agents", "pfrc", "arc-fq", "source"] {
        let record = run(name).unwrap();
        conserved(&record);
        // Limits at sources by the model's fair rates: they apply, and starve flows exposed to
        // hidden senders.
        let right = |f: &FlowRecord| match name {
            "source" => f.goodput_bps < 1.02 * f.fair_bps.unwrap(),
            _ => f.goodput_bps > 50e3,
        };
        assert!(record.flows.iter().all(right), "{name}");
    }
    for name in ["wcp", "cna", "gap", "mesh-maxmin", "ifa", "lbm", "fq-red"] {
        if fairmesh_control::Registry::standard().lookup(name).is_err() {
            continue;
        }
        let problem = run(name).unwrap_err();
        assert!(problem.contains("one radio per node"), "{name}: {problem}");
        assert!(problem.contains(name), "{name}: {problem}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Random meshes of two bands: packets and airtime add up, and a second run is the same.
    #[test]
    fn random_meshes_of_two_bands_add_up(
        places in prop::collection::vec((0.0f64..500.0, 0.0f64..300.0), 3..8),
        radios in prop::collection::vec(0u8..3, 8),
        channels in (0usize..5, 0usize..5),
        phy in 0usize..4,
        alternate in any::<bool>(),
        routing in 0usize..3,
        flows in prop::collection::vec((0usize..8, 0usize..8, any::<bool>()), 1..5),
    ) {
        let (phy, all) = [
            ("802.11a", [36, 40, 44, 100, 149]),
            ("802.11g", [1, 3, 6, 9, 13]),
            ("802.11b", [1, 4, 6, 11, 13]),
            ("802.11n", [36, 40, 60, 1, 13]),
        ][phy];
        let mut text = format!("duration = \"2 s\"\n[radio]\nphy = \"{phy}\"\nchannel = {}\n", all[channels.0]);
        if channels.0 != channels.1 {
            text += &format!("[radios.other]\nchannel = {}\n", all[channels.1]);
        }
        let routing = ["hops", "etx", "airtime"][routing];
        text += &format!("[topology]\nrouting = \"{routing}\"\n");
        if alternate && channels.0 != channels.1 {
            text += "alternate = true\n";
        }
        for (i, (x, y)) in places.iter().enumerate() {
            text += &format!("[[node]]\nid = {i}\nposition = [{x:.1}, {y:.1}]\n");
            if channels.0 != channels.1 {
                text += ["", "radios = [\"main\"]\n", "radios = [\"other\", \"main\"]\n"][usize::from(radios[i])];
            }
        }
        for (a, b, tcp) in flows {
            let (a, b) = (a % places.len(), b % places.len());
            if a != b {
                let kind = if tcp { "\"bulk\"" } else { "{ kind = \"cbr\", rate = \"2 Mbit/s\" }" };
                text += &format!("[[flow]]\nfrom = {a}\nto = {b}\ntraffic = {kind}\n");
            }
        }
        // Scenarios without a path or a flow, or with a second band of other settings, are refused
        // elsewhere.
        let Ok(scenario) = parse("t.toml", text.as_bytes(), &ImportOptions::default()) else { return Ok(()) };
        let record = run(&scenario, &RunOptions::default()).unwrap();
        conserved(&record);
        let again = run(&scenario, &RunOptions::default()).unwrap();
        prop_assert_eq!(&record.fingerprint, &again.fingerprint);
        for flow in scenario.flows() {
            for hop in flow.path.windows(2) {
                let bus = scenario.same_device(hop[0], hop[1]);
                prop_assert!(bus != scenario.link(hop[0], hop[1]).is_some());
            }
        }
        for l in scenario.leaks() {
            let (a, b) = (NodeId(l.from), NodeId(l.to));
            prop_assert!(scenario.channel_of(a) != scenario.channel_of(b));
        }
    }
}
