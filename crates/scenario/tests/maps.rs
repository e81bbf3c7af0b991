//! Maps of networks: NetJSON and meshviewer.json.

mod common;

use common::paths;
use fairmesh_phy::mcs::Generation;
use fairmesh_scenario::{
    Direction, Format, ImportOptions, Metric, PhyName, Problem, Scenario, ScenarioError,
    draft_from_map, format_of, parse,
};
use fairmesh_units::{BitRate, NodeId, Span};

const OLSR: &[u8] = include_bytes!("fixtures/olsr.netjson");
const MESHVIEWER: &[u8] = include_bytes!("fixtures/meshviewer.json");

fn import(bytes: &[u8], options: &ImportOptions) -> Scenario {
    parse("maps/town.json", bytes, options).unwrap_or_else(|e| panic!("{e}"))
}

fn refuse(text: &str) -> ScenarioError {
    match parse("town.json", text.as_bytes(), &ImportOptions::default()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(e) => e,
    }
}

fn delivery(s: &Scenario, a: u32, b: u32) -> f64 {
    let p = s.link(NodeId(a), NodeId(b)).map_or(0.0, |l| l.delivery.0);
    (p * 1e6).round() / 1e6
}

#[test]
fn formats_are_detected_by_content() {
    assert_eq!(format_of(OLSR).unwrap().0, Format::NetJson);
    assert_eq!(format_of(MESHVIEWER).unwrap().0, Format::Meshviewer);
    assert_eq!(format_of(b"[radio]").unwrap().0, Format::Toml);
    let marked = ["\u{feff}\n ".as_bytes(), OLSR].concat();
    assert_eq!(format_of(&marked).unwrap().0, Format::NetJson);
    import(&marked, &ImportOptions::default());
}

#[test]
fn netjson_links_become_delivery_probabilities() {
    let s = import(OLSR, &ImportOptions::default());
    assert_eq!((s.name(), s.description()), ("town", "Seven routers and a cable"));
    assert_eq!(s.gateways().first(), Some(NodeId(0)));
    assert_eq!(delivery(&s, 0, 1), 1.0);
    // One cost: both directions 1/sqrt(4).
    assert_eq!((delivery(&s, 1, 2), delivery(&s, 2, 1)), (0.5, 0.5));
    // Two costs: each direction its own.
    assert_eq!((delivery(&s, 0, 2), delivery(&s, 2, 0)), (0.4, 0.8));
    // The cable of etx_ffeth is a wire.
    assert_eq!(delivery(&s, 2, 3), 0.0);
    assert_eq!(s.wires().iter().map(|w| (w.a.0, w.b.0)).collect::<Vec<_>>(), [(2, 3)]);
    // A transmit quality has priority over a cost.
    assert_eq!((delivery(&s, 3, 4), delivery(&s, 4, 3)), (0.7, 0.9));
}

#[test]
fn netjson_world() {
    let s = import(OLSR, &ImportOptions::default());
    assert_eq!(s.mac().phy.as_modern().unwrap().generation, Generation::Ht);
    assert_eq!(s.duration(), Span::from_secs(60));
    // Downloads by ETX: to 3 directly (1 / 0.32 < 1 + 4), to 5 over the cable.
    assert_eq!(paths(&s), [vec![0, 1], vec![0, 2], vec![0, 2, 3], vec![0, 2, 3, 4]]);
    assert_eq!(s.flows()[3].wireless_hops, 2);
    // 0.01 degrees: 742 m east at this latitude, 1112 m north.
    let (x, _) = s.nodes()[1].position.unwrap();
    let (x0, y0) = s.nodes()[0].position.unwrap();
    let (_, y) = s.nodes()[2].position.unwrap();
    assert!((x - x0 - 741.2).abs() < 1.0, "{}", x - x0);
    assert!((y - y0 - 1111.9).abs() < 1.0, "{}", y - y0);
    assert_eq!((s.nodes()[3].position, s.nodes()[5].position), (None, None));
    // Two links apart: senses, does not decode.
    let pair = |a: u32, b: u32| s.sensed_pairs().iter().find(|h| (h.from, h.to) == (a, b));
    assert!(pair(0, 1).unwrap().decodes);
    assert!(pair(0, 1).unwrap().delay > Span::from_micros(2));
    assert!(pair(0, 3).is_none(), "a cable is no hop of the radio");
    let warnings = s.warnings().join("\n");
    for expected in [
        "2 of 7 nodes cannot be reached from the gateway and get no flow: 10.1.0.6, 10.1.0.7",
        "parallel links merged, the best of each pair kept: 1",
        "impossible locations ignored: 1",
    ] {
        assert!(warnings.contains(expected), "{warnings}");
    }
}

