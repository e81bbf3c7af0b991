//! The daemon: a clock, threads that bring messages, one loop that does everything.

mod inputs;
mod others;
mod persistence;
mod process;
mod requests;
mod signs;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairmesh_linux::link::LinkEvent;
use fairmesh_linux::{DataPlane, HtbPlane, Layout};
use fairmesh_units::{Span, Time};
use signal_hook::consts::SIGHUP;

use self::inputs::{Message, discovery, links, serve_metrics, signals};
use self::persistence::{SAVE, wall_clock};
use self::process::resources;
use crate::daemon::guard::{self, Guard, Guarded, Watch};
use crate::daemon::lock::{Lock, SOON, take_interfaces};
use crate::daemon::peers::PeerSocket;
use crate::daemon::preflight;
use crate::daemon::signs::HeaderThread;
use crate::daemon::state::{KeptLearning, KeptOverride, Store, load_config};
use crate::daemon::{metrics, socket};
use crate::error::AgentError;
use crate::gateway::config::is_shown;
use crate::gateway::config::{Config, ConfigError, Discover, OnExit, STATE};
use crate::gateway::governor::{ClassIds, Governor};
use crate::gateway::host::Host;
use crate::gateway::journal::Level;

/// How often it is checked that packets reach their classes.
const VERIFY: Span = Span::from_secs(30);
/// The longest time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);

/// What `run` may be told on the command line.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// Use the last configuration that worked when the file is wrong.
    pub fall_back: bool,
    /// No second process that lifts limits when this one dies.
    pub no_guard: bool,
    /// Events as JSON objects.
    pub json: bool,
}

/// The second process, if there is one. What takes long reaches it, too.
type SharedGuard = Arc<Mutex<Option<Guard>>>;

fn held(guard: &SharedGuard) -> MutexGuard<'_, Option<Guard>> {
    guard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The daemon itself. It has no clock of its own and no kernel, so that a month of it can be tried in
/// a minute.
struct Daemon<P> {
    host: Host<P>,
    config: Config,
    file: PathBuf,
    store: Store,
    /// Time since the start; never runs backwards.
    clock: Box<dyn Fn() -> Time>,
    /// Seconds since 1970, as far as this machine knows.
    wall: Box<dyn Fn() -> u64>,
    /// Where events are told, a line at a time: who reads them meets no half of one.
    told: Box<dyn Write>,
    /// Overrides as they were last kept.
    overrides: Vec<KeptOverride>,
    kept_layout: Option<Layout>,
    written: Option<Time>,
    saved: Time,
    learned: Option<(Time, KeptLearning)>,
    save_failed: bool,
    /// When the file of the metrics was last written, and whether that failed.
    published: (Option<Time>, bool),
    verified: Time,
    guard: SharedGuard,
    /// `None`: none is wanted.
    guarded: Option<Guarded>,
    guard_lock: PathBuf,
    discover: Arc<Mutex<Option<(Discover, String)>>>,
    /// The other gateways, and whom to send a message that something has come from them.
    peers: Option<(PeerSocket, mpsc::Sender<Message>)>,
    /// Who reads TCP's headers.
    capture: HeaderThread,
    journal: bool,
    json: bool,
}

