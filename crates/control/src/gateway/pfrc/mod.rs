//! `pfrc`: the gateway searches for each flow's weighted fair rate.
//!
//! It watches which flows get their allocation (Jamshaid 2010 §8.1, Algorithms 4 to 6).
//!
//! Every epoch δ: if some flow has less than γ of its allocation the aggregate goes down, otherwise
//! it goes up; each flow's allocation is its weight's part of it.
//!
//! Decided here, beyond [`crate::gateway::aggregate_search`] and [`crate::gateway::flows`]:
//! - A flow is judged once it has been active for a whole epoch, by the limit that was in force.
//! - A new flow calls `decreaseRates` and the end of a flow `increaseRates`, as §8.1.3 suggests,
//!   instead of an evaluation; if both happen the new flow counts. If no flow was active before,
//!   the estimate stays as it was.
//! - An inactive flow may start at the rate that it would have if it were active, so that the first
//!   packets of a newcomer neither wait nor flood.
//! - The estimate never goes below the lower bound W₁/3 of §7.5.2 (`reuse`).
//! - An epoch in which nothing at all passed was an outage: rates stay.
//!
//! Beyond the thesis:
//! - Plans. A flow never gets more than its ceiling nor less than its guarantee; the rest is shared
//!   by weight ([`crate::water_filling`]). Guarantees must add up to no more than the lower bound.
//!   Where that bound can move, a flow that has less than its guarantee lowers it at once.
//! - `+relaxed`: the lower bound moves down to W₁/6 (`deepest`) if it is beyond the mesh's capacity and going
//!   below costs nothing ([`crate::gateway::lower_bound`]). The three variants below include this rule.
//! - `+constrained`: [`constrained`].
//! - `+bursts`: [`bursts`].
//! - `+peers`: [`crate::gateway::peers`].

mod bursts;
mod constrained;
mod evaluate;
mod flow;
mod membership;

use fairmesh_units::{BitRate, Bytes, FlowId, Span, Time};

use self::flow::Share;
use crate::gateway::aggregate_search::{AggregateSearch, Rule};
use crate::gateway::arc::{MAX_IDLE_FACTOR, bucket};
use crate::gateway::bounds::Bounds;
use crate::gateway::flows::Flows;
use crate::gateway::peers;
use crate::options;
use crate::water_filling::level;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Neighbour, Origin,
    Placement, PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `pfrc`.
    pub(crate) struct Options {
        variants {
            exponential: Origin::published("Jamshaid 2010 §8.1, Algorithm 5"), "Algorithm 5: exponential increase and decrease instead of binary search";
            relaxed: Origin::ours("Jamshaid 2010 §7.5.2"), "the lower bound falls down to `deepest` if the mesh carries less; included in the other unpublished variants";
            constrained: Origin::ours("Jamshaid 2010 §8.1"), "flows that need little leave the rest of their share to the others";
            bursts: Origin::ours("Jamshaid 2010 §8.1"), "intermittent flows are judged by the time in which they send";
            peers: Origin::ours("Jamshaid 2010 §8.1"), "gateways that share air exchange the rates of their homes and act as one";
        }
        parameters {
            /// An epoch shorter than a second is shorter than a round trip through slow links.
            epoch: Span = 10.0, 1.0..=600.0, "s", "time between decisions";
            gamma: f64 = 0.7, 0.05..=1.0, "", "least part of its allocation that a flow must receive";
            alpha: f64 = 1.1, 1.01..=4.0, "", "factor of an exponential increase";
            beta: f64 = 0.9, 0.1..=0.99, "", "factor of an exponential decrease";
            idle: u32 = 2.0, 1.0..=100.0, "epochs", "epochs without a packet after which a flow has ended";
            step: f64 = 0.05, 0.001..=0.5, "", "smallest step of the binary search, relative";
            reuse: f64 = 3.0, 1.0..=30.0, "", "divisor of the slowest link's capacity for the lower bound";
            deepest: f64 = 6.0, 1.0..=30.0, "", "+relaxed: divisor if the mesh carries less than that bound";
            queue: u32 = 5.0, 1.0..=1000.0, "packets", "buffer of each flow";
            headroom: f64 = 0.5, 0.05..=4.0, "", "+constrained: room above the rate that a flow uses, relative";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "the gateway searches the weighted fair limit of each flow";
    Definition::new("pfrc", about, Origin::published("Jamshaid 2010 §8.1"))
        .with_options(needs, start)
}

/// Shortest control period, 1 s.
const MIN_PERIOD: Span = Span::from_secs(1);
/// Minimum divisor of the lower bound with `+constrained`.
///
/// A long chain leaves a lone flow W/5.
///
/// The published W/3 is beyond that, and at it starved flows would count as constrained ones.
const CONSTRAINED_REUSE: f64 = 5.0;
/// Fraction of its guarantee that a flow must get: all but the noise of an epoch.
const GUARANTEE_FRACTION: f64 = 0.95;
/// Fraction of the aggregate that must be used before it counts as used, with `+bursts`.
const USED_FRACTION: f64 = 0.5;

impl Options {
    /// Returns the bounds of the aggregate.
    fn bounds(&self, neighbours: &[Neighbour]) -> Result<Bounds, Refusal> {
        let relaxed = self.relaxed || self.constrained || self.bursts || self.peers;
        let reuse = if self.constrained { self.reuse.max(CONSTRAINED_REUSE) } else { self.reuse };
        Bounds::of(neighbours, reuse, if relaxed { self.deepest } else { reuse })
    }
}

fn needs(options: &Options) -> Vec<Needs> {
    let plain = Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::FlowCounters]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        header_bytes: 0,
        delivery: Delivery::default(),
    };
    vec![if options.peers { peers::needs(plain) } else { plain }]
}

