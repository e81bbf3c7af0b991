//! Effects of losses and marks on the model of the path. §5.5.10

use fairmesh_units::Time;

use super::{BETA, Bbr3, LOSS_THRESH, STARTUP_FULL_LOSSES, State, UNBOUNDED};
use crate::congestion::window::{Loss, RateSample, Window};

impl Bbr3 {
    /// Handles a segment that was declared lost.
    ///
    /// §5.5.10.2, `HandleLostPacket`
    pub(super) fn handle_lost(
        &mut self,
        now: Time,
        window: &mut Window,
        loss: &Loss,
        delivered: u64,
    ) {
        self.note_loss(window, delivered);
        if loss.seq != self.last_lost || self.loss_ranges == 0 {
            self.loss_ranges += 1;
        }
        self.last_lost = loss.seq + u64::from(loss.len);
        if self.probe_sample && self.is_too_high(loss.lost, loss.in_flight) {
            let volume = inflight_at_loss(loss);
            self.inflight_too_high(now, window, volume, loss.app_limited, delivered);
        }
    }

    /// Handles a mark.
    ///
    /// The draft requires a response to marks without defining it (§3.7): a marked round trip counts as one that lost
    /// too much.
    pub(super) fn handle_mark(
        &mut self,
        now: Time,
        window: &mut Window,
        flight: u64,
        delivered: u64,
    ) {
        self.note_loss(window, delivered);
        self.marked |= self.state == State::Startup;
        if self.probe_sample {
            self.inflight_too_high(now, window, flight.min(window.cwnd), false, delivered);
        }
    }

    fn note_loss(&mut self, window: &Window, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round_delivered = delivered;
            self.save_cwnd(window);
        }
        self.loss_in_round = true;
    }

    /// Returns true if the losses show that too much was in flight. §5.5.10.2
    pub(super) fn is_too_high(&self, lost: u64, in_flight: u64) -> bool {
        lost as f64 > in_flight as f64 * LOSS_THRESH || (lost > 0 && !self.sack)
    }

    /// Handles too much in flight.
    ///
    /// §5.5.10.2, `HandleInflightTooHigh`
    fn inflight_too_high(
        &mut self,
        now: Time,
        window: &Window,
        volume: u64,
        app_limited: bool,
        delivered: u64,
    ) {
        self.prev_probe_too_high = true;
        self.probe_sample = false;
        if !app_limited {
            let least = (self.target_inflight(window) as f64 * BETA) as u64;
            self.inflight_longterm = volume.max(least);
        }
        if self.state == State::Up {
            self.start_down(now, delivered);
        }
    }

    /// Updates the latest delivery, near the start of an acknowledgement's handling. §5.5.10.3
    pub(super) fn update_latest(&mut self, sample: &RateSample, rate: f64) {
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(sample.total - sample.prior);
        self.loss_round_start = sample.prior >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = sample.total;
        }
    }

    /// Reduces the rate once per round trip if it lost data, unless probing. §5.5.10.3
    pub(super) fn update_congestion(&mut self, window: &Window) {
        if !self.loss_round_start {
            return;
        }
        if self.loss_in_round && !self.state.is_probing() {
            if self.bw_shortterm == f64::INFINITY {
                self.bw_shortterm = self.max_bw.get();
            }
            if self.inflight_shortterm == UNBOUNDED {
                self.inflight_shortterm = window.cwnd;
            }
            self.bw_shortterm = self.bw_latest.max(BETA * self.bw_shortterm);
            let least = (BETA * self.inflight_shortterm as f64) as u64;
            self.inflight_shortterm = self.inflight_latest.max(least);
        }
        self.loss_in_round = false;
    }

    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = UNBOUNDED;
    }

    pub(super) fn reset_congestion(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    /// Leaves Startup when the path is full or lost too much. §5.3.1.1, §5.3.1.3
    pub(super) fn check_startup_done(&mut self, sample: &RateSample) {
        let lossy = if self.sack {
            self.recovering
                && self.loss_round_start
                && self.loss_ranges >= STARTUP_FULL_LOSSES
                && self.is_too_high(sample.lost, sample.in_flight)
        } else {
            self.recovering && self.loss_ranges > 0
        };
        if self.state == State::Startup && (lossy || core::mem::take(&mut self.marked)) {
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp_multiple(self.bw, 1.0).max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.loss_ranges = 0;
        }
        if self.state == State::Startup && self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round;
        }
    }
}

/// Returns the bytes in flight when losses crossed the threshold (§5.5.10.2).
///
/// The point lies within this segment.
pub(super) fn inflight_at_loss(loss: &Loss) -> u64 {
    let size = u64::from(loss.len);
    let before = loss.in_flight.saturating_sub(size) as f64;
    let lost_before = loss.lost.saturating_sub(size) as f64;
    let prefix = (LOSS_THRESH * before - lost_before) / (1.0 - LOSS_THRESH);
    (before + prefix.max(0.0)) as u64
}
