//! Effort of a search, and its budget.

use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_engine::CancelToken;

use super::OnProgress;
use super::error::OptimumError;
use super::settings::{Progress, Settings};

/// Fraction of the effort reserved for measuring the result when the rest is spent.
const MEASUREMENT_RESERVE: f64 = 0.2;

/// Reason for an incomplete phase of a search.
#[derive(Debug)]
pub(super) enum Halt {
    /// The next step exceeds the remaining budget.
    Spent,
    /// There is no optimum.
    Failed(OptimumError),
}

impl<E: Into<OptimumError>> From<E> for Halt {
    fn from(e: E) -> Self {
        Halt::Failed(e.into())
    }
}

/// Counter of a search's effort.
/// The cost of a run is predicted from earlier runs: events per simulated second. All values are counts, so every
/// machine stops at the same run.
pub(super) struct Meter<'a> {
    runs: AtomicU64,
    events: AtomicU64,
    /// Simulated time so far, in ms.
    simulated: AtomicU64,
    /// Number of events after which nothing more is started.
    limit: AtomicU64,
    most_events: u64,
    progress: OnProgress<'a>,
    /// Switch that ends all runs of the search.
    pub cancel: CancelToken,
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
            cancel: CancelToken::default(),
        }
    }

    /// Counts a run of this simulated time, s, with its events.
    pub fn count(&self, events: u64, simulated_s: f64) {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let events = self.events.fetch_add(events, Ordering::Relaxed) + events;
        self.simulated.fetch_add((1e3 * simulated_s) as u64, Ordering::Relaxed);
        if (self.progress)(Progress { runs, events, most_events: self.most_events }).is_break() {
            self.cancel.cancel();
        }
    }

    /// Divides the remaining budget among `parts` searches.
    /// The first may spend its part, except for the reserve for its last measurement. Returns the total that it may
    /// spend.
    pub fn share(&self, parts: usize) -> u64 {
        let (_, events) = self.spent();
        let part = self.most_events.saturating_sub(events) / parts.max(1) as u64;
        self.allow(events + ((1.0 - MEASUREMENT_RESERVE) * part as f64) as u64);
        events + part
    }

    /// Sets the number of events that no new step may exceed.
    pub fn allow(&self, events: u64) {
        self.limit.store(events, Ordering::Relaxed);
    }

    /// Returns the number of further runs of this simulated time, s, within the budget.
    pub fn affords(&self, simulated_s: f64) -> usize {
        let left = self.limit.load(Ordering::Relaxed).saturating_sub(self.spent().1);
        let simulated = self.simulated.load(Ordering::Relaxed) as f64 / 1e3;
        let each = self.spent().1 as f64 / simulated.max(1.0) * simulated_s;
        // As a cast saturates, a run without cost is affordable.
        (left as f64 / each) as usize
    }

    /// Returns the runs and events so far.
    pub fn spent(&self) -> (u64, u64) {
        (self.runs.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed))
    }
}
