//! Weighted max-min fairness by water-filling (Jamshaid 2010 §7.2.2).
//!
//! All rates rise together in proportion to their weights until a domain is full or a demand is
//! met. The flows concerned are capped, the others continue to rise. A flow with a guaranteed
//! minimum starts there and rises once the others have reached it.

use core::fmt;

/// Demand of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// Share of the flow relative to others at a common bottleneck.
    pub weight: f64,
    /// Maximum offered load, bit/s; infinite for a backlogged flow.
    pub limit: f64,
}

impl Default for Demand {
    fn default() -> Self {
        Demand { weight: 1.0, limit: f64::INFINITY }
    }
}

/// Reason that limits a flow's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The demand of the flow is met.
    Demand,
    /// This domain is full, and no flow in it has a higher rate per weight, minima apart.
    ///
    /// Of several domains that fill at the same level, the lowest index.
    Domain(usize),
    /// This wire is full; its number in [`crate::fair::WireUse`].
    Wire(usize),
}

/// A max-min fair allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct Allocation {
    /// Rate per flow, in the unit of the costs' inverse (bit/s for seconds per bit).
    pub rates: Vec<f64>,
    /// Limit of each flow.
    pub limits: Vec<Limit>,
    /// Fraction of each domain that is used, between 0 and 1.
    pub load: Vec<f64>,
}

/// Reason for the absence of an allocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MaxMinError {
    /// This flow's weight is not finite and positive, or its limit negative or NaN.
    BadDemand(usize),
    /// A cost of this flow is negative, infinite or NaN, or names a domain that does not exist.
    BadCost(usize),
    /// This flow uses no domain and has an infinite demand.
    Unbounded(usize),
    /// The number of demands, or of minima, differs from the number of flows.
    LengthMismatch,
    /// The minimum of this flow is negative, not finite, or above its demand.
    BadMinimum(usize),
    /// The minima alone exceed the capacity of this domain.
    Overcommitted {
        /// The fullest domain.
        domain: usize,
        /// Load of the minima, as a fraction of the domain's time; more than 1.
        load: f64,
    },
}

impl fmt::Display for MaxMinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxMinError::BadDemand(i) => write!(f, "flow {i}: weight or demand out of range"),
            MaxMinError::BadCost(i) => write!(f, "flow {i}: airtime cost out of range"),
            MaxMinError::Unbounded(i) => {
                write!(f, "flow {i} uses no shared air and asks for infinitely much")
            }
            MaxMinError::LengthMismatch => f.write_str("as many demands as flows are needed"),
            MaxMinError::BadMinimum(i) => {
                write!(f, "flow {i}: guaranteed minimum out of range or more than its demand")
            }
            MaxMinError::Overcommitted { domain, load } => write!(
                f,
                "the guaranteed minima take {:.1} % of the air in domain {domain}",
                load * 100.0
            ),
        }
    }
}
impl core::error::Error for MaxMinError {}

/// Relative distance below which levels are equal: the rounding error of equal fractions.
const TIE_TOLERANCE: f64 = 1e-12;

/// Progress of a flow.
#[derive(Clone, Copy)]
enum Progress {
    /// At its minimum until the level (rate per weight) reaches it.
    Waiting(f64),
    /// At its weight times the level.
    Rising,
    /// At its final rate.
    Capped(f64),
}

/// State of one domain while the level rises.
#[derive(Clone, Default)]
struct DomainState {
    /// The flows in it, and the share of it that one bit/s of each takes.
    users: Vec<(u32, f64)>,
    /// Level (rate per weight) at which it is full; infinite if none of its flows rises.
    full_at: f64,
}

impl DomainState {
    fn refill(&mut self, progress: &[Progress], demands: &[Demand]) {
        let (mut fixed, mut rising) = (0.0, 0.0);
        for &(flow, cost) in &self.users {
            match progress[flow as usize] {
                Progress::Waiting(rate) | Progress::Capped(rate) => fixed += rate * cost,
                Progress::Rising => rising += demands[flow as usize].weight * cost,
            }
        }
        self.full_at = if rising > 0.0 { (1.0 - fixed).max(0.0) / rising } else { f64::INFINITY };
    }
}

/// Rejects flows for which no allocation exists.
pub(crate) fn check(
    demands: &[Demand],
    minimum: &[f64],
    usage: &[Vec<(u32, f64)>],
    domains: usize,
) -> Result<(), MaxMinError> {
    let minima_fit = minimum.is_empty() || minimum.len() == demands.len();
    if demands.len() != usage.len() || !minima_fit {
        return Err(MaxMinError::LengthMismatch);
    }
    let mut committed = vec![0.0; domains];
    for (i, (demand, shares)) in demands.iter().zip(usage).enumerate() {
        let weighs = demand.weight > 0.0 && demand.weight.is_finite();
        if !weighs || demand.limit.is_nan() || demand.limit < 0.0 {
            return Err(MaxMinError::BadDemand(i));
        }
        let least = minimum.get(i).copied().unwrap_or(0.0);
        if !(least >= 0.0 && least.is_finite() && least <= demand.limit) {
            return Err(MaxMinError::BadMinimum(i));
        }
        for &(domain, cost) in shares {
            let committed = committed.get_mut(domain as usize).ok_or(MaxMinError::BadCost(i))?;
            if !(cost >= 0.0 && cost.is_finite()) {
                return Err(MaxMinError::BadCost(i));
            }
            *committed += least * cost;
        }
        if demand.limit.is_infinite() && shares.iter().all(|&(_, cost)| cost == 0.0) {
            return Err(MaxMinError::Unbounded(i));
        }
    }
    let mut worst = (0, 1.0 + TIE_TOLERANCE);
    for (domain, load) in committed.into_iter().enumerate() {
        if load > worst.1 {
            worst = (domain, load);
        }
    }
    if worst.1 > 1.0 + TIE_TOLERANCE {
        return Err(MaxMinError::Overcommitted { domain: worst.0, load: worst.1 });
    }
    Ok(())
}

