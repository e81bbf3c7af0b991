//! Weighted max-min shares of an aggregate between minima and maxima.

/// Limits and weight of one flow in the aggregate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Weight; positive.
    pub weight: f64,
    /// Minimum share.
    pub least: f64,
    /// Maximum share; infinite if the flow has no ceiling.
    pub most: f64,
}

impl Claim {
    /// Returns its share at a level of rate per weight.
    ///
    /// A guarantee takes precedence over a ceiling.
    pub fn at(&self, level: f64) -> f64 {
        (level * self.weight).min(self.most).max(self.least)
    }
}

/// Returns the rate per weight at which the claims add up to `total`.
///
/// This is water-filling (Bertsekas, Gallager, *Data Networks* §6.5). Infinite if all claims are at
/// their maxima and capacity remains; 0 if the sum of the minima exceeds `total`. Takes a fixed
/// number of passes.
pub fn level<I: Iterator<Item = Claim> + Clone>(total: f64, claims: I) -> f64 {
    let weights: f64 = claims.clone().map(|c| c.weight).sum();
    if weights <= 0.0 {
        return f64::INFINITY;
    }
    let plain = total / weights;
    if claims.clone().all(|c| c.at(plain) == plain * c.weight) {
        return plain;
    }
    let sum = |level: f64| claims.clone().map(|c| c.at(level)).sum::<f64>();
    if claims.clone().map(|c| c.most.max(c.least)).sum::<f64>() <= total {
        return f64::INFINITY;
    }
    let lightest = claims.clone().map(|c| c.weight).fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (0.0, total / lightest);
    if sum(0.0) >= total {
        return 0.0;
    }
    // The aggregate grows with the level, so bisection finds it; 50 steps leave an error of a part
    // in 10¹⁵.
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if sum(middle) < total {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(weight: f64, least: f64, most: f64) -> Claim {
        Claim { weight, least, most }
    }
    fn shares(total: f64, claims: &[Claim]) -> Vec<f64> {
        let level = level(total, claims.iter().copied());
        claims.iter().map(|c| c.at(level)).collect()
    }
    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-6)
    }

    #[test]
    fn shares_go_by_weight() {
        let free = |w| claim(w, 0.0, f64::INFINITY);
        assert_eq!(shares(600.0, &[free(1.0), free(2.0), free(3.0)]), [100.0, 200.0, 300.0]);
    }

    #[test]
    fn unusable_shares_go_to_the_others() {
        let inf = f64::INFINITY;
        let three = [claim(1.0, 0.0, 10.0), claim(1.0, 0.0, inf), claim(1.0, 0.0, inf)];
        assert!(close(&shares(300.0, &three), &[10.0, 145.0, 145.0]));
        let promised = [claim(1.0, 200.0, inf), claim(1.0, 0.0, inf), claim(3.0, 0.0, inf)];
        assert!(close(&shares(300.0, &promised), &[200.0, 25.0, 75.0]));
    }

    #[test]
    fn more_than_all_can_take_and_less_than_promised() {
        let capped = [claim(1.0, 0.0, 10.0), claim(1.0, 0.0, 20.0)];
        assert_eq!(shares(100.0, &capped), [10.0, 20.0]);
        assert_eq!(shares(100.0, &[]), []);
        let promised = [claim(1.0, 80.0, 90.0), claim(1.0, 80.0, 90.0)];
        assert_eq!(shares(100.0, &promised), [80.0, 80.0]);
    }

    proptest! {
        /// The shares add up to the total.
        ///
        /// All flows between their limits have the same rate per weight.
        #[test]
        fn shares_are_max_min(
            total in 1.0..1e6f64,
            raw in prop::collection::vec((0.1..10.0f64, 0.0..100.0f64, 0.0..1e5f64), 1..20),
        ) {
            let claims: Vec<Claim> =
                raw.iter().map(|&(w, least, more)| claim(w, least, least + more)).collect();
            let got = shares(total, &claims);
            let sum: f64 = got.iter().sum();
            let least: f64 = claims.iter().map(|c| c.least).sum();
            let most: f64 = claims.iter().map(|c| c.most).sum();
            prop_assert!((sum - total.clamp(least, most)).abs() < 1e-6 * total);
            let level = level(total, claims.iter().copied());
            for (c, share) in claims.iter().zip(&got) {
                prop_assert!(c.least <= *share && *share <= c.most);
                let between = *share > c.least && *share < c.most;
                prop_assert!(!between || (share / c.weight - level).abs() <= 1e-9 * level);
            }
        }
    }
}
