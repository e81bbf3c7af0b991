//! `arc`, `arc-fq`: the gateway finds one limit for all data from the equality of the rates.
//!
//! Source: Jamshaid 2010 §7.4, Algorithms 1 to 3.
//!
//! Every epoch δ: if some flow has less than γ of another's rate, and less than θ of its own highest rate so far, it is
//! starved and the aggregate goes down; otherwise the aggregate goes up.
//!
//! Decided here, beyond [`crate::gateway::aggregate_search`] and [`crate::gateway::flows`]:
//! - Line 2 of Algorithm 1, "for ∀ i, j", is read as the text before it is: for any pair. The other flow of the pair is
//!   the fastest one.
//! - Line 5 sets r_max to the present rate; the text defines a "previously recorded maximum". It is kept as a
//!   maximum: otherwise a flow could be starved in small steps, each within θ of the last.
//! - After a reset of r_max (§7.5.1) a flow has no recorded maximum, so that line 2 does not find it starved until an
//!   epoch of line 5 has recorded one.
//! - Rates are compared to a packet per epoch, which is their precision.
//! - Line 6 without measurement: an epoch in which no data passed at all was an outage, not unfairness, and the limit
//!   stays.
//! - A flow is compared once it has been active for a whole epoch; without such a flow there is no decision. A change
//!   of the set of active flows resets r_max (§7.5.1); the epoch is evaluated as always.
//!
//! `+relearn` adds three rules:
//! - A maximum becomes permanently unreachable if a link becomes slower. At the lower bound nothing more can be taken
//!   from the other flows, so maxima are recorded again there.
//! - After a reset of r_max a flow counts as starved below its part of the lower bound. Without a maximum no flow is
//!   starved, and if starved TCPs go idle and return in every other epoch, which changes the set, the aggregate would
//!   only rise.
//! - The lower bound is W₁/5 (`deepest`). r_max is recorded there, and W₁/3 is beyond the capacity of a chain of six
//!   hops and more (§4.1.2): far flows' maxima are those of starved flows there.

use fairmesh_units::{BitRate, Bytes, FlowId, Span, Time};

use crate::gateway::aggregate_search::{AggregateSearch, Rule, Step};
use crate::gateway::bounds::Bounds;
use crate::gateway::flows::Flows;
use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin, Placement,
    PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `arc`.
    pub(crate) struct Options {
        variants {
            exponential: Origin::published("Jamshaid 2010 §7.4, Algorithm 2"), "Algorithm 2: exponential increase and decrease instead of binary search";
            relearn: Origin::ours("Jamshaid 2010 §7.4"), "highest rates are learned again at the lower bound; a flow without one must have its part of the bound";
        }
        parameters {
            /// An epoch shorter than a second is shorter than a round trip through a mesh of slow links.
            epoch: Span = 10.0, 1.0..=600.0, "s", "time between decisions";
            gamma: f64 = 0.9, 0.05..=1.0, "", "least part of the fastest flow's rate that counts as equal to it";
            theta: f64 = 0.95, 0.05..=1.0, "", "least part of a flow's own highest rate that counts as equal to it";
            alpha: f64 = 1.1, 1.01..=4.0, "", "factor of an exponential increase";
            beta: f64 = 0.9, 0.1..=0.99, "", "factor of an exponential decrease";
            idle: u32 = 2.0, 1.0..=100.0, "epochs", "epochs without a packet after which a flow has ended";
            step: f64 = 0.05, 0.001..=0.5, "", "smallest step of the binary search, relative";
            /// §7.5.2: W₁/3.
            reuse: f64 = 3.0, 1.0..=30.0, "", "divisor of the slowest link's capacity for the lower bound";
            /// A collision domain of a chain has five links (§4.1.2).
            deepest: f64 = 5.0, 1.0..=30.0, "", "+relearn: divisor instead of `reuse`";
            queue: u32 = 25.0, 1.0..=1000.0, "packets", "buffer shared by all flows";
        }
    }
}

/// Maximum factor of the idle epochs that end a flow, after it was ended too early.
///
/// It is also used in `pfrc`.
pub(crate) const MAX_IDLE_FACTOR: u32 = 4;
/// Size of a full packet, in bits.
const PACKET_BITS: f64 = 12_000.0;

