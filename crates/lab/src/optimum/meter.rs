//! What a search spends, and what it may.

use std::sync::atomic::{AtomicU64, Ordering};

use super::OnProgress;
use super::settings::{Progress, Settings};

/// Counts what a search spends.
pub(super) struct Meter<'a> {
    runs: AtomicU64,
    events: AtomicU64,
    most_events: u64,
    progress: OnProgress<'a>,
}

impl<'a> Meter<'a> {
    pub fn new(settings: &Settings, progress: OnProgress<'a>) -> Self {
        let most_events = settings.most_events;
        Meter { runs: AtomicU64::new(0), events: AtomicU64::new(0), most_events, progress }
    }

    pub fn count(&self, events: u64) {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let events = self.events.fetch_add(events, Ordering::Relaxed) + events;
        (self.progress)(Progress { runs, events, most_events: self.most_events });
    }

    /// Whether so many more runs, as long as those up to now, are within what may be spent.
    pub fn affords(&self, more: usize) -> bool {
        let (runs, events) = self.spent();
        let each = events / runs.max(1);
        events.saturating_add(each.saturating_mul(more as u64)) <= self.most_events
    }

    /// Runs and events so far.
    pub fn spent(&self) -> (u64, u64) {
        (self.runs.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed))
    }
}
