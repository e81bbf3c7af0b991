//! Requirements of a mechanism and capabilities of a host.

use core::fmt;

use fairmesh_units::Span;

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
    /// Sums and messages that suffice in place of every frame's events and header fields.
    pub delivery: Delivery,
}

/// Sums per period, and messages in place of header fields, as Linux routers have them.
///
/// The host derives them from samples and messages ([`crate::Mechanism::start`] installs the code), so [`Needs::events`]
/// and [`Needs::abilities`] name the sources.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Delivery {
    /// Period of [`crate::Event::SentSum`] and [`crate::Event::FlowSum`].
    ///
    /// Their sources are [`crate::EventKind::Stations`] and [`crate::EventKind::FlowLinks`]; `None` for no sums.
    pub sums: Option<Span>,
    /// Period of [`crate::EventKind::QueueSamples`], beside the mechanism's deadlines.
    pub queues: Option<Span>,
    /// Least time between messages that carry the fields of [`crate::Action::Annotate`].
    ///
    /// They arrive as [`crate::Event::Fields`], and use [`crate::Ability::Send`] and [`crate::EventKind::Messages`];
    /// `None` if packets carry the fields.
    pub messages: Option<Span>,
}

impl Delivery {
    /// True if every event and action passes unchanged.
    pub fn is_plain(&self) -> bool {
        *self == Delivery::default()
    }

    fn and(self, other: Delivery) -> Delivery {
        Delivery {
            sums: self.sums.or(other.sums),
            queues: self.queues.or(other.queues),
            messages: self.messages.or(other.messages),
        }
    }
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
            delivery: self.delivery.and(other.delivery),
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
