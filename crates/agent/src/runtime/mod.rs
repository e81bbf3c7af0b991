//! The daemon: a clock, threads that bring messages, one loop that does everything.

mod inputs;
mod keeping;
mod process;
mod requests;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairmesh_linux::link::LinkEvent;
use fairmesh_linux::{DataPlane, HtbPlane};
use fairmesh_units::{Span, Time};
use signal_hook::consts::SIGHUP;

use self::inputs::{Message, discovery, links, serve_metrics, signals};
use self::keeping::SAVE;
use self::process::{header_bytes, resources};
use crate::config::{Config, ConfigError, Discover, OnExit, STATE};
use crate::error::AgentError;
use crate::governor::{ClassBook, Governor, way};
use crate::guard::{Guard, Lock};
use crate::host::Host;
use crate::journal::Level;
use crate::state::{KeptLearning, Store, load_config};
use crate::{metrics, socket};

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

struct Daemon {
    host: Host<HtbPlane>,
    config: Config,
    file: PathBuf,
    store: Store,
    start: Instant,
    saved: Time,
    learned: Option<(Time, KeptLearning)>,
    save_failed: bool,
    /// When the file of the metrics was last written, and whether that failed.
    published: (Option<Time>, bool),
    verified: Time,
    guard: Option<Guard>,
    discover: Arc<Mutex<Option<(Discover, String)>>>,
    journal: bool,
    json: bool,
}

/// Runs until a signal ends it.
///
/// # Errors
/// A wrong configuration, or a daemon that cannot start. Nothing in the kernel is touched then.
pub fn run(options: &RunOptions) -> Result<(), AgentError> {
    let (config, fallen) = load(options)?;
    let runs = config.socket.with_extension("lock");
    let one = Lock::take(&runs, Duration::ZERO).map_err(|e| {
        AgentError::file(&runs, format!("{e}; expected no other gateway daemon to run here"))
    })?;
    let guard_lock = config.socket.with_extension("guard.lock");
    drop(Lock::take(&guard_lock, Duration::from_secs(15)));

    let mut store = Store::new(&config.state);
    let loaded = store.load();
    let kept = loaded.as_ref().ok().cloned().unwrap_or_default();
    let book = ClassBook::new(kept.classes.clone());
    let governor = Governor::new(&config, book, Time::ZERO)
        .map_err(|e| refused_by_control(&options.config, &config, &e))?;
    let mut host = Host::new(HtbPlane::open()?, governor);
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
    let headers = [&config.layout.mesh, &config.layout.wired].map(|i| header_bytes(i.name()));
    host.governor.set_headers(headers[0], headers[1]);

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
    let discover = Arc::new(Mutex::new(None));
    discovery(discover.clone(), send);

    let mut daemon = Daemon {
        host,
        file: options.config.clone(),
        store,
        start: Instant::now(),
        saved: Time::ZERO,
        learned: None,
        save_failed: false,
        published: (None, false),
        verified: Time::ZERO,
        guard: None,
        discover,
        journal: std::env::var_os("JOURNAL_STREAM").is_some(),
        json: options.json,
        config,
    };
    daemon.restore(&kept);
    if !options.no_guard {
        let guard = Guard::start(&daemon.config.layout, &guard_lock, daemon.patience());
        daemon.guard = Some(guard.map_err(|e| AgentError::Refused(format!("guard: {e}")))?);
    }
    daemon.offer_discovery();
    if let Err(e) = daemon.store.save_good_config(&daemon.file) {
        daemon.unwritable(&e.to_string());
    }
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let ended = daemon.serve(&receive);
    drop(one);
    ended
}

fn load(options: &RunOptions) -> Result<(Config, Option<ConfigError>), AgentError> {
    let (config, fallen) = load_config(&options.config, options.fall_back, Path::new(STATE))?;
    if fallen.is_none() {
        Governor::trial(&config).map_err(|e| refused_by_control(&options.config, &config, &e))?;
    }
    Ok((config, fallen))
}

