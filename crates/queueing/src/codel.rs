//! CoDel (RFC 8289): drops by the waiting time of packets, not by their number.

use std::collections::VecDeque;

use fairmesh_units::{Span, Stream, Time};

use crate::{Backlog, DeferredVerdict, DropCause, Item, Limit, Queue, Verdict};

/// The control law's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodelSpec {
    /// Waiting time without drops (TARGET). RFC 8289 §4.3
    pub target: Span,
    /// Time for which the waiting time must exceed the target (INTERVAL). RFC 8289 §4.2
    pub interval: Span,
    /// True to mark packets of ECN-capable transports instead of dropping them.
    pub ecn: bool,
    /// Waiting time above which each ECN-capable packet is marked, regardless of the control law.
    ///
    /// It is the shallow threshold of L4S senders (Linux `ce_threshold`).
    pub ce_threshold: Option<Span>,
    /// True to mark only packets with ECT(1) (Linux `ce_threshold_selector 1/1`).
    pub ce_ect1: bool,
    /// Backlog up to which no packet is dropped, bytes (the RFC's `maxpacket`).
    pub mtu: u32,
}

impl Default for CodelSpec {
    /// Returns 5 ms and 100 ms (RFC 8289 §4.2, §4.3), packets of 1514 bytes, no marks.
    fn default() -> Self {
        CodelSpec {
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            ecn: false,
            ce_threshold: None,
            ce_ect1: false,
            mtu: 1514,
        }
    }
}

/// A packet with its arrival instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub item: Item,
    pub since: Time,
}

/// A source of packets for CoDel.
pub(crate) trait Source {
    /// Takes the oldest packet.
    fn take(&mut self) -> Option<Entry>;
    /// Returns the remaining bytes.
    fn bytes(&self) -> u64;
}

/// State of the control law for one queue. RFC 8289 §5.3
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    /// Instant at which the waiting time will have exceeded the target for an interval.
    ///
    /// Zero if it does not.
    first_above: Time,
    /// Instant of the next drop, while dropping.
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// Returns the instant of the `count`-th consecutive drop, the previous one being at `t`.
///
/// RFC 8289 §5.1
fn control_law(t: Time, interval: Span, count: u32) -> Time {
    let step = interval.as_nanos() as f64 / libm::sqrt(f64::from(count.max(1)));
    t + Span::from_nanos(step as u64)
}

