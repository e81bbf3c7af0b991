//! Effects of acknowledgements and timeouts on the sender: progress, loss, congestion.
//!
//! RFC 9002.

use fairmesh_units::{Span, Time};

use super::packet::Ack;
use super::send::{MIN_WINDOW, Sender, Sent, State};
use crate::congestion::delivery::Delivered;
use crate::congestion::window::{CongestionControl, Loss, Progress};

/// Packet number distance after which an older packet is declared lost. RFC 9002 §6.1.1
const PACKET_THRESHOLD: u64 = 3;
/// Number of probe timeouts of total loss after which congestion is persistent.
///
/// RFC 9002 §7.6.1
const PERSISTENT_TIMEOUTS: u64 = 3;
/// Number of probe timeouts for which a lost packet is stored, in case it arrives.
const LOST_RETENTION: u64 = 3;

/// Effects of an ACK frame.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AckEffects {
    /// Growth of the contiguously acknowledged part of the stream, in bytes.
    pub(super) acked: u64,
    /// Measured round trip, if any.
    pub(super) rtt: Option<Span>,
    /// Packets newly reported as marked.
    pub(super) marks: u64,
    /// Largest number acknowledged by an ACK frame that the peer has received.
    pub(super) seen: Option<u64>,
}

/// Newly acknowledged packets.
#[derive(Default)]
struct NewlyAcked {
    delivered: Vec<Delivered>,
    /// Bytes of packets in flight, and of those sent after the loss epoch.
    bytes: u64,
    counted: u64,
    ect: u64,
    eliciting: bool,
    /// Sending time of the latest newly acknowledged packet.
    latest: Time,
}

impl Sender {
    /// Processes an ACK frame.
    ///
    /// RFC 9002 Appendix A.7
    pub(super) fn on_ack(&mut self, now: Time, ack: &Ack) -> AckEffects {
        let mut effects = AckEffects::default();
        let largest = ack.largest();
        if largest >= self.next {
            return effects; // RFC 9000 §13.1: never sent
        }
        let limited = self.is_limited();
        let full = self.in_flight + self.window.mss > self.window.cwnd;
        let fresh = self.packet_of(largest).filter(|s| s.state != State::Acked).map(|s| s.time);
        let newly = self.take_acked(ack, &mut effects);
        let advances = self.largest_acked.is_none_or(|l| largest > l);
        if advances {
            self.largest_acked = Some(largest);
        }
        // RFC 9002 §5.1: from the largest, if it is new and any packet was ack-eliciting
        if let (Some(sent), true) = (fresh, newly.eliciting) {
            let rtt = now - sent;
            self.rtt.sample(rtt, ack.delay.min(self.max_ack_delay()));
            self.first_rtt.get_or_insert(now);
            effects.rtt = Some(rtt);
        }
        if advances {
            effects.marks = self.ecn.on_ack(newly.ect, ack.ecn);
            self.counters.marks += effects.marks;
        }
        if newly.eliciting {
            self.probe_count = 0;
        }
        self.on_marks(now, fresh, &newly, effects.marks);
        self.detect_lost(now);
        self.leave_recovery(&newly);
        self.grow(now, &newly, limited, effects.rtt);
        self.notify_model(now, newly, limited, full, effects.rtt);
        self.retire(now);
        effects
    }

    fn packet_of(&self, number: u64) -> Option<&Sent> {
        number.checked_sub(self.base).and_then(|i| self.sent.get(i as usize))
    }

    fn take_acked(&mut self, ack: &Ack, effects: &mut AckEffects) -> NewlyAcked {
        let mut newly = NewlyAcked::default();
        for &(first, last) in &ack.ranges {
            for number in first.max(self.base)..=last {
                let Some(s) = self.sent.get_mut((number - self.base) as usize) else { break };
                if s.state == State::Acked {
                    continue;
                }
                let lost = s.state == State::Lost;
                s.state = State::Acked;
                let s = *s;
                effects.seen = effects.seen.max(s.acked);
                if let Some(frame) = &s.stream {
                    effects.acked += self.stream.on_acked(frame);
                }
                if !s.eliciting() {
                    continue;
                }
                newly.eliciting = true;
                newly.ect += u64::from(s.ect);
                newly.latest = newly.latest.max(s.time);
                self.acked_position = self.acked_position.max(s.end());
                if lost {
                    self.counters.spurious += 1;
                    continue;
                }
                self.in_flight -= u64::from(s.size);
                self.eliciting -= 1;
                newly.bytes += u64::from(s.size);
                // RFC 9002 Appendix B.5
                if self.recovery_from.is_none_or(|from| s.time > from) {
                    newly.counted += u64::from(s.size);
                }
                if let Some(stamp) = s.stamp {
                    let (end, len) = (s.end(), s.size);
                    newly.delivered.push(Delivered { end, len, stamp, resent: false });
                }
            }
        }
        newly
    }

