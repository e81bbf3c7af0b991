//! The exponentially weighted average queue of RED (Floyd & Jacobson 1993 §V).

use fairmesh_units::{Span, Time};

/// Average queue size, in packets or bytes.
#[derive(Clone, Debug)]
pub(crate) struct Average {
    pub value: f64,
    weight: f64,
    /// Time to send a typical packet; it gives the number of samples for an idle period.
    slot: Span,
    idle: Idle,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Idle {
    No,
    /// Instant at which the last packet left for service.
    Emptied(Time),
    /// Instant of a dequeue that found no packet: the true start of the idle period.
    Since(Time),
}

impl Average {
    pub fn new(weight: f64, slot: Span) -> Self {
        Average { value: 0.0, weight, slot, idle: Idle::Since(Time::ZERO) }
    }

    /// Adds one sample of the queue.
    ///
    /// An idle period counts as the number of samples of an empty queue for which it has room.
    pub fn arrival(&mut self, now: Time, size: f64) {
        match self.idle {
            Idle::No => self.sample(size),
            Idle::Emptied(t) | Idle::Since(t) => {
                // avg ← (1 − w)^m · avg with m = idle time / slot (Floyd & Jacobson 1993 Fig. 2)
                let m = now.since(t).as_nanos() as f64 / self.slot.as_nanos().max(1) as f64;
                self.value *= libm::pow(1.0 - self.weight, m);
                self.idle = Idle::No;
            }
        }
    }

    pub fn sample(&mut self, size: f64) {
        self.value += self.weight * (size - self.value);
    }

    /// Discards the state after the queue was drained without service.
    pub fn reset(&mut self) {
        self.value = 0.0;
        self.idle = Idle::Since(Time::ZERO);
    }

    /// Records a dequeue: `found` is true if there was a packet, `left` is the number left.
    pub fn record_dequeue(&mut self, now: Time, found: bool, left: u32) {
        match self.idle {
            Idle::Emptied(_) if !found => self.idle = Idle::Since(now),
            _ if found && left == 0 => self.idle = Idle::Emptied(now),
            _ => {}
        }
    }
}
