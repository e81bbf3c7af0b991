//! HyStart++ (RFC 9406): slow start ends when round trips grow, before packets are lost.

use fairmesh_units::Span;

use super::window::{Progress, Window};

/// Bounds of the growth of the round trip that ends slow start. RFC 9406 §4.3
const MIN_RTT_THRESH: Span = Span::from_millis(4);
const MAX_RTT_THRESH: Span = Span::from_millis(16);
/// Divisor of the last round's round trip that gives the growth between the bounds.
const MIN_RTT_DIVISOR: u64 = 8;
/// Minimum number of samples in a round.
const N_RTT_SAMPLE: u32 = 8;
/// Divisor of the growth in conservative slow start, relative to slow start.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Length of conservative slow start, rounds.
const CSS_ROUNDS: u32 = 5;
/// Maximum number of segments for which one acknowledgement counts without pacing.
const L: u64 = 8;

/// State of HyStart++ in one connection's first slow start.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    /// True if pacing spreads the data that an acknowledgement releases.
    ///
    /// Its growth is then unlimited.
    paced: bool,
    /// Sequence number that ends the round when it is acknowledged.
    window_end: u64,
    last_min: Option<Span>,
    current_min: Option<Span>,
    samples: u32,
    /// Round trip at the start of conservative slow start; `None` in slow start.
    css: Option<Span>,
    css_rounds: u32,
}

impl HyStart {
    pub(crate) fn new(paced: bool) -> Self {
        HyStart {
            paced,
            window_end: 0,
            last_min: None,
            current_min: None,
            samples: 0,
            css: None,
            css_rounds: 0,
        }
    }

    /// Processes an acknowledgement in slow start. RFC 9406 §4.2
    pub(crate) fn on_ack(&mut self, window: &mut Window, p: &Progress) {
        if self.window_end == 0 {
            self.window_end = p.next;
        }
        if let Some(rtt) = p.rtt {
            self.current_min = Some(self.current_min.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        if p.limited {
            let most = if self.paced { u64::MAX } else { L * window.mss };
            let grown = p.acked.min(most);
            window.cwnd += if self.css.is_some() { grown / CSS_GROWTH_DIVISOR } else { grown };
        }
        if self.samples >= N_RTT_SAMPLE
            && let (Some(current), Some(last)) = (self.current_min, self.last_min)
        {
            match self.css {
                None => {
                    let part = Span::from_nanos(last.as_nanos() / MIN_RTT_DIVISOR);
                    let thresh = part.clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                    if current >= last + thresh {
                        self.css = Some(current);
                        self.css_rounds = 0;
                    }
                }
                // The growth was transient: slow start continues.
                Some(baseline) if current < baseline => self.css = None,
                Some(_) => {}
            }
        }
        if p.una >= self.window_end {
            self.window_end = p.next;
            self.last_min = self.current_min.take();
            self.samples = 0;
            if self.css.is_some() {
                self.css_rounds += 1;
                if self.css_rounds >= CSS_ROUNDS {
                    window.ssthresh = window.cwnd;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Runs one round of a window: the round trip of each acknowledgement, of one segment each.
    fn round(h: &mut HyStart, w: &mut Window, una: &mut u64, rtt_ms: u64) {
        let segments = w.cwnd / MSS;
        for _ in 0..segments {
            *una += MSS;
            // The data sent one window later.
            let next = *una + w.cwnd;
            let rtt = Some(Span::from_millis(rtt_ms));
            let p =
                Progress { acked: MSS, limited: true, rtt, una: *una, next, ..Progress::default() };
            h.on_ack(w, &p);
            if !w.in_slow_start() {
                return;
            }
        }
    }

    fn start() -> (HyStart, Window, u64) {
        (HyStart::new(false), Window { cwnd: 10 * MSS, ssthresh: u64::MAX, mss: MSS }, 1)
    }

    #[test]
    fn doubles_while_round_trips_stay() {
        let (mut h, mut w, mut una) = start();
        for _ in 0..5 {
            round(&mut h, &mut w, &mut una, 40);
        }
        assert_eq!(w.cwnd, 320 * MSS);
        // 40 ms / 8 = 5 ms: 4 ms more are not enough.
        round(&mut h, &mut w, &mut una, 44);
        assert_eq!(w.cwnd, 640 * MSS);
        assert!(h.css.is_none());
    }

    #[test]
    fn ends_five_rounds_after_round_trips_have_grown() {
        let (mut h, mut w, mut una) = start();
        for _ in 0..4 {
            round(&mut h, &mut w, &mut una, 40);
        }
        let before = w.cwnd;
        let mut rounds = 0;
        while w.in_slow_start() {
            round(&mut h, &mut w, &mut una, 46);
            rounds += 1;
            assert!(rounds < 20);
        }
        // Growth by a quarter per round, five times, plus the growth before the eighth sample.
        let grown = w.cwnd as f64 / before as f64;
        assert!((2.4..3.9).contains(&grown), "{grown}");
        assert!((5..=7).contains(&rounds), "{rounds}");
        assert_eq!(w.ssthresh, w.cwnd);
    }

    #[test]
    fn a_short_growth_does_not_end_slow_start() {
        let (mut h, mut w, mut una) = start();
        for _ in 0..3 {
            round(&mut h, &mut w, &mut una, 40);
        }
        round(&mut h, &mut w, &mut una, 50);
        assert!(h.css.is_some());
        round(&mut h, &mut w, &mut una, 40);
        round(&mut h, &mut w, &mut una, 40);
        assert!(h.css.is_none() && w.in_slow_start());
    }

    #[test]
    fn one_acknowledgement_counts_for_eight_segments() {
        let (mut h, mut w, _) = start();
        let (acked, next) = (20 * MSS, 30 * MSS);
        let p = Progress { acked, limited: true, una: acked, next, ..Progress::default() };
        h.on_ack(&mut w, &p);
        assert_eq!(w.cwnd, 18 * MSS);
        let (_, mut w, _) = start();
        HyStart::new(true).on_ack(&mut w, &p);
        assert_eq!(w.cwnd, 30 * MSS);
    }
}
