//! `gap`: gateway airtime partitioning (Mancuso 2010 §IV, Algorithm 1).
//!
//! The gateway's neighbours limit their own traffic, never the forwarded one. Their input is one bit: it is
//! set if more than (1 − γ) U* of the gateway's time is used. The other nodes never report their demand; they
//! signal it by use of the fraction γ U*.
//!
//! - the gateway's half (`gateway`) measures its utilisation, by its survey and by its traffic, and
//!   reports it;
//! - each neighbour's half (`node`) runs Algorithm 1 at every report.
//!
//! Transport of the bit: a small broadcast every `period`, like an element of a beacon; with `+ack`
//! a spare code of the gateway's MAC acknowledgements, so that only nodes that send to it receive
//! the bit, at no cost; with `+overhear` none, since each neighbour estimates it from its own
//! survey and the gateway's traffic that it overhears (`overhear`).
//!
//! docs/controls/gap.md lists the decisions that the paper leaves open.

use fairmesh_units::{BitRate, FlowId};

use crate::options;
use crate::{
    Ability, AbilitySet, Definition, Delivery, EventKind, EventSet, FlowHere, Instance, Knowledge,
    KnowledgeSet, Mechanism, Needs, Neighbour, OptionSet, Origin, Placement, PlacementSet, Refusal,
    Setting, Value,
};

mod gateway;
mod node;
mod overhear;
#[cfg(test)]
mod tests;

options! {
    /// Options of `gap`.
    pub(crate) struct Options {
        variants {
            aggregate: Origin::published("Mancuso 2010 §VI.E"), "a guarantee for all neighbours together, in addition to those of each";
            ack: Origin::published("Mancuso 2010 §IV.A"), "the bit travels in the gateway's MAC acknowledgements";
            overhear: Origin::ours("Mancuso 2010 §IV.A"), "each neighbour estimates the bit from its survey and overheard packets";
        }
        parameters {
            gamma: f64 = 0.1, 0.01..=0.9, "", "part of the gateway's capacity kept for signalling";
            alpha: f64 = 0.01, 1e-4..=0.5, "", "increase per update, part of U*";
            beta: f64 = 0.9, 0.1..=0.99, "", "factor of a decrease";
            period: f64 = 0.1, 0.005..=10.0, "s", "time between updates";
            weight: f64 = 0.25, 0.01..=1.0, "", "weight of a new sample in the averages";
            efficiency: f64 = TCP_EFFICIENCY, 0.1..=1.0, "", "part of the analytic capacity that the mesh reaches";
            saturation: f64 = 0.9, 0.1..=1.0, "", "busy part of a saturated gateway's time";
            guarantee: f64 = 0.0, 0.0..=1e6, "kbit/s", "IP rate guaranteed to each neighbour; 0: its fair rate";
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "buffer of local traffic";
            noise: f64 = 0.0, 0.0..=0.9, "", "largest relative error added to each estimate";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about =
        "the gateway's neighbours limit themselves by one bit: the utilisation of the gateway";
    Definition::new("gap", about, Origin::published("Mancuso 2010 §IV")).with_options(needs, build)
}

/// Parameters of Algorithm 1, for models of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Numbers {
    /// γ: fraction of the gateway's capacity kept for signalling.
    pub gamma: f64,
    /// α: increase per update, as a fraction of U*.
    pub alpha: f64,
    /// β: factor of a decrease.
    pub beta: f64,
    /// Time between updates, in s.
    pub period: f64,
    /// Fraction of the analytic capacity that the mesh reaches.
    pub efficiency: f64,
}

impl Numbers {
    /// Returns a mechanism's parameters if it is GAP, with any variants; else the defaults.
    pub fn of(mechanism: &Mechanism) -> Self {
        let gap = Mechanism::of(definition()).with_numbers_of(mechanism);
        let Options { gamma, alpha, beta, period, efficiency, .. } = Options::of(gap.chosen());
        Numbers { gamma, alpha, beta, period, efficiency }
    }
}

/// Fraction of a collision-free model's rate that TCP reaches with hidden terminals.
///
/// It is for a tree of two hops. Guarantees come from "analytical models … refined by measurements" (§IV.A).
pub(crate) const TCP_EFFICIENCY: f64 = 0.8;

/// Minimum fraction of a link's nominal capacity that TCP carries.
///
/// It is for segments of 1000 bytes with an acknowledgement each at 11 Mbit/s. Allocations to
/// flows with little demand give less than the capacity; this is the capacity in any case.
pub(crate) const TCP_PART: f64 = 0.55;

/// Number of samples of the survey per update.
const SURVEY_SAMPLES: u32 = 4;
/// Number of updates without a bit after which a neighbour returns to its guarantee.
const RESET_UPDATES: u64 = 10;

fn needs(options: &Options) -> Vec<Needs> {
    let (ack, overhear) = (options.ack, options.overhear);
    let mut node = Needs {
        at: PlacementSet::of(&[Placement::GatewayNeighbours]),
        events: EventSet::of(&[EventKind::Counters, EventKind::Allocations]),
        abilities: AbilitySet::of(&[Ability::LimitLocal]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates]),
        header_bytes: 0,
        delivery: Delivery::default(),
    };
    node.events = node.events.or(match (overhear, ack) {
        (true, _) => EventSet::of(&[
            EventKind::Channel,
            EventKind::Sent,
            EventKind::Received,
            EventKind::Overheard,
        ]),
        (false, true) => EventSet::of(&[EventKind::Sent]),
        (false, false) => EventSet::of(&[EventKind::Messages]),
    });
    if overhear {
        node.knowledge = node.knowledge.or(KnowledgeSet::of(&[Knowledge::Hops]));
    }
    let gateway = Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[
            EventKind::Channel,
            EventKind::FlowCounters,
            EventKind::Allocations,
        ]),
        abilities: AbilitySet::of(&[if ack { Ability::AckBits } else { Ability::Send }]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates, Knowledge::Hops]),
        header_bytes: 0,
        delivery: Delivery::default(),
    };
    if overhear { vec![node] } else { vec![gateway, node] }
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if setting.gateways > 1 {
        return Err(Refusal::gateways(setting.gateways));
    }
    check(options, &setting.neighbours)?;
    if setting.site.gateway {
        gateway::build(options, setting)
    } else {
        node::build(options, setting)
    }
}

