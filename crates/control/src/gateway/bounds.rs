//! Bounds on what a mesh carries in and out of its gateway (Jamshaid 2010 §7.5.2), from what the
//! gateway's own driver knows: the links to its direct neighbours.
//!
//! The lower one is no law. Hidden terminals and long chains carry less; "practically achievable
//! bounds may be lower", says the thesis.

use crate::{Neighbour, Refusal};

/// Bounds on the aggregate, in bit/s of IP bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bounds {
    /// Every flow takes as much air as a flow can: W₁/3 of the slowest link, or what the parameter
    /// `reuse` has instead of 3.
    pub lower: f64,
    /// What the lower one may give way to ([`crate::gateway::lower_bound`]): a part of it.
    pub lowest: f64,
    /// Every router is one hop away: N / Σ 1/W_j.
    pub upper: f64,
}

impl Bounds {
    /// From the nominal capacities of the neighbours' links; along a chain every `reuse`-th link is
    /// active at a time, or, where that is more, every `deepest`-th.
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
