//! Bounds on the capacity of a mesh in and out of its gateway (Jamshaid 2010 §7.5.2).
//!
//! They follow from the links to its direct neighbours, which the gateway's own driver knows.
//!
//! The lower bound is not strict. Hidden terminals and long chains carry less; according to the thesis,
//! "practically achievable bounds may be lower".

use crate::{Neighbour, Refusal};

/// Bounds on the aggregate, in bit/s of IP bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bounds {
    /// Lower bound: every flow takes the maximum airtime of a flow, W₁/3 of the slowest link.
    ///
    /// The parameter `reuse` replaces 3.
    pub lower: f64,
    /// Minimum of the lower bound, down to which it can move ([`crate::gateway::lower_bound`]).
    pub lowest: f64,
    /// Upper bound: every router is one hop away, N / Σ 1/W_j.
    pub upper: f64,
}

impl Bounds {
    /// Returns the bounds for the nominal capacities of the neighbours' links.
    ///
    /// Along a chain every `reuse`-th link is active at a time or, for the minimum, every
    /// `deepest`-th.
    pub fn of(neighbours: &[Neighbour], reuse: f64, deepest: f64) -> Result<Bounds, Refusal> {
        if neighbours.is_empty() {
            return Err(Refusal::no_neighbour());
        }
        if let Some(dead) = neighbours.iter().find(|n| n.capacity.0 == 0) {
            return Err(Refusal::dead_link(dead.node));
        }
        let capacities = neighbours.iter().map(|n| n.capacity.0 as f64);
        let inverse: f64 = capacities.clone().map(|w| 1.0 / w).sum();
        let slowest = capacities.fold(f64::INFINITY, f64::min);
        Ok(Bounds {
            lower: slowest / reuse,
            lowest: slowest / reuse.max(deepest),
            upper: neighbours.len() as f64 / inverse,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_units::{BitRate, NodeId};

    fn links(capacities: &[u64]) -> Vec<Neighbour> {
        let link =
            |(n, c): (usize, &u64)| Neighbour::new(NodeId(n as u32), BitRate(*c), BitRate(*c));
        capacities.iter().enumerate().map(link).collect()
    }

    #[test]
    fn equal_links_give_a_third_of_one_and_one() {
        let b = Bounds::of(&links(&[900_000; 4]), 3.0, 6.0).unwrap();
        assert!((b.lower - 300_000.0).abs() < 1e-6 && (b.upper - 900_000.0).abs() < 1e-6, "{b:?}");
    }

    #[test]
    fn several_rates_share_turns() {
        // N / Σ 1/W: two links of 1 and 2 take turns, 2 packets in 1 + 1/2 units of time.
        let b = Bounds::of(&links(&[2_000_000, 1_000_000]), 3.0, 6.0).unwrap();
        assert!((b.upper - 2.0 / 1.5 * 1e6).abs() < 1e-3, "{b:?}");
        assert!((b.lower - 1e6 / 3.0).abs() < 1e-6, "{b:?}");
    }

    #[test]
    fn no_neighbour_and_dead_links_are_refused() {
        assert_eq!(Bounds::of(&[], 3.0, 6.0), Err(Refusal::no_neighbour()));
        assert_eq!(Bounds::of(&links(&[1, 0]), 3.0, 6.0), Err(Refusal::dead_link(NodeId(1))));
    }
}
