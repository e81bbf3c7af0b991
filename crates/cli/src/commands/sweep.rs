//! `fairmesh sweep`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use toml::Table;

use crate::args::{ChangeArgs, SweepArgs};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::load::{build, changes, read, with_controls};
use crate::output::folder::write_file;
use crate::output::json::GENERATOR;
use crate::output::parquet;
use crate::runner;
use crate::sweep::journal::{Cell, Header, Journal};
use crate::sweep::summary::{Summary, columns};
use crate::sweep::vary::{Axis, Point, grid, set};

const JOURNAL: &str = "journal.jsonl";

/// Runs every combination that has not run yet, then summarises all.
///
/// # Errors
/// Bad input, or a place that cannot be written; nothing has run then.
pub fn run(args: &SweepArgs, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    let axes = axes(&args.vary)?;
    let path = &args.scenario.scenario;
    let bytes = read(path)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The scenario as it stands must be right: a mistake in it is told with its line.
    let plain = build(path, &bytes, &args.scenario.changes)?;
    warn(&plain.warnings);
    let root: Table = toml::from_str(&text).map_err(|_| {
        CliError::file(path, "is a map; expected a TOML scenario, whose keys can be varied")
    })?;
    let points = points(&root, &axes, args)?;

    let journal_path = claim(&args.out)?;
    let header = Header {
        generator: GENERATOR.to_owned(),
        scenario: text,
        changes: changes(&args.scenario.changes),
        keys: axes.iter().map(|a| a.key.clone()).collect(),
    };
    let (journal, mut cells) = Journal::open(&journal_path, &header)?;
    let jobs = missing(&points, u64::from(args.seeds), &cells);
    let journal = Mutex::new(journal);
    let new = runner::all(args.threads, "sweeping", &jobs, |job| {
        let record = runner::once(job.scenario, job.seed, None)?;
        let cell = cell(job, &record);
        // A poisoned lock means another run panicked; what it held is a file, still whole.
        journal
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .add(&journal_path, &cell)?;
        Ok(cell)
    })?;
    cells.extend(new);

    let cells = wanted(&points, u64::from(args.seeds), &cells);
    let summary = Summary::of(command, &plain.name, args.seeds as usize, &axes, &cells);
    let json = serde_json::to_vec_pretty(&summary).map_err(|e| CliError::file(&args.out, e))?;
    write_file(&args.out.join("sweep.json"), &json)?;
    let table =
        parquet::encode(&columns(&axes, &cells)).map_err(|e| CliError::file(&args.out, e))?;
    write_file(&args.out.join("sweep.parquet"), &table)?;
    if args.json {
        print_json(out, &summary)
    } else {
        writeln!(out, "{}\nResults: {}", summary.table(), args.out.display())?;
        Ok(())
    }
}

fn axes(vary: &[String]) -> Result<Vec<Axis>, CliError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in vary {
        let axis = Axis::parse(text).map_err(|e| CliError::option("--vary", e))?;
        if axes.iter().any(|a| a.key == axis.key) {
            let problem = format!("{} is given twice; expected each key once", axis.key);
            return Err(CliError::option("--vary", problem));
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// A point of the grid with the scenarios it stands for, one per control.
struct Variant {
    point: Point,
    scenarios: Vec<Scenario>,
}

/// Every point, checked before anything runs.
fn points(root: &Table, axes: &[Axis], args: &SweepArgs) -> Result<Vec<Variant>, CliError> {
    let path = &args.scenario.scenario;
    grid(axes)
        .into_iter()
        .map(|point| {
            let mut table = root.clone();
            for (axis, value) in axes.iter().zip(&point) {
                set(&mut table, &axis.key, value).map_err(|e| CliError::option("--vary", e))?;
            }
            let scenario = built(path, &table, &args.scenario.changes)
                .map_err(|e| describe(e, axes, &point))?;
            Ok(Variant { scenarios: with_controls(&scenario, &args.control)?, point })
        })
        .collect()
}

fn built(path: &Path, table: &Table, args: &ChangeArgs) -> Result<Scenario, CliError> {
    let text = toml::to_string(table).map_err(|e| CliError::file(path, e))?;
    build(path, text.as_bytes(), args)
}

/// The error, with the point it came from and without the line, which is none of the file's.
fn describe(e: CliError, axes: &[Axis], point: &[String]) -> CliError {
    match e {
        CliError::Scenario(mut e) => {
            e.line = None;
            let set: Vec<String> =
                axes.iter().zip(point).map(|(a, v)| format!("{}={v}", a.key)).collect();
            CliError::option("--vary", format!("with {}: {e}", set.join(" ")))
        }
        e => e,
    }
}

/// The journal's place, in a folder that is new, empty or already a sweep's.
fn claim(folder: &Path) -> Result<std::path::PathBuf, CliError> {
    let journal = folder.join(JOURNAL);
    if folder.exists() && !folder.is_dir() {
        return Err(CliError::file(folder, "is a file; expected a folder for results"));
    }
    fs::create_dir_all(folder).map_err(|e| {
        CliError::file(
            folder,
            format!("cannot be created ({e}); expected a place to write results to"),
        )
    })?;
    let mut entries = fs::read_dir(folder).map_err(|e| CliError::file(folder, e))?;
    if !journal.exists() && entries.next().is_some() {
        let problem = "is not empty and holds no sweep; expected a new folder name";
        return Err(CliError::file(folder, problem));
    }
    Ok(journal)
}

struct Job<'a> {
    scenario: &'a Scenario,
    point: &'a Point,
    seed: u64,
}

fn missing<'a>(points: &'a [Variant], seeds: u64, done: &[Cell]) -> Vec<Job<'a>> {
    let done: HashSet<(&[String], &str, u64)> =
        done.iter().map(|c| (&c.point[..], c.control.as_str(), c.seed)).collect();
    let mut jobs = Vec::new();
    for v in points {
        for scenario in &v.scenarios {
            for seed in 1..=seeds {
                if !done.contains(&(&v.point[..], scenario.control.name.as_str(), seed)) {
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
            out.extend((1..=seeds).filter_map(|seed| find(&v.point, &s.control.name, seed)));
        }
    }
    out
}

fn cell(job: &Job<'_>, r: &RunRecord) -> Cell {
    let d = r.totals.drops;
    Cell {
        point: job.point.clone(),
        control: job.scenario.control.name.clone(),
        seed: job.seed,
        fingerprint: r.fingerprint.clone(),
        goodput_bps: r.flows.iter().map(|f| f.goodput_bps).collect(),
        fair_bps: r.flows.iter().map(|f| f.fair_bps).collect(),
        hops: r.flows.iter().map(|f| f.hops).collect(),
        flows: r.flows.iter().map(|f| f.name.clone()).collect(),
        delay_s: r
            .flows
            .iter()
            .map(|f| (f.packets_delivered > 0).then_some(f.delay_s.mean))
            .collect(),
        transmissions: r.totals.transmissions,
        drops: d.queue + d.wire + d.retry_limit + d.limiter,
    }
}