/// Runs until a signal ends it.
///
/// # Errors
/// A wrong configuration, or a daemon that cannot start. Nothing in the kernel is touched then.
pub fn run(options: &RunOptions) -> Result<(), AgentError> {
    let (config, fallen) = load(options)?;
    preflight::socket(&config.socket).map_err(AgentError::Refused)?;
    let runs = config.socket.with_extension("lock");
    let one = Lock::take(&runs, SOON).map_err(|e| {
        AgentError::file(&runs, format!("{e}; expected no other gateway daemon to run here"))
    })?;
    let before = guard::wait_for(&config.socket);
    let interfaces = take_interfaces(&config.layout).map_err(AgentError::Refused)?;
    drop(before);
    let guard_lock = guard::lock_of(&config.socket);

    let mut store = Store::new(&config.state);
    let loaded = store.load();
    let kept = loaded.as_ref().ok().cloned().unwrap_or_default();
    let class_ids = ClassIds::new(kept.classes.clone());
    let governor = Governor::new(&config, class_ids, Time::ZERO)
        .map_err(|e| refused_by_control(&options.config, &config, &e))?;
    let guard = SharedGuard::default();
    let mut plane = HtbPlane::open()?;
    plane.on_progress(signs_of_life(guard.clone()));
    let mut host = Host::new(plane, governor);
    let journal = &mut host.governor.journal;
    if let Err(e) = loaded {
        journal.note(Time::ZERO, Level::Warning, "state.unreadable", || {
            format!("{e}; nothing is known of earlier runs")
        });
    }
    if let Some(e) = fallen {
        journal.note(Time::ZERO, Level::Error, "config.fallback", || {
            format!("{e}; running with the last configuration that worked")
        });
    }
    if let Some(earlier) = kept.layout.as_ref().filter(|l| !l.same_place(&config.layout)) {
        // The file names other interfaces now; a crash may have left something on the old ones.
        match host.plane().remove(earlier) {
            Ok(removed) if removed.qdiscs.is_empty() && removed.tables.is_empty() => {}
            Ok(removed) => {
                host.governor.journal.note(Time::ZERO, Level::Info, "shaping.moved", || {
                    let all = [removed.qdiscs, removed.tables].concat().join(", ");
                    format!("removed from where the configuration had it before: {all}")
                })
            }
            Err(e) => {
                host.governor
                    .journal
                    .note(Time::ZERO, Level::Warning, "remove.failed", || e.to_string());
            }
        }
    }

    let (send, receive) = mpsc::channel();
    let calls = send.clone();
    socket::serve(&config.socket, move |call| calls.send(Message::Call(call)).is_ok())
        .map_err(|e| AgentError::file(&config.socket, e))?;
    if let Some(address) = config.metrics
        && let Err(e) = serve_metrics(address, send.clone())
    {
        // Nobody's share depends on it.
        let journal = &mut host.governor.journal;
        journal
            .note(Time::ZERO, Level::Warning, "metrics.unavailable", || format!("{address}: {e}"));
    }
    signals(send.clone())?;
    links(send.clone());
    let peers = config.peers.clone().map(|peers| (PeerSocket::new(peers), send.clone()));
    let discover = Arc::new(Mutex::new(None));
    discovery(discover.clone(), send);

    let start = Instant::now();
    let mut daemon = Daemon {
        host,
        file: options.config.clone(),
        store,
        clock: Box::new(move || {
            Time::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
        }),
        wall: Box::new(wall_clock),
        told: Box::new(std::io::LineWriter::new(std::io::stderr())),
        overrides: Vec::new(),
        kept_layout: None,
        written: None,
        saved: Time::ZERO,
        learned: None,
        save_failed: false,
        published: (None, false),
        verified: Time::ZERO,
        guard,
        guarded: None,
        guard_lock,
        discover,
        peers,
        capture: HeaderThread::new(start),
        journal: std::env::var_os("JOURNAL_STREAM").is_some(),
        json: options.json,
        config,
    };
    let now = daemon.now();
    daemon.host.governor.begin_gently(now);
    daemon.restore(&kept);
    if !options.no_guard {
        daemon.guarded = Some(Guarded::first(daemon.now()));
        daemon.start_guard().map_err(|e| AgentError::Refused(format!("guard: {e}")))?;
    }
    // Known from the first moment on: after a crash somebody must find what is put now.
    daemon.save();
    daemon.offer_discovery();
    if let Err(e) = daemon.store.save_good_config(&daemon.file) {
        daemon.unwritable(&e.to_string());
    }
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let ended = daemon.serve(&receive);
    drop((one, interfaces));
    ended
}

/// What is done in the middle of what takes long, by and by: whoever watches this process hears that
/// it lives. (Whether the kernel answers at all is watched there: an answer that does not come ends
/// the call.)
fn signs_of_life(guard: SharedGuard) -> impl FnMut() + Send + 'static {
    let mut last = Instant::now();
    move || {
        if last.elapsed() < BEAT {
            return;
        }
        last = Instant::now();
        if let Some(guard) = held(&guard).as_mut() {
            guard.sign_on();
        }
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Watchdog]);
    }
}

