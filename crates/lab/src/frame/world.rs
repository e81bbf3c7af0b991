//! Tables of a scenario: its nodes and flows; of a registry: its controls.

use fairmesh_control::{Definition, Origin, Registry};
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::NodeId;

use super::Frame;

/// Returns the table of a scenario's nodes.
pub fn nodes_of(scenario: &Scenario) -> Frame {
    let nodes = || scenario.nodes().iter().enumerate().filter(|(_, n)| n.of.is_none());
    let gateway = |i: usize| scenario.gateways().has(NodeId(i as u32));
    let mut frame = Frame::default();
    frame
        .text("node", nodes().map(|(_, n)| n.name.as_str()))
        .maybe("x_m", nodes().map(|(_, n)| n.position.map(|p| p.0)))
        .maybe("y_m", nodes().map(|(_, n)| n.position.map(|p| p.1)))
        .int("wireless", nodes().map(|(_, n)| (n.kind == NodeKind::Wireless).into()))
        .int("gateway", nodes().map(|(i, _)| gateway(i).into()));
    frame
}

/// Returns the table of a scenario's flows.
pub fn flows_of(scenario: &Scenario) -> Frame {
    let flows = || scenario.flows().iter();
    let name = |n: NodeId| scenario.nodes()[n.index()].name.as_str();
    let mut frame = Frame::default();
    frame
        .text("flow", flows().map(|f| f.name.as_str()))
        .text("from", flows().map(|f| name(f.from)))
        .text("to", flows().map(|f| name(f.to)))
        .int("hops", flows().map(|f| f.wireless_hops.into()))
        .float("weight", flows().map(|f| f.weight));
    frame
}

/// Returns the table of a registry's controls.
pub fn controls(registry: &Registry) -> Frame {
    let mut frame = Frame::default();
    let origin = |o: &Origin| match o {
        Origin::Published(paper) => paper.to_string(),
        Origin::Ours { .. } => "ours".to_owned(),
    };
    let variants = |d: &Definition| {
        d.variants.iter().map(|v| format!("{}+{}", d.name, v.name)).collect::<Vec<_>>().join(" ")
    };
    frame
        .text("control", registry.all().map(|d| d.name.to_string()))
        .text("about", registry.all().map(|d| d.about.to_string()))
        .text("origin", registry.all().map(|d| origin(&d.origin)))
        .text("variants", registry.all().map(|d| variants(d)));
    frame
}
