//! The page of the gateway: what the homes get, in words and live.
//!
//! [`Page`] is a [`Site`]: it asks the loop for `status` as the control socket does, judges the homes on its own thread
//! ([`verdict`]), and makes the content ([`model`]). Readers get the whole content once, then the changes. Overrides
//! need the operator's [`token`].

pub mod model;
pub mod past;
pub mod report;
pub mod token;
pub mod verdict;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use self::model::{Home, Model};
use self::past::Past;
use self::report::{Event, PageReport};
use self::token::{TokenError, Tokens};
use self::verdict::{PAUSE_RATE, Tracker};
use crate::daemon::endpoint::Endpoint;
use crate::daemon::http::{Answer, Body, Demand, Limits, Request, Response, Site, Status};
use crate::daemon::runtime::{Caller, Server};
use crate::daemon::socket::Response as Reply;
use crate::daemon::{http, journal::Level};
use crate::gateway::config::PageSettings;
use crate::gateway::history::HistorySettings;
use crate::gateway::report::{SubscriberReport, why_text};
use crate::gateway::request::{OverrideRate, Request as Ask};

/// Interval of looks while a page is open.
const LIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of looks without readers: for the verdicts over a minute.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Multiple of the time of a look that passes before the next one.
const SHARE_OF_TIME: u32 = 50;
/// Longest time between two looks.
const MAX_INTERVAL: Duration = Duration::from_secs(20);
/// Longest time in which the daemon has to answer.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(9);
/// Longest time between two events of a stream.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Bounds of the page's server.
const LIMITS: Limits =
    Limits { connections: 128, streams: 64, bodies: 5, patience: Duration::from_secs(10) };

/// The page: one file, made from `ui/`.
const PAGE: &str = include_str!("../../../assets/page.html");

/// Headers of the page beside its own policy, which a frame around it would not see.
const PAGE_HEADERS: [(&str, &str); 5] = [
    HEADERS[0],
    HEADERS[1],
    HEADERS[2],
    HEADERS[3],
    ("Content-Security-Policy", "frame-ancestors 'none'"),
];

/// Headers of every response.
const HEADERS: [(&str, &str); 4] = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// Content at one time, as text.
#[derive(Default)]
struct Snapshot {
    number: u64,
    uptime: u64,
    head: String,
    /// Homes by name, as JSON.
    homes: BTreeMap<String, String>,
    events: Vec<Event>,
    /// The change from the snapshot before.
    change: Option<Body>,
    /// All of it; made when it is asked for.
    whole: Option<Body>,
    event: Option<Body>,
}

/// The site.
pub struct Page {
    caller: Caller,
    settings: PageSettings,
    tokens: Tokens,
    tracker: Tracker,
    fetching: Option<(Instant, Receiver<Reply>)>,
    /// Begin of the last look, and its time.
    fetched: Option<(Instant, Duration)>,
    /// True if the last look had no result.
    failed: bool,
    sent: Option<Instant>,
    snapshot: Snapshot,
    past: Past,
    /// The daemon's calendar at the last look, seconds since 1970.
    wall: Option<u64>,
}

/// A question to the daemon for one request.
pub struct Question {
    since: Instant,
    reply: Receiver<Reply>,
}

/// State of a request that has no response yet.
pub enum Waiting {
    /// For the daemon.
    Daemon(Question),
    /// For the history, since this time.
    History(Instant),
}

/// Body of a request for an override.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    home: String,
    #[serde(default)]
    directions: Vec<String>,
    action: Kind,
    #[serde(default)]
    bits_per_second: Option<u64>,
    #[serde(default)]
    seconds: f64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Pause,
    Boost,
    Limit,
    Clear,
}

/// Returns the server of a page.
pub fn server(settings: PageSettings, history: HistorySettings) -> Server {
    let endpoint = settings.listen.clone();
    Server {
        unavailable: "page.unavailable",
        endpoint: endpoint.clone(),
        start: Box::new(move |caller| {
            http::serve("page", &endpoint, Page::new(settings, history, caller), LIMITS).map(|_| ())
        }),
    }
}

fn respond(status: Status, kind: &str, body: Body) -> Answer {
    Answer::Response(Response::new(status, kind, &HEADERS, body))
}

fn words(status: Status, text: &str) -> Answer {
    respond(status, "text/plain; charset=utf-8", Body::of(format!("{text}\n")))
}

