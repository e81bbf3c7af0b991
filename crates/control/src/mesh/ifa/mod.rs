//! `ifa`: the ideal inter-TAP fairness algorithm of Mancuso 2010 §VI.A.
//!
//! It is a reference for GAP.
//!
//! Every node broadcasts 50 bytes at the base rate every 300 ms. The demands of flows travel
//! upwards, each node forwarding those of the flows that cross it; the gateway allocates its
//! airtime max-min, a flow of h hops costing as much airtime as h flows of one hop; the level of
//! the water-filling travels downwards, and each source limits its flows to it. Information moves
//! one hop per broadcast.
//!
//! The capacity to be allocated is ideal: a global observer knows it (here the analytic allocation,
//! as for `source`). The airtime of the broadcasts and their losses are not ideal.

use fairmesh_units::{BitRate, Bytes, Span, Time};

use crate::options;
use crate::water_filling::{self, Claim};
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Counters, Definition, Delivery, Event,
    EventKind, EventSet, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin,
    Place, Placement, PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

mod codec;
#[cfg(test)]
mod tests;

use codec::{Demand, DemandReport};

options! {
    /// Options of `ifa`.
    pub(crate) struct Options {
        variants {}
        parameters {
            period: Span = 0.3, 0.01..=60.0, "s", "time between broadcasts";
            efficiency: f64 = crate::mesh::gap::TCP_EFFICIENCY, 0.1..=1.0, "", "part of the analytic capacity that the mesh reaches";
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "buffer of each local flow";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "nodes exchange demands every 300 ms and cut their flows to a max-min share";
    Definition::new("ifa", about, Origin::published("Mancuso 2010 §VI.A (Gambiroza et al. 2004)"))
        .with_options(|_: &Options| needs(), build)
}

/// Number of broadcasts after which a demand that is not repeated is forgotten.
const DEMAND_LIFETIME: u64 = 10;
/// Number of hops above which a flow's cost no longer grows (Jamshaid 2010 §7.5.2).
///
/// Later hops use no more of the gateway's air.
const MAX_COST_HOPS: u32 = 3;

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&[EventKind::Counters, EventKind::Messages, EventKind::Allocations]),
        abilities: AbilitySet::of(&[Ability::LimitLocal, Ability::FlowClasses, Ability::Send]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates, Knowledge::Hops]),
        header_bytes: 0,
        delivery: Delivery::default(),
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if let Some(bad) = setting.flows.iter().find(|f| !(f.weight.is_finite() && f.weight > 0.0)) {
        return Err(Refusal::weight(bad.flow, bad.weight));
    }
    if setting.gateways > 1 {
        return Err(Refusal::gateways(setting.gateways));
    }
    let mut stream = setting.stream;
    let period = options.period;
    let leaf = Leaf::DropTail { packets: options.queue };
    let efficiency = options.efficiency;
    let class = |here: &FlowHere| ClassPlan {
        class: Class::Flow(here.flow),
        limit: ip_fair(here, efficiency)
            .map_or(Limit::None, |r| Limit::Rate(BitRate((r as u64).max(1)))),
        burst: Bytes(u64::from(here.packet.max(1))),
        leaf,
    };
    let local = |f: &&FlowHere| f.place == Place::Source;
    let classes = setting.flows.iter().filter(local).map(class).collect();
    let flow = |here: &FlowHere| Flow {
        here: *here,
        fair: ip_fair(here, efficiency),
        limit: ip_fair(here, efficiency),
        demand: None,
        at: Time::ZERO,
        counters: None,
        before: None,
    };
    // Nodes that are switched on together must not broadcast together.
    let first = Span::from_secs_f64(period.as_secs_f64() * (0.01 + 0.99 * stream.unit()));
    let fastest = setting.neighbours.iter().map(|n| n.capacity.0).max().unwrap_or(0) as f64;
    let mut control = Ifa {
        gateway: setting.site.gateway,
        flows: setting.flows.iter().map(flow).collect(),
        capacity: crate::mesh::gap::TCP_PART * efficiency * fastest,
        efficiency,
        level: None,
        sequence: 0,
        turn: 0,
        sampled: Time::ZERO,
        period,
        due: Time::ZERO + first,
    };
    control.observe();
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Local, classes, template: None },
    })
}

/// Returns the analytic rate of a flow in IP bytes, if it has one.
fn ip_fair(here: &FlowHere, efficiency: f64) -> Option<f64> {
    here.fair.filter(|r| r.0 > 0).map(|r| efficiency * here.ip_rate(r).0 as f64)
}

#[derive(Debug)]
struct Flow {
    here: FlowHere,
    /// Latest analytic rate of IP bytes.
    fair: Option<f64>,
    /// Limit in force, for local flows.
    limit: Option<f64>,
    /// Latest demand, own or received, bit/s of IP; infinite if it is above the flow's rate.
    demand: Option<f64>,
    at: Time,
    counters: Option<Counters>,
    before: Option<Counters>,
}

impl Flow {
    /// Returns the number of times that the gateway's air carries each of its bytes.
    fn cost(&self) -> f64 {
        f64::from(self.here.hops.unwrap_or(1).clamp(1, MAX_COST_HOPS))
    }
    fn is_local(&self) -> bool {
        self.here.place == Place::Source
    }
}

#[derive(Debug)]
struct Ifa {
    gateway: bool,
    /// The flows that cross this node.
    flows: Vec<Flow>,
    /// Capacity of the gateway's air, bit/s of IP bytes over one hop: the observer's knowledge.
    capacity: f64,
    /// Fraction of the analytic rates that the mesh reaches.
    efficiency: f64,
    /// Rate per weight.
    level: Option<f64>,
    /// Number of the report of this level.
    sequence: u8,
    /// Index of the first flow in the next broadcast.
    turn: usize,
    sampled: Time,
    period: Span,
    due: Time,
}

