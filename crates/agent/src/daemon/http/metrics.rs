//! The page of the metrics.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::{Answer, Body, Demand, Limits, Request, Response, Site, Status};

/// Longest age of a page that is served again.
const MAX_PAGE_AGE: Duration = Duration::from_millis(500);
/// Longest time in which the daemon has to provide a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(9);

/// `/metrics` with a text that the daemon provides on request.
pub struct Metrics {
    scrape: Box<dyn FnMut() -> Option<Receiver<String>> + Send>,
    fetching: Option<(Instant, Receiver<String>)>,
    /// The newest page and its time; `None` inside if it was not available.
    last: Option<(Instant, Option<Body>)>,
}

impl Metrics {
    /// Bounds of the server of metrics.
    pub const LIMITS: Limits =
        Limits { connections: 32, streams: 0, bodies: 2, patience: Duration::from_secs(10) };

    /// Returns the site; `scrape` asks the daemon for a page.
    pub fn new(scrape: impl FnMut() -> Option<Receiver<String>> + Send + 'static) -> Metrics {
        Metrics { scrape: Box::new(scrape), fetching: None, last: None }
    }

    fn fresh(&self, now: Instant) -> bool {
        self.last.as_ref().is_some_and(|(at, _)| now.duration_since(*at) <= MAX_PAGE_AGE)
    }
}

impl Site for Metrics {
    type Pending = ();

    fn wants(&self, now: Instant, demand: Demand) -> bool {
        demand.requests > 0 && self.fetching.is_none() && !self.fresh(now)
    }

    fn fetch(&mut self, now: Instant) {
        self.last = None;
        match (self.scrape)() {
            Some(page) => self.fetching = Some((now, page)),
            None => self.last = Some((now, None)),
        }
    }

    fn poll(&mut self, now: Instant) -> bool {
        let Some((since, page)) = &self.fetching else { return false };
        let page = match page.try_recv() {
            Ok(text) => Some(Body::of(text)),
            Err(TryRecvError::Empty) if now.duration_since(*since) < PAGE_TIMEOUT => return true,
            Err(_) => None,
        };
        (self.fetching, self.last) = (None, Some((now, page)));
        false
    }

    fn respond(&mut self, now: Instant, request: &Request, (): &mut ()) -> Answer {
        let text = |status, text| Answer::Response(Response::text(status, text));
        if !request.reads() || !request.path.starts_with('/') {
            return text(Status::BadRequest, "expected GET /metrics\n");
        }
        if request.path != "/metrics" {
            return text(Status::NotFound, "try /metrics\n");
        }
        match &self.last {
            Some((_, page)) if self.fresh(now) => match page {
                Some(page) => {
                    let kind = "text/plain; version=0.0.4";
                    Answer::Response(Response::new(Status::Ok, kind, &[], page.clone()))
                }
                None => text(Status::Unavailable, "busy\n"),
            },
            _ => Answer::Wait,
        }
    }

    fn event(&mut self, _: Option<u64>) -> Option<(u64, Body)> {
        None
    }
}
