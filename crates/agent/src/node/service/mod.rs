//! The mesh router as a state machine.

mod link;
mod mechanism;
mod messages;
mod sense;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fairmesh_control::host::Driver;
use fairmesh_linux::{Error, MacAddr};
use fairmesh_units::{Span, Time};

use super::config::Config;
use super::machine::{Machine, Port};
use super::message::MeshKey;
use super::metrics;
use super::neighbours::{Announcer, Neighbours};
use super::offers::{self, Probe};
use super::orders::Orders;
use super::places::Places;
use super::report::Request;
use super::rig::Rig;
use super::state::SavedState;
use crate::daemon::journal::{Journal, Level};
use crate::daemon::process::Resources;
use crate::daemon::service::{Effect, Moment, Service};
use crate::daemon::socket::{Refusal, Response};
use crate::gateway::config::{ConfigError, Mode};
use mechanism::Basis;

pub use link::Link;

/// Interval at which interfaces and neighbours are read.
const SENSE_INTERVAL: Span = Span::from_secs(1);
/// Interval at which limits in airtime follow the measured airtime.
const SHARE_INTERVAL: Span = Span::from_millis(100);
/// Longest time between two messages of a router.
pub const HELLO_INTERVAL: Span = Span::from_secs(1);
/// Longest time between two heartbeats; the guard then removes all limits.
///
/// Heartbeats are sent between the parts of a turn, each of which takes milliseconds.
const GUARD_TIMEOUT: Duration = Duration::from_secs(8);

/// An event from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Messages have arrived.
    Messages,
}

/// Parts that a start provides.
pub struct Parts<M> {
    /// The machine.
    pub machine: M,
    /// The configuration.
    pub config: Config,
    /// Path of the configuration, for messages.
    pub file: PathBuf,
    /// Reads the configuration again.
    pub load: Box<dyn FnMut() -> Result<Config, ConfigError>>,
    /// Key of the mesh.
    pub key: MeshKey,
    /// Number of this run.
    pub run: u32,
    /// Sends a heartbeat if one is due; called between the parts of a turn.
    pub heartbeat: Box<dyn FnMut()>,
    /// Returns numbers that an attacker cannot predict.
    pub random: Box<dyn FnMut() -> u64>,
}

/// A mesh router.
pub struct Router<M> {
    pub(super) rig: Rig<M>,
    pub(super) driver: Option<Driver>,
    pub(super) neighbours: Neighbours,
    pub(super) orders: Orders,
    /// True if the port of orders is open.
    pub(super) listening: bool,
    /// Obstacle to listening for orders.
    deaf: Option<String>,
    announcers: BTreeMap<usize, (MacAddr, Announcer)>,
    /// Interfaces with action frames that send by UDP too, for a neighbour without.
    pub(super) also_udp: BTreeSet<usize>,
    key: MeshKey,
    pub(super) run: u32,
    file: PathBuf,
    load: Box<dyn FnMut() -> Result<Config, ConfigError>>,
    heartbeat: Box<dyn FnMut()>,
    pub(super) ports: Vec<Port>,
    pub(super) links: BTreeMap<MacAddr, Link>,
    started: Option<Basis>,
    /// Reason for which the mechanism does not run.
    pub(super) idle: Option<String>,
    channel: Option<fairmesh_control::Channel>,
    next_sense: Time,
    next_hello: Time,
    next_renewal: Time,
    next_shares: Time,
    /// Time before which the mechanism is not started again.
    next_start: Time,
    effects: Vec<Effect>,
}

impl<M: Machine> Router<M> {
    /// Returns a router that has sent and set nothing yet.
    pub fn new(parts: Parts<M>) -> Self {
        let Parts { machine, config, file, load, key, run, heartbeat, random } = parts;
        let saved = SavedState { run, places: Places::of(&config), ..SavedState::default() };
        let neighbours = Neighbours::new(key.clone(), Vec::new(), HELLO_INTERVAL, Time::ZERO);
        let orders = Orders::new(key.clone(), random, Time::ZERO);
        Router {
            rig: Rig::new(machine, config),
            orders,
            listening: false,
            deaf: None,
            driver: None,
            neighbours,
            announcers: BTreeMap::new(),
            also_udp: BTreeSet::new(),
            key,
            run,
            file,
            load,
            heartbeat,
            ports: Vec::new(),
            links: BTreeMap::new(),
            started: None,
            idle: None,
            channel: None,
            next_sense: Time::ZERO,
            next_hello: Time::ZERO,
            next_renewal: Time::ZERO,
            next_shares: Time::ZERO,
            next_start: Time::ZERO,
            effects: vec![Effect::Save(saved.text())],
        }
    }

    /// The machine's and the mechanism's events, for the start.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.rig.journal
    }

    /// Findings about the drivers.
    fn probe(&self) -> Probe {
        Probe::of(&self.ports)
    }
}