fn start(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if !options.peers {
        return build(options, setting);
    }
    let bounds = Options { constrained: false, ..*options }.bounds(&setting.neighbours)?;
    let options = *options;
    peers::start(peers::codes!("pfrc"), setting, MIN_PERIOD, bounds, move |setting| {
        build(&options, setting)
    })
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let constrained = options.constrained;
    let bounds = options.bounds(&setting.neighbours)?;
    let rule = match options.exponential {
        true => Rule::Exponential { alpha: options.alpha, beta: options.beta },
        false => Rule::Binary { step: options.step },
    };
    let (epoch, idle) = (options.epoch, options.idle);
    let mut control = Pfrc {
        epoch,
        bursts: options.bursts,
        gamma: options.gamma,
        headroom: constrained.then_some(options.headroom),
        bounds,
        search: AggregateSearch::new(bounds, rule),
        flows: Flows::new(idle, MAX_IDLE_FACTOR * idle, 2.0 * bounds.upper),
        promised: 0,
        looked: None,
        glances: 1,
        glanced: 0,
        glance: None,
        due: Time::ZERO,
    };
    if control.bursts {
        control.search = control.search.with_leap(bursts::MAX_STEP_UP);
        control.glances = (control.epoch / bursts::READING_INTERVAL).max(1) as u32;
    }
    let packets = options.queue;
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets },
    };
    for here in &setting.flows {
        control.admit(here)?;
    }
    // All flows count as active until the first counters.
    let level = level(control.search.estimate(), control.flows.iter().map(|f| f.1.counted()));
    let mut classes = Vec::with_capacity(setting.flows.len());
    for here in &setting.flows {
        let share = &mut control.flows.entry(here.flow, || Share::new(options.bursts)).1;
        share.allow(level, control.headroom);
        share.class = true;
        classes.push(ClassPlan {
            class: Class::Flow(here.flow),
            limit: Limit::Rate(share.limit),
            burst: Bytes(u64::from(here.packet.max(1))),
            ..template
        });
    }
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Transit, classes, template: Some(template) },
    })
}

#[derive(Debug)]
struct Pfrc {
    /// Control period.
    epoch: Span,
    bursts: bool,
    gamma: f64,
    /// Headroom of `+constrained`.
    headroom: Option<f64>,
    bounds: Bounds,
    search: AggregateSearch,
    flows: Flows<Share>,
    /// Sum of all guarantees, in bit/s.
    promised: u64,
    /// Time of the last control period.
    looked: Option<Time>,
    /// With `+bursts`, number of readings of the counters per control period.
    glances: u32,
    /// Number of readings in this control period.
    glanced: u32,
    glance: Option<Time>,
    due: Time,
}

