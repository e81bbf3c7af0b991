//! Newton's method on the prices of a proportionally fair allocation.
//!
//! A logarithm is flat near its maximum: rates with an objective exact to 10⁻¹⁰ may be off by
//! 10⁻⁵. Prices that fill their domains exactly define the same optimum without this weakness, and
//! are only a few steps from the solver's prices.

/// Rate of one flow as a function of its price: weight / price, between `least` and `limit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elastic {
    pub weight: f64,
    pub least: f64,
    pub limit: f64,
}

/// Maximum number of steps; each doubles the number of exact digits.
const MAX_STEPS: usize = 12;
/// Relative amount added to the diagonal.
///
/// Domains with linearly dependent users have no unique prices; any of them is valid.
const DIAGONAL_SHIFT: f64 = 1e-12;

/// Improves `prices` in place and returns the rate of each flow at them.
///
/// `domains[d]` lists the flows that use domain d and their shares. A price of 0 means that the
/// domain is not full.
pub(super) fn polish(flows: &[Elastic], domains: &[&[(u32, f64)]], prices: &mut [f64]) -> Vec<f64> {
    for _ in 0..MAX_STEPS {
        let costs = costs(flows.len(), domains, prices);
        let rates = rates(flows, &costs);
        let excess: Vec<f64> = domains
            .iter()
            .map(|users| users.iter().map(|&(i, s)| s * rates[i as usize]).sum::<f64>() - 1.0)
            .collect();
        let active: Vec<usize> = (0..domains.len()).filter(|&d| prices[d] > 0.0).collect();
        if active.iter().all(|&d| excess[d].abs() < 1e-14) {
            break;
        }
        // Decrease of a rate per unit of price; zero at both ends of its range.
        let slopes: Vec<f64> = (0..flows.len())
            .map(|i| {
                let inside = rates[i] > flows[i].least && rates[i] < flows[i].limit;
                if inside { rates[i] / costs[i] } else { 0.0 }
            })
            .collect();
        let mut steps: Vec<f64> = active.iter().map(|&d| excess[d]).collect();
        let mut matrix = curvature(&active, domains, &slopes);
        for a in 0..active.len() {
            // A domain without elastic flows keeps its price.
            let d = &mut matrix[a * active.len() + a];
            *d = if *d > 0.0 { *d * (1.0 + DIAGONAL_SHIFT) } else { f64::INFINITY };
        }
        solve_positive(&mut matrix, &mut steps);
        for (&d, step) in active.iter().zip(steps) {
            prices[d] = (prices[d] + step).max(0.0);
        }
    }
    rates(flows, &costs(flows.len(), domains, prices))
}

/// Returns the cost per unit of each flow's rate.
pub(super) fn costs(flows: usize, domains: &[&[(u32, f64)]], prices: &[f64]) -> Vec<f64> {
    let mut costs = vec![0.0; flows];
    for (users, price) in domains.iter().zip(prices) {
        users.iter().for_each(|&(i, share)| costs[i as usize] += share * price);
    }
    costs
}

/// Returns the rate of each flow at its cost per unit.
pub(super) fn rates(flows: &[Elastic], costs: &[f64]) -> Vec<f64> {
    let rate = |(f, cost): (&Elastic, &f64)| (f.weight / cost).clamp(f.least, f.limit);
    flows.iter().zip(costs).map(rate).collect()
}

/// Returns Σ slope · share · share for each pair of active domains, row by row.
pub(super) fn curvature(active: &[usize], domains: &[&[(u32, f64)]], slopes: &[f64]) -> Vec<f64> {
    let n = active.len();
    let mut matrix = vec![0.0; n * n];
    let mut share_of = vec![0.0; slopes.len()];
    for (a, &d) in active.iter().enumerate() {
        domains[d].iter().for_each(|&(i, share)| share_of[i as usize] = share);
        for (b, &e) in active.iter().enumerate().take(a + 1) {
            let both = |&(i, share): &(u32, f64)| slopes[i as usize] * share * share_of[i as usize];
            let sum = domains[e].iter().map(both).sum();
            matrix[a * n + b] = sum;
            matrix[b * n + a] = sum;
        }
        domains[d].iter().for_each(|&(i, _)| share_of[i as usize] = 0.0);
    }
    matrix
}

/// Solves matrix · x = right for a positive definite matrix, by elimination in place.
pub(super) fn solve_positive(matrix: &mut [f64], right: &mut [f64]) {
    let n = right.len();
    for k in 0..n {
        for row in k + 1..n {
            let factor = matrix[row * n + k] / matrix[k * n + k];
            for column in k..n {
                matrix[row * n + column] -= factor * matrix[k * n + column];
            }
            right[row] -= factor * right[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|c| matrix[k * n + c] * right[c]).sum();
        right[k] = (right[k] - known) / matrix[k * n + k];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Elastic = Elastic { weight: 1.0, least: 0.0, limit: f64::INFINITY };

    #[test]
    fn a_few_steps_converge_from_far_away() {
        // Two consecutive links, a flow on each and one over both: 2/3, 2/3, 1/3 at prices 3/2.
        let domains: [&[(u32, f64)]; 2] = [&[(0, 1.0), (2, 1.0)], &[(1, 1.0), (2, 1.0)]];
        let mut prices = [1.3, 1.6];
        let rates = polish(&[FREE; 3], &domains, &mut prices);
        for (rate, expected) in rates.iter().zip([2.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0]) {
            assert!((rate - expected).abs() < 1e-14, "{rates:?}");
        }
        assert!((prices[0] - 1.5).abs() < 1e-13 && (prices[1] - 1.5).abs() < 1e-13);
    }

    #[test]
    fn dependent_domains_and_fixed_flows() {
        // The second domain is the sum of the others, and one flow cannot be reduced.
        let domains: [&[(u32, f64)]; 3] =
            [&[(0, 1.0), (1, 1.0)], &[(0, 0.5), (1, 0.5), (2, 0.5)], &[(2, 1.0)]];
        let capped = Elastic { limit: 0.25, ..FREE };
        let mut prices = [1.5, 0.2, 0.9];
        let rates = polish(&[FREE, capped, FREE], &domains, &mut prices);
        for (rate, expected) in rates.iter().zip([0.75, 0.25, 1.0]) {
            assert!((rate - expected).abs() < 1e-9, "{rates:?}");
        }
    }

    #[test]
    fn elimination_solves_a_small_system() {
        let mut matrix = [4.0, 2.0, 0.0, 2.0, 5.0, 3.0, 0.0, 3.0, 6.0];
        let mut right = [8.0, 21.0, 24.0];
        solve_positive(&mut matrix, &mut right);
        for (x, expected) in right.iter().zip([1.0, 2.0, 3.0]) {
            assert!((x - expected).abs() < 1e-14);
        }
    }
}
