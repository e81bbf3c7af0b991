//! Weighted max-min fairness by water-filling (Jamshaid 2010 §7.2.2).
//!
//! All rates rise together, each in proportion to its weight, until a domain is full or a flow has
//! what it asked for; the flows concerned are capped, and the others go on rising.

use core::fmt;

/// What one flow wants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// Its share relative to others at a common bottleneck.
    pub weight: f64,
    /// The most it sends, in bit/s; infinite for a backlogged flow.
    pub limit: f64,
}

impl Default for Demand {
    fn default() -> Self {
        Demand { weight: 1.0, limit: f64::INFINITY }
    }
}

/// What keeps a flow from having more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// It asked for no more.
    Demand,
    /// This domain is full, and no flow in it has a higher rate per weight. When several domains
    /// filled at the same moment, the one with the lowest index.
    Domain(usize),
}

/// A max-min fair allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct Allocation {
    /// Rate per flow, in the unit of the costs' inverse (bit/s for seconds per bit).
    pub rates: Vec<f64>,
    /// What limits each flow.
    pub limits: Vec<Limit>,
    /// Fraction of each domain that is used, between 0 and 1.
    pub load: Vec<f64>,
}

/// Why no allocation exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MaxMinError {
    /// This flow's weight is not finite and positive, or its limit negative or NaN.
    BadDemand(usize),
    /// A cost of this flow is negative, infinite or NaN, or names a domain that does not exist.
    BadCost(usize),
    /// This flow uses no domain and asks for infinitely much.
    Unbounded(usize),
    /// There are not as many demands as flows.
    LengthMismatch,
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
        }
    }
}
impl core::error::Error for MaxMinError {}

/// Levels this close fill at the same moment: what rounding makes of equal fractions.
const TIE: f64 = 1e-12;

/// One domain while the water rises.
#[derive(Clone, Default)]
struct Tank {
    /// The flows in it and the share of it one bit/s of theirs takes.
    users: Vec<(u32, f64)>,
    /// The level (rate per weight) at which it is full; infinite once nothing in it rises.
    full_at: f64,
}

impl Tank {
    fn refill(&mut self, rates: &[Option<f64>], demands: &[Demand]) {
        let (mut fixed, mut rising) = (0.0, 0.0);
        for &(flow, cost) in &self.users {
            match rates[flow as usize] {
                Some(rate) => fixed += rate * cost,
                None => rising += demands[flow as usize].weight * cost,
            }
        }
        self.full_at = if rising > 0.0 { (1.0 - fixed).max(0.0) / rising } else { f64::INFINITY };
    }
}

/// The weighted max-min fair rates of flows over `domains` domains.
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
    if demands.len() != usage.len() {
        return Err(MaxMinError::LengthMismatch);
    }
    let mut tanks = vec![Tank::default(); domains];
    for (i, (demand, shares)) in demands.iter().zip(usage).enumerate() {
        let weighs = demand.weight > 0.0 && demand.weight.is_finite();
        if !weighs || demand.limit.is_nan() || demand.limit < 0.0 {
            return Err(MaxMinError::BadDemand(i));
        }
        for &(domain, cost) in shares {
            if !(cost >= 0.0 && cost.is_finite()) {
                return Err(MaxMinError::BadCost(i));
            }
            let tank = tanks.get_mut(domain as usize).ok_or(MaxMinError::BadCost(i))?;
            tank.users.push((i as u32, cost));
        }
        if demand.limit.is_infinite() && shares.iter().all(|&(_, cost)| cost == 0.0) {
            return Err(MaxMinError::Unbounded(i));
        }
    }

    let mut rates: Vec<Option<f64>> = vec![None; demands.len()];
    let mut limits = vec![Limit::Demand; demands.len()];
    tanks.iter_mut().for_each(|t| t.refill(&rates, demands));
    let mut capped: Vec<u32> = Vec::new();
    loop {
        let sated = |i: usize| demands[i].limit / demands[i].weight;
        let rising = (0..demands.len()).filter(|&i| rates[i].is_none());
        let first_sated = rising.map(sated).fold(f64::INFINITY, f64::min);
        let level = tanks.iter().map(|t| t.full_at).fold(first_sated, f64::min);
        if level.is_infinite() {
            break;
        }
        let reached = level + level * TIE;

        capped.clear();
        for i in 0..demands.len() {
            if rates[i].is_none() && sated(i) <= reached {
                rates[i] = Some(demands[i].limit);
                capped.push(i as u32);
            }
        }
        for (domain, tank) in tanks.iter().enumerate() {
            if tank.full_at > reached {
                continue;
            }
            for &(flow, cost) in &tank.users {
                let i = flow as usize;
                if cost > 0.0 && rates[i].is_none() {
                    rates[i] = Some(level * demands[i].weight);
                    limits[i] = Limit::Domain(domain);
                    capped.push(flow);
                }
            }
        }
        // Only the domains of the flows just capped have changed. In their own bottleneck every
        // user is capped now, so it leaves the race: progress is certain.
        let mut touched: Vec<u32> = capped
            .iter()
            .flat_map(|&i| usage[i as usize].iter().map(|&(domain, _)| domain))
            .collect();
        touched.sort_unstable();
        touched.dedup();
        for &domain in &touched {
            tanks[domain as usize].refill(&rates, demands);
        }
    }

    let rates: Vec<f64> = rates.into_iter().map(|r| r.unwrap_or(0.0)).collect();
    let used = |t: &Tank| t.users.iter().map(|&(i, cost)| rates[i as usize] * cost).sum();
    let load = tanks.iter().map(used).collect();
    Ok(Allocation { rates, limits, load })
}