pub(crate) fn shared() -> Definition {
    let about = "the gateway searches one limit for all data, with one queue";
    Definition::new("arc", about, Origin::published("Jamshaid 2010 §7.4")).with_options(
        |_: &Options| needs(),
        |o, setting| build(o, setting, &CODES[0], Leaf::DropTail { packets: o.queue }),
    )
}

pub(crate) fn fair() -> Definition {
    let about = "the gateway searches one limit for all data, with a queue per flow";
    Definition::new("arc-fq", about, Origin::published("Jamshaid 2010 §7.4"))
        .with_options(
            |_: &Options| needs(),
            |o, setting| build(o, setting, &CODES[1], Leaf::Fair { packets: o.queue }),
        )
        .with_default("queue", "buffer of each flow", 5.0)
}

/// Codes of its reasons.
#[derive(Debug)]
struct Codes {
    unfair: &'static str,
    equal: &'static str,
    own_limit: &'static str,
    recalled: &'static str,
}

static CODES: [Codes; 2] = [
    Codes {
        unfair: "arc.unfair",
        equal: "arc.equal",
        own_limit: "arc.bottleneck",
        recalled: "arc.recalled",
    },
    Codes {
        unfair: "arc-fq.unfair",
        equal: "arc-fq.equal",
        own_limit: "arc-fq.bottleneck",
        recalled: "arc-fq.recalled",
    },
];

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::FlowCounters]),
        abilities: AbilitySet::of(&[Ability::LimitTransit]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        header_bytes: 0,
        delivery: Delivery::default(),
    }]
}

/// Returns the rate for a token bucket; never 0.
pub(crate) fn bucket(rate: f64) -> BitRate {
    BitRate((rate as u64).max(1))
}

fn build(
    options: &Options,
    setting: Setting,
    codes: &'static Codes,
    leaf: Leaf,
) -> Result<Instance, Refusal> {
    let reuse = if options.relearn { options.deepest } else { options.reuse };
    let bounds = Bounds::of(&setting.neighbours, reuse, reuse)?;
    let idle = options.idle;
    let rule = match options.exponential {
        true => Rule::Exponential { alpha: options.alpha, beta: options.beta },
        false => Rule::Binary { step: options.step },
    };
    let control = Arc {
        codes,
        epoch: options.epoch,
        gamma: options.gamma,
        theta: options.theta,
        relearn: options.relearn,
        search: AggregateSearch::new(bounds, rule),
        flows: Flows::new(idle, MAX_IDLE_FACTOR * idle, 2.0 * bounds.upper),
        bounds,
        limit: bucket(bounds.lower),
        began: None,
        due: Time::ZERO,
    };
    let class = ClassPlan {
        class: Class::All,
        limit: Limit::Rate(control.limit),
        burst: Bytes(setting.flows.iter().map(|f| u64::from(f.packet)).max().unwrap_or(1500)),
        leaf,
    };
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Transit, classes: vec![class], template: None },
    })
}

#[derive(Clone, Default, Debug)]
struct EpochPeak {
    /// Highest rate, r_max; `None` right after a reset.
    highest: Option<f64>,
    /// True if active at the start of the epoch.
    whole: bool,
}

#[derive(Debug)]
struct Arc {
    codes: &'static Codes,
    epoch: Span,
    gamma: f64,
    theta: f64,
    relearn: bool,
    bounds: Bounds,
    search: AggregateSearch,
    flows: Flows<EpochPeak>,
    limit: BitRate,
    /// Start of the epoch; `None` before the first.
    began: Option<Time>,
    due: Time,
}

/// Outcome of Algorithm 1.
enum Verdict {
    /// A flow has these fractions of the fastest flow's rate and of its own best.
    Unfair { flow: FlowId, of_fastest: f64, of_best: f64 },
    /// All flows have at least this fraction of the fastest flow's rate, or of their own best.
    Fair { slowest: Option<(FlowId, f64)> },
}

impl Arc {
    fn close(&mut self, now: Time, actions: &mut Actions) {
        let elapsed = self.began.map_or(Span::ZERO, |began| now.since(began));
        let changes = self.flows.close(elapsed);
        self.began = Some(now);
        if changes.any() {
            // §7.5.1: the highest rates belong to another set of flows.
            self.flows.iter_mut().for_each(|(_, seen)| seen.highest = None);
        }
        let measured: f64 = self.flows.active().filter_map(|(m, _)| m.rate).sum();
        if measured > 0.0 && self.flows.active().any(|(_, seen)| seen.whole) {
            self.decide(measured, elapsed, actions);
        }
        self.flows.iter_mut().for_each(|(meter, seen)| seen.whole = meter.active);
    }

