//! A sweep: every combination of some settings, under some controls, with some seeds.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use toml::Table;

use super::journal::{Cell, Header, Journal};
use super::summary::{Summary, columns};
use super::vary::{Axis, Point, grid, set};
use crate::changes::{Assignment, set_parameters, with_controls};
use crate::comparison::GENERATOR;
use crate::files::folder::write_file;
use crate::files::parquet;
use crate::source::{build, read};
use crate::{Changes, LabError, Pool, batch};

const JOURNAL: &str = "journal.jsonl";

/// Everything that is run; all of it was checked.
#[derive(Debug)]
pub struct Sweep {
    scenario: Scenario,
    axes: Vec<Axis>,
    points: Vec<Variant>,
    seeds: u32,
    header: Header,
}

impl Sweep {
    /// Reads a scenario and makes every point of the grid that `vary` (each `KEY=V1,V2,…`) spans,
    /// under every control with the parameters in `set`, with seeds 1 to `seeds`.
    ///
    /// # Errors
    /// What is wrong with the file, the changes, a key, a value or a control.
    pub fn plan(
        path: &Path,
        changes: &Changes,
        vary: &[impl AsRef<str>],
        controls: &[impl AsRef<str>],
        parameters: &[Assignment],
        seeds: u32,
    ) -> Result<Self, LabError> {
        let axes = axes(vary)?;
        let bytes = read(path)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // The scenario as it stands must be right: a mistake in it is told with its line.
        let scenario = build(path, &bytes, changes)?;
        let root: Table = toml::from_str(&text).map_err(|_| {
            LabError::file(path, "is a map; expected a TOML scenario, whose keys can be varied")
        })?;
        let points = grid(&axes)
            .into_iter()
            .map(|point| {
                let mut table = root.clone();
                let mut numbers = parameters.to_vec();
                for (axis, value) in axes.iter().zip(&point) {
                    match number_of(axis, value).filter(|_| !controls.is_empty()) {
                        Some(number) => numbers.push(number),
                        None => set(&mut table, &axis.key, value)
                            .map_err(|e| LabError::setting("vary", e))?,
                    }
                }
                let scenario =
                    built(path, &table, changes).map_err(|e| describe(e, &axes, &point))?;
                let mut scenarios = with_controls(&scenario, controls)?;
                set_parameters(&mut scenarios, &numbers).map_err(|e| describe(e, &axes, &point))?;
                Ok(Variant { scenarios, point })
            })
            .collect::<Result<_, LabError>>()?;
        let set = parameters.iter().map(|a| format!("control {a}"));
        let header = Header {
            generator: GENERATOR.to_owned(),
            scenario: text,
            changes: changes.list().into_iter().chain(set).collect(),
            keys: axes.iter().map(|a| a.key.clone()).collect(),
        };
        Ok(Sweep { scenario, axes, points, seeds, header })
    }

    /// The scenario as it stands.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Runs what has not run yet, by the journal in `folder`, and writes the summary of all there.
    /// `command` is what the record says made it.
    ///
    /// # Errors
    /// A folder of something else; what the engine refuses; files that cannot be written.
    pub fn run(&self, folder: &Path, command: &str, pool: &Pool<'_>) -> Result<Summary, LabError> {
        let journal_path = claim(folder)?;
        let (journal, mut cells) = Journal::open(&journal_path, &self.header)?;
        let seeds = u64::from(self.seeds);
        let jobs = missing(&self.points, seeds, &cells);
        let journal = Mutex::new(journal);
        let new = batch::all(pool, "sweeping", &jobs, |job| {
            let record = batch::once(job.scenario, job.seed, None)?;
            let cell = cell(job, &record);
            // A poisoned lock means another run panicked; what it held is a file, still whole.
            journal
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .add(&journal_path, &cell)?;
            Ok(cell)
        })?;
        cells.extend(new);
        let cells = wanted(&self.points, seeds, &cells);
        let summary =
            Summary::of(command, self.scenario.name(), self.seeds as usize, &self.axes, &cells);
        let json = serde_json::to_vec_pretty(&summary).map_err(|e| LabError::file(folder, e))?;
        write_file(&folder.join("sweep.json"), &json)?;
        let table =
            parquet::encode(&columns(&self.axes, &cells)).map_err(|e| LabError::file(folder, e))?;
        write_file(&folder.join("sweep.parquet"), &table)?;
        Ok(summary)
    }
}

