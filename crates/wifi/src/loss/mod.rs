//! Frame errors that are not collisions.
//!
//! These are independent ones, the three-state burst chain, and noise.
//!
//! A [`FrameErrors`] belongs to one directed link and decides the outcome of each frame that would
//! otherwise be received (docs/models/frame-errors.md).

mod snr;

use core::fmt;
use std::sync::Arc;

use fairmesh_units::{Span, Stream, Time};

use fairmesh_phy::Rate;

pub use snr::{Fading, SnrErrors, SnrTable};
pub(crate) use snr::{PartOutcome, Survival};

/// The error process of one directed link.
#[derive(Clone, Debug, Default)]
pub enum FrameErrors {
    /// No errors.
    #[default]
    None,
    /// Independent errors.
    Independent(Independent),
    /// Error bursts: the chain of Triantafyllidou 2005 §4.5.1.
    ThreeState(ThreeState),
    /// By signal-to-noise ratio; with 802.11n, ac and ax other frames add to the noise.
    Snr(SnrErrors),
}

/// Errors without memory.
#[derive(Clone, Debug)]
pub enum Independent {
    /// Frames of every size and rate fail with this probability.
    ///
    /// One minus the delivery probability of a NetJSON map.
    Frame(f64),
    /// Bits fail independently; ln(1 − bit error ratio) per rate.
    ///
    /// The last one holds for all faster rates.
    Bit(Vec<f64>),
}

/// Reason for rejecting an error model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LossError {
    /// A probability is not in [0, 1].
    NotAProbability(f64),
    /// No bit error ratio was given.
    NoRate,
    /// Index of a row of the transition matrix that does not sum to 1.
    RowSum(usize),
    /// The chain has no unique limiting distribution, hence no mean error.
    NotErgodic,
    /// The chain's time step is zero.
    ZeroStep,
    /// There is no error table for DSSS rates.
    NoTable,
}

impl fmt::Display for LossError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossError::NotAProbability(p) => write!(f, "{p} is not a probability"),
            LossError::NoRate => f.write_str("no bit error ratio given"),
            LossError::RowSum(i) => write!(f, "row {i} of the transition matrix does not sum to 1"),
            LossError::NotErgodic => {
                f.write_str("the transition matrix has no unique limiting distribution")
            }
            LossError::NoTable => f.write_str("there is no error table for DSSS rates"),
            LossError::ZeroStep => f.write_str("the time step of the chain is zero"),
        }
    }
}
impl core::error::Error for LossError {}

fn probability(p: f64) -> Result<f64, LossError> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(LossError::NotAProbability(p)) }
}

impl FrameErrors {
    /// Returns a process that loses every frame with this probability; 0 is the perfect channel.
    ///
    /// # Errors
    /// Returns an error if `error` is not in [0, 1].
    pub fn per_frame(error: f64) -> Result<Self, LossError> {
        Ok(match probability(error)? {
            0.0 => FrameErrors::None,
            p => FrameErrors::Independent(Independent::Frame(p)),
        })
    }

    /// Returns independent bit errors with one ratio per rate.
    ///
    /// Ratios are sorted slowest rate first; the last also holds for all faster rates. A frame of b bytes survives with
    /// (1 − ratio)^(8b).
    ///
    /// # Errors
    /// Returns an error if a ratio is not in [0, 1] or there is none.
    pub fn per_bit(ratios: &[f64]) -> Result<Self, LossError> {
        if ratios.is_empty() {
            return Err(LossError::NoRate);
        }
        let ln_keep = ratios.iter().map(|&r| probability(r).map(|r| libm::log1p(-r)));
        Ok(FrameErrors::Independent(Independent::Bit(ln_keep.collect::<Result<_, _>>()?)))
    }

    /// Returns independent bit errors with this delivery probability of a frame of `bytes` bytes.
    ///
    /// It is the same at every rate.
    ///
    /// # Errors
    /// Returns an error if `delivery` is not in [0, 1].
    pub fn per_bit_from_delivery(delivery: f64, bytes: u32) -> Result<Self, LossError> {
        let ln_keep = libm::log(probability(delivery)?) / (8.0 * f64::from(bytes.max(1)));
        Ok(FrameErrors::Independent(Independent::Bit(vec![ln_keep])))
    }

    /// Returns true if a frame of `bytes` bytes that begins at `now` and lasts `air` is lost.
    ///
    /// Calls for one link come in order of time.
    pub fn lost(&mut self, now: Time, air: Span, bytes: u32, rate: Rate, rng: &mut Stream) -> bool {
        // The outcome depends on the state at the frame's start, not on its length.
        let _ = air;
        match self {
            FrameErrors::None => false,
            FrameErrors::Independent(i) => rng.chance(1.0 - i.delivery(bytes, rate)),
            FrameErrors::ThreeState(chain) => {
                let state = chain.advance(now, rng);
                rng.chance(chain.model.error[state as usize])
            }
            FrameErrors::Snr(snr) => snr.lost(bytes, rate, rng),
        }
    }

    /// Returns the long-run probability that a frame of this size and rate survives.
    ///
    /// It is 1 over the expected number of attempts if retries are unlimited.
    pub fn delivery(&self, bytes: u32, rate: Rate) -> f64 {
        match self {
            FrameErrors::None => 1.0,
            FrameErrors::Independent(i) => i.delivery(bytes, rate),
            FrameErrors::ThreeState(chain) => 1.0 - chain.model.mean_error(),
            FrameErrors::Snr(snr) => snr.delivery(bytes, rate),
        }
    }
}

