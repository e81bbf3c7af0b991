//! UDP at a constant rate.

use fairmesh_units::{BitRate, Span, Stream, Time};

use super::{Do, Out, scale};

#[derive(Clone, Debug)]
pub(super) struct Cbr {
    gap: Span,
    datagram: u32,
    jitter: f64,
}

impl Cbr {
    pub(super) const fn new(rate: BitRate, datagram: u32, jitter: f64) -> Self {
        Cbr { gap: rate.time_for(datagram as u64), datagram, jitter }
    }

    /// Sends a datagram and returns when the next is due.
    pub(super) fn send(&mut self, now: Time, rng: &mut Stream, out: Out) -> Time {
        out(Do::Datagram { bytes: self.datagram });
        if self.jitter == 0.0 {
            return now + self.gap;
        }
        now + scale(self.gap, rng.uniform(1.0 - self.jitter, 1.0 + self.jitter))
    }
}
