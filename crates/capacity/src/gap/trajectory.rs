//! Equations (3) to (10) of Mancuso 2010 over time.
//!
//! The right-hand side of (10) jumps where U crosses the threshold and where R_S meets the demand
//! or the guarantee. Between jumps the solution is a straight line or an exponential, which a step
//! follows. A step that would cross a jump ends on it, so that the system slides along the
//! threshold instead of oscillating across it.

use super::{Gap, Load};

/// The system at one instant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct State {
    /// R_S, bit/s.
    pub limit: f64,
    /// q_c, the backlog before the limit, bit.
    pub waiting: f64,
    /// q_M, the multi-hop backlog, bit.
    pub backlog: f64,
}

/// The system at one instant, with its throughput.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Seconds from the start.
    pub time: f64,
    /// State of the system.
    pub state: State,
    /// U_S, bit/s.
    pub single: f64,
    /// U_M, bit/s.
    pub multi: f64,
}

/// Rate of change of the state at one instant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slope {
    /// Ṙ_S of (10), bit/s per second.
    pub limit: f64,
    /// q̇_c of (8), in bit/s.
    pub waiting: f64,
    /// q̇_M of (9), in bit/s.
    pub backlog: f64,
}

/// Returns the throughput without control: equations (3) to (6) at rest.
///
/// Strict priority gives the neighbours their whole demand, and the others the rest.
pub fn uncontrolled(capacity: f64, load: Load) -> (f64, f64) {
    let single = load.single.min(capacity);
    (single, load.multi.min(capacity - single))
}

impl Gap {
    /// Returns U_S and U_M, equations (4) and (7); an empty buffer passes its arrivals.
    pub fn carried(&self, state: State, load: Load) -> (f64, f64) {
        let allowed = state.limit.min(self.capacity);
        let single = if state.waiting > 0.0 { allowed } else { allowed.min(load.single) };
        let left = self.capacity - single;
        let multi = if state.backlog > 0.0 { left } else { left.min(load.multi) };
        (single, multi)
    }

    /// Returns the rates of equations (8), (9) and (10).
    pub fn slope(&self, state: State, load: Load) -> Slope {
        let (single, multi) = self.carried(state, load);
        let used = single + multi;
        let limit = if used < self.threshold() && state.limit < load.single {
            self.increase
        } else if used > self.threshold() && single > self.guarantee {
            -self.decrease * state.limit
        } else {
            0.0
        };
        Slope { limit, waiting: load.single - single, backlog: load.multi - multi }
    }

    /// Returns the limit after `step` seconds.
    fn moved(&self, state: State, load: Load, step: f64) -> f64 {
        let slope = |limit: f64| self.slope(State { limit, ..state }, load).limit;
        let now = slope(state.limit);
        if now == 0.0 {
            return state.limit;
        }
        let far = if now > 0.0 {
            state.limit + now * step
        } else {
            state.limit * libm::exp(-self.decrease * step)
        };
        if slope(far) * now > 0.0 {
            return far;
        }
        // Bisects for the jump in between.
        let (mut inside, mut beyond) = (state.limit, far);
        for _ in 0..60 {
            let middle = (inside + beyond) / 2.0;
            if slope(middle) * now > 0.0 {
                inside = middle;
            } else {
                beyond = middle;
            }
        }
        // On the jump if the slope is zero there, otherwise just before it.
        if slope(beyond) == 0.0 { beyond } else { inside }
    }

    /// Follows the system from `start` through `loads` in steps of `step` s.
    ///
    /// Each load has its duration in s. An infinite load of the neighbours keeps their buffer full.
    ///
    /// # Panics
    /// If `step` is not positive.
    pub fn follow(&self, start: State, loads: &[(f64, Load)], step: f64) -> Vec<Sample> {
        assert!(step > 0.0, "a step takes time");
        let mut state = start;
        let mut moments = Vec::new();
        let (mut time, mut end) = (0.0, 0.0);
        for &(lasts, load) in loads {
            end += lasts;
            while time < end {
                let (single, multi) = self.carried(state, load);
                moments.push(Sample { time, state, single, multi });
                let slope = self.slope(state, load);
                let left = (end - time).min(step);
                let queue = |q: f64, slope: f64| {
                    let next = (q + slope * left).max(0.0);
                    if next.is_finite() { next } else { f64::MAX }
                };
                state = State {
                    limit: self.moved(state, load, left),
                    waiting: queue(state.waiting, slope.waiting),
                    backlog: queue(state.backlog, slope.backlog),
                };
                time += left;
                // Avoids a negligible last step caused by rounding.
                if end - time < step * 1e-6 {
                    time = end;
                }
            }
        }
        if let Some(&(_, load)) = loads.last() {
            let (single, multi) = self.carried(state, load);
            moments.push(Sample { time, state, single, multi });
        }
        moments
    }
}