impl Control {
    /// Counts drops outside the control law as its own.
    ///
    /// The overflow of a flow then has an effect (Linux's addition to RFC 8290 §4.1.1).
    pub fn count_drops(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Returns true if packets have waited above the target for at least an interval.
    ///
    /// RFC 8289 §5.5
    fn ok_to_drop(&mut self, now: Time, entry: Option<Entry>, left: u64, spec: &CodelSpec) -> bool {
        let Some(entry) = entry else {
            self.first_above = Time::ZERO;
            return false;
        };
        if now.since(entry.since) < spec.target || left <= u64::from(spec.mtu) {
            self.first_above = Time::ZERO;
            return false;
        }
        if self.first_above == Time::ZERO {
            self.first_above = now + spec.interval;
            return false;
        }
        now >= self.first_above
    }

    /// Returns the next packet; dropped and marked packets go to `deferred`. RFC 8289 §5.6
    pub fn dequeue(
        &mut self,
        now: Time,
        spec: &CodelSpec,
        queue: &mut impl Source,
        deferred: &mut VecDeque<DeferredVerdict>,
    ) -> Option<Item> {
        let mut taken = queue.take();
        let mut ok = self.ok_to_drop(now, taken, queue.bytes(), spec);
        let mut marked = false;
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                let Some(entry) = taken else { break };
                self.count = self.count.saturating_add(1);
                if spec.ecn && entry.item.ect {
                    marked = true;
                    self.drop_next = control_law(self.drop_next, spec.interval, self.count);
                    break;
                }
                deferred.push_back(DeferredVerdict::Dropped(entry.item, DropCause::Waited));
                taken = queue.take();
                ok = self.ok_to_drop(now, taken, queue.bytes(), spec);
                if ok {
                    self.drop_next = control_law(self.drop_next, spec.interval, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if let (true, Some(entry)) = (ok, taken) {
            if spec.ecn && entry.item.ect {
                marked = true;
            } else {
                deferred.push_back(DeferredVerdict::Dropped(entry.item, DropCause::Waited));
                taken = queue.take();
                self.ok_to_drop(now, taken, queue.bytes(), spec);
            }
            self.dropping = true;
            // A queue that was controlled recently continues at its former count. RFC 8289 §5.6
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < spec.interval.saturating_mul(16);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = control_law(now, spec.interval, self.count);
            self.last_count = self.count;
        }
        let entry = taken?;
        let above = spec.ce_threshold.is_some_and(|most| now.since(entry.since) > most);
        let shallow = above && (entry.item.ect1 || !spec.ce_ect1);
        if entry.item.ect && (marked || shallow) {
            deferred.push_back(DeferredVerdict::Marked(entry.item));
        }
        Some(entry.item)
    }
}

/// A first-in-first-out queue under CoDel: Linux `codel`.
#[derive(Clone, Debug)]
pub struct Codel {
    limit: Limit,
    spec: CodelSpec,
    fifo: Fifo,
    control: Control,
    deferred: VecDeque<DeferredVerdict>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    pub ring: VecDeque<Entry>,
    pub bytes: u64,
}

impl Fifo {
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.ring.len() as u32, bytes: self.bytes }
    }
}

impl Source for Fifo {
    fn take(&mut self) -> Option<Entry> {
        let entry = self.ring.pop_front()?;
        self.bytes -= u64::from(entry.item.bytes);
        Some(entry)
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Codel {
    pub(crate) fn new(limit: Limit, spec: CodelSpec) -> Self {
        let deferred = VecDeque::new();
        Codel { limit, spec, fifo: Fifo::default(), control: Control::default(), deferred }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        self.fifo.take().map(|e| e.item)
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, _rng: &mut Stream) -> Verdict {
        if !self.limit.admits(self.backlog(), held, item) {
            return Verdict::Dropped(DropCause::Full);
        }
        self.fifo.bytes += u64::from(item.bytes);
        self.fifo.ring.push_back(Entry { item, since: now });
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        self.control.dequeue(now, &self.spec, &mut self.fifo, &mut self.deferred)
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.fifo.ring.is_empty() { Time::NEVER } else { now }
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.fifo.ring.len() as u32, bytes: self.fifo.bytes }
    }

    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.deferred.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    #[test]
    fn the_control_law_in_numbers() {
        // 100 ms / sqrt(1, 2, 3, 4): by hand.
        let steps = [100_000_000, 70_710_678, 57_735_026, 50_000_000];
        for (n, step) in (1..).zip(steps) {
            let at = control_law(ms(7), Span::from_millis(100), n);
            assert_eq!(at.since(ms(7)).as_nanos(), step);
        }
    }

    /// Returns the instants of the drops and marks.
    ///
    /// One packet of 1000 bytes per millisecond enters and leaves, with 50 waiting from the start:
    /// each waits 50 ms. `ect`: 0 for none, 1 for ECT(0), 2 for ECT(1).
    fn standing(spec: CodelSpec, ect: u8) -> (Vec<f64>, Vec<f64>) {
        let mut q = Codel::new(Limit::Packets(2000), spec);
        let mut rng = Stream::new(1, "codel");
        let item =
            |n| Item { handle: n, bytes: 1000, flow: 0, ect: ect > 0, ect1: ect > 1, station: 0 };
        for n in 0..50 {
            q.enqueue(ms(0), item(n), Backlog::NONE, &mut rng);
        }
        let (mut drops, mut marks) = (Vec::new(), Vec::new());
        for t in 1..600 {
            q.enqueue(ms(t), item(50 + t as u32), Backlog::NONE, &mut rng);
            let out = q.dequeue(ms(t)).unwrap();
            while let Some(late) = q.deferred_verdict() {
                match late {
                    DeferredVerdict::Dropped(..) => {
                        drops.push(t as f64);
                        // Keeps the queue standing.
                        q.enqueue(ms(t), item(0), Backlog::NONE, &mut rng);
                    }
                    DeferredVerdict::Marked(marked) => {
                        assert_eq!(marked, out);
                        marks.push(t as f64);
                    }
                }
            }
        }
        (drops, marks)
    }

    #[test]
    fn drops_come_closer_by_the_square_root() {
        // Above the target from 5 ms on, so the first drop is at 105 ms; then after 100/√n each.
        let expected = [105.0, 205.0, 275.7, 333.4, 383.4, 428.2, 469.0, 506.8, 542.1, 575.5];
        let (drops, marks) = standing(CodelSpec::default(), 0);
        assert!(marks.is_empty());
        assert_eq!(drops.len(), expected.len(), "{drops:?}");
        for (drop, expected) in drops.iter().zip(expected) {
            // Packets are dequeued at whole milliseconds.
            assert!(*drop >= expected && *drop < expected + 1.1, "{drop}: {expected}");
        }
        let (drops, marks) = standing(CodelSpec { ecn: true, ..CodelSpec::default() }, 1);
        assert!(drops.is_empty());
        assert_eq!(marks.len(), expected.len());
    }

    #[test]
    fn ecn_needs_a_capable_transport_and_the_threshold_marks_at_once() {
        let (drops, marks) = standing(CodelSpec { ecn: true, ..CodelSpec::default() }, 0);
        assert!(!drops.is_empty() && marks.is_empty());
        let shallow =
            CodelSpec { ce_threshold: Some(Span::from_millis(1)), ..CodelSpec::default() };
        let (drops, marks) = standing(CodelSpec { interval: Span::from_secs(9), ..shallow }, 1);
        assert!(drops.is_empty());
        assert_eq!(marks.len(), 598, "all but the one that came just before");
        let selective = CodelSpec { ce_ect1: true, interval: Span::from_secs(9), ..shallow };
        assert!(standing(selective, 1).1.is_empty());
        assert_eq!(standing(selective, 2).1.len(), 598);
    }

    #[test]
    fn short_queues_and_short_waits_pass() {
        let mut rng = Stream::new(1, "codel");
        let item =
            |n| Item { handle: n, bytes: 1500, flow: 0, ect: false, ect1: false, station: 0 };
        let mut q = Codel::new(Limit::Packets(100), CodelSpec::default());
        // Two packets that wait very long: the last one is never dropped.
        for t in 0..50 {
            q.enqueue(ms(1000 * t), item(1), Backlog::NONE, &mut rng);
            q.enqueue(ms(1000 * t), item(2), Backlog::NONE, &mut rng);
            assert!(q.dequeue(ms(1000 * t + 500)).is_some());
            assert!(q.dequeue(ms(1000 * t + 999)).is_some());
            assert_eq!(q.deferred_verdict(), None);
        }
        // Many packets that wait 4 ms.
        for t in 0..4 {
            q.enqueue(ms(60_000 + t), item(3), Backlog::NONE, &mut rng);
        }
        for t in 60_004..61_000 {
            q.enqueue(ms(t), item(3), Backlog::NONE, &mut rng);
            assert!(q.dequeue(ms(t)).is_some());
            assert_eq!(q.deferred_verdict(), None);
        }
    }
}
