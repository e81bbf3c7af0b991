//! Maps as written by daemons and map servers; docs/scenarios/maps.md lists the kinds.

use fairmesh_scenario::{
    Format, ImportOptions, Metric, Problem, Scenario, ScenarioError, format_of, parse,
};
use fairmesh_units::NodeId;

fn import(text: &str) -> Scenario {
    with(text, ImportOptions::default())
}

fn with(text: &str, options: ImportOptions) -> Scenario {
    parse("town.json", text.as_bytes(), &options).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refuse(text: &str, options: &ImportOptions) -> ScenarioError {
    match parse("town.json", text.as_bytes(), options) {
        Ok(_) => panic!("accepted: {text}"),
        Err(e) => e,
    }
}

/// Returns a NetworkGraph with these members in addition to its type.
fn graph(head: &str, nodes: &str, links: &str) -> String {
    format!("{{\"type\": \"NetworkGraph\", {head}, \"nodes\": [{nodes}], \"links\": [{links}]}}")
}

const OLSR: &str = "\"protocol\": \"olsr\", \"metric\": \"etx\", \"router_id\": \"a\"";

/// Returns nodes a, b and c with links a ~ b and b ~ c.
///
/// `node` are properties of b, `link` those of a ~ b.
fn chain(node: &str, link: &str) -> String {
    graph(
        OLSR,
        &format!("{{\"id\": \"a\"}}, {{\"id\": \"b\", {node}}}, {{\"id\": \"c\"}}"),
        &format!(
            "{{\"source\": \"a\", \"target\": \"b\", \"cost\": 1, {link}}}, \
             {{\"source\": \"b\", \"target\": \"c\", \"cost\": 1.2}}"
        ),
    )
}

fn noted(s: &Scenario, what: &str) {
    assert!(s.warnings().iter().any(|w| w.contains(what)), "{what}: {:#?}", s.warnings());
}

fn delivery(s: &Scenario, a: &str, b: &str) -> Option<f64> {
    let id = |n: &str| NodeId(s.nodes().iter().position(|m| m.name.as_str() == n).unwrap() as u32);
    s.link(id(a), id(b)).map(|l| l.delivery.0)
}

fn gateway(s: &Scenario) -> &str {
    s.nodes()[s.gateways().first().unwrap().index()].name.as_str()
}

fn names(s: &Scenario) -> Vec<&str> {
    s.nodes().iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn a_link_at_its_protocols_infinity_is_no_link_in_either_direction() {
    for (head, alive, infinite) in [
        ("\"protocol\": \"olsr\", \"metric\": \"etx_ff\"", "1.2", "4096"),
        ("\"protocol\": \"olsr\", \"metric\": \"etx_ff\"", "1.2", "4194304"),
        ("\"protocol\": \"olsr\", \"metric\": null", "1.2", "4294967295"),
        ("\"protocol\": \"olsr\", \"metric\": \"etx_float\"", "1.2", "\"INFINITE\""),
        ("\"protocol\": \"olsr\", \"metric\": \"etx\"", "1.2", "Infinity"),
        ("\"protocol\": \"olsr\", \"metric\": \"etx_ffeth\"", "1.2", "4096.0"),
        ("\"protocol\": \"babel\", \"metric\": null", "256", "65535"),
        ("\"protocol\": \"Babel\", \"metric\": \"babel\"", "256", "4294967295"),
        ("\"protocol\": \"batman-adv\", \"metric\": \"TQ\"", "0.8", "0"),
        ("\"protocol\": \"batman-adv\", \"metric\": \"TQ\"", "200", "0"),
        ("\"protocol\": \"batman-adv\", \"metric\": \"TQ\"", "1.012", "Infinity"),
        ("\"protocol\": \"BATMAN_V\", \"metric\": null", "86.7", "0"),
        ("\"protocol\": \"olsrv2\", \"metric\": \"ff_dat_metric\"", "2112", "16777215"),
        ("\"protocol\": \"olsrv2\", \"metric\": \"ff_dat_metric\"", "2112", "4294967295"),
    ] {
        let link = |a: &str, b: &str, cost: &str| {
            format!("{{\"source\": \"{a}\", \"target\": \"{b}\", \"cost\": {cost}}}")
        };
        // To c the link is dead in both directions; to d in one, with and without an entry of the
        // other.
        let links = [
            link("a", "b", alive),
            link("b", "a", alive),
            link("a", "c", infinite),
            link("c", "a", infinite),
            link("a", "d", alive),
            link("d", "a", infinite),
            link("e", "a", infinite),
        ];
        let nodes = ["a", "b", "c", "d", "e"].map(|n| format!("{{\"id\": \"{n}\"}}"));
        let s = import(&graph(head, &nodes.join(","), &links.join(",")));
        assert!(delivery(&s, "a", "b").is_some_and(|d| d > 0.5), "{head}");
        assert_eq!(s.links().len(), 2, "{head} {infinite}");
        noted(&s, "3 links let nothing through in a direction");
        noted(&s, "3 of 5 nodes cannot be reached from the gateway and get no flow: c, d, e");
    }
    // In meshviewer.json the transmit quality of one direction is sufficient.
    let s = import(
        r#"{"nodes": [{"node_id": "a"}, {"node_id": "b"}, {"node_id": "c"}], "links": [
            {"source": "a", "target": "b", "source_tq": 0.9, "target_tq": 0.9},
            {"source": "b", "target": "c", "source_tq": 0.9, "target_tq": 0}]}"#,
    );
    assert_eq!(s.links().len(), 2);
    noted(&s, "1 links let nothing through in a direction (infinite cost or transmit quality 0)");
    // Of parallel radios the live one counts.
    let link = |cost: &str| format!("{{\"source\": \"a\", \"target\": \"b\", \"cost\": {cost}}}");
    let s = import(&graph(
        OLSR,
        "{\"id\": \"a\"}, {\"id\": \"b\"}",
        &[link("1"), link("4096")].join(","),
    ));
    assert_eq!(s.links().len(), 2);
    // A cost as text counts if there is no number.
    let nodes = "{\"id\": \"a\"}, {\"id\": \"b\"}, {\"id\": \"c\"}";
    for (cost, links) in [("", 2), ("\"cost\": null, ", 2), ("\"cost\": 1.3, ", 4)] {
        let other =
            format!("{{\"source\": \"b\", \"target\": \"c\", {cost}\"cost_text\": \"INFINITE\"}}");
        let s = import(&graph(OLSR, nodes, &[link("1"), other].join(",")));
        assert_eq!(s.links().len(), links, "{cost}");
    }
}

