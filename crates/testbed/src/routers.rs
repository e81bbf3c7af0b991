//! The daemons of all routers inside an emulation: one `fairmesh-node` per wireless node.
//!
//! Their interface is a TAP device: no driver reports its neighbours or its channel. If the part of the control at a
//! router needs these reports, the router runs without control, which the record names.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairmesh_agent::daemon::socket::ask;
use fairmesh_agent::gateway::config::Mode;
use fairmesh_agent::gateway::exchange::new_key;
use fairmesh_agent::node::config::Config;
use fairmesh_agent::node::machine::Kernel;
use fairmesh_agent::node::offers::{self, Probe};
use fairmesh_agent::node::report::{Request, WhyReport};
use fairmesh_agent::node::rig::Decision;
use fairmesh_control::{Mechanism, Placement, StartError};
use fairmesh_emulator::{Network, Progress};
use fairmesh_engine::fair_rates;
use fairmesh_engine::record::{DecisionRecord, RunRecord};
use fairmesh_scenario::{NodeKind, Scenario, Transport};
use fairmesh_units::{NodeId, Span, Time};

use crate::error::{ScenarioProblem, TestbedError};
use crate::process::Program;
use crate::process::{Limits, Process};

/// Interval at which the status of each router is requested.
const STATUS_INTERVAL: Span = Span::from_secs(1);
/// Longest time that the mesh waits for all routers to respond.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the headers of IP and TCP.
const TCP_HEADERS: f64 = 40.0;
/// File name of a router's events, one JSON object per line.
pub(crate) const EVENTS: &str = "events.jsonl";
/// File name of a router's configuration.
pub(crate) const CONFIGURATION: &str = "node.toml";

/// One router.
#[derive(Debug)]
struct Router {
    node: NodeId,
    name: String,
    folder: PathBuf,
    process: Process,
    /// Decisions of its mechanism so far, and the time of the last one since its start, in s.
    decisions: Vec<DecisionRecord>,
    decided: f64,
}

/// The daemons of all routers of an emulation.
#[derive(Debug)]
pub struct Routers {
    all: Vec<Router>,
    control: String,
    program: Program,
    /// Router at which each flow starts.
    sources: Vec<usize>,
    limits: Limits,
    next_status: Time,
    /// Routers without the control, with the reason.
    notes: Vec<String>,
}

/// True if the control has a part that runs at routers, and not at gateways only.
pub fn at_routers(control: &Mechanism) -> bool {
    let elsewhere = |p: Placement| p != Placement::Gateway;
    control.all_needs().iter().any(|needs| needs.at.iter().any(elsewhere))
}

