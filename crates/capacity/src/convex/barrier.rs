//! Prices of a proportionally fair allocation by a barrier method.
//!
//! It is slower than the solver, but reliable.
//!
//! The dual problem, min Σ price + Σ max (w ln r − cost · r), is convex. With −μ Σ ln price added
//! it is strictly convex, and at its minimum each domain is used except for μ / price (Boyd and
//! Vandenberghe, Convex Optimization, §11.2). μ falls until idle capacity is negligible.

use super::polish::{Elastic, costs, curvature, rates, solve_positive};

/// Final μ, relative to the sum of weights and per domain: the remaining gap.
const FINAL_MU: f64 = 1e-9;
/// Factor by which μ falls per stage.
const MU_FACTOR: f64 = 0.2;
/// Maximum number of Newton steps at one μ, and the final decrement in units of μ.
const MAX_NEWTON_STEPS: usize = 60;
const FINAL_DECREMENT: f64 = 1e-3;
/// Minimum fraction of the predicted decrease that a step must reach.
const SUFFICIENT_DECREASE: f64 = 0.1;
/// Relative error that the comparison of two barrier values allows.
const COMPARISON_TOLERANCE: f64 = 1e-14;

/// Returns the price of each domain.
///
/// `domains[d]` lists the flows that use domain d and their shares; each flow without a limit uses one.
pub(super) fn prices(flows: &[Elastic], domains: &[&[(u32, f64)]]) -> Vec<f64> {
    let weights: f64 = flows.iter().map(|f| f.weight).sum();
    let all: Vec<usize> = (0..domains.len()).collect();
    let each = weights / domains.len() as f64;
    let (mut prices, mut mu) = (vec![each; domains.len()], each);
    while mu > FINAL_MU * each {
        mu *= MU_FACTOR;
        let objective = |prices: &[f64]| objective(flows, domains, prices, mu);
        for _ in 0..MAX_NEWTON_STEPS {
            let costs = costs(flows.len(), domains, &prices);
            let rates = rates(flows, &costs);
            let slope = |(f, (r, c)): (&Elastic, (&f64, &f64))| {
                if *r > f.least && *r < f.limit { r / c } else { 0.0 }
            };
            let slopes: Vec<f64> = flows.iter().zip(rates.iter().zip(&costs)).map(slope).collect();
            let excess = |(users, price): (&&[(u32, f64)], &f64)| {
                users.iter().map(|&(i, s)| s * rates[i as usize]).sum::<f64>() - 1.0 + mu / price
            };
            let uphill: Vec<f64> = domains.iter().zip(&prices).map(excess).collect();
            let mut matrix = curvature(&all, domains, &slopes);
            for (d, price) in prices.iter().enumerate() {
                matrix[d * domains.len() + d] += mu / (price * price);
            }
            let mut step = uphill.clone();
            solve_positive(&mut matrix, &mut step);
            let decrement: f64 = uphill.iter().zip(&step).map(|(g, s)| g * s).sum();
            if decrement < FINAL_DECREMENT * mu {
                break;
            }
            // Keeps prices positive and the objective decreasing.
            let fall = step.iter().zip(&prices).map(|(s, p)| -s / p).fold(0.0, f64::max);
            let mut part = if fall > 0.9 { 0.9 / fall } else { 1.0 };
            let before = objective(&prices);
            let moved = |part: f64| -> Vec<f64> {
                prices.iter().zip(&step).map(|(p, s)| p + part * s).collect()
            };
            let enough = |part: f64| {
                before - SUFFICIENT_DECREASE * part * decrement
                    + COMPARISON_TOLERANCE * before.abs()
            };
            while part > 1e-9 && objective(&moved(part)) > enough(part) {
                part *= 0.5;
            }
            prices = moved(part);
        }
    }
    prices
}

/// Returns the objective that is minimised.
fn objective(flows: &[Elastic], domains: &[&[(u32, f64)]], prices: &[f64], mu: f64) -> f64 {
    let costs = costs(flows.len(), domains, prices);
    let rates = rates(flows, &costs);
    let surplus = |(f, (r, c)): (&Elastic, (&f64, &f64))| f.weight * libm::log(*r) - c * r;
    let surplus: f64 = flows.iter().zip(rates.iter().zip(&costs)).map(surplus).sum();
    prices.iter().map(|p| p - mu * libm::log(*p)).sum::<f64>() + surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_of_very_different_sizes() {
        // One flow on each of two domains and one on both, with shares that differ by a million.
        // The third domain duplicates the first, the fourth is never full, the last flow has a
        // limit.
        let free = Elastic { weight: 1.0, least: 0.0, limit: f64::INFINITY };
        let flows = [free, free, free, Elastic { limit: 0.1, ..free }];
        let domains: [&[(u32, f64)]; 4] = [
            &[(0, 1.0), (2, 1e-6)],
            &[(1, 1e3), (2, 1e-6), (3, 1.0)],
            &[(0, 1.0), (2, 1e-6)],
            &[(3, 1e-3)],
        ];
        let prices = prices(&flows, &domains);
        let rates = rates(&flows, &costs(4, &domains, &prices));
        // x + y = 1 and x' + y = 0.9 with 1/x + 1/x' shared: y maximises ln(1−y)(0.9−y)y.
        let y = (1.9 * 2.0 - (3.8f64 * 3.8 - 4.0 * 3.0 * 0.9).sqrt()) / 6.0;
        let expected = [1.0 - y, (0.9 - y) * 1e-3, y * 1e6, 0.1];
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate / expected - 1.0).abs() < 1e-7, "{rates:?} {expected}");
        }
        assert!(prices[3] < 1e-7);
    }
}
