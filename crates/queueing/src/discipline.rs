//! Any discipline, dispatched by a match instead of a virtual call.

use fairmesh_units::{Stream, Time};

use crate::{Backlog, DropTail, Fair, Fred, Htb, Item, Queue, Red, Threshold, Verdict};

/// A queue discipline of any kind, built by [`crate::DisciplineSpec::build`].
#[derive(Clone, Debug)]
pub enum Discipline {
    /// First in, first out.
    DropTail(DropTail),
    /// Deficit round robin over per-flow buffers.
    Fair(Fair),
    /// Random early detection.
    Red(Box<Red>),
    /// Flow random early drop.
    Fred(Box<Fred>),
    /// Marks above a threshold of the average queue.
    Threshold(Box<Threshold>),
    /// Token buckets, one or a tree of them.
    Htb(Box<Htb>),
}

macro_rules! each {
    ($self:expr, $q:ident => $call:expr) => {
        match $self {
            Discipline::DropTail($q) => $call,
            Discipline::Fair($q) => $call,
            Discipline::Red($q) => $call,
            Discipline::Fred($q) => $call,
            Discipline::Threshold($q) => $call,
            Discipline::Htb($q) => $call,
        }
    };
}

impl Discipline {
    /// Takes everything out, whatever the rates say and without counting it as sent. The order
    /// within each flow is kept, so that feeding the items to another discipline swaps them
    /// without loss or reordering. What the iterator has not yielded stays queued.
    pub fn drain(&mut self) -> impl Iterator<Item = Item> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        each!(self, q => q.pop())
    }

    /// The token buckets, if these are some.
    pub fn as_htb_mut(&mut self) -> Option<&mut Htb> {
        match self {
            Discipline::Htb(q) => Some(q),
            _ => None,
        }
    }
}

impl Queue for Discipline {
    #[inline]
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        each!(self, q => q.enqueue(now, item, held, rng))
    }
    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<Item> {
        each!(self, q => q.dequeue(now))
    }
    #[inline]
    fn next_ready(&self, now: Time) -> Time {
        each!(self, q => q.next_ready(now))
    }
    #[inline]
    fn backlog(&self) -> Backlog {
        each!(self, q => q.backlog())
    }
}
