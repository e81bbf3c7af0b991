//! `fairmesh compare`.

use std::io::Write;
use std::path::PathBuf;

use fairmesh_control::Registry;
use fairmesh_lab::batch::sample_interval;
use fairmesh_lab::changes::set_parameters;
use fairmesh_lab::files::folder::{self, ResultFolder};
use fairmesh_lab::notes::notes;
use fairmesh_lab::source::load_long_enough;
use fairmesh_lab::{Batch, Comparison};
use fairmesh_report::{brief::Rows, results, text};
use fairmesh_scenario::Scenario;

use crate::args::CompareArgs;
use crate::commands::{optimum, print_json, warn};
use crate::error::CliError;
use crate::terminal::with_bars_and;

/// Runs every control with every seed.
///
/// # Errors
/// Bad input, or a place that cannot be written; nothing has run then.
pub fn run(
    args: &CompareArgs,
    command: &str,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let changes = args.scenario.changes.changes();
    let loaded = load_long_enough(&args.scenario.scenario, &changes, registry)?;
    let mut batch = Batch::new(&loaded.scenario, &args.control, registry, args.seeds.bounds())?;
    set_parameters(&mut batch.scenarios, &args.set.set)?;
    let assumed = [loaded.scenario.warnings().to_vec(), notes(&batch.scenarios)].concat();
    if args.json {
        warn(&assumed);
    }
    if let Some(captures) = &args.pcap {
        folder::existing(captures)?;
        batch.captures = Some(captures.clone());
    }
    let target = match &args.out {
        Some(folder) => Some(folder.clone()),
        None if args.json => None,
        None => Some(default_folder(&batch.scenarios)),
    };
    let folder = target.as_deref().map(ResultFolder::claim).transpose()?;
    let store = args.store.open(args.revision)?;
    let cache = match args.optimum {
        true => args.cache.open(args.revision)?,
        false => None,
    };
    // The optimum is first, so that an error in the longer work is reported early.
    let optimum = match args.optimum {
        true => {
            Some(optimum::search(&loaded.scenario, args.per, cache.as_ref(), args.threads)?.optimum)
        }
        false => None,
    };
    let curves = || sample_interval(loaded.scenario.duration());
    batch.sample = args.sample.sample.or_else(|| folder.is_some().then(curves));
    let records = with_bars_and(args.threads, store.as_ref(), |pool| batch.run(pool))?;
    let mut comparison = Comparison::of(&records).noted(assumed);
    if let Some(optimum) = &optimum {
        comparison = comparison.of_optimum(&records, optimum);
    }
    if let (Some(folder), Some(target)) = (folder, &target) {
        results::write(folder, &loaded, &comparison, &records, command)?;
        if !args.json {
            let rows = if args.all { Rows::All } else { Rows::Worst };
            let text = text::comparison(&comparison, rows);
            let report = target.join("report.html");
            writeln!(out, "{text}\nReport: {}", report.display())?;
        }
    }
    if args.json {
        print_json(out, &comparison)?;
    }
    Ok(())
}

fn default_folder(scenarios: &[Scenario]) -> PathBuf {
    let controls: Vec<String> = scenarios.iter().map(|s| s.control().to_string()).collect();
    let name = format!("{}-{}", scenarios[0].name(), controls.join("-"));
    // A scenario's name is free text.
    let safe = |c: char| if c.is_alphanumeric() || "-_+.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(safe).take(120).collect();
    PathBuf::from("results").join(name.trim_start_matches('.'))
}
