//! Groups of flows with one share at the gateway.

mod common;

use common::{read, refuse};
use fairmesh_scenario::{ImportOptions, SharedLeaf, Subscriber, parse};
use fairmesh_units::BitRate;

/// Returns a chain 0 – 3 with two homes that send and receive; `rest` is added.
fn chain(rest: &str) -> String {
    format!(
        r#"duration = "60 s"
[topology]
chain = {{ hops = 3 }}
gateway = 0
[wired]
hosts = ["server"]
[[flow]]
name = "a"
from = "server"
to = 1
connections = 3
[[flow]]
name = "b"
from = 2
to = "server"
[[flow]]
from = 0
to = 2
{rest}"#
    )
}

fn shares(s: &Subscriber) -> (&str, &[usize], &[usize]) {
    (&s.name, &s.down.flows, &s.up.flows)
}

#[test]
fn every_node_is_one_with_all_its_connections() {
    let s = read(&chain("[subscribers]\nper = \"node\"\n"));
    let names: Vec<&str> = s.flows().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["a", "a #2", "a #3", "b", "0->2"]);
    let all: Vec<_> = s.subscribers().list.iter().map(shares).collect();
    // Flows that end at the gateway itself cross it: the host behind it is optional.
    assert_eq!(all, [("1", &[0, 1, 2][..], &[][..]), ("2", &[4], &[3])]);
    assert_eq!(s.subscribers().leaf, SharedLeaf::Fq);
    assert!(read(&chain("")).subscribers().list.is_empty());
    let s = read(&chain("[subscribers]\nper = \"node\"\nleaf = \"fq_codel\"\n"));
    assert_eq!(s.subscribers().leaf, SharedLeaf::FqCodel);
}

#[test]
fn an_entry_joins_homes_and_flows_and_has_the_terms() {
    let s = read(&chain(
        r#"[subscribers]
per = "node"
leaf = "control"
[[subscriber]]
name = "both"
nodes = [1]
flows = ["b"]
weight = 2
down = "3 Mbit/s"
guarantee_down = "30 kbit/s"
up = "1 Mbit/s"
"#,
    ));
    let all: Vec<_> = s.subscribers().list.iter().map(shares).collect();
    assert_eq!(all, [("both", &[0, 1, 2][..], &[3][..]), ("2", &[4], &[])]);
    let both = &s.subscribers().list[0];
    assert_eq!((both.weight, s.subscribers().leaf), (2.0, SharedLeaf::Control));
    assert_eq!(both.down.ceiling, Some(BitRate(3_000_000)));
    assert_eq!(both.up.ceiling, Some(BitRate(1_000_000)));
    // Models of flows see an equal part of each value.
    let terms = |f: usize| (s.flows()[f].weight, s.flows()[f].plan, s.flows()[f].guarantee);
    assert_eq!(terms(1), (2.0, Some(BitRate(1_000_000)), Some(BitRate(10_000))));
    assert_eq!(terms(3), (2.0, Some(BitRate(1_000_000)), None));
    assert_eq!(terms(4), (1.0, None, None));
}

#[test]
fn the_weight_of_its_flows_is_that_of_a_subscriber() {
    let text = chain("weight = 3\n[subscribers]\nper = \"node\"\n");
    let s = read(&text);
    assert_eq!(s.subscribers().list[1].weight, 3.0);
    assert_eq!(s.flows()[3].weight, 3.0, "the other one has the default");
}

#[test]
fn maps_have_subscribers_and_connections() {
    let map = br#"{"type":"NetworkGraph","protocol":"olsr","version":"1","metric":"etx",
        "nodes":[{"id":"g"},{"id":"a"},{"id":"b"}],
        "links":[{"source":"g","target":"a","cost":1.1},{"source":"a","target":"b","cost":1.3}]}"#;
    let options = ImportOptions {
        gateways: vec!["g".to_owned()],
        direction: fairmesh_scenario::Direction::Both,
        connections: Some(4),
        subscribers: true,
        ..ImportOptions::default()
    };
    let s = parse("map.netjson", map, &options).unwrap();
    let sizes: Vec<_> =
        s.subscribers().list.iter().map(|s| (s.down.flows.len(), s.up.flows.len())).collect();
    assert_eq!((s.flows().len(), sizes), (16, vec![(4, 4), (4, 4)]));
}

