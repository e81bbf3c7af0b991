//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! It uses a model of the path, by bottleneck bandwidth and round-trip propagation time, instead of losses.

use fairmesh_units::{Span, Time};

use super::window::{Model, Progress, RateSample, Window};

/// Startup gain, 2 / ln 2: the least gain that doubles the rate per round trip.
///
/// §4.1.2 of the draft.
const HIGH_GAIN: f64 = 2.885_390_081_777_927;
/// Gains of the eight phases of `ProbeBW`. §4.3.4
const CYCLE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Length of the bandwidth filter, round trips. §4.1.1.1
const BANDWIDTH_ROUNDS: u64 = 10;
/// The propagation filter's length. §4.1.1.3
const PROPAGATION_LENGTH: Span = Span::from_secs(10);
/// Time at the minimum window while the round trip is measured. §4.3.5
const PROBE_TIME: Span = Span::from_millis(200);
/// Minimum window, segments. §4.2.3.1
const MIN_SEGMENTS: u64 = 4;
/// Pacing rate relative to the estimate; below 1, so that queues drain (Linux).
const PACING_MARGIN: f64 = 0.99;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// State of BBR.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    state: State,
    /// Maxima as (round, bytes per second), decreasing in rate, increasing in round.
    bandwidth: Vec<(u64, f64)>,
    propagation: Option<Span>,
    propagation_at: Time,
    round: u64,
    /// Delivered bytes at the start of the round.
    ///
    /// The round ends when data sent after that is acknowledged.
    round_end: u64,
    full: bool,
    full_bandwidth: f64,
    full_rounds: u32,
    phase: usize,
    phase_from: Time,
    /// End of `ProbeRTT`; `None` until the window has been reduced.
    probe_until: Option<Time>,
    probe_round: bool,
    /// Window before recovery or `ProbeRTT`.
    prior: u64,
    recovering: bool,
    /// Round in which recovery began; packet conservation applies until it ends.
    conserve_until: Option<u64>,
    /// True if a loss was detected since the phase began.
    lost: bool,
    initial: u64,
    pacing: f64,
}

impl Bbr {
    pub(crate) fn new(initial: u64) -> Self {
        Bbr {
            state: State::Startup,
            bandwidth: Vec::new(),
            propagation: None,
            propagation_at: Time::ZERO,
            round: 0,
            round_end: 0,
            full: false,
            full_bandwidth: 0.0,
            full_rounds: 0,
            phase: 2,
            phase_from: Time::ZERO,
            probe_until: None,
            probe_round: false,
            prior: 0,
            recovering: false,
            conserve_until: None,
            lost: false,
            initial,
            pacing: 0.0,
        }
    }

    fn rate(&self) -> f64 {
        self.bandwidth.first().map_or(0.0, |b| b.1)
    }

    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (HIGH_GAIN, HIGH_GAIN),
            State::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            State::ProbeBandwidth => (CYCLE_GAINS[self.phase], 2.0),
            State::ProbeRtt => (1.0, 1.0),
        }
    }

    /// Returns the bytes that fill the path `gain` times, with room for bursts at both ends.
    ///
    /// §4.2.3.2
    fn inflight(&self, gain: f64, window: &Window) -> u64 {
        match self.propagation {
            Some(rtt) if self.rate() > 0.0 => {
                let bdp = self.rate() * rtt.as_secs_f64();
                (gain * bdp) as u64 + 3 * self.quantum(window.mss)
            }
            _ => self.initial,
        }
    }

    /// Moves to the next phase of `ProbeBW` when it is due. §4.3.4.3
    fn advance_phase(&mut self, p: &Progress, window: &Window) {
        if self.state != State::ProbeBandwidth {
            return;
        }
        let long = p.now.since(self.phase_from) > self.propagation.unwrap_or(Span::ZERO);
        let gain = CYCLE_GAINS[self.phase];
        let next = if gain > 1.0 {
            long && (self.lost || p.in_flight >= self.inflight(gain, window))
        } else if gain < 1.0 {
            long || p.in_flight <= self.inflight(1.0, window)
        } else {
            long
        };
        if next {
            self.phase = (self.phase + 1) % CYCLE_GAINS.len();
            self.phase_from = p.now;
            self.lost = false;
        }
    }

    /// Detects that the path is full. §4.3.2.2
    fn check_full(&mut self, round_start: bool, app_limited: bool) {
        if self.full || !round_start || app_limited {
            return;
        }
        if self.rate() >= self.full_bandwidth * 1.25 {
            self.full_bandwidth = self.rate();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= 3;
    }

    fn enter_probe_bandwidth(&mut self, now: Time) {
        self.state = State::ProbeBandwidth;
        // Any phase except the draining one; the low digits of the clock serve as a random number.
        let any = (now.as_nanos() / 1000 % 7) as usize;
        self.phase = if any == 0 { 0 } else { any + 1 };
        self.phase_from = now;
        self.lost = false;
    }

    /// Updates the propagation filter, and enters or leaves `ProbeRTT`. §4.1.1.3, §4.3.5
    fn update_propagation(
        &mut self,
        p: &Progress,
        sample: &RateSample,
        round_start: bool,
        window: &mut Window,
    ) {
        let expired = p.now.since(self.propagation_at) > PROPAGATION_LENGTH;
        if let Some(rtt) = sample.rtt
            && (expired || self.propagation.is_none_or(|least| rtt <= least))
        {
            self.propagation = Some(rtt);
            self.propagation_at = p.now;
        }
        if expired && self.state != State::ProbeRtt && self.propagation.is_some() {
            self.prior = self.prior_window(window.cwnd);
            self.state = State::ProbeRtt;
            self.probe_until = None;
        }
        if self.state != State::ProbeRtt {
            return;
        }
        match self.probe_until {
            None if p.in_flight <= MIN_SEGMENTS * window.mss => {
                self.probe_until = Some(p.now + PROBE_TIME);
                self.probe_round = false;
                self.round_end = sample.total;
            }
            None => {}
            Some(until) => {
                self.probe_round |= round_start;
                if self.probe_round && p.now > until {
                    self.propagation_at = p.now;
                    window.cwnd = window.cwnd.max(self.prior);
                    if self.full {
                        self.enter_probe_bandwidth(p.now);
                    } else {
                        self.state = State::Startup;
                    }
                }
            }
        }
    }

    fn prior_window(&self, cwnd: u64) -> u64 {
        if self.recovering || self.state == State::ProbeRtt { self.prior.max(cwnd) } else { cwnd }
    }

    /// Sets the pacing rate. §4.2.1
    fn set_pacing(&mut self, p: &Progress, window: &Window) {
        let gain = self.gains().0;
        let rate = if self.rate() > 0.0 {
            gain * self.rate() * PACING_MARGIN
        } else {
            // §4.2.1: the initial window in a round trip
            let rtt = p.srtt.unwrap_or(Span::from_millis(1)).as_secs_f64().max(1e-6);
            gain * window.cwnd as f64 / rtt
        };
        if self.full || rate > self.pacing {
            self.pacing = rate;
        }
    }

    /// Sets the window. §4.2.3
    fn set_window(&mut self, window: &mut Window, p: &Progress, acked: u64, delivered: u64) {
        let target = self.inflight(self.gains().1, window);
        if self.conserve_until.is_some() {
            window.cwnd = window.cwnd.max(p.in_flight + acked);
        } else if self.full {
            window.cwnd = (window.cwnd + acked).min(target);
        } else if window.cwnd < target || delivered < self.initial {
            window.cwnd += acked;
        }
        window.cwnd = window.cwnd.max(MIN_SEGMENTS * window.mss);
        if self.state == State::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_SEGMENTS * window.mss);
        }
    }
}