impl Routers {
    /// Prepares a daemon for each wireless node; nothing is started.
    ///
    /// `folder` exists; each router's files go into a folder below it. If the part of the
    /// control at a router cannot run on an emulated interface, the router runs without control.
    ///
    /// # Errors
    /// A control that no router can run, with everything that the routers lack; files that cannot be written.
    pub fn prepare(
        scenario: &Scenario,
        folder: &Path,
        mode: Mode,
        program: &Program,
    ) -> Result<Routers, TestbedError> {
        let refused = TestbedError::scenario(scenario.name());
        let control = scenario.control().to_string();
        let key = new_key().map_err(TestbedError::file(folder))?;
        let probe = emulated();
        let fair = match fair_rates(scenario) {
            Ok(fair) => fair.rates_bps,
            Err(e) => return Err(refused(e.into())),
        };
        let (mut all, mut notes) = (Vec::new(), Vec::new());
        let (mut runs, mut lacks) = (0, None);
        for (i, node) in scenario.nodes().iter().enumerate() {
            if node.kind != NodeKind::Wireless {
                continue;
            }
            let (id, own) = (NodeId(i as u32), folder.join(i.to_string()));
            std::fs::create_dir_all(&own).map_err(TestbedError::file(&own))?;
            let text = |with| configuration(scenario, &own, id, (mode, with), &fair);
            let read = |text: &str| {
                Config::parse(CONFIGURATION, text).map_err(Box::new).map_err(|problem| {
                    ScenarioProblem::Configuration { control: control.clone(), problem }
                })
            };
            let (mut with, config) = (text(true), read(&text(true)));
            let config = match config {
                Ok(config) => config,
                Err(problem) => return Err(refused(problem)),
            };
            match offers::trial(&config, probe) {
                Ok(()) => runs += 1,
                Err(e) => {
                    with = text(false);
                    // A node at which the control has no part lacks nothing.
                    if !matches!(e, StartError::Elsewhere { .. }) {
                        notes.push(format!("node {} runs without control: {e}", node.name));
                    }
                    lacks.get_or_insert(e);
                }
            }
            let file = own.join(CONFIGURATION);
            std::fs::write(&file, with).map_err(TestbedError::file(&file))?;
            let file = own.join("node.key");
            let written =
                File::options().create(true).write(true).truncate(true).mode(0o600).open(&file);
            written
                .and_then(|mut f| f.write_all(key.as_bytes()))
                .map_err(TestbedError::file(&file))?;
            let process = Process::new(format!("the daemon of node {}", node.name));
            let name = node.name.clone();
            let (decisions, decided) = (Vec::new(), -1.0);
            all.push(Router { node: id, name, folder: own, process, decisions, decided });
        }
        if let Some(problem) = lacks.filter(|_| runs == 0) {
            let problem = Box::new(problem);
            return Err(refused(ScenarioProblem::NoRouter { control, problem }));
        }
        let source = |f: &fairmesh_scenario::Flow| {
            all.iter().position(|r| r.node == f.from).unwrap_or(usize::MAX)
        };
        let sources = scenario.flows().iter().map(source).collect();
        Ok(Routers {
            all,
            control,
            program: program.clone(),
            sources,
            limits: Limits::default(),
            next_status: Time::ZERO,
            notes,
        })
    }

