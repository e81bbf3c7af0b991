//! Settings of a search, and its progress.

use fairmesh_scenario::{NodeKind, Scenario, Subscriber};
use fairmesh_units::NodeId;
use serde::{Deserialize, Serialize};

use super::error::{GroupProblem, OptimumError};

/// Flows that have one share together, such as those of a subscriber.
///
/// The rate of a group is the sum of the rates of its flows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Indices of the scenario's flows.
    pub flows: Vec<usize>,
    /// Share of the group relative to other groups; positive.
    pub weight: f64,
}

impl Group {
    /// Returns every flow of a scenario as a group, with its own weight.
    pub fn each(scenario: &Scenario) -> Vec<Group> {
        let flows = scenario.flows().iter().enumerate();
        flows.map(|(i, f)| Group { flows: vec![i], weight: f.weight }).collect()
    }

    /// Returns every subscriber of a scenario as a group.
    ///
    /// A subscriber is the flows, in both directions, of one node other than the gateway. It has
    /// the weight of the first of them, as in the gateway's daemon. A flow is a separate group if
    /// neither of its ends is the gateway or lies behind the gateway on a wire. All flows are
    /// separate groups if there is no gateway. If the scenario defines its subscribers, those are
    /// the groups, and all other flows are separate.
    /// groups, and all other flows are separate.
    pub fn per_subscriber(scenario: &Scenario) -> Vec<Group> {
        let subscribers = &scenario.subscribers().list;
        if !subscribers.is_empty() {
            let group = |s: &Subscriber| Group { flows: s.flows().collect(), weight: s.weight };
            let mut groups: Vec<Group> = subscribers.iter().map(group).collect();
            let mut alone = vec![true; scenario.flows().len()];
            subscribers.iter().flat_map(Subscriber::flows).for_each(|f| alone[f] = false);
            groups
                .extend(Group::each(scenario).into_iter().zip(alone).filter(|g| g.1).map(|g| g.0));
            return groups;
        }
        let outside = |n: NodeId| {
            scenario.gateways().has(n) || scenario.nodes()[n.index()].kind != NodeKind::Wireless
        };
        let mut groups: Vec<(Option<NodeId>, Group)> = Vec::new();
        for (i, flow) in scenario.flows().iter().enumerate() {
            let home = match (outside(flow.from), outside(flow.to)) {
                (false, true) => Some(flow.from),
                (true, false) => Some(flow.to),
                _ => None,
            };
            match groups.iter_mut().find(|(of, _)| home.is_some() && *of == home) {
                Some((_, group)) => group.flows.push(i),
                None => groups.push((home, Group { flows: vec![i], weight: flow.weight })),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

/// Unit of sharing in an optimum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharingUnit {
    /// Every flow separately.
    #[default]
    Flow,
    /// All flows of a subscriber together.
    Subscriber,
}

impl SharingUnit {
    /// Returns the default of a scenario: its subscribers, or each flow if it has none.
    pub fn usual(scenario: &Scenario) -> Self {
        if scenario.subscribers().list.is_empty() {
            SharingUnit::Flow
        } else {
            SharingUnit::Subscriber
        }
    }

    /// Returns the groups of a scenario.
    pub fn groups(self, scenario: &Scenario) -> Vec<Group> {
        match self {
            SharingUnit::Flow => Group::each(scenario),
            SharingUnit::Subscriber => Group::per_subscriber(scenario),
        }
    }
}

/// Settings of a search's measurements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Seeds of the search; at least two.
    pub search: Vec<u64>,
    /// Seeds with which the result is measured; none of the search's.
    pub check: Vec<u64>,
    /// Fraction of its target that a flow may miss, over the seeds.
    pub tolerance: f64,
    /// Minimum and maximum measured time of a run in the search, in s.
    pub times_s: (f64, f64),
    /// Maximum number of simulation events before a search ends early.
    ///
    /// See [`Stop::Effort`](super::Stop::Effort). It is a count instead of a time, so that the
    /// result does not depend on the machine.
    pub most_events: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            search: (1_000_001..=1_000_004).collect(),
            check: (2_000_001..=2_000_010).collect(),
            tolerance: 0.02,
            times_s: (15.0, 240.0),
            most_events: 2_000_000_000,
        }
    }
}

/// Progress of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Number of simulations completed.
    pub runs: u64,
    /// Number of their events.
    pub events: u64,
    /// Number of events after which the search ends early, and measures its result.
    pub most_events: u64,
}

/// Rejects invalid groups and settings.
pub(super) fn check(
    scenario: &Scenario,
    groups: &[Group],
    settings: &Settings,
) -> Result<(), OptimumError> {
    let mut owner = vec![None; scenario.flows().len()];
    for (group, g) in groups.iter().enumerate() {
        let refuse = |problem| Err(OptimumError::Group { group, problem });
        if !(g.weight > 0.0 && g.weight.is_finite()) {
            return refuse(GroupProblem::Weight(g.weight));
        }
        for &flow in &g.flows {
            let count = owner.len();
            let Some(owner) = owner.get_mut(flow) else {
                return refuse(GroupProblem::NoFlow { flow, count });
            };
            if let Some(first) = owner.replace(group) {
                let flow = scenario.flows()[flow].name.clone();
                return refuse(GroupProblem::Shared { flow, first });
            }
        }
    }
    if let Some(alone) = owner.iter().position(Option::is_none) {
        return Err(OptimumError::Alone(scenario.flows()[alone].name.clone()));
    }
    if settings.search.len() < 2 {
        return Err(OptimumError::SearchSeeds { found: settings.search.len() });
    }
    if settings.check.is_empty() {
        return Err(OptimumError::NoCheckSeeds);
    }
    if let Some(&seed) = settings.check.iter().find(|s| settings.search.contains(s)) {
        return Err(OptimumError::SharedSeed { seed });
    }
    let tolerance = settings.tolerance;
    if !(tolerance > 0.0 && tolerance < 0.5) {
        return Err(OptimumError::Tolerance(tolerance));
    }
    let (least, most) = settings.times_s;
    if !(least >= 1.0 && most >= least && most <= 1e5) {
        return Err(OptimumError::Times { least, most });
    }
    Ok(())
}
