//! Search for the fair aggregate capacity: Algorithms 2 and 3 (Jamshaid 2010 §7.4.2, §7.5.2).
//!
//! PFRC shares it (lines 1–3 and 7–8 of Algorithms 5, 6–8 of Algorithm 6).
//!
//! Points that the pseudo-code leaves open:
//! - The first estimate is the lower bound: an aggregate at which no flow starves while all start.
//! - Measured capacities and every estimate are clamped to the bounds of §7.5.2 before use: idle flows cannot move the
//!   estimate to 0, and invalid counters cannot move it beyond the capacity of the links.
//! - Line 2 of Algorithm 3 lets the bounds meet permanently, although the mesh keeps changing. Here they have
//!   met when line 3 would raise the estimate by less than `step`, or line 7 would lower it by less. The
//!   blocking bound then moves by `step`, and by twice as much with every further step in the same direction,
//!   so that the search reaches a capacity that has changed by half in four epochs.
//! - A step up over a bound that has moved is a probe. It must yield at least half of the increase; otherwise the
//!   estimate returns, even if all flows are satisfied. After a probe that failed this way or starved a flow, the next
//!   one waits for 1 good epoch, then 2, 4, and at most 8: a settled mesh is disturbed in one epoch of nine. During the
//!   wait line 3 holds, which moves the estimate towards the measured throughput.
//! - The lower bound of §7.5.2 is not low enough for every mesh: in a chain each link shares its collision domain with
//!   four others (§4.1.2), so that a flow over five hops and more gets W/5 and not W/3, and "practically achievable
//!   bounds may be lower". Below it, however, a flow that needs little, or that gains nothing from limits on others,
//!   would lower all other flows. So the bound moves only where the control allows it, and if that costs nothing: see
//!   [`crate::gateway::lower_bound`].
//! - An aggregate that is used by less than 70 % does not limit the flows, so it stays; line 3 would lower
//!   it.

use crate::gateway::bounds::Bounds;
use crate::gateway::lower_bound::{LowerBound, Trial};

/// Rule for the next estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rule {
    /// Algorithm 3; `step` is the smallest relative change that counts as a step.
    Binary { step: f64 },
    /// Algorithm 2 with α and β.
    Exponential { alpha: f64, beta: f64 },
}

/// Change of the estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Up,
    Down,
    Same,
}

/// Fraction of the estimate that must be used before it grows.
const USED_FRACTION: f64 = 0.7;
/// Longest wait for the next probe, in epochs.
const MAX_WAIT_EPOCHS: u32 = 8;
/// Largest number of doublings of a bound's move: 2^6 sensible steps cover the whole range.
const MAX_DOUBLINGS: u32 = 6;

/// A step up that tests for more capacity.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Preceding estimate, in bit/s.
    from: f64,
    /// Throughput at which the step counts as useful, in bit/s.
    earns: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct AggregateSearch {
    bounds: Bounds,
    rule: Rule,
    /// The largest factor by which line 3 may raise the estimate.
    leap: f64,
    lower_bound: LowerBound,
    low: f64,
    up: f64,
    estimate: f64,
    /// Direction of the last moves of a bound, and the number of doublings.
    gave_way: (Step, u32),
    /// The last step, if it went up over a bound that had moved.
    probe: Option<Probe>,
    /// Epochs until the next probe.
    wait: u32,
    /// Length of the last wait, in epochs.
    waited: u32,
}

impl AggregateSearch {
    pub fn new(bounds: Bounds, rule: Rule) -> Self {
        AggregateSearch {
            bounds,
            rule,
            leap: f64::INFINITY,
            lower_bound: LowerBound::new(bounds),
            low: bounds.lower,
            up: bounds.upper,
            estimate: bounds.lower,
            gave_way: (Step::Same, 0),
            probe: None,
            wait: 0,
            waited: 0,
        }
    }

    /// Limits the factor by which line 3 raises the estimate.
    pub fn with_leap(self, leap: f64) -> Self {
        AggregateSearch { leap, ..self }
    }

    /// Returns C_est, in bit/s.
    pub fn estimate(&self) -> f64 {
        self.estimate
    }