    /// Discards packets that are acknowledged, or were lost long ago.
    pub(super) fn retire(&mut self, now: Time) {
        let remembered = self.probe_period().saturating_mul(LOST_RETENTION);
        while let Some(s) = self.sent.front() {
            let settled = match s.state {
                State::Acked => true,
                State::Outstanding => !s.eliciting(),
                State::Lost => s.time + remembered <= now,
            };
            if !settled {
                break;
            }
            self.sent.pop_front();
            self.base += 1;
        }
    }

    // ---- losses ----

    /// Finds lost packets and sets the next check. RFC 9002 §6.1, Appendix A.10
    pub(super) fn detect_lost(&mut self, now: Time) {
        self.loss_time = Time::NEVER;
        let Some(largest) = self.largest_acked else { return };
        let delay = self.rtt.loss_delay();
        let first = self.lost_bytes;
        let mut latest: Option<Time> = None;
        let count = (largest + 1).saturating_sub(self.base).min(self.sent.len() as u64);
        let mut run: Option<Time> = None;
        let mut longest = Span::ZERO;
        for i in 0..count as usize {
            let s = self.sent[i];
            match s.state {
                State::Acked => run = None,
                State::Outstanding if s.eliciting() => {
                    let by_number = largest >= self.base + i as u64 + PACKET_THRESHOLD;
                    if !by_number && s.time + delay > now {
                        self.loss_time = self.loss_time.min(s.time + delay);
                        continue;
                    }
                    self.lose(now, i);
                    latest = latest.max(Some(s.time));
                    // RFC 9002 §7.6.2: only packets sent after the first round trip was measured
                    if self.first_rtt.is_some_and(|at| s.time > at) {
                        longest = longest.max(s.time - *run.get_or_insert(s.time));
                    }
                }
                State::Outstanding | State::Lost => {}
            }
        }
        let Some(latest) = latest else { return };
        debug_assert!(self.lost_bytes > first);
        self.on_congestion(now, latest);
        // RFC 9002 §7.6.1
        if longest > self.probe_period().saturating_mul(PERSISTENT_TIMEOUTS) {
            self.on_persistent_congestion();
        }
    }

    /// Declares a packet lost; its data will be sent in another packet.
    fn lose(&mut self, now: Time, i: usize) {
        let s = &mut self.sent[i];
        s.state = State::Lost;
        let s = *s;
        self.in_flight -= u64::from(s.size);
        self.eliciting -= 1;
        self.lost_bytes += u64::from(s.size);
        self.counters.lost += 1;
        if s.ect {
            self.ecn.on_lost();
        }
        if let Some(frame) = &s.stream {
            self.stream.on_lost(frame);
        }
        let delivered = self.delivery.as_ref().map_or(0, |d| d.total());
        if let (Some(stamp), Some(model)) = (s.stamp, self.control.as_model()) {
            let loss = Loss {
                seq: s.position,
                len: s.size,
                in_flight: stamp.in_flight,
                lost: self.lost_bytes - stamp.lost,
                app_limited: stamp.app_limited,
            };
            model.on_lost(now, &mut self.window, &loss, delivered);
        }
    }

    /// Handles a loss or a mark of a packet sent at `sent`.
    ///
    /// The window is reduced once per loss epoch. RFC 9002 §7.3.2, Appendix B.6
    fn on_congestion(&mut self, now: Time, sent: Time) {
        if self.recovery_from.is_some_and(|from| sent <= from) {
            return;
        }
        self.recovery_from = Some(now);
        self.counters.congestion_events += 1;
        self.hystart = None;
        let in_flight = self.in_flight;
        let least = MIN_WINDOW * self.window.mss;
        if let Some(model) = self.control.as_model() {
            model.enter_recovery(&mut self.window, in_flight);
            self.window.cwnd = self.window.cwnd.max(least);
            self.repairing = Some(now);
            return;
        }
        // A mark has already reduced the window in this round trip.
        let again = self.acked_position <= self.marked_until && self.marked_until > 0;
        let left = match self.control.as_prague() {
            Some(prague) if again => prague.loss_after_mark().min(self.window.cwnd),
            _ => self.control.reduce(&self.window, self.window.cwnd),
        };
        self.window.ssthresh = left.max(least);
        self.window.cwnd = self.window.ssthresh;
        self.one_more = true;
    }

