//! The daemon's configuration, derived from a scenario.

use std::fmt::Write as _;
use std::path::Path;

use fairmesh_agent::gateway::config::Mode;
use fairmesh_emulator::plan;
use fairmesh_engine::fair_rates;
use fairmesh_scenario::{NodeKind, Scenario, Share};
use fairmesh_units::NodeId;

use crate::error::ScenarioProblem;

/// File name of the daemon's configuration in its folder.
pub const CONFIGURATION: &str = "gateway.toml";

/// File name of the daemon's events in its folder, one JSON object per line.
pub const EVENTS: &str = "gateway.jsonl";

/// Subscriber and direction of a flow; `None` for a flow that does not cross the gateway.
pub(crate) type Owner = Option<(String, &'static str)>;

/// Returns the subscriber at the mesh's end of a flow between the mesh and the wired side.
fn subscribed(scenario: &Scenario, gateway: NodeId, flow: &fairmesh_scenario::Flow) -> Owner {
    let home = |n: NodeId| n != gateway && scenario.nodes()[n.index()].kind == NodeKind::Wireless;
    let name = |n: NodeId| scenario.nodes()[n.index()].name.clone();
    match (home(flow.from), home(flow.to)) {
        (true, false) if flow.to != gateway => Some((name(flow.from), "up")),
        (false, true) if flow.from != gateway => Some((name(flow.to), "down")),
        _ => None,
    }
}

/// Returns the owner of each flow, by the name that the daemon uses.
pub(crate) fn owners(scenario: &Scenario, gateway: NodeId) -> Vec<Owner> {
    let flows = scenario.flows().iter();
    let mut all: Vec<Owner> = flows.map(|f| subscribed(scenario, gateway, f)).collect();
    for s in &scenario.subscribers().list {
        for f in s.flows() {
            if let Some((name, _)) = &mut all[f] {
                name.clone_from(&s.name);
            }
        }
    }
    all
}

/// A subscriber as the daemon configures it: its nodes and its share in each direction.
struct Home {
    name: String,
    nodes: Vec<NodeId>,
    shares: [(&'static str, Share); 2],
}

/// Returns the scenario's subscribers, and each other wireless node as its own subscriber.
///
/// Plan, guarantee and weight of such a node in a direction are those of its first flow.
///
/// # Errors
/// A subscriber that owns some flows of a node and not all: the daemon identifies homes by address.
fn homes(scenario: &Scenario, gateway: NodeId) -> Result<Vec<Home>, ScenarioProblem> {
    let of_node = |f: usize| {
        let (name, _) = subscribed(scenario, gateway, &scenario.flows()[f])?;
        scenario.node(&name)
    };
    let mut taken = vec![false; scenario.nodes().len()];
    let mut homes = Vec::new();
    for s in &scenario.subscribers().list {
        let mut nodes: Vec<NodeId> = s.flows().filter_map(of_node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let all =
            (0..scenario.flows().len()).filter(|&f| of_node(f).is_some_and(|n| nodes.contains(&n)));
        let mut own: Vec<usize> = s.flows().collect();
        own.sort_unstable();
        if !all.eq(own) {
            return Err(ScenarioProblem::SplitSubscriber(s.name.clone()));
        }
        for node in &nodes {
            taken[node.index()] = true;
        }
        let shares = [("down", s.down.clone()), ("up", s.up.clone())];
        homes.push(Home { name: s.name.clone(), nodes, shares });
    }
    for node in scenario.wireless().filter(|n| *n != gateway && !taken[n.index()]) {
        let share = |way: &'static str| {
            let own = |(_, f): &(usize, &fairmesh_scenario::Flow)| {
                let home = subscribed(scenario, gateway, f);
                home.is_some_and(|(home, w)| {
                    home == scenario.nodes()[node.index()].name && w == way
                })
            };
            let first = scenario.flows().iter().enumerate().find(own);
            let share = first.map(|(i, f)| Share {
                flows: vec![i],
                ceiling: f.plan,
                guarantee: f.guarantee,
            });
            (way, share.unwrap_or_default())
        };
        let name = scenario.nodes()[node.index()].name.clone();
        homes.push(Home { name, nodes: vec![node], shares: [share("down"), share("up")] });
    }
    Ok(homes)
}

/// Returns the scenario's only gateway, where the daemon runs.
///
/// # Errors
/// A scenario without a gateway, or with several.
pub fn the_gateway(scenario: &Scenario) -> Result<NodeId, ScenarioProblem> {
    match scenario.gateways().list() {
        [] => Err(ScenarioProblem::NoGateway),
        [one] => Ok(*one),
        several => Err(ScenarioProblem::SeveralGateways(several.len())),
    }
}

/// Writes the daemon's configuration for a scenario.
///
/// It has the interfaces, the subscribers with the weights, plans and guarantees of their flows, the rates of
/// the gateway's links, the control and its options.
///
/// State and socket of the daemon are in `folder`.
///
/// # Errors
/// The part of the scenario that is missing or contradictory.
pub fn configuration(
    scenario: &Scenario,
    folder: &Path,
    mode: Mode,
) -> Result<String, ScenarioProblem> {
    let gateway = the_gateway(scenario)?;
    let uplinks = scenario.wires().iter().filter(|w| w.a == gateway || w.b == gateway).count();
    if uplinks != 1 {
        return Err(ScenarioProblem::Uplinks(uplinks));
    }
    let quoted = |s: &str| serde_json::Value::from(s).to_string();
    let path = |name: &str| quoted(&folder.join(name).display().to_string());
    let mut out = format!(
        "# Written by fairmesh emulate for the scenario {}.\nmode = \"{}\"\nunmapped = \"pass\"\n\n\
         [mesh]\ninterface = \"mesh0\"\n\n[wired]\ninterface = \"wire0\"\n\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n\n[paths]\nstate = {}\nsocket = {}\n\n\
         [control]\nuse = {}\n",
        quoted(scenario.name()),
        mode.name(),
        path("state"),
        path("gateway.sock"),
        quoted(&scenario.control().to_string()),
    );
    for (parameter, value) in scenario.control().changed() {
        let _ = writeln!(out, "{} = {value:?}", parameter.name);
    }
    let phy = &scenario.mac().phy;
    for link in scenario.links().iter().filter(|l| l.from == gateway) {
        let rate = phy.bit_rate(link.rate.unwrap_or(scenario.mac().rate));
        let name = quoted(&scenario.nodes()[link.to.index()].name);
        let _ = write!(out, "\n[[neighbour]]\nname = {name}\nrate = \"{rate}\"\n");
    }
    let fair = fair_rates(scenario)?.rates_bps;
    for home in homes(scenario, gateway)? {
        let prefix = |n: &NodeId| format!("\"{}/32\"", plan::address(n.index()));
        let prefixes: Vec<String> = home.nodes.iter().map(prefix).collect();
        let _ = write!(
            out,
            "\n[[subscriber]]\nname = {}\nprefixes = [{}]\n",
            quoted(&home.name),
            prefixes.join(", ")
        );
        if let Some(&first) = home.shares.iter().flat_map(|(_, s)| &s.flows).min() {
            let flow = &scenario.flows()[first];
            let _ = writeln!(out, "weight = {:?}\nhops = {}", flow.weight, flow.wireless_hops);
        }
        for (way, share) in home.shares.iter().filter(|(_, s)| !s.flows.is_empty()) {
            if let Some(ceiling) = share.ceiling {
                let _ = writeln!(out, "{way} = \"{ceiling}\"");
            }
            if let Some(guarantee) = share.guarantee {
                let _ = writeln!(out, "guarantee_{way} = \"{guarantee}\"");
            }
            let fair: f64 = share.flows.iter().map(|&f| fair[f]).sum();
            let _ = writeln!(out, "fair_{way} = \"{fair:.0} bit/s\"");
        }
    }
    Ok(out)
}
