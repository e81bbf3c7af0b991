//! Adaptive numbers of seeds: enough for a confidence interval of a requested width.

use fairmesh_engine::record::RunRecord;
use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::frame::{self, Values};

/// Width at which the interval of a mean is narrow enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Width {
    /// Half-width in the unit of the measure.
    Absolute(f64),
    /// Half-width as a fraction of the mean.
    OfMean(f64),
}

/// Rule that ends a point before its last seed.
///
/// The number of seeds depends on the results of the first seeds alone: not on the number of threads, the order in
/// which runs end, or what a store has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopRule {
    /// Measure of a run, one of [`measures`].
    pub measure: String,
    /// Half-width of the 95 % interval that ends a point.
    pub width: Width,
    /// Number of seeds before the first decision, at least 2.
    pub least: usize,
}

impl StopRule {
    /// Returns true if the interval of these values, one per seed, is narrow enough.
    pub fn narrow(&self, values: &[f64]) -> bool {
        let estimate = Estimate::of(values);
        let most = match self.width {
            Width::Absolute(width) => width,
            Width::OfMean(fraction) => fraction * estimate.mean.abs(),
        };
        estimate.ci95.is_some_and(|half| half <= most)
    }

    /// Returns the number of seeds for the next decision: 1.5 times `seeds`, rounded up.
    pub fn next(seeds: usize) -> usize {
        seeds + seeds.div_ceil(2)
    }

    /// Returns the value of the measure in a run; `None` if the run lacks it.
    pub fn value(&self, record: &RunRecord) -> Option<f64> {
        let frame = frame::runs(&[vec![record.clone()]]);
        match &frame.column(&self.measure)?.values {
            Values::Float(v) => v.first().copied(),
            Values::Maybe(v) => v.first().copied().flatten(),
            Values::Int(v) => v.first().map(|&n| n as f64),
            Values::Text(_) => None,
        }
    }
}

/// Returns the names of the measures of a run.
pub fn measures() -> Vec<String> {
    let frame = frame::runs(&[]);
    let numbers = frame.columns.into_iter().filter(|c| !matches!(c.values, Values::Text(_)));
    numbers.map(|c| c.name).filter(|name| name != "seed").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn until(width: Width) -> StopRule {
        StopRule { measure: "jain".into(), width, least: 2 }
    }

    #[test]
    fn an_interval_is_judged_by_its_half_width() {
        // Mean 10, standard deviation 1, n = 4: half-width 3.182 / 2.
        let sample = [10.0 - 0.75_f64.sqrt(), 10.0 + 0.75_f64.sqrt()].repeat(2);
        assert!((Estimate::of(&sample).ci95.unwrap() - 1.591).abs() < 1e-3);
        assert!(until(Width::Absolute(1.6)).narrow(&sample));
        assert!(!until(Width::Absolute(1.58)).narrow(&sample));
        assert!(until(Width::OfMean(0.16)).narrow(&sample));
        assert!(!until(Width::OfMean(0.158)).narrow(&sample));
        assert!(!until(Width::Absolute(1e9)).narrow(&sample[..1]), "one value has no interval");
    }

    #[test]
    fn each_measure_of_a_run_has_a_value() {
        let r = record("fifo", 3, &[(1e5, 2e5, 1), (2e5, 2e5, 2)]);
        for measure in measures() {
            let until = StopRule { measure, width: Width::Absolute(0.0), least: 2 };
            assert!(until.value(&r).is_some(), "{}", until.measure);
        }
        assert_eq!(until(Width::Absolute(0.0)).value(&r), Some(0.9));
    }

    #[test]
    fn decisions_come_after_half_as_many_seeds_again() {
        assert_eq!([2, 3, 5, 8, 12].map(StopRule::next), [3, 5, 8, 12, 18]);
    }
}
