//! `lbm`: marking by the load of the air instead of a queue's length (Triantafyllidou 2005).
//!
//! Every `t_avg` a node measures the utilisation ρ of the air it shares and marks ECN-capable packets with probability
//! `min{α (ρ − ρ₀), 1}` (§2.2). The measuring nodes:
//!
//! - at an access point all data in both directions crosses, so it measures and marks alone ([`access_point`], §3.1),
//!   and may move ρ₀ to hold a delay (`+adaptive`, §3.2);
//! - with `+multihop` every node measures the receive rates in its collision domain, which nodes exchange in the
//!   headers of their packets ([`domain`], §4.3).
//!
//! Packets that are not ECN-capable pass unmarked: without ECN at both ends of a flow LBM changes nothing for it.
//! docs/controls/lbm.md lists further decisions.

use fairmesh_units::Span;

use crate::options;
use crate::{
    Ability, AbilitySet, Definition, Delivery, EventKind, EventSet, Instance, Knowledge,
    KnowledgeSet, Marking, Needs, Origin, Placement, PlacementSet, Refusal, Setting, Value,
};

mod access_point;
mod curve;
mod domain;
mod measure;
mod target;
#[cfg(test)]
mod tests;

options! {
    /// Options of `lbm`.
    pub(crate) struct Options {
        variants {
            adaptive: Origin::published("Triantafyllidou 2005 §3.2"), "rho0 follows a target delay";
            pi: Origin::ours("Triantafyllidou 2005 §3.2"), "a PI controller of rho0: reaches the target within a round trip, at less cost";
            multihop: Origin::published("Triantafyllidou 2005 §4.3"), "every node marks by the receive rates of its collision domain";
            even: Origin::ours("Triantafyllidou 2005 §2.2"), "marks are spread evenly over packets instead of by chance";
            messages: Origin::ours("Triantafyllidou 2005 §4.3"), "+multihop: rates travel in one-hop messages instead of headers";
        }
        parameters {
            rho0: f64 = 0.2, 0.0..=1.0, "", "utilisation without marks";
            alpha: f64 = 1.0, 0.0..=100.0, "", "slope of the marking probability";
            /// Not shorter than any round trip through a wireless network with a queue: §2.2.1.
            t_avg: f64 = 0.5, 0.05..=60.0, "s", "averaging time; a few round trips";
            delay_min: f64 = 0.010, 0.0..=10.0, "s", "lower bound of the target delay";
            delay_max: f64 = 0.015, 0.0..=10.0, "s", "upper bound of the target delay";
            step: f64 = 0.01, 0.001..=0.5, "", "step of rho0";
            integral: f64 = 2.0, 0.0..=100.0, "1/s²", "+pi: fall of rho0 per second, per second of excess delay";
            proportional: f64 = 5.0, 0.0..=100.0, "1/s", "+pi: immediate fall of rho0, per second of excess delay";
            rho0_min: f64 = -0.2, -1.0..=1.0, "", "rho0 falls no lower";
            memory: f64 = 10.0, 1.0..=1000.0, "", "averaging times over which the delay is averaged";
            /// MAC header and FCS 28, LLC 8, RTS 20, CTS 14, ACK 14.
            overhead: f64 = 84.0, 0.0..=1000.0, "bytes", "bytes on the air per packet beyond its size";
            batch: Span = 0.1, 0.02..=10.0, "s", "+messages: time between messages";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "ECN marks by the load of the air, at the access point or at every node";
    Definition::new("lbm", about, Origin::published("Triantafyllidou 2005 §2-4"))
        .with_options(needs, build)
}

fn needs(options: &Options) -> Vec<Needs> {
    let mut events = EventSet::of(&[EventKind::Stations]);
    if options.adaptive || options.pi {
        events = events.or(EventSet::of(&[EventKind::QueueSamples]));
    }
    let knowledge = KnowledgeSet::of(&[Knowledge::LinkRates]);
    let (at, abilities, header_bytes);
    let mut delivery = Delivery::default();
    if options.multihop && options.messages {
        at = Placement::EveryNode;
        events = events.or(EventSet::of(&[EventKind::Messages]));
        abilities = AbilitySet::of(&[Ability::Mark, Ability::Send]);
        header_bytes = 0;
        delivery.messages = Some(options.batch);
    } else if options.multihop {
        at = Placement::EveryNode;
        let received = [EventKind::Received, EventKind::Overheard, EventKind::Messages];
        events = events.or(EventSet::of(&received));
        abilities = AbilitySet::of(&[Ability::Mark, Ability::Annotate, Ability::Send]);
        header_bytes = domain::HEADER_BYTES;
    } else {
        at = Placement::AccessPoints;
        abilities = AbilitySet::of(&[Ability::Mark]);
        header_bytes = 0;
    }
    vec![Needs {
        at: PlacementSet::of(&[at]),
        events,
        abilities,
        knowledge,
        header_bytes,
        delivery,
    }]
}

/// Returns the distribution of marks.
fn marking(options: &Options) -> Marking {
    Marking { even: options.even }
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if let Some(dead) = setting.neighbours.iter().find(|n| n.capacity.0 == 0 || n.rate.0 == 0) {
        return Err(Refusal::dead_link(dead.node));
    }
    // A collision domain has no queue of its own with a delay to hold (§4.5.3), and ρ₀ follows one rule.
    let o = options;
    let apart = [
        (
            o.multihop && o.adaptive,
            "the variants multihop and adaptive do not go together; take one of them",
        ),
        (o.multihop && o.pi, "the variants multihop and pi do not go together; take one of them"),
        (o.adaptive && o.pi, "the variants adaptive and pi do not go together; take one of them"),
    ];
    if let Some((_, sentence)) = apart.into_iter().find(|a| a.0) {
        return Err(Refusal::new("lbm.together", sentence, &[]));
    }
    let (least, most) = (options.delay_min, options.delay_max);
    if (options.adaptive || options.pi) && least > most {
        return Err(Refusal::new(
            "lbm.delays",
            "delay_min must not be above delay_max, {} s is above {} s",
            &[Value::Number(least), Value::Number(most)],
        ));
    }
    Ok(if options.multihop {
        domain::build(options, setting)
    } else {
        access_point::build(options, setting)
    })
}