#[test]
fn links_by_the_addresses_of_interfaces() {
    let nodes = r#"{"id": "10.9.0.1", "local_addresses": ["10.9.1.1", "FD00::0:1", "10.9.2.1"]},
        {"id": "10.9.0.2", "local_addresses": ["10.9.1.2"]}, {"id": "10.9.0.3"}"#;
    let link =
        |a: &str, b: &str| format!("{{\"source\": \"{a}\", \"target\": \"{b}\", \"cost\": 1.2}}");
    let links = [
        link("10.9.1.1", "10.9.0.2"),
        link("10.9.1.2", "fd00::1"),
        link("10.9.0.2", "10.9.0.3"),
        link("10.9.1.1", "10.9.2.1"),
    ];
    let s = import(&graph(OLSR, nodes, &links.join(",")));
    assert_eq!(names(&s), ["10.9.0.1", "10.9.0.2", "10.9.0.3"]);
    assert_eq!(s.links().len(), 4);
    noted(&s, "1 links between two addresses of one node were left out");
    // A writer that names itself by an alias is found, too.
    let alias = OLSR.replace("\"a\"", "\"10.9.1.2\"");
    assert_eq!(gateway(&import(&graph(&alias, nodes, &links.join(",")))), "10.9.0.2");

    for (nodes, expected) in [
        (
            r#"{"id": "a", "local_addresses": ["x"]}, {"id": "b", "local_addresses": ["y", "x"]}"#,
            "town.json: nodes[0].local_addresses[0]: \"x\" is an address of \"a\" and of \"b\"; expected each address at one node",
        ),
        (
            r#"{"id": "a"}, {"id": "b", "local_addresses": ["A"]}"#,
            "town.json: nodes[1].local_addresses[0]: \"A\" is an address of \"b\" and of \"a\"",
        ),
    ] {
        let e = refuse(&graph(OLSR, nodes, &link("a", "b")), &ImportOptions::default());
        assert!(e.to_string().starts_with(expected), "{e}");
    }
    // Labels may repeat; only a link by such a label is refused.
    let nodes = r#"{"id": "a", "label": "roof"}, {"id": "b", "label": "Roof"}, {"id": "c"}"#;
    import(&graph(OLSR, nodes, &link("a", "c")));
    let e = refuse(&graph(OLSR, nodes, &link("roof", "c")), &ImportOptions::default());
    let expected = "town.json: links[0].source: \"roof\" is a name of \"a\" and of \"b\"";
    assert!(e.to_string().starts_with(expected), "{e}");
}

