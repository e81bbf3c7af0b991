//! Requirements of a mechanism and capabilities of a host.

use core::fmt;

use crate::host::PointOffer;
use crate::{AbilitySet, EventSet, KnowledgeSet, Placement, PlacementSet, Site};

/// Requirements of one half of a mechanism, and the nodes at which that half runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Needs {
    /// Kinds of nodes at which it runs.
    pub at: PlacementSet,
    /// Events that it requires.
    pub events: EventSet,
    /// Abilities that it requires of the host.
    pub abilities: AbilitySet,
    /// Facts that the host must know at the start.
    pub knowledge: KnowledgeSet,
    /// Bytes that its header fields add to every packet, acknowledgements included.
    pub header_bytes: u32,
}

impl Needs {
    /// True if it runs at a node of this kind.
    pub fn runs_at(&self, site: &Site) -> bool {
        self.at.iter().any(|place| match place {
            Placement::EveryNode => true,
            Placement::Gateway => site.gateway,
            Placement::GatewayNeighbours => site.hops == Some(1),
            Placement::Sources => site.sources,
            Placement::AccessPoints => site.access_point,
            Placement::Agents => site.agent,
        })
    }

    /// Combines the needs of both halves, for nodes at which both run.
    pub(crate) fn and(self, other: Needs) -> Needs {
        Needs {
            at: self.at.or(other.at),
            events: self.events.or(other.events),
            abilities: self.abilities.or(other.abilities),
            knowledge: self.knowledge.or(other.knowledge),
            header_bytes: self.header_bytes.max(other.header_bytes),
        }
    }
}

/// Capabilities of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offers {
    /// The host's name, for messages.
    pub host: &'static str,
    /// Events it delivers.
    pub events: EventSet,
    /// Abilities of the host.
    pub abilities: AbilitySet,
    /// Facts that it knows at the start.
    pub knowledge: KnowledgeSet,
    /// Parts of a plan that it builds.
    pub plans: &'static [PointOffer],
}

impl Offers {
    /// A host that has every capability and builds every plan.
    pub const fn everything(host: &'static str) -> Self {
        Offers {
            host,
            events: EventSet::ALL,
            abilities: AbilitySet::ALL,
            knowledge: KnowledgeSet::ALL,
            plans: PointOffer::EVERY,
        }
    }
}

/// Everything that a mechanism needs and the host lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The mechanism, variants included.
    pub mechanism: String,
    /// The host.
    pub host: &'static str,
    /// Events that the host does not deliver.
    pub events: EventSet,
    /// Actions that the host cannot carry out.
    pub abilities: AbilitySet,
    /// Facts that the host does not know.
    pub knowledge: KnowledgeSet,
}

impl Missing {
    pub(crate) fn check(mechanism: &str, needs: &Needs, offers: &Offers) -> Result<(), Missing> {
        let missing = Missing {
            mechanism: mechanism.to_owned(),
            host: offers.host,
            events: needs.events.without(offers.events),
            abilities: needs.abilities.without(offers.abilities),
            knowledge: needs.knowledge.without(offers.knowledge),
        };
        let nothing = missing.events.is_empty()
            && missing.abilities.is_empty()
            && missing.knowledge.is_empty();
        if nothing { Ok(()) } else { Err(missing) }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot run on {}:", self.mechanism, self.host)?;
        let mut sep = "";
        if !self.events.is_empty() {
            write!(f, " not delivered: {}", self.events)?;
            sep = ";";
        }
        if !self.abilities.is_empty() {
            write!(f, "{sep} not possible: {}", self.abilities)?;
            sep = ";";
        }
        if !self.knowledge.is_empty() {
            write!(f, "{sep} not known: {}", self.knowledge)?;
        }
        Ok(())
    }
}
impl core::error::Error for Missing {}
