//! `fairmesh compare`.

use std::io::Write;
use std::path::PathBuf;

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;

use crate::args::CompareArgs;
use crate::commands::{print_json, warn, warn_of_idle_controls};
use crate::error::CliError;
use crate::load::{load, with_controls};
use crate::output::folder::ResultFolder;
use crate::output::json::Comparison;
use crate::output::table;
use crate::{results, runner};

/// Runs every control with every seed.
///
/// # Errors
/// Bad input, or a place that cannot be written; nothing has run then.
pub fn run(args: &CompareArgs, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    let loaded = load(&args.scenario.scenario, &args.scenario.changes)?;
    warn(&loaded.scenario.warnings);
    let scenarios = with_controls(&loaded.scenario, &args.control)?;
    warn_of_idle_controls(&scenarios);
    let target = match &args.out {
        Some(folder) => Some(folder.clone()),
        None if args.json => None,
        None => Some(default_folder(&scenarios)),
    };
    let folder = target.as_deref().map(ResultFolder::claim).transpose()?;
    if let Some(captures) = &args.pcap
        && captures.exists()
        && !captures.is_dir()
    {
        return Err(CliError::file(captures, "is a file; expected a folder for captures"));
    }

    let records = simulate(args, &scenarios, folder.is_some())?;
    let comparison = Comparison::of(&records);
    if let (Some(folder), Some(target)) = (folder, &target) {
        results::write(folder, &loaded, &comparison, &records, command)?;
        if !args.json {
            let text = table::comparison(&comparison);
            let report = target.join("report.html");
            writeln!(out, "{text}\nReport: {}", report.display())?;
        }
    }
    if args.json {
        print_json(out, &comparison)?;
    }
    Ok(())
}

/// One inner list per control, one record per seed.
fn simulate(
    args: &CompareArgs,
    scenarios: &[Scenario],
    curves: bool,
) -> Result<Vec<Vec<RunRecord>>, CliError> {
    let seeds = u64::from(args.seeds);
    let jobs: Vec<(&Scenario, u64)> =
        scenarios.iter().flat_map(|s| (1..=seeds).map(move |seed| (s, seed))).collect();
    let sample = args
        .sample
        .sample
        .or_else(|| curves.then(|| runner::sample_interval(scenarios[0].duration)));
    let mut records =
        runner::all(args.threads, "comparing", &jobs, |&(scenario, seed)| match &args.pcap {
            Some(folder) if seed == 1 => {
                let file = folder.join(format!("{}.pcap", scenario.control.name));
                runner::captured(scenario, seed, sample, &file, None)
            }
            _ => runner::once(scenario, seed, sample),
        })?
        .into_iter();
    Ok(scenarios.iter().map(|_| records.by_ref().take(seeds as usize).collect()).collect())
}

fn default_folder(scenarios: &[Scenario]) -> PathBuf {
    let controls: Vec<&str> = scenarios.iter().map(|s| s.control.name.as_str()).collect();
    let name = format!("{}-{}", scenarios[0].name, controls.join("-"));
    // A scenario's name is free text.
    let safe = |c: char| if c.is_alphanumeric() || "-_+.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(safe).take(120).collect();
    PathBuf::from("results").join(name.trim_start_matches('.'))
}
