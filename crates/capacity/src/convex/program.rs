//! Optima under a subset of the domains: simplex for sums, a barrier method for logarithms.

use super::polish::{Elastic, costs, polish, rates};
use super::{GOOD_ENOUGH, Objective, Region, barrier, simplex};
use crate::maxmin::Demand;

/// Idle share above which a domain has no price.
const MIN_IDLE_SHARE: f64 = 1e-5;

/// Domains with the same users and shares; the solver treats them as one.
pub(super) struct Row {
    /// Indices of the domains, in order.
    pub alike: Vec<u32>,
    /// Flows in the domains, and their shares.
    pub users: Vec<(u32, f64)>,
}

impl Row {
    pub fn load(&self, rates: &[f64]) -> f64 {
        self.users.iter().map(|&(i, share)| share * rates[i as usize]).sum()
    }
}

/// The rate of each flow and the price of each domain.
pub(super) type Answer = (Vec<f64>, Vec<f64>);

/// The problem without its domains.
pub(super) struct Program<'a> {
    region: &'a Region<'a>,
    objective: &'a Objective<'a>,
    /// Flows that can have a positive rate; the others are not part of the program.
    flows: Vec<usize>,
    /// By flow, its unit in the simplex method: its maximum rate without the others.
    units: Vec<f64>,
}

impl<'a> Program<'a> {
    pub(super) fn new(region: &'a Region<'a>, objective: &'a Objective<'a>) -> Self {
        let units = region.ceilings();
        let flows: Vec<usize> = (0..units.len()).filter(|&i| units[i] > 0.0).collect();
        Program { region, objective, flows, units }
    }

    /// Returns each flow's optimal rate under these domains only, and the price of each domain.
    ///
    /// `None` if the simplex method finds no optimum.
    pub(super) fn solve(&self, domains: &[&Row]) -> Option<Answer> {
        if self.flows.is_empty() {
            return Some((self.least(), vec![0.0; domains.len()]));
        }
        match self.objective {
            Objective::Logarithm => {
                let (rates, prices) = self.barrier(domains);
                let polished = self.polished(domains, rates.clone(), prices.clone());
                let missed = |answer: &Answer| self.missed_by(domains, answer);
                let better = missed(&polished) <= missed(&(rates.clone(), prices.clone()));
                Some(if better { polished } else { (rates, prices) })
            }
            Objective::Linear(values) => self.simplex(domains, values),
        }
    }

    /// Returns the guaranteed rates.
    fn least(&self) -> Vec<f64> {
        (0..self.units.len()).map(|i| self.region.least(i)).collect()
    }

    /// Returns the distance of a result from feasibility or from the optimum under these domains.
    ///
    /// Infinite if the result is not a number.
    fn missed_by(&self, domains: &[&Row], (rates, prices): &Answer) -> f64 {
        let excess = domains.iter().map(|row| row.load(rates) - 1.0).fold(0.0, f64::max);
        let users: Vec<&[(u32, f64)]> = domains.iter().map(|row| row.users.as_slice()).collect();
        let costs = costs(rates.len(), &users, prices);
        let gap = self.region.gap(rates, prices.iter().sum(), &costs, self.objective);
        if gap.is_nan() { f64::INFINITY } else { excess.max(gap) }
    }

    /// Returns the optimum by the barrier method.
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

    /// Returns the optimum by the simplex method.
    ///
    /// Its variables are the flows' rates above their minima, in `units`.
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

    /// Solves for prices that fill all domains exactly except those with idle air.
    ///
    /// The latter have a price of zero. Applied only if a few steps reach these prices.
    fn polished(&self, domains: &[&Row], rates: Vec<f64>, mut prices: Vec<f64>) -> Answer {
        for (price, row) in prices.iter_mut().zip(domains) {
            if row.load(&rates) < 1.0 - MIN_IDLE_SHARE {
                *price = 0.0;
            }
        }
        let mut exact = prices.clone();
        let flows: Vec<Elastic> = (0..rates.len()).map(|i| self.elastic(i)).collect();
        let users: Vec<&[(u32, f64)]> = domains.iter().map(|r| r.users.as_slice()).collect();
        let polished = polish(&flows, &users, &mut exact);
        // NaN, after a diverged price, fails the comparison.
        if domains.iter().all(|row| row.load(&polished) <= 1.0 + GOOD_ENOUGH) {
            return (polished, exact);
        }
        (rates, prices)
    }

    fn elastic(&self, flow: usize) -> Elastic {
        let Demand { weight, limit } = self.region.demands[flow];
        Elastic { weight, least: self.region.least(flow), limit }
    }

    /// Returns the users of a domain, by their index in `flows`.
    fn users(&self, row: &Row) -> Vec<(u32, f64)> {
        let place = |&(i, share): &(u32, f64)| {
            self.flows.binary_search(&(i as usize)).ok().map(|k| (k as u32, share))
        };
        row.users.iter().filter_map(place).collect()
    }
}
