//! The daemon: a clock, threads that bring messages, one loop that does everything.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairmesh_linux::link::{LinkEvent, LinkEvents};
use fairmesh_linux::{DataPlane, Direction, HtbPlane, Side};
use fairmesh_units::{BitRate, Span, Time};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::config::{Config, ConfigError, Discover, OnExit, STATE};
use crate::error::AgentError;
use crate::governor::{ClassBook, Governor, Override, way};
use crate::guard::{Guard, Lock};
use crate::host::{Host, ReloadError};
use crate::journal::Level;
use crate::socket::{Call, OverrideRate, Request, Response};
use crate::sources::{self, Harvest};
use crate::state::{Kept, KeptLearning, KeptOverride, Store};
use crate::{metrics, report, socket};

/// How often state is looked at for something new to keep.
const SAVE: Span = Span::from_secs(30);
/// How often what the control has found out is kept: seldom, for the sake of flash.
const LEARN: Span = Span::from_secs(600);
/// Seconds after which it is worth nothing: a week.
const FORGET: u64 = 7 * 86_400;
/// How often it is checked that packets reach their classes.
const VERIFY: Span = Span::from_secs(30);
/// The longest time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);

enum Message {
    Call(Call),
    Signal(i32),
    Links(Vec<LinkEvent>),
    Found(Harvest),
    Scrape(SyncSender<String>),
}

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
    match Config::load(&options.config) {
        Ok(config) => match Governor::trial(&config) {
            Ok(()) => Ok((config, None)),
            Err(e) => Err(refused_by_control(&options.config, &config, &e)),
        },
        Err(e) if options.fall_back => {
            // Where it is kept stands in the file that cannot be read; the usual place then.
            let good = Store::new(Path::new(STATE)).good_config();
            match Config::load(&good) {
                Ok(config) => Ok((config, Some(e))),
                Err(_) => Err(e.into()),
            }
        }
        Err(e) => Err(e.into()),
    }
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

/// Bytes of an interface's link header: none where packets travel bare.
fn header_bytes(interface: &str) -> u64 {
    let kind = std::fs::read_to_string(format!("/sys/class/net/{interface}/type"));
    // ARPHRD_ETHER is 1; TUN and the like are above 500.
    match kind.ok().and_then(|k| k.trim().parse::<u32>().ok()) {
        Some(kind) if kind != 1 => 0,
        _ => 14,
    }
}

