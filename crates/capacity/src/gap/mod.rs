//! GAP's fluid model: a gateway as a server with two priorities, and a limit on the first.
//!
//! Mancuso 2010 §V.
//!
//! Traffic of the gateway's neighbours has strict priority, multi-hop traffic gets the remainder. A
//! limit `R_S` on the former follows one bit: whether more than `(1 − γ) U*` of the gateway is
//! used. The model has priority, threshold and control by proxy, and no other property of a
//! wireless mesh.
//!
//! - [`Gap`]: the parameters, checked; the target limit (1) and the signalling bandwidth that stays
//!   free (2); [`Gap::equilibrium`], with its convergence speed from either side;
//! - `flow`: equations (3) to (10) in time, for loads that change in steps;
//! - [`phase`]: the direction field over limit and multi-hop backlog, for plots.
//!
//! All rates are shares of the gateway's air, in bit/s: multi-hop traffic counts once per
//! transmission that the gateway receives, so a two-hop flow of 1 Mbit/s is a load of 2 Mbit/s.
//! docs/models/gap-fluid.md has the equilibria and the agreement with the packet simulator.

use core::fmt;

pub mod phase;
pub mod trajectory;

/// Settings of GAP and the system that it controls.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gap {
    capacity: f64,
    guarantee: f64,
    gamma: f64,
    increase: f64,
    decrease: f64,
}

/// Offered loads, in bit/s of the gateway's air.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// λ_S, of the gateway's neighbours together; infinite if they are always backlogged.
    pub single: f64,
    /// λ_M, of all other nodes together.
    pub multi: f64,
}

/// Condition of §V.B that holds at the equilibrium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Regime {
    /// (a): the neighbours' demand is at most their guarantee.
    Light,
    /// (b): their demand is higher, and all demands below the threshold are met.
    Unsaturated,
    /// The border of (b).
    ///
    /// The neighbours fill the capacity below the threshold, and the whole signalling bandwidth stays free.
    /// First line of (1).
    Threshold,
    /// (c): the others use the signalling bandwidth, and the neighbours have their guarantee.
    ///
    /// Second line of (1).
    Saturated,
}

impl Regime {
    /// Returns its printed name.
    pub const fn name(self) -> &'static str {
        match self {
            Regime::Light => "light",
            Regime::Unsaturated => "unsaturated",
            Regime::Threshold => "threshold",
            Regime::Saturated => "saturated",
        }
    }
}

/// Effect of a small disturbance of the limit (Theorems 1 and 2).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Stability {
    /// The limit does not bind: throughputs and limit stay unchanged.
    Neutral,
    /// The limit returns at this speed, in bit/s per second, in finite time.
    Linear(f64),
    /// The distance to 0 shrinks by this fraction per second.
    ///
    /// The limit also returns in finite time: `R(t) = R(0) exp(−β t)` down to its equilibrium.
    Exponential(f64),
    /// Not applicable: the limit is never below the guarantee.
    Floor,
}

/// Equilibrium of the system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Equilibrium {
    /// The condition that holds.
    pub regime: Regime,
    /// R_S; the smallest one if all larger limits are equilibria.
    pub limit: f64,
    /// U_S, usage by the neighbours.
    pub single: f64,
    /// U_M, usage by the others.
    pub multi: f64,
    /// Effect of a limit slightly too small.
    pub below: Stability,
    /// Effect of a limit slightly too large.
    pub above: Stability,
}

impl Equilibrium {
    /// Returns U = U_S + U_M.
    pub fn utilization(&self) -> f64 {
        self.single + self.multi
    }

    /// Returns true if the stability criterion of Definition 1 holds on both sides.
    ///
    /// No disturbance grows.
    pub fn is_stable(&self) -> bool {
        let holds = |s: Stability| match s {
            Stability::Neutral | Stability::Floor => true,
            Stability::Linear(speed) | Stability::Exponential(speed) => speed > 0.0,
        };
        holds(self.below) && holds(self.above)
    }
}

/// A parameter out of range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum GapError {
    /// The gateway's capacity is not finite and positive.
    Capacity(f64),
    /// The guarantee is negative, not a number, or more than the capacity.
    Guarantee(f64),
    /// γ leaves the neighbours less than their guarantee, or reserves nothing (§IV.A).
    Gamma {
        /// The given value.
        gamma: f64,
        /// Upper limit of γ, (U* − U_S*) / U*.
        limit: f64,
    },
    /// α or β is not finite and positive.
    Step(f64),
}

impl fmt::Display for GapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            GapError::Capacity(c) => {
                write!(f, "a gateway's capacity must be finite and above 0, not {c}")
            }
            GapError::Guarantee(g) => {
                write!(f, "a guarantee must lie between 0 and the gateway's capacity, not {g}")
            }
            GapError::Gamma { gamma, limit } => {
                write!(
                    f,
                    "gamma must be above 0 and at most {limit:.3}, (U* - U_S*) / U*, not {gamma}"
                )
            }
            GapError::Step(step) => {
                write!(f, "increase and decrease must be finite and above 0, not {step}")
            }
        }
    }
}
impl core::error::Error for GapError {}

