//! One class of the tree.

use fairmesh_units::Time;

use super::ring::Ring;
use super::{ClassCounters, ClassId, ClassSpec, LEVELS, PRIOS};
use crate::{Backlog, Discipline, Queue, TokenBucket};

/// Whether a class may send (Devera 2002 §3: green, yellow, red).
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
    pub queue: Discipline,
    pub quantum: u32,
    pub deficit: [i64; LEVELS],
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Leaf(Box<Leaf>),
    /// Children that want to borrow, by priority.
    Inner(Box<[Ring; PRIOS]>),
    /// A removed class; its place is free.
    Vacant,
}

impl Kind {
    pub fn leaf(queue: Discipline) -> Self {
        Kind::Leaf(Box::new(Leaf { queue, quantum: 0, deficit: [0; LEVELS] }))
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
    /// Priorities (bits) in which the class, or classes below it, have something to send.
    pub activity: u8,
    pub rate: TokenBucket,
    pub ceil: TokenBucket,
    /// When its mode may improve; NEVER while it can send.
    pub wake: Time,
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

    pub fn backlog(&self) -> Backlog {
        match &self.kind {
            Kind::Leaf(leaf) => leaf.queue.backlog(),
            _ => Backlog::NONE,
        }
    }

    /// Sets the leaf's quantum from its rate, unless one was given.
    pub fn set_quantum(&mut self, r2q: u32) {
        let by_rate = (self.rate.rate().0 / 8 / u64::from(r2q)).clamp(1000, 200_000) as u32;
        if let Kind::Leaf(leaf) = &mut self.kind {
            leaf.quantum = self.quantum.unwrap_or(by_rate);
        }
    }

    /// The mode that the buckets ask for at `now`, and when it may improve.
    pub fn judge(&self, now: Time) -> (Mode, Time) {
        // No hysteresis: the kernel's default (`htb_hysteresis` 0).
        if !self.ceil.covers(now, 0) {
            (Mode::CannotSend, self.ceil.ready_at(now, 0))
        } else if self.rate.covers(now, 0) {
            (Mode::CanSend, Time::NEVER)
        } else {
            (Mode::MayBorrow, self.rate.ready_at(now, 0))
        }
    }

    pub fn ring(&mut self, prio: usize) -> &mut Ring {
        match &mut self.kind {
            Kind::Inner(rings) => &mut rings[prio],
            _ => unreachable!("only inner classes have children"),
        }
    }
}
