//! `fairmesh run`.

use std::io::Write;

use fairmesh_control::Registry;
use fairmesh_engine::RunOptions;
use fairmesh_lab::changes::{set_parameters, with_control};
use fairmesh_lab::comparison::{Comparison, OneRun};
use fairmesh_lab::files::folder::{PendingFile, ResultFolder};
use fairmesh_lab::files::netjson;
use fairmesh_lab::notes::notes;
use fairmesh_lab::source::load;
use fairmesh_lab::timeline::{Window, traced};
use fairmesh_lab::{City, LabError, Pool, batch};
use fairmesh_report::results;
use fairmesh_report::{table, text};

use crate::args::RunArgs;
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::terminal::with_bars_and;

/// Runs a scenario once.
///
/// # Errors
/// Bad input, or a place that cannot be written; nothing has run then.
pub fn run(
    args: &RunArgs,
    command: &str,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let mut loaded = load(&args.scenario.scenario, &args.scenario.changes.changes(), registry)?;
    if let Some(control) = &args.control {
        loaded.scenario = with_control(&loaded.scenario, control, registry)?;
    }
    set_parameters(std::slice::from_mut(&mut loaded.scenario), &args.set.set)?;
    let scenario = &loaded.scenario;
    let warnings = [scenario.warnings().to_vec(), notes(std::slice::from_ref(scenario))].concat();
    warn(&warnings);
    let only = match &args.pcap_at {
        None => None,
        Some(name) => Some(scenario.node(name).ok_or_else(|| {
            CliError::option(
                "--pcap-at",
                format!("there is no node \"{name}\"; expected a node of the scenario"),
            )
        })?),
    };
    let folder = args.out.as_deref().map(ResultFolder::claim).transpose()?;
    let graph = args.netjson.as_deref().map(PendingFile::beside).transpose()?;
    let sample = args.sample.sample;
    // Always sampled: the curves of the limits show whether they settled.
    let sample = sample.or_else(|| Some(batch::sample_interval(scenario.duration())));
    let store = args.store.open(args.revision)?;
    let options = RunOptions { seed: args.seed, sample, ..RunOptions::default() };
    let pool = Pool { store: store.as_ref(), ..Pool::default() };
    let mut shown = None;
    let record = match (&args.pcap, &args.trace) {
        (Some(file), _) => pool.captured(scenario, &options, file, only)?,
        (None, Some(file)) => {
            let from = args.from.unwrap_or(scenario.warmup());
            let window = Window { from, length: args.length };
            let (record, summary) = traced(scenario, &options, window, file, &pool)?;
            shown = Some(summary);
            record
        }
        (None, None) if args.islands => {
            let city = City::new(scenario.clone(), options);
            warn(&city.report());
            with_bars_and(args.threads, store.as_ref(), |pool| city.run(pool))?
        }
        (None, None) => {
            if let Some(place) = pool.stored(scenario, &options) {
                warn(&[format!("the run is taken from {place}")]);
            }
            pool.measured(scenario, &options)?
        }
    };
    if args.json {
        print_json(out, &OneRun { timeline: shown, ..OneRun::of(&record, &warnings) })?;
    } else {
        out.write_all(text::run(&record).as_bytes())?;
        if let (Some(summary), Some(file)) = (&shown, &args.trace) {
            write!(out, "\n{}\n", table::timeline(summary))?;
            writeln!(out, "\n{} is a trace for Perfetto: open it there.", file.display())?;
        }
    }
    if let (Some((pending, mut file)), Some(path)) = (graph, &args.netjson) {
        let graph = netjson::graph(scenario, Some(&record))?;
        let written = serde_json::to_vec_pretty(&graph).map_err(std::io::Error::from);
        written
            .and_then(|text| file.write_all(&text))
            .map_err(|e| LabError::file(path, format!("cannot be written ({e})")))?;
        pending.finish()?;
    }
    if let Some(folder) = folder {
        let records = [vec![record]];
        results::write(
            folder,
            &loaded,
            &Comparison::of(&records).noted(warnings),
            &records,
            command,
        )?;
    }
    Ok(())
}