#[test]
fn import_options() {
    let options = |f: &dyn Fn(&mut ImportOptions)| {
        let mut o = ImportOptions::default();
        f(&mut o);
        o
    };
    let up = import(OLSR, &options(&|o| o.direction = Direction::Up));
    assert_eq!(paths(&up)[0], [1, 0]);
    for gateway in ["10.1.0.2", " 10.1.0.102 "] {
        let s = import(OLSR, &options(&|o| o.gateways = vec![gateway.to_owned()]));
        assert_eq!(s.gateways().first(), Some(NodeId(1)), "{gateway}");
    }
    let s = import(OLSR, &options(&|o| o.gateways = vec!["tower".to_owned()]));
    assert_eq!(s.gateways().first(), Some(NodeId(0)));
    // The nearest and the farthest.
    let two = import(OLSR, &options(&|o| o.flows = Some(2)));
    assert_eq!(two.flows().iter().map(|f| f.to.0).collect::<Vec<_>>(), [1, 4]);
    let one = import(OLSR, &options(&|o| o.flows = Some(1)));
    assert_eq!(one.flows().iter().map(|f| f.to.0).collect::<Vec<_>>(), [4]);
    let quiet = import(OLSR, &options(&|o| o.sense_hops = 1));
    assert!(quiet.sensed_pairs().iter().all(|h| h.decodes));
    let perfect = import(OLSR, &options(&|o| o.metric = Some(Metric::None)));
    assert_eq!((delivery(&perfect, 1, 2), delivery(&perfect, 4, 3)), (1.0, 0.9));
    let b = import(
        OLSR,
        &options(&|o| {
            o.phy = Some(PhyName::B);
            o.rate = Some(BitRate(2_000_000));
            o.duration = Span::from_secs(6);
        }),
    );
    assert_eq!(
        (b.mac().phy.bit_rate(b.mac().rate), b.warmup()),
        (BitRate(2_000_000), Span::from_secs(1))
    );
    let wrong =
        |f: &dyn Fn(&mut ImportOptions)| parse("t", OLSR, &options(f)).unwrap_err().to_string();
    assert!(
        wrong(&|o| o.gateways = vec!["x".into()]).starts_with("t: gateway: there is no node \"x\"")
    );
    assert!(
        wrong(&|o| o.rate = Some(BitRate(7))).starts_with("t: radio.rate: the PHY has no rate")
    );
    assert!(wrong(&|o| o.flows = Some(0)).starts_with("t: flows: 0 is out of range"));
}

#[test]
fn meshviewer_world() {
    let s = import(MESHVIEWER, &ImportOptions::default());
    // The node with the tunnel is the gateway, not the server at its other end.
    assert_eq!(s.gateways().first(), Some(NodeId(0)));
    assert_eq!((delivery(&s, 0, 1), delivery(&s, 1, 0)), (0.9, 0.6));
    // Parallel links: the best of each direction.
    assert_eq!((delivery(&s, 1, 2), delivery(&s, 2, 1)), (0.5, 0.8));
    assert_eq!(s.wires().iter().map(|w| (w.a.0, w.b.0)).collect::<Vec<_>>(), [(0, 2)]);
    assert_eq!(paths(&s), [vec![0, 1], vec![0, 2]]);
    assert_eq!(s.flows()[1].wireless_hops, 0);
    let warnings = s.warnings().join("\n");
    for expected in [
        "1 nodes are marked as offline",
        "1 tunnels were left out",
        "2 of 5 nodes cannot be reached from the gateway and get no flow: aa04, gw01",
    ] {
        assert!(warnings.contains(expected), "{warnings}");
    }
    let by_hostname =
        ImportOptions { gateways: vec!["harbour".to_owned()], ..ImportOptions::default() };
    assert_eq!(import(MESHVIEWER, &by_hostname).gateways().first(), Some(NodeId(2)));
}