    /// Starts from an estimate of an earlier run instead of from the lower bound.
    pub fn recall(&mut self, estimate: f64) {
        self.move_to(estimate);
    }

    /// True if the estimate is at the lower bound.
    pub fn at_lower_bound(&self) -> bool {
        self.estimate <= self.lower_bound.rate() * 1.001
    }

    /// Updates the lower bound; returns a step if the bound decides the next estimate.
    ///
    /// After a change of the bound, the search continues within the new bounds.
    fn try_lower_bound(&mut self, passed: f64, starved: bool) -> Option<Step> {
        match self.lower_bound.watch(self.estimate, passed, starved) {
            Trial::None => None,
            Trial::Runs(rate) => Some(self.move_to(rate)),
            Trial::Lowered => {
                self.restart_settling();
                (self.low, self.up) = (self.lower_bound.rate(), self.bounds.lower);
                None
            }
            Trial::Kept(rate) => {
                self.restart_settling();
                Some(self.move_to(rate))
            }
        }
    }

    /// Sets the sum of all guarantees, in bit/s.
    pub fn promise(&mut self, sum: f64) {
        self.lower_bound.promise(sum);
    }

    /// Lowers the bound because a flow has less than its guarantee.
    pub fn give_way(&mut self) {
        self.lower_bound.give_way();
        self.low = self.low.min(self.lower_bound.rate());
    }

    /// Raises the estimate: incAggRate.
    pub fn increase(&mut self, passed: f64) -> Step {
        let measured = self.clamp(passed);
        let Rule::Binary { step } = self.rule else { return self.exponential(measured, true) };
        if let Some(done) = self.try_lower_bound(passed, false) {
            return done;
        }
        if passed < USED_FRACTION * self.estimate {
            return Step::Same;
        }
        self.low = measured; // Alg. 3 line 2
        if let Some(probe) = self.probe.take() {
            if passed < probe.earns {
                self.probe_failed();
                return self.move_to(probe.from);
            }
            self.waited = 0;
        }
        let proposed = ((measured + self.up) / 2.0).min(self.estimate * self.leap); // line 3
        if proposed >= self.estimate * (1.0 + step) {
            self.gave_way = (Step::Same, 0);
            return self.move_to(proposed);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return self.move_to(proposed.min(self.estimate));
        }
        let part = self.give_way_by(Step::Up, step);
        let from = self.estimate;
        self.up = self.up.max(self.clamp(from * (1.0 + part)));
        let done = self.move_to(from * (1.0 + part));
        let earns = passed * (1.0 + (self.estimate / from - 1.0) / 2.0);
        self.probe = (done == Step::Up).then_some(Probe { from, earns });
        done
    }

    /// Lowers the estimate: decAggRate.
    pub fn decrease(&mut self, passed: f64) -> Step {
        let measured = self.clamp(passed);
        let Rule::Binary { step } = self.rule else { return self.exponential(measured, false) };
        if let Some(done) = self.try_lower_bound(passed, true) {
            return done;
        }
        if self.probe.take().is_some() {
            self.probe_failed();
        }
        self.up = measured; // Alg. 3 line 6
        let proposed = (self.low + measured) / 2.0; // line 7
        if self.low < measured && proposed <= self.estimate * (1.0 - step) {
            self.gave_way = (Step::Same, 0);
            return self.move_to(proposed);
        }
        let new = self.estimate * (1.0 - self.give_way_by(Step::Down, step));
        self.low = self.low.min(self.clamp(new));
        self.move_to(new)
    }

    /// Handles a new flow: the lower bound opens, and the upper one stays.
    ///
    /// The flow reduces the rates of the others, so measurements without it give no lower bound.
    pub fn arrival(&mut self, measured: f64) -> Step {
        let measured = self.clamp(measured);
        self.restart_settling();
        self.lower_bound.interrupt();
        let Rule::Binary { .. } = self.rule else { return self.exponential(measured, false) };
        let proposed = (self.low.min(measured) + measured) / 2.0;
        self.low = self.lower_bound.rate();
        self.move_to(proposed.min(self.estimate))
    }

