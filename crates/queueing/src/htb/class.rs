//! One class of the tree.

use fairmesh_units::{Stream, Time};

use super::ring::Ring;
use super::{ClassCounters, ClassId, ClassSpec, LEVELS, PRIOS, Release};
use crate::{Backlog, DeferredVerdict, Discipline, DropCause, Item, Queue, TokenBucket, Verdict};

/// Sending mode of a class (Devera 2002 §3: green, yellow, red).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Above its ceiling.
    CannotSend,
    /// Above its rate, below its ceiling.
    MayBorrow,
    /// Within its rate.
    CanSend,
}

#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    queue: Discipline,
    /// With [`Release::Whole`], the next packet, already taken from `queue`.
    ///
    /// Its size determines its release.
    head: Option<Item>,
    release: Release,
    pub quantum: u32,
    pub deficit: [i64; LEVELS],
}

impl Leaf {
    /// Puts a packet into the leaf. `most`: the largest packet that the buckets can ever cover.
    pub fn enqueue(&mut self, now: Time, item: Item, most: u64, rng: &mut Stream) -> Verdict {
        // The class of a frame in service is unknown here, so no leaf is charged for it.
        if self.release == Release::Debt {
            return self.queue.enqueue(now, item, Backlog::NONE, rng);
        }
        if u64::from(item.bytes) > most {
            return Verdict::Dropped(DropCause::TooBig);
        }
        // The head still occupies the buffer.
        let mut held = Backlog::NONE;
        self.head.into_iter().for_each(|head| held.add(head));
        let verdict = self.queue.enqueue(now, item, held, rng);
        if self.head.is_none() {
            self.head = self.queue.dequeue(now);
        }
        verdict
    }

    pub fn dequeue(&mut self, now: Time) -> Option<Item> {
        match self.release {
            Release::Debt => self.queue.dequeue(now),
            Release::Whole => std::mem::replace(&mut self.head, self.queue.dequeue(now)),
        }
    }

    pub fn queue(&self) -> &Discipline {
        &self.queue
    }

    /// Returns a later outcome for a packet that its queue has accepted.
    pub fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.queue.deferred_verdict()
    }

    /// Removes the next packet, regardless of the buckets.
    pub fn pop(&mut self) -> Option<Item> {
        self.head.take().or_else(|| self.queue.pop())
    }

    pub fn backlog(&self) -> Backlog {
        let mut b = self.queue.backlog();
        self.head.into_iter().for_each(|head| b.add(head));
        b
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Leaf(Box<Leaf>),
    /// Children that want to borrow, by priority.
    Inner(Box<[Ring; PRIOS]>),
    /// A removed class; its index is free.
    Vacant,
}

impl Kind {
    pub fn leaf(queue: Discipline, release: Release) -> Self {
        let (head, quantum, deficit) = (None, 0, [0; LEVELS]);
        Kind::Leaf(Box::new(Leaf { queue, head, release, quantum, deficit }))
    }
    pub fn inner() -> Self {
        Kind::Inner(Box::default())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub id: ClassId,
    pub parent: u32,
    pub level: u8,
    pub prio: u8,
    pub mode: Mode,
    /// Priorities (bits) with data to send in the class or in classes below it.
    pub activity: u8,
    pub rate: TokenBucket,
    pub ceil: TokenBucket,
    /// Instant at which its mode may improve; NEVER while it can send.
    pub wake: Time,
    /// Index of the class among the leaves that have data to send.
    pub place: u32,
    pub kind: Kind,
    pub counters: ClassCounters,
    quantum: Option<u32>,
}

impl Class {
    pub fn new(spec: &ClassSpec, parent: u32, level: u8, kind: Kind) -> Self {
        Class {
            id: spec.id,
            parent,
            level,
            prio: spec.prio,
            mode: Mode::CanSend,
            activity: 0,
            rate: TokenBucket::new(spec.rates.rate, spec.rates.burst),
            ceil: TokenBucket::new(spec.rates.ceil, spec.rates.cburst),
            wake: Time::NEVER,
            place: 0,
            kind,
            counters: ClassCounters::default(),
            quantum: spec.quantum,
        }
    }

    pub fn is_vacant(&self) -> bool {
        matches!(self.kind, Kind::Vacant)
    }
    pub fn is_inner(&self) -> bool {
        matches!(self.kind, Kind::Inner(_))
    }

    /// Sets the leaf's quantum from its rate, unless one was given.
    pub fn set_quantum(&mut self, r2q: u32) {
        let by_rate = (self.rate.rate().0 / 8 / u64::from(r2q)).clamp(1000, 200_000) as u32;
        if let Kind::Leaf(leaf) = &mut self.kind {
            leaf.quantum = self.quantum.unwrap_or(by_rate);
        }
    }

    /// Returns the bytes that a bucket must hold before the class may send.
    ///
    /// A packet that a reduced burst no longer covers leaves from a full bucket: it must not block
    /// the class.
    fn need(&self, bucket: &TokenBucket) -> u32 {
        match &self.kind {
            Kind::Leaf(leaf) => {
                leaf.head.map_or(0, |head| u64::from(head.bytes).min(bucket.burst().0) as u32)
            }
            _ => 0,
        }
    }

    /// Returns the instant at which the ceiling allows it to send.
    pub fn allowed_at(&self, now: Time) -> Time {
        self.ceil.ready_at(now, self.need(&self.ceil))
    }

    /// Returns the instant at which it has own tokens.
    pub fn funded_at(&self, now: Time) -> Time {
        self.rate.ready_at(now, self.need(&self.rate))
    }

    /// Returns the mode that the buckets require at `now`, and the next possible improvement.
    pub fn decide(&self, now: Time) -> (Mode, Time) {
        // No hysteresis: the kernel's default (`htb_hysteresis` 0).
        if !self.ceil.covers(now, self.need(&self.ceil)) {
            (Mode::CannotSend, self.allowed_at(now))
        } else if self.rate.covers(now, self.need(&self.rate)) {
            (Mode::CanSend, Time::NEVER)
        } else {
            (Mode::MayBorrow, self.funded_at(now))
        }
    }

    pub fn ring(&mut self, prio: usize) -> &mut Ring {
        match &mut self.kind {
            Kind::Inner(rings) => &mut rings[prio],
            _ => unreachable!("only inner classes have children"),
        }
    }
}
