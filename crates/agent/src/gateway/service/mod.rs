//! The gateway as a state machine, driven by the daemon's runtime.

mod history;
mod inputs;
mod others;
mod persistence;
mod requests;
mod signs;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairmesh_linux::link::LinkEvent;
use fairmesh_linux::{Error, Shaper};
use fairmesh_units::{Span, Time};

pub use self::history::History;
pub use self::inputs::Input;
pub(super) use self::inputs::{discovery, links};
use self::persistence::SAVE_INTERVAL;
use super::config::{Config, ConfigError, FileReport, OnExit};
use super::directory::Sources;
use super::exchange::PeerSocket;
use super::headers::HeaderThread;
use super::host::{Host, Phase};
use super::journal::{Journal, Level};
use super::kept::{SavedOverride, SavedRate, SavedState};
use super::link_rates::LinkRates;
use super::metrics;
use super::orders::OrderSocket;
use super::probes::ProbeThread;
use crate::daemon::process::Resources;
use crate::daemon::runtime::Inbox;
use crate::daemon::service::{Effect, Moment, Service};
use crate::daemon::socket::Response;

/// Interval of the checks that packets reach their classes.
const VERIFY_INTERVAL: Span = Span::from_secs(30);

/// Sources that the discovery thread queries.
pub type Wanted = Arc<Mutex<Option<Sources>>>;

/// Connections of a gateway to its machine.
pub struct Parts {
    /// The exchange with other gateways; the inbox receives [`Input::Datagrams`].
    pub peers: Option<(PeerSocket, Inbox<Input>)>,
    /// The socket of orders to the routers of homes.
    pub orders: OrderSocket,
    /// Reader of TCP headers.
    pub capture: HeaderThread,
    /// Sender of echo probes.
    pub probes: ProbeThread,
    /// Reader of the links' rates.
    pub rates: LinkRates,
    /// Recorder and writer of the history; `None`: no history.
    pub history: Option<History>,
    /// Sources that the discovery thread queries.
    pub discover: Wanted,
    /// Reads the configuration again.
    pub load: Box<dyn FnMut() -> Result<Config, ConfigError>>,
    /// Path of the configuration, for messages.
    pub file: PathBuf,
}

/// The gateway's service.
///
/// It has no clock and no kernel of its own, so that a month of it can be simulated in a minute.
pub struct Gateway<P> {
    pub(super) host: Host<P>,
    config: Config,
    parts: Parts,
    at: Moment,
    effects: Vec<Effect>,
    /// Overrides as they were last stored.
    overrides: Vec<SavedOverride>,
    kept_layout: Option<fairmesh_linux::Layout>,
    written: Option<Time>,
    /// Use of quotas at its last write, and its time.
    quotas_written: (Option<Time>, std::collections::BTreeMap<String, super::governor::Usage>),
    saved: Time,
    learned: Option<(Time, SavedRate)>,
    save_failed: bool,
    publish_failed: bool,
    /// Time when the file of the metrics was last written.
    published: Option<Time>,
    verified: Time,
}

/// Returns the longest time between two heartbeats, by the number of subscribers.
///
/// Two epochs, within 5 to 30 s, and the time in which the kernel creates their classes.
fn patience(sample: Span, subscribers: usize) -> Duration {
    let epoch = sample.as_secs_f64();
    let classes = subscribers as f64 * 0.002;
    Duration::from_secs_f64((2.0 * epoch).clamp(5.0, 30.0) + classes)
}

impl<P: Shaper> Gateway<P> {
    /// Returns a gateway that has not acted yet.
    pub fn new(host: Host<P>, config: Config, parts: Parts) -> Self {
        Gateway {
            host,
            config,
            parts,
            at: Moment { now: Time::ZERO, wall: 0 },
            effects: Vec::new(),
            overrides: Vec::new(),
            kept_layout: None,
            written: None,
            quotas_written: Default::default(),
            saved: Time::ZERO,
            learned: None,
            save_failed: false,
            publish_failed: false,
            published: None,
            verified: Time::ZERO,
        }
    }

    /// Applies the state of an earlier run; the first effects store it.
    pub fn begin(&mut self, at: Moment, kept: &SavedState) {
        self.at = at;
        self.host.governor.calendar.restore(&kept.quotas);
        self.host.governor.keep_time(at.now, at.wall);
        self.host.governor.defer_initial_limits(at.now);
        self.restore(kept);
        self.save();
        self.keep_configuration();
        self.offer_discovery();
    }

    /// Stores the configuration, and reports the entries of its files that are not used.
    fn keep_configuration(&mut self) {
        let text = core::mem::take(&mut self.config.source).0;
        self.effects.push(Effect::KeepConfiguration(text));
        for line in self.config.files.iter().flat_map(FileReport::left_out).collect::<Vec<_>>() {
            self.note(Level::Warning, "subscriber.unused", || line);
        }
    }

    fn now(&self) -> Time {
        self.at.now
    }

    fn note(&mut self, level: Level, code: &'static str, text: impl FnOnce() -> String) {
        let now = self.now();
        self.host.governor.journal.note(now, level, code, text);
    }