impl Model for Bbr {
    /// Returns the rate at which segments leave, bytes per second; 0 if not known yet.
    fn pacing_rate(&self) -> f64 {
        self.pacing
    }

    /// Returns the bytes per burst. §4.2.2
    fn quantum(&self, mss: u64) -> u64 {
        let bits = self.pacing * 8.0;
        if bits < 1.2e6 {
            mss
        } else if bits < 24e6 {
            2 * mss
        } else {
            ((self.pacing * 1e-3) as u64).min(65_536).max(2 * mss)
        }
    }

    /// Processes an acknowledgement that delivered data. §4.1, §4.2, §4.3
    fn on_ack(&mut self, window: &mut Window, p: &Progress, sample: RateSample) {
        let round_start = sample.prior >= self.round_end;
        if round_start {
            self.round_end = sample.total;
            self.round += 1;
            if self.conserve_until.is_some_and(|r| self.round > r) {
                self.conserve_until = None;
            }
        }
        if let Some(rate) = sample.rate
            && (!sample.app_limited || rate >= self.rate())
        {
            self.bandwidth.retain(|b| b.1 > rate);
            self.bandwidth.push((self.round, rate));
        }
        let round = self.round;
        self.bandwidth.retain(|b| b.0 + BANDWIDTH_ROUNDS > round);
        self.advance_phase(p, window);
        self.check_full(round_start, sample.app_limited);
        if self.state == State::Startup && self.full {
            self.state = State::Drain;
        }
        if self.state == State::Drain && p.in_flight <= self.inflight(1.0, window) {
            self.enter_probe_bandwidth(p.now);
        }
        self.update_propagation(p, &sample, round_start, window);
        self.set_pacing(p, window);
        self.set_window(window, p, sample.now, sample.total);
    }

    /// Handles a loss: one round trip of packet conservation. §4.2.3.4
    fn enter_recovery(&mut self, window: &mut Window, in_flight: u64) {
        self.prior = self.prior_window(window.cwnd);
        self.recovering = true;
        self.lost = true;
        window.cwnd = in_flight + window.mss;
        self.conserve_until = Some(self.round);
    }

    /// Handles the end of the repair.
    fn leave_recovery(&mut self, window: &mut Window) {
        if core::mem::take(&mut self.recovering) {
            self.conserve_until = None;
            if self.state != State::ProbeRtt {
                window.cwnd = window.cwnd.max(self.prior);
            }
        }
    }

    /// Treats all outstanding data as lost. §4.2.3.4
    fn on_timeout(&mut self, window: &mut Window) {
        self.prior = self.prior_window(window.cwnd);
        self.recovering = true;
        self.lost = true;
        self.conserve_until = None;
        window.cwnd = window.mss;
    }
}
