//! Additive increase, multiplicative decrease (RFC 5681).

use super::window::{CongestionControl, Progress, Window};

/// Slow start and congestion avoidance, of RFC 5681 by ACKs or of RFC 9002 by bytes.
///
/// The transport implements recovery.
#[derive(Clone, Debug)]
pub(crate) struct NewReno {
    /// True for ns-3's rule.
    ///
    /// When slow start ends within an ACK of several segments, the rest of them counts for congestion
    /// avoidance.
    spill: bool,
    /// Bytes acknowledged since the window last grew, if bytes count.
    acked: u64,
}

impl NewReno {
    pub(crate) const fn new(spill: bool) -> Self {
        NewReno { spill, acked: 0 }
    }

    /// Adds one segment for each window that is acknowledged. RFC 9002 §7.3.3
    fn avoid_by_bytes(&mut self, window: &mut Window, acked: u64) {
        self.acked += acked;
        if self.acked >= window.cwnd {
            self.acked -= window.cwnd;
            window.cwnd += window.mss;
        }
    }
}

/// Grows in slow start.
///
/// At most one segment per ACK (RFC 5681 §3.1 (2)), or the acknowledged bytes (RFC 9002 §7.3.1).
pub(crate) fn slow_start(window: &mut Window, acked: u64, by_bytes: bool) {
    window.cwnd += if by_bytes { acked } else { acked.min(window.mss) };
}

impl CongestionControl for NewReno {
    fn on_ack(&mut self, window: &mut Window, p: Progress) {
        if !p.limited {
            return;
        }
        let mut left = p.acked;
        if window.in_slow_start() {
            slow_start(window, p.acked, p.by_bytes);
            left = if self.spill { p.acked.saturating_sub(window.mss) } else { 0 };
        }
        if left > 0 && !window.in_slow_start() {
            if p.by_bytes {
                return self.avoid_by_bytes(window, left);
            }
            // RFC 5681 §3.1 (3), rounded down, at least one byte
            window.cwnd += (window.mss * window.mss / window.cwnd).max(1);
        }
    }

    fn reduce(&mut self, _window: &Window, flight: u64) -> u64 {
        self.acked = 0;
        flight / 2 // RFC 5681 §3.1 (4), RFC 9002 §7.3.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENO: NewReno = NewReno::new(false);

    fn ack(acked: u64) -> Progress {
        Progress { acked, limited: true, ..Progress::default() }
    }

    #[test]
    fn doubles_then_grows_by_one_segment_per_round_trip() {
        let mut reno = RENO;
        let mut w = Window { cwnd: 2000, ssthresh: 8000, mss: 1000 };
        for _ in 0..2 {
            reno.on_ack(&mut w, ack(1000));
        }
        assert_eq!(w.cwnd, 4000);
        // An ACK of four segments still counts as one.
        reno.on_ack(&mut w, ack(4000));
        assert_eq!(w.cwnd, 5000);
        w.cwnd = 8000;
        for _ in 0..8 {
            reno.on_ack(&mut w, ack(1000));
        }
        assert!((8900..=9000).contains(&w.cwnd), "{}", w.cwnd);
    }

    #[test]
    fn the_end_of_slow_start_within_an_ack() {
        for (spill, cwnd) in [(false, 4000), (true, 4250)] {
            let mut w = Window { cwnd: 3000, ssthresh: 4000, mss: 1000 };
            NewReno::new(spill).on_ack(&mut w, ack(3000));
            assert_eq!(w.cwnd, cwnd);
            let mut w = Window { cwnd: 3000, ssthresh: 4000, mss: 1000 };
            NewReno::new(spill).on_ack(&mut w, ack(1000));
            assert_eq!(w.cwnd, 4000);
        }
    }

    #[test]
    fn by_bytes_an_acknowledgement_counts_its_acknowledged_bytes() {
        let by_bytes = |acked| Progress { by_bytes: true, ..ack(acked) };
        let mut reno = RENO;
        let mut w = Window { cwnd: 10_000, ssthresh: 30_000, mss: 1000 };
        // RFC 9002 §7.3.1
        reno.on_ack(&mut w, by_bytes(10_000));
        assert_eq!(w.cwnd, 20_000);
        reno.on_ack(&mut w, by_bytes(10_000));
        assert_eq!(w.cwnd, 30_000);
        // RFC 9002 §7.3.3: a segment per window, in any number of acknowledgements.
        for _ in 0..14 {
            reno.on_ack(&mut w, by_bytes(2000));
        }
        assert_eq!(w.cwnd, 30_000);
        reno.on_ack(&mut w, by_bytes(2000));
        assert_eq!(w.cwnd, 31_000);
    }

    #[test]
    fn halves() {
        let mut reno = RENO;
        let w = Window { cwnd: 20_000, ssthresh: u64::MAX, mss: 1000 };
        assert_eq!(reno.reduce(&w, 14_000), 7000);
        assert_eq!(reno.reduce(&w, 3000), 1500);
    }

    #[test]
    fn stands_still_when_the_application_is_the_limit() {
        let mut reno = RENO;
        let mut w = Window { cwnd: 2000, ssthresh: 8000, mss: 1000 };
        reno.on_ack(&mut w, Progress { limited: false, ..ack(1000) });
        assert_eq!(w.cwnd, 2000);
    }
}
