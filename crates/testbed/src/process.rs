//! The process of a daemon inside an emulation, and the events that it prints.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairmesh_emulator::Network;
use fairmesh_engine::record::DecisionRecord;
use fairmesh_units::{NodeId, Time};
use serde::Deserialize;

use crate::error::TestbedError;

/// Program and leading arguments of the daemon, before `run --json --config FILE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Path of the executable.
    pub file: PathBuf,
    /// Arguments that select the daemon, such as `gateway` for the program `fairmesh`.
    pub arguments: Vec<String>,
}

/// Programs of the daemons of an emulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    /// The gateway's daemon.
    pub gateway: Program,
    /// The daemon of a router.
    pub router: Program,
}

impl Programs {
    /// Returns this process's executable with the arguments `gateway` and `node`.
    ///
    /// # Errors
    /// An executable without a path that the system reports.
    pub fn this() -> Result<Self, TestbedError> {
        let file =
            std::env::current_exe().map_err(TestbedError::file(Path::new("/proc/self/exe")))?;
        let of = |word: &str| Program { file: file.clone(), arguments: vec![word.to_owned()] };
        Ok(Programs { gateway: of("gateway"), router: of("node") })
    }
}

/// A daemon's process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Name in messages, such as "the gateway's daemon".
    label: String,
    command: Option<Command>,
    child: Option<Child>,
    reader: Option<JoinHandle<()>>,
    /// Lines of its standard error, with the time of arrival.
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    /// One instant, by the system's clock and by the run's.
    clock: Option<(Instant, Time)>,
    /// First problem, for the record.
    pub problem: Option<String>,
}

/// An event as the daemons print it with `--json`.
#[derive(Deserialize)]
struct DaemonEvent {
    code: String,
    level: String,
    text: String,
}

impl Process {
    /// Returns a process that is not bound to a namespace yet.
    pub fn new(label: String) -> Process {
        Process {
            label,
            command: None,
            child: None,
            reader: None,
            lines: Arc::default(),
            clock: None,
            problem: None,
        }
    }

    /// Binds it to the namespace of a node.
    pub fn enter(&mut self, network: &Network, node: NodeId, program: &Program, file: &Path) {
        let namespace = &network.namespaces[node.index()];
        let mut command = namespace.command(&program.file.to_string_lossy());
        command
            .args(&program.arguments)
            .args(["run", "--json", "--config"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        self.command = Some(command);
    }

    /// Starts it.
    pub fn launch(&mut self) {
        let Some(mut command) = self.command.take() else { return };
        match command.spawn() {
            Err(e) => self.problem = Some(format!("{} cannot be started: {e}", self.label)),
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

    /// Records the run's clock for the times of events.
    pub fn note_time(&mut self, now: Time) {
        self.clock = Some((Instant::now(), now));
    }

    /// True if it has been started and has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|c| matches!(c.try_wait(), Ok(None)))
    }

    /// Returns true if it runs; an early end becomes its problem.
    pub fn check(&mut self) -> bool {
        let Some(child) = self.child.as_mut() else { return false };
        let Ok(Some(status)) = child.try_wait() else { return true };
        self.drain_output();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last = lines.last().map_or("", |(_, line)| line);
        let problem = format!("{} ended early ({status}); its last line was {last:?}", self.label);
        self.problem.get_or_insert(problem);
        false
    }

    /// Ends it; returns its events until `end_s` as lines of JSON and as decisions of `node`.
    pub fn finish(&mut self, node: &str, end_s: f64) -> (String, Vec<DecisionRecord>) {
        self.stop();
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut kept, mut decisions) = (String::new(), Vec::new());
        let mut keep = |line: serde_json::Value| {
            kept += &line.to_string();
            kept.push('\n');
        };
        for (at, line) in &lines {
            let time_s =
                self.clock.map_or(0.0, |(instant, now)| now.as_secs_f64() + signed(*at, instant));
            // Lines written during the start belong to time zero.
            let time_s = time_s.max(0.0);
            // After the end the mesh is removed under the daemon and its guard.
            if time_s > end_s {
                continue;
            }
            match serde_json::from_str::<DaemonEvent>(line) {
                Ok(event) => {
                    keep(serde_json::json!({
                        "time_s": time_s, "code": event.code, "level": event.level, "text": event.text
                    }));
                    decisions.push(DecisionRecord {
                        time_s,
                        node: node.to_owned(),
                        code: event.code.into(),
                        reason: event.text,
                        flow: None,
                        rate_bps: None,
                    });
                }
                // Not an event: the error line of a daemon that cannot start.
                Err(_) => {
                    keep(serde_json::json!({ "text": line }));
                    self.problem.get_or_insert(line.clone());
                }
            }
        }
        (kept, decisions)
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Usually the end of its namespace has ended it already.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.drain_output();
    }

    /// Reads its output to the end, at most for 2 s.
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

impl Drop for Process {
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

/// Limits of flows by time, sampled from a daemon's status.
#[derive(Debug, Default)]
pub(crate) struct Limits(Vec<(Time, Vec<Option<f64>>)>);

impl Limits {
    /// Adds the limit of each flow at a time, in bit/s.
    pub fn add(&mut self, now: Time, limits: Vec<Option<f64>>) {
        self.0.push((now, limits));
    }

    /// Returns the curve of each flow at these instants; a flow without a limit has none.
    pub fn curves(&self, time_s: &[f64], flows: usize) -> Vec<Vec<f64>> {
        let of = |f: usize| {
            let at = |t: &f64| {
                let before = self.0.iter().rev().find(|l| l.0.as_secs_f64() <= *t);
                before.and_then(|l| l.1[f])
            };
            let all: Vec<Option<f64>> = time_s.iter().map(at).collect();
            // A curve has no gaps: it begins where the first limit was set.
            let Some(mut last) = all.iter().flatten().next().copied() else { return Vec::new() };
            let mut hold = |limit: Option<f64>| {
                last = limit.unwrap_or(last);
                last
            };
            all.into_iter().map(&mut hold).collect()
        };
        (0..flows).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::Span;

    use super::*;

    #[test]
    fn a_curve_begins_with_the_first_limit_and_has_no_gaps() {
        let mut limits = Limits::default();
        for (s, limit) in [(1, None), (2, Some(5.0)), (3, None), (4, Some(7.0))] {
            limits.add(Time::ZERO + Span::from_secs(s), vec![limit, None]);
        }
        let curves = limits.curves(&[0.5, 1.5, 2.5, 3.5, 4.5], 2);
        assert_eq!(curves, [vec![5.0, 5.0, 5.0, 5.0, 7.0], vec![]]);
        assert_eq!(Limits::default().curves(&[0.5], 1), [Vec::<f64>::new()]);
    }
}
