//! Optima over all feasible rates.
//!
//! These are proportional fairness (Jamshaid 2010 §2.1.2), the largest aggregate and the largest effective
//! network utilisation (§2.1.5).
//!
//! The feasible rates form a polytope. The simplex method finds the largest sum, a barrier method
//! the proportionally fair rates. The prices of each result prove the maximum distance of its rates
//! from the optimum; a result with a larger distance than allowed is an error. Unlike the rest of
//! this crate, the last digits of a result may differ between machines.

use core::fmt;
use std::collections::BTreeSet;

mod barrier;
mod polish;
mod program;
mod simplex;

use self::program::{Program, Row};
use crate::maxmin::{self, Demand, Limit, MaxMinError};

/// The set of feasible rates.
///
/// In each domain Σ share · rate ≤ 1, and each flow is between its minimum and its limit.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// Weight and limit of each flow.
    pub demands: &'a [Demand],
    /// Guaranteed rate of each flow in bit/s; empty for none.
    pub minimum: &'a [f64],
    /// By flow, the domains that it uses, and the share of each that one bit/s of it takes.
    ///
    /// See [`crate::domain::Domains::usage`]; each domain at most once.
    pub usage: &'a [Vec<(u32, f64)>],
    /// Number of domains.
    pub domains: usize,
}

/// The best rates in a [`Region`] under an objective.
#[derive(Clone, PartialEq, Debug)]
pub struct Optimum {
    /// Rate per flow, in the unit of the shares' inverse (bit/s).
    ///
    /// Rounding may reduce a guaranteed minimum by a millionth.
    pub rates: Vec<f64>,
    /// Limit of each flow.
    ///
    /// It is its demand, or the domain that makes up most of its price, the lowest index among equal ones.
    /// Also its demand if a higher rate has no value.
    pub limits: Vec<Limit>,
    /// Fraction of each domain that is used, between 0 and 1.
    pub load: Vec<f64>,
    /// By domain, growth of the optimum per unit of its air; positive only in full domains.
    pub prices: Vec<f64>,
    /// Upper bound of the relative advantage of any feasible rates.
    ///
    /// For the largest Σ value · rate it is relative to that sum. For proportional fairness it
    /// bounds Σ weight · (r* − r) / r over Σ weight, which is 0 at the optimum.
    pub gap: f64,
}

/// Reason for the absence of an optimum.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ConvexError {
    /// Demands, minima or shares out of range.
    Region(MaxMinError),
    /// Another number of values than flows, or a negative or infinite value of this flow.
    BadValue(usize),
    /// The solver did not reach a smaller relative gap, or a smaller relative excess of air.
    Unsolved(f64),
}

impl fmt::Display for ConvexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConvexError::Region(e) => e.fmt(f),
            ConvexError::BadValue(i) => write!(f, "flow {i}: value missing or out of range"),
            ConvexError::Unsolved(gap) => {
                write!(f, "the solver came no closer to the optimum than {gap:e}")
            }
        }
    }
}
impl core::error::Error for ConvexError {}

impl From<MaxMinError> for ConvexError {
    fn from(e: MaxMinError) -> Self {
        ConvexError::Region(e)
    }
}

/// Largest relative gap that is accepted as an optimum.
const GOOD_ENOUGH: f64 = 1e-6;
/// Load above which a domain left out by the solver has to be included.
const MAX_LEFT_OUT_LOAD: f64 = 1.0 + 1e-9;
/// Level below which parts of a price, and relative rates, are rounding errors.
const ROUNDING_LEVEL: f64 = 1e-7;

/// Objective to be maximised over the flows' rates.
enum Objective<'a> {
    /// Σ weight · ln rate.
    Logarithm,
    /// Σ value · rate.
    Linear(&'a [f64]),
}

