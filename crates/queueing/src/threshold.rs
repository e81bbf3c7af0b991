//! Marks above a threshold of the average queue, without early drops.
//!
//! Rangwala 2008 §3.1, §4.1: its congestion detection for TCP.

use fairmesh_units::{Span, Stream, Time};

use crate::average::Average;
use crate::{Backlog, DropTail, Item, Limit, Queue, Verdict};

/// Description of a [`Threshold`]. The threshold is in the unit of `limit`.
#[derive(Clone, PartialEq, Debug)]
pub struct ThresholdSpec {
    /// Hard limit; its unit is that of the average.
    pub limit: Limit,
    /// Average queue above which packets of ECN-capable transports are marked (K).
    pub threshold: f64,
    /// Weight of a new sample in the average (`w_q`).
    pub weight: f64,
    /// Time to send a typical packet: ages the average over idle periods.
    pub packet_time: Span,
}

impl ThresholdSpec {
    /// Returns the settings of Rangwala 2008, Table 1, for a buffer of `packets`.
    ///
    /// They are threshold 4, weight 0.02.
    pub fn packets(packets: u32, packet_time: Span) -> Self {
        let limit = Limit::Packets(packets);
        ThresholdSpec { limit, threshold: 4.0, weight: 0.02, packet_time }
    }
}

/// A queue that marks above a threshold of its average.
///
/// Unlike RED, it does not drop packets that cannot be marked, such as TCP acknowledgements.
#[derive(Clone, Debug)]
pub struct Threshold {
    spec: ThresholdSpec,
    queue: DropTail,
    average: Average,
}

impl Threshold {
    pub(crate) fn new(spec: ThresholdSpec) -> Self {
        Threshold {
            queue: DropTail::new(spec.limit),
            average: Average::new(spec.weight, spec.packet_time),
            spec,
        }
    }

    /// Returns the average queue, in the limit's unit.
    pub fn average(&self) -> f64 {
        self.average.value
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.queue.pop();
        if self.queue.backlog().packets == 0 {
            self.average.reset();
        }
        item
    }
}

impl Queue for Threshold {
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        let queued = self.queue.backlog();
        let size = match self.spec.limit {
            Limit::Packets(_) => f64::from(queued.packets),
            Limit::Bytes(_) => queued.bytes as f64,
        };
        self.average.arrival(now, size);
        match self.queue.enqueue(now, item, held, rng) {
            Verdict::Queued if item.ect && self.average.value > self.spec.threshold => {
                Verdict::Marked
            }
            other => other,
        }
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        let item = self.queue.pop();
        self.average.record_dequeue(now, item.is_some(), self.queue.backlog().packets);
        item
    }

    fn next_ready(&self, now: Time) -> Time {
        self.queue.next_ready(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}
