//! What Clarabel is asked and what it answers; and what is done where that is not good enough.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, ExponentialConeT, IPSolver, NonnegativeConeT, SupportedConeT,
};

use super::polish::{Elastic, costs, polish, rates};
use super::{GOOD_ENOUGH, NOISE, Objective, Region, barrier, simplex};
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

/// The rate of each flow and the price of each domain.
pub(super) type Answer = (Vec<f64>, Vec<f64>);

/// The problem but for its domains, in the solver's form: minimise costs · x with b − A x in a
/// product of cones. Variables are the rates of `flows` in `units`, then with a logarithmic
/// objective their logarithms.
pub(super) struct Program<'a> {
    region: &'a Region<'a>,
    objective: &'a Objective<'a>,
    /// Flows that can have anything; the others are not part of the program.
    flows: Vec<usize>,
    /// By flow, what the solver calls 1.
    units: Vec<f64>,
    costs: Vec<f64>,
    /// By what the costs were divided to make the largest 1.
    scale: f64,
}

impl<'a> Program<'a> {
    pub(super) fn new(
        region: &'a Region<'a>,
        objective: &'a Objective<'a>,
        max_min: &[f64],
    ) -> Self {
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
        Program { region, objective, flows, units, costs, scale }
    }

    /// The optimal rate of each flow when only these domains count, and the price of each domain.
    /// Where the solver's answer is not proven to be that, a slower method's, if it is better.
    pub(super) fn solve(&self, domains: &[&Row]) -> Option<Answer> {
        if self.flows.is_empty() {
            return Some((self.least(), vec![0.0; domains.len()]));
        }
        let interior = self.interior_point(domains);
        let missed = |answer: &Answer| self.missed_by(domains, answer);
        if let Some(answer) = interior.as_ref().filter(|a| missed(a) <= GOOD_ENOUGH) {
            return Some(answer.clone());
        }
        let mut answers: Vec<Answer> = interior.into_iter().collect();
        match self.objective {
            Objective::Logarithm => {
                let (rates, prices) = self.barrier(domains);
                answers.push(self.polished(domains, rates.clone(), prices.clone()));
                answers.push((rates, prices));
            }
            Objective::Linear(values) => answers.extend(self.simplex(domains, values)),
        }
        answers.into_iter().min_by(|a, b| missed(a).total_cmp(&missed(b)))
    }

    /// The guaranteed rates.
    fn least(&self) -> Vec<f64> {
        (0..self.units.len()).map(|i| self.region.least(i)).collect()
    }

    /// How far an answer is from feasible or from the optimum where only these domains count;
    /// infinity if it is not even a number.
    fn missed_by(&self, domains: &[&Row], (rates, prices): &Answer) -> f64 {
        let excess = domains.iter().map(|row| row.load(rates) - 1.0).fold(0.0, f64::max);
        let users: Vec<&[(u32, f64)]> = domains.iter().map(|row| row.users.as_slice()).collect();
        let costs = costs(rates.len(), &users, prices);
        let gap = self.region.gap(rates, prices.iter().sum(), &costs, self.objective);
        if gap.is_nan() { f64::INFINITY } else { excess.max(gap) }
    }

    /// What Clarabel finds.
    fn interior_point(&self, domains: &[&Row]) -> Option<Answer> {
        let mut rates = self.least();
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
            let x = if x < NOISE && !self.logarithm() { 0.0 } else { x };
            rates[i] =
                (x * self.units[i]).clamp(self.region.least(i), self.region.demands[i].limit);
        }
        let prices: Vec<f64> =
            found.z.iter().take(domains.len()).map(|z| z.max(0.0) * self.scale).collect();
        Some(self.polished(domains, rates, prices))
    }

    /// By the barrier method, from nothing that the solver found.
    fn barrier(&self, domains: &[&Row]) -> Answer {
        let flows: Vec<Elastic> = self.flows.iter().map(|&i| self.elastic(i)).collect();
        let users: Vec<Vec<(u32, f64)>> = domains.iter().map(|row| self.users(row)).collect();
        let users: Vec<&[(u32, f64)]> = users.iter().map(Vec::as_slice).collect();
        let prices = barrier::prices(&flows, &users);
        let found = rates(&flows, &costs(flows.len(), &users, &prices));
        let mut all = self.least();
        self.flows.iter().zip(found).for_each(|(&i, rate)| all[i] = rate);
        (all, prices)
    }

    /// By the simplex method. Its variables are what flows have above their minima, in `units`.
    fn simplex(&self, domains: &[&Row], values: &[f64]) -> Option<Answer> {
        let least = self.least();
        let scaled = |row: &Row| -> Vec<(usize, f64)> {
            let users = self.users(row).into_iter();
            users
                .map(|(k, share)| (k as usize, share * self.units[self.flows[k as usize]]))
                .collect()
        };
        let mut rows: Vec<_> = domains.iter().map(|row| scaled(row)).collect();
        let mut room: Vec<f64> =
            domains.iter().map(|row| (1.0 - row.load(&least)).max(0.0)).collect();
        for (k, &i) in self.flows.iter().enumerate() {
            let limit = self.region.demands[i].limit;
            if limit.is_finite() {
                rows.push(vec![(k, 1.0)]);
                room.push((limit - least[i]) / self.units[i]);
            }
        }
        let worth: Vec<f64> = self.flows.iter().map(|&i| values[i] * self.units[i]).collect();
        let (found, mut prices) = simplex::maximise(&worth, &rows, &room)?;
        prices.truncate(domains.len());
        let mut rates = least;
        for (&i, x) in self.flows.iter().zip(found) {
            rates[i] = (rates[i] + x * self.units[i]).min(self.region.demands[i].limit);
        }
        Some((rates, prices))
    }

    /// Takes the price off domains with idle air. With logarithms prices tell the rates: then what
    /// makes them fill their domains exactly, where a few steps lead to that.
    fn polished(&self, domains: &[&Row], rates: Vec<f64>, mut prices: Vec<f64>) -> Answer {
        for (price, row) in prices.iter_mut().zip(domains) {
            if row.load(&rates) < 1.0 - SLACK {
                *price = 0.0;
            }
        }
        if self.logarithm() {
            let mut exact = prices.clone();
            let flows: Vec<Elastic> = (0..rates.len()).map(|i| self.elastic(i)).collect();
            let users: Vec<&[(u32, f64)]> = domains.iter().map(|r| r.users.as_slice()).collect();
            let polished = polish(&flows, &users, &mut exact);
            // No number fits if a price went astray.
            if domains.iter().all(|row| row.load(&polished) <= 1.0 + GOOD_ENOUGH) {
                return (polished, exact);
            }
        }
        (rates, prices)
    }

    fn logarithm(&self) -> bool {
        matches!(self.objective, Objective::Logarithm)
    }

    fn elastic(&self, flow: usize) -> Elastic {
        let Demand { weight, limit } = self.region.demands[flow];
        Elastic { weight, least: self.region.least(flow), limit }
    }

    /// The users of a domain, by their place in `flows`.
    fn users(&self, row: &Row) -> Vec<(u32, f64)> {
        let place = |&(i, share): &(u32, f64)| {
            self.flows.binary_search(&(i as usize)).ok().map(|k| (k as u32, share))
        };
        row.users.iter().filter_map(place).collect()
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
        if self.logarithm() {
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
