//! What the counters of an epoch say, and what the search is told.

use fairmesh_units::FlowId;

use super::bursts::{Bursts, Verdict};
use super::constrained::Seen;
use super::flow::Share;
use super::{GUARANTEED, Pfrc, USED};
use crate::arc::bucket;
use crate::flows::{Changes, Meter};
use crate::search::Step;
use crate::{Actions, Reason, Value};

impl Pfrc {
    /// C_meas; `None` if nothing is known or nothing passed.
    fn measured(&self) -> Option<f64> {
        let passed = |f: &(Meter, Share)| f.1.rate().is_some_and(|r| r > 0.0);
        let rate = |f: &(Meter, Share)| f.1.rate().unwrap_or(f.1.expected);
        self.flows.active().any(passed).then(|| self.flows.active().map(rate).sum())
    }

    /// The set of active flows has changed; whether that takes the place of an evaluation.
    pub(super) fn change(&mut self, changes: Changes, actions: &mut Actions) -> bool {
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
    pub(super) fn evaluate(&mut self, actions: &mut Actions) {
        let Some(mut measured) = self.measured() else { return };
        // What passes when some are silent by choice says little about what would.
        if self.bursts && measured > USED * self.search.estimate() {
            measured = self.search.estimate();
        }
        match self.worst(actions) {
            Some(worst) => self.starved(worst, measured, actions),
            None if self.level().is_infinite() => {
                actions.because(Reason::new(
                    "pfrc.full",
                    "all {} flows have as much as they may or can use",
                    &[self.count()],
                ));
            }
            None => self.satisfied(measured, actions),
        }
        self.allocate(actions);
    }

    /// Line 2: the flow that gets the least part of its allocation, among those that get too
    /// little.
    fn worst(&mut self, actions: &mut Actions) -> Option<Worst> {
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
                    worst = Some((meter.flow, part));
                }
            }
        }
        worst.map(|(flow, part)| Worst { flow, part, unmet })
    }

    /// Line 3.
    fn starved(&mut self, worst: Worst, measured: f64, actions: &mut Actions) {
        if worst.unmet {
            self.search.lower_floor();
        }
        let step = self.search.decrease(measured);
        actions.because(Reason::new(
            "pfrc.starved",
            match step {
                Step::Down => "flow {} at {} of its allocation, below {}: decrease to {}",
                _ => "flow {} at {} of its allocation, below {}: already down to {}",
            },
            &[
                Value::Flow(worst.flow),
                Value::Percent(worst.part),
                Value::Percent(self.gamma),
                self.total(),
            ],
        ));
    }

    /// Line 5.
    fn satisfied(&mut self, measured: f64, actions: &mut Actions) {
        let step = self.search.increase(measured);
        if step == Step::Up {
            let bursts = self.flows.iter_mut().filter_map(|f| f.1.bursts.as_mut());
            bursts.for_each(Bursts::rise);
        }
        actions.because(Reason::new(
            "pfrc.satisfied",
            match step {
                Step::Up => "all {} flows at {} of their allocation or more: increase to {}",
                _ => "all {} flows at {} of their allocation or more: keep to {}",
            },
            &[self.count(), Value::Percent(self.gamma), self.total()],
        ));
    }

    /// How many flows are active.
    fn count(&self) -> Value {
        Value::Count(self.flows.active().count() as u64)
    }
}

/// A flow that gets too little.
struct Worst {
    flow: FlowId,
    /// Of its allocation.
    part: f64,
    /// Whether some flow's guarantee is not met.
    unmet: bool,
}
