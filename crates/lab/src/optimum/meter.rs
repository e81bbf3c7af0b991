//! What a search spends, and what it may.

use std::sync::atomic::{AtomicU64, Ordering};

use super::OnProgress;
use super::error::OptimumError;
use super::settings::{Progress, Settings};

/// What is kept back of the effort for measuring what was found when the rest is spent.
const RESERVE: f64 = 0.2;

/// Why a phase of a search did not come to its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// What comes next is more than what may be spent.
    Spent,
    /// There is no optimum.
    Failed(OptimumError),
}

impl<E: Into<OptimumError>> From<E> for Halt {
    fn from(e: E) -> Self {
        Halt::Failed(e.into())
    }
}

/// Counts what a search spends. What a run will cost is told from the runs before it: events per
/// simulated second. All of it is counts, so every machine stops at the same run.
pub(super) struct Meter<'a> {
    runs: AtomicU64,
    events: AtomicU64,
    /// Simulated so far, ms.
    simulated: AtomicU64,
    /// Events after which nothing more is begun.
    limit: AtomicU64,
    most_events: u64,
    progress: OnProgress<'a>,
}

impl<'a> Meter<'a> {
    pub fn new(settings: &Settings, progress: OnProgress<'a>) -> Self {
        Meter {
            runs: AtomicU64::new(0),
            events: AtomicU64::new(0),
            simulated: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            most_events: settings.most_events,
            progress,
        }
    }

    /// A run of so many simulated seconds took so many events.
    pub fn count(&self, events: u64, simulated_s: f64) {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let events = self.events.fetch_add(events, Ordering::Relaxed) + events;
        self.simulated.fetch_add((1e3 * simulated_s) as u64, Ordering::Relaxed);
        (self.progress)(Progress { runs, events, most_events: self.most_events });
    }

    /// Gives what is left to `parts` searches: the first may spend its part, but for what is kept
    /// back for its last measurement. Returns what that may spend in all.
    pub fn share(&self, parts: usize) -> u64 {
        let (_, events) = self.spent();
        let part = self.most_events.saturating_sub(events) / parts.max(1) as u64;
        self.allow(events + ((1.0 - RESERVE) * part as f64) as u64);
        events + part
    }

    /// From now on nothing is begun that would take the search past so many events.
    pub fn allow(&self, events: u64) {
        self.limit.store(events, Ordering::Relaxed);
    }

    /// How many more runs of so many simulated seconds are within what may be spent.
    pub fn affords(&self, simulated_s: f64) -> usize {
        let left = self.limit.load(Ordering::Relaxed).saturating_sub(self.spent().1);
        let simulated = self.simulated.load(Ordering::Relaxed) as f64 / 1e3;
        let each = self.spent().1 as f64 / simulated.max(1.0) * simulated_s;
        // As a cast saturates, what costs nothing is affordable.
        (left as f64 / each) as usize
    }

    /// Runs and events so far.
    pub fn spent(&self) -> (u64, u64) {
        (self.runs.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed))
    }
}