impl Region<'_> {
    /// Returns the weighted proportionally fair rates, which maximise Σ weight · ln rate.
    ///
    /// Flows with a demand of zero get zero and do not count.
    ///
    /// # Errors
    /// See [`ConvexError`].
    pub fn proportional(&self) -> Result<Optimum, ConvexError> {
        self.solve(&Objective::Logarithm)
    }

    /// Returns rates that maximise Σ value · rate.
    ///
    /// Values of 1 give the aggregate, hop counts the effective network utilisation. If the maximum
    /// is not unique, any of them is returned.
    ///
    /// # Errors
    /// See [`ConvexError`].
    pub fn maximise(&self, values: &[f64]) -> Result<Optimum, ConvexError> {
        if values.len() != self.demands.len() {
            return Err(ConvexError::BadValue(values.len().min(self.demands.len())));
        }
        if let Some(i) = values.iter().position(|v| !(*v >= 0.0 && v.is_finite())) {
            return Err(ConvexError::BadValue(i));
        }
        self.solve(&Objective::Linear(values))
    }

    fn check(&self) -> Result<(), ConvexError> {
        Ok(maxmin::check(self.demands, self.minimum, self.usage, self.domains)?)
    }

    /// Returns the maximum rate of each flow without the others.
    fn ceilings(&self) -> Vec<f64> {
        let alone = |shares: &[(u32, f64)]| {
            let most = shares.iter().map(|s| s.1).fold(0.0, f64::max);
            if most > 0.0 { 1.0 / most } else { f64::INFINITY }
        };
        self.demands.iter().zip(self.usage).map(|(d, shares)| d.limit.min(alone(shares))).collect()
    }

    fn least(&self, flow: usize) -> f64 {
        self.minimum.get(flow).copied().unwrap_or(0.0)
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> =
            (0..self.domains as u32).map(|d| Row { alike: vec![d], users: Vec::new() }).collect();
        for (i, shares) in self.usage.iter().enumerate() {
            for &(domain, share) in shares.iter().filter(|s| s.1 > 0.0) {
                rows[domain as usize].users.push((i as u32, share));
            }
        }
        let order = |a: &Row, b: &Row| {
            let pairs = a.users.iter().zip(&b.users);
            let different = pairs.map(|(x, y)| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)));
            different.fold(a.users.len().cmp(&b.users.len()), |o, next| o.then(next))
        };
        rows.retain(|r| !r.users.is_empty());
        // Stable sort keeps equal domains in order of their indices.
        rows.sort_by(order);
        rows.dedup_by(|next, kept| {
            let same = next.users == kept.users;
            if same {
                kept.alike.append(&mut next.alike);
            }
            same
        });
        rows.sort_by_key(|r| r.alike[0]);
        rows
    }

    /// Maximises an objective.
    ///
    /// Few domains bind, so the solver gets only the limits of the max-min rates at first, then the
    /// domains that its rates overfill, until there are none.
    fn solve(&self, objective: &Objective) -> Result<Optimum, ConvexError> {
        self.check()?;
        let start = maxmin::max_min(self.demands, self.usage, self.domains)?;
        let program = Program::new(self, objective);
        let rows = self.rows();
        let mut row_of = vec![usize::MAX; self.domains];
        for (k, row) in rows.iter().enumerate() {
            row.alike.iter().for_each(|&d| row_of[d as usize] = k);
        }
        // Every flow without its own limit is in one of these, so the first result is finite.
        let limiting = start.limits.iter().filter_map(|l| match l {
            Limit::Domain(d) => Some(row_of[*d]),
            Limit::Demand | Limit::Wire(_) => None,
        });
        let mut shown: BTreeSet<usize> = limiting.collect();
        loop {
            let shown_rows: Vec<&Row> = shown.iter().map(|&k| &rows[k]).collect();
            let (rates, row_prices) =
                program.solve(&shown_rows).ok_or(ConvexError::Unsolved(f64::INFINITY))?;
            let load = maxmin::loads(&rates, self.usage, self.domains);
            let before = shown.len();
            for shares in self.usage {
                let overfull = |&&(d, share): &&(u32, f64)| {
                    let hidden = !shown.contains(&row_of[d as usize]);
                    share > 0.0 && hidden && load[d as usize] > MAX_LEFT_OUT_LOAD
                };
                let fullest = |a: &&(u32, f64), b: &&(u32, f64)| {
                    load[a.0 as usize].total_cmp(&load[b.0 as usize]).then(b.0.cmp(&a.0))
                };
                let worst = shares.iter().filter(overfull).max_by(fullest).map(|&(d, _)| d);
                shown.extend(worst.map(|d| row_of[d as usize]));
            }
            if shown.len() == before {
                let mut prices = vec![0.0; self.domains];
                for (row, price) in shown_rows.iter().zip(row_prices) {
                    prices[row.alike[0] as usize] = price;
                }
                return self.finish(rates, load, prices, objective);
            }
        }
    }

    /// Makes the solver's result feasible and bounds its gap.
    fn finish(
        &self,
        mut rates: Vec<f64>,
        mut load: Vec<f64>,
        prices: Vec<f64>,
        objective: &Objective,
    ) -> Result<Optimum, ConvexError> {
        // The result may slightly exceed the available air.
        let excess = load.iter().copied().fold(1.0, f64::max);
        if excess > 1.0 + GOOD_ENOUGH {
            return Err(ConvexError::Unsolved(excess - 1.0));
        }
        if excess > 1.0 {
            rates.iter_mut().for_each(|r| *r /= excess);
            load = maxmin::loads(&rates, self.usage, self.domains);
        }
        let optimum = self.bound_gap(rates, load, prices, objective);
        // The comparison also rejects NaN.
        if optimum.gap <= GOOD_ENOUGH {
            Ok(optimum)
        } else {
            Err(ConvexError::Unsolved(optimum.gap))
        }
    }

    /// Bounds the gap of rates by weak duality.
    ///
    /// For any prices, no feasible rates r* have a larger Σ gain · r* than Σ price + Σ (gain −
    /// cost) · r* with each r* at the better end of its range.
    fn bound_gap(
        &self,
        rates: Vec<f64>,
        load: Vec<f64>,
        prices: Vec<f64>,
        objective: &Objective,
    ) -> Optimum {
        let mut costs = Vec::with_capacity(rates.len());
        let mut limits = Vec::with_capacity(rates.len());
        for (i, shares) in self.usage.iter().enumerate() {
            let parts = || shares.iter().map(|&(d, share)| (d, share * prices[d as usize]));
            costs.push(parts().map(|p| p.1).sum());
            let dearest = parts().map(|p| p.1).fold(0.0, f64::max);
            let domain = parts().find(|p| p.1 > 0.0 && p.1 >= dearest * (1.0 - ROUNDING_LEVEL));
            let satisfied = rates[i] >= self.demands[i].limit * (1.0 - ROUNDING_LEVEL);
            limits.push(match domain {
                Some((d, _)) if !satisfied => Limit::Domain(d as usize),
                _ => Limit::Demand,
            });
        }
        let gap = self.gap(&rates, prices.iter().sum(), &costs, objective);
        Optimum { rates, limits, load, prices, gap }
    }

    /// Returns an upper bound of the relative advantage of any feasible rates.
    ///
    /// It follows from the sum of all prices and the cost per unit of each flow's rate.
    fn gap(&self, rates: &[f64], prices: f64, costs: &[f64], objective: &Objective) -> f64 {
        let ceilings = self.ceilings();
        let (mut most, mut have) = (prices, 0.0);
        for (i, cost) in costs.iter().enumerate() {
            let gain = match objective {
                Objective::Logarithm if ceilings[i] == 0.0 => 0.0,
                Objective::Logarithm => self.demands[i].weight / rates[i],
                Objective::Linear(values) => values[i],
            };
            have += gain * rates[i];
            let net = gain - cost;
            most += net * if net > 0.0 { ceilings[i] } else { self.least(i) };
        }
        if most <= have { 0.0 } else { most / have - 1.0 }
    }
}