#[test]
fn prefixes_behind_routers_are_no_radios() {
    let head = r#""protocol": "olsrv2", "metric": "ff_dat_metric", "router_id": "id_10.8.0.1""#;
    let router = |n: u32, kind: &str| {
        format!(
            r#"{{"id": "id_10.8.0.{n}", "label": "10.8.0.{n}", "properties": {{
            "router_id": "id_10.8.0.{n}", "router_addr": "10.8.0.{n}", "type": "{kind}"}}}}"#
        )
    };
    let behind = |n: u32, prefix: &str, kind: &str| {
        format!(
            r#"{{"id": "id_10.8.0.{n}_{prefix}", "label": "{prefix}", "properties": {{
            "router_id": "id_10.8.0.{n}", "router_addr": "10.8.0.{n}", "type": "{kind}"}}}}"#
        )
    };
    let link = |a: &str, b: &str, cost: u32| {
        format!(
            "{{\"source\": \"id_10.8.0.{a}\", \"target\": \"id_10.8.0.{b}\", \"cost\": {cost}}}"
        )
    };
    let nodes = [
        router(1, "local"),
        router(2, "node"),
        behind(2, "0.0.0.0/0", "attached"),
        router(3, "node"),
        behind(3, "10.8.3.0/24", "attached"),
        behind(3, "10.8.3.9/32", "lan"),
        behind(1, "fd00:8::/64", "lan"),
    ];
    let links = [
        link("1", "2", 2112),
        link("2", "3", 2112),
        link("2", "2_0.0.0.0/0", 65536),
        link("3", "3_10.8.3.0/24", 65536),
    ];
    let s = import(&graph(head, &nodes.join(","), &links.join(",")));
    assert_eq!(names(&s), ["id_10.8.0.1", "id_10.8.0.2", "id_10.8.0.3"]);
    noted(&s, "4 nodes are address prefixes behind routers and were left out");
    noted(&s, "costs of OLSRv2 do not give a delivery probability");
    // The router with the default route is preferred to the writer of the file.
    assert_eq!(gateway(&s), "id_10.8.0.2");
    assert_eq!(s.flows().len(), 2);
    let without: Vec<&str> = [0, 1, 3, 4].iter().map(|&i| nodes[i].as_str()).collect();
    let links = [link("1", "2", 2112), link("2", "3", 2112)];
    let s = import(&graph(head, &without.join(","), &links.join(",")));
    assert_eq!(gateway(&s), "id_10.8.0.1");
    // Routers are found by label and `router_addr`.
    let options = ImportOptions { gateways: vec!["10.8.0.3".to_owned()], ..Default::default() };
    assert_eq!(
        gateway(&with(&graph(head, &without.join(","), &links.join(",")), options)),
        "id_10.8.0.3"
    );
}