/// Returns a map as yanic writes it.
///
/// It has a server marked as gateway, and routers, some with tunnels.
fn routers(gateways: &[&str], links: &[(&str, &str, &str)]) -> Scenario {
    let names = ["a1", "a2", "a3", "b1", "b2", "gw1", "gw2"];
    let node = |n: &&str| {
        let gateway = gateways.contains(n);
        format!(
            r#"{{"firstseen": "2024-01-01T00:00:00+0000", "lastseen": "2026-05-01T12:00:00+0200",
               "is_online": true, "is_gateway": {gateway}, "clients": 0, "clients_wifi24": 0,
               "clients_wifi5": 0, "clients_other": 0, "rootfs_usage": 0.1, "loadavg": 0.2,
               "memory_usage": null, "uptime": "2026-04-01T00:00:00+0000", "gateway_nexthop": "gw1",
               "gateway": "gw1", "node_id": "{n}", "mac": "02:00:00:00:00:01", "addresses": [],
               "site_code": "x", "hostname": "host {n}", "owner": "", "location": null,
               "firmware": {{}}, "autoupdater": {{}}, "nproc": 1, "model": "TP-LINK"}}"#
        )
    };
    let link = |(source, target, kind): &(&str, &str, &str)| {
        format!(
            r#"{{"type": "{kind}", "source": "{source}", "target": "{target}", "source_tq": 0.8,
               "target_tq": 0.8, "source_addr": "02:00:00:00:00:02", "target_addr": "02:00:00:00:00:03"}}"#
        )
    };
    let nodes: Vec<String> = names.iter().map(node).collect();
    let links: Vec<String> = links.iter().map(link).collect();
    let text = format!(
        r#"{{"timestamp": "2026-05-01T12:00:00+0200", "nodes": [{}], "links": [{}]}}"#,
        nodes.join(","),
        links.join(",")
    );
    import(text.as_bytes(), &ImportOptions::default())
}

#[test]
fn a_marked_gateway_of_a_map_is_used() {
    let name = |s: &Scenario| s.nodes()[s.gateways().first().unwrap().index()].name.clone();
    let mesh = [("a1", "a2", "wifi"), ("a2", "a3", "wifi"), ("b1", "b2", "wifi")];
    // A marked router is preferred to better connected ones with tunnels, without a warning.
    let s = routers(&["a3"], &[&mesh[..], &[("a2", "gw1", "vpn")]].concat());
    assert_eq!(name(&s), "a3");
    assert!(!s.warnings().join("\n").contains("taken"), "{:?}", s.warnings());
    // Servers have no radio: the router at the other end of the tunnel is used, with a warning.
    let s = routers(&["gw1"], &[&mesh[..], &[("gw1", "a3", "vpn"), ("a2", "gw2", "vpn")]].concat());
    assert_eq!(name(&s), "a3");
    let expected_warning =
        "the map's gateway \"gw1\" has no radio link and no cable: \"a3\" was taken";
    assert!(s.warnings().join("\n").contains(expected_warning), "{:?}", s.warnings());
    // Several: the best connected, by name.
    let s = routers(&["a1", "a2", "b1"], &mesh);
    assert_eq!(name(&s), "a2");
    let expected_warning =
        "the map has 3 gateways: \"a2\", in the largest connected part with most links, was taken";
    assert!(s.warnings().join("\n").contains(expected_warning), "{:?}", s.warnings());
    // A cable to a router counts, too.
    let s = routers(&["gw1"], &[&mesh[..], &[("gw1", "a1", "other")]].concat());
    assert_eq!(name(&s), "gw1");
    // The user's choice has priority over the map's.
    assert_eq!(name(&routers(&[], &[&mesh[..], &[("gw1", "b2", "vpn")]].concat())), "b2");
}

