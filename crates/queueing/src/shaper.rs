//! A token bucket in front of another discipline: Linux `tbf`.

use fairmesh_units::{BitRate, Bytes, Stream, Time};

use crate::{Backlog, Discipline, DisciplineSpec, DropCause, Item, Queue, TokenBucket, Verdict};

/// What a [`Shaper`] is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct ShaperSpec {
    /// Long-term rate of IP bytes.
    pub rate: BitRate,
    /// Bytes that may leave back to back; at least the largest packet.
    pub burst: Bytes,
    /// Where packets wait.
    pub inner: Box<DisciplineSpec>,
}

/// Lets packets out of an inner discipline no faster than a token bucket allows.
///
/// A packet leaves when the bucket covers all of it, so that over any interval `t` no more than
/// `rate × t + burst` leaves. Packets larger than the burst are dropped on arrival, as `tbf` does.
#[derive(Clone, Debug)]
pub struct Shaper {
    bucket: TokenBucket,
    /// Next to leave: already taken from `inner`, since only its size tells when it may go.
    head: Option<Item>,
    inner: Box<Discipline>,
}

impl Shaper {
    pub(crate) fn new(rate: BitRate, burst: Bytes, inner: Discipline) -> Self {
        Shaper { bucket: TokenBucket::new(rate, burst), head: None, inner: Box::new(inner) }
    }

    /// Changes the rate and burst in place; queued packets stay. A rate of zero stops the queue.
    pub fn set(&mut self, now: Time, rate: BitRate, burst: Bytes) {
        self.bucket.set(now, rate, burst);
    }

    /// The bucket.
    pub fn bucket(&self) -> &TokenBucket {
        &self.bucket
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        self.head.take().or_else(|| self.inner.pop())
    }

    /// What the bucket must hold before `item` leaves. A packet that a later, smaller burst can no
    /// longer cover leaves from a full bucket: it must not block the queue for ever.
    fn cost(&self, item: Item) -> u32 {
        u64::from(item.bytes).min(self.bucket.burst().0) as u32
    }
}

impl Queue for Shaper {
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        if u64::from(item.bytes) > self.bucket.burst().0 {
            return Verdict::Dropped(DropCause::TooBig);
        }
        // The head still fills a place of the inner buffer.
        let mut held = held;
        if let Some(head) = self.head {
            held.add(head);
        }
        let verdict = self.inner.enqueue(now, item, held, rng);
        if self.head.is_none() {
            self.head = self.inner.dequeue(now);
        }
        verdict
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        let item = match self.head {
            Some(item) => item,
            None => {
                self.head = self.inner.dequeue(now);
                self.head?
            }
        };
        if !self.bucket.covers(now, self.cost(item)) {
            return None;
        }
        self.bucket.take(now, item.bytes);
        self.head = self.inner.dequeue(now);
        Some(item)
    }

    fn next_ready(&self, now: Time) -> Time {
        match self.head {
            Some(item) => self.bucket.ready_at(now, self.cost(item)),
            None => self.inner.next_ready(now),
        }
    }

    fn backlog(&self) -> Backlog {
        let mut b = self.inner.backlog();
        if let Some(head) = self.head {
            b.add(head);
        }
        b
    }
}
