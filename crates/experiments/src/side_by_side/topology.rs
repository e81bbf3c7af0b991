//! What controls are compared on.

use fairmesh_scenario::Scenario;
use serde::{Deserialize, Serialize};

/// Kinds of topologies: what a control can do depends on whether there is a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Topologies of the papers whose flows begin or end at a gateway.
    Gateway,
    /// Topologies of the papers without a gateway.
    NoGateway,
    /// Real maps, with a gateway.
    Maps,
}

impl Group {
    /// Every one.
    pub const ALL: [Group; 3] = [Group::Gateway, Group::NoGateway, Group::Maps];

    /// Of a scenario of a paper.
    pub fn of(scenario: &Scenario) -> Self {
        if scenario.gateways().is_empty() { Group::NoGateway } else { Group::Gateway }
    }

    /// As headings call it.
    pub fn words(self) -> &'static str {
        match self {
            Group::Gateway => "With a gateway",
            Group::NoGateway => "Without a gateway",
            Group::Maps => "Real maps",
        }
    }
}

/// A topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyInfo {
    /// Its name.
    pub label: String,
    /// Short name of the paper.
    pub paper: String,
    /// What kind it is.
    pub group: Group,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of flows.
    pub flows: usize,
    /// Simulated time, s.
    pub duration_s: f64,
    /// Start of the measured interval, s.
    pub warmup_s: f64,
    /// Whether it was run; a map that was not given is not.
    pub ran: bool,
}
