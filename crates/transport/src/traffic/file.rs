//! Files, each on a new connection.

use fairmesh_units::{Stream, Time};

use super::{Action, Out, Pause, Side, SizeLaw};

#[derive(Clone, Debug)]
pub(super) struct Files {
    size: SizeLaw,
    pause: Pause,
    /// Remaining number of files.
    left: Option<u32>,
    /// Bytes of the present file that have not arrived.
    missing: u64,
    /// Start of the present file.
    since: Time,
    /// Start of a completed file, until it is taken.
    arrived: Option<Time>,
}

impl Files {
    pub(super) const fn new(size: SizeLaw, pause: Pause, count: Option<u32>) -> Self {
        Files { size, pause, left: count, missing: 0, since: Time::ZERO, arrived: None }
    }

    /// Starts the next file, if there is one.
    pub(super) fn start(&mut self, now: Time, rng: &mut Stream, out: Out) -> Time {
        match &mut self.left {
            Some(0) => return Time::NEVER,
            Some(n) => *n -= 1,
            None => {}
        }
        self.missing = self.size.draw(rng);
        self.since = now;
        out(Action::Connect);
        out(Action::Write { side: Side::Client, bytes: self.missing });
        out(Action::Close);
        Time::NEVER
    }

    /// Returns the instant at which the next file starts, once this one has arrived.
    pub(super) fn on_delivered(
        &mut self,
        now: Time,
        side: Side,
        bytes: u64,
        rng: &mut Stream,
    ) -> Option<Time> {
        if side == Side::Client || self.missing == 0 {
            return None;
        }
        self.missing = self.missing.saturating_sub(bytes);
        if self.missing > 0 {
            return None;
        }
        self.arrived = Some(self.since);
        Some(if self.left == Some(0) { Time::NEVER } else { now + self.pause.draw(rng) })
    }

    /// Returns true if a part of the present file has not arrived.
    pub(super) const fn is_active(&self) -> bool {
        self.missing > 0
    }

    /// Returns the start of a file completed since the last call.
    pub(super) fn arrived(&mut self) -> Option<Time> {
        self.arrived.take()
    }
}
