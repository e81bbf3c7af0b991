//! The objective: how homes that share a bottleneck divide it.
//!
//! Alpha-fair rates maximise the sum of w^α x^(1-α) / (1-α) over all homes (Mo and Walrand 2000). On one bottleneck of
//! which a bit of home i takes the part c_i they are x_i = λ w_i c_i^(-1/α): equal rates for α → ∞ (max-min), equal
//! airtime for α = 1 (proportional). Guarantees are floors below every x_i. If the capacity does not suffice for the
//! floors, they shrink together.
//!
//! The cost c_i is the number of wireless hops that routing reports. A home without that has its minimum round trip in
//! place of it, at the mean minimum round trip per hop of the other homes. Under load that time grows faster than the
//! airtime (by 20 times per hop on a map of 86 homes), so it is the second choice.

use super::home::Home;
use crate::{Fairness, Reason, Value};

/// The chosen objective.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Objective {
    pub alpha: f64,
    /// Rate that each home is guaranteed, in bit/s.
    pub guarantee: f64,
    /// Part that each home is guaranteed of the rate which it would have with equal airtime.
    pub airtime: f64,
}

impl Objective {
    /// True if homes have equal rates.
    pub fn is_max_min(&self) -> bool {
        self.alpha >= Fairness::MAX_MIN
    }

    /// Sets costs, multiples and floors of all homes, which share this capacity, bit/s.
    pub fn apply(&self, capacity: f64, homes: &mut [Home]) {
        if self.is_max_min() && self.guarantee <= 0.0 && self.airtime <= 0.0 {
            // Costs, multiples and floors do not matter.
            return;
        }
        self.set_costs(homes);
        let used = |of: &dyn Fn(&Home) -> f64| homes.iter().map(|h| of(h) * h.active).sum::<f64>();
        let equal_airtime = capacity / used(&|h| h.weight).max(f64::MIN_POSITIVE);
        let floor = |h: &Home| self.guarantee.max(self.airtime * equal_airtime * h.weight / h.cost);
        let enough = (capacity / used(&|h| h.cost * floor(h))).min(1.0);
        let floors: Vec<f64> = homes.iter().map(|h| enough * floor(h)).collect();
        for (home, floor) in homes.iter_mut().zip(floors) {
            home.floor = floor;
        }
    }

    /// Sets costs and multiples of all homes.
    fn set_costs(&self, homes: &mut [Home]) {
        let known = || homes.iter().filter_map(|h| Some((h.base_s, f64::from(h.hops?))));
        let measured = known().filter(|(base_s, _)| *base_s > 0.0);
        let (time, hops) = measured.fold((0.0, 0.0), |sum, h| (sum.0 + h.0, sum.1 + h.1));
        let per_hop = if time > 0.0 { time / hops } else { f64::INFINITY };
        let any = homes.iter().any(|h| h.hops.is_some());
        for home in homes.iter_mut() {
            home.cost = match home.hops {
                Some(hops) => f64::from(hops.max(1)),
                None if any => (home.base_s / per_hop).max(1.0),
                None if home.base_s > 0.0 => home.base_s,
                None => 0.0,
            };
        }
        let largest = homes.iter().map(|h| h.cost).fold(0.0, f64::max);
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let exponent = if self.is_max_min() { 0.0 } else { -1.0 / self.alpha };
        let (mut sum, mut count) = (0.0, 0.0);
        for home in homes.iter_mut() {
            // A home of unknown cost counts as the most expensive one.
            home.cost = if home.cost > 0.0 { home.cost } else { largest };
            home.multiple = (home.cost / largest).powf(exponent);
            (sum, count) = (sum + home.cost, count + 1.0);
        }
        for home in homes.iter_mut() {
            home.cost *= count / sum;
        }
    }

    /// Returns the level at which homes use this capacity, in bit/s.
    ///
    /// Homes below their floor have the floor; the others divide the rest.
    pub fn level(capacity: f64, homes: &[Home]) -> f64 {
        let use_of = |h: &Home, rate: f64| h.cost * h.active * rate;
        let all: f64 = homes.iter().map(|h| use_of(h, h.part())).sum();
        // A home that is alone and idle may start at the whole capacity.
        let least = homes.iter().map(|h| h.cost * h.part()).reduce(f64::min).unwrap_or(1.0);
        let mut level = capacity / all.max(least);
        if homes.iter().all(|h| h.floor <= 0.0) {
            return level;
        }
        // Each pass moves homes to their floors, and lowers the level of the others.
        for _ in 0..homes.len() {
            let (mut rest, mut shares) = (capacity, 0.0);
            for home in homes {
                if level * home.part() < home.floor {
                    rest -= use_of(home, home.floor);
                } else {
                    shares += use_of(home, home.part());
                }
            }
            let next = if shares > 0.0 { (rest / shares).max(0.0) } else { level };
            if next >= level {
                break;
            }
            level = next;
        }
        level
    }