#[test]
fn the_gateway_that_a_map_marks_is_the_default() {
    let map = |a: &str, b: &str| {
        format!(
            r#"{{"nodes": [{{"node_id": "020000000001", "mac": "02:00:00:00:00:01", "hostname": "Mill" {a}}},
              {{"node_id": "0200000000aa", "mac": "02:00:00:00:00:aa" {b}}},
              {{"node_id": "020000000003"}}], "links": [
              {{"type": "wifi", "source": "020000000001", "target": "0200000000aa", "source_tq": 1, "target_tq": 1}},
              {{"type": "wifi", "source": "0200000000aa", "target": "020000000003", "source_tq": 1, "target_tq": 1}}]}}"#
        )
    };
    for (a, b) in [
        (", \"is_gateway\": true", ", \"is_gateway\": false"),
        (", \"is_gateway\": 1", ""),
        (", \"is_gateway\": \"true\"", ""),
        (", \"flags\": {\"gateway\": true, \"online\": true}", ", \"flags\": []"),
        (", \"gateway\": true", ", \"gateway\": false"),
        ("", ", \"gateway\": \"020000000001\""),
        ("", ", \"gateway\": \"02:00:00:00:00:01\""),
    ] {
        let s = import(&map(a, b));
        assert_eq!(gateway(&s), "020000000001", "{a} {b}");
        assert!(!s.warnings().join("\n").contains("names no gateway"), "{:?}", s.warnings());
    }
    // Without a mark, the best connected node, with a note.
    let s = import(&map("", ""));
    assert_eq!(gateway(&s), "0200000000aa");
    noted(&s, "the map names no gateway: \"0200000000aa\", the best connected node, was taken");
    for name in ["02:00:00:00:00:AA", "02-00-00-00-00-aa", "0200000000AA"] {
        let options = ImportOptions { gateways: vec![name.to_owned()], ..Default::default() };
        assert_eq!(gateway(&with(&map("", ""), options)), "0200000000aa", "{name}");
    }
    let options = ImportOptions { gateways: vec!["mill".to_owned()], ..Default::default() };
    assert_eq!(gateway(&with(&map("", ""), options)), "020000000001");
    // The hint begins with the node marked by the map.
    let options = ImportOptions { gateways: vec!["no-node".to_owned()], ..Default::default() };
    let e = refuse(&map("", ", \"gateway\": \"020000000003\""), &options);
    assert_eq!(
        e.to_string(),
        "town.json: gateway: there is no node \"no-node\"; expected the id, address or label of a node, such as \"020000000003\", \"0200000000aa\", \"020000000001\""
    );
    // NetJSON: the properties of nodes, otherwise the writer.
    for (properties, expected) in [
        ("{\"is_gateway\": true}", "b"),
        ("{\"gateway\": true}", "b"),
        ("{\"gateway\": \"b\"}", "b"),
        ("{}", "a"),
    ] {
        let text = chain(&format!("\"properties\": {properties}"), "\"properties\": {}");
        assert_eq!(gateway(&import(&text)), expected, "{properties}");
    }
}

#[test]
fn foreign_values_are_left_out_with_one_note_for_each_kind() {
    for (node, link, expected) in [
        ("\"label\": 7", "\"x\": 0", None),
        ("\"label\": {\"en\": \"roof\"}", "\"x\": 0", Some("1 value of `nodes.label` left out")),
        (
            "\"properties\": {\"channel\": \"auto\"}",
            "\"properties\": {\"channel\": 14}",
            Some("1 value of `nodes.properties.channel` left out (expected 1 to 13"),
        ),
        (
            "\"properties\": {\"channel\": 0, \"channels\": [\"1+\", 163]}",
            "\"properties\": {\"channel\": 14}",
            Some("2 values of `nodes.properties.channels` left out"),
        ),
        (
            "\"properties\": {\"channel\": \"36\"}",
            "\"x\": 0",
            Some("1 value of `nodes.properties.channel` are numbers written as text"),
        ),
        (
            "\"properties\": {\"location\": \"Main Street 1\"}",
            "\"x\": 0",
            Some(
                "1 value of `nodes.properties.location` left out (expected `lat` and `lng` in degrees); the first: \"Main Street 1\" of node \"b\"",
            ),
        ),
        (
            "\"properties\": {\"model\": [1]}",
            "\"properties\": {\"frequency\": 5955}",
            Some(
                "1 value of `links.properties.frequency` left out (expected MHz of a channel at 2.4 or 5 GHz, such as 2412 or 5180); the first: 5955 of link \"a\" to \"b\"",
            ),
        ),
        (
            "\"properties\": {\"frequency\": \"5 GHz\"}",
            "\"properties\": {\"frequency\": 5815, \"channel\": 36}",
            Some("1 value of `links.properties.frequency` left out"),
        ),
        (
            "\"properties\": null",
            "\"properties\": {\"frequency\": 5180, \"channel\": 40}",
            Some("5180 MHz is channel 36, not 40, of link \"a\" to \"b\""),
        ),
        (
            "\"properties\": []",
            "\"properties\": {\"signal\": \"-70 dBm\", \"throughput\": -1}",
            Some("1 value of `links.properties.signal` left out (expected -120 to 30 dBm)"),
        ),
        (
            "\"local_addresses\": [7, {\"ip\": \"10.0.0.1\"}]",
            "\"properties\": {\"tq\": 300}",
            Some("1 value of `links.properties.tq` left out"),
        ),
    ] {
        let s = import(&chain(node, link));
        assert_eq!(s.links().len(), 4, "{node} {link}");
        match expected {
            Some(expected) => noted(&s, expected),
            None => assert!(!s.warnings().join("\n").contains("left out"), "{:?}", s.warnings()),
        }
    }
    // An option for the value is strict, and replaces that of the map.
    let text =
        chain("\"properties\": {\"channel\": \"auto\"}", "\"properties\": {\"frequency\": 5815}");
    let requested = |channel| ImportOptions { channel: Some(channel), ..Default::default() };
    assert_eq!(with(&text, requested(36)).links().len(), 4);
    let e = refuse(&text, &requested(163));
    assert!(e.to_string().starts_with("town.json: radio.channel: 163 is out of range"), "{e}");
    let negative = chain("\"x\": 0", "\"x\": 0").replace("\"cost\": 1,", "\"cost\": 2,");
    let requested = ImportOptions { metric: Some(Metric::Tq), ..Default::default() };
    let e = refuse(&negative, &requested);
    assert!(e.to_string().starts_with("town.json: links[0].cost: 2 is out of range"), "{e}");
}

