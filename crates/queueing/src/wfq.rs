//! Weighted fair queueing: a buffer per flow, packets in order of their finish tags.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairmesh_units::{Stream, Time};

use crate::{Backlog, DropCause, Item, Limit, Queue, Verdict};

/// Description of a [`Wfq`].
#[derive(Clone, PartialEq, Debug)]
pub struct WfqSpec {
    /// Buffer of each flow; arrivals beyond it are dropped.
    pub per_flow: Limit,
    /// Weights of individual buckets, by number; buckets beyond its end have weight 1.
    pub weights: Vec<f64>,
    /// Number of buckets: flows are distinguished modulo this number.
    pub buckets: u32,
}

impl WfqSpec {
    /// Returns buffers of this size per flow, weights of 1 and 1024 buckets.
    pub fn per_flow(limit: Limit) -> Self {
        WfqSpec { per_flow: limit, weights: Vec::new(), buckets: 1024 }
    }

    fn weight(&self, slot: u32) -> f64 {
        self.weights.get(slot as usize).copied().unwrap_or(1.0)
    }
}

/// Weighted fair queueing (Demers, Keshav, Shenker 1989. Parekh & Gallager 1993).
///
/// It is used in Jamshaid 2010 §6.2.1.
///
/// A packet of `L` bytes of a flow of weight `w` has the finish tag `max(V, F) + L / w`: `V` is the
/// virtual time at its arrival, `F` the flow's previous tag. The packet with the least tag leaves
/// first. Virtual time advances by the bytes sent, divided by the weights of the flows that the
/// fluid reference still serves, so a link of variable rate needs no nominal rate.
#[derive(Clone, Debug)]
pub struct Wfq {
    spec: WfqSpec,
    flows: Vec<Flow>,
    packets: BinaryHeap<Reverse<Tagged<Item>>>,
    /// Finish tag and flow of each packet that the fluid reference has not served yet.
    fluid: BinaryHeap<Reverse<Tagged<u32>>>,
    /// Virtual time, bytes per unit of weight.
    round: f64,
    /// Sum of the weights of the flows that the fluid reference serves.
    weights: f64,
    /// Number of these flows.
    served: u32,
    /// Number of packets accepted so far, which orders equal tags.
    accepted: u64,
    backlog: Backlog,
}

#[derive(Clone, Copy, Default, Debug)]
struct Flow {
    /// Finish tag of the packet that arrived last.
    last: f64,
    /// True while the fluid reference serves the flow.
    served: bool,
    backlog: Backlog,
}

/// A value ordered by finish tag, then by arrival.
#[derive(Clone, Copy, Debug)]
struct Tagged<T> {
    tag: f64,
    number: u64,
    of: T,
}

impl<T> PartialEq for Tagged<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for Tagged<T> {}
impl<T> PartialOrd for Tagged<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Tagged<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.tag.total_cmp(&other.tag).then(self.number.cmp(&other.number))
    }
}

impl Wfq {
    /// Builds the queue. `spec` must have been checked: buffer, buckets and weights above zero.
    pub(crate) fn new(spec: WfqSpec) -> Self {
        Wfq {
            spec,
            flows: Vec::new(),
            packets: BinaryHeap::new(),
            fluid: BinaryHeap::new(),
            round: 0.0,
            weights: 0.0,
            served: 0,
            accepted: 0,
            backlog: Backlog::NONE,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let Reverse(Tagged { of: item, .. }) = self.packets.pop()?;
        self.flows[(item.flow % self.spec.buckets) as usize].backlog.sub(item);
        self.backlog.sub(item);
        self.advance(f64::from(item.bytes));
        Some(item)
    }

    /// Lets the fluid reference serve this many bytes.
    fn advance(&mut self, mut bytes: f64) {
        while let Some(&Reverse(next)) = self.fluid.peek() {
            let needed = (next.tag - self.round).max(0.0) * self.weights;
            // An empty queue has sent all bytes that arrived, and so has the reference, apart from rounding.
            if needed > bytes && self.backlog.packets > 0 {
                self.round = (self.round + bytes / self.weights).min(next.tag);
                return;
            }
            bytes -= needed;
            self.round = self.round.max(next.tag);
            self.fluid.pop();
            let flow = &mut self.flows[next.of as usize];
            if flow.last <= self.round {
                flow.served = false;
                self.served -= 1;
                self.weights -= self.spec.weight(next.of);
            }
        }
        debug_assert_eq!(self.served, 0);
        self.weights = 0.0;
    }
}

impl Queue for Wfq {
    fn enqueue(&mut self, _now: Time, item: Item, _held: Backlog, _rng: &mut Stream) -> Verdict {
        let slot = item.flow % self.spec.buckets;
        if slot as usize >= self.flows.len() {
            self.flows.resize(slot as usize + 1, Flow::default());
        }
        let flow = &mut self.flows[slot as usize];
        if !self.spec.per_flow.admits(flow.backlog, Backlog::NONE, item) {
            return Verdict::Dropped(DropCause::FlowFull);
        }
        let weight = self.spec.weight(slot);
        if !flow.served {
            flow.served = true;
            self.served += 1;
            self.weights += weight;
        }
        // Demers, Keshav, Shenker 1989 §2: F_i = max(F_{i-1}, R(t_i)) + P_i
        flow.last = flow.last.max(self.round) + f64::from(item.bytes) / weight;
        flow.backlog.add(item);
        self.backlog.add(item);
        let number = self.accepted;
        self.accepted += 1;
        self.packets.push(Reverse(Tagged { tag: flow.last, number, of: item }));
        self.fluid.push(Reverse(Tagged { tag: flow.last, number, of: slot }));
        Verdict::Queued
    }

    fn dequeue(&mut self, _now: Time) -> Option<Item> {
        self.pop()
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.packets.is_empty() { Time::NEVER } else { now }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