/// The patience of a guard with a daemon of so many subscribers.
fn patience(sample: Span, subscribers: usize) -> Duration {
    let epoch = sample.as_secs_f64();
    // Making the classes of thousands of subscribers takes its time, too.
    let classes = subscribers as f64 * 0.002;
    Duration::from_secs_f64((2.0 * epoch).clamp(5.0, 30.0) + classes)
}

fn load(options: &RunOptions) -> Result<(Config, Option<ConfigError>), AgentError> {
    let (config, fallen) = load_config(&options.config, options.fall_back, Path::new(STATE))?;
    if fallen.is_none() {
        let refused = |e| refused_by_control(&options.config, &config, &e);
        Governor::trial(&config).map_err(refused)?;
    }
    Ok((config, fallen))
}

/// A control's refusal in words that name file and subscriber instead of flow numbers.
pub(crate) fn refused_by_control(
    file: &Path,
    config: &Config,
    e: &fairmesh_control::StartError,
) -> AgentError {
    use fairmesh_control::{StartError, Value};
    let name = |flow: fairmesh_units::FlowId| {
        // As Governor::trial numbers them.
        let i = (flow.0 / 2).saturating_sub(1) as usize;
        config.subscribers.get(i).map_or_else(|| flow.0.to_string(), |s| s.name.clone())
    };
    let problem = match e {
        StartError::Refused { why, .. } => match (why.code(), why.values()) {
            ("any.guarantees", [sum, bound, ..]) => format!(
                "control: guarantees add up to {sum}; expected at most {bound}, which is all that \
                 the links of [[neighbour]] are sure to carry"
            ),
            ("any.weight", [Value::Flow(flow), weight, ..]) => {
                format!("subscriber \"{}\": weight {weight}; expected one above 0", name(*flow))
            }
            _ => format!("control.use: {e}"),
        },
        StartError::Missing(_) | StartError::Unbuildable(_) | StartError::Elsewhere { .. } => {
            format!("control.use: {e}")
        }
    };
    AgentError::file(file, problem)
}

impl<P: DataPlane> Daemon<P> {
    fn now(&self) -> Time {
        (self.clock)()
    }

    fn note(&mut self, level: Level, code: &'static str, text: impl FnOnce() -> String) {
        let now = self.now();
        self.host.governor.journal.note(now, level, code, text);
    }

    /// How long this process may be silent before its guard takes it for dead: two epochs, but
    /// neither less than a busy machine needs nor longer than anybody waits.
    fn patience(&self) -> Duration {
        patience(self.config.sample, self.host.governor.members().len())
    }

    fn offer_discovery(&self) {
        let mesh = self.config.layout.mesh.name().to_owned();
        if let Ok(mut what) = self.discover.lock() {
            *what = self.config.discover.clone().map(|d| (d, mesh));
        }
    }

    fn start_guard(&mut self) -> std::io::Result<()> {
        let guard = Guard::start(&self.config.layout, &self.guard_lock, self.patience())?;
        *held(&self.guard) = Some(guard);
        Ok(())
    }

    /// Says that this process is alive, and sees to it that somebody hears it.
    fn beat(&mut self) {
        let (now, patience) = (self.now(), self.patience());
        if held(&self.guard).as_mut().is_some_and(|g| !g.beat(patience)) {
            self.host.limits_unknown(now);
        }
        let watch = held(&self.guard).as_mut().map_or(Watch::Gone, Guard::watches);
        if watch == Watch::Awake {
            return;
        }
        let Some(next) = self.guarded.and_then(|g| g.next(now)) else { return };
        self.guarded = Some(next);
        let how = if watch == Watch::Stopped { "does not move" } else { "is gone" };
        let useless = held(&self.guard).take();
        if let Some(guard) = useless {
            guard.end();
        }
        let started = self.start_guard();
        self.note(Level::Error, "guard.gone", || match started {
            Ok(()) => format!("the second process {how}; another one was started"),
            Err(e) => format!(
                "the second process {how}, and no other can be started ({e}): nobody removes what is \
                 ours if this one is killed, and limits lapse 10 s later"
            ),
        });
    }