    /// Handles persistent congestion. RFC 9002 §7.6
    fn on_persistent_congestion(&mut self) {
        self.counters.persistent_congestions += 1;
        self.control.on_timeout();
        if let Some(model) = self.control.as_model() {
            model.on_timeout(&mut self.window);
        }
        self.window.cwnd = MIN_WINDOW * self.window.mss;
        // Appendix B.8
        self.recovery_from = None;
    }

    /// Notifies a model that data sent after the loss was delivered. RFC 9002 §7.3.2
    fn leave_recovery(&mut self, newly: &NewlyAcked) {
        if self.repairing.is_some_and(|from| newly.latest > from) {
            self.repairing = None;
            if let Some(model) = self.control.as_model() {
                model.leave_recovery(&mut self.window);
            }
        }
    }

    // ---- marks and progress ----

    /// Processes the reported marks. RFC 9002 §7.1
    fn on_marks(&mut self, now: Time, sent: Option<Time>, newly: &NewlyAcked, marks: u64) {
        if self.control.is_prague() {
            return self.count_marks(now, newly, marks);
        }
        let Some(sent) = sent.filter(|_| marks > 0) else { return };
        let (flight, delivered) =
            (self.in_flight + newly.bytes, self.delivery.as_ref().map_or(0, |d| d.total()));
        match self.control.as_model() {
            Some(model) => {
                let again = self.acked_position <= self.marked_until;
                if model.takes_marks() && !again && self.repairing.is_none() {
                    model.on_mark(now, &mut self.window, flight, delivered);
                    self.marked_until = self.position;
                }
            }
            None => self.on_congestion(now, sent),
        }
    }

    /// Processes the marked fraction for Prague.
    ///
    /// Source: draft-briscoe-iccrg-prague-congestion-control-04 §2.3, §2.4.
    fn count_marks(&mut self, now: Time, newly: &NewlyAcked, marks: u64) {
        let marked = marks * self.window.mss;
        let (una, next) = (self.acked_position, self.position);
        let repairing = self.recovery_from.is_some_and(|from| newly.latest <= from);
        let again = una <= self.marked_until || repairing;
        let Some(prague) = self.control.as_prague() else { return };
        let p = Progress { now, acked: newly.bytes, una, next, ..Progress::default() };
        prague.count(&self.window, &p, marked);
        if marks > 0 && !again {
            prague.on_mark(&mut self.window);
            self.marked_until = next;
            self.hystart = None;
        }
    }

    fn grow(&mut self, now: Time, newly: &NewlyAcked, limited: bool, rtt: Option<Span>) {
        // This ACK has opened a loss epoch, so none of its packets was sent later.
        if newly.counted == 0 || self.recovery_from == Some(now) {
            return;
        }
        let progress = Progress {
            now,
            acked: newly.counted,
            srtt: self.rtt.srtt(),
            limited,
            rtt,
            una: self.acked_position,
            next: self.position,
            by_bytes: true,
            ..Progress::default()
        };
        match &mut self.hystart {
            Some(h) if self.window.in_slow_start() => h.on_ack(&mut self.window, &progress),
            _ => self.control.on_ack(&mut self.window, progress),
        }
    }

    fn notify_model(
        &mut self,
        now: Time,
        newly: NewlyAcked,
        limited: bool,
        full: bool,
        rtt: Option<Span>,
    ) {
        let lost = self.lost_bytes;
        let Some(delivery) = &mut self.delivery else { return };
        let Some(sample) = delivery.on_ack(now, &newly.delivered, lost) else { return };
        let Some(model) = self.control.as_model() else { return };
        let p = Progress {
            now,
            acked: newly.bytes,
            srtt: self.rtt.srtt(),
            limited,
            rtt,
            una: self.acked_position,
            next: self.position,
            in_flight: self.in_flight,
            full,
            by_bytes: true,
        };
        model.on_ack(&mut self.window, &p, sample);
        self.pacing.set_rate(model.pacing_rate(), model.quantum(self.window.mss));
        let starved = !self.stream.wants() && self.in_flight < self.window.cwnd;
        if starved || model.hides_samples() {
            delivery.starved(self.in_flight);
        }
    }
}
