//! External noise sources.

use fairmesh_units::{Span, Time};

use crate::air::Air;
use crate::frame::{FrameKind, Transmission};
use crate::station::NO_STATION;
use crate::upper::Upper;

impl Air {
    pub(crate) fn make_noise<U: Upper>(&mut self, source: u32, now: u64, upper: &mut U) {
        let on = self.noise[source as usize - self.service.len()].0.on.as_nanos();
        let f = Transmission {
            end: now + on,
            nav: 0,
            air: on,
            bytes: 0,
            to: NO_STATION,
            rate: self.phy.lowest(),
            kind: FrameKind::Noise,
            on_air: true,
        };
        self.begin(source, now, f, upper);
    }

    pub(crate) fn schedule_noise(&mut self, source: u32, now: u64) {
        let (n, rng) = &mut self.noise[source as usize - self.service.len()];
        let period = n.period.as_secs_f64() * rng.uniform(1.0 - n.jitter, 1.0 + n.jitter);
        let rest = Span::from_secs_f64(period).saturating_sub(n.on);
        // At least a nanosecond: a duty cycle of one must not stop virtual time.
        let next = Time::from_nanos(now) + rest.max(Span::from_nanos(1));
        self.wakes.set(source as usize, if next < n.stop { next } else { Time::NEVER });
    }
}
