//! Random early detection (Floyd & Jacobson 1993), with the gentle slope of Floyd 2000.

use fairmesh_units::{Span, Stream, Time};

use crate::average::Average;
use crate::{Backlog, DropCause, DropTail, Item, Limit, Queue, Verdict};

/// Description of a [`Red`]. Thresholds are in the unit of `limit`.
#[derive(Clone, PartialEq, Debug)]
pub struct RedSpec {
    /// Hard limit; its unit makes this RED in packets or in bytes.
    pub limit: Limit,
    /// Average queue below which no packet is dropped (`min_th`).
    pub min: f64,
    /// Average queue at which the drop probability has risen to `max_p` (`max_th`).
    pub max: f64,
    /// Drop probability at `max`.
    pub max_p: f64,
    /// Weight of a new sample in the average (`w_q`).
    pub weight: f64,
    /// True for a probability that rises from `max_p` to 1 at twice `max`, without a step.
    pub gentle: bool,
    /// True to mark packets of ECN-capable transports instead of dropping them early.
    pub ecn: bool,
    /// Typical packet in bytes: the unit of probability when `limit` is in bytes.
    pub mean_packet: u32,
    /// Time to send a typical packet: ages the average over idle periods.
    pub packet_time: Span,
}

impl RedSpec {
    /// Returns ns-2's long-standing settings for a buffer of `packets`.
    ///
    /// Thresholds are 5 and 15 packets, `max_p` 0.1, weight 0.002, gentle, no ECN.
    pub fn packets(packets: u32, packet_time: Span) -> Self {
        RedSpec {
            limit: Limit::Packets(packets),
            min: 5.0,
            max: 15.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: false,
            mean_packet: 1000,
            packet_time,
        }
    }
}

/// A RED queue.
#[derive(Clone, Debug)]
pub struct Red {
    spec: RedSpec,
    queue: DropTail,
    average: Average,
    /// Packets since the last early drop while above `min`; −1 below it.
    count: i64,
}

/// Action for the current average queue.
enum Zone {
    Calm,
    Random(f64),
    Forced,
}

impl Red {
    pub(crate) fn new(spec: RedSpec) -> Self {
        Red {
            queue: DropTail::new(spec.limit),
            average: Average::new(spec.weight, spec.packet_time),
            count: -1,
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

    fn zone(&self) -> Zone {
        let RedSpec { min, max, max_p, gentle, .. } = self.spec;
        let avg = self.average.value;
        if avg < min {
            Zone::Calm
        } else if avg < max {
            Zone::Random(max_p * (avg - min) / (max - min))
        } else if gentle && avg < 2.0 * max {
            // Floyd 2000, "Recommendation on using the gentle variant of RED"
            Zone::Random(max_p + (1.0 - max_p) * (avg - max) / max)
        } else {
            Zone::Forced
        }
    }
}

/// Spreads drops evenly: p_a = p_b / (1 − count · p_b) (Floyd & Jacobson 1993 §VII).
pub(crate) fn spread(p_b: f64, count: i64) -> f64 {
    let left = 1.0 - count as f64 * p_b;
    if left <= p_b { 1.0 } else { p_b / left }
}

impl Queue for Red {
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        let queued = self.queue.backlog();
        let (size, scale) = match self.spec.limit {
            Limit::Packets(_) => (f64::from(queued.packets), 1.0),
            // Floyd & Jacobson 1993 §VII: p_b in proportion to the packet's size
            Limit::Bytes(_) => (
                queued.bytes as f64,
                f64::from(item.bytes) / f64::from(self.spec.mean_packet.max(1)),
            ),
        };
        self.average.arrival(now, size);
        let mut marked = false;
        match self.zone() {
            Zone::Calm => self.count = -1,
            Zone::Random(p_b) => {
                self.count += 1;
                if rng.chance(spread((p_b * scale).min(1.0), self.count)) {
                    self.count = 0;
                    if !(self.spec.ecn && item.ect) {
                        return Verdict::Dropped(DropCause::Early);
                    }
                    marked = true;
                }
            }
            // RFC 3168 §7: above the upper threshold ECN-capable packets are dropped, too
            Zone::Forced => {
                self.count = 0;
                return Verdict::Dropped(DropCause::Forced);
            }
        }
        if !self.spec.limit.admits(queued, held, item) {
            self.count = 0;
            return Verdict::Dropped(DropCause::Full);
        }
        self.queue.push(item);
        if marked { Verdict::Marked } else { Verdict::Queued }
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
