//! One gateway daemon inside an emulation: its process, its status and its events.
//!
//! The daemon runs in the gateway's namespace and sees the same as a gateway: two interfaces, the addresses
//! of its subscribers, the rates of its own links.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairmesh_agent::gateway::config::Config;
use fairmesh_agent::gateway::governor::Governor;
use fairmesh_agent::gateway::report::Status;
use fairmesh_agent::gateway::request::{Request, ask};
use fairmesh_emulator::{Network, Progress};
use fairmesh_engine::record::{DecisionRecord, RunRecord};
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Span, Time};
use serde::Deserialize;

use crate::configuration::{CONFIGURATION, EVENTS, Owner, configuration, owners, the_gateway};
use crate::error::{ScenarioProblem, TestbedError};

/// Interval at which the daemon's status is requested.
const STATUS_INTERVAL: Span = Span::from_secs(1);

/// Longest time that the mesh waits for the daemon to reach the phase `running`.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Program and leading arguments of the daemon, before `run --json --config FILE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Path of the executable.
    pub file: PathBuf,
    /// Arguments that select the daemon, such as `gateway` for the program `fairmesh`.
    pub arguments: Vec<String>,
}

impl Program {
    /// Returns this process's executable with the argument `gateway`.
    ///
    /// # Errors
    /// An executable without a path that the system reports.
    pub fn this() -> Result<Self, TestbedError> {
        let file =
            std::env::current_exe().map_err(TestbedError::file(Path::new("/proc/self/exe")))?;
        Ok(Program { file, arguments: vec!["gateway".to_owned()] })
    }
}

/// A daemon of an emulation.
///
/// It is checked and configured by [`Daemon::prepare`], then started and observed.
#[derive(Debug)]
pub struct Daemon {
    gateway: NodeId,
    /// Name of the gateway's node.
    name: String,
    /// Name of the control that the daemon runs.
    control: String,
    program: Program,
    flows: Vec<Owner>,
    folder: PathBuf,
    start: Option<Time>,
    command: Option<Command>,
    child: Option<Child>,
    reader: Option<JoinHandle<()>>,
    /// Lines of the daemon's standard error, with the time of arrival.
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    /// The same instant by the system's clock and by the run's.
    clock: Option<(Instant, Time)>,
    next_status: Time,
    /// Limit per flow in bit/s, by time.
    limits: Vec<(Time, Vec<Option<f64>>)>,
    problem: Option<String>,
}

/// An event as the daemon prints it with `--json`.
#[derive(Deserialize)]
struct DaemonEvent {
    code: String,
    level: String,
    text: String,
}

impl Daemon {
    /// Prepares a daemon that runs the scenario's control and starts at the time `at` of the run.
    ///
    /// `folder` exists; the daemon's files go there.
    ///
    /// # Errors
    /// A scenario without a gateway or without a wire at it, or a control that the daemon refuses.
    pub fn prepare(
        scenario: &Scenario,
        folder: &Path,
        at: Time,
        program: &Program,
    ) -> Result<Self, TestbedError> {
        let refused = TestbedError::scenario(scenario.name());
        let (gateway, text) = match Self::configure(scenario, folder) {
            Ok(configured) => configured,
            Err(problem) => return Err(refused(problem)),
        };
        let file = folder.join(CONFIGURATION);
        std::fs::write(&file, &text).map_err(TestbedError::file(&file))?;
        Ok(Daemon {
            gateway,
            name: scenario.nodes()[gateway.index()].name.clone(),
            control: scenario.control().to_string(),
            program: program.clone(),
            flows: owners(scenario, gateway),
            folder: folder.to_owned(),
            start: Some(at),
            command: None,
            child: None,
            reader: None,
            lines: Arc::default(),
            clock: None,
            next_status: Time::ZERO,
            limits: Vec::new(),
            problem: None,
        })
    }

    /// Writes the configuration and has the daemon's reader and its control accept it.
    fn configure(scenario: &Scenario, folder: &Path) -> Result<(NodeId, String), ScenarioProblem> {
        let text = configuration(scenario, folder)?;
        let control = || scenario.control().to_string();
        let config = Config::parse("the daemon's configuration", &text)
            .map_err(Box::new)
            .map_err(|problem| ScenarioProblem::Configuration { control: control(), problem })?;
        Governor::trial(&config)
            .map_err(Box::new)
            .map_err(|problem| ScenarioProblem::Control { control: control(), problem })?;
        Ok((the_gateway(scenario)?, text))
    }

    /// Binds the daemon to the gateway's namespace; starts it if its start time is zero.
    ///
    /// A daemon that starts at time zero is waited for, so that the run begins under its limits;
    /// `stop` ends the wait.
    pub fn enter(&mut self, network: &Network, stop: &AtomicBool) {
        let namespace = &network.namespaces[self.gateway.index()];
        let mut command = namespace.command(&self.program.file.to_string_lossy());
        command
            .args(&self.program.arguments)
            .args(["run", "--json", "--config"])
            .arg(self.folder.join(CONFIGURATION))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        self.command = Some(command);
        if self.start == Some(Time::ZERO) {
            self.launch();
            self.wait_until_running(stop);
        }
    }