/// Returns the value of a key of a query, decoded (RFC 3986 §2.1).
fn value(query: &str, key: &str) -> Option<String> {
    let raw = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
    let (mut out, mut rest) = (Vec::new(), raw.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        out.push(match (*first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, tail @ ..]) => {
                rest = tail;
                let digits = [*high, *low];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            (other, _) => other,
        });
    }
    String::from_utf8(out).ok()
}

/// Returns the name in a `Host` header, without its port.
fn host(header: &str) -> &str {
    match header.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => header.split(':').next().unwrap_or_default(),
    }
}

impl Page {
    /// Returns the site of a daemon.
    pub fn new(settings: PageSettings, history: HistorySettings, caller: Caller) -> Page {
        let tokens = Tokens::new(settings.token_file.clone());
        Page {
            caller,
            settings,
            tokens,
            tracker: Tracker::default(),
            fetching: None,
            fetched: None,
            failed: false,
            sent: None,
            snapshot: Snapshot::default(),
            past: Past::new(history),
            wall: None,
        }
    }

    /// True if a request is for this page.
    ///
    /// Another name that leads here may be that of an attacker's page (DNS rebinding).
    fn is_ours(&self, request: &Request) -> bool {
        let Some(header) = request.header("host") else { return false };
        let name = host(header).to_ascii_lowercase();
        let loopback = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
        let any =
            self.settings.hosts.is_empty() && matches!(self.settings.listen, Endpoint::Unix(_));
        any || loopback || self.settings.hosts.iter().any(|h| h.eq_ignore_ascii_case(&name))
    }

    /// True if no other page sent this request.
    fn is_from_here(request: &Request) -> bool {
        let own = |origin: &str| {
            let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            rest.is_some_and(|rest| Some(rest) == request.header("host"))
        };
        let site =
            request.header("sec-fetch-site").is_none_or(|s| matches!(s, "same-origin" | "none"));
        site && request.header("origin").is_none_or(own)
    }

    fn ask(&mut self, now: Instant, ask: &Ask) -> Option<Question> {
        let reply = self.caller.call(serde_json::to_string(ask).ok()?)?;
        Some(Question { since: now, reply })
    }