/// A control's refusal in words that name file and subscriber instead of flow numbers.
pub(crate) fn refused_by_control(
    file: &Path,
    config: &Config,
    e: &fairmesh_control::StartError,
) -> AgentError {
    use fairmesh_control::{Refused, StartError};
    let name = |flow: fairmesh_units::FlowId| {
        // As Governor::trial numbers them.
        let i = (flow.0 / 2).saturating_sub(1) as usize;
        config.subscribers.get(i).map_or_else(|| flow.0.to_string(), |s| s.name.clone())
    };
    let problem = match e {
        StartError::Refused { why: Refused::Guarantees { sum, bound }, .. } => format!(
            "control: guarantees add up to {sum}; expected at most {bound}, which is all that the \
             links of [[neighbour]] are sure to carry"
        ),
        StartError::Refused { why: Refused::Weight { flow, weight }, .. } => {
            format!("subscriber \"{}\": weight {weight}; expected one above 0", name(*flow))
        }
        other => format!("control.use: {other}"),
    };
    AgentError::file(file, problem)
}

impl Daemon {
    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn note(&mut self, level: Level, code: &'static str, text: impl FnOnce() -> String) {
        let now = self.now();
        self.host.governor.journal.note(now, level, code, text);
    }

    /// How long this process may be silent before its guard takes it for dead: two epochs, but
    /// neither less than a busy machine needs nor longer than anybody waits.
    fn patience(&self) -> Duration {
        let epoch = self.config.sample.as_secs_f64();
        // Making the classes of thousands of subscribers takes its time, too.
        let classes = self.host.governor.members().len() as f64 * 0.002;
        Duration::from_secs_f64((2.0 * epoch).clamp(5.0, 30.0) + classes)
    }

    fn offer_discovery(&self) {
        let mesh = self.config.layout.mesh.name().to_owned();
        if let Ok(mut what) = self.discover.lock() {
            *what = self.config.discover.clone().map(|d| (d, mesh));
        }
    }

    fn serve(&mut self, receive: &mpsc::Receiver<Message>) -> Result<(), AgentError> {
        loop {
            let next = self.host.poll(self.now());
            self.housekeeping();
            self.tell();
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
            Message::Found(harvest) => {
                for failed in &harvest.failed {
                    self.note(Level::Warning, "source.failed", || failed.clone());
                }
                let now = self.now();
                self.host.discovered(now, harvest.found);
            }
            Message::Scrape(answer) => {
                let _ = answer.try_send(self.page());
            }
        }
    }

    fn housekeeping(&mut self) {
        let now = self.now();
        if self.guard.as_mut().is_some_and(|g| !g.beat()) {
            self.host.limits_unknown(now);
        }
        if self.guard.as_mut().is_some_and(|g| !g.watches()) {
            self.guard = None;
            self.note(Level::Error, "guard.gone", || {
                "the second process is gone: nobody lifts limits if this one is killed".into()
            });
        }
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Watchdog]);
        if now.since(self.saved) >= SAVE {
            self.save();
        }
        self.publish();
        if now.since(self.verified) >= VERIFY {
            self.verified = now;
            self.verify();
        }
    }

    fn page(&self) -> String {
        metrics::page(&self.host, self.now(), self.config.per_subscriber, resources())
    }

    /// Checks that packets reach the classes that they are meant for.
    fn verify(&mut self) {
        if self.host.phase() != crate::host::Phase::Running {
            return;
        }
        for v in self.host.plane().verify().unwrap_or_default() {
            if !v.holds {
                let (classified, arrived) = (v.classified, v.arrived);
                let side = crate::governor::direction_name(way(v.direction));
                self.note(Level::Error, "classifier.failed", || {
                    format!(
                        "{side}: of {classified} packets that were classified {arrived} arrived; \
                         now by {:?}",
                        v.classifier
                    )
                });
            }
        }
    }

    /// Prints what is new.
    fn tell(&mut self) {
        let mut err = std::io::stderr().lock();
        for n in self.host.governor.journal.take() {
            if self.json {
                let _ = serde_json::to_writer(&mut err, &n).map(|()| writeln!(err));
                continue;
            }
            let prefix = if self.journal { n.level.prefix() } else { "" };
            let more = match n.left_out {
                0 => String::new(),
                left => format!(" (and {left} more since the last)"),
            };
            let text: String = n.text.chars().filter(|c| !c.is_control()).collect();
            // Nobody to tell is no reason to stop.
            let _ = writeln!(err, "{prefix}{}: {text}{more}", n.code);
        }
    }

    fn stop(&mut self) -> Result<(), AgentError> {
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
        self.note(Level::Info, "daemon.stopped", || "limits are lifted".into());
        self.learn(true);
        self.save();
        let now = self.now();
        let result = self.host.stop(now, self.config.on_exit == OnExit::Remove);
        self.tell();
        // Kept until here: if the line above never returns, the guard acts.
        if let Some(guard) = self.guard.take()
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
