//! Plan of the runs that a declaration requires, and their results.

use std::collections::HashMap;
use std::path::PathBuf;

use fairmesh_control::{RESERVED_KEYS, Registry};
use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_lab::LabError;
use fairmesh_lab::Store;
use fairmesh_lab::batch;
use fairmesh_lab::changes::{MapRadio, with_control};
use fairmesh_lab::source::{self, build};
use fairmesh_lab::{Changes, Pool};
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;
use toml::{Table, Value};

use super::catalogue::Entry;
use super::declare::{Arm, Dimension, Effort, Experiment, Host, MapUse, Point, Topology, apply};
use super::measure::Reading;
use super::places;
use super::record::{NOT_RUN_REASON, Record};

/// Extent of the runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// True for the paper's number of seeds and every topology; false for a quick run.
    pub full: bool,
    /// Seeds that replace the declaration's.
    pub seeds: Option<u32>,
    /// Number of generated networks that replaces the declaration's, for experiments with such.
    pub networks: Option<u32>,
    /// Files of maps.
    pub maps: Vec<PathBuf>,
    /// Only arms of these controls; all if there are none.
    pub controls: Vec<String>,
    /// Only these arms, which complete a kept record.
    pub added: Option<Added>,
}

/// Arms that complete a kept record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Labels of the arms.
    pub arms: Vec<String>,
    /// Fingerprint of the stored runs, which those of the arms continue.
    pub(super) after: u64,
}

impl Added {
    /// Returns the arms without numbers in `kept`; `None` if there are none.
    ///
    /// Emulated arms that were rejected remain so.
    ///
    /// # Errors
    /// An arm that is declared before arms of the record, because it cannot continue the
    /// fingerprint.
    pub fn to(kept: &Record, entry: &Entry) -> Result<Option<Self>, String> {
        let arms = &entry.experiment.arms;
        if !kept.cases.is_empty() || arms.is_empty() {
            return Err(
                "has a record by topology or of a study; expected --control NAMES, or a whole run"
                    .to_owned(),
            );
        }
        let cells = kept.cells(entry);
        let has = |a: &&Arm| cells.iter().any(|c| c.arm == a.label);
        let simulated = |a: &&Arm| a.host == Host::Simulator;
        let refused =
            |a: &&Arm| kept.missing.iter().any(|m| m.arm == a.label && m.because != NOT_RUN_REASON);
        let missing: Vec<String> = arms
            .iter()
            .filter(|a| !has(a) && (simulated(a) || !refused(a)))
            .map(|a| a.label.clone())
            .collect();
        if missing.is_empty() {
            return Ok(None);
        }
        // Emulated runs do not contribute to the fingerprint.
        let mut rest = arms.iter().filter(simulated).skip_while(has);
        if let Some(first) = rest.next()
            && let Some(late) = rest.find(has)
        {
            return Err(format!(
                "the kept arm \"{}\" is declared after the missing arm \"{}\"; expected missing arms at the end",
                late.label, first.label
            ));
        }
        let after = u64::from_str_radix(&kept.fingerprint, 16).map_err(|_| {
            format!(
                "the record's fingerprint is \"{}\"; expected a hexadecimal number",
                kept.fingerprint
            )
        })?;
        Ok(Some(Added { arms: missing, after }))
    }
}

impl Extent {
    /// Returns the file of a map by its name.
    fn map(&self, name: &str) -> Option<&PathBuf> {
        self.maps.iter().find(|p| p.file_name().is_some_and(|n| n == name))
    }

    /// Returns true if an arm runs.
    fn takes(&self, arm: &Arm) -> bool {
        let of_control = |c: &String| self.controls.is_empty() || self.controls.contains(c);
        let named = self.added.as_ref().is_none_or(|a| a.arms.contains(&arm.label));
        named && (self.controls.is_empty() || arm.control.as_ref().is_some_and(of_control))
    }

    /// Returns the declaration's effort for this extent.
    pub fn effort<'a>(&self, experiment: &'a Experiment) -> &'a Effort {
        if self.full { &experiment.full } else { &experiment.quick }
    }

    /// Returns the number of seeds.
    pub fn seeds(&self, experiment: &Experiment) -> u32 {
        self.seeds.unwrap_or(self.effort(experiment).seeds)
    }

    /// Returns the number of runs of an arm in the emulator.
    pub fn emulated(&self, experiment: &Experiment) -> u32 {
        let declared = self.effort(experiment).emulated.unwrap_or(0);
        self.seeds.map_or(declared, |seeds| seeds.min(declared))
    }

    /// Returns the number of generated networks; `None` for all of the experiment.
    pub fn networks(&self, experiment: &Experiment) -> Option<u32> {
        self.networks.or(self.effort(experiment).networks)
    }
}

