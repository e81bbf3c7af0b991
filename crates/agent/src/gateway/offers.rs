//! Capabilities of the gateway for controls.

use fairmesh_control::host::{ClassKind, ClassOffer, LeafKind, LimitKind, PointOffer};
use fairmesh_control::{
    Ability, AbilitySet, EventKind, EventSet, Knowledge, KnowledgeSet, Offers, Point, Site,
};
use fairmesh_units::Bytes;

/// Site of the gateway in the mesh.
pub const SITE: Site = Site::new().with_gateway(true).with_hops(Some(0));

/// Capabilities of a gateway alone.
///
/// Required knowledge comes from the configuration, which refuses a control that needs more than it
/// has.
pub const OFFERS: Offers = Offers {
    host: "the Linux gateway",
    events: EventSet::of(&[
        EventKind::Counters,
        EventKind::FlowCounters,
        EventKind::PathSigns,
        EventKind::Probes,
        EventKind::Flows,
        EventKind::Allocations,
    ]),
    abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
    knowledge: KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates, Knowledge::Hops]),
    plans: &[PointOffer { point: Point::Transit, classes: &[ALL_SUBSCRIBERS, SUBSCRIBER] }],
};

/// Capabilities of a gateway with other gateways.
pub const OFFERS_WITH_PEERS: Offers = Offers {
    events: OFFERS.events.or(EventSet::of(&[EventKind::Messages])),
    abilities: OFFERS.abilities.or(AbilitySet::of(&[Ability::Peers])),
    ..OFFERS
};

/// Returns the capabilities of a gateway.
///
/// `peers`: it has other gateways; `agents`: routers take its orders.
pub const fn offers(peers: bool, agents: bool) -> Offers {
    let offers = if peers { OFFERS_WITH_PEERS } else { OFFERS };
    if agents {
        let abilities = offers.abilities.or(AbilitySet::of(&[Ability::Route]));
        return Offers { abilities, ..offers };
    }
    offers
}

/// A class per subscriber and direction, which is the control's flow.
const SUBSCRIBER: ClassOffer = ClassOffer {
    kind: ClassKind::Flow,
    limits: &[LimitKind::None, LimitKind::Rate],
    leaves: &[LeafKind::DropTail],
    packets: (2, 10_000),
    burst: (Bytes(1), Bytes(16_000_000)),
    alike: true,
};

/// An inner class that serves the subscribers' classes in turn.
///
/// One shared queue would make it impossible to count subscribers.
const ALL_SUBSCRIBERS: ClassOffer =
    ClassOffer { kind: ClassKind::All, leaves: &[LeafKind::Fair], ..SUBSCRIBER };
