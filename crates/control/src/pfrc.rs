//! `pfrc`: the gateway finds each flow's weighted fair rate by watching who gets what it is allowed
//! (Jamshaid 2010 §8.1, Algorithms 4 to 6).
//!
//! Every epoch δ: if some flow has less than γ of its allocation the aggregate goes down, otherwise
//! it goes up; each flow is allowed its weight's part of it.
//!
//! Decided here, beyond [`crate::search`] and [`crate::flows`]:
//! - A flow is judged once it has been active for a whole epoch, by the limit that was in force.
//! - A flow more calls `decreaseRates` and a flow less `increaseRates`, as §8.1.3 suggests, instead
//!   of an evaluation; if both happen the flow more counts. With nobody there before, the estimate
//!   stays as it was.
//! - A flow that is not active may start at the rate that it would have if it were, so that the
//!   first packets of a newcomer neither wait nor flood.
//! - The lower bound W₁/3 (`reuse`) gives way down to W₁/6 (`deepest`) where it is beyond what the
//!   mesh carries and going below costs nothing ([`crate::floor`]).
//! - In an epoch in which nothing at all passed there was an outage: rates stay.
//!
//! Beyond the thesis:
//! - Plans. A flow never gets more than its ceiling nor less than its guarantee; the rest is shared
//!   by weight ([`crate::share`]). Guarantees must add up to no more than the lower bound,
//!   and a flow that has less than its guarantee lowers the aggregate below it at once.
//! - `+constrained`: [`constrained`].
//! - `+bursts`: [`bursts`].
//! - `+fast`: the set of flows is watched four times per epoch. A flow more or less moves the
//!   shares at once and no epoch is spent on it; a flow less leaves the aggregate alone. Evaluations stay as
//!   far apart as they were, because TCP's rates say little over shorter times. Silence ends a flow
//!   after two quarters; whoever comes back soon gets twice the patience, up to what the plain
//!   controller has.
//! - `+proportional`: shares by weight / hops, hops counted to 3, the number beyond which a flow
//!   takes no more air (§7.5.2). Where one stretch of air is everybody's bottleneck, as around a
//!   gateway, the rates with the largest Σ w log x subject to Σ cost x ≤ 1 are x = w / cost, up to
//!   a factor: this is proportional fairness there, and an approximation elsewhere.

mod bursts;
mod constrained;
mod flow;

use fairmesh_units::{BitRate, Bytes, FlowId, Span, Time};

use self::bursts::{Bursts, Verdict};
use self::constrained::Seen;
use self::flow::Share;
use crate::arc::{PATIENCE, bucket, rule};
use crate::bounds::Bounds;
use crate::flows::{Changes, Flows, Meter};
use crate::search::{Search, Step};
use crate::share::level;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Entry, Event, EventKind, EventSet,
    FlowHere, Instance, Knob, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Options, Placement,
    PlacementSet, Plan, Point, Reason, Refused, Runs, Setting, Value, Variant,
};

const fn knob(name: &'static str, about: &'static str, default: f64, min: f64, max: f64) -> Knob {
    Knob { name, about, default, min, max }
}

pub(crate) static ENTRY: Entry = Entry {
    name: "pfrc",
    about: "the gateway finds each flow's weighted fair limit by itself",
    paper: "Jamshaid 2010 §8.1",
    variants: &[
        Variant {
            name: "exponential",
            about: "Algorithm 5: exponential increase and decrease instead of binary search",
        },
        Variant {
            name: "constrained",
            about: "ours: what flows that need little leave over goes to the others",
        },
        Variant {
            name: "bursts",
            about: "ours: flows that only sometimes send are judged while they do",
        },
        Variant { name: "fast", about: "ours: rates follow arrivals and ends within an epoch" },
        Variant { name: "proportional", about: "ours: proportional fairness, from hop counts" },
    ],
    knobs: &[
        // An epoch shorter than a second is shorter than a round trip through slow links.
        knob("epoch", "time between decisions, seconds", 10.0, 1.0, 600.0),
        knob("gamma", "part of its allocation that a flow must get", 0.7, 0.05, 1.0),
        knob("alpha", "factor of an exponential increase", 1.1, 1.01, 4.0),
        knob("beta", "factor of an exponential decrease", 0.9, 0.1, 0.99),
        knob("idle", "whole epochs of silence that end a flow; +fast: quarters", 2.0, 1.0, 100.0),
        knob("step", "smallest step of the binary search, part", 0.05, 0.001, 0.5),
        knob(
            "reuse",
            "the lower bound is the slowest link's capacity divided by this",
            3.0,
            1.0,
            30.0,
        ),
        knob("deepest", "the same where that is more than the mesh carries", 6.0, 1.0, 30.0),
        knob("queue", "buffer of each flow, packets", 5.0, 1.0, 1000.0),
        knob("headroom", "+constrained: room above what a flow uses, part", 0.5, 0.05, 4.0),
    ],
    runs: Runs::At { needs, build },
};

