//! What Clarabel is asked, and what it answers.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, ExponentialConeT, IPSolver, NonnegativeConeT, SupportedConeT,
};

use super::polish::{Elastic, polish};
use super::{GOOD_ENOUGH, NOISE, Objective, Region};
use crate::maxmin::Demand;

/// What the solver is told to reach; it usually can.
const AIM: f64 = 1e-10;
/// Domains with more idle air than this are free of charge.
const SLACK: f64 = 1e-5;

/// Domains that all flows use alike; the solver sees them as one.
pub(super) struct Row {
    /// Their indices in order.
    pub alike: Vec<u32>,
    /// The flows in it and their shares.
    pub users: Vec<(u32, f64)>,
}

impl Row {
    pub fn load(&self, rates: &[f64]) -> f64 {
        self.users.iter().map(|&(i, share)| share * rates[i as usize]).sum()
    }
}

/// The problem but for its domains, in the solver's form: minimise costs · x with b − A x in a
/// product of cones. Variables are the rates of `flows` in `units`, then with a logarithmic
/// objective their logarithms.
pub(super) struct Program<'a> {
    region: &'a Region<'a>,
    /// Flows that can have anything; the others are not part of the program.
    flows: Vec<usize>,
    /// By flow, what the solver calls 1.
    units: Vec<f64>,
    logarithm: bool,
    costs: Vec<f64>,
    /// By what the costs were divided to make the largest 1.
    scale: f64,
}

impl<'a> Program<'a> {
    pub(super) fn new(region: &'a Region<'a>, objective: &Objective, max_min: &[f64]) -> Self {
        // Proportionally fair rates have the magnitude of max-min rates. The others are nothing or
        // much, and then up to what the flow could have alone.
        let units = match objective {
            Objective::Logarithm => max_min.to_vec(),
            Objective::Linear(_) => region.ceilings(),
        };
        let flows: Vec<usize> = (0..units.len()).filter(|&i| units[i] > 0.0).collect();
        let mut costs: Vec<f64> = match objective {
            Objective::Logarithm => flows.iter().map(|&i| region.demands[i].weight).collect(),
            Objective::Linear(values) => flows.iter().map(|&i| values[i] * units[i]).collect(),
        };
        let largest = costs.iter().copied().fold(0.0, f64::max);
        let scale = if largest > 0.0 { largest } else { 1.0 };
        costs.iter_mut().for_each(|c| *c /= -scale);
        let logarithm = matches!(objective, Objective::Logarithm);
        if logarithm {
            costs.splice(0..0, vec![0.0; flows.len()]);
        }
        Program { region, flows, units, logarithm, costs, scale }
    }

    /// The optimal rate of each flow when only these domains count, and the price of each domain.
    pub(super) fn solve(&self, domains: &[&Row]) -> Option<(Vec<f64>, Vec<f64>)> {
        let mut rates: Vec<f64> = (0..self.units.len()).map(|i| self.region.least(i)).collect();
        if self.flows.is_empty() {
            return Some((rates, vec![0.0; domains.len()]));
        }
        let (matrix, bounds, cones) = self.constraints(domains);
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: AIM,
            tol_gap_rel: AIM,
            tol_feas: AIM,
            // One thread, and no clock that decides: the answer depends on the problem alone.
            max_threads: 1,
            time_limit: f64::INFINITY,
            direct_solve_method: "qdldl".to_string(),
            ..DefaultSettings::default()
        };
        let nothing = CscMatrix::zeros((self.costs.len(), self.costs.len()));
        let solver = DefaultSolver::new(&nothing, &self.costs, &matrix, &bounds, &cones, settings);
        let mut solver = solver.ok()?;
        solver.solve();
        let found = solver.solution;
        for (&i, &x) in self.flows.iter().zip(&found.x) {
            // With values, a flow may well get nothing; with logarithms, never.
            let x = if x < NOISE && !self.logarithm { 0.0 } else { x };
            rates[i] =
                (x * self.units[i]).clamp(self.region.least(i), self.region.demands[i].limit);
        }
        let mut prices: Vec<f64> =
            found.z.iter().take(domains.len()).map(|z| z.max(0.0) * self.scale).collect();
        for (price, row) in prices.iter_mut().zip(domains) {
            if row.load(&rates) < 1.0 - SLACK {
                *price = 0.0;
            }
        }
        if self.logarithm {
            let mut exact = prices.clone();
            let polished = self.polished(domains, &mut exact);
            // No number fits if a price went astray.
            if domains.iter().all(|row| row.load(&polished) <= 1.0 + GOOD_ENOUGH) {
                return Some((polished, exact));
            }
        }
        Some((rates, prices))
    }

    fn polished(&self, domains: &[&Row], prices: &mut [f64]) -> Vec<f64> {
        let elastic = |(i, d): (usize, &Demand)| Elastic {
            weight: d.weight,
            least: self.region.least(i),
            limit: d.limit,
        };
        let flows: Vec<Elastic> = self.region.demands.iter().enumerate().map(elastic).collect();
        let users: Vec<&[(u32, f64)]> = domains.iter().map(|row| row.users.as_slice()).collect();
        polish(&flows, &users, prices)
    }

    /// A, b and the cones. Rows: domains, limits, minima, then per flow the three of an
    /// exponential cone, e^logarithm ≤ rate.
    fn constraints(
        &self,
        domains: &[&Row],
    ) -> (CscMatrix<f64>, Vec<f64>, Vec<SupportedConeT<f64>>) {
        let Program { region, flows, units, .. } = self;
        let (mut rows, mut columns, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut put = |row: usize, column: usize, value: f64| {
            rows.push(row);
            columns.push(column);
            values.push(value);
        };
        let mut bounds = Vec::new();
        for domain in domains {
            for &(i, share) in &domain.users {
                if let Ok(k) = flows.binary_search(&(i as usize)) {
                    put(bounds.len(), k, share * units[i as usize]);
                }
            }
            bounds.push(1.0);
        }
        for (k, &i) in flows.iter().enumerate() {
            if region.demands[i].limit.is_finite() {
                put(bounds.len(), k, 1.0);
                bounds.push(region.demands[i].limit / units[i]);
            }
        }
        for (k, &i) in flows.iter().enumerate() {
            put(bounds.len(), k, -1.0);
            bounds.push(-region.least(i) / units[i]);
        }
        let mut cones = vec![NonnegativeConeT(bounds.len())];
        if self.logarithm {
            for k in 0..flows.len() {
                put(bounds.len(), flows.len() + k, -1.0);
                put(bounds.len() + 2, k, -1.0);
                bounds.extend([0.0, 1.0, 0.0]);
                cones.push(ExponentialConeT());
            }
        }
        let size = (bounds.len(), self.costs.len());
        (CscMatrix::new_from_triplets(size.0, size.1, rows, columns, values), bounds, cones)
    }
}
