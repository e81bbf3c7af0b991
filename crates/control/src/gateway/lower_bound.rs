//! Trials of a lower bound on the aggregate.
//!
//! There are three reasons for a flow that starves at the bound of §7.5.2, and for a bound that is little
//! used: the mesh carries less than the bound (a long chain, hidden terminals), a flow needs less than its
//! share, or a flow cannot send, for a reason independent of the others. Going below the bound is right only
//! in the first case. The cases differ in the cost of a smaller aggregate: a mesh beyond its capacity carries
//! as much as before; in the other two cases the other flows lose the difference.
//!
//! So a lower aggregate is tried for some epochs. If the throughput falls by less than half of the decrease
//! of the limit, the bound was beyond the capacity, and a lower one holds until the search is above the old
//! one again. Otherwise the old one stays, and the next trial waits for 8 epochs, then for 16, 32, at most
//! 64.

use crate::gateway::bounds::Bounds;

/// Epochs at the bound, with a starved flow or unused capacity, before a trial.
const TRIAL_AFTER_EPOCHS: u32 = 2;
/// Fraction of the bound below which it counts as little used.
const LOW_USE_FRACTION: f64 = 0.85;
/// Epochs of a trial: the flows settle in the first, the others are measured.
const TRIAL_EPOCHS: u32 = 3;
/// Minimum of the bound in units of the sum of all guarantees.
const MIN_GUARANTEE_MULTIPLE: f64 = 1.25;
/// Shortest and longest wait after a trial that failed, in epochs.
const WAIT_EPOCHS: (u32, u32) = (8, 64);

#[derive(Clone, Copy, Debug)]
enum State {
    /// The bound of §7.5.2 holds.
    ///
    /// `stuck` counts the epochs of trouble at it, `passed` is the sum of their throughput.
    Nominal { stuck: u32, passed: f64 },
    /// A lower aggregate is being tried.
    ///
    /// `before` is the earlier throughput; `passed` is the sum of the throughput in `epochs`.
    Trial { before: f64, epochs: u32, passed: f64 },
    /// The lowered bound holds.
    Lowered,
}

/// Result of an epoch for the bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Trial {
    /// No change: the search continues.
    None,
    /// A trial of this aggregate is running.
    Runs(f64),
    /// The trial cost nothing: the bound is lowered.
    Lowered,
    /// The trial failed: the search returns to this aggregate.
    Kept(f64),
}

#[derive(Clone, Debug)]
pub(crate) struct LowerBound {
    nominal: f64,
    lowest: f64,
    state: State,
    wait: u32,
    waited: u32,
}

impl LowerBound {
    pub fn new(bounds: Bounds) -> Self {
        LowerBound {
            nominal: bounds.lower,
            lowest: bounds.lowest,
            state: State::Nominal { stuck: 0, passed: 0.0 },
            wait: 0,
            waited: 0,
        }
    }

    /// Returns the lower bound in force, in bit/s.
    pub fn rate(&self) -> f64 {
        match self.state {
            State::Nominal { .. } => self.nominal,
            State::Trial { .. } | State::Lowered => self.lowest,
        }
    }

    /// Returns the aggregate of a trial: halfway to the minimum of the bound.
    fn tried(&self) -> f64 {
        (self.nominal + self.lowest) / 2.0
    }

    /// Handles an epoch: the estimate in force, its throughput, and whether a flow starved.
    pub fn watch(&mut self, estimate: f64, passed: f64, starved: bool) -> Trial {
        let tried = self.tried();
        match &mut self.state {
            State::Nominal { stuck, passed: sum } => {
                let at_bound = estimate <= self.nominal * 1.001 && self.lowest < self.nominal;
                if !(at_bound && (starved || passed < LOW_USE_FRACTION * estimate)) {
                    (*stuck, *sum) = (0, 0.0);
                    return Trial::None;
                }
                if self.wait > 0 {
                    self.wait -= 1;
                    return Trial::None;
                }
                (*stuck, *sum) = (*stuck + 1, *sum + passed);
                if *stuck < TRIAL_AFTER_EPOCHS {
                    return Trial::None;
                }
                let before = *sum / f64::from(*stuck);
                self.state = State::Trial { before, epochs: 0, passed: 0.0 };
                Trial::Runs(tried)
            }
            State::Trial { before, epochs, passed: sum } => {
                *epochs += 1;
                if *epochs > 1 {
                    *sum += passed;
                }
                if *epochs < TRIAL_EPOCHS {
                    return Trial::Runs(tried);
                }
                let after = *sum / f64::from(TRIAL_EPOCHS - 1);
                let taken = tried / self.nominal;
                if after > *before * (1.0 + taken) / 2.0 {
                    self.waited = 0;
                    self.state = State::Lowered;
                    return Trial::Lowered;
                }
                self.waited = (self.waited * 2).clamp(WAIT_EPOCHS.0, WAIT_EPOCHS.1);
                self.wait = self.waited;
                self.state = State::Nominal { stuck: 0, passed: 0.0 };
                Trial::Kept(self.nominal)
            }
            State::Lowered => Trial::None,
        }
    }

