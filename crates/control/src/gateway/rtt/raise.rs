//! Several bottlenecks: a home with room on its path may get more than the level.
//!
//! Max-min fairness allows more to a home only if no other home gets less for it. A home that is backlogged
//! all the time on a path that is much emptier than the fullest one has another bottleneck, or none. Such
//! homes are raised together by a step; if the level falls, the step is undone, since it was at the cost of
//! the others.

use fairmesh_units::FlowId;

use super::home::Home;
use super::tuning::Tuning;

/// Outcome of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Homes with room on their paths get more.
    Raised,
    /// The others had less, so the last step is undone.
    Undone,
}

/// Search for homes that may get more than the level.
#[derive(Clone, Default, Debug)]
pub(super) struct Raise {
    tuning: &'static Tuning,
    /// Time since the start of this period, in s.
    age: f64,
    /// Integral over this period of the logarithm of the level, in s.
    sum: f64,
    /// Time to wait beyond a period after steps that failed, in s.
    wait: f64,
    /// Number of steps that failed.
    failed: u32,
    /// Mean level while no home had more, bit/s per weight.
    reference: f64,
    /// Number of active homes in the last period.
    active: f64,
    /// Homes of the last step, and their multiples before it.
    last: Vec<(FlowId, f64)>,
}

impl Raise {
    pub fn new(tuning: &'static Tuning) -> Self {
        Raise { tuning, ..Raise::default() }
    }

    /// Handles a control period of `elapsed` s at this level, bit/s per weight.
    pub fn look(&mut self, elapsed: f64, level: f64, homes: &mut [Home]) -> Option<Outcome> {
        let t = self.tuning;
        self.age += elapsed;
        self.sum += level.max(1.0).ln() * elapsed;
        let period = t.long().max(t.effect_time(level));
        if self.age < period + self.wait {
            return None;
        }
        let mean = (self.sum / self.age).exp();
        (self.age, self.sum, self.wait) = (0.0, 0.0, 0.0);
        let active: f64 = homes.iter().map(|h| h.active).sum();
        let steady = (active - self.active).abs() <= 2.0 * t.significant_change * self.active;
        self.active = active;
        let raised = homes.iter().any(|h| h.raised > 1.0);
        if !steady || !raised {
            self.reference = mean;
        }
        if !steady {
            self.last.clear();
            return None;
        }
        let base = homes.iter().filter(|h| h.raised <= 1.0 && !h.is_flood());
        let fullest = base.map(|h| h.mean).fold(0.0, f64::max);
        for home in homes.iter_mut().filter(|h| h.mean > t.half_full * fullest) {
            home.raised = (home.raised / t.raise_factor).max(1.0);
        }
        if raised && mean < (1.0 - t.significant_change) * self.reference {
            self.undo(homes);
            self.failed += 1;
            self.wait = period * f64::from(1 << self.failed.min(3));
            return Some(Outcome::Undone);
        }
        if !core::mem::take(&mut self.last).is_empty() {
            self.failed = 0;
        }
        if fullest < t.half_full {
            return None;
        }
        for home in homes.iter_mut() {
            let wants = home.held_part.min(home.active) > 1.0 / t.raise_factor;
            if home.class && wants && home.mean < t.free_fullness * fullest {
                self.last.push((home.flow, home.raised));
                home.raised *= t.raise_factor;
            }
        }
        (!self.last.is_empty()).then_some(Outcome::Raised)
    }

    /// Undoes the last step, or, if it is not known any more, one step of all.
    fn undo(&mut self, homes: &mut [Home]) {
        let t = self.tuning;
        if self.last.is_empty() {
            homes.iter_mut().for_each(|h| h.raised = (h.raised / t.raise_factor).max(1.0));
        }
        for (flow, before) in self.last.drain(..) {
            if let Some(home) = homes.iter_mut().find(|h| h.flow == flow) {
                home.raised = home.raised.min(before);
            }
        }
    }
}