    /// Handles a request for an override: its question to the daemon, or the refusal.
    fn action(&mut self, now: Instant, request: &Request) -> Result<Question, (Status, String)> {
        let refuse = |status, text: &str| Err((status, text.to_owned()));
        if !Page::is_from_here(request) {
            return refuse(Status::Forbidden, "a request of another page");
        }
        let kind = request.header("content-type").unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return refuse(Status::UnsupportedType, "expected Content-Type: application/json");
        }
        let given = request.header("authorization").and_then(|a| a.strip_prefix("Bearer "));
        if let Err(e) = self.tokens.check(now, given.unwrap_or_default().trim()) {
            let status = match &e {
                TokenError::Wrong => Status::Unauthorized,
                TokenError::Locked => Status::TooManyRequests,
                TokenError::None => Status::Forbidden,
                _ => Status::Unavailable,
            };
            if matches!(e, TokenError::Wrong) && self.tokens.just_locked() {
                let text = "wrong tokens: overrides by the page are refused for a minute";
                self.caller.note(Level::Warning, "page.locked", text.to_owned());
            }
            return Err((status, e.to_string()));
        }
        let action: Action = serde_json::from_slice(&request.body)
            .map_err(|e| (Status::BadRequest, format!("not an override: {e}")))?;
        let rate = match (action.action, action.bits_per_second) {
            (Kind::Pause, None) => OverrideRate::Limit(PAUSE_RATE),
            (Kind::Boost, None) => OverrideRate::Unlimited,
            (Kind::Clear, None) => OverrideRate::Clear,
            (Kind::Limit, Some(rate)) => OverrideRate::Limit(rate),
            (Kind::Limit, None) => return refuse(Status::BadRequest, "expected bits_per_second"),
            (_, Some(_)) => {
                return refuse(Status::BadRequest, "bits_per_second belongs to \"limit\"");
            }
        };
        let Action { home: subscriber, directions, seconds, .. } = action;
        self.ask(now, &Ask::Override { subscriber, directions, rate, seconds })
            .ok_or_else(|| (Status::Unavailable, "the daemon has ended".to_owned()))
    }

    /// Returns the result of a question, or `None` while there is none.
    fn result(
        now: Instant,
        pending: &mut Option<Waiting>,
    ) -> Option<Result<serde_json::Value, String>> {
        let Some(Waiting::Daemon(question)) = pending else { return None };
        let late = now.duration_since(question.since) >= DAEMON_TIMEOUT;
        let result = match question.reply.try_recv() {
            Ok(Reply::Ok(value)) => Ok(value),
            Ok(Reply::Refused(refusal)) => Err(refusal.message),
            Err(TryRecvError::Empty) if !late => return None,
            Err(_) => Err("the daemon is busy; try again".to_owned()),
        };
        *pending = None;
        Some(result)
    }

    fn take(&mut self, now: Instant, reply: Reply) {
        let report = match reply {
            Reply::Ok(value) => serde_json::from_value::<PageReport>(value).ok(),
            Reply::Refused(_) => None,
        };
        self.failed = report.is_none();
        let Some(report) = report else { return };
        self.tracker.sample(&report.status, report.sampled);
        self.wall = Some(report.wall);
        let model = model::model(report, &self.tracker, self.tokens.exist());
        self.update(now, &model);
    }

    /// Makes a new snapshot if anything has changed, or if the last one is old.
    fn update(&mut self, now: Instant, model: &Model) {
        let text = |home: &Home| serde_json::to_string(home).unwrap_or_default();
        let homes: BTreeMap<String, String> =
            model.homes.iter().map(|h| (h.name.clone(), text(h))).collect();
        let (old, uptime) = (&self.snapshot, model.head.uptime);
        // The time since the start is beside it, since it changes always.
        let head = model::Head { uptime: 0, ..model.head.clone() };
        let head = serde_json::to_string(&head).unwrap_or_default();
        let same = old.head == head && old.homes == homes && old.events == model.events;
        let recent = self.sent.is_some_and(|sent| now.duration_since(sent) < HEARTBEAT);
        if same && recent && uptime >= old.uptime {
            return;
        }
        let changed: Vec<&str> = homes
            .iter()
            .filter(|(name, text)| old.homes.get(*name) != Some(text))
            .map(|(_, text)| text.as_str())
            .collect();
        let gone: Vec<&String> = old.homes.keys().filter(|n| !homes.contains_key(*n)).collect();
        let fresh: Vec<&Event> = model.events.iter().filter(|e| !old.events.contains(e)).collect();
        let number = old.number + 1;
        let change = format!(
            "id: {number}\nevent: change\ndata: {{\"number\":{number},\"uptime\":{uptime},\"head\":{head},\"homes\":[{}],\
             \"gone\":{},\"events\":{}}}\n\n",
            changed.join(","),
            json!(gone),
            json!(fresh),
        );
        let change = Some(Body::of(change));
        let events = model.events.clone();
        self.snapshot =
            Snapshot { number, uptime, head, homes, events, change, whole: None, event: None };
        self.sent = Some(now);
    }

    /// Returns the whole content as JSON.
    fn whole(&mut self) -> String {
        let s = &self.snapshot;
        let homes: Vec<&str> = s.homes.values().map(String::as_str).collect();
        format!(
            "{{\"number\":{},\"uptime\":{},\"head\":{},\"homes\":[{}],\"events\":{}}}",
            s.number,
            s.uptime,
            s.head,
            homes.join(","),
            json!(s.events),
        )
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let age = self.fetched.map(|(at, _)| now.duration_since(at));
        self.fetching.is_none() && age.is_some_and(|age| age < self.interval(true))
    }

    /// Returns the time between two looks.
    fn interval(&self, live: bool) -> Duration {
        let took = self.fetched.map_or(Duration::ZERO, |(_, took)| took);
        (if live { LIVE_INTERVAL } else { IDLE_INTERVAL })
            .max((took * SHARE_OF_TIME).min(MAX_INTERVAL))
    }
}

impl Site for Page {
    type Pending = Option<Waiting>;

    fn wants(&self, now: Instant, demand: Demand) -> bool {
        let live = demand.requests + demand.streams > 0;
        let due = self.fetched.is_none_or(|(at, _)| now.duration_since(at) >= self.interval(live));
        self.fetching.is_none() && due
    }

    fn fetch(&mut self, now: Instant) {
        (self.snapshot.whole, self.snapshot.event) = (None, None);
        self.past.forget(now);
        self.fetched = Some((now, Duration::ZERO));
        let question = self.ask(now, &Ask::Page);
        self.failed = question.is_none();
        self.fetching = question.map(|q| (now, q.reply));
    }

    fn poll(&mut self, now: Instant) -> bool {
        let Some((since, reply)) = &self.fetching else { return false };
        let took = now.duration_since(*since);
        match reply.try_recv() {
            Ok(reply) => {
                self.fetched = Some((*since, took));
                self.fetching = None;
                self.take(now, reply);
            }
            Err(TryRecvError::Empty) if took < DAEMON_TIMEOUT => return true,
            Err(_) => (self.fetching, self.failed) = (None, true),
        }
        false
    }

