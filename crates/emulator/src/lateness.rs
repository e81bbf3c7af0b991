//! Lateness of events, and the bound at which radio time stops.

use fairmesh_engine::record::LatenessRecord;
use fairmesh_units::Span;
use hdrhistogram::Histogram;

/// Histogram of the lateness of events, ns, to three digits.
#[derive(Clone, Debug)]
pub struct Lateness {
    histogram: Histogram<u64>,
}

/// Upper bound of the histogram; higher lateness is recorded as this value.
const MAX_LATENESS: Span = Span::from_secs(60);

impl Default for Lateness {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_LATENESS.as_nanos(), 3);
        // Constant bounds, and 3 significant digits are in 0..=5.
        Lateness { histogram: histogram.expect("bounds and digits make a histogram") }
    }
}

impl Lateness {
    /// Records the lateness of an event.
    pub fn record(&mut self, late: Span) {
        self.histogram.saturating_record(late.as_nanos());
    }

    /// Returns the distribution.
    pub fn summary(&self) -> LatenessRecord {
        let at = |q| self.histogram.value_at_quantile(q) as f64 * 1e-9;
        LatenessRecord {
            events: self.histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.histogram.max() as f64 * 1e-9,
        }
    }
}

/// Returns the lateness of an event at which radio time stops.
///
/// It is a twelfth of the time of a 1500-byte frame at the data rate, which is 1 ms at 1 Mbit/s,
/// but at least 100 µs, the best that a general-purpose kernel guarantees.
pub fn bound(frame: Span) -> Span {
    Span::from_nanos((frame.as_nanos() / 12).max(100_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution() {
        let mut l = Lateness::default();
        for us in 1..=1000 {
            l.record(Span::from_micros(us));
        }
        let s = l.summary();
        assert_eq!(s.events, 1000);
        assert!((s.p50 - 500e-6).abs() < 1e-6 && (s.p99 - 990e-6).abs() < 1e-6, "{s:?}");
        assert!((s.max - 1e-3).abs() < 1e-6);
    }

    #[test]
    fn the_bound_follows_the_frame() {
        assert_eq!(bound(Span::from_millis(12)), Span::from_millis(1));
        assert_eq!(bound(Span::from_micros(250)), Span::from_micros(100));
    }
}
