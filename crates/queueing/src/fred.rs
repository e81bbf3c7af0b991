//! Flow random early drop (Lin & Morris 1997): RED with a state per active flow.

use fairmesh_units::{Span, Stream, Time};

use crate::average::Average;
use crate::red::spread;
use crate::{Backlog, DropCause, DropTail, Item, Limit, Queue, Verdict};

/// Description of a [`Fred`]. All limits count packets.
#[derive(Clone, PartialEq, Debug)]
pub struct FredSpec {
    /// Hard limit in packets.
    pub limit: u32,
    /// Average queue below which no packet is dropped at random (`min_th`).
    pub min: f64,
    /// Average queue from which arrivals are dropped (`max_th`).
    pub max: f64,
    /// Random drop probability at `max`.
    pub max_p: f64,
    /// Weight of a new sample in the average (`w_q`).
    pub weight: f64,
    /// Packets that any flow may queue without random drops (`min_q`).
    pub min_q: u32,
    /// Packets that no flow may exceed (`max_q`).
    pub max_q: u32,
    /// True to let each flow keep two packets above `max` instead of dropping all arrivals.
    ///
    /// This is the paper's extension for many flows.
    pub many_flows: bool,
    /// Time to send a typical packet: ages the average over idle periods.
    pub packet_time: Span,
    /// Number of buckets: flows are distinguished modulo this number.
    pub buckets: u32,
}

impl FredSpec {
    /// Returns Lin & Morris's settings for a buffer of `packets`.
    ///
    /// `min_th` is a quarter of it, `max_th` twice that, `max_p` 0.02, weight 0.002, `min_q` 2 (4 from 100 packets on),
    /// `max_q` = `min_th`.
    pub fn packets(packets: u32, packet_time: Span) -> Self {
        let min = f64::from(packets) / 4.0;
        let min_q = if packets < 100 { 2 } else { 4 };
        FredSpec {
            limit: packets,
            min,
            max: 2.0 * min,
            max_p: 0.02,
            weight: 0.002,
            min_q,
            max_q: (packets / 4).max(min_q),
            many_flows: true,
            packet_time,
            buckets: 1024,
        }
    }
}

/// A FRED queue: one FIFO, with the number of packets and the strikes of each flow in it.
#[derive(Clone, Debug)]
pub struct Fred {
    spec: FredSpec,
    queue: DropTail,
    average: Average,
    count: i64,
    flows: Vec<Flow>,
    active: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Flow {
    queued: u32,
    strikes: u32,
}

impl Fred {
    pub(crate) fn new(spec: FredSpec) -> Self {
        Fred {
            queue: DropTail::new(Limit::Packets(spec.limit)),
            average: Average::new(spec.weight, spec.packet_time),
            count: -1,
            flows: Vec::new(),
            active: 0,
            spec,
        }
    }

    /// Returns the average queue, in packets.
    pub fn average(&self) -> f64 {
        self.average.value
    }

    /// Returns the average queue per active flow, at least one packet (`avgcq`).
    fn fair_share(&self) -> f64 {
        (self.average.value / f64::from(self.active.max(1))).max(1.0)
    }

    fn slot(&self, flow: u32) -> usize {
        (flow % self.spec.buckets) as usize
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.take();
        if self.queue.backlog().packets == 0 {
            self.average.reset();
        }
        item
    }

    fn take(&mut self) -> Option<Item> {
        let item = self.queue.pop()?;
        let slot = self.slot(item.flow);
        let flow = &mut self.flows[slot];
        flow.queued -= 1;
        if flow.queued == 0 {
            // A flow without packets is removed, including its strikes.
            flow.strikes = 0;
            self.active -= 1;
        }
        Some(item)
    }
}

impl Queue for Fred {
    // Lin & Morris 1997 Fig. 10 (arrival), Fig. 11 (average, departure), §5.3 (many flows)
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        let slot = self.slot(item.flow);
        if slot >= self.flows.len() {
            self.flows.resize(slot + 1, Flow::default());
        }
        let size = self.queue.backlog().packets;
        if size == 0 {
            self.average.arrival(now, 0.0);
        }
        let avg = self.average.value;
        let share = self.fair_share();
        let above = avg >= self.spec.max;
        let max_q = if above && self.spec.many_flows { 2 } else { self.spec.max_q };

        let flow = &mut self.flows[slot];
        let queued = f64::from(flow.queued);
        if flow.queued >= max_q
            || (above && queued > 2.0 * share)
            || (queued >= share && flow.strikes > 1)
        {
            flow.strikes += 1;
            return Verdict::Dropped(DropCause::Unresponsive);
        }
        if above && !self.spec.many_flows {
            self.count = 0;
            return Verdict::Dropped(DropCause::Forced);
        }
        if avg < self.spec.min {
            self.count = -1;
        } else if !above {
            self.count += 1;
            // Only flows with several packets, and more than their share, are subject to random
            // drops.
            if queued >= share.max(f64::from(self.spec.min_q)) {
                let p_b = self.spec.max_p * (avg - self.spec.min) / (self.spec.max - self.spec.min);
                if rng.chance(spread(p_b, self.count)) {
                    self.count = 0;
                    return Verdict::Dropped(DropCause::Early);
                }
            }
        }
        if !Limit::Packets(self.spec.limit).admits(self.queue.backlog(), held, item) {
            return Verdict::Dropped(DropCause::Full);
        }
        if flow.queued == 0 {
            self.active += 1;
        }
        flow.queued += 1;
        if size > 0 {
            self.average.arrival(now, f64::from(size));
        }
        self.queue.push(item);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        let item = self.take();
        let left = self.queue.backlog().packets;
        self.average.record_dequeue(now, item.is_some(), left);
        if item.is_some() {
            self.average.sample(f64::from(left));
        }
        item
    }

    fn next_ready(&self, now: Time) -> Time {
        self.queue.next_ready(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}
