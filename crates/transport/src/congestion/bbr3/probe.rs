//! The cycle of probing for bandwidth (§5.3.3), and probing for the round trip (§5.3.4).

use fairmesh_units::{Span, Time};

use super::{
    AckPhase, Bbr3, HEADROOM, MIN_PIPE, MIN_RTT_LENGTH, PROBE_RTT_CWND_GAIN, PROBE_RTT_DURATION,
    PROBE_RTT_INTERVAL, State, UNBOUNDED,
};
use crate::congestion::window::{Progress, RateSample, Window};

impl Bbr3 {
    /// Leaves Drain when the queue is empty. §5.3.2
    pub(super) fn check_drain_done(&mut self, p: &Progress, window: &Window, delivered: u64) {
        let drained = p.in_flight <= self.inflight(self.bw, 1.0, window.mss);
        if self.state == State::Drain && (drained || self.round > self.drain_start_round + 3) {
            self.start_down(p.now, delivered);
        }
    }

    // ---- the cycle ----

    pub(super) fn start_down(&mut self, now: Time, delivered: u64) {
        self.reset_congestion();
        self.probe_up_acked_per_inc = UNBOUNDED;
        self.pick_probe_wait(now, delivered);
        self.cycle_from = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round(delivered);
        self.state = State::Down;
    }

    fn start_refill(&mut self, delivered: u64) {
        self.reset_short_term();
        self.probe_up_rounds = 0;
        self.probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(delivered);
        self.state = State::Refill;
    }

    fn start_up(&mut self, window: &Window, delivered: u64, rate: f64) {
        self.ack_phase = AckPhase::Starting;
        self.start_round(delivered);
        self.reset_full_bw(rate);
        self.state = State::Up;
        self.raise_slope(window);
    }

    /// Draws the wait before a probe: two to three seconds, plus or minus one round trip.
    ///
    /// The low digits of the clock serve as random numbers, so that competing flows do not probe
    /// together. §5.3.3.8.3
    fn pick_probe_wait(&mut self, now: Time, delivered: u64) {
        let chance = mix(now.as_nanos() ^ delivered.rotate_left(32));
        self.rounds_since_probe_up = chance & 1;
        self.probe_wait = Span::from_secs(2) + Span::from_nanos((chance >> 1) % 1_000_000_000);
    }

    /// Advances the cycle of probing for bandwidth. §5.3.3.9
    pub(super) fn update_probe_bw(
        &mut self,
        p: &Progress,
        window: &Window,
        sample: &RateSample,
        rate: f64,
    ) {
        if !self.full_bw_reached || self.adapt_long_term(window, sample) {
            return;
        }
        let (state, total) = (self.state, sample.total);
        let waiting = matches!(state, State::Down | State::Cruise);
        if waiting && self.is_time_to_probe(p.now, window) {
            self.start_refill(total);
        } else if state == State::Down && self.is_time_to_cruise(p.in_flight, window.mss) {
            self.state = State::Cruise;
        } else if state == State::Refill && self.round_start {
            self.probe_sample = true;
            self.start_up(window, total, rate);
        } else if state == State::Up && self.is_time_to_go_down(p, window, rate) {
            self.prev_probe_too_high = false;
            self.start_down(p.now, total);
        }
    }

    /// Returns true if a probe is due.
    ///
    /// That is after two to three seconds, or after as many round trips as a Reno flow of this window has
    /// between losses, if that is earlier. §5.3.3.8
    fn is_time_to_probe(&self, now: Time, window: &Window) -> bool {
        let rounds = (self.target_inflight(window) / window.mss).min(63);
        now > self.cycle_from + self.probe_wait || self.rounds_since_probe_up >= rounds
    }

    fn is_time_to_cruise(&self, in_flight: u64, mss: u64) -> bool {
        in_flight <= self.inflight_with_headroom(mss)
            && in_flight <= self.inflight(self.max_bw.get(), 1.0, mss)
    }

    fn is_time_to_go_down(&mut self, p: &Progress, window: &Window, rate: f64) -> bool {
        // §5.3.3.6: not at a level that lost too much
        if self.prev_probe_too_high && p.in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && window.cwnd >= self.inflight_longterm {
            self.reset_full_bw(rate);
            return false;
        }
        self.full_bw_now
    }