impl Pfrc {
    /// Σ w of the active flows.
    fn weights(&self) -> f64 {
        self.flows.active().map(|f| f.1.weight).sum()
    }

    /// Reads the counters within a control period with `+bursts`.
    fn glance(&mut self, now: Time) {
        if self.bursts {
            let elapsed = self.glance.map_or(Span::ZERO, |last| now.since(last)).as_secs_f64();
            for (meter, share) in self.flows.iter_mut() {
                let allowed = share.expected * elapsed;
                if let Some(bursts) = &mut share.bursts {
                    bursts.glance(meter.moved(), allowed);
                }
            }
            self.glance = Some(now);
        }
        self.glanced = match self.looked {
            Some(_) => (self.glanced + 1) % self.glances,
            // The first reading gives counters their base.
            None => 0,
        };
    }

    fn look(&mut self, now: Time, actions: &mut Actions) {
        let elapsed = self.looked.map_or(Span::ZERO, |last| now.since(last));
        self.looked = Some(now);
        let changes = self.flows.close(elapsed);
        let seconds = elapsed.as_secs_f64();
        for (meter, share) in self.flows.iter_mut() {
            if let Some(bursts) = &mut share.bursts {
                bursts.looked();
            }
            if let Some(rate) = meter.rate {
                share.passed += rate * seconds;
                share.due += share.expected * seconds;
                share.seconds += seconds;
            }
        }
        if !(changes.any() && self.change(changes, actions)) {
            self.evaluate(actions);
        }
        self.restart();
    }

    fn restart(&mut self) {
        self.flows.iter_mut().for_each(|(meter, share)| share.restart(meter.active));
    }

    fn total(&self) -> Value {
        Value::Rate(bucket(self.search.estimate()))
    }

    fn level(&self) -> f64 {
        level(self.search.estimate(), self.flows.active().map(|f| f.1.counted()))
    }

    /// Lines 3 to 5 of Algorithms 5 and 6, between ceilings and guarantees.
    fn allocate(&mut self, actions: &mut Actions) {
        let (total, weights, level) = (self.search.estimate(), self.weights(), self.level());
        for (meter, share) in self.flows.iter_mut() {
            let level = match meter.active {
                true => level,
                false if share.class => total / (weights + share.weight),
                false => continue,
            };
            if share.allow(level, self.headroom) || !share.class {
                share.class = true;
                actions.set_rate(Class::Flow(meter.flow), share.limit);
            }
        }
    }
}

impl Control for Pfrc {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::FlowCounters(c) => {
                let bursts = self.bursts;
                let share = self.flows.sample(c.flow, c.bytes, || Share::new(bursts));
                if let Some(bursts) = &mut share.bursts {
                    bursts.packets(c.packets);
                }
            }
            Event::FlowSeen(here) => self.seen(here, actions),
            Event::FlowGone(flow) => self.gone(*flow, actions),
            Event::Deadline if now >= self.due => {
                self.glance(now);
                if self.glanced == 0 {
                    self.look(now, actions);
                }
                self.due = now + Span::from_nanos(self.epoch.as_nanos() / u64::from(self.glances));
            }
            _ => {}
        }
        self.due = self.due.max(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn learned(&self) -> Option<BitRate> {
        Some(bucket(self.search.estimate()))
    }

    fn recall(&mut self, learned: BitRate, actions: &mut Actions) {
        self.search.recall(learned.0 as f64);
        let level = level(self.search.estimate(), self.flows.iter().map(|f| f.1.counted()));
        actions.because(Reason::new(
            "pfrc.recalled",
            "begins with {}, which an earlier run had found",
            &[self.total()],
        ));
        let headroom = self.headroom;
        for (meter, share) in self.flows.iter_mut() {
            if share.allow(level, headroom) {
                actions.set_rate(Class::Flow(meter.flow), share.limit);
            }
        }
    }
}

#[cfg(test)]
mod tests;
