//! NetJSON NetworkGraph of a scenario, with the measures of a run in `properties`.
//!
//! Source: netjson.org, draft 00.

use std::collections::BTreeMap;

use fairmesh_engine::record::{FlowRecord, RunRecord};
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::NodeId;
use serde_json::{Map, Value, json};

use crate::LabError;
use crate::frame::{Frame, Values, nodes};
use crate::layout::GENERATOR;

/// Cost of a wire in the metric `etx_ffeth`, as OLSR prices a cable.
const WIRE_COST: f64 = 0.1;

/// Returns the graph of a scenario.
///
/// It has a node per router or host, an entry per direction of a radio link, and one per wire.
/// Costs are expected transmissions. Names in `properties` are those of [`MEASURES`](crate::frame::MEASURES),
/// beside `tq`, `signal`, `channel` and `is_gateway`, which maps have, too.
///
/// # Errors
/// Returns an error if the run is one of another scenario: its nodes differ.
pub fn graph(scenario: &Scenario, run: Option<&RunRecord>) -> Result<Value, LabError> {
    let devices = || {
        let own = |(_, n): &(usize, &fairmesh_scenario::Node)| n.of.is_none();
        scenario.nodes().iter().enumerate().filter(own)
    };
    let measured = run.map(|r| nodes(&[vec![r.clone()]]));
    let mut rows = BTreeMap::new();
    if let Some(Values::Text(names)) =
        measured.as_ref().and_then(|f| f.column("node")).map(|c| &c.values)
    {
        rows.extend(names.iter().enumerate().map(|(i, name)| (name.as_str(), i)));
        if let Some((_, node)) = devices().find(|(_, n)| !rows.contains_key(n.name.as_str())) {
            let problem = format!(
                "have no node \"{}\"; expected runs of the scenario {}",
                node.name,
                scenario.name()
            );
            return Err(LabError::setting("results", problem));
        }
    }
    let node = |(i, n): (usize, &fairmesh_scenario::Node)| {
        let id = NodeId(i as u32);
        let mut p = Map::new();
        p.insert("wireless".into(), (n.kind == NodeKind::Wireless).into());
        if scenario.gateways().has(id) {
            p.insert("is_gateway".into(), true.into());
        }
        if let Some((x, y)) = n.position {
            p.extend([("x_m".to_owned(), json!(x)), ("y_m".to_owned(), json!(y))]);
        }
        if let (Some(frame), Some(&row)) = (&measured, rows.get(n.name.as_str())) {
            p.extend(values(frame, row));
        }
        let ends = |f: &&FlowRecord| own_end(scenario, f) == Some(&n.name);
        if let Some(run) = run {
            let flows: Vec<Value> = run.flows.iter().filter(ends).map(flow).collect();
            p.insert("flows".into(), flows.into());
        }
        json!({ "id": n.name, "label": n.name, "properties": p })
    };
    let mut links: Vec<Value> =
        scenario.links().iter().map(|l| radio_link(scenario, l, run)).collect();
    let name = |id: NodeId| scenario.nodes()[id.index()].name.as_str();
    links.extend(scenario.wires().iter().map(|w| {
        let properties =
            json!({ "wireless": false, "rate_bps": w.rate.0, "delay_s": w.delay.as_secs_f64() });
        json!({ "source": name(w.a), "target": name(w.b), "cost": WIRE_COST, "properties": properties })
    }));
    let mut properties = Map::from_iter([("generator".to_owned(), json!(GENERATOR))]);
    if let Some(r) = run {
        let frame = crate::frame::runs(&[vec![r.clone()]]);
        properties.extend(values(&frame, 0));
    }
    Ok(json!({
        "type": "NetworkGraph",
        "protocol": "static",
        "version": null,
        "metric": if scenario.wires().is_empty() { "etx" } else { "etx_ffeth" },
        "label": scenario.name(),
        "nodes": devices().map(node).collect::<Vec<_>>(),
        "links": links,
        "properties": properties,
    }))
}

/// Returns the end of a flow that is not a gateway, if there is one.
fn own_end<'a>(scenario: &Scenario, f: &'a FlowRecord) -> Option<&'a String> {
    let gateway = |name: &str| scenario.node(name).is_some_and(|id| scenario.gateways().has(id));
    [&f.from, &f.to].into_iter().find(|name| !gateway(name))
}

fn flow(f: &FlowRecord) -> Value {
    let over_fair = f.due_bps().filter(|due| *due > 0.0).map(|due| f.goodput_bps / due);
    json!({
        "flow": f.name,
        "from": f.from,
        "to": f.to,
        "hops": f.hops,
        "goodput_bps": f.goodput_bps,
        "fair_bps": f.fair_bps,
        "over_fair": over_fair,
        "path": f.path,
    })
}

/// Returns the values of a row that the graph has nowhere else, by column.
fn values(frame: &Frame, row: usize) -> impl Iterator<Item = (String, Value)> {
    let columns = frame.columns.iter().filter(|c| !matches!(&*c.name, "node" | "x_m" | "y_m"));
    columns.map(move |c| {
        let value = match &c.values {
            Values::Text(v) => json!(v[row]),
            Values::Int(v) => json!(v[row]),
            Values::Float(v) => json!(v[row]),
            Values::Maybe(v) => json!(v[row]),
        };
        (c.name.clone(), value)
    })
}

