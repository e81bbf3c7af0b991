//! Effects of acknowledgements and timeouts on the sender: progress, loss, congestion.

use fairmesh_units::Time;

use super::scoreboard::DUP_THRESH;
use super::{Phase, Sender};
use crate::config::Dialect;
use crate::congestion::window::{CongestionControl, Progress};
use crate::segment::{Flags, Segment};

impl Sender {
    /// Processes the acknowledgement in a segment; returns the bytes newly acknowledged.
    pub(crate) fn on_ack(&mut self, now: Time, seg: &Segment) -> u64 {
        self.sampled = None;
        if seg.ack < self.una || seg.ack > self.next {
            return 0;
        }
        let limited = self.is_limited();
        let full = self.board.pipe() + self.window.mss > self.window.cwnd + self.inflation;
        let mut newly_sacked = false;
        if self.sack && !seg.sack.is_empty() {
            let sack_effects = self.board.sack(seg.ack, &seg.sack);
            newly_sacked = sack_effects.any;
            // Not a sample for the timeout, which RFC 6298 takes from cumulative ACKs; but the only
            // round-trip measurement while a hole is repaired.
            self.sampled = sack_effects.sent.map(|sent| now - sent);
        }
        if newly_sacked && self.rack.is_none() {
            self.board.find_lost(u64::from(self.mss));
        }
        let echo = self.ecn && seg.flags.has(Flags::ECE);
        let flight = self.outstanding();
        if seg.ack == self.una {
            // RFC 6675 §2; RFC 5681 §2 without SACK
            let duplicate =
                if self.sack { newly_sacked } else { seg.is_pure_ack() && self.una < self.next };
            if echo {
                self.on_echo(now, flight);
            }
            self.on_marks(now, seg, 0);
            self.on_arrivals(now, seg, duplicate);
            if duplicate {
                self.on_duplicate();
            }
            self.model(now, 0, limited, full);
            return 0;
        }
        let acked = seg.ack - self.una;
        if let Some(sent) = self.board.discard(seg.ack)
            && (!self.one_rtt_sample || seg.ack > self.timed_from)
        {
            self.rto.sample(now - sent);
            self.sampled = Some(now - sent);
            self.timed_from = self.next;
        }
        self.una = seg.ack;
        if echo {
            self.on_echo(now, flight);
        } else {
            self.marks_at_one = 0;
        }
        self.on_marks(now, seg, acked);
        self.on_arrivals(now, seg, false);
        self.on_progress(now, acked, limited);
        if self.sack
            && (newly_sacked || self.rack.is_some() && self.board.any_missing())
            && self.phase == Phase::Open
        {
            self.on_duplicate();
        }
        self.model(now, acked, limited, full);
        self.arm_probe(now);
        acked
    }

    /// Processes delivered segments: losses by RACK, rates for a model.
    #[inline]
    fn on_arrivals(&mut self, now: Time, seg: &Segment, duplicate: bool) {
        if self.rack.is_some() || self.delivery.is_some() {
            self.take_arrivals(now, seg, duplicate);
        }
    }

    #[cold]
    fn take_arrivals(&mut self, now: Time, seg: &Segment, duplicate: bool) {
        let delivered = self.board.take_delivered();
        let lost = self.board.lost();
        self.rate = self.delivery.as_mut().and_then(|d| d.on_ack(now, &delivered, lost));
        let recovering = self.phase != Phase::Open;
        let srtt = self.rto.srtt();
        if let Some(rack) = &mut self.rack {
            rack.update(now, &delivered);
            rack.detect(now, &mut self.board, recovering, srtt);
            let plain =
                duplicate || (seg.is_pure_ack() && seg.sack.is_empty() && delivered.is_empty());
            if rack.repaired(seg.ack, plain) && !recovering {
                // RFC 8985 §7.4.2: the probe repaired a loss, which counts nevertheless.
                self.respond();
            }
        }
        self.board.give_back(delivered);
    }

    /// Responds to a loss that is already repaired.
    fn respond(&mut self) {
        let flight = self.outstanding();
        if self.control.is_model() || self.una <= self.reduced_until {
            return;
        }
        self.window.ssthresh = self.reduced(flight);
        self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
        self.reduced_until = self.next;
        self.announce_reduction = true;
    }

    /// Returns true if the window, not the application, limited the sender before this ACK.
    fn is_limited(&self) -> bool {
        if !self.validate_window {
            return true;
        }
        let flight = self.board.pipe();
        if self.window.in_slow_start() {
            // So that a window of two segments, with one in flight, can still double.
            2 * flight >= self.window.cwnd
        } else {
            flight + self.window.mss > self.window.cwnd
        }
    }

