//! First in, first out, refusing arrivals when full.
//!
//! It is that of Linux `pfifo` and `bfifo`, ns-2 `DropTail`.

use std::collections::VecDeque;

use fairmesh_units::{Stream, Time};

use crate::{Backlog, DropCause, Item, Queue, Verdict};

/// Size of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// In packets of any size.
    Packets(u32),
    /// In bytes of IP packets.
    Bytes(u64),
}

impl Limit {
    /// Returns true if `item` fits in addition to `queued` and `held`.
    #[inline]
    pub fn admits(self, queued: Backlog, held: Backlog, item: Item) -> bool {
        self.has_room(queued, held, item.bytes)
    }

    #[inline]
    fn has_room(self, queued: Backlog, held: Backlog, bytes: u32) -> bool {
        match self {
            Limit::Packets(n) => queued.packets + held.packets < n,
            Limit::Bytes(n) => queued.bytes + held.bytes + u64::from(bytes) <= n,
        }
    }

    /// Returns true if it admits no packet.
    pub fn is_zero(self) -> bool {
        matches!(self, Limit::Packets(0) | Limit::Bytes(0))
    }

    /// Returns a ring size that seldom has to grow.
    pub(crate) fn capacity(self) -> usize {
        match self {
            Limit::Packets(n) => (n as usize).min(256),
            Limit::Bytes(n) => ((n / 1000) as usize).min(256),
        }
    }
}

/// A drop-tail queue.
#[derive(Clone, Debug)]
pub struct DropTail {
    ring: VecDeque<Item>,
    bytes: u64,
    limit: Limit,
}

impl DropTail {
    /// Returns an empty queue.
    pub fn new(limit: Limit) -> Self {
        DropTail { ring: VecDeque::with_capacity(limit.capacity()), bytes: 0, limit }
    }

    /// Returns the buffer's size.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns true if a packet of this length would be accepted in addition to `held`.
    #[inline]
    pub fn has_room(&self, held: Backlog, bytes: u32) -> bool {
        self.limit.has_room(self.backlog(), held, bytes)
    }

    /// Takes the oldest packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Item> {
        let item = self.ring.pop_front()?;
        self.bytes -= u64::from(item.bytes);
        Some(item)
    }

    /// Appends regardless of the limit.
    #[inline]
    pub(crate) fn push(&mut self, item: Item) {
        self.bytes += u64::from(item.bytes);
        self.ring.push_back(item);
    }
}

impl Queue for DropTail {
    #[inline]
    fn enqueue(&mut self, _now: Time, item: Item, held: Backlog, _rng: &mut Stream) -> Verdict {
        if !self.limit.admits(self.backlog(), held, item) {
            return Verdict::Dropped(DropCause::Full);
        }
        self.push(item);
        Verdict::Queued
    }

    #[inline]
    fn dequeue(&mut self, _now: Time) -> Option<Item> {
        self.pop()
    }

    #[inline]
    fn next_ready(&self, now: Time) -> Time {
        if self.ring.is_empty() { Time::NEVER } else { now }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.ring.len() as u32, bytes: self.bytes }
    }
}
