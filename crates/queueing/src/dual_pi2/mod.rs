//! The dual-queue coupled AQM with PI² (RFC 9332).
//!
//! It has a shallow L4S queue and a deep classic queue with common capacity.

use std::collections::VecDeque;

use fairmesh_units::{Span, Stream, Time};

use crate::codel::{Entry, Fifo, Source};
use crate::{Backlog, DeferredVerdict, DropCause, Item, Limit, Queue, Verdict};

/// Description of a [`DualPi2`].
///
/// RFC 9332 Appendix A
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DualPi2Spec {
    /// Buffer of both queues together.
    pub limit: Limit,
    /// Target waiting time of the classic queue.
    pub target: Span,
    /// Interval at which the controller adjusts its probability.
    pub update: Span,
    /// Integral gain of the controller, Hz.
    pub alpha: f64,
    /// Proportional gain of the controller, Hz.
    pub beta: f64,
    /// Ratio of the L4S marking probability to the square root of the classic loss probability.
    ///
    /// It is k of §2.1.
    pub coupling: f64,
    /// Waiting time above which L4S packets are marked with some probability.
    pub min_threshold: Span,
    /// Additional waiting time above which each L4S packet is marked.
    pub range: Span,
    /// The classic queue's share while both have packets, in (0, 1).
    pub classic_share: f64,
    /// True to mark classic packets of ECN-capable transports instead of dropping them.
    pub ecn: bool,
}

impl Default for DualPi2Spec {
    /// Returns the defaults of Linux's `sch_dualpi2`.
    ///
    /// They are 10 000 packets, 15 ms, every 16 ms, .16 and 3.2 Hz, k = 2 and a tenth for the classic queue.
    /// Marks from .8 to 1.2 ms (RFC 9332 Appendix A.1; Linux: all from 1 ms on).
    fn default() -> Self {
        DualPi2Spec {
            limit: Limit::Packets(10_000),
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            min_threshold: Span::from_micros(800),
            range: Span::from_micros(400),
            classic_share: 0.1,
            ecn: true,
        }
    }
}

/// Selects packets with a likelihood at regular distances (RFC 9332 Appendix A.1, `recur`).
///
/// An example is every fourth with a quarter.
#[derive(Clone, Copy, Debug, Default)]
struct Recurrence(f64);

impl Recurrence {
    fn chooses(&mut self, likelihood: f64) -> bool {
        self.0 += likelihood;
        let chosen = self.0 > 1.0;
        if chosen {
            self.0 -= 1.0;
        }
        chosen
    }
}

/// Two queues under one controller.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    spec: DualPi2Spec,
    l4s: Fifo,
    classic: Fifo,
    /// p′ of §2.1: its square is the classic queue's likelihood, k times it the L4S queue's.
    base: f64,
    /// Waiting time of the longest-waiting packet at the last adjustment.
    before: Span,
    /// Instant of the next adjustment.
    next: Time,
    marks: Recurrence,
    drops: Recurrence,
    overload: Recurrence,
    /// Bytes that the classic queue may send before the L4S queue, relative to its share.
    ///
    /// Negative after it has exceeded its share.
    credit: f64,
    deferred: VecDeque<DeferredVerdict>,
}

