//! Radio time: the monotonic clock minus the time for which the engine did not run.
//!
//! The engine sets a horizon, the latest radio time until its next turn. If that turn is late,
//! radio time stops at the horizon: no thread's clock passes it, and the time lost is a stall.

use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_linux::realtime;
use fairmesh_units::{Span, Time};

use crate::stalls::Stalls;

/// Polling interval of a thread that waits for radio time during a stall, in ns.
const POLL_INTERVAL_NS: u64 = 200_000;

/// Radio time, readable from every thread.
#[derive(Debug)]
pub struct RadioClock {
    /// Reading of the monotonic clock at time zero, in ns.
    epoch: u64,
    /// Total time of all stalls, in ns.
    stalled: AtomicU64,
    /// Latest radio time that the engine has allowed, in ns.
    horizon: AtomicU64,
    /// Latest radio time that a thread has read, in ns.
    latest: AtomicU64,
    /// Number of long stalls.
    long: AtomicU64,
}

impl RadioClock {
    /// Creates a clock; `epoch` is the reading of the monotonic clock at time zero, in ns.
    pub fn new(epoch: u64) -> Self {
        let zero = || AtomicU64::new(0);
        RadioClock { epoch, stalled: zero(), horizon: zero(), latest: zero(), long: zero() }
    }

    /// Returns radio time, which is monotonic and never beyond the horizon.
    pub fn now(&self) -> Time {
        // In this order: a horizon set after a stall implies that the stall is visible, too.
        let horizon = self.horizon.load(Ordering::Acquire);
        let now = self.raw(realtime::now()).min(horizon);
        Time::from_nanos(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }

    fn raw(&self, monotonic: u64) -> u64 {
        monotonic.saturating_sub(self.epoch).saturating_sub(self.stalled.load(Ordering::Acquire))
    }

    /// Returns the reading of the monotonic clock at which to check for radio time `at`, ns.
    ///
    /// After a stall in between, radio time is then still earlier.
    pub fn reading(&self, at: Time) -> u64 {
        let stalled = self.stalled.load(Ordering::Acquire);
        let reading = at.as_nanos().saturating_add(self.epoch).saturating_add(stalled);
        let monotonic = realtime::now();
        if reading <= monotonic && self.now() < at { monotonic + POLL_INTERVAL_NS } else { reading }
    }

    /// Returns the number of stalls after which a kernel timer may have fired spuriously.
    pub fn long_stalls(&self) -> u64 {
        self.long.load(Ordering::Acquire)
    }

    /// Sleeps until radio time begins.
    pub fn wait_for_zero(&self) {
        realtime::sleep_until(self.epoch);
    }
}

/// The engine's side of the clock, which alone advances it.
#[derive(Debug)]
pub struct Keeper<'a> {
    clock: &'a RadioClock,
    /// Maximum lateness of the engine before radio time stops.
    slack: Span,
    /// Stalls of radio time.
    pub stalls: Stalls,
}

impl<'a> Keeper<'a> {
    /// Creates the keeper of a clock; `timer` is the minimum retransmission timer.
    pub fn new(clock: &'a RadioClock, slack: Span, timer: Span) -> Self {
        Keeper { clock, slack, stalls: Stalls::new(timer) }
    }

    /// Returns radio time, at most the horizon, and records a stall if the engine is late.
    pub fn tick(&mut self) -> Time {
        self.tick_at(realtime::now())
    }

    fn tick_at(&mut self, monotonic: u64) -> Time {
        let horizon = self.clock.horizon.load(Ordering::Relaxed);
        let raw = self.clock.raw(monotonic);
        if raw > horizon {
            let lost = raw - horizon;
            self.stalls.record(Time::from_nanos(horizon), Span::from_nanos(lost));
            self.clock.stalled.fetch_add(lost, Ordering::Release);
            self.clock.long.store(self.stalls.long(), Ordering::Release);
        }
        Time::from_nanos(raw.min(horizon))
    }

    /// Sets the horizon to `next` plus the allowed lateness, and not before `now`.
    pub fn allow(&self, now: Time, next: Time) {
        let horizon = now.max(next + self.slack).as_nanos();
        self.clock.horizon.store(horizon, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(at: u64) -> Time {
        Time::from_nanos(at * MS)
    }

    #[test]
    fn radio_time_stops_when_the_engine_is_late() {
        let clock = RadioClock::new(1000 * MS);
        let mut keeper = Keeper::new(&clock, Span::from_millis(1), Span::from_millis(200));
        keeper.allow(Time::ZERO, ms(10));
        assert_eq!(keeper.tick_at(1010 * MS), ms(10), "on time");
        assert_eq!(keeper.tick_at(1011 * MS), ms(11), "late, within what is allowed");
        assert_eq!(keeper.tick_at(1111 * MS), ms(11), "100 ms are lost");
        assert_eq!(keeper.tick_at(1111 * MS), ms(11), "once");
        keeper.allow(ms(11), ms(20));
        assert_eq!(keeper.tick_at(1120 * MS), ms(20));
        assert_eq!(keeper.stalls.sum(), Span::from_millis(100));
        assert_eq!(clock.long_stalls(), 1);
        // An overdue event stops the clock, but does not turn it back.
        keeper.allow(ms(20), ms(15));
        assert_eq!(keeper.tick_at(1121 * MS), ms(20));
    }

    #[test]
    fn lost_time_is_never_visible_to_other_threads() {
        // Epoch in the distant past: the monotonic clock is beyond any horizon.
        let clock = RadioClock::new(0);
        let mut keeper = Keeper::new(&clock, Span::ZERO, Span::from_millis(200));
        let mut last = Time::ZERO;
        for at in 1..100 {
            keeper.allow(last, ms(at));
            let seen = clock.now();
            let now = keeper.tick();
            assert!(last <= seen && seen <= now && now <= ms(at), "{last} {seen} {now}");
            assert!(clock.reading(ms(at + 1)) >= clock.reading(ms(at)));
            last = now;
        }
    }

    #[test]
    fn waiting_during_a_stall_does_not_spin() {
        let clock = RadioClock::new(0);
        assert!(clock.reading(ms(1)) >= realtime::now() + POLL_INTERVAL_NS / 2);
    }
}
