//! Bounds on the aggregate rate through a gateway that knows link rates but has no map.
//!
//! Jamshaid 2010 §7.5.2, "Efficient and Fair Transport Capacity Bounds".
//!
//! With capacities in bits on the air the bounds are those of a perfect scheduler. With nominal
//! capacities, which include MAC overhead ([`crate::link::LinkModel::capacity`]), they are those of
//! 802.11; collisions are ignored.

use core::fmt;

/// Spatial reuse of the air along a long chain.
///
/// The value depends on the model under which rates are allocated. A single flow over many hops
/// gets exactly this fraction, and no saturated allocation of flows on shortest paths has a smaller
/// sum: where a set of k links of each path shares one unit of air, Σ r · k ≥ W there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reuse {
    /// A perfect schedule of equal traffic from and to the gateway: half of the links at a time.
    ScheduledBothWays,
    /// A perfect schedule of traffic in one direction: every third link.
    ScheduledOneWay,
    /// 802.11 in the thesis.
    ///
    /// The exchange of data and ACK keeps the neighbourhoods of both ends idle. Every third link is active,
    /// in either direction, as with `Cliques(1)`.
    #[default]
    Dcf,
    /// The clique model, with nodes in range up to this many hops along a chain.
    ///
    /// Any h + 2 consecutive links exclude each other.
    Cliques(u32),
    /// The collision-domain model, with nodes in range up to this many hops along a chain.
    ///
    /// The domain of a link reaches h + 1 links to either side.
    Domains(u32),
}

impl Reuse {
    /// Returns the fraction of a link's capacity that a long chain of such links carries.
    pub fn fraction(self) -> f64 {
        match self {
            Reuse::ScheduledBothWays => 1.0 / 2.0,
            Reuse::ScheduledOneWay | Reuse::Dcf => 1.0 / 3.0,
            Reuse::Cliques(hops) => 1.0 / (f64::from(hops) + 2.0),
            Reuse::Domains(hops) => 1.0 / (2.0 * f64::from(hops) + 3.0),
        }
    }
}

/// Returns the sharp lower bound of the aggregate for a known map.
///
/// No allocation that fills at least one domain has a smaller sum, under any fairness criterion.
///
/// `usage[i]` lists the share of each domain that one bit/s of flow i takes
/// ([`crate::domain::Domains::usage`]). In a full domain Σ share · r = 1, so Σ r is at least one
/// over the largest share. Infinite if no flow uses any air.
pub fn floor(usage: &[Vec<(u32, f64)>]) -> f64 {
    let shares = usage.iter().flatten().map(|&(_, share)| share);
    1.0 / shares.fold(0.0, f64::max)
}

/// Bounds of a fair aggregate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AggregateBounds {
    /// All routers far away: each flow takes the maximum airtime.
    pub lower: f64,
    /// All routers one hop from the gateway, which is always sending or receiving.
    pub upper: f64,
}

/// Reason for the absence of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundsError {
    /// No router is active.
    NoRouter,
    /// The capacity or packet size of this router is not finite and positive.
    BadRouter(usize),
}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundsError::NoRouter => f.write_str("no active router: nothing bounds the aggregate"),
            BoundsError::BadRouter(i) => {
                write!(f, "router {i}: link capacity or packet size out of range")
            }
        }
    }
}
impl core::error::Error for BoundsError {}

/// Returns the bounds for one active router per element, with link capacities in bit/s.
///
/// `upper` is [`one_hop`] with packets of one size, N / Σ 1/W_i, or W when all links have the
/// capacity W. `lower` is the slowest link's capacity times [`Reuse::fraction`].
///
/// Each lower bound is a law of the model that its [`Reuse`] names, for flows on shortest paths that
/// fill at least one domain ([`floor`] gives it for any paths). It does not hold for 802.11: hidden
/// terminals cost more.
///
/// # Errors
/// See [`BoundsError`].
pub fn aggregate(capacities: &[f64], reuse: Reuse) -> Result<AggregateBounds, BoundsError> {
    let turns: Vec<(f64, f64)> = capacities.iter().map(|&w| (1.0, w)).collect();
    let upper = one_hop(&turns)?;
    let slowest = capacities.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(AggregateBounds { lower: slowest * reuse.fraction(), upper })
}

/// Returns the aggregate of routers one hop from the gateway that send a packet each in turn.
///
/// `turns` gives each router's packet size in bits and link capacity in bit/s: Σ s_i / Σ (s_i / W_i).
///
/// # Errors
/// See [`BoundsError`].
pub fn one_hop(turns: &[(f64, f64)]) -> Result<f64, BoundsError> {
    let good = |x: f64| x > 0.0 && x.is_finite();
    if turns.is_empty() {
        return Err(BoundsError::NoRouter);
    }
    if let Some(i) = turns.iter().position(|&(size, capacity)| !good(size) || !good(capacity)) {
        return Err(BoundsError::BadRouter(i));
    }
    let bits: f64 = turns.iter().map(|t| t.0).sum();
    let seconds: f64 = turns.iter().map(|&(size, capacity)| size / capacity).sum();
    Ok(bits / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: f64 = 1e6;

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-12, "{value} against {expected}");
    }

    #[test]
    fn links_of_one_rate() {
        for n in [1, 2, 7, 30] {
            let b = aggregate(&vec![W; n], Reuse::Dcf).unwrap();
            near(b.upper, W);
            near(b.lower, W / 3.0);
        }
        near(aggregate(&[W; 4], Reuse::ScheduledOneWay).unwrap().lower, W / 3.0);
        near(aggregate(&[W; 4], Reuse::ScheduledBothWays).unwrap().lower, W / 2.0);
    }

    #[test]
    fn links_of_several_rates() {
        // 1, 2 and 2 Mbit/s: three packets take 1 + 1/2 + 1/2 = 2 times that at 1 Mbit/s.
        let b = aggregate(&[2.0 * W, W, 2.0 * W], Reuse::Dcf).unwrap();
        near(b.upper, 1.5 * W);
        near(b.lower, W / 3.0);
        near(aggregate(&[2.0 * W, W], Reuse::ScheduledBothWays).unwrap().lower, W / 2.0);
    }

    #[test]
    fn larger_packets_count_for_more() {
        // 3 bits at 1 bit/s and 1 bit at 2 bit/s: 4 bits in 3.5 seconds.
        near(one_hop(&[(3.0, 1.0), (1.0, 2.0)]).unwrap(), 4.0 / 3.5);
        // Only their ratio matters.
        near(
            one_hop(&[(12e3, W), (12e3, 5.5 * W)]).unwrap(),
            one_hop(&[(1.0, W), (1.0, 5.5 * W)]).unwrap(),
        );
    }

    #[test]
    fn invalid_parameters_are_refused() {
        assert_eq!(aggregate(&[], Reuse::Dcf), Err(BoundsError::NoRouter));
        assert_eq!(aggregate(&[W, 0.0], Reuse::Dcf), Err(BoundsError::BadRouter(1)));
        assert_eq!(aggregate(&[f64::NAN], Reuse::Dcf), Err(BoundsError::BadRouter(0)));
        assert_eq!(one_hop(&[(1.0, W), (-1.0, W)]), Err(BoundsError::BadRouter(1)));
    }
}
