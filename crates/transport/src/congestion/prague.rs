//! Prague (draft-briscoe-iccrg-prague-congestion-control-04).
//!
//! It reduces in proportion to the fraction of marked data, as DCTCP (RFC 8257); losses as Reno.

use fairmesh_units::{Span, Time};

use super::newreno;
use super::window::{CongestionControl, Progress, Window};

/// Gain of the moving average of the marked fraction. §2.3.2
const MARKED_FRACTION_GAIN: f64 = 1.0 / 16.0;
/// Minimum round trip used for growth and averaging of flows with shorter ones. §2.4.4
const VIRTUAL_RTT: Span = Span::from_millis(25);
/// Round trips after slow start until that minimum applies, as in the Linux implementation.
const TRANSITION_ROUNDS: u32 = 4;
/// Minimum window after a mark, segments.
const MIN_SEGMENTS: u64 = 2;

/// State of Prague.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prague {
    /// Average of the marked fraction; `None` before the first mark.
    alpha: Option<f64>,
    /// Bytes acknowledged in this round, and marked bytes among them.
    acked: u64,
    marked: u64,
    /// Marked bytes of the present acknowledgement.
    marked_now: u64,
    round_end: u64,
    averaged_at: Time,
    /// Rounds since slow start.
    rounds: u32,
    /// Fraction of a byte of accumulated growth.
    carry: f64,
    /// The window before the last cut for marks.
    before: u64,
}

impl Prague {
    /// Processes the counts of an acknowledgement: `acked` bytes, `marked` of them. §2.3.2
    pub(crate) fn count(&mut self, window: &Window, p: &Progress, marked: u64) {
        self.marked_now = marked;
        self.acked += p.acked;
        self.marked += marked;
        if marked > 0 && self.alpha.is_none() {
            self.alpha = Some(1.0);
        }
        if p.una < self.round_end || self.acked == 0 {
            return;
        }
        let independent = self.rounds >= TRANSITION_ROUNDS;
        if independent && p.now.since(self.averaged_at) < VIRTUAL_RTT {
            return;
        }
        let part = (self.marked as f64 / self.acked as f64).min(1.0);
        if let Some(alpha) = &mut self.alpha {
            *alpha += MARKED_FRACTION_GAIN * (part - *alpha);
        }
        (self.acked, self.marked, self.averaged_at) = (0, 0, p.now);
        self.round_end = p.next;
        if !window.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// Reduces the window by half of the marked fraction.
    ///
    /// The caller ensures that this happens once per round trip. §2.4.2
    pub(crate) fn on_mark(&mut self, window: &mut Window) {
        self.before = window.cwnd;
        let alpha = self.alpha.unwrap_or(1.0);
        let left = (window.cwnd as f64 * (1.0 - alpha / 2.0)) as u64;
        window.cwnd = left.max(MIN_SEGMENTS * window.mss);
        window.ssthresh = window.cwnd;
    }

    /// Returns the window after a loss in a round trip that had a mark.
    ///
    /// Both reduce it by no more than the loss alone.
    pub(crate) fn loss_after_mark(&self) -> u64 {
        self.before / 2
    }

    /// Returns the window's growth per round trip, segments.
    ///
    /// Smaller for short round trips, so that the rate grows as fast as at 25 ms. §2.4.4
    fn increase(&self, srtt: Option<Span>) -> f64 {
        let Some(srtt) = srtt.filter(|_| self.rounds >= TRANSITION_ROUNDS) else { return 1.0 };
        let ratio = srtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64();
        (ratio * ratio).min(1.0)
    }
}

impl CongestionControl for Prague {
    /// Grows by the unmarked data, also in a round trip that had marks. §2.4.3
    fn on_ack(&mut self, window: &mut Window, p: Progress) {
        if !p.limited {
            return;
        }
        let clean = p.acked.saturating_sub(self.marked_now);
        if window.in_slow_start() {
            newreno::slow_start(window, clean, p.by_bytes);
            return;
        }
        let segment = window.mss as f64 * self.increase(p.srtt);
        self.carry += clean as f64 * segment / window.cwnd.max(1) as f64;
        let whole = self.carry as u64;
        self.carry -= whole as f64;
        window.cwnd += whole;
    }

