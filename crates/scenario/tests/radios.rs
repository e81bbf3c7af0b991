//! Several kinds of radio: stations, links, routes and refusals.

mod common;

use common::{read, refuse};
use fairmesh_scenario::Scenario;
use fairmesh_units::NodeId;

/// A line of three with two radios each.
const RIGHT: &str = r#"duration = "10 s"
[radio]
phy = "802.11a"
channel = 36
[radios.second]
channel = 149
[topology]
links = [["x", "y"], ["y", "z"]]
gateway = "x"
[[flow]]
from = "z"
to = "x"
"#;

fn with(old: &str, new: &str) -> String {
    assert!(RIGHT.contains(old), "{old}");
    RIGHT.replacen(old, new, 1)
}

fn path(scenario: &Scenario) -> Vec<&str> {
    scenario.flows()[0].path.iter().map(|n| scenario.nodes()[n.index()].name.as_str()).collect()
}

#[test]
fn every_node_has_every_radio_by_default() {
    let s = read(RIGHT);
    let names: Vec<&str> = s.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "z", "x/second", "y/second", "z/second"]);
    assert_eq!(s.links().len(), 8);
    assert_eq!((s.channel_of(NodeId(0)), s.channel_of(NodeId(4))), (Some(36), Some(149)));
    assert_eq!(s.device(NodeId(4)), NodeId(1));
    // Equal settings share a medium; on a tie the first radio is used.
    assert_eq!(s.further()[0].medium, 0);
    assert_eq!(path(&s), ["z", "y", "x"]);
    let fewer = with("[[flow]]", "[[node]]\nid = \"z\"\nradios = [\"second\"]\n[[flow]]");
    let s = read(&fewer);
    let names: Vec<&str> = s.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["z", "x", "y", "x/second", "y/second"]);
    assert_eq!(path(&s), ["z", "y/second", "y", "x"]);
    assert_eq!(s.flows()[0].wireless_hops, 2);
    // `topology.radios` applies to nodes without their own.
    let main = with("gateway", "radios = [\"main\"]\ngateway");
    let main =
        main.replace("[[flow]]", "[[node]]\nid = \"z\"\nradios = [\"second\", \"main\"]\n[[flow]]");
    let s = read(&main);
    assert_eq!(s.nodes().len(), 4);
    assert_eq!(path(&s), ["z", "z/main", "y", "x"]);
}

#[test]
fn links_and_paths_name_radios() {
    let s = read(&with("[\"y\", \"z\"]", "{ from = \"y\", to = \"z\", radio = \"second\" }"));
    // Crossing at y or at x costs the same.
    assert_eq!(path(&s), ["z", "z/second", "y/second", "y", "x"]);
    let s = read(&with("gateway", "alternate = true\ngateway"));
    assert_eq!(path(&s), ["z", "z/second", "y/second", "y", "x"]);
    let named = with("to = \"x\"\n", "to = \"x\"\npath = [\"z\", \"y\", \"x/second\"]\n");
    assert_eq!(path(&read(&named)), ["z", "y", "y/second", "x/second", "x"]);
    let plain = with("to = \"x\"\n", "to = \"x\"\npath = [\"z\", \"y\", \"x\"]\n");
    assert_eq!(path(&read(&plain)), ["z", "y", "x"]);
    // A detail applies to the radio that it names, or to all.
    let rates =
        |text: &str| -> Vec<bool> { read(text).links().iter().map(|l| l.rate.is_some()).collect() };
    let detail = "[[link]]\nfrom = \"x\"\nto = \"y\"\nrate = \"6 Mbit/s\"\n";
    assert_eq!(rates(&format!("{RIGHT}{detail}")).iter().filter(|r| **r).count(), 4);
    let one = format!("{RIGHT}{detail}radio = \"second\"\n");
    assert_eq!(rates(&one).iter().filter(|r| **r).count(), 2);
}

#[test]
fn routes_by_airtime_take_the_faster_radio() {
    let text =
        with("[radios.second]\n", "rate = \"6 Mbit/s\"\n[radios.second]\nrate = \"54 Mbit/s\"\n");
    assert_eq!(path(&read(&text)), ["z", "y", "x"]);
    let text = text.replace("gateway", "routing = \"airtime\"\ngateway");
    assert_eq!(path(&read(&text)), ["z", "z/second", "y/second", "x/second", "x"]);
}