    /// Reads the rates at which the driver sends to the neighbours.
    fn measure_links(&mut self) {
        let (now, mesh) = (self.now(), self.config.layout.mesh.name());
        let Some(rates) = self.parts.rates.look(now, mesh, &self.config.neighbours) else { return };
        if let Err(refusal) = self.host.governor.measure(now, &rates) {
            self.note(Level::Warning, "neighbour.unusable", || {
                format!("measured rates are not used: {refusal}")
            });
        }
    }

    fn offer_discovery(&self) {
        let mesh = self.config.layout.mesh.name().to_owned();
        if let Ok(mut wanted) = self.parts.discover.lock() {
            *wanted = self.config.discover.clone().map(|discover| Sources { discover, mesh });
        }
    }

    fn page(&self, process: Option<Resources>) -> String {
        let peers = self.peers_report();
        let per_subscriber = self.config.per_subscriber;
        let signs = self.signs();
        let (peers, signs) = (peers.as_ref(), signs.as_ref());
        let history = self.history_report();
        let parts = metrics::Parts { process, peers, signs, history: history.as_ref() };
        metrics::page(&self.host, self.now(), per_subscriber, parts)
    }
}

impl<P: Shaper> Service for Gateway<P> {
    type Input = Input;
    type Error = Error;

    fn turn(&mut self, at: Moment) -> Time {
        self.at = at;
        self.host.governor.keep_time(at.now, at.wall);
        self.receive_from_peers();
        let next = self.host.poll(at.now);
        self.record();
        self.measure_links();
        self.read_headers();
        self.probe();
        self.send_to_peers();
        self.send_orders();
        if at.now.since(self.saved) >= SAVE_INTERVAL {
            self.save();
        }
        self.publish();
        if at.now.since(self.verified) >= VERIFY_INTERVAL {
            self.verified = at.now;
            if self.host.phase() == Phase::Running {
                self.host.verify();
            }
        }
        next
    }

    fn input(&mut self, at: Moment, input: Input) {
        self.at = at;
        match input {
            Input::Links(events) => {
                for event in events {
                    match event {
                        LinkEvent::Changed(link) => self.host.link(at.now, &link.name, link.up),
                        LinkEvent::Gone(link) => self.host.link(at.now, &link.name, false),
                        LinkEvent::Overrun => {}
                    }
                }
            }
            Input::Found(discovery) => {
                for failed in &discovery.failed {
                    self.note(Level::Warning, "source.failed", || failed.to_string());
                }
                self.host.governor.sources = discovery.sources;
                let (mut paths, nodes) = (discovery.paths, discovery.found.clone());
                self.host.discovered(at.now, discovery.found);
                paths.name(&nodes, self.host.governor.subscribers().map(|m| &m.subscriber));
                self.host.governor.paths = paths;
            }
            Input::Datagrams => self.receive_from_peers(),
        }
    }

    fn request(&mut self, at: Moment, line: &str) -> Response {
        self.at = at;
        match super::request::Request::read(line) {
            Ok(request) => self.call(request),
            Err(e) => Response::Refused(e.into()),
        }
    }

    fn reload(&mut self, at: Moment) {
        self.at = at;
        // A refusal is an event.
        let _ = self.take_configuration();
    }

    fn metrics(&self, at: Moment, process: Option<Resources>) -> String {
        // The page is of the last turn except for the time since the start.
        debug_assert!(at.now >= self.at.now);
        self.page(process)
    }

    fn journal(&mut self) -> &mut Journal {
        &mut self.host.governor.journal
    }

    fn effects(&mut self) -> Vec<Effect> {
        core::mem::take(&mut self.effects)
    }

    fn performed(&mut self, at: Moment, effect: &Effect, result: io::Result<()>) {
        self.at = at;
        let failed = match effect {
            Effect::Save(_) | Effect::SavePart { .. } | Effect::KeepConfiguration(_) => {
                &mut self.save_failed
            }
            Effect::Publish { .. } => &mut self.publish_failed,
        };
        let Err(e) = result else {
            // A stored configuration does not prove that the state can be stored.
            *failed &= matches!(effect, Effect::KeepConfiguration(_));
            return;
        };
        // Once per problem, not once per attempt.
        if core::mem::replace(failed, true) {
            return;
        }
        let (code, text) = match effect {
            Effect::Publish { file, .. } => {
                ("metrics.unwritable", format!("{}: {e}", file.display()))
            }
            Effect::Save(_) | Effect::SavePart { .. } | Effect::KeepConfiguration(_) => {
                let folder = self.config.state.display();
                (
                    "state.unwritable",
                    format!("{folder}: {e}; the daemon continues without saving its state"),
                )
            }
        };
        self.note(Level::Warning, code, || text);
    }

    fn patience(&self) -> Duration {
        patience(self.config.sample, self.host.governor.members().len())
    }

    fn lapsed(&mut self, at: Moment) {
        self.at = at;
        self.host.limits_unknown(at.now);
    }

    fn stop(&mut self, at: Moment) -> Result<(), Error> {
        self.at = at;
        self.note(Level::Info, "daemon.stopped", || "limits are lifted".into());
        self.finish_history();
        self.learn(true);
        self.written = None;
        self.save();
        self.host.stop(at.now, self.config.on_exit == OnExit::Remove)
    }
}

#[cfg(test)]
mod browser;
#[cfg(test)]
mod tests;