fn axes(vary: &[impl AsRef<str>]) -> Result<Vec<Axis>, LabError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in vary {
        let axis = Axis::parse(text.as_ref()).map_err(|e| LabError::setting("vary", e))?;
        if axes.iter().any(|a| a.key == axis.key) {
            let problem = format!("{} is given twice; expected each key once", axis.key);
            return Err(LabError::setting("vary", problem));
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// A point of the grid with the scenarios it stands for, one per control.
#[derive(Debug)]
struct Variant {
    point: Point,
    scenarios: Vec<Scenario>,
}

/// A number of the controls: `control.epoch` is meant for those asked for, whichever the file has.
fn number_of(axis: &Axis, value: &str) -> Option<Assignment> {
    let parameter =
        axis.key.strip_prefix("control.").filter(|p| !["use", "gateway"].contains(p))?;
    let value = value.parse().ok()?;
    Some(Assignment { control: None, parameter: parameter.to_owned(), value })
}

fn built(path: &Path, table: &Table, changes: &Changes) -> Result<Scenario, LabError> {
    let text = toml::to_string(table).map_err(|e| LabError::file(path, e))?;
    build(path, text.as_bytes(), changes)
}

/// The error, with the point it came from and without the line, which is none of the file's.
fn describe(e: LabError, axes: &[Axis], point: &[String]) -> LabError {
    match e {
        LabError::Scenario(mut e) => {
            e.line = None;
            let set: Vec<String> =
                axes.iter().zip(point).map(|(a, v)| format!("{}={v}", a.key)).collect();
            LabError::setting("vary", format!("with {}: {e}", set.join(" ")))
        }
        e => e,
    }
}

/// The journal's place, in a folder that is new, empty or already a sweep's.
fn claim(folder: &Path) -> Result<std::path::PathBuf, LabError> {
    let journal = folder.join(JOURNAL);
    if folder.exists() && !folder.is_dir() {
        return Err(LabError::file(folder, "is a file; expected a folder for results"));
    }
    fs::create_dir_all(folder).map_err(|e| {
        LabError::file(
            folder,
            format!("cannot be created ({e}); expected a place to write results to"),
        )
    })?;
    let mut entries = fs::read_dir(folder).map_err(|e| LabError::file(folder, e))?;
    if !journal.exists() && entries.next().is_some() {
        let problem = "is not empty and holds no sweep; expected a new folder name";
        return Err(LabError::file(folder, problem));
    }
    Ok(journal)
}

struct Job<'a> {
    scenario: &'a Scenario,
    point: &'a Point,
    seed: u64,
}

fn missing<'a>(points: &'a [Variant], seeds: u64, done: &[Cell]) -> Vec<Job<'a>> {
    let done: HashSet<(&[String], String, u64)> =
        done.iter().map(|c| (&c.point[..], c.control.clone(), c.seed)).collect();
    let mut jobs = Vec::new();
    for v in points {
        for scenario in &v.scenarios {
            for seed in 1..=seeds {
                if !done.contains(&(&v.point[..], scenario.controls(), seed)) {
                    jobs.push(Job { scenario, point: &v.point, seed });
                }
            }
        }
    }
    jobs
}

/// The runs asked for, in the order of the grid, whenever they ran.
fn wanted(points: &[Variant], seeds: u64, cells: &[Cell]) -> Vec<Cell> {
    let by_key: HashMap<(&[String], &str, u64), &Cell> =
        cells.iter().map(|c| ((&c.point[..], c.control.as_str(), c.seed), c)).collect();
    let find = |point: &[String], control: &str, seed| {
        by_key.get(&(point, control, seed)).map(|c| (*c).clone())
    };
    let mut out = Vec::new();
    for v in points {
        for s in &v.scenarios {
            out.extend((1..=seeds).filter_map(|seed| find(&v.point, &s.controls(), seed)));
        }
    }
    out
}

fn cell(job: &Job<'_>, r: &RunRecord) -> Cell {
    let d = r.totals.drops;
    Cell {
        point: job.point.clone(),
        control: job.scenario.controls(),
        seed: job.seed,
        fingerprint: r.fingerprint.clone(),
        goodput_bps: r.flows.iter().map(|f| f.goodput_bps).collect(),
        fair_bps: r.flows.iter().map(|f| f.fair_bps).collect(),
        hops: r.flows.iter().map(|f| f.hops).collect(),
        flows: r.flows.iter().map(|f| f.name.clone()).collect(),
        subscribers: r.subscribers.iter().map(|s| s.flows.clone()).collect(),
        delay_s: r
            .flows
            .iter()
            .map(|f| (f.packets_delivered > 0).then_some(f.delay_s.mean))
            .collect(),
        transmissions: r.totals.transmissions,
        drops: d.queue + d.wire + d.retry_limit + d.limiter,
    }
}
