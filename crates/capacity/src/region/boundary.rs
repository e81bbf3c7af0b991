//! Points on the boundary of the region: max-min, proportional, and along a ray.

use super::Region;

/// Rates at the boundary.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// By flow, bit/s of payload.
    pub rates: Vec<f64>,
}

/// The boundary between two groups of flows.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// Rate of each flow of the first group and of each of the second, bit/s, from the first
    /// group alone to the second alone.
    pub points: Vec<(f64, f64)>,
}

/// Relative accuracy of a search along a ray.
const FINE: f64 = 1e-4;

impl Region {
    /// The most of `direction` that can be added to `base`, as a factor; 0 where `base` itself is
    /// not achievable.
    pub fn reach(&mut self, base: &[f64], direction: &[f64]) -> f64 {
        let at = |k: f64| -> Vec<f64> {
            base.iter().zip(direction).map(|(b, d)| b + k * d).collect()
        };
        let steepest = direction.iter().copied().fold(0.0, f64::max);
        if steepest <= 0.0 || !self.achievable(base) {
            return 0.0;
        }
        // Nothing is faster than the PHY's fastest rate.
        let fastest = self.phy.bit_rate(self.phy.highest()).0 as f64;
        let (mut low, mut high) = (0.0, fastest / steepest);
        while high - low > FINE * high {
            let middle = 0.5 * (low + high);
            if self.achievable(&at(middle)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The weighted max-min fair point: all rates rise in proportion to their weights; those that
    /// cannot, stop (Rangwala 2008 §4.1).
    pub fn max_min(&mut self) -> Point {
        let flows = self.bits.len();
        let mut rates = vec![0.0; flows];
        let mut rising: Vec<bool> = vec![true; flows];
        while rising.iter().any(|&r| r) {
            let pick = |r: &[bool]| -> Vec<f64> {
                r.iter().zip(&self.weights).map(|(&r, &w)| if r { w } else { 0.0 }).collect()
            };
            let direction = pick(&rising);
            let reach = self.reach(&rates, &direction);
            // A demand may end a rise first.
            let room = |i: usize| (self.limits[i] - rates[i]) / self.weights[i];
            let sated = (0..flows).filter(|&i| rising[i]).map(room).fold(f64::INFINITY, f64::min);
            let step = reach.min(sated);
            for i in 0..flows {
                rates[i] += step * direction[i];
            }
            let mut stopped = false;
            for i in 0..flows {
                if rising[i] && rates[i] >= self.limits[i] * (1.0 - 1e-9) {
                    (rising[i], stopped) = (false, true);
                }
            }
            if stopped {
                continue;
            }
            // Who can rise alone by a little is not at its bottleneck.
            let before = rising.clone();
            for i in 0..flows {
                if before[i] {
                    let mut more = rates.clone();
                    more[i] *= 1.0 + 20.0 * FINE;
                    rising[i] = self.achievable(&more);
                }
            }
            if rising == before {
                // Each could alone, together they cannot: the boundary is met from inside.
                break;
            }
        }
        Point { rates }
    }

    /// The boundary between two groups of flows, each of whose flows have one rate (Rangwala 2008
    /// Fig 2): `steps` + 1 points.
    pub fn section(&mut self, first: &[usize], second: &[usize], steps: usize) -> Section {
        let flows = self.bits.len();
        let points = (0..=steps)
            .map(|k| {
                let angle = core::f64::consts::FRAC_PI_2 * k as f64 / steps as f64;
                let (a, b) = (libm::cos(angle), libm::sin(angle));
                let mut direction = vec![0.0; flows];
                first.iter().for_each(|&i| direction[i] = a.max(1e-9));
                second.iter().for_each(|&i| direction[i] = b.max(1e-9));
                let k = self.reach(&vec![0.0; flows], &direction);
                (k * a, k * b)
            })
            .collect();
        Section { points }
    }
}
