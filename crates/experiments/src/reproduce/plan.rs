//! From a declaration to the runs that it asks for, and back from the runs to its numbers.

use std::collections::HashMap;

use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_lab::LabError;
use fairmesh_lab::Store;
use fairmesh_lab::batch;
use fairmesh_lab::source::build;
use fairmesh_lab::{Changes, Pool};
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;
use toml::{Table, Value};

use super::catalogue::Entry;
use super::declare::{Effort, Experiment, Host, Point, Topology, apply};
use super::measure::{LOAD, Reading};
use super::places;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The paper's number of seeds and every topology, or a quick look.
    pub full: bool,
    /// Seeds instead of the declaration's.
    pub seeds: Option<u32>,
    /// Generated networks instead of the declaration's, where an experiment generates some.
    pub networks: Option<u32>,
}

impl Extent {
    /// The declaration's part for this extent.
    pub fn effort<'a>(&self, experiment: &'a Experiment) -> &'a Effort {
        if self.full { &experiment.full } else { &experiment.quick }
    }

    /// Number of seeds.
    pub fn seeds(&self, experiment: &Experiment) -> u32 {
        self.seeds.unwrap_or(self.effort(experiment).seeds)
    }

    /// Number of runs of an arm in the emulator.
    pub fn emulated(&self, experiment: &Experiment) -> u32 {
        let declared = self.effort(experiment).emulated.unwrap_or(0);
        self.seeds.map_or(declared, |seeds| seeds.min(declared))
    }

    /// Number of generated networks; `None`: all that the experiment knows.
    pub fn networks(&self, experiment: &Experiment) -> Option<u32> {
        self.networks.or(self.effort(experiment).networks)
    }
}

/// One scenario of an experiment: an arm at a point in a topology.
#[derive(Clone, Debug)]
pub struct Case {
    /// Index of the arm.
    pub arm: usize,
    /// Index of the point; 0 where there are none.
    pub point: usize,
    /// Family of the topology; empty where there is none.
    pub family: String,
    /// Where it runs.
    pub host: Host,
    /// What to read a run with.
    pub reading: Reading,
    /// The scenario's text, complete.
    text: String,
    scenario: Scenario,
}

impl Case {
    /// What is run.
    pub(super) fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// Everything that an experiment runs.
#[derive(Debug)]
pub struct Plan {
    /// The experiment.
    pub entry: Entry,
    /// How much of it.
    pub extent: Extent,
    /// Its scenarios; those of one arm and point stand together.
    pub cases: Vec<Case>,
    /// Arms that cannot run, with the reason.
    pub missing: Vec<(String, String)>,
    asks: Asks,
}

/// What a run has to measure besides what all do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Asks {
    /// Interval of the curves.
    sample: Option<Span>,
    acknowledged: bool,
    links: bool,
}

impl Plan {
    /// Builds every scenario. `emulator` refuses what cannot run in the emulator here.
    ///
    /// # Errors
    /// What is wrong with a scenario or a setting. A control that this program does not have is
    /// no error, nor is an emulator that refuses: the arm is left out.
    pub fn of(
        entry: Entry,
        extent: Extent,
        cache: Option<&Store>,
        emulator: Refuses<'_>,
    ) -> Result<Self, LabError> {
        let experiment = &entry.experiment;
        let bad = |e: String| LabError::Run { scenario: entry.id.clone(), problem: e };
        let asks = Asks {
            sample: experiment.sampling().map_err(bad)?,
            acknowledged: experiment.measures.iter().any(|m| m.of.is_acknowledged()),
            links: experiment.measures.iter().any(|m| m.of.is_at()),
        };
        let (mut cases, mut missing) = (Vec::new(), Vec::new());
        let mut points = experiment.points.clone();
        if points.is_empty() {
            points.push(Point { label: String::new(), set: Table::new() });
        }
        let mut topologies = experiment.topologies.clone();
        if topologies.is_empty() {
            let (label, family) = Default::default();
            topologies.push(Topology { label, family, set: Table::new() });
        }
        let wanted = extent.effort(experiment).topologies.as_ref();
        topologies.retain(|t| wanted.is_none_or(|w| w.contains(&t.label)));
        'arms: for (a, arm) in experiment.arms.iter().enumerate() {
            let (host, before) = (arm.host, cases.len());
            if host == Host::Emulator && extent.emulated(experiment) == 0 {
                missing.push((arm.label.clone(), "in the emulator with --full only".to_owned()));
                continue;
            }
            if let Some(control) = &arm.control
                && let Err(e) = fairmesh_control::Registry::standard().lookup(control)
            {
                missing.push((arm.label.clone(), e.to_string()));
                continue;
            }
            let file = arm.scenario.as_ref().or(experiment.scenario.as_ref());
            let file = file.ok_or_else(|| bad(format!("arm \"{}\" has no scenario", arm.label)))?;
            let (path, text) = entry.scenario(file)?;
            // The file as it stands must be right: a mistake in it is told with its line.
            build(&path, text.as_bytes(), &Changes::default())?;
            let root: Table = toml::from_str(&text)
                .map_err(|_| LabError::file(&path, "is a map; expected a TOML scenario"))?;
            for (p, point) in points.iter().enumerate() {
                if arm.points.as_ref().is_some_and(|only| !only.contains(&point.label)) {
                    continue;
                }
                for topology in &topologies {
                    let mut table = root.clone();
                    let at = [&arm.label, &point.label, &topology.label];
                    let at = at.into_iter().filter(|l| !l.is_empty()).cloned().collect::<Vec<_>>();
                    let bad = |e: String| bad(format!("at {}: {e}", at.join(", ")));
                    for settings in [&experiment.set, &topology.set, &arm.set, &point.set] {
                        apply(&mut table, settings).map_err(bad)?;
                    }
                    if let Some(control) = &arm.control {
                        let control = Value::String(control.clone());
                        fairmesh_lab::sweep::vary::put(&mut table, "control.use", &control)
                            .map_err(bad)?;
                    }
                    let text = toml::to_string(&table).map_err(|e| bad(e.to_string()))?;
                    let scenario = build(&path, text.as_bytes(), &Changes::default())
                        .map_err(|e| bad(without_line(e).to_string()))?;
                    if host == Host::Emulator
                        && let Err(why) = emulator(&scenario)
                    {
                        missing.push((arm.label.clone(), format!("in the emulator: {why}")));
                        cases.truncate(before);
                        continue 'arms;
                    }
                    let mut reading = Reading::of(&scenario, &experiment.phases)?;
                    reading.emulated = host == Host::Emulator;
                    places::check(experiment, &scenario).map_err(bad)?;
                    if let Some(model) = arm.model {
                        reading.model(&scenario, model, cache)?;
                    }
                    let family = topology.family.clone();
                    cases.push(Case { arm: a, point: p, family, host, reading, text, scenario });
                }
            }
        }
        Ok(Plan { extent, cases, missing, asks, entry })
    }

    /// Number of seeds of every simulated case.
    pub fn seeds(&self) -> u32 {
        self.extent.seeds(&self.entry.experiment)
    }

    /// Number of runs of a case.
    pub(super) fn runs_of(&self, case: &Case) -> u32 {
        match case.host {
            Host::Simulator => self.seeds(),
            Host::Emulator => self.extent.emulated(&self.entry.experiment),
        }
    }

    /// Interval of the curves of its runs.
    pub(super) fn sample(&self) -> Option<Span> {
        self.asks.sample
    }
}

