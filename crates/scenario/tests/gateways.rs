//! Scenarios with several gateways: assignment, routes, and refusals.

mod common;

use common::{read, refuse};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_units::NodeId;

fn paths(s: &Scenario) -> Vec<String> {
    let name = |n: &NodeId| s.nodes()[n.index()].name.as_str();
    s.flows().iter().map(|f| f.path.iter().map(name).collect::<Vec<_>>().join(" ")).collect()
}

/// Nodes 0 to 6 in a line.
fn line(topology: &str, rest: &str) -> String {
    format!("duration = \"9 s\"\n[topology]\nchain = {{ hops = 6 }}\n{topology}\n{rest}\n")
}

#[test]
fn every_node_goes_through_the_nearest_of_equals_the_first() {
    let s = read(&line("gateways = [0, 6]", "[traffic]\nflows = \"up\""));
    assert_eq!(paths(&s), ["1 0", "2 1 0", "3 2 1 0", "4 5 6", "5 6"]);
    let s = read(&line("gateways = [6, 0]", "[traffic]\nflows = \"down\""));
    assert_eq!(paths(&s), ["0 1", "0 1 2", "6 5 4 3", "6 5 4", "6 5"], "3 is as far from both");
    let of: Vec<Option<u32>> = (0..7).map(|n| s.gateways().of(NodeId(n)).map(|g| g.0)).collect();
    assert_eq!(of, [0, 0, 0, 6, 6, 6, 6].map(Some));
    assert_eq!(s.gateway_of(&s.flows()[2]), Some(NodeId(6)));
}

#[test]
fn the_nearest_gateway_has_the_least_route_cost() {
    // Two bad hops to 0, three good ones to 5.
    let links = "links = [{ from = 0, to = 1, delivery = 0.4 }, { from = 1, to = 2, delivery = 0.4 },\n\
        [2, 3], [3, 4], [4, 5]]\ngateways = [0, 5]\n";
    let world = |routing: &str| {
        read(&format!(
            "duration = \"9 s\"\n[topology]\n{links}routing = \"{routing}\"\n[[flow]]\nfrom = 2\nto = \"w\"\n[wired]\nhosts = [\"w\"]"
        ))
    };
    assert_eq!(paths(&world("hops")), ["2 1 0 w"]);
    assert_eq!(paths(&world("etx")), ["2 3 4 5 w"]);
}

#[test]
fn a_node_names_its_own_gateway_and_hosts_are_behind_all() {
    let rest = "[wired]\nhosts = [\"w\", \"v\"]\n[[node]]\nid = 1\ngateway = 6\n[traffic]\n\
        flows = \"both\"\nnodes = [1, 2]\nhost = \"w\"\n[[flow]]\nfrom = 2\nto = 5\n\
        [[flow]]\nfrom = 6\nto = \"v\"\n[[flow]]\nfrom = \"w\"\nto = \"v\"";
    let s = read(&line("gateways = [0, 6]", rest));
    assert_eq!(s.wires().len(), 4);
    let expected = [
        "1 2 3 4 5 6 w",
        "w 6 5 4 3 2 1",
        "2 1 0 w",
        "w 0 1 2",
        // Mesh traffic does not use the path over the hosts, although it is shorter.
        "2 3 4 5",
        "6 v",
        "w 0 v",
    ];
    assert_eq!(paths(&s), expected);
    // Traffic that passes another gateway over the air does not belong to it.
    assert_eq!(s.gateway_of(&s.flows()[0]), Some(NodeId(6)));
    assert_eq!(s.gateway_of(&s.flows()[4]), None);
}

#[test]
fn hosts_behind_hosts_are_reached_through_the_own_gateway() {
    let wires = "[[node]]\nid = \"isp\"\nkind = \"wired\"\n[[node]]\nid = \"far\"\nkind = \"wired\"\n\
        [[node]]\nid = \"pc\"\nkind = \"wired\"\n\
        wire = [{ from = 0, to = \"isp\" }, { from = 6, to = \"isp\" }, { from = \"isp\", to = \"far\" }, { from = 5, to = \"pc\" }]\n";
    let (nodes, wire) = wires.split_at(wires.find("wire = ").unwrap());
    let text = format!(
        "duration = \"9 s\"\n{wire}\n[topology]\nchain = {{ hops = 6 }}\ngateways = [0, 6]\n{nodes}\n\
         [[flow]]\nfrom = \"pc\"\nto = \"far\"\n[[flow]]\nfrom = \"far\"\nto = 1"
    );
    let s = read(&text);
    assert_eq!(paths(&s), ["pc 5 6 isp far", "far isp 0 1"], "a computer at home is in the mesh");
}