    fn respond(&mut self, now: Instant, request: &Request, pending: &mut Self::Pending) -> Answer {
        if matches!(pending, Some(Waiting::Daemon(_))) {
            return match Page::result(now, pending) {
                None => Answer::Wait,
                Some(Err(text)) => words(Status::Conflict, &text),
                Some(Ok(value)) if request.reads() => {
                    match serde_json::from_value::<SubscriberReport>(value) {
                        Ok(subscriber) => words(Status::Ok, why_text(&subscriber).trim_end()),
                        Err(e) => words(Status::Unavailable, &e.to_string()),
                    }
                }
                // The next look shows the override.
                Some(Ok(_)) => {
                    self.fetched = None;
                    respond(Status::Ok, "application/json", Body::Static(b"{}\n"))
                }
            };
        }
        if !self.is_ours(request) {
            let text = "this page is for loopback addresses and the names of page.hosts";
            return words(Status::Misdirected, text);
        }
        match (request.reads(), request.method.as_str(), request.path.as_str()) {
            (true, _, "/") => {
                let (kind, body) = ("text/html; charset=utf-8", Body::Static(PAGE.as_bytes()));
                Answer::Response(Response::new(Status::Ok, kind, &PAGE_HEADERS, body))
            }
            (true, _, "/api/state") if !self.is_fresh(now) && !self.failed => Answer::Wait,
            (true, _, "/api/state") if self.failed || self.snapshot.number == 0 => {
                words(Status::Unavailable, "the daemon is busy; try again")
            }
            (true, _, "/api/state") => {
                let whole = match self.snapshot.whole.take() {
                    Some(whole) => whole,
                    None => Body::of(self.whole()),
                };
                self.snapshot.whole = Some(whole.clone());
                respond(Status::Ok, "application/json", whole)
            }
            (true, _, "/api/history") if !self.past.exists() => {
                words(Status::NotFound, "no history is kept; expected history.size above 0")
            }
            (true, _, "/api/history") if self.wall.is_none() && !self.failed => Answer::Wait,
            (true, _, "/api/history") => {
                let home = value(&request.query, "home");
                if home.is_none() && !request.query.is_empty() {
                    let text = "expected /api/history or /api/history?home=NAME";
                    return words(Status::BadRequest, text);
                }
                let Some(wall) = self.wall else {
                    return words(Status::Unavailable, "the daemon is busy; try again");
                };
                let asked = match pending {
                    Some(Waiting::History(asked)) => *asked,
                    _ => now,
                };
                *pending = Some(Waiting::History(asked));
                match self.past.json(now, wall, asked, home.as_deref()) {
                    None => Answer::Wait,
                    Some(Ok(body)) => respond(Status::Ok, "application/json", body),
                    Some(Err(text)) => words(Status::Unavailable, &text),
                }
            }
            (true, _, "/api/events") => Answer::Events(&HEADERS),
            (true, _, "/api/why") => {
                let Some(subscriber) = value(&request.query, "home") else {
                    return words(Status::BadRequest, "expected /api/why?home=NAME");
                };
                *pending = self.ask(now, &Ask::Why { subscriber }).map(Waiting::Daemon);
                if pending.is_some() {
                    Answer::Wait
                } else {
                    words(Status::Unavailable, "the daemon has ended")
                }
            }
            (_, "POST", "/api/override") => match self.action(now, request) {
                Ok(question) => {
                    *pending = Some(Waiting::Daemon(question));
                    Answer::Wait
                }
                Err((status, text)) => words(status, &text),
            },
            (true, ..) => words(Status::NotFound, "try / or /api/state"),
            _ => words(Status::MethodNotAllowed, "expected GET, or POST /api/override"),
        }
    }

    fn event(&mut self, seen: Option<u64>) -> Option<(u64, Body)> {
        let number = self.snapshot.number;
        if number == 0 || seen == Some(number) {
            return None;
        }
        if seen.is_some_and(|seen| seen + 1 == number)
            && let Some(change) = &self.snapshot.change
        {
            return Some((number, change.clone()));
        }
        let whole = match self.snapshot.event.take() {
            Some(whole) => whole,
            None => Body::of(format!("id: {number}\nevent: whole\ndata: {}\n\n", self.whole())),
        };
        self.snapshot.event = Some(whole.clone());
        Some((number, whole))
    }
}

#[cfg(test)]
mod tests;
