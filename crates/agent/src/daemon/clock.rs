//! Clocks of a daemon: the time since its start, and the calendar.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fairmesh_units::Time;

use super::service::Moment;

/// The only source of time for a daemon, its threads and its commands.
///
/// A program creates it and hands it down, so that another one can be used, such as one that passes over idle hours.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Time + Send + Sync>,
    wall: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.moment())
    }
}

impl Clock {
    /// Returns the clocks of the system; time zero is this call.
    pub fn system() -> Clock {
        let start = Instant::now();
        let nanos = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Clock::new(move || Time::from_nanos(nanos()), wall_clock)
    }

    /// Returns a clock of two functions; `now` never runs backwards.
    pub fn new(
        now: impl Fn() -> Time + Send + Sync + 'static,
        wall: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Clock {
        Clock { now: Arc::new(now), wall: Arc::new(wall) }
    }

    /// Returns the same clock with time zero at this call.
    pub fn restarted(&self) -> Clock {
        let (now, zero) = (self.now.clone(), self.now());
        Clock { now: Arc::new(move || Time::ZERO + now().since(zero)), wall: self.wall.clone() }
    }

    /// Returns the time since time zero.
    pub fn now(&self) -> Time {
        (self.now)()
    }

    /// Returns the calendar, in seconds since 1970; it may jump.
    pub fn wall(&self) -> u64 {
        (self.wall)()
    }

    /// Returns the present instant by both clocks.
    pub fn moment(&self) -> Moment {
        Moment { now: self.now(), wall: self.wall() }
    }
}

/// Returns seconds since 1970 by the system's clock.
pub fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_restart_moves_time_zero_and_not_the_calendar() {
        let time = Arc::new(AtomicU64::new(7));
        let (a, b) = (time.clone(), time.clone());
        let clock = Clock::new(
            move || Time::from_nanos(a.load(Ordering::Relaxed)),
            move || b.load(Ordering::Relaxed) + 1000,
        );
        let restarted = clock.restarted();
        assert_eq!(restarted.moment(), Moment { now: Time::ZERO, wall: 1007 });
        time.store(12, Ordering::Relaxed);
        assert_eq!(restarted.moment(), Moment { now: Time::from_nanos(5), wall: 1012 });
        assert_eq!(clock.now(), Time::from_nanos(12));
    }
}
