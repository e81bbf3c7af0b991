//! The level: rate per weight that all homes have, after the fullest of them.

use fairmesh_units::FlowId;

use super::home::{Home, MAX_TIMEOUT};
use super::objective::Objective;
use super::tuning::Tuning;
use crate::gateway::arc::bucket;
use crate::gateway::bounds::Bounds;
use crate::{Reason, Value};

/// State of all homes in a control period.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PeriodState {
    /// Time since the last control period, in s.
    pub elapsed: f64,
    /// Idle fraction of the gateway's air; 0 if it is not known.
    pub idle: f64,
    /// Largest fullness.
    pub fullest: f64,
    /// Home with the largest fullness.
    pub flow: Option<FlowId>,
    pub held: bool,
    pub late: bool,
    /// Largest number of failed retries of a home in this control period.
    pub failures: f64,
    pub round_trips: u32,
    /// Rate of all homes together at their mean cost, in bit/s.
    pub carried: f64,
    /// True if limits are not in force.
    pub unlimited: bool,
    /// True if a home floods, or seems to.
    ///
    /// Neither its limit nor lower limits of the others make the mesh emptier.
    pub flooded: bool,
}

impl PeriodState {
    pub fn add(&mut self, home: &Home) {
        self.carried += home.cost * home.carried;
        self.unlimited |= home.unlimited;
        self.flooded |= home.is_suspected() && !home.is_flood();
        if home.is_flood() {
            // Where an agent limits its source, its packets wait there and not in the mesh.
            self.flooded |= home.floods();
            return;
        }
        // A raised home does not bound the level of the others.
        let base = home.raised <= 1.0;
        if base && (self.flow.is_none() || home.fullness > self.fullest) {
            (self.fullest, self.flow) = (home.fullness, Some(home.flow));
        }
        self.held |= home.held;
        self.late |= home.late;
        self.failures = self.failures.max(home.failures);
        self.round_trips = self.round_trips.saturating_add(home.round_trips);
    }
}

/// Cause of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The fullest home.
    Fullest,
    /// No home asks for more.
    NoneHeld,
    /// A packet is late.
    Late,
    /// No round trip is known.
    Blind,
    /// Lowering has not helped.
    Restored,
    /// Limits are not in force.
    Unlimited,
}

impl Step {
    pub fn reason(self, level: f64, look: &PeriodState) -> Reason {
        let level = Value::Rate(bucket(level));
        let flow = look.flow.map_or(Value::None, Value::Flow);
        match self {
            Step::Fullest => Reason::new(
                "rtt.level",
                "{} each, by weight and plan: flow {} has {} of the delay at the edge of the mesh",
                &[level, flow, Value::Percent(look.fullest)],
            ),
            Step::NoneHeld => Reason::new(
                "rtt.enough",
                "{} each, by weight and plan: no home asks for more",
                &[level],
            ),
            Step::Late => Reason::new(
                "rtt.late",
                "{} each, by weight and plan: a packet in the mesh has no answer",
                &[level],
            ),
            Step::Blind => Reason::new(
                "rtt.blind",
                "{} each, by weight and plan: no round trip is known, so nothing is raised",
                &[level],
            ),
            Step::Restored => Reason::new(
                "rtt.restored",
                "{} each, by weight and plan: less has not made the delay shorter",
                &[level],
            ),
            Step::Unlimited => Reason::new(
                "rtt.unlimited",
                "{} each, by weight and plan: limits are not in force, and homes carry that on average",
                &[level],
            ),
        }
    }
}

/// An episode of overload.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Time since its start, in s.
    age: f64,
    /// Capacity at its start, in bit/s.
    from: f64,
    /// Rate that homes carried at its start, at most the capacity, in bit/s.
    carried: f64,
}

/// The search.
#[derive(Clone, Default, Debug)]
pub(super) struct Level {
    tuning: &'static Tuning,
    /// Rate of all homes together at their mean cost, in bit/s.
    capacity: f64,
    lowest: f64,
    /// Capacity with which the search begins if homes carry less, in bit/s.
    initial: f64,
    highest: f64,
    /// True if limits were not in force in the last control period.
    unlimited: bool,
    /// Fullness at the last sample.
    before: f64,
    /// True until a path has been full.
    begins: bool,
    episode: Option<Episode>,
    good: f64,
    /// Time for which the level does not fall, in s.
    rest: f64,
    /// Number of such pauses in a row.
    rests: u32,
    blind: f64,
}