    /// Returns the objective in words, with its price.
    ///
    /// The price is the sum of all limits over the sum of equal rates that take the same airtime.
    pub fn reason(&self, level: f64, homes: &[Home]) -> Reason {
        if self.is_max_min() {
            let text = "max-min fairness: equal rates by weight and plan";
            return Reason::new("rtt.objective", text, &[]);
        }
        let sum = |of: &dyn Fn(&Home) -> f64| homes.iter().map(|h| of(h) * h.active).sum::<f64>();
        let rate = |h: &Home| (level * h.part()).max(h.floor) * h.raised;
        let equal = sum(&|h| rate(h) * h.cost) / sum(&|h| h.weight * h.cost);
        let price = sum(&rate) / (equal * sum(&|h| h.weight));
        let price = Value::Ratio(if price.is_finite() { price } else { 1.0 });
        let text = "fairness with alpha {}: the sum of limits is {} of that at equal rates";
        Reason::new("rtt.objective", text, &[Value::Number(self.alpha), price])
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::FlowId;
    use proptest::prelude::*;

    use super::*;
    use crate::gateway::rtt::tuning::SHIPPED;

    /// Active homes at these numbers of hops.
    fn homes(hops: &[u32]) -> Vec<Home> {
        let mut homes: Vec<Home> =
            (0..hops.len()).map(|i| Home::new(FlowId(i as u32), &SHIPPED)).collect();
        for (home, hops) in homes.iter_mut().zip(hops) {
            (home.class, home.active, home.hops) = (true, 1.0, Some(*hops));
        }
        homes
    }

    fn rates(objective: Objective, capacity: f64, homes: &mut [Home]) -> Vec<f64> {
        objective.apply(capacity, homes);
        let level = Objective::level(capacity, homes);
        for home in homes.iter_mut() {
            home.allow(level, capacity);
        }
        homes.iter().map(|h| h.limit.round()).collect()
    }

    const PLAIN: Objective = Objective { alpha: Fairness::MAX_MIN, guarantee: 0.0, airtime: 0.0 };

    #[test]
    fn max_min_gives_equal_rates_and_proportional_equal_airtime() {
        let mut all = homes(&[1, 2, 4]);
        assert_eq!(rates(PLAIN, 7e5, &mut all), [233_333.0; 3]);
        let proportional = Objective { alpha: 1.0, ..PLAIN };
        assert_eq!(rates(proportional, 7e5, &mut all), [544_444.0, 272_222.0, 136_111.0]);
        // Multiples of 2, √2 and 1 at 3/7, 6/7 and 12/7 of the mean cost.
        let square = Objective { alpha: 2.0, ..PLAIN };
        let level = 7e5 / (18.0 + 6.0 * 2f64.sqrt()) * 7.0;
        let expected = [2.0 * level, 2f64.sqrt() * level, level].map(f64::round);
        assert_eq!(rates(square, 7e5, &mut all), expected);
        proportional.apply(7e5, &mut all);
        let text = proportional.reason(1e5, &all).to_string();
        // 400, 200 and 100 kbit/s take the airtime of 171 kbit/s each.
        assert_eq!(
            text,
            "fairness with alpha 1: the sum of limits is 1.361 of that at equal rates"
        );
    }

    #[test]
    fn a_guarantee_is_a_floor_that_the_others_pay_for() {
        let mut all = homes(&[1, 1, 4]);
        let plain = Objective { alpha: 1.0, ..PLAIN };
        assert_eq!(rates(plain, 9e5, &mut all), [6e5, 6e5, 1.5e5]);
        let rate = Objective { guarantee: 2e5, ..plain };
        assert_eq!(rates(rate, 9e5, &mut all), [5e5, 5e5, 2e5]);
        // More than there is: equal rates.
        let much = Objective { guarantee: 5e5, ..plain };
        assert_eq!(rates(much, 9e5, &mut all), [3e5; 3]);
        // Half of the rates with equal airtime: 300, 300 and 75 kbit/s.
        let airtime = Objective { airtime: 0.5, ..PLAIN };
        assert_eq!(rates(airtime, 9e5, &mut all), [3e5; 3]);
        let airtime = Objective { airtime: 0.9, ..PLAIN };
        assert_eq!(rates(airtime, 9e5, &mut all), [5.4e5, 5.4e5, 1.8e5]);
    }

    #[test]
    fn costs_come_from_hops_and_else_from_round_trips() {
        let proportional = Objective { alpha: 1.0, ..PLAIN };
        let mut all = homes(&[1, 2, 1]);
        (all[0].base_s, all[1].base_s, all[2].base_s) = (0.01, 0.02, 0.04);
        all[2].hops = None;
        // 10 ms a hop: the third is as far as four hops.
        let expected = [544_444.0, 272_222.0, 136_111.0];
        assert_eq!(rates(proportional, 7e5, &mut all), expected);
        all.iter_mut().for_each(|h| h.hops = None);
        assert_eq!(rates(proportional, 7e5, &mut all), expected);
        all.iter_mut().for_each(|h| h.base_s = 0.0);
        assert_eq!(rates(proportional, 9e5, &mut all), [3e5; 3], "nothing is known");
    }

    proptest! {
        /// Active homes use the capacity, no home is below its floor.
        ///
        /// A cheaper home has no less than an expensive one.
        #[test]
        fn the_capacity_is_divided(
            hops in proptest::collection::vec(1u32..12, 1..30),
            alpha in prop_oneof![Just(Fairness::MAX_MIN), 0.5..8.0f64],
            guarantee in prop_oneof![Just(0.0), 0.0..5e4f64],
            airtime in prop_oneof![Just(0.0), 0.0..1.0f64],
        ) {
            let mut all = homes(&hops);
            let objective = Objective { alpha, guarantee, airtime };
            objective.apply(1e6, &mut all);
            let level = Objective::level(1e6, &all);
            let rate = |h: &Home| (level * h.part()).max(h.floor);
            let sum: f64 = all.iter().map(|h| h.cost * rate(h)).sum();
            prop_assert!((sum / 1e6 - 1.0).abs() < 1e-6, "{sum}");
            for a in &all {
                for b in all.iter().filter(|b| b.hops >= a.hops) {
                    prop_assert!(rate(a) >= rate(b) * (1.0 - 1e-9));
                }
            }
        }
    }
}