#[test]
fn one_of_several_is_as_one() {
    let rest = "[wired]\nhosts = [\"w\"]\n[traffic]\nflows = \"both\"\nhost = \"w\"";
    let one = read(&line("gateway = 2", rest));
    let listed = read(&line("gateways = [2]", rest));
    assert_eq!(paths(&one), paths(&listed));
    assert_eq!(
        (one.gateways().list(), one.gateways().are_several()),
        (listed.gateways().list(), false)
    );
}

#[test]
fn invalid_combinations_are_refused_by_key() {
    let up = "[traffic]\nflows = \"up\"";
    let named = |id: &str, gateway: &str| format!("{up}\n[[node]]\nid = {id}\ngateway = {gateway}");
    let both = "gateway = 0\ngateways = [0, 6]";
    let cases = [
        (
            line(both, up),
            "topology.gateways: `gateway` and `gateways` together; expected one of them",
        ),
        (line("gateways = [0, 0]", up), "topology.gateways[1]: \"0\" is named twice"),
        (line("gateways = [0, 9]", up), "topology.gateways[1]: there is no node \"9\""),
        (line("gateways = 0", up), "topology.gateways: found integer `0`; expected a sequence"),
        (
            line("gateways = [0, 6]", &named("3", "5")),
            "node[0].gateway: \"5\" is not a gateway; expected one of `topology.gateways`: 0, 6",
        ),
        (
            line("gateways = [0, 6]", &named("3", "\"x\"")),
            "node[0].gateway: there is no node \"x\"",
        ),
        (line("gateways = [0, 6]", &named("6", "0")), "node[0].gateway: \"6\" is a gateway itself"),
        (line("gateway = 0", &named("3", "6")), "node[0].gateway: \"6\" is not a gateway"),
        (
            line(
                "gateways = [0, 6]",
                &format!("{up}\n[[subscriber]]\nname = \"a\"\nnodes = [1, 5]"),
            ),
            "subscriber[0].nodes[1]: \"a\" goes through the gateways \"0\" and \"6\"",
        ),
    ];
    for (text, expected) in cases {
        let error = refuse(&text).to_string();
        let (_, without_line) = error.split_once(": ").unwrap();
        assert!(without_line.starts_with(expected), "{error}\n  expected {expected}");
    }
    // A node that reaches only one of them cannot name the other.
    let text = "duration = \"9 s\"\n[topology]\nlinks = [[0, 1], [2, 3]]\ngateways = [0, 2]\n\
        [[node]]\nid = 1\ngateway = 2\n[traffic]\nflows = \"up\"";
    assert!(
        refuse(text).to_string().contains("node[0].gateway: \"2\" cannot be reached from \"1\"")
    );
    // Two islands, each with its own: all nodes reach a gateway.
    let islands = read(&text.replace("[[node]]\nid = 1\ngateway = 2\n", ""));
    assert_eq!(paths(&islands), ["1 0", "3 2"]);
}

#[test]
fn maps_take_several() {
    let map = r#"{ "type": "NetworkGraph", "protocol": "OLSR", "version": "0.8", "metric": "ETX",
        "nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}],
        "links": [{"source": "a", "target": "b", "cost": 1.0}, {"source": "b", "target": "c", "cost": 1.0},
                  {"source": "c", "target": "d", "cost": 1.0}] }"#;
    let import = |gateways: &[&str]| {
        let gateways = gateways.iter().map(|g| (*g).to_owned()).collect();
        parse("m.json", map.as_bytes(), &ImportOptions { gateways, ..ImportOptions::default() })
    };
    assert_eq!(paths(&import(&["a", "d"]).unwrap()), ["a b", "d c"]);
    let twice = import(&["a", "a"]).unwrap_err().to_string();
    assert!(twice.contains("gateway: \"a\" is named twice"), "{twice}");
}