/// Returns the fraction of each domain that these rates use.
pub(crate) fn loads(rates: &[f64], usage: &[Vec<(u32, f64)>], domains: usize) -> Vec<f64> {
    let mut load = vec![0.0; domains];
    for (&rate, shares) in rates.iter().zip(usage) {
        for &(domain, cost) in shares {
            load[domain as usize] += rate * cost;
        }
    }
    load
}

/// Returns the weighted max-min fair rates of flows over `domains` domains.
///
/// `usage[i]` lists, for flow i, the domains it uses and the share of each that one bit/s of it
/// takes ([`crate::domain::Domains::usage`]), each domain at most once. Takes time proportional to
/// the number of distinct rates times the number of domains, and to the size of `usage`.
///
/// # Errors
/// See [`MaxMinError`].
pub fn max_min(
    demands: &[Demand],
    usage: &[Vec<(u32, f64)>],
    domains: usize,
) -> Result<Allocation, MaxMinError> {
    max_min_above(demands, &[], usage, domains)
}

/// Returns the rates of [`max_min`] with a guaranteed minimum in bit/s per flow.
///
/// None if `minimum` is empty.
///
/// A guarantee is not additional: the remaining capacity is shared so that the weighted rates of
/// the flows above their minimum are max-min fair.
///
/// # Errors
/// See [`MaxMinError`].
pub fn max_min_above(
    demands: &[Demand],
    minimum: &[f64],
    usage: &[Vec<(u32, f64)>],
    domains: usize,
) -> Result<Allocation, MaxMinError> {
    check(demands, minimum, usage, domains)?;
    let mut states = vec![DomainState::default(); domains];
    for (i, shares) in usage.iter().enumerate() {
        for &(domain, cost) in shares {
            states[domain as usize].users.push((i as u32, cost));
        }
    }
    let start = |i: usize| match minimum.get(i) {
        Some(&least) if least == demands[i].limit => Progress::Capped(least),
        Some(&least) if least > 0.0 => Progress::Waiting(least),
        _ => Progress::Rising,
    };
    let mut progress: Vec<Progress> = (0..demands.len()).map(start).collect();
    let mut limits = vec![Limit::Demand; demands.len()];
    states.iter_mut().for_each(|t| t.refill(&progress, demands));
    let mut changed: Vec<u32> = Vec::new();
    loop {
        // The level at which a flow changes its own state: it reaches its minimum or its demand.
        let due = |i: usize| match progress[i] {
            Progress::Waiting(least) => least / demands[i].weight,
            Progress::Rising => demands[i].limit / demands[i].weight,
            Progress::Capped(_) => f64::INFINITY,
        };
        let first_due = (0..demands.len()).map(due).fold(f64::INFINITY, f64::min);
        let level = states.iter().map(|t| t.full_at).fold(first_due, f64::min);
        if level.is_infinite() {
            break;
        }
        let reached = level + level * TIE_TOLERANCE;

        changed.clear();
        changed.extend((0..demands.len()).filter(|&i| due(i) <= reached).map(|i| i as u32));
        for &i in &changed {
            let i = i as usize;
            progress[i] = match progress[i] {
                Progress::Waiting(_) => Progress::Rising,
                _ => Progress::Capped(demands[i].limit),
            };
        }
        for (domain, state) in states.iter().enumerate() {
            if state.full_at > reached {
                continue;
            }
            for &(flow, cost) in &state.users {
                let i = flow as usize;
                let rate = match progress[i] {
                    Progress::Waiting(least) => least,
                    // When released into a full domain, it may be below its minimum by a rounding
                    // error.
                    Progress::Rising => {
                        (level * demands[i].weight).max(minimum.get(i).copied().unwrap_or(0.0))
                    }
                    Progress::Capped(_) => continue,
                };
                if cost > 0.0 {
                    progress[i] = Progress::Capped(rate);
                    limits[i] = Limit::Domain(domain);
                    changed.push(flow);
                }
            }
        }
        // Only the domains of the changed flows have changed. All users of the bottleneck are now
        // capped, so that domain is removed: each round makes progress.
        let mut touched: Vec<u32> = changed
            .iter()
            .flat_map(|&i| usage[i as usize].iter().map(|&(domain, _)| domain))
            .collect();
        touched.sort_unstable();
        touched.dedup();
        for &domain in &touched {
            states[domain as usize].refill(&progress, demands);
        }
    }

    let rate = |p: Progress| match p {
        Progress::Waiting(rate) | Progress::Capped(rate) => rate,
        Progress::Rising => 0.0,
    };
    let rates: Vec<f64> = progress.into_iter().map(rate).collect();
    let load = loads(&rates, usage, domains);
    Ok(Allocation { rates, limits, load })
}