    /// Handles the end of a flow.
    pub fn termination(&mut self, measured: f64) -> Step {
        self.restart_settling();
        self.lower_bound.interrupt();
        self.increase(measured)
    }

    /// Returns `rate` clamped to the bounds in force; NaN gives the lower one.
    fn clamp(&self, rate: f64) -> f64 {
        if rate > self.lower_bound.rate() {
            rate.min(self.bounds.upper)
        } else {
            self.lower_bound.rate()
        }
    }

    fn restart_settling(&mut self) {
        (self.wait, self.waited, self.probe) = (0, 0, None);
        self.gave_way = (Step::Same, 0);
    }

    fn probe_failed(&mut self) {
        self.waited = (self.waited * 2).clamp(1, MAX_WAIT_EPOCHS);
        self.wait = self.waited;
        self.gave_way = (Step::Same, 0);
    }

    /// Returns the move of a bound as a fraction of the estimate.
    fn give_way_by(&mut self, direction: Step, step: f64) -> f64 {
        let times = match self.gave_way {
            (before, times) if before == direction => (times + 1).min(MAX_DOUBLINGS),
            _ => 0,
        };
        self.gave_way = (direction, times);
        (step * f64::from(1_u32 << times)).min(0.5)
    }

    fn exponential(&mut self, measured: f64, up: bool) -> Step {
        let Rule::Exponential { alpha, beta } = self.rule else { return Step::Same };
        self.move_to(measured * if up { alpha } else { beta }) // Alg. 2 lines 2 and 5
    }

    fn move_to(&mut self, new: f64) -> Step {
        let new = self.clamp(new);
        let old = core::mem::replace(&mut self.estimate, new);
        self.lower_bound.moved(self.estimate);
        if self.estimate > old {
            Step::Up
        } else if self.estimate < old {
            Step::Down
        } else {
            Step::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { lower: 300.0, lowest: 300.0, upper: 900.0 };
    const BINARY: Rule = Rule::Binary { step: 0.05 };

    fn at(search: &AggregateSearch) -> [f64; 3] {
        [search.low, search.estimate, search.up].map(|x| (x * 10.0).round() / 10.0)
    }

    #[test]
    fn algorithm_3_by_hand() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        assert_eq!(at(&s), [300.0, 300.0, 900.0]);
        s.increase(300.0); // C_low = 300, C_est = (300 + 900) / 2
        assert_eq!(at(&s), [300.0, 600.0, 900.0]);
        s.decrease(500.0); // C_up = 500, C_est = (300 + 500) / 2
        assert_eq!(at(&s), [300.0, 400.0, 500.0]);
        s.increase(390.0); // C_low = 390, C_est = (390 + 500) / 2
        assert_eq!(at(&s), [390.0, 445.0, 500.0]);
        s.decrease(440.0); // C_up = 440, C_est = (390 + 440) / 2
        assert_eq!(at(&s), [390.0, 415.0, 440.0]);
    }

    #[test]
    fn an_estimate_that_is_not_used_does_not_grow() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        s.increase(300.0);
        assert_eq!(at(&s), [300.0, 600.0, 900.0]);
        // At least 70 % of it must pass.
        assert_eq!(s.increase(415.0), Step::Same);
        assert_eq!(at(&s), [300.0, 600.0, 900.0]);
        s.increase(425.0);
        assert_eq!(at(&s), [425.0, 662.5, 900.0]);
    }

    #[test]
    fn algorithm_2_by_hand() {
        let mut s = AggregateSearch::new(BOUNDS, Rule::Exponential { alpha: 1.1, beta: 0.9 });
        s.increase(400.0);
        assert_eq!(s.estimate().round(), 440.0);
        s.decrease(430.0);
        assert_eq!(s.estimate().round(), 387.0);
        s.arrival(400.0);
        assert_eq!(s.estimate().round(), 360.0);
        s.termination(400.0);
        assert_eq!(s.estimate().round(), 440.0);
    }

