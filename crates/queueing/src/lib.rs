//! Queue disciplines with the semantics of their Linux namesakes.
//!
//! A discipline stores [`Item`]s (a handle of a packet stored elsewhere, its size and its flow),
//! returns the outcome of each arrival ([`Verdict`]) and releases packets when they are due
//! ([`Queue::dequeue`]). It does not read a clock: each call passes `now`, which must not decrease.
//! [`DisciplineSpec`] describes a discipline as plain data and builds it.
//!
//! Equations, sources and differences: `docs/models/queueing.md`.

mod average;
mod bucket;
mod cake;
mod cobalt;
mod codel;
mod discipline;
mod drop_tail;
mod dual_pi2;
mod fair;
mod flow_queues;
mod fq_codel;
mod fred;
mod htb;
mod red;
mod spec;
mod stations;
mod threshold;
mod wfq;

pub(crate) use bucket::MAX_BURST;
pub use bucket::TokenBucket;
pub use cake::{Cake, CakeSpec, HostFairness};
pub use codel::{Codel, CodelSpec};
pub use discipline::Discipline;
pub use drop_tail::{DropTail, Limit};
pub use dual_pi2::{DualPi2, DualPi2Spec};
pub use fair::{Fair, FairSpec};
pub use fq_codel::{FqCodel, FqCodelSpec};
pub use fred::{Fred, FredSpec};
pub use htb::{ClassCounters, ClassId, ClassRates, ClassSpec, Htb, HtbError, HtbSpec, Release};
pub use red::{Red, RedSpec};
pub use spec::{DisciplineSpec, SpecError};
pub use stations::{AqlSpec, SlowSpec, Stations, StationsSpec};
pub use threshold::{Threshold, ThresholdSpec};
pub use wfq::{Wfq, WfqSpec};

use fairmesh_units::{Stream, Time};

/// One packet in a queue, with the properties that a discipline needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// The caller's handle of the packet; opaque to the queue.
    pub handle: u32,
    /// Size of the IP packet in bytes.
    pub bytes: u32,
    /// Flow for per-flow disciplines and for class selection: a small dense number, or a hash.
    pub flow: u32,
    /// True if of an ECN-capable transport: may be marked instead of dropped (RFC 3168 §5).
    pub ect: bool,
    /// True if ECN-capable by ECT(1): a sender that responds to many small marks (RFC 9331 §4.1).
    pub ect1: bool,
    /// Next hop, for queues that distinguish stations: a small dense number.
    pub station: u16,
}

/// An amount of queued data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Number of packets.
    pub packets: u32,
    /// Bytes of the packets.
    pub bytes: u64,
}

impl Backlog {
    /// Empty backlog.
    pub const NONE: Backlog = Backlog { packets: 0, bytes: 0 };

    /// Adds one packet.
    #[inline]
    pub fn add(&mut self, item: Item) {
        self.packets += 1;
        self.bytes += u64::from(item.bytes);
    }
    /// Removes one packet, which must have been added.
    #[inline]
    pub fn sub(&mut self, item: Item) {
        self.packets -= 1;
        self.bytes -= u64::from(item.bytes);
    }
    /// Returns the sum of both.
    #[inline]
    pub fn plus(self, other: Backlog) -> Backlog {
        Backlog { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// Reason for the drop of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropCause {
    /// The buffer is full.
    Full,
    /// The flow's own share of the buffer is full.
    FlowFull,
    /// RED or FRED dropped it at random while the average queue was between the thresholds.
    Early,
    /// The average queue is above the upper threshold.
    Forced,
    /// FRED found the flow unresponsive to drops.
    Unresponsive,
    /// The packet waited too long, by CoDel's control law.
    Waited,
    /// Larger than a token bucket's burst: it could never be sent.
    TooBig,
}

/// Outcome for an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet waits in the queue.
    Queued,
    /// The packet waits, and the caller must set its CE codepoint (RFC 3168 §5).
    Marked,
    /// The packet was refused; the caller still owns it.
    Dropped(DropCause),
    /// The packet is queued; another one was evicted and returns to the caller.
    Evicted(Item, DropCause),
}

/// Outcome for a packet after it was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeferredVerdict {
    /// The packet was dropped and returns to the caller.
    Dropped(Item, DropCause),
    /// The packet leaves, or has left, and the caller must set its CE codepoint (RFC 3168 §5).
    Marked(Item),
}

/// A queue discipline. `now` must not decrease from call to call.
pub trait Queue {
    /// Offers a packet.
    ///
    /// `held` is the data that was dequeued earlier and still occupies the buffer (the frame in
    /// service counts against ns-2's interface queue); pass [`Backlog::NONE`] if there is none. It
    /// counts against hard limits only, not in averages or rates.
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict;

    /// Removes the next packet, if one may leave now.
    fn dequeue(&mut self, now: Time) -> Option<Item>;

    /// Returns the earliest time at which `dequeue` can succeed without an arrival.
    ///
    /// `now` if it would succeed immediately, [`Time::NEVER`] if the queue is empty.
    fn next_ready(&self, now: Time) -> Time;

    /// Returns the queued data.
    fn backlog(&self) -> Backlog;

    /// Returns a later outcome for an accepted packet.
    ///
    /// Must be called after every `enqueue` and `dequeue` until it returns `None`, before the
    /// dequeued packet is passed on.
    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        None
    }
}
