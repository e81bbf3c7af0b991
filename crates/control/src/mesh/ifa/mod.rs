//! `ifa`: the inter-TAP fairness algorithm as Mancuso 2010 §VI.A idealises it, to measure GAP
//! against.
//!
//! Every node broadcasts 50 bytes at the base rate every 300 ms. Upwards travel the demands of
//! flows, each node passing on those that cross it; the gateway shares out its air max-min, a flow
//! of h hops costing as much air as h of one hop; downwards travels the level of the water, which
//! each source cuts its flows to. News moves one hop per broadcast.
//!
//! What is ideal is the capacity to be shared: a global observer knows it (here the analytic
//! allocation, as for `source`). What is not is the air that the broadcasts take, and what is lost
//! of them.

use fairmesh_units::{BitRate, Bytes, Span, Time};

use crate::options;
use crate::water_filling::{self, Claim};
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Counters, Definition, Event,
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
            efficiency: f64 = crate::mesh::gap::EFFICIENCY, 0.1..=1.0, "", "part of the analytic capacity that the mesh reaches";
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "buffer of each local flow";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "nodes exchange demands every 300 ms and cut their flows to a max-min share";
    Definition::new("ifa", about, Origin::published("Mancuso 2010 §VI.A (Gambiroza et al. 2004)"))
        .with_options(|_: &Options| needs(), build)
}

/// Broadcasts after which a demand that is not repeated is forgotten.
const MEMORY: u64 = 10;
/// Beyond this many hops a flow takes no more of the gateway's air (Jamshaid 2010 §7.5.2).
const REUSE: u32 = 3;

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&[EventKind::Counters, EventKind::Messages, EventKind::Allocations]),
        abilities: AbilitySet::of(&[Ability::LimitLocal, Ability::FlowClasses, Ability::Send]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates, Knowledge::Hops]),
        header_bytes: 0,
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

/// What the analytic rate of a flow comes to, in IP bytes, if it has one.
fn ip_fair(here: &FlowHere, efficiency: f64) -> Option<f64> {
    here.fair.filter(|r| r.0 > 0).map(|r| efficiency * here.ip_rate(r).0 as f64)
}

#[derive(Debug)]
struct Flow {
    here: FlowHere,
    /// Latest analytic rate of IP bytes.
    fair: Option<f64>,
    /// The limit in force, for local flows.
    limit: Option<f64>,
    /// Latest demand, own or heard of, bit/s of IP; infinite if it wants more than it gets.
    demand: Option<f64>,
    at: Time,
    counters: Option<Counters>,
    before: Option<Counters>,
}

impl Flow {
    /// Times that the gateway's air carries each of its bytes.
    fn cost(&self) -> f64 {
        f64::from(self.here.hops.unwrap_or(1).clamp(1, REUSE))
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
    /// What the gateway's air carries, bit/s of IP bytes over one hop: the observer's knowledge.
    capacity: f64,
    /// Part of the analytic rates that the mesh reaches.
    efficiency: f64,
    /// Rate per weight, and the number of the report it came with.
    level: Option<f64>,
    sequence: u8,
    /// Whose demand comes first in the next broadcast.
    turn: usize,
    sampled: Time,
    period: Span,
    due: Time,
}

impl Ifa {
    /// The observer: the most air that an allocation has ever filled is what there is.
    fn observe(&mut self) {
        let filled = |f: &Flow| f.fair.map_or(0.0, |r| r * f.cost());
        self.capacity = self.capacity.max(self.flows.iter().map(filled).sum());
    }

    /// What local flows want: more than they get if something waits, else what they send.
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

    /// The gateway's share-out: Σ cost × min(demand, weight × level) = capacity.
    fn share(&mut self, now: Time) {
        let memory = self.period.saturating_mul(MEMORY);
        let wants = self
            .flows
            .iter()
            // A flow of which nothing was ever heard has its share; one that fell silent has none.
            .filter(|f| f.demand.is_none() || now.since(f.at) <= memory)
            .map(|f| (f, f.demand.unwrap_or(f64::INFINITY)))
            .filter(|(_, demand)| *demand > 0.0);
        let claims = wants.map(|(f, demand)| Claim {
            weight: f.here.weight * f.cost(),
            least: 0.0,
            most: demand * f.cost(),
        });
        let level = water_filling::level(self.capacity, claims);
        // With less wanted than there is, anyone may have everything.
        self.level = Some(if level.is_finite() { level } else { self.capacity });
        self.sequence = self.sequence.wrapping_add(1);
    }

    fn apply(&mut self, actions: &mut Actions) {
        let Some(level) = self.level else { return };
        for f in self.flows.iter_mut().filter(|f| f.here.place == Place::Source) {
            let limit = (level * f.here.weight).max(1.0);
            // A change of less than a hundredth is not worth a word.
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
        let memory = self.period.saturating_mul(MEMORY);
        let mut report =
            DemandReport { sequence: self.sequence, level: self.level, demands: Vec::new() };
        let n = self.flows.len();
        // The gateway needs to tell nobody what is wanted of it.
        for k in 0..if self.gateway { 0 } else { n } {
            let f = &self.flows[(self.turn + k) % n];
            let fresh = f.is_local() || now.since(f.at) <= memory;
            if let (true, Some(rate)) = (fresh, f.demand) {
                if report.demands.len() == codec::MOST {
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

    fn hear(&mut self, now: Time, body: &[u8]) -> bool {
        let Some(report) = DemandReport::decode(body) else { return false };
        for d in &report.demands {
            // Of flows that start here the node itself knows best.
            let known = self.flows.iter_mut().find(|f| f.here.flow == d.flow && !f.is_local());
            if let Some(f) = known {
                f.demand = Some(d.rate);
                f.at = now;
            }
        }
        // Newer, counting around.
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
            Event::Message(m) if self.hear(now, m.body) => self.apply(actions),
            Event::Deadline if now >= self.due => {
                // Not with each rate: an allocation is whole only when all of its rates are in.
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
