//! `fairmesh sweep`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use fairmesh_control::Registry;
use fairmesh_lab::files::folder::write_file;
use fairmesh_lab::job::Source;
use fairmesh_lab::sweep::{Plan, STORE_FOLDER, Sweep};
use fairmesh_lab::{Changes, Revision, source};
use fairmesh_report::sweep::{figure, text};

use crate::args::{SweepArgs, report};
use crate::commands::warn;
use crate::error::CliError;
use crate::terminal::with_bars_and;

/// Copy of the plan in the sweep's folder, for workers.
const PLAN_FILE: &str = "plan.json";

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
    let sweep = Sweep::new(plan(args, registry)?, registry)?;
    sweep.scenarios().iter().for_each(|s| warn(s.warnings()));
    let store = Sweep::open(&args.out, args.revision.others())?;
    report(&store);
    if let Some(scheduler) = &args.on {
        distribute(&sweep, scheduler, &args.out)?;
        store.refresh().map_err(fairmesh_lab::LabError::from)?;
    }
    let summary = with_bars_and(args.threads, Some(&store), |pool| {
        sweep.run(&store, &args.out, command, pool)
    })?;
    let picture = args.out.join("sweep.svg");
    if let Some(f) = &summary.figure {
        let svg = figure(f).map_err(|e| CliError::file(&picture, e))?;
        write_file(&picture, svg.as_bytes())?;
    }
    if args.json {
        let json = args.out.join("sweep.json");
        let mut file = fs::File::open(&json).map_err(|e| CliError::file(&json, e))?;
        std::io::copy(&mut file, out)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}\nResults: {}", text(&summary), args.out.display())?;
    }
    Ok(())
}

/// Reads a plan, or builds one from a scenario and the options.
fn plan(args: &SweepArgs, registry: &Registry) -> Result<Plan, CliError> {
    let path = &args.scenario.scenario;
    let changes = args.scenario.changes.changes();
    let content = source::read(path)?;
    let mut plan = if Plan::is_plan(&content) {
        let given = [
            ("--vary", !args.vary.is_empty()),
            ("--control", !args.control.is_empty()),
            ("--set", !args.set.set.is_empty()),
            ("--duration, --warmup and options for maps", changes != Changes::default()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is)| *is) {
            let problem =
                format!("{} is a plan; expected this setting in the file", path.display());
            return Err(CliError::option(option, problem));
        }
        Plan::read(path, registry)?
    } else {
        if args.vary.is_empty() {
            let problem =
                "none is given; expected KEY=VALUE,VALUE,… or a plan in place of the scenario";
            return Err(CliError::option("--vary", problem));
        }
        let mut plan = Plan::of(Source::new(path, &content)?, changes);
        for text in &args.vary {
            plan.vary(text)?;
        }
        plan.controls.clone_from(&args.control);
        plan.options.clone_from(&args.set.set);
        plan
    };
    if let Some(seeds) = &args.seeds {
        plan.seeds = seeds.clone();
    }
    Ok(plan)
}

/// Distributes the missing runs through a Dask scheduler, with the Python package.
fn distribute(sweep: &Sweep, scheduler: &str, folder: &Path) -> Result<(), CliError> {
    let file = folder.join(PLAN_FILE);
    let json = serde_json::to_vec(sweep.plan()).map_err(|e| CliError::file(&file, e))?;
    write_file(&file, &json)?;
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let status = Command::new(&python)
        .args(["-m", "fairmesh", "fill", "--on", scheduler, "--revision"])
        .arg(Revision::current().as_str())
        .arg(&file)
        .arg(folder.join(STORE_FOLDER))
        .status();
    let python = python.to_string_lossy();
    match status {
        Ok(status) if status.success() => Ok(()),
        // The program has printed the reason.
        Ok(status) => Err(CliError::option(
            "--on",
            format!("{python} -m fairmesh ended with {status}; expected it to fill the store"),
        )),
        Err(e) => Err(CliError::option(
            "--on",
            format!("{python} cannot be run ({e}); expected Python with the package fairmesh"),
        )),
    }
}