impl<M: Machine> Service for Router<M> {
    type Input = Input;
    type Error = Error;

    fn turn(&mut self, at: Moment) -> Time {
        let now = at.now;
        if now >= self.next_sense {
            self.sense(now);
            self.listen(now);
            self.next_sense = now + SENSE_INTERVAL;
        }
        (self.heartbeat)();
        self.receive(now);
        self.take_orders(now);
        (self.heartbeat)();
        if now >= self.next_renewal {
            self.next_renewal = now + SENSE_INTERVAL;
            self.rig.renew_marks();
            self.rig.renew_flows();
            self.look_at_flows(now);
            self.check_acts(now);
        }
        let mut next_shares = Time::NEVER;
        if self.rig.shares.is_some() {
            if now >= self.next_shares {
                self.next_shares = now + SHARE_INTERVAL;
                self.rig.renew_shares(now);
                self.check_acts(now);
            }
            next_shares = self.next_shares;
        }
        (self.heartbeat)();
        for mac in self.neighbours.expire(now) {
            self.rig.journal.note(now, Level::Info, "neighbour.gone", || {
                format!("{mac}: no message for {}", HELLO_INTERVAL.saturating_mul(3))
            });
        }
        self.consider(now);
        (self.heartbeat)();
        if let Some(driver) = self.driver.as_mut().filter(|d| d.due() <= now) {
            driver.deadline(now, &mut self.rig);
            self.check_acts(now);
        }
        (self.heartbeat)();
        let next_message = self.send(now);
        let due = self.driver.as_ref().map_or(Time::NEVER, Driver::due);
        [self.next_sense, next_message, due, next_shares]
            .into_iter()
            .fold(self.neighbours.next_expiry(), Time::min)
    }

    fn input(&mut self, at: Moment, input: Input) {
        match input {
            Input::Messages => {
                self.receive(at.now);
                self.take_orders(at.now);
            }
        }
    }

    fn request(&mut self, at: Moment, line: &str) -> Response {
        let request: Request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(e) => return Response::Refused(Refusal::new("syntax", &e)),
        };
        let value = match request {
            Request::Status => serde_json::to_value(self.status(at.now)),
            Request::Why => serde_json::to_value(self.why(at.now)),
        };
        match value {
            Ok(value) => Response::Ok(value),
            Err(e) => Response::Refused(Refusal::new("internal", &e)),
        }
    }

    fn reload(&mut self, at: Moment) {
        let now = at.now;
        let refuse = |rig: &mut Rig<M>, text: String| {
            rig.journal.note(now, Level::Error, "config.refused", || {
                format!("{text}; the configuration in force stays")
            });
        };
        let config = match (self.load)() {
            Ok(config) => config,
            Err(e) => return refuse(&mut self.rig, e.to_string()),
        };
        let file = self.file.display().to_string();
        if !config.same_place(&self.rig.config) {
            let text = format!(
                "{file}: mode, interfaces, routing, key, metrics or paths have changed; restart the daemon"
            );
            return refuse(&mut self.rig, text);
        }
        if let Err(e) = offers::trial(&config, self.probe()) {
            return refuse(&mut self.rig, format!("{file}: control.use: {e}"));
        }
        self.rig.journal.note(now, Level::Info, "config.reloaded", || {
            format!("control {}, role {}", config.mechanism, config.role.name())
        });
        self.end(now);
        (self.rig.config, self.idle, self.next_start) = (config, None, now);
    }

    fn metrics(&self, at: Moment, process: Option<Resources>) -> String {
        metrics::page(&self.status(at.now), process)
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.rig.journal
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn performed(&mut self, at: Moment, effect: &Effect, result: io::Result<()>) {
        if let (Effect::Save(_), Err(e)) = (effect, result) {
            let folder = self.rig.config.state.display().to_string();
            self.rig.journal.note(at.now, Level::Warning, "state.unsaved", || {
                format!(
                    "paths.state: {folder}: {e}; after a restart neighbours may ignore this router for 10 min"
                )
            });
        }
    }

    fn patience(&self) -> Duration {
        GUARD_TIMEOUT
    }

    fn lapsed(&mut self, at: Moment) {
        if self.rig.config.mode == Mode::Apply {
            self.rig.journal.note(at.now, Level::Warning, "guard.lapsed", || {
                "the daemon was late and its guard has removed the limit; starting again".to_owned()
            });
        }
        self.end(at.now);
        self.next_start = at.now;
    }

    fn stop(&mut self, at: Moment) -> Result<(), Error> {
        self.driver = None;
        let applied = self.rig.limit.take().filter(|l| l.applied);
        let removed = applied.map_or(Ok(()), |l| self.rig.machine.remove(&l.place).map(drop));
        self.rig.free(at.now);
        removed
    }
}

#[cfg(test)]
mod tests;
