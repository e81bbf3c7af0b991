//! The controls that are compared: those of the registry, with where they must be deployed.

use std::sync::Arc;

use fairmesh_control::{
    Definition, EventKind, Knowledge, Mechanism, Placement, PlacementSet, Registry,
};
use serde::{Deserialize, Serialize};

use super::declare::Declaration;

/// Who has to run code for a control to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// Nobody.
    Nowhere,
    /// One box: the gateway, or the access point.
    Gateway,
    /// The gateway and the nodes one hop from it, or these alone.
    Neighbours,
    /// Those who send, and perhaps the gateway.
    Sources,
    /// Every node.
    Everywhere,
}

impl Deployment {
    /// Every one, from least to most.
    pub const ALL: [Deployment; 5] = [
        Deployment::Nowhere,
        Deployment::Gateway,
        Deployment::Neighbours,
        Deployment::Sources,
        Deployment::Everywhere,
    ];

    /// As the legend calls it.
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

/// A control that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name, with variant.
    pub name: String,
    /// One line.
    pub about: String,
    /// Who has to run it.
    pub deployment: Deployment,
    /// The same in words, exactly.
    pub at: String,
    /// Whether it is told the analytic fair rates, which nobody can measure.
    pub told: bool,
}

impl Arm {
    /// The control of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        let mechanism = Registry::standard().lookup(name).map_err(|e| e.to_string())?;
        Ok(Arm::of(&mechanism, &mechanism.definition().about))
    }

    fn of(mechanism: &Mechanism, about: &str) -> Self {
        let needs = mechanism.all_needs();
        let at = needs.iter().fold(PlacementSet::NONE, |all, n| all.or(n.at));
        let told = needs
            .iter()
            .any(|n| n.events.has(EventKind::Allocations) || n.knowledge.has(Knowledge::FairRates));
        let words = if at.has(Placement::EveryNode) {
            Placement::EveryNode.name().to_owned()
        } else if at.is_empty() {
            "nowhere".to_owned()
        } else {
            at.to_string()
        };
        Arm {
            name: mechanism.to_string(),
            about: about.to_owned(),
            deployment: Deployment::of(at),
            at: words,
            told,
        }
    }
}

/// Every mechanism of the registry and each of its variants alone, but for those left out.
pub fn arms(declaration: &Declaration) -> Vec<Arm> {
    let registry = Registry::standard();
    let left: Vec<String> = declaration
        .leave_out
        .iter()
        .filter(|l| l.on.is_empty())
        .flat_map(|l| &l.controls)
        .filter_map(|c| registry.lookup(c).ok().map(|m| m.to_string()))
        .collect();
    let mut arms: Vec<Arm> = registry.all().flat_map(|d| of_definition(d, &registry)).collect();
    arms.retain(|a| !left.contains(&a.name));
    arms
}

fn of_definition(definition: &Arc<Definition>, registry: &Registry) -> Vec<Arm> {
    let plain = Arm::of(&Mechanism::of(Arc::clone(definition)), &definition.about);
    let variants = definition.variants.iter().filter_map(|v| {
        let mechanism = registry.lookup(&format!("{}+{}", definition.name, v.name)).ok()?;
        Some(Arm::of(&mechanism, &v.about))
    });
    std::iter::once(plain).chain(variants).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Arm {
        Arm::of(&Registry::standard().lookup(name).unwrap(), "")
    }

    #[test]
    fn deployments_follow_from_needs() {
        for (name, deployment, told) in [
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
            let arm = of(name);
            assert_eq!((arm.deployment, arm.told), (deployment, told), "{name}");
        }
    }

    #[test]
    fn what_is_not_left_out_appears_by_itself() {
        let entries = Registry::standard().all().map(|d| 1 + d.variants.len()).sum::<usize>();
        let declaration = |left: &str| {
            let text = format!(
                "seeds = 1\nquick = {{ seeds = 1, topologies = [], duration = \"1 s\" }}\ntopology = []\n{left}"
            );
            toml::from_str::<Declaration>(&text).unwrap()
        };
        assert_eq!(arms(&declaration("")).len(), entries);
        let less = arms(&declaration("[[leave_out]]\ncontrols = [\"fq\"]\nbecause = \"so\""));
        assert_eq!(less.len(), entries - 1);
        assert!(less.iter().all(|a| a.name != "fq"));
    }
}