impl DualPi2 {
    pub(crate) fn new(spec: DualPi2Spec) -> Self {
        DualPi2 {
            spec,
            l4s: Fifo::default(),
            classic: Fifo::default(),
            base: 0.0,
            before: Span::ZERO,
            next: Time::ZERO,
            marks: Recurrence::default(),
            drops: Recurrence::default(),
            overload: Recurrence::default(),
            credit: 0.0,
            deferred: VecDeque::new(),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        self.l4s.take().or_else(|| self.classic.take()).map(|e| e.item)
    }

    /// Returns the maximum p′: the classic queue loses at most 1/k² (p_Cmax, Appendix A.2).
    fn most(&self) -> f64 {
        (1.0 / self.spec.coupling).min(1.0)
    }

    /// Returns the waiting time of the first packet of a queue.
    fn waited(queue: &Fifo, now: Time) -> Span {
        queue.ring.front().map_or(Span::ZERO, |e| now.since(e.since))
    }

    /// Performs the adjustments due since the last call, by the longer of both waits.
    ///
    /// RFC 9332 Appendix A.1, `dualpi2_update`, and A.2.
    fn adjust(&mut self, now: Time) {
        let (target, seconds) = (self.spec.target.as_secs_f64(), Span::as_secs_f64);
        while self.next <= now {
            if self.base <= 0.0 && self.classic.ring.is_empty() && self.l4s.ring.is_empty() {
                // No changes until a packet arrives.
                self.before = Span::ZERO;
                self.next = now + self.spec.update;
                return;
            }
            let at = self.next;
            let waits = Self::waited(&self.classic, at).max(Self::waited(&self.l4s, at));
            let current = seconds(waits);
            self.base += self.spec.alpha * (current - target)
                + self.spec.beta * (current - seconds(self.before));
            self.base = self.base.clamp(0.0, self.most());
            self.before = waits;
            self.next += self.spec.update;
        }
    }

    /// Returns true if the L4S queue is next.
    ///
    /// If both have packets, the shares decide. RFC 9332 §4.2.2
    fn l4s_is_next(&self) -> bool {
        match (self.l4s.ring.is_empty(), self.classic.ring.is_empty()) {
            (false, false) => self.credit <= 0.0,
            (empty, _) => !empty,
        }
    }

    /// Returns the L4S queue's own marking probability.
    ///
    /// It is zero below the threshold, one above threshold plus range. RFC 9332 Appendix A.1, `laqm`
    fn native(&self, waited: Span) -> f64 {
        let above = waited.saturating_sub(self.spec.min_threshold);
        if self.l4s.ring.is_empty() || above == Span::ZERO {
            // A single packet is not a queue (Th_len).
            return 0.0;
        }
        if self.spec.range == Span::ZERO {
            return 1.0;
        }
        (above.as_secs_f64() / self.spec.range.as_secs_f64()).min(1.0)
    }

    /// Sends an L4S packet, unless it is dropped because of overload.
    fn leave_l4s(&mut self, now: Time, entry: Entry) -> Option<Item> {
        let coupled = (self.spec.coupling * self.base).min(1.0);
        if self.base >= self.most() && self.overload.chooses(self.base * self.base) {
            // Marks are not sufficient: both queues lose packets. RFC 9332 §4.2.3, Appendix A.2
            self.deferred.push_back(DeferredVerdict::Dropped(entry.item, DropCause::Waited));
            return None;
        }
        let likelihood = self.native(now.since(entry.since)).max(coupled);
        if self.marks.chooses(likelihood) {
            self.deferred.push_back(DeferredVerdict::Marked(entry.item));
        }
        Some(entry.item)
    }

    /// Sends a classic packet, unless it is dropped.
    fn leave_classic(&mut self, entry: Entry) -> Option<Item> {
        if self.drops.chooses(self.base * self.base) {
            let overload = self.base >= self.most();
            if !self.spec.ecn || !entry.item.ect || overload {
                self.deferred.push_back(DeferredVerdict::Dropped(entry.item, DropCause::Waited));
                return None;
            }
            self.deferred.push_back(DeferredVerdict::Marked(entry.item));
        }
        Some(entry.item)
    }
}

impl Queue for DualPi2 {
    /// Puts ECT(1) into the L4S queue, all other packets into the classic one. RFC 9332 §2.3
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, _rng: &mut Stream) -> Verdict {
        self.adjust(now);
        if !self.spec.limit.admits(self.backlog(), held, item) {
            return Verdict::Dropped(DropCause::Full);
        }
        let queue = if item.ect1 { &mut self.l4s } else { &mut self.classic };
        queue.bytes += u64::from(item.bytes);
        queue.ring.push_back(Entry { item, since: now });
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        self.adjust(now);
        loop {
            let share = self.spec.classic_share;
            let contended = !self.l4s.ring.is_empty() && !self.classic.ring.is_empty();
            let (left, weight) = if self.l4s_is_next() {
                let entry = self.l4s.take()?;
                (self.leave_l4s(now, entry), share)
            } else {
                let Some(entry) = self.classic.take() else {
                    // Credit ends with the backlog.
                    self.credit = 0.0;
                    return None;
                };
                (self.leave_classic(entry), share - 1.0)
            };
            let Some(item) = left else { continue };
            // Capacity that the other queue did not need is not charged.
            if contended {
                self.credit += weight * f64::from(item.bytes);
            }
            return Some(item);
        }
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.backlog().packets == 0 { Time::NEVER } else { now }
    }

    fn backlog(&self) -> Backlog {
        self.l4s.backlog().plus(self.classic.backlog())
    }

    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.deferred.pop_front()
    }
}

#[cfg(test)]
mod tests;