/// Looks at the flows per epoch, with `+fast`.
const LOOKS: u32 = 4;
/// The shortest time between looks.
const SHORTEST: Span = Span::from_secs(1);
/// Divisor of the lower bound with `+constrained`, at least: W/5 is what a long chain leaves a lone
/// flow. The published W/3 is beyond that, and at it starved flows would pass for constrained ones.
const CONSTRAINED_REUSE: f64 = 5.0;
/// Part of its guarantee that a flow must get: all but the noise of an epoch.
const GUARANTEED: f64 = 0.95;
/// Part of the aggregate that must be used before it counts as used, with `+bursts`.
const USED: f64 = 0.5;
/// Hops beyond which a flow takes no more air.
const REUSE_HOPS: u32 = 3;

fn needs(options: &Options) -> Vec<Needs> {
    let knowledge = match options.has("proportional") {
        true => KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::Hops]),
        false => KnowledgeSet::of(&[Knowledge::LinkRates]),
    };
    vec![Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::FlowCounters]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        knowledge,
        header_bytes: 0,
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refused> {
    let constrained = options.has("constrained");
    let reuse = options.get("reuse");
    let reuse = if constrained { reuse.max(CONSTRAINED_REUSE) } else { reuse };
    let bounds = Bounds::of(&setting.neighbours, reuse, options.get("deepest"))?;
    let epoch = Span::from_secs_f64(options.get("epoch"));
    let idle = options.get("idle") as u32;
    let looks = if options.has("fast") { LOOKS.min((epoch / SHORTEST) as u32).max(1) } else { 1 };
    let mut control = Pfrc {
        look: Span::from_nanos(epoch.as_nanos() / u64::from(looks)),
        looks,
        fast: options.has("fast"),
        bursts: options.has("bursts"),
        proportional: options.has("proportional"),
        gamma: options.get("gamma"),
        headroom: constrained.then(|| options.get("headroom")),
        bounds,
        search: Search::new(bounds, rule(options)),
        flows: Flows::new(idle, PATIENCE * idle * looks, 2.0 * bounds.upper),
        promised: 0,
        looked: None,
        count: 0,
        glances: 1,
        glanced: 0,
        glance: None,
        due: Time::ZERO,
    };
    if control.bursts {
        control.glances = (control.look / bursts::GLANCE).max(1) as u32;
    }
    let packets = options.get("queue") as u32;
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets },
    };
    for here in &setting.flows {
        control.admit(here)?;
    }
    // Until counters say more, all flows are expected.
    let level = level(control.search.estimate(), control.flows.iter().map(|f| f.1.counted()));
    let mut classes = Vec::with_capacity(setting.flows.len());
    for here in &setting.flows {
        let share = &mut control.flows.entry(here.flow, || Share::new(options.has("bursts"))).1;
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
    /// Time between looks at the counters, and looks per evaluation.
    look: Span,
    looks: u32,
    fast: bool,
    bursts: bool,
    proportional: bool,
    gamma: f64,
    /// With `+constrained`.
    headroom: Option<f64>,
    bounds: Bounds,
    search: Search,
    flows: Flows<Share>,
    /// Sum of all guarantees, bit/s.
    promised: u64,
    /// When the counters were last looked at, and how often since the last evaluation.
    looked: Option<Time>,
    count: u32,
    /// With `+bursts` counters are also read between looks: how often per look, how often since.
    glances: u32,
    glanced: u32,
    glance: Option<Time>,
    due: Time,
}

