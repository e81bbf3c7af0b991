//! UDP at a constant rate.

use fairmesh_units::{BitRate, Span, Stream, Time};

use super::scale;

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

    /// Sends a datagram; returns its payload, bytes, and the instant of the next one.
    #[inline]
    pub(super) fn send(&mut self, now: Time, rng: &mut Stream) -> (u32, Time) {
        if self.jitter == 0.0 {
            return (self.datagram, now + self.gap);
        }
        let gap = scale(self.gap, rng.uniform(1.0 - self.jitter, 1.0 + self.jitter));
        (self.datagram, now + gap)
    }
}