    /// Returns true if the window was full at some time in the last round trip. §2.4,
    /// `C.is_cwnd_limited`
    fn is_cwnd_limited(&self) -> bool {
        self.full_round.is_some_and(|round| round + 1 >= self.round)
    }

    /// Returns a volume that leaves room for other flows. §5.3.3.9
    pub(super) fn inflight_with_headroom(&self, mss: u64) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let room = ((self.inflight_longterm as f64 * HEADROOM) as u64).max(mss);
        self.inflight_longterm.saturating_sub(room).max(MIN_PIPE * mss)
    }

    /// Raises the growth.
    ///
    /// It adds one segment more in the first round trip, two in the second, four … §5.3.3.9
    fn raise_slope(&mut self, window: &Window) {
        let growth = 1u64 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (window.cwnd / growth).max(window.mss);
    }

    fn probe_upward(&mut self, window: &Window, acked: u64) {
        if !self.is_cwnd_limited() || window.cwnd < self.inflight_longterm {
            return;
        }
        self.probe_up_acked += acked;
        if self.probe_up_acked >= self.probe_up_acked_per_inc {
            let steps = self.probe_up_acked / self.probe_up_acked_per_inc;
            self.probe_up_acked -= steps * self.probe_up_acked_per_inc;
            self.inflight_longterm += steps * window.mss;
        }
        if self.round_start {
            self.raise_slope(window);
        }
    }

    /// Adapts the long-term bound; returns true if it has started a phase. §5.3.3.9
    fn adapt_long_term(&mut self, window: &Window, sample: &RateSample) -> bool {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.max_bw.advance();
            }
            if self.state.is_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_refill(sample.total);
                return true;
            }
        }
        if self.is_too_high(sample.lost, sample.in_flight) || self.inflight_longterm == UNBOUNDED {
            return false;
        }
        self.inflight_longterm = self.inflight_longterm.max(sample.in_flight);
        if self.state == State::Up {
            self.probe_upward(window, sample.now);
        }
        false
    }

    // ---- the round trip ----

    /// Updates the minimum round trip. §5.3.4.3
    pub(super) fn update_min_rtt(&mut self, now: Time, rtt: Option<Span>) {
        self.probe_rtt_expired = now > self.probe_rtt_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.probe_rtt_expired || self.probe_rtt_min.is_none_or(|least| rtt < least))
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_at = now;
        }
        let expired = now > self.min_rtt_at + MIN_RTT_LENGTH;
        if let Some(least) = self.probe_rtt_min
            && (expired || self.min_rtt.is_none_or(|rtt| least < rtt))
        {
            self.min_rtt = Some(least);
            self.min_rtt_at = self.probe_rtt_at;
        }
    }

    /// Enters or leaves `ProbeRTT`. §5.3.4.3
    pub(super) fn check_probe_rtt(
        &mut self,
        p: &Progress,
        window: &mut Window,
        sample: &RateSample,
    ) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd(window);
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::Stopping;
            self.start_round(sample.total);
        }
        self.hides = self.state == State::ProbeRtt;
        if self.hides {
            self.handle_probe_rtt(p, window, sample.total);
        }
        self.idle_restart = false;
    }

    fn handle_probe_rtt(&mut self, p: &Progress, window: &mut Window, delivered: u64) {
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(p.now, window, delivered);
            }
        } else if p.in_flight <= self.probe_rtt_cwnd(window.mss) {
            self.probe_rtt_done = Some(p.now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round(delivered);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time, window: &mut Window, delivered: u64) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_at = now;
        self.restore_cwnd(window);
        // §5.3.4.4
        self.reset_short_term();
        if self.full_bw_reached {
            self.start_down(now, delivered);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// Returns the window during `ProbeRTT`. §5.6.4.5
    pub(super) fn probe_rtt_cwnd(&self, mss: u64) -> u64 {
        self.bdp_multiple(self.bw, PROBE_RTT_CWND_GAIN).max(MIN_PIPE * mss)
    }
}

/// Mixes bits so that each bit of the result depends on all bits of `x`.
///
/// This is the finalizer of `SplitMix64`.
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
