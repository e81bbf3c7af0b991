//! Start of a router's daemon on a machine.

use std::path::{Path, PathBuf};

use fairmesh_units::Time;

use super::config::Config;
use super::machine::{Kernel, Machine};
use super::message::MeshKey;
use super::offers::{self, Probe};
use super::places::{self, Places};
use super::service::{Input, Parts, Router};
use super::state::SavedState;
use crate::daemon::clock::Clock;
use crate::daemon::guard;
use crate::daemon::journal::Level;
use crate::daemon::lock::Resource;
use crate::daemon::runtime::{self, Claims, Heartbeat, Setup, inbox};
use crate::daemon::store::Store;
use crate::error::{AgentError, ControlProblem};
use crate::gateway::config::Mode;
use crate::gateway::exchange::{read_key, unpredictable};
use crate::gateway::preflight;

/// Options of `run`.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// Starts no second process that removes the limit when this one dies.
    pub no_guard: bool,
    /// Prints events as JSON objects.
    pub json: bool,
}

/// Runs the router's daemon until a signal ends it.
///
/// # Errors
/// An invalid configuration, a mechanism that cannot run on this machine, or a daemon that cannot start. Nothing in the
/// kernel is changed then.
pub fn run(options: &RunOptions) -> Result<(), AgentError> {
    let config = Config::load(&options.config)?;
    let key = read_key(&config.key)
        .map_err(|problem| AgentError::NodeKey { file: options.config.clone(), problem })?;
    preflight::socket(&config.socket)?;
    let (inbox, mailbox) = inbox();
    let sender = inbox.clone();
    let mut machine =
        Kernel::new(&config.interfaces, Box::new(move || sender.send(Input::Messages)));
    check_control(&options.config, &config, &mut machine)?;
    let claims = Claims::take(&config.socket, &config.state, &resources(&config))?;
    let clock = Clock::system();
    let mut store = Store::new(&config.state);
    let loaded = SavedState::load(&mut store);
    let unreadable = loaded.as_ref().err().map(|e| format!("{}: {e}", store.file().display()));
    let saved = loaded.unwrap_or_default();
    let run = saved.next_run(clock.wall());
    let places = Places::of(&config);
    let mut leftovers = places.clone();
    leftovers.add(saved.places.clone());
    let lock = guard::lock_of(&config.socket);
    let guards = config.mode == Mode::Apply && !options.no_guard;
    let heartbeat = Heartbeat::default();
    let progress = Box::new(heartbeat.ticker());
    let setup = Setup {
        socket: config.socket.clone(),
        metrics: config.metrics,
        servers: Vec::new(),
        store,
        guard: guards.then(|| guard::arguments("node", &places, &lock, &claims.owner.run)),
        json: options.json,
        heartbeat,
    };
    let marked = config.marked();
    let file = options.config.clone();
    let parts = Parts {
        machine,
        file: file.clone(),
        load: Box::new(move || Config::load(&file)),
        key: MeshKey::new(key),
        run,
        config,
        heartbeat: progress,
        random: Box::new(unpredictable),
    };
    let mut router = Router::new(parts);
    if let Some(e) = unreadable {
        router.journal_mut().note(Time::ZERO, Level::Warning, "state.unreadable", || {
            format!("{e}; neighbours may ignore this router for 10 min if its clock is not set")
        });
    }
    // A limit of a daemon that was killed with its guard, or of an earlier configuration.
    let (removed, errors) = leftovers.clear();
    let all = [removed.qdiscs, removed.tables].concat().join(", ");
    if !all.is_empty() {
        router.journal_mut().note(Time::ZERO, Level::Info, "limit.removed", || {
            format!("removed what an earlier run has left: {all}")
        });
    }
    for (interface, e) in errors {
        router
            .journal_mut()
            .note(Time::ZERO, Level::Warning, "limit.stays", || format!("{interface}: {e}"));
    }
    for interface in &marked {
        if let Err(e) = places::remove_programs(interface) {
            router.journal_mut().note(Time::ZERO, Level::Warning, "marks.stay", || {
                format!("{interface}: {e}; they have no effect")
            });
        }
    }
    Ok(runtime::run(router, clock, setup, claims, (inbox, mailbox))??)
}

/// Refuses a control that cannot run on this machine, if all its interfaces exist.
///
/// # Errors
/// Everything that this machine lacks, by name.
pub fn check_control(
    file: &Path,
    config: &Config,
    machine: &mut impl Machine,
) -> Result<Option<Probe>, AgentError> {
    let ports = machine.refresh();
    if ports.iter().any(|p| p.mac.is_none()) {
        return Ok(None);
    }
    let probe = Probe::of(&ports);
    match offers::trial(config, probe) {
        Ok(()) => Ok(Some(probe)),
        Err(e) => Err(AgentError::Control {
            file: file.to_owned(),
            problem: Box::new(ControlProblem::Start(e)),
        }),
    }
}

/// Returns the resources that two daemons of one network namespace must not share.
///
/// Only a daemon that sets limits claims interfaces as a gateway's daemon does.
pub fn resources(config: &Config) -> Vec<Resource> {
    let resource = |kind, name: &str| Resource { kind, name: name.to_owned() };
    let mut all: Vec<Resource> =
        config.interfaces.iter().map(|i| resource("node", i.name())).collect();
    if config.mode == Mode::Apply {
        all.extend(Places::of(config).interfaces().map(|i| resource("interface", i.name())));
    }
    all
}
