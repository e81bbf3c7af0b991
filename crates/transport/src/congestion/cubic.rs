//! CUBIC (RFC 9438).

use fairmesh_units::{Span, Time};

use super::newreno::slow_start;
use super::window::{CongestionControl, Progress, Window};

/// Scaling constant, segments per second cubed. RFC 9438 §5.
const C: f64 = 0.4;
/// Multiplicative decrease. RFC 9438 §4.6.
const BETA: f64 = 0.7;
/// Additive increase of the Reno-friendly estimate while below the window before the cut.
///
/// It makes the average equal to Reno's. RFC 9438 §4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of CUBIC; windows are in segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    /// Plateau of the curve.
    w_max: f64,
    /// Window just before the last cut.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// True if the next congestion avoidance follows a timeout. RFC 9438 §4.8
    after_timeout: bool,
    /// Fraction of a byte of accumulated growth.
    fraction: f64,
}

/// A period of congestion avoidance.
#[derive(Clone, Debug)]
struct Epoch {
    start: Time,
    /// Last ACK, to exclude application-limited time.
    last: Time,
    /// Seconds until the curve reaches the plateau.
    k: f64,
    /// Estimate of Reno's window. RFC 9438 §4.3
    w_est: f64,
}

/// Returns the window `t` seconds after the start. RFC 9438 Figure 1.
fn curve(t: f64, k: f64, w_max: f64) -> f64 {
    let x = t - k;
    C * x * x * x + w_max
}

impl Cubic {
    fn start_epoch(&mut self, now: Time, cwnd: f64) -> Epoch {
        let k = if self.after_timeout || self.w_max <= cwnd {
            // RFC 9438 §4.8, §4.10: no plateau to return to
            self.w_max = cwnd;
            0.0
        } else {
            libm::cbrt((self.w_max - cwnd) / C) // RFC 9438 Figure 2
        };
        self.after_timeout = false;
        Epoch { start: now, last: now, k, w_est: cwnd }
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, p: Progress) {
        if window.in_slow_start() {
            if p.limited {
                slow_start(window, p.acked, p.by_bytes);
            }
            return;
        }
        let mss = window.mss as f64;
        let cwnd = window.cwnd as f64 / mss;
        let mut epoch = match self.epoch.take() {
            Some(epoch) => epoch,
            None => self.start_epoch(p.now, cwnd),
        };
        if p.limited {
            let t = p.now.since(epoch.start).as_secs_f64();
            let rtt = p.srtt.unwrap_or(Span::ZERO).as_secs_f64();
            // RFC 9438 §4.3 Figure 4
            let alpha = if epoch.w_est < self.cwnd_prior { ALPHA } else { 1.0 };
            epoch.w_est += alpha * (p.acked as f64 / mss) / cwnd;
            let grown = if curve(t, epoch.k, self.w_max) < epoch.w_est {
                epoch.w_est.max(cwnd) // RFC 9438 §4.3
            } else {
                // RFC 9438 §4.2: the value of the curve one round trip later, within limits
                let target = curve(t + rtt, epoch.k, self.w_max).clamp(cwnd, 1.5 * cwnd);
                // RFC 9438 §4.4, §4.5; if bytes count, an ACK of several segments is as many ACKs.
                let acks = if p.by_bytes { p.acked as f64 / mss } else { 1.0 };
                cwnd + acks * (target - cwnd) / cwnd
            };
            let bytes = (grown - cwnd) * mss + self.fraction;
            window.cwnd += bytes as u64;
            self.fraction = bytes - (bytes as u64) as f64;
        } else {
            // RFC 9438 §5.8: the curve does not advance while the window is not used
            epoch.start += p.now - epoch.last;
        }
        epoch.last = p.now;
        self.epoch = Some(epoch);
    }

    fn reduce(&mut self, window: &Window, flight: u64) -> u64 {
        let cwnd = window.cwnd as f64 / window.mss as f64;
        self.cwnd_prior = cwnd;
        // RFC 9438 §4.7: fast convergence releases capacity for new flows
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.epoch = None;
        self.fraction = 0.0;
        (flight as f64 * BETA + 0.5) as u64 // RFC 9438 §4.6
    }