/// A cable in the middle: a1 ~ a2 = b1 ~ b2.
#[test]
fn a_cable_of_a_map_lies_between_radio_links() {
    let s = routers(&["a1"], &[("a1", "a2", "wifi"), ("a2", "b1", "other"), ("b1", "b2", "wifi")]);
    let far = s.flows().iter().find(|f| f.path.len() == 4).unwrap();
    assert_eq!(far.wireless_hops, 2);
    let crossed: Vec<_> = far.path.windows(2).map(|w| s.wire(w[0], w[1])).collect();
    assert_eq!(crossed, [None, Some((0, false)), None]);
    assert_eq!(s.wire(far.path[2], far.path[1]), Some((0, true)));
}

#[test]
fn a_map_without_gateway_takes_the_best_connected_node() {
    let s = import(
        br#"{ "nodes": [{"node_id": "a"}, {"node_id": "b"}, {"node_id": "c"}],
              "links": [{"source": "a", "target": "b", "source_tq": 200, "target_tq": 255},
                        {"source": "b", "target": "c"}] }"#,
        &ImportOptions::default(),
    );
    assert_eq!(s.gateways().first(), Some(NodeId(1)));
    assert!(s.warnings()[0].contains("names no gateway: \"b\""), "{:?}", s.warnings());
    // A value above 1 sets the file's scale to 255; a missing value is a perfect link.
    assert_eq!(delivery(&s, 0, 1), (200.0_f64 / 255.0 * 1e6).round() / 1e6);
    assert_eq!(delivery(&s, 1, 2), 1.0);
}

#[test]
fn metrics_by_their_names() {
    let file = |protocol: &str, metric: &str, cost: &str| {
        format!(
            r#"{{"type": "NetworkGraph", "protocol": "{protocol}", "version": "1", "metric": {metric},
            "nodes": [{{"id": "a"}}, {{"id": "b"}}], "links": [{{"source": "a", "target": "b", "cost": {cost}}}]}}"#
        )
    };
    let one = |p: &str, m: &str, c: &str| {
        let s = import(file(p, m, c).as_bytes(), &ImportOptions::default());
        (delivery(&s, 0, 1), s.warnings().iter().any(|w| w.contains("is not known")))
    };
    assert_eq!(one("olsr", "\"ETX\"", "4"), (0.5, false));
    assert_eq!(one("batman-adv", "\"TQ\"", "0.25"), (0.25, false));
    assert_eq!(one("batman-adv", "\"TQ\"", "51"), (0.2, false));
    assert_eq!(one("batman-adv", "null", "1.6"), (0.625, false));
    assert_eq!(one("babel", "null", "1024"), (0.5, false));
    assert_eq!(one("static", "\"static\"", "1"), (1.0, false));
    assert_eq!(one("OSPF", "\"magic\"", "17"), (1.0, true));
}

