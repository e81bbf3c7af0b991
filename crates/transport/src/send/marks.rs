//! Effects of congestion marks on the sender.

use fairmesh_units::Time;

use super::{Phase, Sender};
use crate::config::Dialect;
use crate::congestion::window::{CongestionControl, Progress};
use crate::segment::Segment;

impl Sender {
    /// Handles an echoed mark. `flight`: outstanding bytes before this acknowledgement.
    pub(super) fn on_echo(&mut self, now: Time, flight: u64) {
        // RFC 3168 §6.1.2: at most once per window, and not during a repair, which has already
        // reduced the window
        let ignores_marks = self.control.as_model().is_some_and(|m| !m.takes_marks());
        if ignores_marks
            || self.phase != Phase::Open
            || self.una <= self.reduced_until.max(self.recover)
        {
            return;
        }
        let delivered = self.delivery.as_ref().map_or(0, |d| d.total());
        match (self.control.as_model(), self.dialect) {
            (Some(model), _) => model.on_mark(now, &mut self.window, flight, delivered),
            (None, Dialect::Rfc) => self.on_mark(now, flight),
            (None, Dialect::Ns3) => {
                self.window.ssthresh = self.reduced(self.in_flight());
                self.window.cwnd = self.window.ssthresh;
            }
        }
        self.reduced_until = self.next;
        self.announce_reduction = true;
        self.counters.ecn_reductions += 1;
    }

    /// Processes counted marks, for controllers that use them.
    #[inline]
    pub(super) fn on_marks(&mut self, now: Time, seg: &Segment, acked: u64) {
        if self.control.is_prague() {
            self.take_marks(now, seg, acked);
        }
    }

    #[cold]
    fn take_marks(&mut self, now: Time, seg: &Segment, acked: u64) {
        let new = seg.ce.saturating_sub(self.marks);
        self.marks += new;
        let marked = u64::from(new) * self.window.mss;
        let (una, next) = (self.una, self.next);
        let Some(prague) = self.control.as_prague() else { return };
        let p = Progress { now, acked, una, next, ..Progress::default() };
        prague.count(&self.window, &p, marked);
        // Once per round trip, and not while a loss is repaired.
        let again = una <= self.reduced_until.max(self.recover);
        if new == 0 || again || self.phase != Phase::Open {
            return;
        }
        prague.on_mark(&mut self.window);
        self.reduced_until = next;
        self.counters.ecn_reductions += 1;
    }

    /// Reduces to half of the data in the network, down to one segment.
    ///
    /// RFC 3168 §6.1.2, RFC 9438 §4.6. A mark at one segment makes the sender wait for its timer.
    fn on_mark(&mut self, now: Time, flight: u64) {
        let mss = self.window.mss;
        // Data outstanding beyond the window was sent by limited transmit or before a reduction.
        let left = self.control.reduce(&self.window, flight.min(self.window.cwnd));
        let at_one = self.window.cwnd < 2 * mss && !self.clocked;
        self.window.ssthresh = left.max(2 * mss);
        self.window.cwnd = left.max(mss);
        if !at_one {
            self.marks_at_one = 0;
            return;
        }
        self.window.cwnd = mss;
        self.held = true;
        if self.ecn_backoff {
            // ns-2 doubles the timer from the second such mark in a row on. The sample of this
            // acknowledgement has reset the doubling.
            for _ in 0..self.marks_at_one {
                self.rto.back_off();
            }
            self.marks_at_one = self.marks_at_one.saturating_add(1).min(32);
        }
        self.timer = now + self.rto.get();
    }
}