    /// Algorithm 1, lines 2 to 6.
    fn decide(&mut self, measured: f64, elapsed: Span, actions: &mut Actions) {
        let verdict = self.evaluate(PACKET_BITS / elapsed.as_secs_f64());
        let step = match verdict {
            Verdict::Unfair { .. } => self.search.decrease(measured),
            Verdict::Fair { .. } => self.search.increase(measured),
        };
        let again = self.relearn && self.search.at_lower_bound();
        if matches!(verdict, Verdict::Fair { .. }) || again {
            for (meter, seen) in self.flows.active_mut() {
                let Some(rate) = meter.rate.filter(|_| seen.whole) else { continue };
                let before = seen.highest.filter(|_| !again).unwrap_or(0.0);
                seen.highest = Some(before.max(rate)); // line 5
            }
        }
        self.limit = bucket(self.search.estimate());
        let limit = Value::Rate(self.limit);
        actions.because(match verdict {
            Verdict::Unfair { flow, of_fastest, of_best } => Reason::new(
                self.codes.unfair,
                "flow {} at {} of the fastest and {} of its own best: at most {} together",
                &[Value::Flow(flow), Value::Percent(of_fastest), Value::Percent(of_best), limit],
            ),
            Verdict::Fair { slowest: Some((flow, part)) } if part < self.gamma => Reason::new(
                self.codes.own_limit,
                "flow {} at {} of the fastest has what it can get: {} together",
                &[Value::Flow(flow), Value::Percent(part), limit],
            ),
            Verdict::Fair { .. } => Reason::new(
                self.codes.equal,
                "all flows within {} of the fastest: {} together",
                &[Value::Percent(self.gamma), limit],
            ),
        });
        if step != Step::Same {
            actions.set_rate(Class::All, self.limit);
        }
    }

    /// Algorithm 1, line 2; a rate is known to `exact` bit/s.
    fn evaluate(&self, exact: f64) -> Verdict {
        let sure =
            self.relearn.then(|| self.bounds.lower / self.flows.active().count().max(1) as f64);
        let compared = || {
            self.flows
                .active()
                .filter(|f| f.1.whole)
                .filter_map(|(m, s)| Some((m.flow, m.rate?, s)))
        };
        let fastest = compared().map(|f| f.1).fold(0.0, f64::max);
        let (mut worst, mut slowest) = (None, None::<(FlowId, f64)>);
        for (flow, rate, seen) in compared() {
            let of = |other: f64| if other > 0.0 { (rate + exact).min(other) / other } else { 1.0 };
            let best = seen.highest.or(sure);
            let (of_fastest, of_best) = (of(fastest), best.map_or(1.0, of));
            if slowest.is_none_or(|s| of_fastest < s.1) {
                slowest = Some((flow, of_fastest));
            }
            let starved = of_fastest < self.gamma && of_best < self.theta;
            if starved && worst.is_none_or(|(_, part, _)| of_fastest < part) {
                worst = Some((flow, of_fastest, of_best));
            }
        }
        match worst {
            Some((flow, of_fastest, of_best)) => Verdict::Unfair { flow, of_fastest, of_best },
            None => Verdict::Fair { slowest },
        }
    }
}

impl Control for Arc {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::FlowCounters(c) => {
                self.flows.sample(c.flow, c.bytes, EpochPeak::default);
            }
            Event::FlowGone(flow) => {
                self.flows.end(*flow);
            }
            Event::Deadline if now >= self.due => {
                self.close(now, actions);
                self.due = now + self.epoch;
            }
            _ => {}
        }
        self.due = self.due.max(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn learned(&self) -> Option<BitRate> {
        Some(self.limit)
    }

    fn recall(&mut self, learned: BitRate, actions: &mut Actions) {
        self.search.recall(learned.0 as f64);
        self.limit = bucket(self.search.estimate());
        actions.because(Reason::new(
            self.codes.recalled,
            "begins with {}, which an earlier run had found",
            &[Value::Rate(self.limit)],
        ));
        actions.set_rate(Class::All, self.limit);
    }
}

#[cfg(test)]
mod tests;