impl Pfrc {
    /// Takes in a flow's weight and plan, or leaves them as they are.
    fn admit(&mut self, here: &FlowHere) -> Result<(), Refused> {
        let FlowHere { flow, weight, .. } = *here;
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(Refused::Weight { flow, weight });
        }
        let guarantee = here.guarantee.unwrap_or(BitRate(0));
        if let Some(ceiling) = here.ceiling.filter(|c| *c < guarantee) {
            return Err(Refused::Ceiling { flow, guarantee, ceiling });
        }
        let bursts = self.bursts;
        let share = &mut self.flows.entry(flow, || Share::new(bursts)).1;
        let others = self.promised - share.guarantee as u64;
        let sum = others.saturating_add(guarantee.0);
        if guarantee.0 > 0 && sum as f64 > self.bounds.lower {
            let bound = BitRate(self.bounds.lower as u64);
            return Err(Refused::Guarantees { sum: BitRate(sum), bound });
        }
        let hops = if self.proportional { here.hops.unwrap_or(1).clamp(1, REUSE_HOPS) } else { 1 };
        share.weight = weight / f64::from(hops);
        share.guarantee = guarantee.0 as f64;
        share.ceiling = here.ceiling.map_or(f64::INFINITY, |c| c.0 as f64);
        self.promised = sum;
        self.search.promise(sum as f64);
        Ok(())
    }

    /// A flow is announced: it gets a class, if it has none, at a newcomer's rate.
    fn seen(&mut self, here: &FlowHere, actions: &mut Actions) {
        let flow = here.flow;
        if let Err(refused) = self.admit(here) {
            let value = match refused {
                Refused::Weight { weight, .. } => Value::Ratio(weight),
                Refused::Ceiling { ceiling, .. } => Value::Rate(ceiling),
                Refused::Guarantees { sum, .. } => Value::Rate(sum),
                Refused::Gamma { .. }
                | Refused::Delays { .. }
                | Refused::Thresholds { .. }
                | Refused::Together { .. }
                | Refused::NoModel
                | Refused::NoNeighbour
                | Refused::DeadLink { .. } => Value::None,
            };
            actions.because(Reason::new(
                "pfrc.refused",
                match refused {
                    Refused::Weight { .. } => "flow {}: a weight of {} is refused",
                    Refused::Ceiling { .. } => "flow {}: a ceiling of {} is below its guarantee",
                    _ => "flow {}: guarantees would add up to {}, more than is sure",
                },
                &[Value::Flow(flow), value],
            ));
        }
        let (total, weights, bursts) = (self.search.estimate(), self.weights(), self.bursts);
        let (meter, share) = self.flows.entry(flow, || Share::new(bursts));
        if !meter.active && !share.class {
            share.class = true;
            share.allow(total / (weights + share.weight), self.headroom);
            actions.because(Reason::new(
                "pfrc.newcomer",
                "flow {} may start at {}",
                &[Value::Flow(flow), Value::Rate(share.limit)],
            ));
            actions.set_rate(Class::Flow(flow), share.limit);
        }
    }

    /// The host knows that a flow is gone.
    fn gone(&mut self, flow: FlowId, actions: &mut Actions) {
        let Some(share) = self.flows.end(flow) else { return };
        share.limit = BitRate(0);
        if core::mem::replace(&mut share.class, false) {
            actions.because(Reason::new("pfrc.gone", "flow {} is gone", &[Value::Flow(flow)]));
            actions.remove(Class::Flow(flow));
        }
    }

    /// Σ w of the active flows.
    fn weights(&self) -> f64 {
        self.flows.active().map(|f| f.1.weight).sum()
    }

    /// A reading of the counters between looks, if there are such.
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
            // The first one gives counters their base.
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
        self.count += 1;
        if changes.any() && self.change(changes, actions) {
            return self.restart();
        }
        if self.count >= self.looks {
            self.evaluate(actions);
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.count = 0;
        self.flows.iter_mut().for_each(|(meter, share)| share.restart(meter.active));
    }

    /// C_meas; `None` if nothing is known or nothing passed.
    fn measured(&self) -> Option<f64> {
        let passed = |f: &(Meter, Share)| f.1.rate().is_some_and(|r| r > 0.0);
        let rate = |f: &(Meter, Share)| f.1.rate().unwrap_or(f.1.expected);
        self.flows.active().any(passed).then(|| self.flows.active().map(rate).sum())
    }

    /// The set of active flows has changed; whether that takes the place of an evaluation.
    fn change(&mut self, changes: Changes, actions: &mut Actions) -> bool {
        let now = self.flows.active().count() as u32;
        let before = (now + changes.ended).saturating_sub(changes.arrived);
        // With `+fast` an end, or a flow that was given up too early, leaves the aggregate alone,
        // and with `+bursts` an end, or a flow that sends again.
        let expected = match (self.fast, self.bursts) {
            (_, true) => changes.known,
            (true, false) => changes.returned,
            (false, false) => 0,
        };
        let new = changes.arrived > expected || (changes.ended > 0 && !self.fast && !self.bursts);
        if new
            && before > 0
            && let Some(measured) = self.measured()
        {
            // §8.1.3
            match changes.arrived {
                0 => self.search.termination(measured),
                _ => self.search.arrival(measured),
            };
        }
        if now > 0 {
            let count = |n: u32| Value::Count(u64::from(n));
            actions.because(Reason::new(
                "pfrc.flows",
                "{} flows more, {} fewer: {} for {} flows",
                &[
                    count(changes.arrived),
                    count(changes.ended),
                    Value::Rate(bucket(self.search.estimate())),
                    count(now),
                ],
            ));
            self.allocate(actions);
        }
        !self.fast && !self.bursts
    }

    /// Algorithm 4.
    fn evaluate(&mut self, actions: &mut Actions) {
        let Some(mut measured) = self.measured() else { return };
        // What passes when some are silent by choice says little about what would.
        if self.bursts && measured > USED * self.search.estimate() {
            measured = self.search.estimate();
        }
        let (gamma, fast, bursts) = (self.gamma, self.fast, self.bursts);
        let constrained = self.headroom.is_some();
        let (floor, level) = (self.search.at_floor(), self.level());
        let (mut worst, mut unmet) = (None::<(FlowId, f64)>, false);
        for (meter, share) in self.flows.iter_mut() {
            // With several looks per epoch a flow that was silent in the last one may have ended.
            // By windows whoever has sent anything can be judged.
            let whole = meter.active && share.whole && !(fast && meter.silent > 0);
            if !(whole || bursts && share.passed > 0.0) {
                continue;
            }
            let (Some(part), Some(rate)) = (share.part(), share.rate()) else { continue };
            // A guarantee is one: γ of it is not enough.
            let promised = share.guarantee > 0.0 && rate < GUARANTEED * share.guarantee;
            let seen = Seen { rate, seconds: share.seconds, limit: share.limit.0 as f64 };
            let verdict = share.verdict(part, gamma);
            // Nobody breaks it to a flow that does not want it.
            let promised = promised && (part >= gamma || verdict == Verdict::Starved);
            if verdict == Verdict::Unknown && !promised {
                continue;
            }
            if verdict == Verdict::Enough && !promised {
                share.demand.met(seen, level * share.weight);
            } else if constrained && share.demand.missed(seen, floor) {
                actions.because(Reason::new(
                    "pfrc.constrained",
                    "flow {} uses {} whatever it is allowed: the others get the rest",
                    &[Value::Flow(meter.flow), Value::Rate(bucket(rate))],
                ));
            } else {
                unmet |= promised;
                if worst.is_none_or(|w| part < w.1) {
                    worst = Some((meter.flow, part)); // line 2
                }
            }
        }
        match worst {
            Some((flow, part)) => {
                if unmet {
                    self.search.lower_floor();
                }
                let step = self.search.decrease(measured); // line 3
                actions.because(Reason::new(
                    "pfrc.starved",
                    match step {
                        Step::Down => "flow {} at {} of its allocation, below {}: decrease to {}",
                        _ => "flow {} at {} of its allocation, below {}: already down to {}",
                    },
                    &[Value::Flow(flow), Value::Percent(part), Value::Percent(gamma), self.total()],
                ));
            }
            None => {
                let flows = Value::Count(self.flows.active().count() as u64);
                if self.level().is_infinite() {
                    actions.because(Reason::new(
                        "pfrc.full",
                        "all {} flows have as much as they may or can use",
                        &[flows],
                    ));
                } else {
                    let step = self.search.increase(measured); // line 5
                    if step == Step::Up {
                        let bursts = self.flows.iter_mut().filter_map(|f| f.1.bursts.as_mut());
                        bursts.for_each(Bursts::rise);
                    }
                    actions.because(Reason::new(
                        "pfrc.satisfied",
                        match step {
                            Step::Up => {
                                "all {} flows at {} of their allocation or more: increase to {}"
                            }
                            _ => "all {} flows at {} of their allocation or more: keep to {}",
                        },
                        &[flows, Value::Percent(gamma), self.total()],
                    ));
                }
            }
        }
        self.allocate(actions);
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
                self.due = now + Span::from_nanos(self.look.as_nanos() / u64::from(self.glances));
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