/// A line number of text that the user never wrote says nothing.
fn without_line(e: LabError) -> LabError {
    match e {
        LabError::Scenario(mut e) => {
            e.line = None;
            LabError::Scenario(e)
        }
        e => e,
    }
}

/// Says why a scenario cannot run in the emulator here. Nothing is built for that.
pub type Refuses<'a> = &'a dyn Fn(&Scenario) -> Result<(), String>;

/// What became of the runs of one scenario in the emulator.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// Invalid runs before a valid one.
    pub(super) repeated: u32,
    /// Why there are no runs.
    pub(super) refused: Option<String>,
}

/// The runs of several plans: what several of them ask for has run once.
#[derive(Debug)]
pub struct Runs {
    /// Per plan and case: an index into `records`.
    pub(super) which: Vec<Vec<usize>>,
    /// Per scenario: one record per seed.
    pub(super) records: Vec<Vec<RunRecord>>,
    /// Per scenario: what the emulator said.
    pub(super) attempts: Vec<Attempts>,
}

impl Runs {
    /// Runs everything that is simulated, on all cores.
    ///
    /// # Errors
    /// The first run that is refused.
    pub fn of(plans: &[Plan], pool: &Pool<'_>) -> Result<Self, LabError> {
        struct Unique<'a> {
            scenario: &'a Scenario,
            asks: Asks,
            seeds: u64,
        }
        let mut known: HashMap<(&str, Asks, Host), usize> = HashMap::new();
        let mut unique: Vec<Unique<'_>> = Vec::new();
        let mut which = Vec::new();
        for plan in plans {
            let mut of_plan = Vec::with_capacity(plan.cases.len());
            for case in &plan.cases {
                let seeds = match case.host {
                    Host::Simulator => u64::from(plan.seeds()),
                    Host::Emulator => 0,
                };
                let at = *known.entry((&case.text, plan.asks, case.host)).or_insert_with(|| {
                    unique.push(Unique { scenario: &case.scenario, asks: plan.asks, seeds });
                    unique.len() - 1
                });
                unique[at].seeds = unique[at].seeds.max(seeds);
                of_plan.push(at);
            }
            which.push(of_plan);
        }
        // Longest first would be better still; the order of the seeds spreads them well enough.
        let jobs: Vec<(usize, u64)> = unique
            .iter()
            .enumerate()
            .flat_map(|(i, u)| (1..=u.seeds).map(move |seed| (i, seed)))
            .collect();
        let options = |&(i, seed): &(usize, u64)| {
            let Asks { sample, acknowledged, links } = unique[i].asks;
            RunOptions { seed, sample, acknowledged, links }
        };
        let runs: Vec<_> = jobs.iter().map(|job| (unique[job.0].scenario, options(job))).collect();
        pool.check_store(&runs)?;
        let mut done = batch::all(pool, "reproducing", &runs, |(scenario, options)| {
            let mut record = pool.measured(scenario, options)?;
            record.decisions.retain(|d| d.code == LOAD);
            Ok(record)
        })?
        .into_iter();
        let records =
            unique.iter().map(|u| done.by_ref().take(u.seeds as usize).collect()).collect();
        let attempts = vec![Attempts::default(); unique.len()];
        Ok(Runs { which, records, attempts })
    }

    /// The runs of a case of the plan with this index, by seed: all that are declared, or none.
    pub fn of_case(&self, plan: &Plan, index: usize, case: usize) -> &[RunRecord] {
        let all = &self.records[self.which[index][case]];
        all.get(..plan.runs_of(&plan.cases[case]) as usize).unwrap_or(&[])
    }
}