#[test]
fn errors_are_named() {
    let netjson = |nodes: &str, links: &str| {
        format!(
            "{{\"type\": \"NetworkGraph\", \"protocol\": \"olsr\", \"version\": \"1\", \"metric\": \"etx\",\n\
             \"nodes\": [{nodes}],\n\"links\": [{links}]}}"
        )
    };
    let ab = "{\"id\": \"a\"}, {\"id\": \"b\"}";
    for (nodes, links, expected) in [
        (
            ab,
            "{\"source\": \"a\", \"target\": \"z\", \"cost\": 1}",
            "town.json: links[0].target: there is no node \"z\"; expected a node",
        ),
        (
            ab,
            "{\"source\": 7, \"target\": \"b\", \"cost\": 1}",
            "town.json: links[0].source: there is no node \"7\"",
        ),
        (
            ab,
            "{\"source\": \"a\", \"target\": \"a\", \"cost\": 1}",
            "town.json: links[0]: node \"a\" is linked to itself",
        ),
        (
            ab,
            "{\"source\": \"a\", \"target\": \"b\", \"cost\": -1}",
            "town.json: links[0].cost: -1 is out of range; expected a cost of at least 0",
        ),
        (
            ab,
            "{\"source\": \"a\", \"target\": \"b\", \"cost\": \"1\"}",
            "town.json:3: links[0].cost: invalid type: string \"1\"; expected a number",
        ),
        (ab, "{\"source\": \"a\"}", "town.json:3: links[0]: missing field `target`"),
        (
            "{\"id\": \"a\"}, {\"id\": \"a\"}",
            "",
            "town.json: nodes[1].id: node \"a\" is declared twice",
        ),
        ("{\"id\": \"a\"}, {}", "", "town.json:2: nodes[1]: missing field `id`"),
        (
            "{\"id\": [1]}",
            "",
            "town.json:2: nodes[0].id: invalid type: sequence; expected a node's name",
        ),
        (ab, "", "town.json: links: the scenario has no radio link"),
        ("", "", "town.json: links: the scenario has no radio link"),
        (ab, "{\"source\": \"a\", \"target\": \"b\", \"cost\": 1e400}", "town.json:3: "),
    ] {
        let line = refuse(&netjson(nodes, links)).to_string();
        assert!(line.starts_with(expected), "\n got: {line}\nwant: {expected}…");
    }
    let e = refuse(
        "{\"nodes\": [{\"node_id\": \"a\"}], \"links\": [{\"source\": \"a\", \"target\": \"b\"}]}",
    );
    assert_eq!(e.problem, Problem::UnknownNode("b".to_owned()));
    assert_eq!(e.key.to_string(), "links[0].target");
    let e = refuse("{\"nodes\": [{\"id\": \"a\"}], \"links\": []}");
    assert!(e.to_string().starts_with("town.json:1: nodes[0]: missing field `node_id`"), "{e}");
}

#[test]
fn a_map_can_be_taken_as_a_draft() {
    let old = ImportOptions { phy: Some(PhyName::G), ..ImportOptions::default() };
    let (draft, warnings) = draft_from_map("x.json", OLSR, &old).unwrap();
    assert_eq!(draft.topology.links.as_ref().unwrap().len(), 5);
    assert_eq!(warnings.len(), 3);
    assert!(draft_from_map("x.toml", b"a = 1", &ImportOptions::default()).is_err());
}

#[test]
fn large_maps_are_read_quickly_and_dense_ones_refused() {
    use std::fmt::Write;
    let nodes = |n: usize| {
        (0..n).map(|i| format!("{{\"node_id\": \"r{i}\"}}")).collect::<Vec<_>>().join(",")
    };
    // A ladder of 20,000 routers.
    let n = 20_000;
    let mut links = String::new();
    for i in 0..n {
        for j in [i + 1, i + 2].into_iter().filter(|&j| j < n) {
            let comma = if links.is_empty() { "" } else { "," };
            write!(
                links,
                "{comma}{{\"source\": \"r{i}\", \"target\": \"r{j}\", \"source_tq\": 0.9}}"
            )
            .unwrap();
        }
    }
    let text = format!("{{\"nodes\": [{}], \"links\": [{links}]}}", nodes(n));
    let options = ImportOptions { flows: Some(50), ..ImportOptions::default() };
    let s = import(text.as_bytes(), &options);
    assert_eq!((s.nodes().len(), s.flows().len()), (n, 50));
    // A star of 10,000: all leaves would sense each other.
    let links: Vec<String> =
        (1..10_000).map(|i| format!("{{\"source\": \"r0\", \"target\": \"r{i}\"}}")).collect();
    let text = format!("{{\"nodes\": [{}], \"links\": [{}]}}", nodes(10_000), links.join(","));
    let e = refuse(&text);
    assert!(matches!(e.problem, Problem::TooDense { .. }), "{e}");
}