    /// Starts all daemons in their namespaces, and waits until they respond.
    ///
    /// `stop` ends the wait. Their messages need the radio, so that the control starts some seconds after time zero.
    pub fn enter(&mut self, network: &Network, stop: &AtomicBool) {
        for router in &mut self.all {
            let file = router.folder.join(CONFIGURATION);
            router.process.enter(network, router.node, &self.program, &file);
            router.process.launch();
        }
        let until = Instant::now() + START_TIMEOUT;
        for router in &mut self.all {
            while router.why().is_none() && router.process.is_running() {
                if Instant::now() > until || stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Samples limits and decisions once per second.
    pub fn watch(&mut self, p: &Progress) {
        for router in &mut self.all {
            router.process.note_time(p.now);
        }
        if p.now < self.next_status {
            return;
        }
        self.next_status = p.now + STATUS_INTERVAL;
        let limit = |router: &mut Router| {
            let why = router.process.check().then(|| router.why()).flatten()?;
            router.decide(p.now, &why);
            why.limit?.bits_per_second.map(|bits| bits as f64)
        };
        let limits: Vec<Option<f64>> = self.all.iter_mut().map(limit).collect();
        let of = |source: &usize| limits.get(*source).copied().flatten();
        self.limits.add(p.now, self.sources.iter().map(of).collect());
    }

    /// Ends the daemons; adds their decisions, limits, control and problems to the record.
    ///
    /// # Errors
    /// Events that cannot be written.
    pub fn finish(mut self, record: &mut RunRecord) -> Result<(), TestbedError> {
        let mut problems = Vec::new();
        for router in &mut self.all {
            let (events, decisions) = router.process.finish(&router.name, record.duration_s);
            record.decisions.extend(decisions.into_iter().chain(router.decisions.drain(..)));
            let file = router.folder.join(EVENTS);
            std::fs::write(&file, events).map_err(TestbedError::file(&file))?;
            problems.extend(router.process.problem.take());
        }
        record.decisions.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
        record.control = format!("{} {}", record.control, self.control);
        let series = &mut record.series;
        series.limit_bps = self.limits.curves(&series.time_s, series.limit_bps.len());
        if let Some(e) = record.emulation.as_mut() {
            e.valid &= problems.is_empty();
            e.problems.append(&mut problems);
            e.notes.append(&mut self.notes);
        }
        Ok(())
    }
}

/// Returns the folders of the routers in a folder, with the routers' numbers in the scenario.
pub(crate) fn folders(folder: &Path) -> Vec<(usize, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
    let mut all: Vec<(usize, PathBuf)> =
        entries.filter_map(|e| Some((number(e.file_name())?, e.path()))).collect();
    all.sort();
    all
}

impl Router {
    fn why(&self) -> Option<WhyReport> {
        let answer = ask(&self.folder.join("node.sock"), &Request::Why).ok()?;
        serde_json::from_value(answer).ok()
    }

    /// Keeps the decisions that are new at a time of the run.
    fn decide(&mut self, now: Time, why: &WhyReport) {
        let new = why.decisions.iter().filter(|d| d.at > self.decided);
        let record = |d: &Decision| DecisionRecord {
            time_s: (now.as_secs_f64() - (why.uptime_seconds - d.at)).max(0.0),
            node: self.name.clone(),
            code: d.code.clone().into(),
            reason: d.text.clone(),
            flow: None,
            rate_bps: None,
        };
        self.decisions.extend(new.map(record));
        self.decided = why.decisions.last().map_or(self.decided, |d| d.at);
    }
}

/// Returns what a TAP device offers on this kernel.
fn emulated() -> Probe {
    let programs = Kernel::new(&[], Box::new(|| true)).programs().is_ok();
    Probe { programs, ..Probe::default() }
}

/// Writes the configuration of a router; `with`: with the scenario's control.
///
/// A guarantee that the control takes from fair rates in the simulator is written as a rate.
fn configuration(
    scenario: &Scenario,
    folder: &Path,
    node: NodeId,
    (mode, with): (Mode, bool),
    fair: &[f64],
) -> String {
    let quoted = |s: &str| serde_json::Value::from(s).to_string();
    let path = |name: &str| quoted(&folder.join(name).display().to_string());
    let gateway = scenario.gateways().list().contains(&node);
    let phy = &scenario.mac().phy;
    let rates = scenario.links().iter().filter(|l| l.from == node);
    let rates = rates.map(|l| phy.bit_rate(l.rate.unwrap_or(scenario.mac().rate)));
    let rate = rates.max().unwrap_or(phy.bit_rate(scenario.mac().rate));
    let mut out = format!(
        "# Written by fairmesh emulate for the scenario {}, node {}.\nmode = \"{}\"\n\
         interfaces = [\"mesh0\"]\nrouting = \"layer3\"\nrole = \"{}\"\nnumber = {}\nrate = \"{rate}\"\n\
         key = {}\n",
        quoted(scenario.name()),
        quoted(&scenario.nodes()[node.index()].name),
        mode.name(),
        if gateway { "gateway" } else { "router" },
        node.0 + 1,
        path("node.key"),
    );
    if with {
        let control = scenario.control();
        let _ = writeln!(out, "\n[control]\nuse = {}", quoted(&control.to_string()));
        for (parameter, value) in control.changed() {
            let _ = writeln!(out, "{} = {value:?}", parameter.name);
        }
        // In IP bytes, and only the part that the mesh reaches.
        let part = control.value("efficiency").unwrap_or(1.0);
        let bytes = |f: &fairmesh_scenario::Flow| match &f.transport {
            Transport::Tcp(tcp) => 1.0 + TCP_HEADERS / f64::from(tcp.mss),
            Transport::Quic(_) | Transport::Udp => 1.0,
        };
        let fair =
            || scenario.flows().iter().zip(fair).map(|(f, rate)| (f.from, part * bytes(f) * rate));
        let own = fair().filter(|(from, _)| *from == node);
        let own: f64 = own.map(|(_, rate)| rate).sum();
        // A relay keeps nothing for itself, but the key is needed.
        let least =
            fair().map(|(_, rate)| rate).filter(|rate| *rate > 0.0).fold(f64::INFINITY, f64::min);
        let rate = if own > 0.0 { own } else { least };
        if control.value("guarantee") == Some(0.0) && rate.is_finite() {
            let _ = writeln!(out, "guarantee = {:.3}", rate / 1e3);
        }
    }
    let _ = write!(out, "\n[paths]\nsocket = {}\nstate = {}\n", path("node.sock"), path("state"));
    out
}
