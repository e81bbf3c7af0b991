//! Stalls of radio time, and their effect on the kernel's timers.

use fairmesh_engine::record::StallRecord;
use fairmesh_units::{Span, Time};

/// Stalls closer than this in radio time count as one.
///
/// The kernel's timers had no time between them.
const MERGE_INTERVAL: Span = Span::from_millis(1);

/// Maximum cost to a connection of a spurious retransmission timeout.
///
/// The connection restarts with one segment (RFC 5681 §3.1), and a second is several round trips
/// here.
const MAX_TIMEOUT_COST: Span = Span::from_secs(1);

/// Maximum fraction of a valid run's time that stalls may affect.
pub const MAX_STALLED_FRACTION: f64 = 0.1;

/// Stalls of radio time.
#[derive(Clone, Debug)]
pub struct Stalls {
    lengths: Vec<Span>,
    end: Time,
    /// Minimum length of a long stall.
    long_from: Span,
}

impl Stalls {
    /// Creates an empty record; `timer` is the minimum retransmission timer.
    ///
    /// The kernel's timers continue while radio time is stopped. A timer exceeds the expected round
    /// trip by at least `timer` (RFC 6298 §2; Linux adds it to the smoothed round trip). A stall
    /// shorter than half of that fires no timer that was not nearly due: it only advances the
    /// kernel's clocks by its length. A longer one may fire a timer spuriously.
    pub fn new(timer: Span) -> Self {
        let long_from = Span::from_nanos(timer.as_nanos() / 2);
        Stalls { lengths: Vec::new(), end: Time::ZERO, long_from }
    }

    /// Records a stall of radio time at `at`, of this length.
    pub fn record(&mut self, at: Time, lost: Span) {
        match self.lengths.last_mut() {
            Some(last) if at - self.end <= MERGE_INTERVAL => *last += lost,
            _ => self.lengths.push(lost),
        }
        self.end = at;
    }

    /// Returns the real time lost.
    pub fn sum(&self) -> Span {
        self.lengths.iter().fold(Span::ZERO, |a, b| a + *b)
    }

    /// Returns the number of long stalls.
    pub fn long(&self) -> u64 {
        self.lengths.iter().filter(|s| **s >= self.long_from).count() as u64
    }

    /// Summarises the stalls of a run that ended at `end`.
    ///
    /// `felt` is the number of long stalls that affected connections.
    ///
    /// If `felt` is `None` (unknown), every long stall counts.
    pub fn summary(&self, end: Time, felt: Option<u64>) -> StallRecord {
        let sum = self.sum();
        let lasted = end.as_secs_f64() + sum.as_secs_f64();
        let part = |of: f64| if lasted > 0.0 { of / lasted } else { 0.0 };
        let long = self.long();
        let felt = felt.map_or(long, |f| f.min(long));
        let bent = sum.as_secs_f64() + felt as f64 * MAX_TIMEOUT_COST.as_secs_f64();
        StallRecord {
            number: self.lengths.len() as u64,
            sum_s: sum.as_secs_f64(),
            longest_s: self.lengths.iter().max().map_or(0.0, |s| s.as_secs_f64()),
            share: part(sum.as_secs_f64()),
            long,
            long_from_s: self.long_from.as_secs_f64(),
            felt,
            bent: part(bent).min(1.0),
            bent_bound: MAX_STALLED_FRACTION,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: Span = Span::from_millis(200);

    fn after(stalls: &[(u64, u64)], seconds: u64) -> StallRecord {
        summary_of(stalls, seconds, None)
    }

    fn summary_of(stalls: &[(u64, u64)], seconds: u64, felt: Option<u64>) -> StallRecord {
        let mut all = Stalls::new(TIMER);
        for (at, lost) in stalls {
            all.record(Time::ZERO + Span::from_micros(*at), Span::from_micros(*lost));
        }
        all.summary(Time::ZERO + Span::from_secs(seconds), felt)
    }

    #[test]
    fn number_sum_and_longest() {
        let s = after(&[(500_000, 20_000), (900_000, 30_000)], 10);
        assert_eq!((s.number, s.long), (2, 0));
        assert!((s.sum_s - 0.05).abs() < 1e-12 && (s.longest_s - 0.03).abs() < 1e-12, "{s:?}");
        assert!((s.share - 0.05 / 10.05).abs() < 1e-12 && s.bent == s.share, "{s:?}");
        let none = after(&[], 10);
        assert_eq!((none.number, none.sum_s, none.bent), (0, 0.0, 0.0));
        assert_eq!(after(&[], 0).share, 0.0);
    }

    #[test]
    fn a_stall_in_pieces_is_one() {
        let s = after(&[(500_000, 60_000), (500_900, 60_000), (502_000, 60_000)], 10);
        assert_eq!((s.number, s.long), (2, 1));
        assert!((s.longest_s - 0.12).abs() < 1e-12, "{s:?}");
    }

    #[test]
    fn a_stall_as_long_as_timers_counts_more_than_its_length() {
        // One late event does not invalidate a run of a minute; in a short run, or repeatedly, it
        // does.
        let once = after(&[(5_000_000, 300_000)], 60);
        assert!(once.long == 1 && (once.bent - 1.3 / 60.3).abs() < 1e-12, "{once:?}");
        // No timer fired: only the length counts.
        let unfelt = summary_of(&[(1_000_000, 300_000)], 4, Some(0));
        assert!(
            (unfelt.long, unfelt.felt) == (1, 0) && unfelt.bent < MAX_STALLED_FRACTION,
            "{unfelt:?}"
        );
        assert!(summary_of(&[(1_000_000, 300_000)], 4, Some(1)).bent > MAX_STALLED_FRACTION);
        assert!(
            once.bent < MAX_STALLED_FRACTION
                && after(&[(5_000_000, 300_000)], 4).bent > MAX_STALLED_FRACTION
        );
        let often: Vec<_> = (1..=10).map(|i| (i * 5_000_000, 300_000)).collect();
        assert!(after(&often, 60).bent > MAX_STALLED_FRACTION);
        // The same total in short stalls is valid: 3 s in stalls of 10 ms.
        let small: Vec<_> = (1..=300).map(|i| (i * 150_000, 10_000)).collect();
        assert!(after(&small, 60).bent < MAX_STALLED_FRACTION);
    }
}