    /// Sets the sum of all guarantees.
    ///
    /// The minimum of the bound leaves capacity for other flows beside it.
    pub fn promise(&mut self, sum: f64) {
        self.lowest = self.lowest.max(MIN_GUARANTEE_MULTIPLE * sum).min(self.nominal);
    }

    /// Lowers the bound at once, at any cost, because a flow has less than its guarantee.
    pub fn give_way(&mut self) {
        self.state = State::Lowered;
    }

    /// Ends a trial after a change of the flows, which makes its measurements invalid.
    pub fn interrupt(&mut self) {
        if !matches!(self.state, State::Lowered) {
            self.state = State::Nominal { stuck: 0, passed: 0.0 };
        }
    }

    /// Records a new estimate of the search.
    pub fn moved(&mut self, estimate: f64) {
        if matches!(self.state, State::Lowered) && estimate > self.nominal * 1.001 {
            self.state = State::Nominal { stuck: 0, passed: 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { lower: 300.0, lowest: 150.0, upper: 900.0 };

    /// Returns the results of epochs in a mesh that passes `of(estimate)` and starves a flow.
    fn watch(bound: &mut LowerBound, epochs: usize, of: impl Fn(f64) -> f64) -> Vec<Trial> {
        let mut estimate = 300.0;
        let mut trials = Vec::new();
        for _ in 0..epochs {
            let trial = bound.watch(estimate, of(estimate), true);
            if let Trial::Runs(rate) | Trial::Kept(rate) = trial {
                estimate = rate;
            }
            trials.push(trial);
        }
        trials
    }

    #[test]
    fn beyond_the_capacity_a_lower_bound_costs_nothing() {
        let mut bound = LowerBound::new(BOUNDS);
        let trials = watch(&mut bound, 5, |estimate| estimate.min(180.0));
        let runs = Trial::Runs(225.0);
        assert_eq!(trials, [Trial::None, runs, runs, runs, Trial::Lowered]);
        assert_eq!(bound.rate(), 150.0);
        bound.moved(299.0);
        assert_eq!(bound.rate(), 150.0);
        bound.moved(310.0);
        assert_eq!(bound.rate(), 300.0, "above the old bound it holds again");
    }

    #[test]
    fn where_others_lose_the_bound_stays_and_trials_become_rare() {
        let mut bound = LowerBound::new(BOUNDS);
        // A quarter of the mesh is idle, the others use all that they get.
        let trials = watch(&mut bound, 5, |estimate| 0.75 * estimate);
        assert_eq!(trials[4], Trial::Kept(300.0));
        assert_eq!(bound.rate(), 300.0);
        let trials = watch(&mut bound, 10, |estimate| 0.75 * estimate);
        assert!(trials[..9].iter().all(|t| *t == Trial::None), "{trials:?}");
        assert_eq!(trials[9], Trial::Runs(225.0));
    }

    #[test]
    fn a_bound_that_is_used_and_fair_is_not_tried() {
        let mut bound = LowerBound::new(BOUNDS);
        for _ in 0..20 {
            assert_eq!(bound.watch(300.0, 290.0, false), Trial::None);
        }
        assert_eq!(bound.watch(400.0, 100.0, true), Trial::None, "there is room to go down");
        // The flows change in the middle of a trial: it ends without a result.
        watch(&mut bound, 2, |_| 100.0);
        bound.interrupt();
        assert_eq!(bound.rate(), 300.0);
    }

    #[test]
    fn with_one_bound_there_is_no_trial() {
        let mut bound = LowerBound::new(Bounds { lowest: 300.0, ..BOUNDS });
        assert!(watch(&mut bound, 20, |_| 100.0).iter().all(|t| *t == Trial::None));
    }
}
