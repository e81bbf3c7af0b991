//! TCP with an application that writes at a constant rate.

use fairmesh_units::{BitRate, Time};

use super::{Action, Out, Side};

#[derive(Clone, Debug)]
pub(super) struct Limited {
    rate: BitRate,
    chunk: u32,
    started: bool,
}

impl Limited {
    pub(super) const fn new(rate: BitRate, chunk: u32) -> Self {
        Limited { rate, chunk, started: false }
    }

    /// Writes a chunk and returns the instant of the next.
    pub(super) fn write(&mut self, now: Time, out: Out) -> Time {
        if !self.started {
            self.started = true;
            out(Action::Connect);
        }
        out(Action::Write { side: Side::Client, bytes: u64::from(self.chunk) });
        now + self.rate.time_for(u64::from(self.chunk))
    }
}
