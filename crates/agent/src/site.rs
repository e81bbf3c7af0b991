//! The gateway, as controls see it.

use fairmesh_control::{
    Ability, AbilitySet, EventKind, EventSet, Knowledge, KnowledgeSet, Offers, Site,
};

/// What the gateway is in the mesh.
pub const SITE: Site = Site { gateway: true, access_point: false, sources: false, hops: Some(0) };

/// What controls find here. What must be known beforehand comes from the configuration, which
/// refuses a control that needs more than it says.
pub const OFFERS: Offers = Offers {
    host: "the Linux gateway",
    events: EventSet::of(&[
        EventKind::Counters,
        EventKind::FlowCounters,
        EventKind::Flows,
        EventKind::Allocations,
    ]),
    abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
    knowledge: KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates, Knowledge::Hops]),
};