/// Refuses guarantees that no node can keep.
///
/// These are one above the gateway's capacity, and a γ above (U* − U_S*) / U* (§IV.A). The gateway
/// knows the number of guarantees and checks their sum.
fn check(options: &Options, neighbours: &[Neighbour]) -> Result<(), Refusal> {
    if neighbours.is_empty() {
        return Err(Refusal::no_neighbour());
    }
    if let Some(dead) = neighbours.iter().find(|n| n.capacity.0 == 0) {
        return Err(Refusal::dead_link(dead.node));
    }
    let fastest = neighbours.iter().map(|n| n.capacity.0).max().unwrap_or(0) as f64;
    let each = 1e3 * options.guarantee;
    if each > fastest {
        let (sum, bound) = (BitRate(each as u64), BitRate(fastest as u64));
        return Err(Refusal::guarantees(sum, bound));
    }
    let (gamma, limit) = (options.gamma, 1.0 - each / fastest);
    if gamma > limit {
        return Err(no_room(gamma, limit));
    }
    Ok(())
}

/// Refuses a fraction for signalling that leaves the neighbours less than their guarantee.
fn no_room(gamma: f64, limit: f64) -> Refusal {
    let sentence = "gamma must be at most {}, what the guarantees leave of the gateway, not {}";
    Refusal::new("gap.gamma", sentence, &[Value::Ratio(limit), Value::Number(gamma)])
}

/// Guarantee of some flows: their rates if all were saturated.
///
/// Analytic rates grow when other flows end; the smallest one ever given is the rate under
/// saturation (§IV.A, "minimum bandwidth to be guaranteed … under saturation load conditions").
#[derive(Clone, Debug)]
struct Guarantees {
    /// The flow and its guaranteed rate of IP bytes.
    flows: Vec<(FlowHere, Option<u64>)>,
    efficiency: f64,
}

impl Guarantees {
    fn of<'a>(flows: impl Iterator<Item = &'a FlowHere>, efficiency: f64) -> Self {
        let promised = |here: &FlowHere| match (here.guarantee, here.fair) {
            (Some(rate), _) => Some(rate.0),
            (None, Some(fair)) if fair.0 > 0 => Some(reached(here, fair, efficiency)),
            _ => None,
        };
        Guarantees { flows: flows.map(|here| (*here, promised(here))).collect(), efficiency }
    }

    fn allocate(&mut self, flow: FlowId, fair: BitRate) {
        let Some((here, least)) = self.flows.iter_mut().find(|f| f.0.flow == flow) else { return };
        if fair.0 == 0 || here.guarantee.is_some() {
            return;
        }
        let rate = reached(here, fair, self.efficiency);
        *least = Some(least.map_or(rate, |l| l.min(rate)));
    }

    fn sum(&self) -> f64 {
        self.flows.iter().filter_map(|f| f.1).map(|r| r as f64).sum()
    }
}

/// Returns the reachable part of a flow's analytic rate, in IP bytes.
fn reached(here: &FlowHere, fair: BitRate, efficiency: f64) -> u64 {
    (here.ip_rate(fair).0 as f64 * efficiency) as u64
}

/// The bits on the air: a tag, I_U, I_S.
const TAG: u8 = 0x50;
const I_U: u8 = 1;
const I_S: u8 = 2;

/// Returns the bits of a message or an acknowledgement; `None` if it is invalid.
fn decode(body: &[u8]) -> Option<(bool, bool)> {
    match *body {
        [b] if b & !(I_U | I_S) == TAG => Some((b & I_U != 0, b & I_S != 0)),
        _ => None,
    }
}

fn encode(used: bool, single: bool) -> u8 {
    TAG | if used { I_U } else { 0 } | if single { I_S } else { 0 }
}
