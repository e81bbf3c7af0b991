//! From the declaration to runs.

use fairmesh_lab::changes::with_control;
use fairmesh_lab::{LabError, Pool, batch};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_units::Span;

use super::declare::{Declaration, Topology, time};
use crate::reproduce::catalogue::Catalogue;

/// What the command line chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// A quick look.
    pub quick: bool,
    /// Seeds instead of the declaration's.
    pub seeds: Option<u32>,
}

/// Everything that is run.
#[derive(Debug)]
pub struct Plan {
    /// The declaration.
    pub declaration: Declaration,
    /// The topologies that run.
    pub topologies: Vec<Topology>,
    /// Seeds 1 to this.
    pub seeds: u32,
    /// By section, case, topology; `None` where the control has no node to run at.
    scenarios: Vec<Vec<Vec<Option<Scenario>>>>,
}

/// What one seed gave.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Goodput of each flow, bit/s.
    pub goodput: Vec<f64>,
    /// Mean over flows of the mean one-way delay of their data, ms; `None` where nothing arrived.
    pub delay_ms: Option<f64>,
    /// MPDUs per data frame, over all nodes.
    pub per_frame: f64,
    /// The run's fingerprint.
    pub fingerprint: u64,
}

/// One reading per seed; `None` where nothing ran.
pub type Outcome = Option<Vec<Reading>>;

impl Plan {
    /// Builds every scenario.
    ///
    /// # Errors
    /// What is wrong with the declaration or a scenario of it.
    pub fn of(catalogue: &Catalogue, choice: Choice) -> Result<Self, LabError> {
        let declaration = Declaration::read(catalogue)?;
        let runs = |t: &&Topology| !choice.quick || declaration.quick.topologies.contains(&t.label);
        let topologies: Vec<Topology> =
            declaration.topologies.iter().filter(runs).cloned().collect();
        let wanted = if choice.quick { declaration.quick.seeds } else { declaration.seeds };
        let seeds = choice.seeds.unwrap_or(wanted);
        let bad = |e: String| LabError::file(catalogue.shown(super::DECLARATION), e);
        let mut scenarios = Vec::new();
        for section in &declaration.sections {
            let (duration, warmup) = match choice.quick {
                true => {
                    let all = time(&declaration.quick.duration).map_err(bad)?;
                    (all, Span::from_nanos(all.as_nanos() / 2))
                }
                false => {
                    (time(&section.duration).map_err(bad)?, time(&section.warmup).map_err(bad)?)
                }
            };
            let mut of_section = Vec::new();
            for case in &section.cases {
                let parts = declaration.of(case).map_err(bad)?;
                let mut row = Vec::new();
                for t in &topologies {
                    let text = parts.scenario(t, duration, warmup);
                    let name = format!("{} on {}", case.label, t.label);
                    let scenario = parse(&name, text.as_bytes(), &ImportOptions::default())?;
                    let scenario = with_control(&scenario, &parts.control)?;
                    let idle = !scenario.control().is_none()
                        && fairmesh_engine::controlled_nodes(&scenario) == 0;
                    row.push((!idle).then_some(scenario));
                }
                of_section.push(row);
            }
            scenarios.push(of_section);
        }
        Ok(Plan { declaration, topologies, seeds, scenarios })
    }

    /// Runs everything: outcomes by section, case, topology.
    ///
    /// # Errors
    /// A run that the engine refuses.
    pub fn run(&self, pool: &Pool<'_>) -> Result<Vec<Vec<Vec<Outcome>>>, LabError> {
        let all: Vec<&Scenario> = self.scenarios.iter().flatten().flatten().flatten().collect();
        let jobs: Vec<(usize, u64)> = (1..=u64::from(self.seeds))
            .flat_map(|seed| (0..all.len()).map(move |i| (i, seed)))
            .collect();
        let done = batch::all(pool, "today", &jobs, |&(i, seed)| read(all[i], seed))?;
        let mut readings: Vec<Vec<Reading>> = vec![Vec::new(); all.len()];
        for (&(i, _), reading) in jobs.iter().zip(done) {
            readings[i].push(reading);
        }
        let mut readings = readings.into_iter();
        let mut row = |r: &Vec<Option<Scenario>>| {
            r.iter().map(|s| s.as_ref().and_then(|_| readings.next())).collect::<Vec<_>>()
        };
        Ok(self.scenarios.iter().map(|s| s.iter().map(&mut row).collect()).collect())
    }
}

fn read(scenario: &Scenario, seed: u64) -> Result<Reading, LabError> {
    use fairmesh_engine::RunOptions;
    use fairmesh_engine::record::MacCounters;
    let run = fairmesh_engine::run(scenario, &RunOptions { seed, ..RunOptions::default() })
        .map_err(|e| LabError::run(scenario.name(), e))?;
    let arrived = run.flows.iter().filter(|f| f.packets_delivered > 0);
    let delays: Vec<f64> = arrived.map(|f| 1e3 * f.delay_s.mean).collect();
    let of = |count: fn(&MacCounters) -> u64| run.nodes.iter().map(|n| count(&n.mac)).sum::<u64>();
    let (frames, mpdus) = (of(|m| m.data), of(|m| m.mpdus));
    Ok(Reading {
        goodput: run.flows.iter().map(|f| f.goodput_bps).collect(),
        delay_ms: (!delays.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len() as f64),
        per_frame: mpdus as f64 / frames.max(1) as f64,
        fingerprint: u64::from_str_radix(&run.fingerprint, 16).unwrap_or_default(),
    })
}

/// The names of a topology's flows.
pub(super) fn flows(plan: &Plan, topology: usize) -> Vec<String> {
    let of = plan.scenarios.iter().flatten().filter_map(|row| row.get(topology)?.as_ref());
    of.take(1).flat_map(|s| s.flows().iter().map(|f| f.name.clone())).collect()
}
