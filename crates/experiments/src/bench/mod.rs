//! Speed in MPDUs per CPU-second, of this simulator and of ns-3, row by row.
//!
//! A frame that is not an A-MPDU counts as one MPDU.
//!
//! Each measurement is a separate process, so that CPU time and peak memory belong to one row.

pub mod instructions;
pub mod ns3;
pub mod row;
pub mod scale;

/// Median, smallest and largest of some measurements.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of at least one value.
    pub fn of(values: &[f64]) -> Self {
        let mut v = values.to_vec();
        v.sort_by(f64::total_cmp);
        let (n, half) = (v.len(), v.len() / 2);
        let median = if n % 2 == 1 { v[half] } else { (v[half - 1] + v[half]) / 2.0 };
        Spread { median, min: v[0], max: v[n - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
    }
}
