//! BBR version 3 (draft-ietf-ccwg-bbr-06).
//!
//! It uses the model of version 1, bottleneck bandwidth and round-trip propagation time, within bounds from
//! losses. Probing tests the long-term bounds and removes the short-term ones.
//!
//! Sections and names are the draft's, names without its prefixes. A spurious loss is not undone
//! (§5.5.11): receivers here report neither duplicates nor times.

mod filter;
mod loss;
mod probe;
#[cfg(test)]
mod tests;

use fairmesh_units::{Span, Time};

use self::filter::{MaxOfCycles, MaxOfRounds};
use super::window::{Loss, Model, Progress, RateSample, Window};

/// Pacing gain of Startup: doubles the rate per round trip. §5.3.1.1
const STARTUP_PACING_GAIN: f64 = 2.77;
/// Pacing gain that empties a queue of Startup within about a round trip. §5.3.2
const DRAIN_PACING_GAIN: f64 = 0.5;
/// Window gain, bandwidth-delay products. §5.6.1
const DEFAULT_CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Loss fraction of a round trip above which too much is in flight. §5.5.10.2
const LOSS_THRESH: f64 = 0.02;
/// Lower bound of a cut, as a fraction. §5.5.10
const BETA: f64 = 0.7;
/// Fraction of `inflight_longterm` left free for other flows. §5.3.3.9
const HEADROOM: f64 = 0.15;
/// Number of separate ranges lost in a round trip that ends Startup. §5.3.1.3
const STARTUP_FULL_LOSSES: u32 = 6;
/// Length of the filter of aggregation after Startup, round trips. §5.5.9
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Length of the filter of the round-trip propagation time. §5.5.7.2
const MIN_RTT_LENGTH: Span = Span::from_secs(10);
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// Minimum window, segments. §5.6.4.3
const MIN_PIPE: u64 = 4;
/// Margin of the pacing rate below the estimate, so that queues drain. §5.6.2
const PACING_MARGIN: f64 = 0.99;
/// Volume that stands for the absence of a bound.
const UNBOUNDED: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    const fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Returns true if it tests the path's capacity.
    ///
    /// §5.3.3.9, `IsProbingBW`
    const fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }

    /// Returns pacing gain and window gain. §5.6.1
    const fn gains(self) -> (f64, f64) {
        match self {
            State::Startup => (STARTUP_PACING_GAIN, DEFAULT_CWND_GAIN),
            State::Drain => (DRAIN_PACING_GAIN, DEFAULT_CWND_GAIN),
            State::Down => (0.9, DEFAULT_CWND_GAIN),
            State::Cruise | State::Refill => (1.0, DEFAULT_CWND_GAIN),
            State::Up => (1.25, UP_CWND_GAIN),
            State::ProbeRtt => (1.0, PROBE_RTT_CWND_GAIN),
        }
    }
}

/// Meaning of acknowledgements for probing. §2.14
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// State of BBR version 3. Volumes are bytes, rates bytes per second.
#[derive(Clone, Debug)]
pub(crate) struct Bbr3 {
    state: State,
    initial: u64,
    sack: bool,
    pacing: f64,

    // Packet-timed round trips. §5.5.1
    round: u64,
    next_round_delivered: u64,
    round_start: bool,

    // The path. §5.5
    max_bw: MaxOfCycles,
    /// The smaller of `max_bw` and `bw_shortterm`.
    bw: f64,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    /// Minimum of the whole connection; a measurement over a shorter time is not a rate sample.
    ///
    /// §4.1.2.3
    min_rtt_ever: Option<Span>,
    has_seen_rtt: bool,
    extra_acked: MaxOfRounds,
    extra_acked_from: Time,
    extra_acked_delivered: u64,
    inflight_longterm: u64,
    bw_shortterm: f64,
    inflight_shortterm: u64,

    // The latest round trip's delivery and losses. §5.5.10
    bw_latest: f64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    /// Separate ranges lost in this round trip, and the end of the last one.
    loss_ranges: u32,
    last_lost: u64,
    /// True if a mark was received in Startup.
    marked: bool,
    recovering: bool,
    prior_cwnd: u64,

    // Full-path detection. §5.3.1.2
    full_bw: f64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u64,

    // Probing for bandwidth. §5.3.3
    ack_phase: AckPhase,
    probe_sample: bool,
    probe_up_acked_per_inc: u64,
    probe_up_acked: u64,
    probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    probe_wait: Span,
    cycle_from: Time,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    /// Last round trip in which the window was full.
    full_round: Option<u64>,