fn signals(send: Sender<Message>) -> Result<(), AgentError> {
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

/// Watches the interfaces. Without events the next look at the counters finds out as well.
fn links(send: Sender<Message>) {
    let Ok(mut events) = LinkEvents::open() else { return };
    let _ = std::thread::Builder::new().name("links".into()).spawn(move || {
        loop {
            let mut fds = [nix::poll::PollFd::new(
                std::os::fd::AsFd::as_fd(&events),
                nix::poll::PollFlags::POLLIN,
            )];
            if nix::poll::poll(&mut fds, nix::poll::PollTimeout::NONE).is_err() {
                continue;
            }
            match events.read() {
                Ok(events) => {
                    if send.send(Message::Links(events)).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    });
}

fn serve_metrics(
    address: std::net::SocketAddr,
    send: Sender<Message>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = tiny_http::Server::http(address)?;
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        for request in server.incoming_requests() {
            let plain = tiny_http::Header::from_bytes("Content-Type", "text/plain; version=0.0.4");
            let (mut text, mut code) = ("try /metrics\n".to_owned(), 404);
            if request.url().split('?').next() == Some("/metrics") {
                let (give, take) = mpsc::sync_channel(1);
                let sent = send.send(Message::Scrape(give)).is_ok();
                (text, code) = match take.recv_timeout(Duration::from_secs(10)) {
                    Ok(page) if sent => (page, 200),
                    _ => ("busy\n".to_owned(), 503),
                };
            }
            let mut response = tiny_http::Response::from_string(text).with_status_code(code);
            if let Ok(plain) = plain {
                response = response.with_header(plain);
            }
            let _ = request.respond(response);
        }
    })?;
    Ok(())
}

fn discovery(what: Arc<Mutex<Option<(Discover, String)>>>, send: Sender<Message>) {
    let _ = std::thread::Builder::new().name("discovery".into()).spawn(move || {
        loop {
            let now = what.lock().map(|w| w.clone()).unwrap_or_default();
            let Some((discover, mesh)) = now else {
                std::thread::sleep(BEAT);
                continue;
            };
            if send.send(Message::Found(sources::fetch(&discover, &mesh))).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_nanos(discover.every.as_nanos()));
        }
    });
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
                let page =
                    metrics::page(&self.host, self.now(), self.config.per_subscriber, resources());
                let _ = answer.try_send(page);
            }
        }
    }

    fn call(&mut self, request: Request) -> Response {
        let now = self.now();
        let value = |v: Result<serde_json::Value, serde_json::Error>| match v {
            Ok(v) => Response::Ok(v),
            Err(e) => Response::Refused(e.to_string()),
        };
        match request {
            Request::Status => value(serde_json::to_value(report::status(&self.host, now))),
            Request::Why { subscriber } => match self.host.governor.member(&subscriber) {
                Ok(m) => {
                    value(serde_json::to_value(report::subscriber(&self.host.governor, now, m)))
                }
                Err(e) => Response::Refused(e.to_string()),
            },
            Request::Override { subscriber, directions, rate, seconds } => {
                match self.set_override(&subscriber, &directions, rate, seconds) {
                    Ok(()) => self.call(Request::Why { subscriber }),
                    Err(e) => Response::Refused(e),
                }
            }
            Request::Reload => match self.reload() {
                Ok(()) => Response::Ok(json!({
                    "reloaded": self.file,
                    "subscribers": self.host.governor.members().len(),
                })),
                Err(e) => Response::Refused(e),
            },
            Request::Doctor => {
                let verified = self.host.plane().verify().unwrap_or_default();
                let plane = self.host.plane();
                let sides = [Side::Mesh, Side::Wired];
                let interfaces: Vec<_> =
                    sides.into_iter().filter_map(|side| plane.interface(side).ok()).collect();
                Response::Ok(json!({ "interfaces": interfaces, "verified": verified }))
            }
        }
    }

    fn set_override(
        &mut self,
        name: &str,
        directions: &[String],
        rate: OverrideRate,
        seconds: f64,
    ) -> Result<(), String> {
        let one = |word: &String| match word.as_str() {
            "down" => Ok(Direction::Down),
            "up" => Ok(Direction::Up),
            other => Err(format!("direction \"{other}\"; expected down or up")),
        };
        let mut which: Vec<Direction> = directions.iter().map(one).collect::<Result<_, _>>()?;
        if which.is_empty() {
            which = Direction::BOTH.to_vec();
        }
        // A year is for ever.
        let most = 366.0 * 86_400.0;
        if rate != OverrideRate::Clear && !(seconds >= 1.0 && seconds <= most) {
            return Err(format!("{seconds} s is out of range; expected 1 s to 366 days"));
        }
        let now = self.now();
        let until = now + Span::from_secs_f64(seconds);
        let value = match rate {
            OverrideRate::Clear => None,
            OverrideRate::Unlimited => Some(Override { rate: None, until }),
            OverrideRate::Limit(r) if (1_000..=1_000_000_000_000).contains(&r) => {
                Some(Override { rate: Some(BitRate(r)), until })
            }
            OverrideRate::Limit(r) => {
                return Err(format!(
                    "{} is out of range; expected 1 kbit/s to 1 Tbit/s",
                    BitRate(r)
                ));
            }
        };
        let governor = &mut self.host.governor;
        governor.set_override(now, name, &which, value).map_err(|e| e.to_string())?;
        let told = match rate {
            OverrideRate::Clear => "ended".to_owned(),
            OverrideRate::Unlimited => format!("unlimited for {seconds:.0} s"),
            OverrideRate::Limit(r) => format!("{} for {seconds:.0} s", BitRate(r)),
        };
        self.note(Level::Info, "override.set", || format!("\"{}\": {told}", name.trim()));
        self.save();
        Ok(())
    }

    /// Reads the configuration again; a wrong one changes nothing.
    fn reload(&mut self) -> Result<(), String> {
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Reloading]);
        let result = self.try_reload();
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
        if let Err(e) = &result {
            let e = e.clone();
            self.note(Level::Error, "config.refused", || {
                format!("{e}; everything stays as it was")
            });
        }
        result
    }

    fn try_reload(&mut self) -> Result<(), String> {
        let config = Config::load(&self.file).map_err(|e| e.to_string())?;
        for (key, same) in [
            ("metrics.listen", config.metrics == self.config.metrics),
            ("paths.socket", config.socket == self.config.socket),
            ("paths.state", config.state == self.config.state),
        ] {
            if !same {
                let file = self.file.display();
                return Err(format!("{file}: {}", ReloadError::Fixed(key)));
            }
        }
        let now = self.now();
        self.host.reload(now, &config).map_err(|e| match e {
            ReloadError::Control(e) => refused_by_control(&self.file, &config, &e).to_string(),
            fixed => format!("{}: {fixed}", self.file.display()),
        })?;
        self.config = config;
        self.offer_discovery();
        if let Err(e) = self.store.save_good_config(&self.file) {
            self.unwritable(&e.to_string());
        }
        Ok(())
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
        if now.since(self.verified) >= VERIFY {
            self.verified = now;
            self.verify();
        }
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

    /// What the control has found out, anew from time to time and at the end.
    fn learn(&mut self, end: bool) {
        let now = self.now();
        let due = self.learned.as_ref().is_none_or(|(at, _)| now.since(*at) >= LEARN);
        if !(end || due && now.since(Time::ZERO) >= LEARN) {
            return;
        }
        if let Some(rate) = self.host.governor.learned() {
            let control = self.host.governor.mechanism().to_string();
            self.learned = Some((now, KeptLearning { control, rate: rate.0, at: wall_clock() }));
        }
    }

    fn kept(&self) -> Kept {
        let governor = &self.host.governor;
        let (now, wall) = (self.now(), wall_clock());
        let classes = governor.book().entries().map(|(n, c)| (n.to_owned(), c)).collect();
        let learned = self.learned.as_ref().map(|(_, l)| l.clone());
        let mut kept = Kept { classes, learned, ..Kept::default() };
        for member in governor.members() {
            for (d, way) in member.ways.iter().enumerate() {
                if let Some(o) = way.overridden {
                    kept.overrides.push(KeptOverride {
                        subscriber: member.subscriber.name.clone(),
                        direction: crate::governor::direction_name(d).to_owned(),
                        rate: o.rate.map(|r| r.0),
                        until: wall + o.until.since(now).as_secs_f64().round() as u64,
                    });
                }
            }
        }
        kept
    }

    fn save(&mut self) {
        self.saved = self.now();
        self.learn(false);
        let kept = self.kept();
        match self.store.save(&kept) {
            Ok(()) => self.save_failed = false,
            Err(e) => self.unwritable(&e.to_string()),
        }
    }

    fn unwritable(&mut self, e: &str) {
        // Once per trouble, not once per attempt.
        if !core::mem::replace(&mut self.save_failed, true) {
            let folder = self.config.state.display().to_string();
            self.note(Level::Warning, "state.unwritable", || {
                format!("{folder}: {e}; going on without keeping anything")
            });
        }
    }

    fn restore(&mut self, kept: &Kept) {
        let (now, wall) = (self.now(), wall_clock());
        let same = |l: &&KeptLearning| l.control == self.host.governor.mechanism().to_string();
        if let Some(l) = kept.learned.as_ref().filter(same)
            && wall.saturating_sub(l.at) < FORGET
        {
            self.learned = Some((now, l.clone()));
            self.host.governor.recall(now, BitRate(l.rate));
        }
        for o in kept.overrides.iter().filter(|o| o.until > wall) {
            let direction = if o.direction == "up" { Direction::Up } else { Direction::Down };
            let until = now + Span::from_secs(o.until - wall);
            let value = Override { rate: o.rate.map(BitRate), until };
            let governor = &mut self.host.governor;
            // Its subscriber may be gone.
            let _ = governor.set_override(now, &o.subscriber, &[direction], Some(value));
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
        Ok(result?)
    }
}

fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// CPU seconds and bytes of memory of this process.
fn resources() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses; clock ticks are hundredths of a second on Linux.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    let cpu = (ticks(11)? + ticks(12)?) / 100.0;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((cpu, kib * 1024.0))
}