#[test]
fn neighbouring_channels_leak_and_distant_ones_do_not() {
    assert!(read(RIGHT).leaks().is_empty());
    // Flat levels cannot express 25 dB less, so neighbouring channels are separate; overlapping
    // ones are not.
    assert!(read(&with("channel = 149", "channel = 40")).leaks().is_empty());
    let overlap = RIGHT.replace("802.11a", "802.11g").replace("36", "1").replace("149", "3");
    let s = read(&overlap);
    // For each station: at its own node and its neighbours on the other channel: 3 + 4, in both
    // directions.
    assert_eq!(s.leaks().len(), 14);
    assert!(s.leaks().iter().all(|l| !l.decodes));
    // By strength: a radio at the same node receives the next channel with 25 dB less, and nothing
    // from far away.
    let near = r#"duration = "10 s"
[radio]
phy = "802.11a"
channel = 36
[radios.next]
channel = 40
[topology]
chain = { hops = 3, spacing = "200 m" }
[[flow]]
from = 0
to = 3
"#;
    let s = read(near);
    assert_eq!(s.leaks().len(), 8);
    let dbm = s.leaks()[0].power.as_dbm();
    assert!((-47.0..-42.0).contains(&dbm), "{dbm}");
    // A hundredth and less of the power for 550 m is below the sensing threshold at 200 m, not at 60 m.
    let s = read(&near.replace("200 m", "60 m"));
    assert!(s.leaks().len() > 8, "{}", s.leaks().len());
}

/// A case: the text replaced, its replacement, and the start of the error.
const CASES: &[(&str, &str, &str)] = &[
    (
        "channel = 149",
        "channel = 36",
        "test.toml:6: radios.second.channel: channel 36 is where the radio \"main\" is; expected a channel of its own",
    ),
    (
        "channel = 149",
        "channel = 150",
        "test.toml:6: radios.second.channel: 150 is out of range; expected 1 to 13, or 36",
    ),
    ("channel = 149", "rate = \"6 Mbit/s\"", "test.toml:5: radios.second: `channel` is missing"),
    (
        "channel = 149",
        "channel = 6",
        "test.toml:6: radios.second.channel: 802.11a has no channels at 2.4 GHz",
    ),
    (
        "channel = 36",
        "channel = 1",
        "test.toml:4: radio.channel: 802.11a has no channels at 2.4 GHz; expected 36 to 165",
    ),
    (
        "channel = 149",
        "channel = 40\nphy = \"802.11n\"",
        "test.toml:6: radios.second.channel: channel 40 reaches into channel 36 of the radio \"main\", which has other settings",
    ),
    ("channel = 149", "channel = 149\nrate = \"7 Mbit/s\"", "test.toml:7: radios.second.rate: "),
    (
        "[radios.second]",
        "[radios.main]",
        "test.toml:5: radios.main: `main` is `[radio]`; expected another name",
    ),
    (
        "gateway",
        "radios = [\"main\", \"third\"]\ngateway",
        "test.toml:9: topology.radios[1]: no radio is called \"third\"; expected one of main, second",
    ),
    (
        "gateway",
        "radios = [\"main\"]\ngateway",
        "test.toml:5: radios.second: no node has this radio; expected `radios` of some node",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = \"y\"\nradios = [\"second\", \"second\"]\n[[flow]]",
        "test.toml:12: node[0].radios[1]: \"second\" twice: two radios of a node on one channel; expected every radio once",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = \"y\"\nradios = []\n[[flow]]",
        "test.toml:12: node[0].radios: a wireless node without radios; expected at least one",
    ),
    (
        "[\"y\", \"z\"]",
        "{ from = \"y\", to = \"z\", radio = \"third\" }",
        "test.toml:8: topology.links[1].radio: no radio is called \"third\"",
    ),
    (
        "[[flow]]",
        "[[node]]\nid = \"y\"\nradios = [\"main\"]\n[[node]]\nid = \"z\"\nradios = [\"second\"]\n[[flow]]",
        "test.toml:8: topology.links[1].radio: y and z have no such radio in common; expected a radio that both have",
    ),
    (
        "to = \"x\"\n",
        "to = \"x\"\npath = [\"z\", \"y/third\", \"x\"]\n",
        "test.toml:13: flow[0].path[1]: ",
    ),
    (
        "[[flow]]",
        "[[interferer]]\nnodes = [\"x\"]\nduty = 0.1\nradio = \"third\"\n[[flow]]",
        "test.toml:13: interferer[0].radio: no radio is called \"third\"",
    ),
    ("[radios.second]\nchannel = 149\n", "", ""),
];

#[test]
fn errors_of_radios_name_the_key() {
    for (old, new, expected) in CASES {
        let text = with(old, new);
        if expected.is_empty() {
            assert_eq!(read(&text).further().len(), 0);
            continue;
        }
        let line = refuse(&text).to_string();
        assert!(line.starts_with(expected), "{line}\n  expected {expected}");
    }
    let alone = with("[radios.second]\nchannel = 149\n", "")
        .replace("gateway", "alternate = true\ngateway");
    let line = refuse(&alone).to_string();
    assert!(line.starts_with("test.toml:7: topology.alternate: there is one radio"), "{line}");
}