    // Probing for the round trip. §5.3.4
    probe_rtt_min: Option<Span>,
    probe_rtt_at: Time,
    probe_rtt_expired: bool,
    /// End of `ProbeRTT`; `None` until enough data has left the network.
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    hides: bool,
}

impl Bbr3 {
    /// Builds the state.
    ///
    /// `initial`: initial window, bytes. `sack`: losses are reported one by one.
    pub(super) fn new(initial: u64, sack: bool) -> Self {
        Bbr3 {
            state: State::Startup,
            initial,
            sack,
            pacing: 0.0,
            round: 0,
            next_round_delivered: 0,
            round_start: false,
            max_bw: MaxOfCycles::default(),
            bw: 0.0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            min_rtt_ever: None,
            has_seen_rtt: false,
            extra_acked: MaxOfRounds::default(),
            extra_acked_from: Time::ZERO,
            extra_acked_delivered: 0,
            inflight_longterm: UNBOUNDED,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: UNBOUNDED,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_ranges: 0,
            last_lost: 0,
            marked: false,
            recovering: false,
            prior_cwnd: 0,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            probe_sample: false,
            probe_up_acked_per_inc: UNBOUNDED,
            probe_up_acked: 0,
            probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            probe_wait: Span::ZERO,
            cycle_from: Time::ZERO,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            full_round: None,
            probe_rtt_min: None,
            probe_rtt_at: Time::ZERO,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            hides: false,
        }
    }

    /// Returns bandwidth times propagation time; `None` if not known. §5.6.4.2
    fn bdp(&self, bw: f64) -> Option<f64> {
        self.min_rtt.map(|rtt| bw * rtt.as_secs_f64())
    }

    fn bdp_multiple(&self, bw: f64, gain: f64) -> u64 {
        self.bdp(bw).map_or(self.initial, |bdp| (gain * bdp) as u64)
    }

    /// Adds room for bursts at both ends. §5.5.8.1, §5.6.4.2
    fn quantization_budget(&self, volume: u64, mss: u64) -> u64 {
        let least = volume.max(3 * self.quantum(mss)).max(MIN_PIPE * mss);
        if self.state == State::Up { least + 2 * mss } else { least }
    }

    /// Returns the bytes that fill the path. §5.6.4.2
    fn inflight(&self, bw: f64, gain: f64, mss: u64) -> u64 {
        self.quantization_budget(self.bdp_multiple(bw, gain), mss)
    }

    /// Returns the target volume in flight. §5.3.3.8.3
    fn target_inflight(&self, window: &Window) -> u64 {
        self.bdp_multiple(self.bw, 1.0).min(window.cwnd)
    }

    fn start_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// Updates the maximum bandwidth. §5.5.1, §5.5.5
    fn update_max_bw(&mut self, sample: &RateSample, rate: f64) {
        self.round_start = sample.prior >= self.next_round_delivered;
        if self.round_start {
            self.start_round(sample.total);
            self.round += 1;
            self.rounds_since_probe_up += 1;
        }
        if rate > 0.0 && (rate >= self.max_bw.get() || !sample.app_limited) {
            self.max_bw.update(rate);
        }
    }

    /// Updates the aggregation estimate. §5.5.9
    fn update_ack_aggregation(&mut self, now: Time, acked: u64, window: &Window) {
        let since = now.since(self.extra_acked_from).as_secs_f64();
        let mut expected = (self.bw * since) as u64;
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_from = now;
            expected = 0;
        }
        self.extra_acked_delivered += acked;
        let extra = (self.extra_acked_delivered - expected).min(window.cwnd);
        let length = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked.update(self.round, extra, length);
    }

    fn reset_full_bw(&mut self, from: f64) {
        self.full_bw = from;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// Detects that the path is full. §5.3.1.2
    fn check_full_bw(&mut self, sample: &RateSample, rate: f64) {
        if self.full_bw_now || !self.round_start || sample.app_limited {
            return;
        }
        if rate >= self.full_bw * 1.25 {
            self.reset_full_bw(rate);
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    fn set_pacing(&mut self, gain: f64) {
        let rate = gain * self.bw * PACING_MARGIN;
        if self.full_bw_reached || rate > self.pacing {
            self.pacing = rate;
        }
    }

    /// Sets the pacing rate to the initial window per round trip. §5.6.2
    fn init_pacing(&mut self, rtt: Span) {
        let rtt = rtt.as_secs_f64().max(1e-6);
        self.pacing = STARTUP_PACING_GAIN * self.initial as f64 / rtt;
        self.has_seen_rtt = true;
    }

    /// Sets the window. §5.6.4.6
    fn set_window(&mut self, window: &mut Window, acked: u64, delivered: u64) {
        let mss = window.mss;
        let volume = self.bdp_multiple(self.bw, self.state.gains().1) + self.extra_acked.get();
        let most = self.quantization_budget(volume, mss);
        if self.full_bw_reached {
            window.cwnd = (window.cwnd + acked).min(most);
        } else if window.cwnd < most || delivered < self.initial {
            window.cwnd += acked;
        }
        window.cwnd = window.cwnd.max(MIN_PIPE * mss);
        if self.state == State::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_cwnd(mss));
        }
        // §5.6.4.7
        let cap = match self.state {
            State::Startup | State::Drain => UNBOUNDED,
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(mss),
        };
        window.cwnd = window.cwnd.min(cap.min(self.inflight_shortterm).max(MIN_PIPE * mss));
    }

    /// Stores the window without losses and `ProbeRTT`. §5.6.4.4
    fn save_cwnd(&mut self, window: &Window) {
        let touched = self.recovering || self.state == State::ProbeRtt;
        self.prior_cwnd = if touched { self.prior_cwnd.max(window.cwnd) } else { window.cwnd };
    }

    fn restore_cwnd(&self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
    }
}

