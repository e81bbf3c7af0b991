//! Starvation: the level of the carried traffic, and the homes far below it.
//!
//! History and page use it.

use fairmesh_control::water_filling::{Claim, level};

/// Fraction of its due rate below which a home starves, as in the simulator's measures.
pub const STARVATION_FRACTION: f64 = 0.1;

/// Sign of unmet demand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum Demand {
    /// None: it carries what it asks for.
    #[default]
    Met,
    /// Data packets in most samples. It may come from a sender that needs no more.
    Continuous,
    /// Unacknowledged data, or packets in the gateway's queue.
    Confirmed,
}

/// One home in one direction in a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// Rate, in bit/s.
    pub rate: f64,
    pub weight: f64,
    /// Ceiling of plan or override, in bit/s.
    pub ceiling: Option<f64>,
    pub demand: Demand,
}

impl Carried {
    fn claim(&self) -> Claim {
        Claim { weight: self.weight, least: 0.0, most: self.ceiling.unwrap_or(f64::INFINITY) }
    }

    /// Returns the rate that is due at a level.
    pub fn due(&self, level: f64) -> f64 {
        self.claim().at(level)
    }

    /// True if it has demand and less than [`STARVATION_FRACTION`] of its due rate.
    pub fn starves(&self, level: f64) -> bool {
        self.demand != Demand::Met && self.rate < STARVATION_FRACTION * self.due(level)
    }
}

/// Returns the max-min level of the traffic that was carried, bit/s per weight.
///
/// Homes without unmet demand keep their rates; the rest is shared by weight up to the ceilings. A byte of each home is
/// taken to cost the same. `None`: no home has demand, or all have their ceilings.
pub(super) fn carried_level(all: &[Carried]) -> Option<f64> {
    let open = all.iter().filter(|c| c.demand != Demand::Met);
    let total = open.clone().map(|c| c.rate).sum();
    let level = level(total, open.map(Carried::claim));
    (level.is_finite() && level > 0.0).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(rate: f64, demand: Demand) -> Carried {
        Carried { rate, weight: 1.0, ceiling: None, demand }
    }

    #[test]
    fn a_home_starves_only_with_demand() {
        use Demand::{Confirmed, Continuous, Met};
        let all = [
            carried(9e6, Continuous),
            carried(0.1e6, Confirmed),
            // Idle: it keeps its rate, and takes part in no share.
            carried(0.1e6, Met),
        ];
        let level = carried_level(&all).unwrap();
        assert_eq!(level, 4.55e6);
        assert_eq!(all.map(|c| c.starves(level)), [false, true, false]);
    }

    #[test]
    fn a_ceiling_bounds_the_due_rate() {
        let slow = Carried { ceiling: Some(0.5e6), ..carried(0.1e6, Demand::Confirmed) };
        let all = [carried(9e6, Demand::Confirmed), slow];
        let level = carried_level(&all).unwrap();
        assert!((level - 8.6e6).abs() < 1.0, "{level}");
        assert_eq!(slow.due(level), 0.5e6);
        assert!(!slow.starves(level), "a fifth of its plan");
    }

    #[test]
    fn an_outage_is_no_starvation() {
        assert_eq!(carried_level(&[carried(0.0, Demand::Confirmed); 2]), None);
        assert_eq!(carried_level(&[carried(5e6, Demand::Met)]), None);
        assert_eq!(carried_level(&[]), None);
    }
}