    #[test]
    fn no_measurement_takes_it_beyond_the_bounds() {
        for rule in [BINARY, Rule::Exponential { alpha: 1.1, beta: 0.9 }] {
            for measured in [0.0, f64::NAN, -1.0, f64::INFINITY, 1e30] {
                let mut s = AggregateSearch::new(BOUNDS, rule);
                for up in [true, true, false, false, false, true, true, true] {
                    if up {
                        s.increase(measured)
                    } else {
                        s.decrease(measured)
                    };
                    s.arrival(measured);
                    let e = s.estimate();
                    assert!((300.0..=900.0).contains(&e), "{rule:?} {measured}: {e}");
                }
            }
        }
    }

    /// Runs epochs of a mesh that is fair up to `capacity`; returns the number of unfair ones.
    fn epochs(s: &mut AggregateSearch, capacity: f64, n: u32) -> u32 {
        (0..n)
            .filter(|_| {
                let unfair = s.estimate() > capacity;
                if unfair {
                    s.decrease(capacity)
                } else {
                    s.increase(s.estimate())
                };
                unfair
            })
            .count() as u32
    }

    #[test]
    fn it_finds_the_capacity_and_seldom_disturbs_it() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        epochs(&mut s, 500.0, 6);
        assert!((s.estimate() / 500.0 - 1.0).abs() < 0.1, "{}", s.estimate());
        // Probes become rare.
        let unfair = epochs(&mut s, 500.0, 100);
        assert!((1..=16).contains(&unfair), "{unfair} of 100 epochs unfair");
        assert!((0.9..1.06).contains(&(s.estimate() / 500.0)), "{}", s.estimate());
    }

    #[test]
    fn it_follows_a_capacity_that_changes() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        epochs(&mut s, 400.0, 40);
        epochs(&mut s, 800.0, 8 + 6);
        assert!((s.estimate() / 800.0 - 1.0).abs() < 0.11, "{}", s.estimate());
        epochs(&mut s, 400.0, 8);
        assert!((s.estimate() / 400.0 - 1.0).abs() < 0.11, "{}", s.estimate());
    }

    #[test]
    fn a_probe_that_earns_nothing_is_taken_back() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        s.increase(300.0);
        s.decrease(500.0); // 400, between 300 and 500
        s.increase(400.0); // 450
        s.increase(450.0); // 475
        let [_, before, _] = at(&s);
        assert_eq!(s.increase(470.0), Step::Up, "a probe");
        // All are satisfied, but no more passes: half of 5 % of 470 was required.
        assert_eq!(s.increase(475.0), Step::Down);
        assert_eq!(at(&s)[1], before);
        // The next probe waits for a good epoch, the one after that for two.
        assert_ne!(s.increase(470.0), Step::Up);
        assert_eq!(s.increase(470.0), Step::Up);
        assert_eq!(s.increase(485.0), Step::Up, "earned: goes on, with a larger step");
    }

    #[test]
    fn a_lower_bound_in_the_way_gives_way_by_more_each_time() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        (s.low, s.estimate, s.up) = (480.0, 500.0, 510.0);
        // Line 7 would lower it by 2.5 %, less than a step: the bounds have met.
        assert_eq!(s.decrease(495.0), Step::Down);
        assert_eq!(at(&s), [475.0, 475.0, 495.0]);
        assert_eq!(s.decrease(470.0), Step::Down, "by twice as much");
        assert_eq!(at(&s), [427.5, 427.5, 470.0]);
        // With room between the bounds line 7 applies again.
        s.low = 300.0;
        s.decrease(420.0);
        assert_eq!(at(&s), [300.0, 360.0, 420.0]);
    }

    #[test]
    fn a_flow_more_takes_nothing_from_the_upper_bound() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        epochs(&mut s, 600.0, 20);
        let up = s.up;
        // Measured while the new flow was present for only a part of the epoch.
        assert_eq!(s.arrival(450.0), Step::Down);
        assert_eq!(at(&s), [300.0, 450.0, (up * 10.0).round() / 10.0]);
    }

    #[test]
    fn a_flow_less_calls_for_an_increase_at_once() {
        let mut s = AggregateSearch::new(BOUNDS, BINARY);
        epochs(&mut s, 600.0, 40);
        s.wait = 8;
        assert_eq!(s.termination(s.estimate()), Step::Up);
    }
}