/// One scenario of an experiment: an arm at a point in a topology.
#[derive(Clone, Debug)]
pub struct Case {
    /// Index of the arm.
    pub arm: usize,
    /// Index of the point; 0 without points.
    pub point: usize,
    /// Index among the topologies of the plan.
    pub topology: usize,
    /// Family of the topology; empty without one.
    pub family: String,
    /// Host on which it runs.
    pub host: Host,
    /// Information for reading a run.
    pub reading: Reading,
    /// The complete text of the scenario.
    text: String,
    scenario: Scenario,
}

impl Case {
    /// Returns the scenario that is run.
    pub(super) fn scenario(&self) -> &Scenario {
        &self.scenario
    }
}

/// All runs of an experiment.
#[derive(Debug)]
pub struct Plan {
    /// The experiment.
    pub entry: Entry,
    /// Extent of its runs.
    pub extent: Extent,
    /// Scenarios of the experiment; those of one arm and point are adjacent.
    pub cases: Vec<Case>,
    /// Arms that cannot run, with the reason.
    pub missing: Vec<(String, String)>,
    /// The topologies that run.
    pub topologies: Vec<Topology>,
    asks: Measurements,
}

/// Optional measurements of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Measurements {
    /// Interval of the curves.
    sample: Option<Span>,
    acknowledged: bool,
    links: bool,
}

impl Plan {
    /// Builds every scenario. `emulator` rejects scenarios that cannot be emulated on this host.
    ///
    /// # Errors
    /// Returns an error if a scenario or a setting is invalid. A control that this program lacks,
    /// or a rejection by the emulator, is not an error: the arm is left out.
    pub fn of(
        entry: Entry,
        extent: Extent,
        cache: Option<&Store>,
        emulator: Refuses<'_>,
    ) -> Result<Self, LabError> {
        let experiment = &entry.experiment;
        let bad = |e: String| LabError::run(&entry.id, e);
        let asks = Measurements {
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
            topologies.push(Topology::default());
        }
        let effort = extent.effort(experiment);
        let wanted = effort.topologies.as_ref();
        topologies.retain(|t| wanted.is_none_or(|w| w.contains(&t.label)));
        for t in &topologies {
            if t.map.as_ref().is_some_and(|m| extent.map(&m.file).is_none()) {
                missing.push((t.label.clone(), NOT_GIVEN.to_owned()));
            }
        }
        topologies.retain(|t| t.map.as_ref().is_none_or(|m| extent.map(&m.file).is_some()));
        extent.check(experiment)?;
        let mut files = Files::new();
        'arms: for (a, arm) in experiment.arms.iter().enumerate().filter(|a| extent.takes(a.1)) {
            let (host, before) = (arm.host, cases.len());
            if host == Host::Emulator && extent.emulated(experiment) == 0 {
                missing.push((arm.label.clone(), "in the emulator with --full only".to_owned()));
                continue;
            }
            if let Some(control) = &arm.control
                && let Err(e) = entry.registry().lookup(control)
            {
                missing.push((arm.label.clone(), e.to_string()));
                continue;
            }
            for (p, point) in points.iter().enumerate() {
                if arm.points.as_ref().is_some_and(|only| !only.contains(&point.label)) {
                    continue;
                }
                for (t, topology) in topologies.iter().enumerate() {
                    let at = [&arm.label, &point.label, &topology.label];
                    let at = at.into_iter().filter(|l| !l.is_empty()).cloned().collect::<Vec<_>>();
                    let at = at.join(", ");
                    if let Some(because) =
                        experiment.left_out(arm, &topology.label, entry.registry())
                    {
                        missing.push((at, because.to_owned()));
                        continue;
                    }
                    let bad = |e: String| bad(format!("at {at}: {e}"));
                    let (text, scenario) = if let Some(map) = &topology.map {
                        mapped(&extent, [&effort.set, &topology.set], map, arm, entry.registry())?
                    } else {
                        let file = [&topology.scenario, &arm.scenario, &experiment.scenario];
                        let file = file.into_iter().flatten().next();
                        let file = file.ok_or_else(|| bad("there is no scenario".to_owned()))?;
                        let (path, mut table) = files.table(&entry, file)?;
                        if let Some(control) = &arm.control {
                            forget_parameters(&mut table, control, entry.registry());
                        }
                        let when = arm.with.iter().filter_map(|preset| topology.when.get(preset));
                        let all = [&experiment.set, &topology.set, &arm.set].into_iter();
                        for settings in all.chain(when).chain([&point.set, &effort.set]) {
                            apply(&mut table, settings).map_err(bad)?;
                        }
                        if let Some(control) = &arm.control {
                            let control = Value::String(control.clone());
                            fairmesh_scenario::put(&mut table, "control.use", &control)
                                .map_err(|e| bad(format!("control.use: {e}")))?;
                        }
                        let text = toml::to_string(&table).map_err(|e| bad(e.to_string()))?;
                        let scenario =
                            build(&path, text.as_bytes(), &Changes::default(), entry.registry())
                                .map_err(|e| bad(without_line(e).to_string()))?;
                        (text, scenario)
                    };
                    if experiment.lays_out(Dimension::Place)
                        && !scenario.control().is_none()
                        && fairmesh_engine::controlled_nodes(&scenario) == 0
                    {
                        missing.push((at, NO_NODE_REASON.to_owned()));
                        continue;
                    }
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
                    cases.push(Case {
                        arm: a,
                        point: p,
                        topology: t,
                        family,
                        host,
                        reading,
                        text,
                        scenario,
                    });
                }
            }
        }
        Ok(Plan { extent, cases, missing, topologies, asks, entry })
    }

    /// Returns the number of seeds of every simulated case.
    pub fn seeds(&self) -> u32 {
        self.extent.seeds(&self.entry.experiment)
    }

    /// Returns the number of runs of a case.
    pub(super) fn runs_of(&self, case: &Case) -> u32 {
        match case.host {
            Host::Simulator => self.seeds(),
            Host::Emulator => self.extent.emulated(&self.entry.experiment),
        }
    }

    /// Returns the interval of the curves of its runs.
    pub(super) fn sample(&self) -> Option<Span> {
        self.asks.sample
    }
}