    fn reduce(&mut self, _window: &Window, flight: u64) -> u64 {
        flight / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn window(segments: u64) -> Window {
        Window { cwnd: segments * MSS, ssthresh: 10 * MSS, mss: MSS }
    }

    /// Runs a round trip of `ms`.
    ///
    /// It is a window in one acknowledgement, with a marked fraction of `part`.
    fn round(p: &mut Prague, w: &mut Window, now: &mut Time, part: f64, ms: u64) {
        *now += Span::from_millis(ms);
        let una = p.round_end + w.cwnd;
        let progress = Progress {
            now: *now,
            acked: w.cwnd,
            srtt: Some(Span::from_millis(ms)),
            limited: true,
            una,
            next: una,
            ..Progress::default()
        };
        p.count(w, &progress, (w.cwnd as f64 * part) as u64);
        p.on_ack(w, progress);
    }

    #[test]
    fn the_average_goes_to_the_marked_part_by_a_sixteenth_per_round_trip() {
        let (mut p, mut now) = (Prague::default(), Time::ZERO);
        let mut w = window(100);
        round(&mut p, &mut w, &mut now, 0.0, 40);
        assert_eq!(p.alpha, None);
        // Starts at one with the first mark.
        for n in 1..=60 {
            w.cwnd = 100 * MSS;
            round(&mut p, &mut w, &mut now, 0.25, 40);
            let expected = 0.25 + 0.75 * (1.0 - MARKED_FRACTION_GAIN).powi(n);
            assert!((p.alpha.unwrap() - expected).abs() < 1e-9, "{n}");
        }
        assert!((p.alpha.unwrap() - 0.25).abs() < 0.02);
    }

    #[test]
    fn a_short_round_trip_averages_every_25_ms() {
        let (mut p, mut now) = (Prague::default(), Time::ZERO);
        let mut w = window(100);
        for _ in 0..TRANSITION_ROUNDS {
            round(&mut p, &mut w, &mut now, 1.0, 10);
        }
        let (from, before) = (now, p.alpha.unwrap());
        while now.since(from) < Span::from_millis(90) {
            round(&mut p, &mut w, &mut now, 0.0, 10);
        }
        // Every third round trip.
        assert!((p.alpha.unwrap() - before * (1.0 - MARKED_FRACTION_GAIN).powi(3)).abs() < 1e-9);
    }

    #[test]
    fn a_mark_takes_half_of_the_average_and_leaves_two_segments() {
        let mut p = Prague { alpha: Some(0.2), ..Prague::default() };
        let mut w = window(100);
        p.on_mark(&mut w);
        assert_eq!((w.cwnd, w.ssthresh), (90 * MSS, 90 * MSS));
        assert_eq!(p.loss_after_mark(), 50 * MSS);
        let mut w = window(2);
        p.alpha = Some(1.0);
        p.on_mark(&mut w);
        assert_eq!(w.cwnd, 2 * MSS);
    }

    #[test]
    fn growth_is_a_segment_per_round_trip_and_that_of_25_ms_where_it_is_shorter() {
        for (ms, expected) in [(100, 1.0), (25, 1.0), (10, 0.16), (5, 0.04)] {
            let (mut p, mut now) = (Prague::default(), Time::ZERO);
            let mut w = window(50);
            for _ in 0..=TRANSITION_ROUNDS {
                w.cwnd = 50 * MSS;
                round(&mut p, &mut w, &mut now, 0.0, ms);
            }
            p.rounds = TRANSITION_ROUNDS;
            w.cwnd = 50 * MSS;
            let mut grown = 0.0;
            for _ in 0..100 {
                w.cwnd = 50 * MSS;
                round(&mut p, &mut w, &mut now, 0.0, ms);
                grown += (w.cwnd - 50 * MSS) as f64;
            }
            let segments = grown / 100.0 / MSS as f64;
            assert!((segments - expected).abs() < 0.002, "{ms} ms: {segments}");
        }
    }

    #[test]
    fn marked_data_does_not_open_the_window() {
        let (mut p, mut now) = (Prague::default(), Time::ZERO);
        let mut w = window(50);
        round(&mut p, &mut w, &mut now, 0.5, 40);
        assert_eq!(w.cwnd, 50 * MSS + MSS / 2);
    }
}