    fn on_progress(&mut self, now: Time, acked: u64, limited: bool) {
        let mut restart_timer = true;
        match self.phase {
            Phase::Recovery if self.una < self.recover => {
                restart_timer = self.on_partial_ack(acked);
            }
            Phase::Recovery => {
                self.leave_recovery();
                if self.dialect == Dialect::Ns3 {
                    self.grow(now, acked, true);
                }
            }
            Phase::Open | Phase::Loss => {
                self.dup_acks = 0;
                self.inflation = 0;
                let mut counted = acked;
                if self.phase == Phase::Loss && self.una >= self.recover {
                    self.phase = Phase::Open;
                    if let Some(model) = self.control.as_model() {
                        model.leave_recovery(&mut self.window);
                    }
                    if self.dialect == Dialect::Ns3 {
                        // Data sent before the timeout does not grow the window here.
                        counted = self.una - self.recover;
                    }
                }
                if counted > 0 {
                    self.grow(now, counted, limited);
                }
            }
        }
        if restart_timer {
            self.rto.on_progress();
            self.timer = now + self.rto.get(); // RFC 6298 §5.3
        }
        if self.board.is_empty() && !self.held {
            self.timer = Time::NEVER; // RFC 6298 §5.2
        }
    }

    fn grow(&mut self, now: Time, acked: u64, limited: bool) {
        // Not while the window that was marked is still being acknowledged.
        if self.una > self.reduced_until || self.control.is_prague() {
            let progress = Progress {
                now,
                acked,
                srtt: self.rto.srtt(),
                limited,
                rtt: self.sampled,
                una: self.una,
                next: self.next,
                ..Progress::default()
            };
            match &mut self.hystart {
                Some(h) if self.window.in_slow_start() => h.on_ack(&mut self.window, &progress),
                _ => self.control.on_ack(&mut self.window, progress),
            }
        }
    }

    /// Handles a partial ACK, below the recovery point: the next segment is lost, too.
    ///
    /// Returns true if the timer is restarted.
    fn on_partial_ack(&mut self, acked: u64) -> bool {
        if self.sack {
            // ns-3 retransmits the head immediately unless it was already retransmitted.
            if self.dialect == Dialect::Ns3 && !self.board.head_lost() {
                self.board.lose_head();
                self.forced = true;
            }
        } else {
            // RFC 6582 §3.2 step 3: retransmits, and deflates by the acknowledged data less one
            // segment
            self.board.lose_head();
            self.forced = true;
            self.inflation = self.inflation.saturating_sub(acked.saturating_sub(self.window.mss));
            self.cap_inflation();
        }
        // RFC 6582 §3.2 step 3, §4 ("impatient"); with SACK RFC 6298 §5.3 applies
        let first = core::mem::replace(&mut self.first_partial, false);
        first || (self.sack && self.dialect == Dialect::Rfc)
    }

    /// Limits the inflation.
    ///
    /// Duplicate ACKs cannot exceed the segments outstanding after the lost one.
    fn cap_inflation(&mut self) {
        self.inflation = self.inflation.min(self.outstanding().saturating_sub(self.window.mss));
    }

    fn leave_recovery(&mut self) {
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.inflation = 0;
        if let Some(model) = self.control.as_model() {
            model.leave_recovery(&mut self.window);
            return;
        }
        self.window.cwnd = match self.dialect {
            // RFC 6582 §3.2 step 3, full ACK, option 1: no burst
            Dialect::Rfc if !self.sack => {
                self.window.ssthresh.min(self.outstanding().max(self.window.mss) + self.window.mss)
            }
            // Option 2
            _ => self.window.ssthresh,
        };
    }

    // ---- loss and marks ----

    fn on_duplicate(&mut self) {
        match self.phase {
            // After a timeout the meaning of duplicate ACKs is unknown.
            Phase::Loss => {}
            Phase::Recovery => {
                if !self.sack {
                    self.inflation += self.window.mss; // RFC 6582 §3.2 step 2 (RFC 5681 §3.2 step 4)
                    if self.dialect == Dialect::Ns3 {
                        self.cap_inflation();
                    }
                }
            }
            Phase::Open => {
                self.dup_acks += 1;
                let (lost, counted) = match &self.rack {
                    Some(_) => (self.board.any_missing(), false),
                    None => (self.sack && self.board.head_lost(), self.dup_acks == DUP_THRESH),
                };
                if (counted && self.may_recover()) || lost {
                    self.enter_recovery();
                } else if self.limited_transmit && !self.sack && self.dup_acks < DUP_THRESH {
                    self.inflation += self.window.mss; // RFC 3042
                }
            }
        }
    }

    /// True if three duplicate ACKs indicate a new loss, not an echo of the last recovery.
    fn may_recover(&self) -> bool {
        // RFC 6582 §3.2 step 1: the ACK must cover more than `recover`. RFC 6675 §5.1 and ns-3:
        // covering it exactly is sufficient.
        match self.dialect {
            Dialect::Rfc if !self.sack => self.una > self.recover,
            _ => self.una >= self.recover,
        }
    }

