//! Several bottlenecks: a home with room on its path may get more than the level.
//!
//! Max-min fairness allows more to a home only if no other home gets less for it. A home that is backlogged
//! all the time on a path that is much emptier than the fullest one has another bottleneck, or none. Such
//! homes are raised together by a step; if the level falls, the step is undone, since it was at the cost of
//! the others.

use fairmesh_units::FlowId;

use super::home::Home;
use super::{HALF_FULL, PACKET_BITS};

/// Fraction of the fullest home's mean fullness below which a home's path has room.
///
/// On meshes with one bottleneck all homes had at least 0.37 of it; with several bottlenecks, those with
/// another one had 0.03 to 0.32.
const FREE_FULLNESS: f64 = 0.3;
/// Fraction of the fullest home's mean fullness above which a home's path has no room.
const BOTTLENECK_FULLNESS: f64 = 0.45;
/// Minimum of the time with backlog and of the used level for a home to be raised.
const MIN_DEMAND: f64 = 0.8;
/// Factor of a step.
const STEP_FACTOR: f64 = 1.25;
/// Fraction of the level that the others may lose by all steps.
const MAX_LOSS: f64 = 0.06;
/// Time between two steps, in s.
///
/// After a step that failed it doubles, up to [`MAX_PERIODS`] times.
const PERIOD: f64 = 15.0;
/// Time between two steps, in packets at the level.
const PERIOD_PACKETS: f64 = 40.0;
const MAX_PERIODS: u32 = 4;
/// Relative change of the number of active homes above which levels are not compared.
const MAX_HOMES_CHANGE: f64 = 0.1;

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
    /// Handles a control period of `elapsed` s at this level, bit/s per weight.
    pub fn look(&mut self, elapsed: f64, level: f64, homes: &mut [Home]) -> Option<Outcome> {
        self.age += elapsed;
        self.sum += level.max(1.0).ln() * elapsed;
        let period = PERIOD.max(PERIOD_PACKETS * PACKET_BITS / level.max(1.0));
        if self.age < period + self.wait {
            return None;
        }
        let mean = (self.sum / self.age).exp();
        (self.age, self.sum, self.wait) = (0.0, 0.0, 0.0);
        let active: f64 = homes.iter().map(|h| h.active).sum();
        let steady = (active - self.active).abs() <= MAX_HOMES_CHANGE * self.active;
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
        for home in homes.iter_mut().filter(|h| h.mean > BOTTLENECK_FULLNESS * fullest) {
            home.raised = (home.raised / STEP_FACTOR).max(1.0);
        }
        if raised && mean < (1.0 - MAX_LOSS) * self.reference {
            self.undo(homes);
            self.failed += 1;
            self.wait = period * f64::from(1 << self.failed.min(MAX_PERIODS));
            return Some(Outcome::Undone);
        }
        if !core::mem::take(&mut self.last).is_empty() {
            self.failed = 0;
        }
        if fullest < HALF_FULL {
            return None;
        }
        for home in homes.iter_mut() {
            let wants = home.held_part > MIN_DEMAND && home.active > MIN_DEMAND;
            if home.class && wants && home.mean < FREE_FULLNESS * fullest {
                self.last.push((home.flow, home.raised));
                home.raised *= STEP_FACTOR;
            }
        }
        (!self.last.is_empty()).then_some(Outcome::Raised)
    }

    /// Undoes the last step, or, if it is not known any more, one step of all.
    fn undo(&mut self, homes: &mut [Home]) {
        if self.last.is_empty() {
            homes.iter_mut().for_each(|h| h.raised = (h.raised / STEP_FACTOR).max(1.0));
        }
        for (flow, before) in self.last.drain(..) {
            if let Some(home) = homes.iter_mut().find(|h| h.flow == flow) {
                home.raised = home.raised.min(before);
            }
        }
    }
}
