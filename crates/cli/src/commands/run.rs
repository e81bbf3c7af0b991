//! `fairmesh run`.

use std::io::Write;

use crate::args::RunArgs;
use crate::commands::{print_json, warn, warn_of_idle_controls};
use crate::error::CliError;
use crate::load::{load, with_control};
use crate::output::folder::ResultFolder;
use crate::output::json::{Comparison, OneRun};
use crate::output::table;
use crate::{results, runner};

/// Runs a scenario once.
///
/// # Errors
/// Bad input, or a place that cannot be written; nothing has run then.
pub fn run(args: &RunArgs, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    let mut loaded = load(&args.scenario.scenario, &args.scenario.changes)?;
    if let Some(control) = &args.control {
        loaded.scenario = with_control(&loaded.scenario, control)?;
    }
    let scenario = &loaded.scenario;
    warn(&scenario.warnings);
    warn_of_idle_controls(std::slice::from_ref(scenario));
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
    let sample = args.sample.sample;
    let sample =
        sample.or_else(|| folder.is_some().then(|| runner::sample_interval(scenario.duration)));
    let record = match &args.pcap {
        Some(file) => runner::captured(scenario, args.seed, sample, file, only)?,
        None => runner::once(scenario, args.seed, sample)?,
    };
    if args.json {
        print_json(out, &OneRun::of(&record))?;
    } else {
        out.write_all(table::run(&record).as_bytes())?;
    }
    if let Some(folder) = folder {
        let records = [vec![record]];
        results::write(folder, &loaded, &Comparison::of(&records), &records, command)?;
    }
    Ok(())
}
