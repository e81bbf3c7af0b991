//! Runtime of a [`Service`]: clock, loop, control socket, guard, state and metrics.
//!
//! The order of a start: [`Claims::take`], then the service is built, then `Runtime::new` and
//! `Runtime::run`. Threads of the service send their events through an [`Inbox`].

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairmesh_units::Time;
use sd_notify::{NotifyState, notify};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::clock::Clock;
use super::endpoint::Endpoint;
use super::guard::{self, Guard, GuardRestarts, Watch};
use super::http::{self, Metrics};
use super::journal::{Level, is_shown};
use super::lock::{Claim, ClaimError, LOCK_PATIENCE, Lock, Owner, Registry, Resource};
use super::process::resources;
use super::service::{Effect, Moment, Service};
use super::socket::{self, Call, Response};
use super::store::{self, Store};

/// Longest time between two heartbeats.
pub const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Reason why a daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another daemon uses the socket.
    #[error("{}: {problem}; another daemon uses this socket: stop it first", lock.display())]
    Running {
        /// Path of the socket's lock.
        lock: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// Another daemon uses a resource.
    #[error(transparent)]
    Claimed(#[from] ClaimError),
    /// The control socket cannot be created.
    #[error("{}: {problem}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// Signals cannot be received.
    #[error("signals: {0}")]
    Signals(#[source] io::Error),
    /// The second process cannot be started.
    #[error("guard: {0}")]
    Guard(#[source] io::Error),
}

/// Rights of a running daemon: its socket and its resources, held until this is dropped.
#[derive(Debug)]
pub struct Claims {
    _one: Lock,
    _claim: Claim,
    /// Identity of the run.
    pub owner: Owner,
    /// Result of the registration as owner; without it guards of earlier daemons may interfere.
    pub registered: io::Result<()>,
}

impl Claims {
    /// Takes the socket and the resources, after the guard of an earlier daemon has finished.
    ///
    /// # Errors
    /// Another daemon has the socket or a resource.
    pub fn take(socket: &Path, state: &Path, resources: &[Resource]) -> Result<Claims, StartError> {
        let lock = socket.with_extension("lock");
        let one = Lock::take(&lock, LOCK_PATIENCE)
            .map_err(|problem| StartError::Running { lock: lock.clone(), problem })?;
        let before = guard::wait_for(socket);
        let registry = Registry::here();
        let mut claim = match registry.claim(resources, LOCK_PATIENCE) {
            Ok(claim) => claim,
            Err(e) => {
                // A guard that was stopped during its work holds the claim of its daemon.
                let owners = resources.iter().filter_map(|r| registry.owner(r));
                let ended = owners.filter(|o| guard::end_stopped(&guard::lock_of(&o.socket)));
                if ended.count() == 0 {
                    return Err(e.into());
                }
                registry.claim(resources, LOCK_PATIENCE)?
            }
        };
        let owner = Owner::new(socket, state);
        let registered = claim.register(&owner);
        drop(before);
        Ok(Claims { _one: one, _claim: claim, owner, registered })
    }
}

/// A message to the loop.
pub(crate) enum Message<I> {
    Call(Call),
    Signal(i32),
    Scrape(SyncSender<String>),
    Note(Level, &'static str, String),
    Input(I),
}

/// Sender of a service's events to the loop.
#[derive(Debug)]
pub struct Inbox<I>(Sender<Message<I>>);

impl<I> Clone for Inbox<I> {
    fn clone(&self) -> Self {
        Inbox(self.0.clone())
    }
}

impl<I> Inbox<I> {
    /// Sends an event; returns `false` if the daemon has ended.
    pub fn send(&self, input: I) -> bool {
        self.0.send(Message::Input(input)).is_ok()
    }
}

/// Connection of a server to the loop, which is never made to wait.
#[derive(Clone)]
pub struct Caller(Arc<dyn Fn(Outside) -> bool + Send + Sync>);

/// A message of a server.
enum Outside {
    Call(Call),
    Note(Level, &'static str, String),
}

impl Caller {
    /// Sends a request of the control socket; `None` if the daemon has ended.
    pub fn call(&self, line: String) -> Option<Receiver<Response>> {
        let (send, receive) = mpsc::sync_channel(1);
        (self.0)(Outside::Call((line, send))).then_some(receive)
    }

    /// Records an event.
    pub fn note(&self, level: Level, code: &'static str, text: String) {
        let _ = (self.0)(Outside::Note(level, code, text));
    }

    /// Returns a caller with a function that handles its requests, for tests.
    #[cfg(test)]
    pub(crate) fn of(
        handle: impl Fn(Result<Call, (&'static str, String)>) + Send + Sync + 'static,
    ) -> Caller {
        Caller(Arc::new(move |message| {
            match message {
                Outside::Call(call) => handle(Ok(call)),
                Outside::Note(_, code, text) => handle(Err((code, text))),
            }
            true
        }))
    }

    pub(crate) fn to<I: Send + 'static>(inbox: Sender<Message<I>>) -> Caller {
        Caller(Arc::new(move |message| {
            let message = match message {
                Outside::Call(call) => Message::Call(call),
                Outside::Note(level, code, text) => Message::Note(level, code, text),
            };
            inbox.send(message).is_ok()
        }))
    }
}

/// A server that starts with the daemon; no share depends on it.
pub struct Server {
    /// Event if it cannot start.
    pub unavailable: &'static str,
    /// Address, for this event.
    pub endpoint: Endpoint,
    /// Starts its thread.
    pub start: Box<dyn FnOnce(Caller) -> io::Result<()>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.endpoint)
    }
}

/// Receiver of an [`Inbox`].
#[derive(Debug)]
pub struct Mailbox<I>(Receiver<Message<I>>);

/// Creates an inbox.
pub fn inbox<I>() -> (Inbox<I>, Mailbox<I>) {
    let (send, receive) = mpsc::channel();
    (Inbox(send), Mailbox(receive))
}

/// Heartbeat of a daemon for long calls: its guard and the service manager receive it.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<Mutex<Option<Guard>>>);

impl Heartbeat {
    fn guard(&self) -> MutexGuard<'_, Option<Guard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a function that sends at most one heartbeat per [`MAX_HEARTBEAT_INTERVAL`].
    pub fn ticker(&self) -> impl FnMut() + Send + 'static {
        let heartbeat = self.clone();
        let mut last = Instant::now();
        move || {
            if last.elapsed() < MAX_HEARTBEAT_INTERVAL {
                return;
            }
            last = Instant::now();
            if let Some(guard) = heartbeat.guard().as_mut() {
                guard.beat_again();
            }
            let _ = notify(false, &[NotifyState::Watchdog]);
        }
    }
}

/// Surroundings of a daemon.
#[derive(Debug)]
pub struct Setup {
    /// Path of the control socket.
    pub socket: PathBuf,
    /// Address of the metrics; `None`: not served.
    pub metrics: Option<SocketAddr>,
    /// Further servers.
    pub servers: Vec<Server>,
    /// State that survives a restart.
    pub store: Store,
    /// Arguments of the second process; `None`: no guard.
    pub guard: Option<Vec<String>>,
    /// True if events are printed as JSON objects.
    pub json: bool,
    /// Heartbeat, shared with the service.
    pub heartbeat: Heartbeat,
}

/// A service and its connections to a machine.
pub(crate) struct Runtime<S> {
    pub service: S,
    pub clock: Clock,
    /// Output of the events, one line each.
    pub out: Box<dyn Write>,
    pub setup: Setup,
    /// Restarts of the guard; `None`: no guard.
    guarded: Option<GuardRestarts>,
    /// True if a service manager collects standard error (sd-daemon(3)).
    journal: bool,
}

impl<S: Service> Runtime<S> {
    pub(crate) fn new(service: S, clock: Clock, setup: Setup) -> Self {
        Runtime {
            service,
            clock,
            out: Box::new(io::LineWriter::new(io::stderr())),
            setup,
            guarded: None,
            journal: std::env::var_os("JOURNAL_STREAM").is_some(),
        }
    }

    pub(crate) fn at(&self) -> Moment {
        self.clock.moment()
    }

    fn note(&mut self, level: Level, code: &'static str, text: impl FnOnce() -> String) {
        let now = self.at().now;
        self.service.journal().note(now, level, code, text);
    }

    /// Serves until a signal ends the daemon.
    fn run(
        &mut self,
        inbox: &Inbox<S::Input>,
        mail: &Mailbox<S::Input>,
    ) -> Result<End<S>, StartError> {
        let calls = inbox.0.clone();
        let socket = &self.setup.socket;
        socket::serve(socket, move |call| calls.send(Message::Call(call)).is_ok())
            .map_err(|problem| StartError::Socket { path: socket.clone(), problem })?;
        if let Some(address) = self.setup.metrics
            && let Err(e) = serve_metrics(address, inbox.0.clone())
        {
            // No share depends on the metrics.
            self.note(Level::Warning, "metrics.unavailable", || format!("{address}: {e}"));
        }
        for server in std::mem::take(&mut self.setup.servers) {
            if let Err(e) = (server.start)(Caller::to(inbox.0.clone())) {
                self.note(Level::Warning, server.unavailable, || {
                    format!("{}: {e}", server.endpoint)
                });
            }
        }
        signals(inbox.0.clone()).map_err(StartError::Signals)?;
        if self.setup.guard.is_some() {
            self.guarded = Some(GuardRestarts::first(self.at().now));
            self.start_guard().map_err(StartError::Guard)?;
        }
        // Saved before any limit is set, so that the next daemon finds the effects that a crash
        // leaves.
        self.perform();
        let _ = notify(false, &[NotifyState::Ready]);
        Ok(self.serve(mail))
    }

    fn serve(&mut self, mail: &Mailbox<S::Input>) -> End<S> {
        loop {
            let next = self.turn();
            let wait = Duration::from_nanos(next.since(self.at().now).as_nanos())
                .min(MAX_HEARTBEAT_INTERVAL);
            // All messages are handled before the next turn.
            let mut message = match mail.0.recv_timeout(wait) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
            };
            while let Some(m) = message {
                match m {
                    Message::Signal(signal) if signal != SIGHUP => return self.stop(),
                    other => self.take(other),
                }
                message = mail.0.try_recv().ok();
            }
        }
    }

    /// Carries out everything that is due; returns the time of the next turn.
    pub(crate) fn turn(&mut self) -> Time {
        // Before any long operation: the guard's patience follows the service.
        self.beat();
        let next = self.service.turn(self.at());
        self.perform();
        self.beat();
        let _ = notify(false, &[NotifyState::Watchdog]);
        self.print();
        next
    }

    pub(crate) fn take(&mut self, message: Message<S::Input>) {
        let at = self.at();
        match message {
            Message::Signal(_) => {
                let _ = notify(false, &[NotifyState::Reloading]);
                self.service.reload(at);
                let _ = notify(false, &[NotifyState::Ready]);
                self.perform();
            }
            Message::Call((line, answer)) => {
                let response = self.service.request(at, &line);
                // A response is sent when its effects are on the disk.
                self.perform();
                let _ = answer.try_send(response);
            }
            Message::Scrape(answer) => {
                let _ = answer.try_send(self.service.metrics(at, resources()));
            }
            Message::Note(level, code, text) => self.note(level, code, || text),
            Message::Input(input) => self.service.input(at, input),
        }
    }

    /// Carries out the effects on files.
    pub(crate) fn perform(&mut self) {
        for effect in self.service.effects() {
            let result = match &effect {
                Effect::Save(text) => self.setup.store.save(text),
                Effect::SavePart { name, text } => self.setup.store.save_part(name, text),
                Effect::KeepConfiguration(text) => self.setup.store.save_good_config(text),
                Effect::Publish { file, text } => store::publish(file, text),
            };
            let at = self.at();
            self.service.performed(at, &effect, result);
        }
    }

    fn start_guard(&mut self) -> io::Result<()> {
        let arguments = self.setup.guard.clone().unwrap_or_default();
        let guard = Guard::start(&arguments, self.service.patience())?;
        *self.setup.heartbeat.guard() = Some(guard);
        Ok(())
    }

    /// Sends a heartbeat to the guard, and replaces a guard that does not work.
    fn beat(&mut self) {
        let (at, patience) = (self.at(), self.service.patience());
        if self.setup.heartbeat.guard().as_mut().is_some_and(|g| !g.beat(patience)) {
            self.service.lapsed(at);
        }
        let watch = self.setup.heartbeat.guard().as_mut().map_or(Watch::Gone, Guard::watches);
        if watch == Watch::Running {
            return;
        }
        let Some(next) = self.guarded.and_then(|g| g.next(at.now)) else { return };
        self.guarded = Some(next);
        let how = if watch == Watch::Stopped { "is stopped" } else { "has ended" };
        let useless = self.setup.heartbeat.guard().take();
        if let Some(guard) = useless {
            guard.end();
        }
        let started = self.start_guard();
        self.note(Level::Error, "guard.gone", || match started {
            Ok(()) => format!("the guard process {how}; a new one was started"),
            Err(e) => format!(
                "the guard process {how}, and no other can be started ({e}): if this daemon is \
                 killed, its limits remain until they expire"
            ),
        });
    }

    /// Prints the new events.
    fn print(&mut self) {
        for n in self.service.journal().take() {
            if self.setup.json {
                let _ = serde_json::to_writer(&mut *self.out, &n).map(|()| writeln!(self.out));
                continue;
            }
            let prefix = if self.journal { n.level.prefix() } else { "" };
            let more = match n.left_out {
                0 => String::new(),
                left => format!(" ({left} more suppressed)"),
            };
            let text: String = n.text.chars().filter(|c| is_shown(*c)).collect();
            // A closed standard error does not end the daemon.
            let _ = writeln!(self.out, "{prefix}{}: {text}{more}", n.code);
        }
    }

    fn stop(&mut self) -> End<S> {
        let _ = notify(false, &[NotifyState::Stopping]);
        let result = self.service.stop(self.at());
        self.perform();
        self.print();
        // Held until here: if the service never returns, the guard acts.
        let guard = self.setup.heartbeat.guard().take();
        if let Some(guard) = guard
            && result.is_ok()
        {
            guard.dismiss();
        }
        let _ = std::fs::remove_file(&self.setup.socket);
        result
    }
}

/// Result of the end of a service.
type End<S> = Result<(), <S as Service>::Error>;

/// Runs a service until a signal ends it.
///
/// # Errors
/// Returns an error if the daemon cannot start. The inner result is that of the service's end.
pub fn run<S: Service>(
    service: S,
    clock: Clock,
    setup: Setup,
    claims: Claims,
    (inbox, mail): (Inbox<S::Input>, Mailbox<S::Input>),
) -> Result<Result<(), S::Error>, StartError> {
    let mut runtime = Runtime::new(service, clock, setup);
    if let Err(e) = &claims.registered {
        let text = format!("{e}; a guard of an earlier daemon may undo what this one sets");
        runtime.note(Level::Warning, "run.unregistered", || text);
    }
    let ended = runtime.run(&inbox, &mail);
    drop(claims);
    ended
}

fn serve_metrics<I: Send + 'static>(
    address: SocketAddr,
    send: Sender<Message<I>>,
) -> io::Result<()> {
    let scrape = move || {
        let (give, take) = mpsc::sync_channel(1);
        send.send(Message::Scrape(give)).ok()?;
        Some(take)
    };
    let endpoint = Endpoint::Tcp(address);
    http::serve("metrics", &endpoint, Metrics::new(scrape), Metrics::LIMITS).map(|_| ())
}

fn signals<I: Send + 'static>(send: Sender<Message<I>>) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if send.send(Message::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
