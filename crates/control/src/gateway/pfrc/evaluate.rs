//! Evaluation of an epoch's counters, and the input of the search.

use fairmesh_units::FlowId;

use super::bursts::{Bursts, Verdict};
use super::constrained::FlowSample;
use super::flow::Share;
use super::{GUARANTEE_FRACTION, Pfrc, USED_FRACTION};
use crate::gateway::aggregate_search::Step;
use crate::gateway::arc::bucket;
use crate::gateway::flows::{Changes, Meter};
use crate::{Actions, Reason, Value};

impl Pfrc {
    /// Returns C_meas; `None` if nothing is known or nothing passed.
    fn measured(&self) -> Option<f64> {
        let passed = |f: &(Meter, Share)| f.1.rate().is_some_and(|r| r > 0.0);
        let rate = |f: &(Meter, Share)| f.1.rate().unwrap_or(f.1.expected);
        self.flows.active().any(passed).then(|| self.flows.active().map(rate).sum())
    }

    /// Handles a change of the set of active flows; returns true if it replaces an evaluation.
    pub(super) fn change(&mut self, changes: Changes, actions: &mut Actions) -> bool {
        let now = self.flows.active().count() as u32;
        let before = (now + changes.ended).saturating_sub(changes.arrived);
        // With `+bursts` an end, or the return of a known flow, leaves the aggregate alone.
        let expected = if self.bursts { changes.known } else { 0 };
        let new = changes.arrived > expected || (changes.ended > 0 && !self.bursts);
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
        !self.bursts
    }

    /// Algorithm 4.
    pub(super) fn evaluate(&mut self, actions: &mut Actions) {
        let Some(mut measured) = self.measured() else { return };
        // While some flows are idle by choice, the throughput is not a measurement of the capacity.
        if self.bursts && measured > USED_FRACTION * self.search.estimate() {
            measured = self.search.estimate();
        }
        let Judgement { worst, lost, unmet } = self.judge(actions);
        if let Some((flow, part)) = worst {
            if unmet {
                self.search.give_way();
            }
            let text = match self.search.decrease(measured) {
                Step::Down => "flow {} at {} of its allocation, below {}: decrease to {}",
                _ => "flow {} at {} of its allocation, below {}: already down to {}",
            }; // line 3
            let values =
                [Value::Flow(flow), Value::Percent(part), Value::Percent(self.gamma), self.total()];
            actions.because(Reason::new("pfrc.starved", text, &values));
        } else if let Some(flow) = lost {
            let text = "flow {} sends nothing since it starved: its limit stays at {}";
            actions.because(Reason::new("pfrc.lost", text, &[Value::Flow(flow), self.total()]));
        } else {
            self.satisfied(measured, actions);
        }
        self.allocate(actions);
    }

    /// Raises the aggregate: no flow is starved.
    fn satisfied(&mut self, measured: f64, actions: &mut Actions) {
        let flows = Value::Count(self.flows.active().count() as u64);
        if self.level().is_infinite() {
            let text = "all {} flows have as much as they may or can use";
            return actions.because(Reason::new("pfrc.full", text, &[flows]));
        }
        let text = match self.search.increase(measured) {
            Step::Up => {
                let bursts = self.flows.iter_mut().filter_map(|f| f.1.bursts.as_mut());
                bursts.for_each(Bursts::rise);
                "all {} flows at {} of their allocation or more: increase to {}"
            }
            _ => "all {} flows at {} of their allocation or more: keep to {}",
        }; // line 5
        let values = [flows, Value::Percent(self.gamma), self.total()];
        actions.because(Reason::new("pfrc.satisfied", text, &values));
    }

    /// Finds the flows that have less than they should (line 2).
    fn judge(&mut self, actions: &mut Actions) -> Judgement {
        let (gamma, bursts) = (self.gamma, self.bursts);
        let constrained = self.headroom.is_some();
        let (at_bound, level) = (self.search.at_lower_bound(), self.level());
        let mut found = Judgement { worst: None, lost: None, unmet: false };
        for (meter, share) in self.flows.iter_mut() {
            // With windows a flow that has sent anything can be judged.
            let whole = meter.active && share.whole;
            if !(whole || bursts && share.passed > 0.0) {
                continue;
            }
            let (Some(part), Some(rate)) = (share.part(), share.rate()) else { continue };
            // A guarantee is strict: γ of it is not enough.
            let promised = share.guarantee > 0.0 && rate < GUARANTEE_FRACTION * share.guarantee;
            let seen = FlowSample { rate, seconds: share.seconds, limit: share.limit.0 as f64 };
            let verdict = share.verdict(part, gamma);
            meter.wait = share.bursts.as_ref().map_or(0, Bursts::patience);
            // A flow without demand for its guarantee does not break it.
            let promised = promised && (part >= gamma || verdict == Verdict::Starved);
            match verdict {
                _ if promised => {}
                Verdict::Unknown => continue,
                Verdict::Lost => {
                    found.lost = Some(meter.flow);
                    continue;
                }
                Verdict::Enough => {
                    share.demand.met(seen, level * share.weight);
                    continue;
                }
                Verdict::Starved => {}
            }
            if constrained && share.demand.missed(seen, at_bound) {
                actions.because(Reason::new(
                    "pfrc.constrained",
                    "flow {} uses {} whatever it is allowed: the others get the rest",
                    &[Value::Flow(meter.flow), Value::Rate(bucket(rate))],
                ));
                continue;
            }
            found.unmet |= promised;
            if found.worst.is_none_or(|w| part < w.1) {
                found.worst = Some((meter.flow, part));
            }
        }
        found
    }
}

/// Result of an epoch for all flows.
struct Judgement {
    /// The starved flow with the smallest fraction of its allocation, and that fraction.
    worst: Option<(FlowId, f64)>,
    /// A flow that has been idle since it starved.
    lost: Option<FlowId>,
    /// True if a flow has less than its guarantee.
    unmet: bool,
}