impl Ifa {
    /// Updates the observer's capacity: the maximum that an allocation has ever filled.
    fn observe(&mut self) {
        let filled = |f: &Flow| f.fair.map_or(0.0, |r| r * f.cost());
        self.capacity = self.capacity.max(self.flows.iter().map(filled).sum());
    }

    /// Measures the demand of local flows: infinite if packets wait, else the rate.
    fn measure(&mut self, now: Time) {
        let seconds = now.since(self.sampled).as_secs_f64();
        self.sampled = now;
        for f in self.flows.iter_mut().filter(|f| f.here.place == Place::Source) {
            let Some(counters) = f.counters.take() else { continue };
            let Some(before) = f.before.replace(counters) else { continue };
            if seconds <= 0.0 || counters.bytes < before.bytes {
                continue;
            }
            let waits = counters.queued_packets > 0 || counters.drops > before.drops;
            let rate = 8.0 * (counters.bytes - before.bytes) as f64 / seconds;
            f.demand = Some(if waits { f64::INFINITY } else { rate });
            f.at = now;
        }
    }

    /// Computes the gateway's allocation: Σ cost × min(demand, weight × level) = capacity.
    fn share(&mut self, now: Time) {
        let memory = self.period.saturating_mul(DEMAND_LIFETIME);
        let wants = self
            .flows
            .iter()
            // A flow without any report has its share; one without recent reports has none.
            .filter(|f| f.demand.is_none() || now.since(f.at) <= memory)
            .map(|f| (f, f.demand.unwrap_or(f64::INFINITY)))
            .filter(|(_, demand)| *demand > 0.0);
        let claims = wants.map(|(f, demand)| Claim {
            weight: f.here.weight * f.cost(),
            least: 0.0,
            most: demand * f.cost(),
        });
        let level = water_filling::level(self.capacity, claims);
        // With less demand than capacity, any flow may have all of it.
        self.level = Some(if level.is_finite() { level } else { self.capacity });
        self.sequence = self.sequence.wrapping_add(1);
    }

    fn apply(&mut self, actions: &mut Actions) {
        let Some(level) = self.level else { return };
        for f in self.flows.iter_mut().filter(|f| f.here.place == Place::Source) {
            let limit = (level * f.here.weight).max(1.0);
            // A change of less than a hundredth is not set.
            if f.limit.is_some_and(|old| (limit - old).abs() < 0.01 * old) {
                continue;
            }
            f.limit = Some(limit);
            actions.because(Reason::new(
                "ifa.share",
                "flow {} has a share of {} of the gateway",
                &[Value::Flow(f.here.flow), Value::Rate(BitRate(limit as u64))],
            ));
            actions.set_rate(Class::Flow(f.here.flow), BitRate(limit as u64));
        }
    }

    fn broadcast(&mut self, now: Time, actions: &mut Actions) {
        let memory = self.period.saturating_mul(DEMAND_LIFETIME);
        let mut report =
            DemandReport { sequence: self.sequence, level: self.level, demands: Vec::new() };
        let n = self.flows.len();
        // The gateway needs to send no demands.
        for k in 0..if self.gateway { 0 } else { n } {
            let f = &self.flows[(self.turn + k) % n];
            let fresh = f.is_local() || now.since(f.at) <= memory;
            if let (true, Some(rate)) = (fresh, f.demand) {
                if report.demands.len() == codec::MAX_DEMANDS {
                    self.turn = (self.turn + k) % n;
                    break;
                }
                report.demands.push(Demand { flow: f.here.flow, rate });
            }
        }
        actions.because(Reason::new(
            "ifa.news",
            "tells its neighbours of {} demands and the level",
            &[Value::Count(report.demands.len() as u64)],
        ));
        actions.send(None, &report.encode());
    }

    fn take_report(&mut self, now: Time, body: &[u8]) -> bool {
        let Some(report) = DemandReport::decode(body) else { return false };
        for d in &report.demands {
            // The node itself has the best information about flows that start here.
            let known = self.flows.iter_mut().find(|f| f.here.flow == d.flow && !f.is_local());
            if let Some(f) = known {
                f.demand = Some(d.rate);
                f.at = now;
            }
        }
        // Newer, with numbers that wrap.
        let newer = report.sequence.wrapping_sub(self.sequence) as i8 > 0;
        if self.gateway || report.level.is_none() || !(newer || self.level.is_none()) {
            return false;
        }
        self.level = report.level;
        self.sequence = report.sequence;
        true
    }
}

impl Control for Ifa {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Counters(c) => {
                if let Class::Flow(flow) = c.class
                    && let Some(f) = self.flows.iter_mut().find(|f| f.here.flow == flow)
                {
                    f.counters = Some(*c);
                }
            }
            Event::Allocation(a) => {
                if let Some(f) = self.flows.iter_mut().find(|f| f.here.flow == a.flow) {
                    f.here.fair = Some(a.rate);
                    f.fair = ip_fair(&f.here, self.efficiency);
                }
            }
            Event::Message(m) if self.take_report(now, m.body) => self.apply(actions),
            Event::Deadline if now >= self.due => {
                // Not with each rate: an allocation is complete only when all of its rates have
                // arrived.
                self.observe();
                self.measure(now);
                if self.gateway {
                    self.share(now);
                    self.apply(actions);
                }
                self.broadcast(now, actions);
                self.due = now + self.period;
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }
}
