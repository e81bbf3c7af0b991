//! Arms for the controls of the registry, and the facts of a control on pages.

use std::sync::Arc;

use fairmesh_control::{
    Definition, EventKind, Knowledge, Mechanism, Placement, PlacementSet, Registry,
};

use super::declare::{Arm, Experiment, LeaveOut};

/// Nodes that must run code for a control to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deployment {
    /// No node.
    Nowhere,
    /// The gateway, or the access point.
    Gateway,
    /// The gateway and the nodes one hop from it, or these alone.
    Neighbours,
    /// Senders, and perhaps the gateway.
    Sources,
    /// Every node.
    Everywhere,
}

impl Deployment {
    /// All places, from the fewest nodes to the most.
    pub const ALL: [Deployment; 5] = [
        Deployment::Nowhere,
        Deployment::Gateway,
        Deployment::Neighbours,
        Deployment::Sources,
        Deployment::Everywhere,
    ];

    /// Returns its name in a legend.
    pub fn words(self) -> &'static str {
        match self {
            Deployment::Nowhere => "nowhere",
            Deployment::Gateway => "gateway or access point only",
            Deployment::Neighbours => "the gateway's neighbours",
            Deployment::Sources => "sources",
            Deployment::Everywhere => "every node",
        }
    }

    fn of(at: PlacementSet) -> Self {
        if at.is_empty() {
            Deployment::Nowhere
        } else if at.has(Placement::EveryNode) {
            Deployment::Everywhere
        } else if at.has(Placement::Sources) {
            Deployment::Sources
        } else if at.has(Placement::GatewayNeighbours) {
            Deployment::Neighbours
        } else {
            Deployment::Gateway
        }
    }
}

/// Facts of a control.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Nodes that must run it.
    pub deployment: Deployment,
    /// Exact description of the place.
    pub at: String,
    /// True if it receives the analytic fair rates, which no router can measure.
    pub knows_fair_rates: bool,
}

impl Facts {
    /// Returns the facts of the control of this name; `None` if there is none.
    pub fn of(control: &str, registry: &Registry) -> Option<Self> {
        let needs = registry.lookup(control).ok()?.all_needs();
        let at = needs.iter().fold(PlacementSet::NONE, |all, n| all.or(n.at));
        let knows_fair_rates = needs
            .iter()
            .any(|n| n.events.has(EventKind::Allocations) || n.knowledge.has(Knowledge::FairRates));
        let words = if at.has(Placement::EveryNode) {
            Placement::EveryNode.name().to_owned()
        } else if at.is_empty() {
            "nowhere".to_owned()
        } else {
            at.to_string()
        };
        Some(Facts { deployment: Deployment::of(at), at: words, knows_fair_rates })
    }
}

/// Returns true if a control, as written in a declaration, has this name.
fn is(written: &str, name: &str, registry: &Registry) -> bool {
    registry.lookup(written).is_ok_and(|m| m.to_string() == name)
}

impl Experiment {
    /// Adds the arms of the registry's controls and gives all arms the settings of their presets.
    pub(super) fn expand(&mut self, registry: &Registry) {
        if let Some(controls) = &self.registry {
            let everywhere = controls.leave_out.iter().filter(|l| l.on.is_empty());
            let left: Vec<String> = everywhere
                .flat_map(|l| &l.controls)
                .filter_map(|c| registry.lookup(c).ok().map(|m| m.to_string()))
                .collect();
            let names = registry.all().flat_map(|d| names(d, registry));
            self.arms.extend(names.filter(|n| !left.contains(n)).map(|n| Arm::of_control(&n)));
        }
        for arm in &mut self.arms {
            let presets = arm.with.iter().filter_map(|name| self.presets.get(name));
            let mut set: toml::Table =
                presets.flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
            set.extend(core::mem::take(&mut arm.set));
            arm.set = set;
        }
    }

    /// Returns the reason why an arm is not run on a topology.
    pub(super) fn left_out(&self, arm: &Arm, topology: &str, registry: &Registry) -> Option<&str> {
        let control = arm.control.as_deref()?;
        let left = |l: &&LeaveOut| {
            l.on.iter().any(|t| t == topology)
                && l.controls.iter().any(|c| is(c, control, registry))
        };
        let found = self.registry.iter().flat_map(|r| &r.leave_out).find(left);
        found.map(|l| l.because.as_str())
    }
}

/// Returns the names of a mechanism and of each of its variants alone.
fn names(definition: &Arc<Definition>, registry: &Registry) -> Vec<String> {
    let variant = |name: &str| {
        registry.lookup(&format!("{}+{name}", definition.name)).ok().map(|m| m.to_string())
    };
    let variants = definition.variants.iter().filter_map(|v| variant(&v.name));
    std::iter::once(Mechanism::of(Arc::clone(definition)).to_string()).chain(variants).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_follow_from_needs() {
        for (name, deployment, knows_fair_rates) in [
            ("fifo", Deployment::Nowhere, false),
            ("pfrc", Deployment::Gateway, false),
            ("static-flow", Deployment::Gateway, true),
            ("lbm", Deployment::Gateway, false),
            ("gap", Deployment::Neighbours, true),
            ("source", Deployment::Sources, true),
            ("tcp-ap", Deployment::Sources, false),
            ("cna", Deployment::Everywhere, false),
            ("lbm+multihop", Deployment::Everywhere, false),
        ] {
            let facts = Facts::of(name, &Registry::standard()).unwrap();
            assert_eq!(
                (facts.deployment, facts.knows_fair_rates),
                (deployment, knows_fair_rates),
                "{name}"
            );
        }
        assert_eq!(Facts::of("telepathy", &Registry::standard()), None);
    }

    fn experiment(more: &str) -> Experiment {
        let mut experiment: Experiment = toml::from_str(&format!(
            "title = \"t\"\npaper = \"p\"\nplace = \"\"\nabout = \"\"\nquick = {{ seeds = 1 }}\n\
             full = {{ seeds = 1 }}\nlayout = {{ rows = [\"arm\"], columns = [\"measure\"] }}\n{more}"
        ))
        .unwrap();
        experiment.expand(&Registry::standard());
        experiment
    }

    #[test]
    fn a_control_that_is_not_left_out_becomes_an_arm() {
        let all = Registry::standard().all().map(|d| 1 + d.variants.len()).sum::<usize>();
        assert_eq!(experiment("[registry]\n").arms.len(), all);
        let less = experiment(
            "[registry]\nleave-out = [{ controls = [\"fq\"], because = \"a\" }, { controls = [\"red\"], because = \"b\", on = [\"x\"] }]\n",
        );
        assert!(less.arms.len() == all - 1 && less.arms.iter().all(|a| a.label != "fq"));
        let red = less.arms.iter().find(|a| a.label == "red").unwrap();
        assert_eq!(
            (
                less.left_out(red, "x", &Registry::standard()),
                less.left_out(red, "y", &Registry::standard())
            ),
            (Some("b"), None)
        );
    }

    #[test]
    fn arms_have_the_settings_of_their_presets_under_their_own() {
        let e = experiment(
            "[preset.a]\n\"radio.mcs\" = 4\nduration = \"1 s\"\n\
             [preset.b]\nduration = \"2 s\"\n\
             [[arm]]\nlabel = \"x\"\nwith = [\"a\", \"b\"]\nset = { \"radio.mcs\" = 0 }\n",
        );
        let set = &e.arms[0].set;
        assert_eq!(
            (set["radio.mcs"].as_integer(), set["duration"].as_str()),
            (Some(0), Some("2 s"))
        );
    }
}
