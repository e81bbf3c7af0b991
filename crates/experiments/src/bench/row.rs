//! One measurement: a scenario, run once in this process, or in a child.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fairmesh_lab::LabError;
use fairmesh_lab::batch;
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::scale;
use crate::validation::reference::{Case, read};
use crate::validation::scenario;

/// Cost of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// The row.
    pub row: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes that sense a node, on average.
    pub mean_neighbours: f64,
    /// Simulated time.
    pub simulated_s: f64,
    /// PHY transmissions of every kind.
    pub transmissions: u64,
    /// MPDUs in them: the number of MPDUs of an A-MPDU, and one for every other frame.
    pub mpdus: u64,
    /// Packets that reached their endpoints.
    pub delivered: u64,
    /// Engine events.
    pub events: u64,
    /// CPU time of the simulation, user and system.
    pub cpu_s: f64,
    /// Peak memory of the process, KiB.
    pub peak_kib: i64,
    /// Fingerprint of the run.
    pub fingerprint: String,
}

impl Cost {
    /// Returns MPDUs per CPU-second.
    pub fn speed(&self) -> f64 {
        self.mpdus as f64 / self.cpu_s.max(1e-9)
    }
}

/// Returns the scenario of a row, which is a tag of `cost.json` or `scale:N`.
///
/// `seconds` replaces its simulated time.
///
/// # Errors
/// Returns an error if there is no such row.
pub fn scenario(folder: &Path, row: &str, seconds: Option<f64>) -> Result<Scenario, LabError> {
    if let Some(nodes) = row.strip_prefix("scale:") {
        let nodes = nodes
            .parse()
            .map_err(|_| LabError::setting("row", format!("\"{row}\": expected scale:NODES")))?;
        return Ok(scale::draft(nodes, seconds.unwrap_or(10.0)).build()?);
    }
    let cases: Vec<Case> = read(folder, "cost.json")?;
    let case = cases.iter().find(|c| c.tag == row).ok_or_else(|| {
        let known: Vec<&str> = cases.iter().map(|c| c.tag.as_str()).collect();
        let problem = format!("there is no row \"{row}\"; expected one of {}", known.join(", "));
        LabError::setting("row", problem)
    })?;
    let s = scenario::build(folder, case)?;
    let Some(seconds) = seconds else { return Ok(s) };
    let warmup = s.warmup().min(Span::from_secs_f64(seconds / 10.0));
    Ok(s.with_times(Span::from_secs_f64(seconds), warmup)?)
}

/// Runs a scenario with seed 1 and measures this process.
///
/// # Errors
/// Returns an error if the engine rejects the scenario.
pub fn measure(row: &str, s: &Scenario) -> Result<Cost, LabError> {
    let before = cpu()?;
    let record = batch::once(s, 1, None)?;
    let cpu = cpu()? - before;
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(no_clock)?;
    let wireless = s.wireless().count();
    Ok(Cost {
        row: row.to_owned(),
        nodes: s.nodes().len(),
        mean_neighbours: s.sensed_pairs().len() as f64 / wireless.max(1) as f64,
        simulated_s: s.duration().as_secs_f64(),
        transmissions: record.totals.transmissions,
        mpdus: record.totals.transmissions - record.totals.mac.data + record.totals.mac.mpdus,
        delivered: record.totals.delivered,
        events: record.totals.events,
        cpu_s: cpu.as_secs_f64(),
        peak_kib: usage.max_rss(),
        fingerprint: record.fingerprint,
    })
}

/// Returns the CPU time of this process.
///
/// Its resolution is finer than that of the user and system times of `getrusage`; a run makes
/// almost no system calls.
fn cpu() -> Result<Duration, LabError> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_err(no_clock)?.into())
}

fn no_clock(e: nix::errno::Errno) -> LabError {
    LabError::run("bench", format!("this machine does not report CPU time: {e}"))
}

/// Returns the command for a measurement in a separate process.
///
/// # Errors
/// Returns an error if this program cannot be found.
pub fn child(folder: &Path, row: &str, seconds: Option<f64>) -> Result<Command, LabError> {
    let program = std::env::current_exe().map_err(|e| LabError::file("fairmesh", e))?;
    let mut c = Command::new(program);
    c.arg("bench-row").arg(row).arg("--reference").arg(folder);
    if let Some(seconds) = seconds {
        c.arg("--seconds").arg(seconds.to_string());
    }
    Ok(c)
}

/// Measures in a separate process.
///
/// # Errors
/// Returns an error if it cannot be started, or fails.
pub fn in_child(folder: &Path, row: &str, seconds: Option<f64>) -> Result<Cost, LabError> {
    let output =
        child(folder, row, seconds)?.output().map_err(|e| LabError::file("fairmesh", e))?;
    if !output.status.success() {
        return Err(LabError::run(row, String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| LabError::run(row, e))
}

/// Returns the simulated time after which a row has cost about `cpu` seconds, in s.
///
/// It is at least `own`, because short runs would measure the warm-up of the cache.
///
/// # Errors
/// Returns the errors of [`in_child`].
pub fn long_enough(folder: &Path, row: &str, own: f64, cpu: f64) -> Result<f64, LabError> {
    let trial = in_child(folder, row, Some(own))?;
    let factor = (cpu / trial.cpu_s.max(1e-4)).clamp(1.0, 1000.0);
    Ok((own * factor).ceil())
}