impl Extent {
    /// Checks that maps and controls are those of the experiment.
    fn check(&self, experiment: &Experiment) -> Result<(), LabError> {
        let maps = || experiment.topologies.iter().filter_map(|t| t.map.as_ref());
        let known = |p: &PathBuf| p.file_name().is_some_and(|n| maps().any(|m| *n == *m.file));
        if let Some(unknown) = self.maps.iter().find(|p| !known(p)) {
            let names: Vec<&str> = maps().map(|m| m.file.as_str()).collect();
            let names = if names.is_empty() { "no map".to_owned() } else { names.join(", ") };
            let problem = format!("found {}; expected {names}", unknown.display());
            return Err(LabError::setting("map", problem));
        }
        let has = |c: &&String| experiment.arms.iter().any(|a| a.control.as_ref() == Some(c));
        match self.controls.iter().find(|c| !has(c)) {
            Some(unknown) => {
                let problem = format!("\"{unknown}\" has no arm; expected the control of an arm");
                Err(LabError::setting("control", problem))
            }
            None => Ok(()),
        }
    }
}

/// Reason why a map does not run.
const NOT_GIVEN: &str = "the map is not part of the project; give it with --map FILE";
/// Removes parameters of a scenario's own control that the control of an arm does not have.
fn forget_parameters(table: &mut Table, control: &str, registry: &Registry) {
    let Some(Value::Table(own)) = table.get_mut("control") else { return };
    let Ok(mechanism) = registry.lookup(control) else { return };
    let has = |key: &str| mechanism.definition().parameters.iter().any(|p| p.name == key);
    own.retain(|key, _| RESERVED_KEYS.contains(&key) || has(key));
}

/// Reason why a control does not run if no node runs it.
pub const NO_NODE_REASON: &str = "no node to run at";

/// Scenario files as tables; each is read and checked once.
struct Files(HashMap<String, (PathBuf, Table)>);

impl Files {
    fn new() -> Self {
        Files(HashMap::new())
    }

    fn table(&mut self, entry: &Entry, file: &str) -> Result<(PathBuf, Table), LabError> {
        if let Some(known) = self.0.get(file) {
            return Ok(known.clone());
        }
        let (path, text) = entry.scenario(file)?;
        // The unmodified file must be valid: an error in it is reported with its line.
        build(&path, text.as_bytes(), &Changes::default(), entry.registry())?;
        let root: Table = toml::from_str(&text)
            .map_err(|_| LabError::file(&path, "is a map; expected a TOML scenario"))?;
        Ok(self.0.entry(file.to_owned()).or_insert((path, root)).clone())
    }
}

