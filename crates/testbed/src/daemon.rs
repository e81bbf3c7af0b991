//! The gateway's daemon inside an emulation: its configuration, its status and its limits.
//!
//! The daemon runs in the gateway's namespace and sees the same as a gateway: two interfaces, the addresses
//! of its subscribers, the rates of its own links.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairmesh_agent::gateway::config::{Config, Mode};
use fairmesh_agent::gateway::governor::Governor;
use fairmesh_agent::gateway::report::Status;
use fairmesh_agent::gateway::request::{Request, ask};
use fairmesh_emulator::{Network, Progress};
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Span, Time};

use crate::configuration::{CONFIGURATION, EVENTS, Owner, configuration, owners, the_gateway};
use crate::error::{ScenarioProblem, TestbedError};
use crate::process::{Limits, Process, Program};

/// Interval at which the daemon's status is requested.
const STATUS_INTERVAL: Span = Span::from_secs(1);

/// Longest time that the mesh waits for the daemon to reach the phase `running`.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The gateway's daemon of an emulation.
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
    process: Process,
    next_status: Time,
    limits: Limits,
}

impl Daemon {
    /// Prepares a daemon that runs the scenario's control and starts at the time `at` of the run.
    ///
    /// `folder` exists; the daemon's files go there. In mode "observe" it sets no limit.
    ///
    /// # Errors
    /// A scenario without a gateway or without a wire at it, or a control that the daemon refuses.
    pub fn prepare(
        scenario: &Scenario,
        folder: &Path,
        (at, mode): (Time, Mode),
        program: &Program,
    ) -> Result<Self, TestbedError> {
        let refused = TestbedError::scenario(scenario.name());
        let (gateway, text) = match Self::configure(scenario, folder, mode) {
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
            process: Process::new("the gateway's daemon".to_owned()),
            next_status: Time::ZERO,
            limits: Limits::default(),
        })
    }

    /// Writes the configuration and has the daemon's reader and its control accept it.
    fn configure(
        scenario: &Scenario,
        folder: &Path,
        mode: Mode,
    ) -> Result<(NodeId, String), ScenarioProblem> {
        let text = configuration(scenario, folder, mode)?;
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
        let file = self.folder.join(CONFIGURATION);
        self.process.enter(network, self.gateway, &self.program, &file);
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
            if !self.process.is_running() || stop.load(Ordering::Relaxed) {
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
        self.process.launch();
    }

    /// Starts the daemon when its start time has come; samples its limits once per second.
    pub fn watch(&mut self, p: &Progress) {
        self.process.note_time(p.now);
        if self.start.is_some_and(|at| p.now >= at) {
            self.launch();
            self.next_status = p.now + STATUS_INTERVAL;
        }
        if p.now < self.next_status {
            return;
        }
        self.next_status = p.now + STATUS_INTERVAL;
        if !self.process.check() {
            return;
        }
        let Some(status) = self.status() else { return };
        let limit = |of: &Owner| {
            let (name, direction) = of.as_ref()?;
            let subscriber = status.subscribers.iter().find(|s| s.name == *name)?;
            let state = subscriber.directions.iter().find(|w| w.direction == *direction)?;
            state.limit_bits_per_second.map(|b| b as f64)
        };
        self.limits.add(p.now, self.flows.iter().map(limit).collect());
    }

    /// Ends the daemon; adds its decisions, limits, control and problems to the record.
    ///
    /// Its events and its configuration stay in the folder.
    ///
    /// # Errors
    /// Events that cannot be written.
    pub fn finish(mut self, record: &mut RunRecord) -> Result<(), TestbedError> {
        let (events, decisions) = self.process.finish(&self.name, record.duration_s);
        record.decisions.extend(decisions);
        let file = self.folder.join(EVENTS);
        std::fs::write(&file, events).map_err(TestbedError::file(&file))?;
        record.control = format!("{} {}", record.control, self.control);
        let series = &mut record.series;
        series.limit_bps = self.limits.curves(&series.time_s, series.limit_bps.len());
        if let (Some(problem), Some(e)) = (&self.process.problem, record.emulation.as_mut()) {
            e.valid = false;
            e.problems.push(problem.clone());
        }
        Ok(())
    }
}
