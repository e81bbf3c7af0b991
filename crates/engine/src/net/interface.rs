//! A node's radio interface: its queue, and the classes a control may put before it.

use fairmesh_queueing::{Backlog, Discipline, Queue};
use fairmesh_units::{Stream, Time};

use crate::airtime::LinkClasses;

/// A node's radio interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub queue: Discipline,
    pub rng: Stream,
    /// What a control put in place of the queue. What they do not take waits in `queue`.
    pub classes: Option<Box<LinkClasses>>,
    /// What the MAC holds; it still occupies the buffer. With classes, what waits there too.
    pub held: Backlog,
    /// Σ packets × ns, for the mean length, up to `counted`.
    pub area: u128,
    counted: u64,
}

impl Interface {
    pub fn new(queue: Discipline, classes: Option<LinkClasses>, rng: Stream) -> Self {
        let classes = classes.map(Box::new);
        Interface { queue, rng, classes, held: Backlog::NONE, area: 0, counted: 0 }
    }

    /// Brings the queue-length integral up to date; call before the length changes.
    #[inline]
    pub fn count(&mut self, now: Time) {
        let at = now.as_nanos();
        let length = self.length();
        // Propagation delays let callbacks run a little ahead of the clock.
        self.area += u128::from(length) * u128::from(at.saturating_sub(self.counted));
        self.counted = self.counted.max(at);
    }

    /// What waits, the packet in service included.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog().plus(self.held)
    }

    /// Packets waiting, the one in service included.
    #[inline]
    pub fn length(&self) -> u32 {
        self.queue.backlog().packets + self.held.packets
    }
}