/// Returns a map under an arm's control; the text names it and its changes.
fn mapped(
    extent: &Extent,
    settings: [&Table; 2],
    map: &MapUse,
    arm: &Arm,
    registry: &Registry,
) -> Result<(String, Scenario), LabError> {
    let path = extent.map(&map.file).cloned().unwrap_or_default();
    let time = |key: &str| -> Result<Option<Span>, LabError> {
        let given = settings.into_iter().find_map(|s| s.get(key)?.as_str());
        let bad = |e| LabError::file(&map.file, format!("{key}: {e}"));
        given.map(|t| t.parse().map_err(bad)).transpose()
    };
    let changes = Changes {
        duration: time("duration")?,
        warmup: time("warmup")?,
        gateways: vec![map.gateway.clone()],
        flows: Some(map.flows),
        radio: MapRadio { phy: Some(map.phy), ..MapRadio::default() },
        ..Changes::default()
    };
    let mut scenario = source::load(&path, &changes, registry)?.scenario;
    if let Some(control) = &arm.control {
        scenario = with_control(&scenario, control, registry)?;
    }
    let text = format!("{} {changes:?} {:?}", path.display(), arm.control);
    Ok((text, scenario))
}

/// Removes the line number, which refers to generated text that the user never wrote.
fn without_line(e: LabError) -> LabError {
    match e {
        LabError::Scenario(mut e) => {
            e.line = None;
            LabError::Scenario(e)
        }
        e => e,
    }
}

/// Check if a scenario can be emulated on this host; the error is the reason.
///
/// The check builds nothing.
pub type Refuses<'a> = &'a dyn Fn(&Scenario) -> Result<(), String>;

/// Outcome of the runs of one scenario in the emulator.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// Invalid runs before a valid one.
    pub(super) repeated: u32,
    /// Reason if there are no runs.
    pub(super) refused: Option<String>,
}

/// The runs of several plans; a scenario that several plans share runs once.
#[derive(Debug)]
pub struct Runs {
    /// Per plan and case: an index into `records`.
    pub(super) which: Vec<Vec<usize>>,
    /// Per scenario: one record per seed.
    pub(super) records: Vec<Vec<RunRecord>>,
    /// Per scenario: outcome of its runs in the emulator.
    pub(super) attempts: Vec<Attempts>,
}

impl Runs {
    /// Runs all simulated cases, on all cores.
    ///
    /// # Errors
    /// The first run that is rejected.
    pub fn of(plans: &[Plan], pool: &Pool<'_>) -> Result<Self, LabError> {
        struct Unique<'a> {
            scenario: &'a Scenario,
            asks: Measurements,
            seeds: u64,
        }
        let mut known: HashMap<(&str, Measurements, Host), usize> = HashMap::new();
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
        // Longest first would be better; the order of the seeds distributes them well enough.
        let jobs: Vec<(usize, u64)> = unique
            .iter()
            .enumerate()
            .flat_map(|(i, u)| (1..=u.seeds).map(move |seed| (i, seed)))
            .collect();
        let options = |&(i, seed): &(usize, u64)| {
            let Measurements { sample, acknowledged, links } = unique[i].asks;
            RunOptions { seed, sample, acknowledged, links }
        };
        let measures = plans.iter().flat_map(|p| &p.entry.experiment.measures);
        let codes: Vec<&str> = measures.filter_map(|m| m.of.decision()).collect();
        let runs: Vec<_> = jobs.iter().map(|job| (unique[job.0].scenario, options(job))).collect();
        pool.check_store(&runs)?;
        let mut done = batch::all(pool, "reproducing", &runs, |(scenario, options)| {
            let mut record = pool.measured(scenario, options)?;
            record.decisions.retain(|d| codes.contains(&d.code.as_ref()));
            Ok(record)
        })?
        .into_iter();
        let records =
            unique.iter().map(|u| done.by_ref().take(u.seeds as usize).collect()).collect();
        let attempts = vec![Attempts::default(); unique.len()];
        Ok(Runs { which, records, attempts })
    }

    /// Returns the runs of a case of the plan with this index, by seed.
    ///
    /// They are all declared runs, or none.
    pub fn of_case(&self, plan: &Plan, index: usize, case: usize) -> &[RunRecord] {
        let all = &self.records[self.which[index][case]];
        all.get(..plan.runs_of(&plan.cases[case]) as usize).unwrap_or(&[])
    }
}