#[test]
fn lists_do_not_pass_for_objects() {
    let list = "invalid type: sequence; expected an object";
    for (text, key) in [
        (chain("\"x\": 0", "\"properties\": [0.25]"), "links[0].properties"),
        (chain("\"properties\": [\"x\"]", "\"x\": 0"), "nodes[1].properties"),
        (graph(OLSR, "{\"id\": \"a\"}, {\"id\": \"b\"}", "[\"a\", \"b\", 1.0]"), "links[0]"),
        (graph(OLSR, "[\"a\"], [\"b\"]", ""), "nodes[0]"),
        ("{\"nodes\": [[\"a\"], [\"b\"]], \"links\": []}".to_owned(), "nodes[0]"),
        ("{\"nodes\": [], \"links\": [[\"a\", \"b\"]]}".to_owned(), "links[0]"),
    ] {
        let e = refuse(&text, &ImportOptions::default());
        assert_eq!(e.to_string(), format!("town.json:1: {key}: {list}"));
    }
}

#[test]
fn positions_in_the_order_of_geojson() {
    let at = |location: &str| {
        let text = chain("\"x\": 0", "\"x\": 0").replace(
            "{\"id\": \"a\"}",
            &format!("{{\"id\": \"a\", \"properties\": {{\"location\": {location}}}}}"),
        );
        import(&text.replace(
            "{\"id\": \"c\"}",
            "{\"id\": \"c\", \"properties\": {\"location\": {\"lat\": 10.01, \"lng\": 20}}}",
        ))
    };
    for location in [
        "[20.0, 10.0]",
        "[20.0, 10.0, 512]",
        "{\"type\": \"Point\", \"coordinates\": [20.0, 10.0]}",
    ] {
        let s = at(location);
        let (a, c) = (s.nodes()[0].position.unwrap(), s.nodes()[2].position.unwrap());
        assert!((a.0 - c.0).abs() < 1.0 && (c.1 - a.1 - 1111.9).abs() < 1.0, "{a:?} {c:?}");
        noted(
            &s,
            "1 value of `nodes.properties.location` are lists, read as [longitude, latitude]",
        );
    }
    let s = at("[10.0, 120.0]");
    noted(
        &s,
        "impossible locations ignored: 1; 1 would be possible with latitude and longitude swapped",
    );
    // Far from a neighbour, and near with the two swapped.
    let nodes = [("a", 47.0, 8.0), ("b", 47.01, 8.0), ("c", 8.0, 47.02)].map(|(id, lat, lng)| {
        format!("{{\"id\": \"{id}\", \"properties\": {{\"location\": {{\"lat\": {lat}, \"lng\": {lng}}}}}}}")
    });
    let links = "{\"source\": \"a\", \"target\": \"b\", \"cost\": 1}, {\"source\": \"b\", \"target\": \"c\", \"cost\": 1}";
    let s = import(&graph(OLSR, &nodes.join(","), links));
    assert_eq!(s.nodes()[2].position, None);
    noted(
        &s,
        "1 locations more than 400 km from a neighbour's were ignored; 1 would be near with latitude and longitude swapped: c",
    );
}

