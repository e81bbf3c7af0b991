//! `fairmesh sweep`.

use std::io::Write;

use fairmesh_control::Registry;
use fairmesh_lab::sweep::Sweep;
use fairmesh_lab::{LabError, Seeds};
use fairmesh_report::sweep::text;

use crate::args::{SweepArgs, report};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::terminal::with_bars_and;

/// Runs every combination that has not run yet, then summarises all.
///
/// # Errors
/// Bad input, or a place that cannot be written; nothing has run then.
pub fn run(
    args: &SweepArgs,
    command: &str,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let path = &args.scenario.scenario;
    let changes = args.scenario.changes.changes();
    let seeds = Seeds::first(args.seeds.into()).map_err(|e| LabError::setting("seeds", e))?;
    let sweep =
        Sweep::plan(path, &changes, &args.vary, &args.control, &args.set.set, seeds, registry)?;
    warn(sweep.scenario().warnings());
    let store = Sweep::open(&args.out, args.revision.others())?;
    report(&store);
    let summary = with_bars_and(args.threads, Some(&store), |pool| {
        sweep.run(&store, &args.out, command, pool)
    })?;
    if args.json {
        print_json(out, &summary)
    } else {
        writeln!(out, "{}\nResults: {}", text(&summary), args.out.display())?;
        Ok(())
    }
}
