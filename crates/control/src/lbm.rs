//! `lbm`: marking by the load of the air instead of the length of a queue (Triantafyllidou 2005).
//!
//! Every `t_avg` a node takes the utilisation ρ of the air it shares and marks ECN-capable packets
//! with probability `min{α (ρ − ρ₀), 1}` (§2.2). Who measures what:
//!
//! - at an access point all data in both directions crosses, so it measures and marks alone
//!   ([`access_point`], §3.1), and may move ρ₀ to hold a delay (`+adaptive`, §3.2);
//! - with `+multihop` every node does, over the receive rates in its collision domain, which nodes
//!   tell one another in the headers of their packets ([`domain`], §4.3).
//!
//! Packets that are not ECN-capable pass unmarked: without ECN at both ends of a flow LBM changes
//! nothing for it. docs/controls/lbm.md says what else is decided here.

use crate::mechanism::knob;
use crate::{
    Ability, AbilitySet, Entry, EventKind, EventSet, Instance, Knowledge, KnowledgeSet, Marking,
    Needs, Options, Placement, PlacementSet, Refused, Runs, Setting, Variant,
};

mod access_point;
mod curve;
mod domain;
mod measure;
mod target;
#[cfg(test)]
mod tests;

pub(crate) static ENTRY: Entry = Entry {
    name: "lbm",
    about: "ECN marks by the load of the air, at the access point or at every node",
    paper: "Triantafyllidou 2005 §2-4",
    variants: &[
        Variant { name: "adaptive", about: "rho0 follows a target delay (§3.2)" },
        Variant { name: "pi", about: "ours: the same within a round trip, at less cost" },
        Variant { name: "multihop", about: "every node, by its collision domain's receive rates" },
        Variant { name: "random", about: "each packet is marked by a chance of its own" },
        Variant { name: "airtime", about: "load is the busy time of the channel" },
        Variant { name: "packets", about: "load is packets per second" },
        Variant { name: "delay", about: "load is the delay to access the channel" },
        Variant { name: "convex", about: "the marking curve is a square" },
        Variant { name: "ect1", about: "marks packets with ECT(1) too" },
        Variant { name: "concave", about: "the marking curve is a square root" },
    ],
    knobs: &[
        knob("rho0", "utilisation without marks", 0.2, 0.0, 1.0),
        knob("alpha", "slope of the marking probability", 1.0, 0.0, 100.0),
        // Shorter than any round trip through a wireless network with a queue: §2.2.1.
        knob("t_avg", "averaging time, seconds; a few round trips", 0.5, 0.05, 60.0),
        knob("delay_min", "smallest delay wanted, seconds", 0.010, 0.0, 10.0),
        knob("delay_max", "largest delay wanted, seconds", 0.015, 0.0, 10.0),
        knob("step", "step of rho0", 0.01, 0.001, 0.5),
        knob(
            "integral",
            "+pi: fall of rho0 in a second, per second of delay too much",
            2.0,
            0.0,
            100.0,
        ),
        knob(
            "proportional",
            "+pi: fall of rho0 at once, per second of delay too much",
            5.0,
            0.0,
            100.0,
        ),
        knob("rho0_min", "rho0 falls no lower", -0.2, -1.0, 1.0),
        knob("memory", "averaging times over which the delay is averaged", 10.0, 1.0, 1000.0),
        // MAC header and FCS 28, LLC 8, RTS 20, CTS 14, ACK 14.
        knob("overhead", "bytes on the air per packet beyond its own", 84.0, 0.0, 1000.0),
    ],
    runs: Runs::At { needs, build },
};

fn needs(options: &Options) -> Vec<Needs> {
    let mut events = EventSet::of(&[EventKind::Stations]);
    if options.has("airtime") {
        events = events.or(EventSet::of(&[EventKind::Channel]));
    }
    if ["delay", "adaptive", "pi"].iter().any(|v| options.has(v)) {
        events = events.or(EventSet::of(&[EventKind::QueueSamples]));
    }
    let knowledge = KnowledgeSet::of(&[Knowledge::LinkRates]);
    let (at, abilities, header_bytes);
    if options.has("multihop") {
        at = Placement::EveryNode;
        // Measures that a node takes by itself need no reports.
        let reports = measure::Kind::of(options).is_reported();
        let own = AbilitySet::of(&[Ability::Mark]);
        if reports {
            let heard = [EventKind::Received, EventKind::Overheard, EventKind::Messages];
            events = events.or(EventSet::of(&heard));
            abilities = own.or(AbilitySet::of(&[Ability::Annotate, Ability::Send]));
            header_bytes = domain::HEADER_BYTES;
        } else {
            (abilities, header_bytes) = (own, 0);
        }
    } else {
        at = Placement::AccessPoints;
        abilities = AbilitySet::of(&[Ability::Mark]);
        header_bytes = 0;
    }
    vec![Needs { at: PlacementSet::of(&[at]), events, abilities, knowledge, header_bytes }]
}

/// How marks fall.
fn marking(options: &Options) -> Marking {
    Marking { ect1: options.has("ect1"), even: !options.has("random") }
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refused> {
    if let Some(dead) = setting.neighbours.iter().find(|n| n.capacity.0 == 0 || n.rate.0 == 0) {
        return Err(Refused::DeadLink { node: dead.node });
    }
    // A collision domain has no queue of its own whose delay could be held (§4.5.3), both shapes at
    // once are none, and so are two rules for one ρ₀.
    let apart = [
        ("multihop", "adaptive"),
        ("multihop", "pi"),
        ("adaptive", "pi"),
        ("convex", "concave"),
        ("airtime", "delay"),
        ("airtime", "packets"),
        ("delay", "packets"),
    ];
    if let Some(&(one, other)) = apart.iter().find(|(a, b)| options.has(a) && options.has(b)) {
        return Err(Refused::Together { one, other });
    }
    let (least, most) = (options.get("delay_min"), options.get("delay_max"));
    if (options.has("adaptive") || options.has("pi")) && least > most {
        return Err(Refused::Delays { least, most });
    }
    Ok(if options.has("multihop") {
        domain::build(options, setting)
    } else {
        access_point::build(options, setting)
    })
}