    fn serve(&mut self, receive: &mpsc::Receiver<Message>) -> Result<(), AgentError> {
        loop {
            let next = self.turn();
            let wait = Duration::from_nanos(next.since(self.now()).as_nanos()).min(BEAT);
            // Everything that has come is taken in before the next look.
            let mut message = match receive.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
            };
            while let Some(m) = message {
                match m {
                    Message::Signal(SIGHUP) => {
                        let _ = self.reload();
                    }
                    Message::Signal(_) => return self.stop(),
                    other => self.take(other),
                }
                message = receive.try_recv().ok();
            }
        }
    }

    /// Does everything that is due; when there is something to do next.
    fn turn(&mut self) -> Time {
        // Before whatever takes long: patience follows how many subscribers there are by now.
        self.beat();
        self.hear_others();
        let next = self.host.poll(self.now());
        self.read_headers();
        self.tell_others();
        self.housekeeping();
        self.tell();
        next
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Signal(_) => {}
            Message::Call((request, answer)) => {
                let response = self.call(request);
                let _ = answer.try_send(response);
            }
            Message::Links(events) => {
                let now = self.now();
                for event in events {
                    match event {
                        LinkEvent::Changed(link) => self.host.link(now, &link.name, link.up),
                        LinkEvent::Gone(link) => self.host.link(now, &link.name, false),
                        LinkEvent::Overrun => {}
                    }
                }
            }
            Message::Found(discovery) => {
                for failed in &discovery.failed {
                    self.note(Level::Warning, "source.failed", || failed.clone());
                }
                let now = self.now();
                self.host.governor.sources = discovery.sources;
                self.host.discovered(now, discovery.found);
            }
            Message::Datagrams => self.hear_others(),
            Message::Scrape(answer) => {
                let _ = answer.try_send(self.page());
            }
        }
    }

    fn housekeeping(&mut self) {
        let now = self.now();
        self.beat();
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Watchdog]);
        if now.since(self.saved) >= SAVE {
            self.save();
        }
        self.publish();
        if now.since(self.verified) >= VERIFY {
            self.verified = now;
            if self.host.phase() == crate::gateway::host::Phase::Running {
                self.host.verify();
            }
        }
    }

    fn page(&self) -> String {
        let peers = self.others();
        let per_subscriber = self.config.per_subscriber;
        let signs = self.signs();
        let (peers, signs) = (peers.as_ref(), signs.as_ref());
        metrics::page(&self.host, self.now(), per_subscriber, resources(), peers, signs)
    }

    /// Prints what is new.
    fn tell(&mut self) {
        let err = &mut self.told;
        for n in self.host.governor.journal.take() {
            if self.json {
                let _ = serde_json::to_writer(&mut *err, &n).map(|()| writeln!(err));
                continue;
            }
            let prefix = if self.journal { n.level.prefix() } else { "" };
            let more = match n.left_out {
                0 => String::new(),
                left => format!(" (and {left} more since the last)"),
            };
            let text: String = n.text.chars().filter(|c| is_shown(*c)).collect();
            // Nobody to tell is no reason to stop.
            let _ = writeln!(err, "{prefix}{}: {text}{more}", n.code);
        }
    }

    fn stop(&mut self) -> Result<(), AgentError> {
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
        self.note(Level::Info, "daemon.stopped", || "limits are lifted".into());
        self.learn(true);
        self.written = None;
        self.save();
        let now = self.now();
        let result = self.host.stop(now, self.config.on_exit == OnExit::Remove);
        self.tell();
        // Kept until here: if the line above never returns, the guard acts.
        let guard = held(&self.guard).take();
        if let Some(guard) = guard
            && result.is_ok()
        {
            guard.dismiss();
        }
        let _ = std::fs::remove_file(&self.config.socket);
        if let Some(file) = &self.config.textfile {
            // Metrics that stand still would look like a daemon that runs.
            let _ = std::fs::remove_file(file);
        }
        Ok(result?)
    }
}

#[cfg(test)]
mod tests;
