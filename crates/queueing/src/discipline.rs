//! Any discipline, dispatched by a match instead of a virtual call.

use fairmesh_units::{Stream, Time};

use crate::{
    Backlog, Cake, Codel, DeferredVerdict, DropTail, DualPi2, Fair, FqCodel, Fred, Htb, Item,
    Queue, Red, Stations, Threshold, Verdict, Wfq,
};

/// A queue discipline of any kind, built by [`crate::DisciplineSpec::build`].
#[derive(Clone, Debug)]
pub enum Discipline {
    /// First in, first out.
    DropTail(DropTail),
    /// Deficit round robin over per-flow buffers.
    Fair(Fair),
    /// Finish tags by weight over per-flow buffers.
    Wfq(Box<Wfq>),
    /// Random early detection.
    Red(Box<Red>),
    /// Flow random early drop.
    Fred(Box<Fred>),
    /// Marks above a threshold of the average queue.
    Threshold(Box<Threshold>),
    /// First in, first out, under CoDel.
    Codel(Box<Codel>),
    /// A queue per flow, CoDel in each.
    FqCodel(Box<FqCodel>),
    /// A shaper, flows within hosts, COBALT.
    Cake(Box<Cake>),
    /// An L4S queue and a classic queue, coupled.
    DualPi2(Box<DualPi2>),
    /// A set of flows per neighbour, as in mac80211.
    Stations(Box<Stations>),
    /// Token buckets, one or a tree of them.
    Htb(Box<Htb>),
}

macro_rules! each {
    ($self:expr, $q:ident => $call:expr) => {
        match $self {
            Discipline::DropTail($q) => $call,
            Discipline::Fair($q) => $call,
            Discipline::Wfq($q) => $call,
            Discipline::Red($q) => $call,
            Discipline::Fred($q) => $call,
            Discipline::Threshold($q) => $call,
            Discipline::Codel($q) => $call,
            Discipline::FqCodel($q) => $call,
            Discipline::Cake($q) => $call,
            Discipline::DualPi2($q) => $call,
            Discipline::Stations($q) => $call,
            Discipline::Htb($q) => $call,
        }
    };
}

impl Discipline {
    /// Removes all packets, regardless of rates and without counting them as sent.
    ///
    /// The order within each flow is kept, so that the items can be moved to another discipline
    /// without loss or reordering. Items that the iterator has not yielded stay queued.
    pub fn drain(&mut self) -> impl Iterator<Item = Item> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        each!(self, q => q.pop())
    }

    /// Returns true if it may drop or mark accepted packets, or distinguishes neighbours.
    pub fn is_modern(&self) -> bool {
        use Discipline::{Cake, Codel, DualPi2, FqCodel, Htb, Stations};
        match self {
            Htb(tree) => tree.leaves().any(Discipline::is_modern),
            _ => matches!(self, Codel(_) | FqCodel(_) | Cake(_) | DualPi2(_) | Stations(_)),
        }
    }

    /// Returns the queues per neighbour, if this is such a discipline.
    #[inline]
    pub fn as_stations_mut(&mut self) -> Option<&mut Stations> {
        match self {
            Discipline::Stations(q) => Some(q),
            _ => None,
        }
    }

    /// Returns CAKE, if this is CAKE.
    pub fn as_cake_mut(&mut self) -> Option<&mut Cake> {
        match self {
            Discipline::Cake(q) => Some(q),
            _ => None,
        }
    }

    /// Returns the token buckets, if this is such a discipline.
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
    #[inline]
    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        match self {
            Discipline::Codel(q) => q.deferred_verdict(),
            Discipline::FqCodel(q) => q.deferred_verdict(),
            Discipline::Cake(q) => q.deferred_verdict(),
            Discipline::DualPi2(q) => q.deferred_verdict(),
            Discipline::Stations(q) => q.deferred_verdict(),
            Discipline::Htb(q) => q.deferred_verdict(),
            _ => None,
        }
    }
}
