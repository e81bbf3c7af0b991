//! Statistics from several runs: a mean and its confidence interval.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with the half-width of its 95 % interval (Student t).
/// It is the only type of uncertain number here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean, or another statistic if requested.
    pub mean: f64,
    /// Half-width of the 95 % interval; `None` for a single value, and if there is no interval.
    #[serde(alias = "half_width")]
    pub ci95: Option<f64>,
}

impl Estimate {
    /// Returns the estimate from one value per run; 0 without values.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = if n == 0 { 0.0 } else { values.iter().sum::<f64>() / n as f64 };
        if n < 2 {
            return Estimate::exact(mean);
        }
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let variance = squares / (n - 1) as f64;
        Estimate { mean, ci95: Some(t95(n - 1) * (variance / n as f64).sqrt()) }
    }

    /// Returns a number without an interval.
    pub fn exact(value: f64) -> Self {
        Estimate { mean: value, ci95: None }
    }

    /// Returns a number that was counted or computed, with an interval of zero width.
    pub fn counted(value: f64) -> Self {
        Estimate { mean: value, ci95: Some(0.0) }
    }

    /// Returns the half-width of the interval; 0 if there is none.
    pub fn half_width(&self) -> f64 {
        self.ci95.unwrap_or(0.0)
    }

    /// Returns the estimate in another unit.
    #[must_use]
    pub fn scaled(self, by: f64) -> Self {
        Estimate { mean: self.mean * by, ci95: self.ci95.map(|ci| ci * by) }
    }

    /// Formats as "614.3 ± 1.8", scaled and rounded; without "±" if there is no interval.
    pub fn show(&self, scale: f64, digits: usize) -> String {
        match self.ci95 {
            Some(ci) => format!("{:.digits$} ± {:.digits$}", self.mean * scale, ci * scale),
            None => format!("{:.digits$}", self.mean * scale),
        }
    }

    /// Returns true if this is higher than another beyond both intervals.
    pub fn above(&self, other: &Estimate) -> bool {
        self.mean - self.half_width() > other.mean + other.half_width()
    }

    /// Returns the form stored in records: six significant digits.
    #[must_use]
    pub fn rounded(self) -> Self {
        let digits = |v: f64| format!("{v:.5e}").parse().unwrap_or(v);
        Estimate { mean: digits(self.mean), ci95: self.ci95.map(digits) }
    }
}

/// Returns the 97.5 % quantile of Student's t distribution with `dof` degrees of freedom.
fn t95(dof: usize) -> f64 {
    StudentsT::new(0.0, 1.0, dof as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

/// Serialisation of an estimate as a pair, `[mean, ci95]`.
///
/// It is the short form for records with many estimates.
pub mod pair {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Estimate;

    /// Serialises an estimate.
    ///
    /// # Errors
    /// Returns an error if the format rejects it.
    pub fn serialize<S: Serializer>(e: &Estimate, to: S) -> Result<S::Ok, S::Error> {
        (e.mean, e.ci95).serialize(to)
    }

    /// Deserialises an estimate.
    ///
    /// # Errors
    /// Returns an error if it is not a pair.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Estimate, D::Error> {
        let (mean, ci95) = Deserialize::deserialize(from)?;
        Ok(Estimate { mean, ci95 })
    }

    /// Serialisation of an optional estimate as a pair.
    pub mod option {
        use super::{Deserialize, Deserializer, Estimate, Serialize, Serializer};

        /// Serialises an optional estimate.
        ///
        /// # Errors
        /// Returns an error if the format rejects it.
        pub fn serialize<S: Serializer>(e: &Option<Estimate>, to: S) -> Result<S::Ok, S::Error> {
            e.map(|e| (e.mean, e.ci95)).serialize(to)
        }

        /// Deserialises an optional estimate.
        ///
        /// # Errors
        /// Returns an error if it is not a pair.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Estimate>, D::Error> {
            let pair: Option<(f64, Option<f64>)> = Deserialize::deserialize(from)?;
            Ok(pair.map(|(mean, ci95)| Estimate { mean, ci95 }))
        }
    }
}

/// Returns the mean of `values`, 0 if there are none.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
    if n > 0.0 { sum / n } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_intervals() {
        let e = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(e.mean, 3.0);
        // t(0.975, 4) = 2.776445, s = √2.5.
        assert!((e.half_width() - 2.776_445 * (2.5f64 / 5.0).sqrt()).abs() < 1e-5, "{e:?}");
        assert_eq!(Estimate::of(&[7.0]), Estimate::exact(7.0));
        assert_eq!(Estimate::of(&[]), Estimate::exact(0.0));
    }

    #[test]
    fn shown_compared_and_rounded() {
        let e = Estimate { mean: 614_321.0, ci95: Some(1_800.0) };
        assert_eq!(e.show(1e-3, 1), "614.3 ± 1.8");
        assert_eq!(Estimate::exact(0.5).show(1.0, 2), "0.50");
        let near = |mean, half| Estimate { mean, ci95: Some(half) };
        assert!(near(1.0, 0.1).above(&near(0.8, 0.05)));
        assert!(!near(1.0, 0.1).above(&near(0.9, 0.05)));
        assert_eq!(Estimate { mean: 1.0 / 3.0, ci95: None }.rounded().mean, 0.333333);
    }

    #[test]
    fn written_and_read_in_both_forms() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Kept {
            #[serde(with = "pair")]
            a: Estimate,
            #[serde(with = "pair::option")]
            b: Option<Estimate>,
        }
        let kept = Kept { a: Estimate { mean: 0.5, ci95: Some(0.25) }, b: None };
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(text, r#"{"a":[0.5,0.25],"b":null}"#);
        assert_eq!(serde_json::from_str::<Kept>(&text).unwrap(), kept);
        let ns3: Estimate = serde_json::from_str(r#"{"mean":2.0,"half_width":0.5}"#).unwrap();
        assert_eq!(ns3, Estimate { mean: 2.0, ci95: Some(0.5) });
    }
}