impl Level {
    /// `bounds.lower`: the capacity of the slowest link.
    pub fn new(bounds: Bounds, tuning: &'static Tuning) -> Self {
        let initial = bounds.lower / tuning.initial_divisor;
        let (lowest, highest) = (bounds.lowest, bounds.upper);
        let begins = true;
        Level { tuning, capacity: initial, lowest, initial, highest, begins, ..Level::default() }
    }

    /// Rate of all homes together, in bit/s.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Starts from the result of an earlier run, within the bounds.
    pub fn recall(&mut self, capacity: f64) {
        self.capacity = capacity.clamp(self.lowest, self.highest);
    }

    /// Returns the level, bit/s: the capacity is divided among the homes that use it.
    pub fn rate(&self, homes: &[Home]) -> f64 {
        Objective::level(self.capacity, homes).min(self.highest)
    }

    /// Follows the rate that homes carry while limits are not in force.
    ///
    /// Limits then begin with the mean rate of the homes and fall from there: no home with less loses any of it.
    fn follow(&mut self, look: &PeriodState) -> Step {
        let weight = match core::mem::replace(&mut self.unlimited, true) {
            true => Tuning::weight(look.elapsed, self.tuning.long()),
            false => 1.0,
        };
        let carried = look.carried.clamp(self.initial, self.highest);
        let change = weight * (carried - self.capacity);
        self.capacity += if look.idle >= self.tuning.idle_air { change.max(0.0) } else { change };
        (self.begins, self.before) = (true, look.fullest);
        (self.episode, self.rest, self.rests) = (None, 0.0, 0);
        Step::Unlimited
    }

    /// Updates the level after a control period with `rate` per weight, in bit/s.
    pub fn step(&mut self, look: &PeriodState, rate: f64) -> Step {
        if look.unlimited {
            return self.follow(look);
        }
        self.unlimited = false;
        let (t, dt) = (self.tuning, look.elapsed);
        let full = look.fullest;
        let trouble = full > 1.0 || look.late;
        self.blind = if look.round_trips > 0 { 0.0 } else { self.blind + dt };
        self.begins &= full < t.half_full && !look.late;
        let gain = if self.begins { t.max_step() } else { t.gain };
        let change = (full - self.before).clamp(-1.0, 2.0);
        self.before = full;
        let most = t.max_step();
        let mut x = dt * (gain * (1.0 - full) - t.damping * change).clamp(-most, most);
        let mut step = Step::Fullest;
        let hold = if look.late {
            Some(Step::Late)
        } else if self.blind >= t.memory {
            Some(Step::Blind)
        } else {
            (!look.held).then_some(Step::NoneHeld)
        };
        if let Some(why) = hold.filter(|_| x > 0.0) {
            (x, step) = (0.0, why);
        }
        // A retry that fails counts once: its packet stays late for as long as TCP waits.
        x = (x - 0.5 * most * look.failures).max(-most * dt);
        if look.idle >= t.idle_air || look.flooded {
            x = x.max(0.0);
        }
        let mut capacity = self.capacity * x.exp();
        if self.rest > 0.0 {
            self.rest -= dt;
            capacity = capacity.max(self.capacity);
        } else if trouble {
            let from = self.capacity;
            // The fall of a limit that is not reached shows nothing.
            let carried = from.min(look.carried);
            let episode = self.episode.get_or_insert(Episode { age: 0.0, from, carried });
            episode.age += dt;
            let sure = episode.age > t.effect_time(rate);
            if capacity < t.useless_fall * episode.carried && full > 1.0 && sure {
                capacity = episode.from;
                self.rest = MAX_TIMEOUT * f64::from(1 << self.rests.min(3));
                (self.rests, self.episode, step) = (self.rests + 1, None, Step::Restored);
            }
        }
        self.good = if trouble { 0.0 } else { self.good + dt };
        if self.good > 1.0 {
            self.episode = None;
        }
        if self.good > t.long() {
            self.rests = 0;
        }
        self.capacity = capacity.clamp(self.lowest, self.highest);
        step
    }
}
