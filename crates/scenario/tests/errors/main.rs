//! Invalid scenarios are refused with file, line, key and expectation.

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod flows;
mod mesh;
mod overrides;
mod queues;
mod radios;
mod text;

use common::refuse;
use fairmesh_scenario::{MAX_NODES, Problem};

/// A valid file; each case changes one part of it.
const RIGHT: &str = r#"name = "x"
duration = "60 s"
[radio]
rate = "11 Mbit/s"
[topology]
links = [[1, 2], [2, 3], [4, 5]]
[[flow]]
from = 1
to = 3
"#;

/// Replaces text, which must exist.
fn with(old: &str, new: &str) -> String {
    assert!(RIGHT.contains(old), "{old}");
    RIGHT.replacen(old, new, 1)
}

#[test]
fn the_unchanged_file_is_right() {
    common::read(RIGHT);
}

/// A case: the text replaced, its replacement, and the start of the error.
type Case = (&'static str, &'static str, &'static str);

#[test]
fn each_error_names_line_and_key() {
    let all =
        [changes::CASES, flows::CASES, mesh::CASES, queues::CASES, radios::CASES, text::CASES];
    for (old, new, expected) in all.concat() {
        let line = refuse(&with(old, new)).to_string();
        assert!(line.starts_with(expected), "\n got: {line}\nwant: {expected}…");
    }
}

#[test]
fn layouts_check_their_numbers() {
    let flow = "duration = \"9 s\"\nflow = [{ from = 0, to = 1 }]\n";
    for (text, expected) in [
        ("topology.chain = { hops = 0 }", "topology.chain.hops: 0 is out of range"),
        (
            "topology.chain = { hops = 4000000000 }",
            "topology.chain.hops: 4000000001 nodes; expected at most 50000",
        ),
        (
            "topology.chain = { hops = 2, spacing = \"0 m\" }",
            "topology.chain.spacing: 0 m is out of range",
        ),
        (
            "topology.grid = { rows = 4000000000, columns = 4000000000 }",
            "topology.grid: 16000000000000000000 nodes",
        ),
        (
            "topology.chain = { hops = 40000, spacing = \"1 cm\" }",
            "topology.chain.spacing: \"1 cm\" has a wrong unit",
        ),
        (
            "topology.chain = { hops = 40000, spacing = \"0.01 m\" }",
            "topology: too many nodes receive each other",
        ),
        (
            "topology.random = { nodes = 50, width = \"100 km\" }",
            "topology.random: none of 1000 random placements is connected",
        ),
        (
            "topology.random = { nodes = 50000, width = \"1 m\" }",
            "topology: too many nodes receive each other",
        ),
        ("topology.cell = { stations = 3000 }", "topology.cell.stations: 9000000 nodes"),
        ("topology.positions = []", "topology: the scenario has no wireless node"),
        ("topology.positions = [[0, 1e300]]", "topology.positions[0]: 1"),
        ("node = [{ id = 0 }]", "node[0]: `position` is missing"),
        (
            "topology.chain = { hops = 2 }\nnode = [{ id = 7 }]",
            "node[0].id: there is no node \"7\"",
        ),
        (
            "topology.chain = { hops = 2 }\nradio = { sense = \"100 m\" }",
            "radio.sense: 100 m is out of range; expected at least the decode range",
        ),
        (
            "topology.chain = { hops = 2 }\nradio = { decode = \"0 m\" }",
            "radio.decode: 0 m is out of range",
        ),
        (
            "topology.chain = { hops = 2 }\nradio = { sense = \"20 km\" }",
            "radio.sense: 20000 m is out of range",
        ),
        (
            "topology = { chain = { hops = 2 }, senses = [[0, 2]] }",
            "topology.senses: positions determine the range",
        ),
        (
            "topology.links = [[0, 1]]\ninterferer = [{ duty = 0.1, position = [0, 0] }]",
            "interferer[0].position: explicit links have no propagation",
        ),
    ] {
        let line = refuse(&format!("{flow}{text}")).to_string();
        let (_, rest) = line.split_once(": ").unwrap();
        assert!(rest.starts_with(expected), "\n got: {rest}\nwant: {expected}…");
    }
    assert_eq!(MAX_NODES, 50_000);
}

#[test]
fn errors_carry_their_parts() {
    let e = refuse(&with("to = 3", "to = 4"));
    assert_eq!((e.file.as_deref(), e.line), (Some("test.toml"), Some(9)));
    assert_eq!(e.key.to_string(), "flow[0].to");
    assert_eq!(e.problem, Problem::Unreachable { from: "1".into(), to: "4".into() });
    assert_eq!(e.problem.description(), "\"4\" cannot be reached from \"1\"");
}