/// Relative distance below which two rates are equal.
const RELATIVE_TOLERANCE: f64 = 1e-9;

impl Gap {
    /// Builds the model.
    ///
    /// `capacity` U* and `guarantee` U_S* are in bit/s, `gamma` is the fraction of U* reserved for signalling,
    /// `increase` α in bit/s per second, `decrease` β per second.
    ///
    /// # Errors
    /// See [`GapError`].
    pub fn new(
        capacity: f64,
        guarantee: f64,
        gamma: f64,
        increase: f64,
        decrease: f64,
    ) -> Result<Self, GapError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if !positive(capacity) {
            return Err(GapError::Capacity(capacity));
        }
        if !(0.0..=capacity).contains(&guarantee) {
            return Err(GapError::Guarantee(guarantee));
        }
        let limit = (capacity - guarantee) / capacity;
        if !positive(gamma) || gamma > limit {
            return Err(GapError::Gamma { gamma, limit });
        }
        if let Some(&step) = [increase, decrease].iter().find(|s| !positive(**s)) {
            return Err(GapError::Step(step));
        }
        Ok(Gap { capacity, guarantee, gamma, increase, decrease })
    }

    /// Builds the model from the steps of Algorithm 1 at `nodes` neighbours every `period` s.
    ///
    /// A step adds `alpha` bit/s, or multiplies by `beta`.
    ///
    /// # Errors
    /// See [`GapError`].
    pub fn from_steps(
        capacity: f64,
        guarantee: f64,
        gamma: f64,
        (alpha, beta): (f64, f64),
        (nodes, period): (u32, f64),
    ) -> Result<Self, GapError> {
        // The slope of R(t) = R(0) β^(t / period) relative to R.
        let decrease = -libm::log(beta) / period;
        Gap::new(capacity, guarantee, gamma, f64::from(nodes) * alpha / period, decrease)
    }

    /// Returns U*, the gateway's throughput when saturated.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Returns U_S*, the guaranteed rate of the neighbours.
    pub fn guarantee(&self) -> f64 {
        self.guarantee
    }

    /// Returns U_M* = U* − U_S*.
    pub fn multi_share(&self) -> f64 {
        self.capacity - self.guarantee
    }

    /// Returns B_D = γ U*, the signalling bandwidth.
    pub fn signalling(&self) -> f64 {
        self.gamma * self.capacity
    }

    /// Returns (1 − γ) U*, above which the bit is set.
    pub fn threshold(&self) -> f64 {
        (1.0 - self.gamma) * self.capacity
    }

    /// Returns the target limit of backlogged neighbours at this multi-hop demand, equation (1).
    pub fn target_limit(&self, multi: f64) -> f64 {
        if multi <= self.multi_share() - self.signalling() {
            self.threshold() - multi
        } else {
            self.guarantee
        }
    }

    /// Returns the free part of the signalling bandwidth at that limit, equation (2).
    pub fn free_signalling(&self, multi: f64) -> f64 {
        if multi <= self.multi_share() - self.signalling() {
            self.signalling()
        } else {
            (self.multi_share() - multi).max(0.0)
        }
    }

    /// Returns the equilibrium under a constant load, from any start (§V.B).
    pub fn equilibrium(&self, load: Load) -> Equilibrium {
        let Load { single, multi } = load;
        let rest = |used: f64| multi.min(self.capacity - used);
        if single <= self.guarantee {
            return Equilibrium {
                regime: Regime::Light,
                limit: self.guarantee,
                single,
                multi: rest(single),
                // Equation (7): the limit is never below the guarantee.
                below: Stability::Floor,
                above: Stability::Neutral,
            };
        }
        if single + multi <= self.threshold() {
            return Equilibrium {
                regime: Regime::Unsaturated,
                limit: single,
                single,
                multi,
                below: Stability::Linear(self.increase),
                above: Stability::Neutral,
            };
        }
        let limit = self.target_limit(multi);
        let saturated = limit <= self.guarantee * (1.0 + RELATIVE_TOLERANCE);
        Equilibrium {
            regime: if saturated { Regime::Saturated } else { Regime::Threshold },
            limit,
            single: limit,
            multi: rest(limit),
            below: if saturated { Stability::Floor } else { Stability::Linear(self.increase) },
            above: Stability::Exponential(self.decrease),
        }
    }

    /// Returns t_rise (§VI.C), in s.
    ///
    /// It is the time from the guarantee to the threshold once all multi-hop load has ended.
    pub fn rise_time(&self) -> f64 {
        (self.threshold() - self.guarantee) / self.increase
    }

    /// Returns t_decay (§VI.C), in s.
    ///
    /// It is the time from the threshold to the guarantee once multi-hop nodes are backlogged. Infinite
    /// without a guarantee, which an exponential only approaches.
    pub fn decay_time(&self) -> f64 {
        libm::log(self.threshold() / self.guarantee) / self.decrease
    }
}