    fn enter_recovery(&mut self) {
        let mss = self.window.mss;
        let outstanding = self.outstanding();
        if !self.sack {
            self.inflation = match self.dialect {
                // RFC 5681 §3.2 step 3: three segments have left the network
                Dialect::Rfc => 3 * mss,
                // ns-3 counts only the third, and those counted by limited transmit.
                Dialect::Ns3 => self.inflation + mss,
            };
            if self.dialect == Dialect::Ns3 {
                self.cap_inflation();
            }
        }
        if self.rack.is_none() {
            self.board.lose_head();
        }
        let flight = match self.dialect {
            // RFC 5681 §3.1 (4), RFC 6675 §5 (4.2)
            Dialect::Rfc => {
                // RFC 5681 §3.2 step 2: without the data sent by limited transmit
                let extra = u64::from(self.limited_transmit && !self.sack) * 2 * mss;
                let flight = outstanding.saturating_sub(extra);
                // RFC 9438 §4.6 permits the window instead. While lost retransmissions are
                // repaired, far more than that is outstanding.
                if self.rack.is_some() { flight.min(self.window.cwnd) } else { flight }
            }
            // The pipe; without SACK, including the lost head.
            Dialect::Ns3 if self.sack => self.board.pipe(),
            Dialect::Ns3 => outstanding.saturating_sub(self.inflation),
        };
        // RFC 3168 §6.1.2: one reduction per window, for a mark or for a loss
        let in_flight = self.board.pipe();
        if let Some(model) = self.control.as_model() {
            model.enter_recovery(&mut self.window, in_flight);
        } else if self.una > self.reduced_until {
            self.window.ssthresh = self.reduced(flight);
            self.announce_reduction = true;
        } else {
            let left = self.control.as_prague().map(|p| p.loss_after_mark());
            let cwnd = self.window.cwnd;
            self.window.ssthresh = left.map_or(cwnd, |left| left.min(cwnd)).max(2 * mss);
        }
        if !self.control.is_model() {
            self.window.cwnd = self.window.ssthresh;
        }
        self.end_of_slow_start();
        self.recover = self.next;
        self.phase = Phase::Recovery;
        self.first_partial = true;
        self.forced = true;
        self.rescued = 0;
        self.counters.fast_recoveries += 1;
    }

    /// Ends HyStart++ and the probe.
    ///
    /// The former applies to the first slow start, the latter does not apply to recovery.
    fn end_of_slow_start(&mut self) {
        self.hystart = None;
        if let Some(rack) = &mut self.rack {
            rack.discard_probe();
        }
    }

    /// Returns the slow-start threshold after a loss.
    ///
    /// RFC 5681 §3.1 (4)
    pub(super) fn reduced(&mut self, flight: u64) -> u64 {
        self.control.reduce(&self.window, flight).max(2 * self.window.mss)
    }

    /// Handles RACK's deadline: a segment is overdue, or a probe is due.
    fn rack_deadline(&mut self, now: Time) {
        let recovering = self.phase != Phase::Open;
        let srtt = self.rto.srtt();
        let Some(rack) = &mut self.rack else { return };
        if now >= rack.probe_timer {
            rack.probe_timer = Time::NEVER;
            rack.probe_due = true;
        }
        if now >= rack.reorder_timer {
            rack.reorder_timer = Time::NEVER;
            let lost = rack.detect(now, &mut self.board, recovering, srtt);
            if lost && !recovering {
                self.enter_recovery();
            }
            if lost && self.control.is_model() {
                self.report_losses(now);
            }
        }
    }

    /// Handles a deadline: the retransmission timer expired, or paced data is due.
    pub(crate) fn on_deadline(&mut self, now: Time) {
        self.pacing.on_deadline(now);
        self.rack_deadline(now);
        if now < self.timer {
            return;
        }
        self.timer = Time::NEVER; // armed again, backed off, by what is sent
        if core::mem::take(&mut self.held) && self.board.is_empty() {
            return; // Nothing was lost: the wait for a mark is over.
        }
        self.rto.back_off();
        let (flight, repeated) = match self.dialect {
            // RFC 5681 §3.1: unchanged when the same segment times out again
            Dialect::Rfc => (self.outstanding(), self.timed_out_at == Some(self.una)),
            Dialect::Ns3 => (self.in_flight(), false),
        };
        if !repeated {
            self.window.ssthresh = self.reduced(flight);
            self.control.on_timeout();
        }
        self.timed_out_at = Some(self.una);
        self.end_of_slow_start();
        match self.control.as_model() {
            Some(model) => model.on_timeout(&mut self.window),
            None => self.window.cwnd = self.window.mss, // RFC 5681 §3.1: the loss window
        }
        self.board.lose_all(self.dialect == Dialect::Ns3);
        if self.control.is_model() {
            self.report_losses(now);
        }
        self.phase = Phase::Loss;
        self.recover = self.next; // RFC 6582 §3.2 step 4, RFC 6675 §5.1
        self.first_partial = true;
        self.dup_acks = 0;
        self.inflation = 0;
        self.forced = false;
        self.reduced_until = 0;
        self.announce_reduction = true;
        self.counters.timeouts += 1;
    }
}
