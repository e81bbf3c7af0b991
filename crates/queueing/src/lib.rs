//! Queue disciplines with the semantics of their Linux namesakes.
//!
//! A discipline stores [`Item`]s (a handle to a packet kept elsewhere, its size and its flow), says
//! what became of each arrival ([`Verdict`]) and hands packets out when it may
//! ([`Queue::dequeue`]). It never reads a clock: `now` comes in with every call and must not go
//! backwards. [`DisciplineSpec`] describes a discipline as plain data and builds it.
//!
//! Equations, sources and deviations: `docs/models/queueing.md`.

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

use fairmesh_units::{Stream, Time};

/// One packet in a queue: what a discipline needs to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Names the packet to the caller; opaque here.
    pub handle: u32,
    /// Size of the IP packet in bytes.
    pub bytes: u32,
    /// Flow for per-flow disciplines and for class selection: a small dense number, or a hash.
    pub flow: u32,
    /// ECN-capable transport: may be marked instead of dropped (RFC 3168 §5).
    pub ect: bool,
    /// By ECT(1): a sender that answers many small marks (RFC 9331 §4.1).
    pub ect1: bool,
    /// The neighbour that it goes to, for queues that tell stations apart: a small dense number.
    pub station: u16,
}

/// An amount of queued data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Number of packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl Backlog {
    /// Nothing.
    pub const NONE: Backlog = Backlog { packets: 0, bytes: 0 };

    /// Adds one packet.
    #[inline]
    pub fn add(&mut self, item: Item) {
        self.packets += 1;
        self.bytes += u64::from(item.bytes);
    }
    /// Takes one packet away, which must have been added.
    #[inline]
    pub fn sub(&mut self, item: Item) {
        self.packets -= 1;
        self.bytes -= u64::from(item.bytes);
    }
    /// The sum of both.
    #[inline]
    pub fn plus(self, other: Backlog) -> Backlog {
        Backlog { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropCause {
    /// The buffer is full.
    Full,
    /// The flow's own share of the buffer is full.
    FlowFull,
    /// RED or FRED chose it at random while the average queue lay between the thresholds.
    Early,
    /// The average queue is above the upper threshold.
    Forced,
    /// FRED found the flow not to respond to drops.
    Unresponsive,
    /// It has waited for too long, by CoDel's control law.
    Waited,
    /// Larger than a token bucket's burst: it could never be sent.
    TooBig,
}

/// What became of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It waits in the queue.
    Queued,
    /// It waits in the queue and the caller must set its CE codepoint (RFC 3168 §5).
    Marked,
    /// It was refused; the caller still owns it.
    Dropped(DropCause),
    /// It waits in the queue, and this other packet was pushed out and returns to the caller.
    Evicted(Item, DropCause),
}

/// What became of a packet after it was let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// It was dropped and returns to the caller.
    Dropped(Item, DropCause),
    /// It leaves, or has left, and the caller must set its CE codepoint (RFC 3168 §5).
    Marked(Item),
}

/// A queue discipline. `now` must not go backwards from call to call.
pub trait Queue {
    /// Offers a packet.
    ///
    /// `held` is what was dequeued earlier and still occupies the buffer (the frame in service
    /// counts against ns-2's interface queue); pass [`Backlog::NONE`] where it does not. It counts
    /// against hard limits only, never in averages or rates.
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict;

    /// Takes the next packet, if one may leave now.
    fn dequeue(&mut self, now: Time) -> Option<Item>;

    /// The earliest time at which `dequeue` can succeed if nothing arrives: `now` if it would
    /// succeed at once, [`Time::NEVER`] if the queue is empty.
    fn next_ready(&self, now: Time) -> Time;

    /// What waits here.
    fn backlog(&self) -> Backlog;

    /// What the calls before did to packets that wait here, or did. To be asked after every
    /// `enqueue` and `dequeue` until there is nothing more, before the packet that left is passed on.
    fn late(&mut self) -> Option<Late> {
        None
    }
}
