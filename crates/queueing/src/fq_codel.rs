//! Flow queueing with CoDel (RFC 8290): Linux `fq_codel`.

use std::collections::VecDeque;

use fairmesh_units::{Stream, Time};

use crate::codel::CodelSpec;
use crate::flow_queues::FlowQueues;
use crate::{Backlog, DeferredVerdict, Item, Queue, Verdict};

/// Description of an [`FqCodel`]. RFC 8290 §5.2
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqCodelSpec {
    /// Maximum number of packets of all flows.
    pub packets: u32,
    /// Maximum number of bytes of all flows.
    ///
    /// Linux `memory_limit`, there with the kernel's overhead.
    pub memory: u64,
    /// Buckets of the hash.
    pub flows: u32,
    /// Bytes that a flow may send per turn.
    pub quantum: u32,
    /// Maximum number of packets dropped at once when a limit is reached.
    pub drop_batch: u32,
    /// The control law of each flow.
    pub codel: CodelSpec,
}

impl Default for FqCodelSpec {
    /// Returns 10 240 packets, 32 MiB, 1024 flows, turns of 1514 bytes, batches of 64, marks.
    ///
    /// RFC 8290 §5.2; Linux marks unless `noecn` is set.
    fn default() -> Self {
        FqCodelSpec {
            packets: 10_240,
            memory: 32 << 20,
            flows: 1024,
            quantum: 1514,
            drop_batch: 64,
            codel: CodelSpec { ecn: true, ..CodelSpec::default() },
        }
    }
}

/// A queue for each hashed flow, served in turn, new flows first; CoDel in each.
#[derive(Clone, Debug)]
pub struct FqCodel {
    spec: FqCodelSpec,
    flows: FlowQueues,
    deferred: VecDeque<DeferredVerdict>,
}

impl FqCodel {
    pub(crate) fn new(spec: FqCodelSpec) -> Self {
        let mut flows = FlowQueues::new(spec.flows, spec.quantum);
        flows.add_tin();
        FqCodel { spec, flows, deferred: VecDeque::new() }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        self.flows.pop()
    }
}

impl Queue for FqCodel {
    /// Accepts each packet.
    ///
    /// Packets dropped because of a limit, possibly the new one, are returned by [`Queue::deferred_verdict`].
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        self.flows.enqueue(now, 0, item, rng);
        let all = self.flows.backlog().plus(held);
        if all.packets > self.spec.packets || all.bytes > self.spec.memory {
            self.flows.drop_from_longest(self.spec.drop_batch, &mut self.deferred);
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        self.flows.dequeue(now, 0, &self.spec.codel, &mut self.deferred)
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.flows.backlog().packets == 0 { Time::NEVER } else { now }
    }

    fn backlog(&self) -> Backlog {
        self.flows.backlog()
    }

    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.deferred.pop_front()
    }
}