/// Additions to the chain, and the start of the error.
const WRONG: &[(&str, &str)] = &[
    (
        "[[subscriber]]\nnodes = [1]\n[[subscriber]]\nname = \"x\"\nflows = [\"a\"]\n",
        "test.toml:23: subscriber[1].flows[0]: flow \"a\" belongs to subscriber \"1\" already; expected each flow in one",
    ),
    (
        "[[subscriber]]\nname = \"x\"\nflows = [\"c\"]\n",
        "test.toml:21: subscriber[0].flows[0]: no flow is called \"c\"; expected the name of a flow",
    ),
    (
        "[[subscriber]]\nnodes = [7]\n",
        "test.toml:20: subscriber[0].nodes[0]: there is no node \"7\"",
    ),
    (
        "[[subscriber]]\nnodes = [3]\n",
        "test.toml:20: subscriber[0].nodes[0]: no flow of \"3\" crosses the gateway; expected a node with such a flow",
    ),
    (
        "[[subscriber]]\nnodes = [\"server\"]\n",
        "test.toml:20: subscriber[0].nodes[0]: \"server\" is a wired host",
    ),
    (
        "weight = 2\n[[subscriber]]\nnodes = [2]\nweight = 3\n",
        "test.toml:19: flow[2].weight: a weight of 2 contradicts 3 of \"2\"; expected one weight for all flows of a subscriber",
    ),
    (
        "[[subscriber]]\nnodes = [1]\nweight = 0\n",
        "test.toml:21: subscriber[0].weight: 0 is out of range",
    ),
    (
        "plan = \"1 Mbit/s\"\n[subscribers]\nper = \"node\"\n",
        "test.toml:19: flow[2].plan: the flow belongs to subscriber \"2\"; expected `down`, `up`,",
    ),
    (
        "[[subscriber]]\nnodes = [1]\nup = \"1 Mbit/s\"\n",
        "test.toml:21: subscriber[0].up: it has no flow upstream",
    ),
    (
        "[[subscriber]]\nnodes = [1]\ndown = \"0 Mbit/s\"\n",
        "test.toml:21: subscriber[0].down: 0 bit/s is out of range",
    ),
    (
        "[[subscriber]]\nnodes = [2]\nup = \"1 Mbit/s\"\nguarantee_up = \"2 Mbit/s\"\n",
        "test.toml:22: subscriber[0].guarantee_up: 2 Mbit/s is out of range; expected at most `up`, 1 Mbit/s",
    ),
    (
        "[[subscriber]]\nname = \"x\"\n",
        "test.toml:19: subscriber[0]: it is not clear what is its own",
    ),
    ("[[subscriber]]\nnodes = [1, 2]\n", "test.toml:19: subscriber[0]: `name` is missing"),
    (
        "[[subscriber]]\nnodes = [1]\n[[subscriber]]\nname = \"1\"\nnodes = [2]\n",
        "test.toml:22: subscriber[1].name: the name \"1\" is used twice",
    ),
    (
        "[[subscriber]]\nnodes = [1]\nweigth = 2\n",
        "test.toml:21: subscriber[0].weigth: unknown key",
    ),
    ("[subscribers]\nper = \"home\"\n", "test.toml:20: subscribers.per: found \"home\""),
    ("[subscribers]\nleaf = \"fq\"\n", "test.toml:20: subscribers.leaf: there are no subscribers"),
    (
        "[subscribers]\nper = \"node\"\n[[subscriber]]\nname = \"2\"\nnodes = [1]\n",
        "test.toml:20: subscribers.per: a [[subscriber]] has the name of node \"2\", but not its flows",
    ),
    (
        "connections = 0\n",
        "test.toml:19: flow[2].connections: 0 is out of range; expected at least 1",
    ),
    ("connections = 4000000000\n", "test.toml:7: flow: 4000000004 flows is out of range"),
    (
        "[[flow]]\nname = \"c\"\nfrom = 1\nto = 2\n[[subscriber]]\nname = \"x\"\nflows = [\"c\"]\n",
        "test.toml:25: subscriber[0].flows[0]: flow \"c\" does not go from the mesh through the gateway",
    ),
];

#[test]
fn errors_name_line_key_and_expectation() {
    for (rest, begins) in WRONG {
        let line = refuse(&chain(rest)).to_string();
        assert!(line.starts_with(begins), "{rest}\n{line}\n{begins}");
    }
    let without = chain("[subscribers]\nper = \"node\"\n")
        .replace("gateway = 0\n", "")
        .replace("hosts = [\"server\"]", "hosts = [\"server\"]\nat = 0");
    let line = refuse(&without).to_string();
    assert!(line.contains("subscribers.per: subscribers share at a gateway, and there is none; expected `topology.gateway`"), "{line}");
}