#[test]
fn the_graph_of_a_collection() {
    let one = |topology: &str, nodes: [&str; 2]| {
        let [a, b] = nodes;
        graph(
            &format!(
                "\"protocol\": \"olsr\", \"metric\": \"etx\", \"topology_id\": \"{topology}\""
            ),
            &format!("{{\"id\": \"{a}\"}}, {{\"id\": \"{b}\"}}"),
            &format!("{{\"source\": \"{a}\", \"target\": \"{b}\", \"cost\": 1}}"),
        )
    };
    let collection = |members: &[String]| {
        format!("{{\"type\": \"NetworkCollection\", \"collection\": [{}]}}", members.join(","))
    };
    let routes = "{\"type\": \"NetworkRoutes\", \"routes\": [{\"destination\": \"10.0.0.0/8\", \"next\": \"10.0.0.1\"}]}".to_owned();
    let (four, six) = (one("ipv4_0", ["a", "b"]), one("ipv6_0", ["c", "d"]));
    let s = import(&collection(&[routes.clone(), four.clone()]));
    assert_eq!(names(&s), ["a", "b"]);
    let both = collection(&[four.clone(), routes.clone(), collection(&[six])]);
    let e = refuse(&both, &ImportOptions::default());
    assert_eq!(
        e.to_string(),
        "town.json: graph: the collection has 2 graphs; expected the choice of one: 1 (ipv4_0, olsr), 2 (ipv6_0, olsr)"
    );
    for (wanted, nodes) in [("ipv6_0", ["c", "d"]), ("IPV4_0", ["a", "b"]), ("2", ["c", "d"])] {
        let options = ImportOptions { graph: Some(wanted.to_owned()), ..Default::default() };
        assert_eq!(names(&with(&both, options)), nodes);
    }
    let options = |name: &str| ImportOptions { graph: Some(name.to_owned()), ..Default::default() };
    let e = refuse(&both, &options("x"));
    assert!(e.to_string().contains("there is no graph \"x\"; expected one of: 1 (ipv4_0"), "{e}");
    let e = refuse(&both, &options("olsr"));
    assert!(
        e.to_string().contains("2 graphs are named \"olsr\"; expected one by its number"),
        "{e}"
    );
    let e = refuse(&collection(&[routes]), &ImportOptions::default());
    assert!(e.to_string().contains("the collection has no graph"), "{e}");
    // Errors name the place in the file.
    let bad = four.replace("\"target\": \"b\"", "\"target\": \"z\"");
    let e = refuse(&collection(&[bad]), &ImportOptions::default());
    assert!(
        e.to_string().starts_with("town.json: collection[0].links[0].target: there is no"),
        "{e}"
    );
}

#[test]
fn beginnings_of_files() {
    for text in [
        "[]",
        "[1, 2]",
        "[{\"orig_address\": \"02:00:00:00:00:01\"}]",
        "[\n  {\"a\": 1",
        "[[\"a\", \"b\"]]",
        "[ ]",
    ] {
        let e = format_of(text.as_bytes()).unwrap_err();
        assert_eq!(e.problem, Problem::UnknownFormat, "{text}");
    }
    for text in [
        "[radio]\nphy = 1",
        "[[flow]]\nto = 1",
        "[\"a b\"]\nx = 1",
        " [topology] # {",
        "[ radio ]\n",
    ] {
        assert_eq!(format_of(text.as_bytes()).unwrap().0, Format::Toml, "{text}");
    }
    for text in ["", " \n", "\u{feff}", "\u{feff}\n"] {
        assert_eq!(format_of(text.as_bytes()).unwrap_err().problem, Problem::Empty);
    }
    assert_eq!(format_of("\u{feff}[radio]\n".as_bytes()).unwrap(), (Format::Toml, "[radio]\n"));
}

#[test]
fn throughputs_of_batman_v_by_their_unit() {
    let map = |costs: [&str; 3]| {
        let links: Vec<String> = costs
            .iter()
            .zip(["b", "c", "d"])
            .map(|(cost, to)| {
                format!("{{\"source\": \"a\", \"target\": \"{to}\", \"cost\": {cost}}}")
            })
            .collect();
        let nodes = ["a", "b", "c", "d"].map(|n| format!("{{\"id\": \"{n}\"}}"));
        graph("\"protocol\": \"BATMAN_V\", \"metric\": null", &nodes.join(","), &links.join(","))
    };
    let rates = |s: &Scenario| -> Vec<_> {
        (1..4).map(|i| s.link(NodeId(0), NodeId(i)).unwrap().rate).collect()
    };
    let mbit = import(&map(["90.5", "20", "2"]));
    noted(&mbit, "the costs of links are read as throughputs in Mbit/s");
    let kbit = import(&map(["90500", "20000", "2000"]));
    noted(&kbit, "the costs of links are read as throughputs in kbit/s");
    assert_eq!(rates(&mbit), rates(&kbit));
    // The option decides if the numbers do not.
    let requested = ImportOptions { metric: Some(Metric::ThroughputKbit), ..Default::default() };
    let slow = with(&map(["905", "905", "905"]), requested);
    assert_eq!(rates(&slow), rates(&import(&map(["0.905", "0.905", "0.905"]))));
}