    /// Waits for the phase `running`.
    ///
    /// A daemon that ends instead is reported by [`Daemon::watch`].
    fn wait_until_running(&mut self, stop: &AtomicBool) {
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until && self.status().is_none_or(|s| s.phase != "running") {
            let ended = self.child.as_mut().is_none_or(|c| !matches!(c.try_wait(), Ok(None)));
            if ended || stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn status(&self) -> Option<Status> {
        let answer = ask(&self.folder.join("gateway.sock"), &Request::Status).ok()?;
        serde_json::from_value(answer).ok()
    }

    fn launch(&mut self) {
        self.start = None;
        let Some(mut command) = self.command.take() else { return };
        match command.spawn() {
            Err(e) => self.problem = Some(format!("the gateway's daemon cannot be started: {e}")),
            Ok(mut child) => {
                let lines = self.lines.clone();
                self.reader = child.stderr.take().map(|err| {
                    std::thread::spawn(move || {
                        for line in BufReader::new(err).lines().map_while(Result::ok) {
                            let mut all = lines.lock().unwrap_or_else(PoisonError::into_inner);
                            all.push((Instant::now(), line));
                        }
                    })
                });
                self.child = Some(child);
            }
        }
    }

    /// Starts the daemon when its start time has come; samples its limits once per second.
    pub fn watch(&mut self, p: &Progress) {
        self.clock = Some((Instant::now(), p.now));
        if self.start.is_some_and(|at| p.now >= at) {
            self.launch();
            self.next_status = p.now + STATUS_INTERVAL;
        }
        let Some(child) = self.child.as_mut().filter(|_| p.now >= self.next_status) else { return };
        self.next_status = p.now + STATUS_INTERVAL;
        if let Ok(Some(status)) = child.try_wait() {
            self.drain_output();
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let last = lines.last().map_or("", |(_, line)| line);
            let problem =
                format!("the gateway's daemon ended early ({status}); its last line was {last:?}");
            self.problem.get_or_insert(problem);
            return;
        }
        let Some(status) = self.status() else { return };
        let limit = |of: &Owner| {
            let (name, direction) = of.as_ref()?;
            let subscriber = status.subscribers.iter().find(|s| s.name == *name)?;
            let state = subscriber.directions.iter().find(|w| w.direction == *direction)?;
            state.limit_bits_per_second.map(|b| b as f64)
        };
        self.limits.push((p.now, self.flows.iter().map(limit).collect()));
    }

    /// Ends the daemon; adds its decisions, limits, control and problems to the record.
    ///
    /// Its events and its configuration stay in the folder.
    ///
    /// # Errors
    /// Events that cannot be written.
    pub fn finish(mut self, record: &mut RunRecord) -> Result<(), TestbedError> {
        self.stop();
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let file = self.folder.join(EVENTS);
        let mut kept = String::new();
        for (at, line) in &lines {
            let time_s =
                self.clock.map_or(0.0, |(instant, now)| now.as_secs_f64() + signed(*at, instant));
            // Lines written during the start belong to time zero.
            let time_s = time_s.max(0.0);
            // After the end the mesh is removed under the daemon and its guard.
            if time_s > record.duration_s {
                continue;
            }
            match serde_json::from_str::<DaemonEvent>(line) {
                Ok(event) => {
                    let line = serde_json::json!({
                        "time_s": time_s, "code": event.code, "level": event.level, "text": event.text
                    });
                    let _ = writeln!(kept, "{line}");
                    record.decisions.push(DecisionRecord {
                        time_s,
                        node: self.name.clone(),
                        code: event.code.into(),
                        reason: event.text,
                        flow: None,
                        rate_bps: None,
                    });
                }
                // Not an event: the error line of a daemon that cannot start.
                Err(_) => {
                    let _ = writeln!(kept, "{}", serde_json::json!({ "text": line }));
                    self.problem.get_or_insert(line.clone());
                }
            }
        }
        std::fs::write(&file, kept).map_err(TestbedError::file(&file))?;
        record.control = format!("{} {}", record.control, self.control);
        let series = &mut record.series;
        for (f, curve) in series.limit_bps.iter_mut().enumerate() {
            let at = |t: &f64| {
                let before = self.limits.iter().rev().find(|l| l.0.as_secs_f64() <= *t);
                before.and_then(|l| l.1[f])
            };
            let all: Vec<Option<f64>> = series.time_s.iter().map(at).collect();
            // A curve has no gaps: it begins where the first limit was set.
            let first = all.iter().flatten().next().copied();
            *curve = first.map_or(Vec::new(), |first| {
                let hold = |last: &mut f64, l: &Option<f64>| {
                    *last = l.unwrap_or(*last);
                    Some(*last)
                };
                all.iter().scan(first, hold).collect()
            });
        }
        if let (Some(problem), Some(e)) = (&self.problem, record.emulation.as_mut()) {
            e.valid = false;
            e.problems.push(problem.clone());
        }
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Usually the end of its namespace has ended it already.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.drain_output();
    }

    /// Reads the daemon's output to its end, at most for 2 s.
    ///
    /// The guard holds the pipe a little longer than the daemon.
    fn drain_output(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while let Some(reader) = self.reader.take_if(|r| !r.is_finished()) {
            if Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            self.reader = Some(reader);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the seconds from `b` to `a`.
fn signed(a: Instant, b: Instant) -> f64 {
    match a.checked_duration_since(b) {
        Some(d) => d.as_secs_f64(),
        None => -b.duration_since(a).as_secs_f64(),
    }
}
