//! Points on the boundary of the region: max-min, proportional, and along a ray.

use super::flow_region::Region;
use super::types::NoState;

/// Rates at the boundary.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// By flow, bit/s of payload.
    pub rates: Vec<f64>,
}

/// The boundary between two groups of flows.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// Rates of a flow of the first group and of the second, in bit/s.
    ///
    /// From the first group alone to the second alone.
    pub points: Vec<(f64, f64)>,
}

/// Maximum share of their rates that other flows give up for a flow that continues to rise.
pub const MAX_CONCESSION: f64 = 0.02;
/// Minimum gain of that flow, as a share of its rate.
pub const MIN_GAIN_OF_CONCESSION: f64 = 0.2;
/// Relative accuracy of a search along a ray.
const RAY_ACCURACY: f64 = 1e-4;

impl Region {
    /// Returns the largest factor of `direction` that can be added to `base`.
    ///
    /// 0 if `base` itself is not achievable.
    ///
    /// # Errors
    /// Returns an error if the state of a queried point is unknown: then the boundary is unknown.
    pub fn reach(&mut self, base: &[f64], direction: &[f64]) -> Result<f64, NoState> {
        let at =
            |k: f64| -> Vec<f64> { base.iter().zip(direction).map(|(b, d)| b + k * d).collect() };
        let steepest = direction.iter().copied().fold(0.0, f64::max);
        if steepest <= 0.0 {
            return Ok(0.0);
        }
        let Some(mut inside) = self.decide(None, base)? else { return Ok(0.0) };
        // No rate exceeds the PHY's fastest rate.
        let fastest = self.links.fastest();
        let (mut low, mut high) = (0.0, fastest / steepest);
        while high - low > RAY_ACCURACY * high {
            let middle = 0.5 * (low + high);
            match self.decide(Some(&inside), &at(middle))? {
                Some(f) => (low, inside) = (middle, f),
                None => high = middle,
            }
        }
        Ok(low)
    }

    /// Returns the weighted max-min fair point.
    ///
    /// All rates rise in proportion to their weights; those that cannot rise stop (Rangwala 2008
    /// §4.1).
    ///
    /// Under the DCF every flow costs every other a little, at any distance, so strictly no flow
    /// could rise once any flow has stopped. Here a flow continues to rise if it can gain [`MIN_GAIN_OF_CONCESSION`]
    /// of its rate while the others give up [`MAX_CONCESSION`] of theirs. If several could, but not all
    /// together, those stop that could gain less than twice the least. The returned point is on the
    /// boundary.
    ///
    /// # Errors
    /// See [`Region::reach`].
    pub fn max_min(&mut self) -> Result<Point, NoState> {
        let flows = self.bits.len();
        let zero = vec![0.0; flows];
        let mut rates = zero.clone();
        let mut rising = vec![true; flows];
        while rising.iter().any(|&r| r) {
            let direction: Vec<f64> =
                (0..flows).map(|i| if rising[i] { self.weights[i] } else { 0.0 }).collect();
            let reach = self.reach(&rates, &direction)?;
            // A demand may end the rise earlier.
            let room = |i: usize| (self.limits[i] - rates[i]) / self.weights[i];
            let satisfied =
                (0..flows).filter(|&i| rising[i]).map(room).fold(f64::INFINITY, f64::min);
            for (rate, direction) in rates.iter_mut().zip(&direction) {
                *rate += reach.min(satisfied) * direction;
            }
            if satisfied <= reach {
                for i in 0..flows {
                    rising[i] &= rates[i] < self.limits[i] * (1.0 - 1e-9);
                }
                continue;
            }
            // At the boundary: makes room for a trade and finds the flows that can use it.
            for rate in &mut rates {
                *rate *= 1.0 - MAX_CONCESSION;
            }
            let before = rising.clone();
            for i in (0..flows).filter(|&i| before[i]) {
                let mut more = rates.clone();
                more[i] *= 1.0 + MIN_GAIN_OF_CONCESSION;
                rising[i] = self.achievable(&more)?;
            }
            if rising == before {
                // Each can rise alone, but not all together: those with the least room stop.
                let room = (0..flows)
                    .map(|i| {
                        let alone: Vec<f64> = (0..flows).map(|k| f64::from(k == i)).collect();
                        Ok(if rising[i] { self.reach(&rates, &alone)? / rates[i] } else { 0.0 })
                    })
                    .collect::<Result<Vec<f64>, NoState>>()?;
                let left = (0..flows).filter(|&i| rising[i]).map(|i| room[i]);
                let least = left.fold(f64::INFINITY, f64::min);
                for i in 0..flows {
                    rising[i] &= room[i] > 2.0 * least;
                }
            }
        }
        // Restores rates that were reduced without effect.
        let more = self.reach(&zero, &rates)?;
        for (rate, limit) in rates.iter_mut().zip(&self.limits) {
            *rate = (*rate * more).min(*limit);
        }
        Ok(Point { rates })
    }

    /// Returns the (weighted) proportionally fair point, max Σ w ln r.
    ///
    /// Each step moves one flow part of the way to the boundary, since the region need not be
    /// convex (Rangwala 2008 §2). The result is a local optimum, searched from the max-min point.
    ///
    /// # Errors
    /// See [`Region::reach`].
    pub fn proportional(&mut self) -> Result<Point, NoState> {
        let mut rates = self.max_min()?.rates;
        let worth = |rates: &[f64], weights: &[f64]| -> f64 {
            rates.iter().zip(weights).map(|(r, w)| w * libm::log(r.max(1e-3))).sum()
        };
        let zero = vec![0.0; rates.len()];
        let mut best = worth(&rates, &self.weights);
        let mut step = 0.3;
        while step > 0.01 {
            let mut improved = false;
            for i in 0..rates.len() {
                for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                    let mut ray = rates.clone();
                    ray[i] *= factor;
                    let reach = self.reach(&zero, &ray)?;
                    let tried: Vec<f64> =
                        ray.iter().zip(&self.limits).map(|(r, l)| (r * reach).min(*l)).collect();
                    let gain = worth(&tried, &self.weights);
                    if gain > best + 1e-4 {
                        (rates, best, improved) = (tried, gain, true);
                    }
                }
            }
            if !improved {
                step *= 0.5;
            }
        }
        Ok(Point { rates })
    }

    /// Returns the boundary between two groups of flows, as `steps` + 1 points.
    ///
    /// Each group has one rate (Rangwala 2008 Fig 2).
    ///
    /// # Errors
    /// See [`Region::reach`].
    pub fn section(
        &mut self,
        first: &[usize],
        second: &[usize],
        steps: usize,
    ) -> Result<Section, NoState> {
        let flows = self.bits.len();
        let points = (0..=steps)
            .map(|k| {
                let angle = core::f64::consts::FRAC_PI_2 * k as f64 / steps as f64;
                let (a, b) = (libm::cos(angle), libm::sin(angle));
                let mut direction = vec![0.0; flows];
                first.iter().for_each(|&i| direction[i] = a.max(1e-9));
                second.iter().for_each(|&i| direction[i] = b.max(1e-9));
                let k = self.reach(&vec![0.0; flows], &direction)?;
                Ok((k * a, k * b))
            })
            .collect::<Result<_, NoState>>()?;
        Ok(Section { points })
    }
}
