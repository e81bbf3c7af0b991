//! Definitions of the measures: fairness, utilisation, intervals, delay distributions.

use crate::record::DelayRecord;

/// Returns Jain's fairness index (Σx)² / (n Σx²), in [1/n, 1] (Jamshaid 2010 §2.1.5).
///
/// It is 1 if there are no flows or if all rates are 0.
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (rates.len() as f64 * squares) }
}

/// Returns Jain's index of the rates over their fair rates.
///
/// Flows with a fair rate of zero do not count.
pub fn jain_normalized(rates: &[f64], fair: &[f64]) -> f64 {
    jain(&normalized(rates, fair))
}

/// Returns the smallest ratio of a rate to its fair rate.
pub fn min_over_fair(rates: &[f64], fair: &[f64]) -> f64 {
    normalized(rates, fair).into_iter().reduce(f64::min).unwrap_or(0.0)
}

/// Returns the largest ratio of a rate to its fair rate.
pub fn max_over_fair(rates: &[f64], fair: &[f64]) -> f64 {
    normalized(rates, fair).into_iter().reduce(f64::max).unwrap_or(0.0)
}

fn normalized(rates: &[f64], fair: &[f64]) -> Vec<f64> {
    rates.iter().zip(fair).filter(|(_, f)| **f > 0.0).map(|(r, f)| r / f).collect()
}

/// Returns the effective network utilisation Σ rate × hops (Jamshaid 2010 §2.1.5), in bit/s.
pub fn utilization(rates: &[f64], hops: &[u32]) -> f64 {
    rates.iter().zip(hops).map(|(r, &h)| r * f64::from(h)).sum()
}

/// Distribution of a delay: exact moments, percentiles to 1 %.
#[derive(Clone, Debug)]
pub struct Delays {
    histogram: hdrhistogram::Histogram<u32>,
    count: u64,
    sum: f64,
    squares: f64,
}

/// Resolution of recorded delays, in ns.
const DELAY_RESOLUTION_NS: u64 = 1_000;

impl Default for Delays {
    fn default() -> Self {
        Self::new()
    }
}

impl Delays {
    /// Returns an empty distribution.
    pub fn new() -> Self {
        Delays {
            // Two significant digits always make a histogram.
            histogram: hdrhistogram::Histogram::new(2).expect("2 digits are in 0..=5"),
            count: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }

    /// Adds a delay, in ns.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        let s = ns as f64 * 1e-9;
        self.sum += s;
        self.squares += s * s;
        // Only a value beyond u64 could fail to fit a histogram that grows.
        let _ = self.histogram.record(ns / DELAY_RESOLUTION_NS);
    }

    /// Returns the number of recorded delays.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the summary of the distribution, in s.
    pub fn summary(&self) -> DelayRecord {
        if self.count == 0 {
            return DelayRecord::default();
        }
        let n = self.count as f64;
        let mean = self.sum / n;
        let quantile =
            |q| self.histogram.value_at_quantile(q) as f64 * DELAY_RESOLUTION_NS as f64 * 1e-9;
        DelayRecord {
            mean,
            std: (self.squares / n - mean * mean).max(0.0).sqrt(),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jain_of_the_thesis() {
        // Jamshaid 2010 §2.1.5: nine equal flows and one starved: 0.9; half at half share: 0.9.
        let nine: Vec<f64> = (0..10).map(|i| f64::from(u8::from(i > 0))).collect();
        assert!((jain(&nine) - 0.9).abs() < 1e-12);
        let half: Vec<f64> = (0..10).map(|i| if i < 5 { 1.0 } else { 0.5 }).collect();
        assert!((jain(&half) - 0.9).abs() < 1e-12);
        assert_eq!(jain(&[]), 1.0);
        assert_eq!(jain_normalized(&[2.0, 1.0], &[4.0, 2.0]), 1.0);
    }

    #[test]
    fn delays() {
        let mut d = Delays::new();
        for ms in 1..=1000u64 {
            d.record(ms * 1_000_000);
        }
        let s = d.summary();
        assert!((s.mean - 0.5005).abs() < 1e-9);
        assert!((s.p50 - 0.5).abs() < 0.01 && (s.p95 - 0.95).abs() < 0.01);
    }

    proptest! {
        #[test]
        fn jain_lies_between_one_over_n_and_one(rates in prop::collection::vec(0.0f64..1e9, 1..40)) {
            let j = jain(&rates);
            prop_assert!(j <= 1.0 + 1e-12 && j >= 1.0 / rates.len() as f64 - 1e-12);
        }
    }
}