impl Independent {
    fn delivery(&self, bytes: u32, rate: Rate) -> f64 {
        match self {
            Independent::Frame(p) => 1.0 - p,
            Independent::Bit(ln_keep) => {
                let per_bit = ln_keep[rate.index().min(ln_keep.len() - 1)];
                libm::exp(8.0 * f64::from(bytes) * per_bit)
            }
        }
    }
}

/// A state of the three-state chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Good: no errors.
    Good,
    /// Bad.
    Bad,
    /// Very bad.
    VeryBad,
}

const STATES: [State; 3] = [State::Good, State::Bad, State::VeryBad];

type Matrix = [[f64; 3]; 3];

/// The parameters of a three-state chain, shared by every link that uses them.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreeStateModel {
    /// Frame error probability per state.
    error: [f64; 3],
    step: Span,
    /// Transitions over 1, 2, 4, 8, … steps.
    ///
    /// In the last power all rows are the limiting distribution; it applies to every longer gap.
    powers: Vec<Matrix>,
}

impl ThreeStateModel {
    /// Transitions of Triantafyllidou 2005 Table 4.1, per step of 20 µs.
    ///
    /// From row to column, in the order good, bad, very bad.
    pub const TABLE_4_1: Matrix = [[0.95, 0.02, 0.03], [0.10, 0.20, 0.70], [0.20, 0.03, 0.77]];

    /// Returns the published model.
    ///
    /// It has no errors when good, `p` when bad, 5.5 `p` when very bad, steps of 20 µs. With p = 0.01 the mean frame
    /// error probability is 1.04 %.
    ///
    /// # Errors
    /// Returns an error if 5.5 `p` is not a probability.
    pub fn triantafyllidou(p: f64) -> Result<Self, LossError> {
        Self::new(Self::TABLE_4_1, [0.0, p, 5.5 * p], Span::from_micros(20))
    }

    /// Builds a chain with these transition probabilities per `step` and errors per state.
    ///
    /// `error` has the frame error probabilities. Rows of the matrix are from, columns to.
    ///
    /// # Errors
    /// If a number is not a probability, a row does not sum to 1, the chain has no unique limiting
    /// distribution, or the step is zero.
    pub fn new(transitions: Matrix, error: [f64; 3], step: Span) -> Result<Self, LossError> {
        for &p in transitions.iter().flatten().chain(&error) {
            probability(p)?;
        }
        for (i, row) in transitions.iter().enumerate() {
            if (row.iter().sum::<f64>() - 1.0).abs() > 1e-9 {
                return Err(LossError::RowSum(i));
            }
        }
        if step == Span::ZERO {
            return Err(LossError::ZeroStep);
        }
        let mut powers = vec![normalised(transitions)];
        // A run has fewer than 2^64 steps; a chain that has not converged by then never does.
        while powers.len() < 64 {
            let last = &powers[powers.len() - 1];
            if mixed(last) {
                return Ok(ThreeStateModel { error, step, powers });
            }
            powers.push(normalised(square(last)));
        }
        Err(LossError::NotErgodic)
    }

    /// Returns the fraction of time spent in each state.
    pub fn stationary(&self) -> [f64; 3] {
        self.powers[self.powers.len() - 1][0]
    }

    /// Returns the mean frame error probability.
    pub fn mean_error(&self) -> f64 {
        self.stationary().iter().zip(&self.error).map(|(s, e)| s * e).sum()
    }

    /// Returns the distribution `steps` after `state`: one vector-matrix product per set bit.
    fn after(&self, state: State, steps: u64) -> [f64; 3] {
        if steps >> (self.powers.len() - 1) != 0 {
            return self.stationary();
        }
        let mut v = [0.0; 3];
        v[state as usize] = 1.0;
        for (k, m) in self.powers.iter().enumerate() {
            if steps >> k & 1 == 1 {
                v = [0, 1, 2].map(|j| v[0] * m[0][j] + v[1] * m[1][j] + v[2] * m[2][j]);
            }
        }
        v
    }
}

fn square(m: &Matrix) -> Matrix {
    m.map(|row| [0, 1, 2].map(|j| row[0] * m[0][j] + row[1] * m[1][j] + row[2] * m[2][j]))
}

/// Keeps rounding errors from growing with every squaring.
fn normalised(m: Matrix) -> Matrix {
    m.map(|row| {
        let sum: f64 = row.iter().sum();
        row.map(|p| p / sum)
    })
}

fn mixed(m: &Matrix) -> bool {
    (0..3).all(|j| (m[0][j] - m[1][j]).abs() < 1e-15 && (m[0][j] - m[2][j]).abs() < 1e-15)
}

/// One link's state in a three-state chain, advanced only when a frame needs it.
#[derive(Clone, Debug)]
pub struct ThreeState {
    model: Arc<ThreeStateModel>,
    /// Step and state of the last observation; `None` before the first frame.
    seen: Option<(u64, State)>,
}

impl ThreeState {
    /// Builds a chain that begins in its limiting distribution.
    pub fn new(model: Arc<ThreeStateModel>) -> Self {
        ThreeState { model, seen: None }
    }

    /// Returns the state at `now`, drawn given the last observed state.
    ///
    /// Draws at most one random number.
    pub fn advance(&mut self, now: Time, rng: &mut Stream) -> State {
        let step = now.since(Time::ZERO) / self.model.step;
        let distribution = match self.seen {
            Some((before, state)) if step <= before => return state,
            Some((before, state)) => self.model.after(state, step - before),
            None => self.model.stationary(),
        };
        let u = rng.unit();
        let state = if u < distribution[0] {
            STATES[0]
        } else if u < distribution[0] + distribution[1] {
            STATES[1]
        } else {
            STATES[2]
        };
        self.seen = Some((step, state));
        state
    }
}

#[cfg(test)]
mod tests;
