//! Start of the gateway's daemon on a machine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairmesh_control::{StartError, Value};
use fairmesh_linux::{GatewayShaper, Layout, Shaper};
use fairmesh_units::{FlowId, Time};

use super::config::{Config, ConfigError};
use super::exchange::PeerSocket;
use super::governor::{ClassIds, Governor};
use super::headers::HeaderThread;
use super::host::Host;
use super::journal::Level;
use super::kept::{SavedState, load_config};
use super::link_rates::LinkRates;
use super::orders::OrderSocket;
use super::page;
use super::preflight;
use super::probes::ProbeThread;
use super::rescue;
use super::service::{Gateway, History, Parts, discovery, links};
use crate::daemon::clock::Clock;
use crate::daemon::runtime::{self, Claims, Heartbeat, Setup, inbox};
use crate::daemon::store::Store;
use crate::daemon::{guard, service::Moment};
use crate::error::{AgentError, ControlProblem};

/// Longest time that the loop waits for another program.
const PROGRAM_WAIT: Duration = Duration::from_secs(1);

/// Options of `run`.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// Uses the last configuration that worked if the file is invalid.
    pub fall_back: bool,
    /// Starts no second process that lifts limits when this one dies.
    pub no_guard: bool,
    /// Prints events as JSON objects.
    pub json: bool,
}

/// Runs the gateway's daemon until a signal ends it, by this clock.
///
/// # Errors
/// An invalid configuration, or a daemon that cannot start. Nothing in the kernel is changed then.
pub fn run(options: &RunOptions, clock: &Clock) -> Result<(), AgentError> {
    let (config, fallen) = load(options)?;
    preflight::socket(&config.socket)?;
    let resources = rescue::resources(&config.layout);
    let claims = Claims::take(&config.socket, &config.state, &resources)?;
    let clock = clock.restarted();
    let mut store = Store::new(&config.state);
    let loaded = SavedState::load(&mut store);
    let kept = loaded.as_ref().ok().cloned().unwrap_or_default();
    let class_ids = ClassIds::new(kept.classes.clone());
    let governor = Governor::new(&config, class_ids, Time::ZERO)
        .map_err(|e| refused(&options.config, &config, e))?;
    let heartbeat = Heartbeat::default();
    let mut plane = GatewayShaper::open()?;
    plane.on_progress(heartbeat.ticker());
    plane.limit_wait(PROGRAM_WAIT);
    let mut host = Host::new(plane, governor);
    if let Err(e) = loaded {
        let file = store.file();
        host.governor.journal.note(Time::ZERO, Level::Warning, "state.unreadable", || {
            format!("{}: {e}; starting without the state of earlier runs", file.display())
        });
    }
    if let Some(lost) = &kept.lost_quotas {
        host.governor.journal.note(Time::ZERO, Level::Warning, "state.unreadable", || {
            format!("{}/{lost}; quotas begin with their last full state", config.state.display())
        });
    }
    if let Some(e) = fallen {
        host.governor.journal.note(Time::ZERO, Level::Error, "config.fallback", || {
            format!("{e}; running with the last configuration that worked")
        });
    }
    for line in preflight::sides(&config).into_iter().filter(|line| !line.ok) {
        host.governor.journal.note(Time::ZERO, Level::Warning, "check.warning", || {
            format!("{}: {}", line.what, line.text)
        });
    }
    if let Some(earlier) = kept.layout.as_ref().filter(|l| !l.same_place(&config.layout)) {
        remove_earlier(&mut host, earlier);
    }
    let (inbox, mailbox) = inbox();
    links(inbox.clone());
    let discover = Arc::new(Mutex::new(None));
    discovery(discover.clone(), inbox.clone());
    let lock = guard::lock_of(&config.socket);
    // A guard needs no subscribers.
    let bare = Layout { subscribers: Vec::new(), ..config.layout.clone() };
    let arguments = guard::arguments("gateway", &bare, &lock, &claims.owner.run);
    let setup = Setup {
        socket: config.socket.clone(),
        metrics: config.metrics,
        servers: config
            .page
            .clone()
            .map(|page| page::server(page, config.history.clone()))
            .into_iter()
            .collect(),
        store,
        guard: (!options.no_guard).then_some(arguments),
        json: options.json,
        heartbeat,
    };
    let file = options.config.clone();
    let first = Moment { now: Time::ZERO, wall: clock.wall() };
    let parts = Parts {
        peers: config.peers.clone().map(|peers| (PeerSocket::new(peers), inbox.clone())),
        orders: OrderSocket::default(),
        capture: HeaderThread::new(clock.clone()),
        probes: ProbeThread::new(clock.clone()),
        rates: LinkRates::of_kernel(),
        history: History::start(&config.history, first),
        discover,
        load: Box::new(move || Config::load(&file)),
        file: options.config.clone(),
    };
    let textfile = config.textfile.clone();
    let mut gateway = Gateway::new(host, config, parts);
    gateway.begin(first, &kept);
    let ended = runtime::run(gateway, clock, setup, claims, (inbox, mailbox))?;
    if let Some(file) = textfile {
        // Stale metrics would look like those of a running daemon.
        let _ = std::fs::remove_file(file);
    }
    Ok(ended?)
}

/// Removes objects of a crash from interfaces that the configuration no longer names.
fn remove_earlier(host: &mut Host<GatewayShaper>, earlier: &Layout) {
    let (level, code, text) = match host.plane().remove(earlier) {
        Ok(removed) if removed.qdiscs.is_empty() && removed.tables.is_empty() => return,
        Ok(removed) => {
            let all = [removed.qdiscs, removed.tables].concat().join(", ");
            let text = format!("removed from the previously configured place: {all}");
            (Level::Info, "shaping.moved", text)
        }
        Err(e) => (Level::Warning, "remove.failed", e.to_string()),
    };
    host.governor.journal.note(Time::ZERO, level, code, || text);
}

fn load(options: &RunOptions) -> Result<(Config, Option<ConfigError>), AgentError> {
    let folders = crate::locate::states();
    let (config, fallen) = load_config(&options.config, options.fall_back, &folders)?;
    if fallen.is_none() {
        Governor::trial(&config).map_err(|e| refused(&options.config, &config, e))?;
    }
    Ok((config, fallen))
}

/// Names subscribers instead of flow numbers in a control's refusal.
pub(crate) fn refused_by_control(config: &Config, e: StartError) -> Box<ControlProblem> {
    let name = |flow: FlowId| {
        // As Governor::trial numbers them.
        let i = (flow.0 / 2).saturating_sub(1) as usize;
        config.subscribers.get(i).map_or_else(|| flow.0.to_string(), |s| s.name.clone())
    };
    let problem = match &e {
        StartError::Refused { why, .. } => match (why.code(), why.values()) {
            ("any.guarantees", [sum, bound, ..]) => {
                Some(ControlProblem::Guarantees { sum: sum.to_string(), bound: bound.to_string() })
            }
            ("any.weight", [Value::Flow(flow), weight, ..]) => {
                Some(ControlProblem::Weight { subscriber: name(*flow), weight: weight.to_string() })
            }
            _ => None,
        },
        StartError::Missing(_) | StartError::Unbuildable(_) | StartError::Elsewhere { .. } => None,
    };
    Box::new(problem.unwrap_or(ControlProblem::Start(e)))
}

/// Names the file in a control's refusal.
pub(crate) fn refused(file: &Path, config: &Config, e: StartError) -> AgentError {
    AgentError::Control { file: file.to_owned(), problem: refused_by_control(config, e) }
}
