//! The last hour and week of the homes, read from the history on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::http::Body;
use crate::gateway::history::{Curves, Grid, HistorySettings};

/// Least times between two readings: of the hour, and of the week.
const MIN_READ_INTERVALS: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(300)];
/// Multiple of the time of a reading that passes before the next one.
const SHARE_OF_TIME: u32 = 20;
/// Longest wait of a request for a reading.
const READ_TIMEOUT: Duration = Duration::from_secs(8);
/// Age at which curves leave the memory.
const CURVES_LIFETIME: Duration = Duration::from_secs(900);

/// Result of a reading, or the reason that there is none.
type Outcome = Result<Arc<Curves>, String>;

/// Curves of one length.
struct Span {
    grid: Grid,
    age: Duration,
    reading: Option<(Instant, Receiver<Outcome>)>,
    /// Begin and length of the last reading, and its result.
    last: Option<(Instant, Duration, Outcome)>,
}

/// Reader of the history, with the results of its last readings.
pub struct Past {
    settings: HistorySettings,
    hour: Span,
    week: Span,
    /// The last hour of all homes as JSON, and the curves that it is of.
    all: Option<(Arc<Curves>, Body)>,
}

impl Span {
    fn new(grid: Grid, age: Duration) -> Span {
        Span { grid, age, reading: None, last: None }
    }

    /// Returns the curves up to about `wall`; `None` while they are read.
    fn get(&mut self, now: Instant, wall: u64, settings: &HistorySettings) -> Option<Outcome> {
        if let Some((since, reading)) = &self.reading {
            let outcome = match reading.try_recv() {
                Ok(outcome) => outcome,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err("the reading has failed".to_owned()),
            };
            self.last = Some((*since, now.duration_since(*since), outcome));
            self.reading = None;
        }
        if let Some((since, took, outcome)) = &self.last
            && now.duration_since(*since) < self.age.max(*took * SHARE_OF_TIME)
        {
            return Some(outcome.clone());
        }
        let (give, take) = mpsc::sync_channel(1);
        let (folder, grid) = (settings.folder.clone(), self.grid);
        let started = std::thread::Builder::new().name("page-history".into()).spawn(move || {
            let curves = Curves::read(&folder, grid, wall);
            let curves = curves.map(Arc::new).map_err(|e| format!("{}: {e}", folder.display()));
            // The site may be gone.
            let _ = give.try_send(curves);
        });
        if let Err(e) = started {
            return Some(Err(format!("no thread for the history: {e}")));
        }
        // Older curves would be twice in memory.
        (self.reading, self.last) = (Some((now, take)), None);
        None
    }

    fn forget(&mut self, now: Instant) {
        if self.last.as_ref().is_some_and(|l| now.duration_since(l.0) >= CURVES_LIFETIME) {
            self.last = None;
        }
    }
}

impl Past {
    /// Returns the reader of a history.
    pub fn new(settings: HistorySettings) -> Past {
        let [hour, week] = MIN_READ_INTERVALS;
        let (hour, week) = (Span::new(Grid::HOUR, hour), Span::new(Grid::WEEK, week));
        Past { settings, hour, week, all: None }
    }

    /// True if there is a history.
    pub fn exists(&self) -> bool {
        self.settings.size > 0
    }

    /// Returns the hour of all homes, or hour and week of one; `None` while they are read.
    ///
    /// `wall`: the daemon's calendar, seconds since 1970; `asked`: time of the first call for this request.
    pub fn json(
        &mut self,
        now: Instant,
        wall: u64,
        asked: Instant,
        home: Option<&str>,
    ) -> Option<Result<Body, String>> {
        let late = now.duration_since(asked) >= READ_TIMEOUT;
        let busy = || late.then(|| Err("the history is being read; try again".to_owned()));
        let hour = match self.hour.get(now, wall, &self.settings) {
            None => return busy(),
            Some(Err(e)) => return Some(Err(e)),
            Some(Ok(hour)) => hour,
        };
        let Some(home) = home else {
            let body = match self.all.take() {
                Some((of, body)) if Arc::ptr_eq(&of, &hour) => body,
                _ => Body::of(json!(hour.all()).to_string()),
            };
            self.all = Some((hour, body.clone()));
            return Some(Ok(body));
        };
        Some(match self.week.get(now, wall, &self.settings) {
            None => return busy(),
            Some(Err(e)) => Err(e),
            Some(Ok(week)) => {
                let both = json!({ "hour": hour.home(home), "week": week.home(home) });
                Ok(Body::of(both.to_string()))
            }
        })
    }

    /// Frees the memory of curves without readers.
    pub fn forget(&mut self, now: Instant) {
        self.hour.forget(now);
        self.week.forget(now);
        if self.hour.last.is_none() && self.hour.reading.is_none() {
            self.all = None;
        }
    }
}