impl Model for Bbr3 {
    fn pacing_rate(&self) -> f64 {
        self.pacing
    }

    /// Returns the bytes per burst. §5.6.3
    fn quantum(&self, mss: u64) -> u64 {
        ((self.pacing * 1e-3) as u64).min(65_536).max(2 * mss)
    }

    /// Handles the end of the handshake. §5.2.1
    fn start(&mut self, now: Time, _: &Window, rtt: Option<Span>) {
        (self.min_rtt, self.min_rtt_ever) = (rtt, rtt);
        self.min_rtt_at = now;
        self.probe_rtt_at = now;
        self.extra_acked_from = now;
        if let Some(rtt) = rtt {
            self.init_pacing(rtt);
        }
    }

    /// Handles data that leaves after an idle period. §5.4.1
    fn restart(&mut self, now: Time, window: &mut Window, delivered: u64) {
        self.idle_restart = true;
        self.extra_acked_from = now;
        if self.state.is_probe_bw() {
            self.set_pacing(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now, window, delivered);
        }
    }

    fn on_lost(&mut self, now: Time, window: &mut Window, loss: &Loss, delivered: u64) {
        self.handle_lost(now, window, loss, delivered);
    }

    fn on_mark(&mut self, now: Time, window: &mut Window, flight: u64, delivered: u64) {
        self.handle_mark(now, window, flight, delivered);
    }

    fn takes_marks(&self) -> bool {
        true
    }

    /// Processes an acknowledgement that delivered data. §5.2.3
    fn on_ack(&mut self, window: &mut Window, p: &Progress, sample: RateSample) {
        if let Some(rtt) = sample.rtt {
            self.min_rtt_ever = Some(self.min_rtt_ever.map_or(rtt, |least| least.min(rtt)));
        }
        if let (false, Some(rtt)) = (self.has_seen_rtt, p.srtt) {
            self.init_pacing(rtt);
        }
        let believed = self.min_rtt_ever.is_none_or(|least| sample.interval >= least);
        let rate = sample.rate.filter(|_| believed).unwrap_or(0.0);
        if p.full {
            self.full_round = Some(self.round);
        }
        self.update_latest(&sample, rate);
        self.update_max_bw(&sample, rate);
        self.update_congestion(window);
        self.update_ack_aggregation(p.now, sample.now, window);
        self.check_full_bw(&sample, rate);
        self.check_startup_done(&sample);
        self.check_drain_done(p, window, sample.total);
        self.update_probe_bw(p, window, &sample, rate);
        self.update_min_rtt(p.now, sample.rtt);
        self.check_probe_rtt(p, window, &sample);
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (rate, sample.total - sample.prior);
        }
        self.bw = self.max_bw.get().min(self.bw_shortterm);
        self.set_pacing(self.state.gains().0);
        self.set_window(window, sample.now, sample.total);
    }

    fn hides_samples(&self) -> bool {
        self.hides
    }

    /// Handles the start of a repair. §5.6.4.4
    fn enter_recovery(&mut self, window: &mut Window, _: u64) {
        self.save_cwnd(window);
        self.recovering = true;
    }

    fn leave_recovery(&mut self, window: &mut Window) {
        if core::mem::take(&mut self.recovering) {
            self.restore_cwnd(window);
        }
    }

    fn on_timeout(&mut self, window: &mut Window) {
        self.save_cwnd(window);
        self.recovering = true;
        window.cwnd = window.mss;
    }
}