    fn on_timeout(&mut self) {
        self.after_timeout = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn progress(now: Time, srtt: Option<Span>, limited: bool) -> Progress {
        Progress { now, acked: MSS, srtt, limited, ..Progress::default() }
    }

    /// Runs congestion avoidance with one ACK per segment and a fixed round trip.
    ///
    /// Returns (seconds since the first ACK, window in segments) after each round.
    fn run(cubic: &mut Cubic, w: &mut Window, rtt_ms: u64, rounds: u64) -> Vec<(f64, f64)> {
        let rtt = Span::from_millis(rtt_ms);
        let mut out = Vec::new();
        for round in 0..rounds {
            let acks = w.cwnd / MSS;
            for i in 0..acks {
                let now = Time::ZERO + Span::from_nanos(rtt.as_nanos() * (acks * round + i) / acks);
                cubic.on_ack(w, progress(now, Some(rtt), true));
            }
            out.push(((round + 1) as f64 * rtt_ms as f64 / 1e3, w.cwnd as f64 / MSS as f64));
        }
        out
    }

    #[test]
    fn follows_the_curve() {
        // A long fat path: W_max = 1000 segments, 100 ms. K = cbrt(300 / 0.4) = 9.0856 s.
        let mut cubic = Cubic::default();
        let mut w = Window { cwnd: 1000 * MSS, ssthresh: 0, mss: MSS };
        w.ssthresh = cubic.reduce(&w, w.cwnd);
        w.cwnd = w.ssthresh;
        assert_eq!(w.cwnd, 700 * MSS);
        let k = 9.085_602_964;
        for (t, cwnd) in run(&mut cubic, &mut w, 100, 150) {
            let expected = 0.4 * (t - k) * (t - k) * (t - k) + 1000.0;
            assert!((cwnd - expected).abs() < 0.01 * expected, "{t}: {cwnd} against {expected}");
        }
    }

    #[test]
    fn is_no_slower_than_reno_on_short_paths() {
        // 10 ms round trip, 20 segments: the Reno-friendly region. W_est grows by ALPHA per round
        // trip up to the window before the cut, then by 1.
        let mut cubic = Cubic::default();
        let mut w = Window { cwnd: 20 * MSS, ssthresh: 0, mss: MSS };
        w.ssthresh = cubic.reduce(&w, w.cwnd);
        w.cwnd = w.ssthresh;
        assert_eq!(w.cwnd, 14 * MSS);
        let rounds = run(&mut cubic, &mut w, 10, 30);
        for pair in rounds.windows(2) {
            let grown = pair[1].1 - pair[0].1;
            let alpha = if pair[1].1 < 20.0 { ALPHA } else { 1.0 };
            if pair[1].1 < 20.0 || pair[0].1 > 20.5 {
                assert!((grown - alpha).abs() < 0.08, "{pair:?}");
            }
        }
        assert!(rounds[29].1 > 25.0);
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut cubic = Cubic::default();
        let mut w = Window { cwnd: 100 * MSS, ssthresh: 0, mss: MSS };
        assert_eq!(cubic.reduce(&w, w.cwnd), 70 * MSS);
        assert_eq!(cubic.w_max, 100.0);
        w.cwnd = 80 * MSS; // cut again below the plateau
        assert_eq!(cubic.reduce(&w, w.cwnd), 56 * MSS);
        assert!((cubic.w_max - 68.0).abs() < 1e-9);
        w.cwnd = 3 * MSS;
        assert_eq!(cubic.reduce(&w, w.cwnd), 2100);
    }

    #[test]
    fn after_a_timeout_the_curve_starts_at_its_plateau() {
        let mut cubic = Cubic::default();
        let mut w = Window { cwnd: 100 * MSS, ssthresh: 0, mss: MSS };
        w.ssthresh = cubic.reduce(&w, w.cwnd);
        cubic.on_timeout();
        w.cwnd = w.ssthresh; // slow start is over
        for (t, cwnd) in run(&mut cubic, &mut w, 100, 60) {
            let reno = 70.0 + ALPHA * (t / 0.1);
            assert!(cwnd < 70.0 + 0.4 * (t + 0.1) * (t + 0.1) * (t + 0.1) + reno - 70.0 + 1.0);
        }
        assert!(cubic.epoch.unwrap().k == 0.0);
    }

    #[test]
    fn the_curve_stops_while_the_application_is_the_limit() {
        let mut cubic = Cubic::default();
        let mut w = Window { cwnd: 1000 * MSS, ssthresh: 0, mss: MSS };
        w.ssthresh = cubic.reduce(&w, w.cwnd);
        w.cwnd = w.ssthresh;
        let ack = |s: u64, limited| {
            progress(Time::ZERO + Span::from_secs(s), Some(Span::from_millis(100)), limited)
        };
        cubic.on_ack(&mut w, ack(0, true));
        cubic.on_ack(&mut w, ack(1000, false));
        let before = w.cwnd;
        cubic.on_ack(&mut w, ack(1000, true));
        // As if no time had passed: the curve at 0.1 s is 7.3 segments above 700, one ACK moves
        // 1/100.
        assert!(w.cwnd - before < 20, "{}", w.cwnd - before);
    }
}
