//! What a mechanism requires and what a host offers.

use core::fmt;

use crate::host::PointOffer;
use crate::{AbilitySet, EventSet, KnowledgeSet, Placement, PlacementSet, Site};

/// What one half of a mechanism requires of its host, and where that half runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Needs {
    /// Where it runs.
    pub at: PlacementSet,
    /// Events it must get.
    pub events: EventSet,
    /// What the host must be able to do.
    pub abilities: AbilitySet,
    /// What the host must know beforehand.
    pub knowledge: KnowledgeSet,
    /// Bytes that its header fields add to every packet, acknowledgements included.
    pub header_bytes: u32,
}

impl Needs {
    /// Whether it runs at a node of this kind.
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

    /// The needs of both halves where both run.
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

/// What a host delivers and can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offers {
    /// The host's name, for messages.
    pub host: &'static str,
    /// Events it delivers.
    pub events: EventSet,
    /// What it can do.
    pub abilities: AbilitySet,
    /// What it knows beforehand.
    pub knowledge: KnowledgeSet,
    /// What it builds of a plan.
    pub plans: &'static [PointOffer],
}

impl Offers {
    /// A host that has everything, and builds every plan.
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
    /// Events that would never come.
    pub events: EventSet,
    /// Actions that would have no effect.
    pub abilities: AbilitySet,
    /// Facts that are not known.
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
