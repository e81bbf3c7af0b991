//! Anderson acceleration of the fixed point.
//!
//! Source: Walker and Ni, SIAM J. Numer. Anal. 49 (2011) 1715. Inputs and results of earlier rounds predict
//! the result of their linear combinations, and so the combination that the map would leave unchanged.

use super::retry_chain::Collisions;
use super::unknowns::Link;

/// Number of earlier rounds that are combined.
const COMBINED_ROUNDS: usize = 3;
/// Variables per link. The first are probabilities, which determine the combination.
const LINK_VARIABLES: usize = 13;
const LINK_PROBABILITIES: usize = 5;
/// Regularisation relative to the residuals' size, which keeps the combination small.
const REGULARISATION: f64 = 1e-10;

type Numbers = [f64; LINK_VARIABLES];

/// The earlier rounds, as differences.
#[derive(Clone, Debug, Default)]
pub(super) struct Anderson {
    /// Input of the last round, its outcome and their difference.
    given: Vec<Numbers>,
    made: Vec<Numbers>,
    residual: Vec<f64>,
    /// By earlier round: differences of its outcome and its residual from the next one's.
    outcomes: [Vec<Numbers>; COMBINED_ROUNDS],
    residuals: [Vec<f64>; COMBINED_ROUNDS],
    /// Number of stored rounds, and true if there was an earlier round.
    kept: usize,
    begun: bool,
}

impl Anderson {
    /// Discards the earlier rounds.
    pub fn reset(&mut self) {
        (self.kept, self.begun) = (0, false);
    }

    /// Stores the input of a round.
    pub fn give(&mut self, links: &[Link]) {
        self.given.clear();
        self.given.extend(links.iter().map(|l| numbers(&l.collisions)));
    }

    /// Replaces the outcome of a round by the input of the next one.
    pub fn take(&mut self, links: &mut [Link]) {
        let made = links.iter().map(|l| numbers(&l.collisions));
        let rest = |(m, g): (Numbers, &Numbers)| {
            let difference: [f64; LINK_PROBABILITIES] = core::array::from_fn(|i| m[i] - g[i]);
            difference
        };
        if self.begun {
            // The oldest is overwritten.
            self.outcomes.rotate_right(1);
            self.residuals.rotate_right(1);
            self.kept = (self.kept + 1).min(COMBINED_ROUNDS);
            let (outcome, residual) = (&mut self.outcomes[0], &mut self.residuals[0]);
            outcome.clear();
            let change = |(m, b): (Numbers, &Numbers)| core::array::from_fn(|i| m[i] - b[i]);
            outcome.extend(made.clone().zip(&self.made).map(change));
            residual.clear();
            let now = made.clone().zip(&self.given).flat_map(rest);
            residual.extend(now.zip(&self.residual).map(|(now, before)| now - before));
        }
        self.residual.clear();
        self.residual.extend(made.clone().zip(&self.given).flat_map(rest));
        self.made.clear();
        self.made.extend(made);
        self.begun = true;
        let Some(weights) = self.weights() else { return };
        for (at, link) in links.iter_mut().enumerate() {
            let mut better = self.made[at];
            for (weight, outcome) in weights.iter().zip(&self.outcomes).take(self.kept) {
                for (b, o) in better.iter_mut().zip(&outcome[at]) {
                    *b -= weight * o;
                }
            }
            set(&mut link.collisions, &better);
        }
    }

    /// Returns the part of each earlier change to undo for the smallest residual.
    fn weights(&self) -> Option<[f64; COMBINED_ROUNDS]> {
        let n = self.kept;
        if n == 0 {
            return None;
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut a = [[0.0; COMBINED_ROUNDS + 1]; COMBINED_ROUNDS];
        for (row, one) in a.iter_mut().zip(&self.residuals).take(n) {
            for (product, other) in row.iter_mut().zip(&self.residuals).take(n) {
                *product = dot(one, other);
            }
            row[COMBINED_ROUNDS] = dot(one, &self.residual);
        }
        let ridge = REGULARISATION * (0..n).map(|i| a[i][i]).sum::<f64>();
        (0..n).for_each(|i| a[i][i] += ridge);
        // Symmetric and positive definite: no pivoting is needed.
        for i in 0..n {
            if a[i][i] <= 0.0 {
                return None;
            }
            for j in i + 1..n {
                let factor = a[j][i] / a[i][i];
                let row = a[i];
                a[j].iter_mut().zip(row).for_each(|(x, r)| *x -= factor * r);
            }
        }
        let mut out = [0.0; COMBINED_ROUNDS];
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|k| a[i][k] * out[k]).sum();
            out[i] = (a[i][COMBINED_ROUNDS] - known) / a[i][i];
        }
        out.iter().all(|w| w.is_finite()).then_some(out)
    }
}

/// Returns the variables of a link.
fn numbers(o: &Collisions) -> Numbers {
    [
        o.idle,
        o.hidden,
        o.met,
        o.onset,
        o.data_collision,
        o.span,
        o.window,
        o.resets,
        o.waiting,
        o.relayed,
        o.at_once,
        o.chased,
        o.idle_beside,
    ]
}

/// Sets the variables of a link, each within its bounds.
fn set(o: &mut Collisions, n: &Numbers) {
    let share = |x: f64| x.clamp(0.0, 1.0);
    o.idle = n[0].clamp(1e-3, 1.0);
    o.hidden = n[1].clamp(0.0, 0.999);
    (o.met, o.onset, o.data_collision) = (share(n[2]), share(n[3]), share(n[4]));
    o.span = n[5].max(1e-5);
    (o.window, o.resets) = (n[6].max(0.0), n[7].max(0.0));
    (o.waiting, o.relayed, o.at_once, o.chased) =
        (share(n[8]), share(n[9]), share(n[10]), share(n[11]));
    o.idle_beside = n[12].max(o.idle);
}