fn radio_link(
    scenario: &Scenario,
    link: &fairmesh_scenario::Link,
    run: Option<&RunRecord>,
) -> Value {
    let station = |id: NodeId| scenario.nodes()[id.index()].name.as_str();
    let (from, to) = (scenario.device(link.from), scenario.device(link.to));
    let back = scenario.link(link.to, link.from).map_or(0.0, |l| l.delivery.0);
    let delivered = link.delivery.0 * back;
    let mac = scenario.mac_of(link.from);
    let rate = mac.phy.bit_rate(link.rate.unwrap_or(mac.rate));
    let mut p = Map::from_iter([
        ("wireless".to_owned(), json!(true)),
        ("tq".to_owned(), json!(link.delivery.0)),
        ("rate_bps".to_owned(), json!(rate.0)),
    ]);
    if let Some(channel) = scenario.channel_of(link.from) {
        p.insert("channel".into(), channel.into());
    }
    if let Some(run) = run {
        let (s, t) = (station(link.from), station(link.to));
        let counted = run.links.iter().find(|l| l.from == s && l.to == t);
        for (key, value) in [
            ("attempts", counted.map_or(0, |l| l.attempts)),
            ("unanswered", counted.map_or(0, |l| l.unanswered)),
        ] {
            p.insert(key.into(), value.into());
        }
        let (a, b) = (station(from), station(to));
        let crosses = |f: &&FlowRecord| f.path.windows(2).any(|hop| hop[0] == a && hop[1] == b);
        let carried: f64 = run.flows.iter().filter(crosses).map(|f| f.goodput_bps).sum();
        p.insert("goodput_bps".into(), json!(carried));
    }
    // Beyond every protocol's infinity if acknowledgements cannot return.
    let cost = if delivered > 0.0 { 1.0 / delivered } else { 1e300 };
    json!({ "source": station(from), "target": station(to), "cost": cost, "properties": p })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairmesh_control::Registry;

    use super::*;
    use crate::Changes;
    use crate::source::build;
    use crate::testing::record;

    const TEXT: &str = r#"
duration = "4 s"
[topology]
links = [{ from = 0, to = 1, delivery = 0.8, delivery_back = 0.5 }, [1, 2]]
gateway = 0
[traffic]
flows = "up"
[wired]
hosts = ["server"]
"#;

    fn scenario(text: &str) -> Scenario {
        build(Path::new("three.toml"), text.as_bytes(), &Changes::default(), &Registry::standard())
            .unwrap()
    }

    #[test]
    fn a_graph_has_the_measures_of_its_run() {
        let mesh = scenario(&TEXT.replace("[wired]\nhosts = [\"server\"]\n", ""));
        let mut run = record("fifo", 3, &[(1e5, 2e5, 1), (5e4, 1e5, 2)]);
        run.flows[1].path = ["2", "1", "0"].map(str::to_owned).to_vec();
        let g = graph(&mesh, Some(&run)).unwrap();
        assert_eq!((&g["type"], &g["metric"]), (&json!("NetworkGraph"), &json!("etx")));
        assert_eq!(
            (&g["properties"]["control"], &g["properties"]["seed"]),
            (&json!("fifo"), &json!(3))
        );
        let node = &g["nodes"][2]["properties"];
        assert_eq!(node["airtime_tx"], 0.2);
        assert_eq!(node["flows"][0]["over_fair"], 0.5);
        assert_eq!(g["nodes"][0]["properties"]["is_gateway"], true);
        assert_eq!(g["nodes"][0]["properties"]["flows"], json!([]));
        let link = |from: &str, to: &str| {
            let all = g["links"].as_array().unwrap();
            all.iter().find(|l| l["source"] == from && l["target"] == to).unwrap().clone()
        };
        assert_eq!(link("0", "1")["cost"], 2.5);
        assert_eq!(link("1", "0")["properties"]["tq"], 0.5);
        assert_eq!(link("1", "0")["properties"]["goodput_bps"], 1.5e5);
        assert_eq!(link("2", "1")["properties"]["goodput_bps"], 5e4);
        assert_eq!(link("0", "1")["properties"]["goodput_bps"], 0.0);
    }

    #[test]
    fn a_graph_reads_back_as_a_map_with_the_same_links() {
        let mesh = scenario(TEXT);
        let text = serde_json::to_vec(&graph(&mesh, None).unwrap()).unwrap();
        let none = Changes::default();
        let back = build(Path::new("three.json"), &text, &none, &Registry::standard()).unwrap();
        let links = |s: &Scenario| -> Vec<(String, String, f64)> {
            let name = |id: NodeId| s.nodes()[id.index()].name.clone();
            let mut all: Vec<_> =
                s.links().iter().map(|l| (name(l.from), name(l.to), l.delivery.0)).collect();
            all.sort_by(|a, b| a.partial_cmp(b).unwrap());
            all
        };
        assert_eq!(links(&back), links(&mesh));
        assert_eq!(back.wires().len(), 1);
        let gateway = |s: &Scenario| s.nodes()[s.gateways().list()[0].index()].name.clone();
        assert_eq!(gateway(&back), gateway(&mesh));
    }

    #[test]
    fn a_run_of_another_scenario_is_refused() {
        let other = record("fifo", 1, &[(1e5, 2e5, 1)]);
        let e = graph(&scenario(TEXT), Some(&other)).unwrap_err().to_string();
        assert!(e.starts_with("results: have no node \"2\"; expected runs of the scenario"), "{e}");
    }
}
