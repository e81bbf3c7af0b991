//! `fairmesh fingerprints`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use fairmesh_control::Registry;
use fairmesh_lab::batch;
use fairmesh_lab::changes::with_control;
use fairmesh_lab::files::folder::write_file;
use fairmesh_lab::source::load;
use fairmesh_lab::{Changes, LabError};
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;

use crate::args::FingerprintArgs;
use crate::error::CliError;
use crate::terminal;

/// Maximum duration of the runs: long enough for every mechanism of a scenario to act.
const MAX_DURATION: Span = Span::from_secs(20);
/// Second control of each scenario.
///
/// It limits rates, so that it exercises code that `fifo` does not.
const SECOND_CONTROL: &str = "source";

/// Compares fingerprints with the stored ones, or rewrites the stored ones.
///
/// # Errors
/// [`CliError::Verdict`] if they differ; bad input.
pub fn run(
    args: &FingerprintArgs,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let mut jobs: Vec<(String, Scenario)> = Vec::new();
    for path in scenario_files(&args.scenarios)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let loaded = load(&path, &Changes::default(), registry)?;
        let scenario = loaded.scenario;
        let end = scenario.duration().min(MAX_DURATION);
        let tenth = Span::from_nanos(end.as_nanos() / 10);
        let half = Span::from_nanos(end.as_nanos().div_ceil(2));
        let warmup = if scenario.warmup() >= half { tenth } else { scenario.warmup() };
        let scenario = scenario.prefix(end, warmup).map_err(LabError::from)?;
        let own = scenario.control().to_string();
        if own != SECOND_CONTROL {
            jobs.push((
                format!("{stem}/{SECOND_CONTROL}"),
                with_control(&scenario, SECOND_CONTROL, registry)?,
            ));
        }
        jobs.push((format!("{stem}/{own}"), scenario));
    }
    let found: BTreeMap<String, String> = terminal::with_bars(args.threads, |pool| {
        batch::all(pool, "running", &jobs, |(key, s)| {
            Ok((key.clone(), batch::once(s, 1, None)?.fingerprint))
        })
    })?
    .into_iter()
    .collect();

    if args.update {
        let mut text =
            serde_json::to_vec_pretty(&found).map_err(|e| CliError::file(&args.check, e))?;
        text.push(b'\n');
        write_file(&args.check, &text)?;
        writeln!(out, "{} fingerprints kept in {}", found.len(), args.check.display())?;
        return Ok(());
    }
    let kept = kept(&args.check)?;
    let differences = differences(&kept, &found);
    for line in &differences {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    if differences.is_empty() {
        writeln!(out, "{} fingerprints as kept in {}", found.len(), args.check.display())?;
        Ok(())
    } else {
        let n = differences.len();
        let file = args.check.display();
        Err(CliError::Verdict(format!(
            "{n} fingerprints differ from {file}; if the change is meant, run with --update"
        )))
    }
}

fn kept(path: &Path) -> Result<BTreeMap<String, String>, CliError> {
    let expected = "expected kept fingerprints; --update writes them";
    let text = fs::read_to_string(path)
        .map_err(|e| CliError::file(path, format!("cannot be read ({e}); {expected}")))?;
    serde_json::from_str(&text).map_err(|e| CliError::file(path, format!("{e}; {expected}")))
}

/// Returns the scenario files of a folder, sorted by name.
///
/// # Errors
/// Returns an error if the folder cannot be read or has none.
pub fn scenario_files(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let expected = "expected a folder of scenarios";
    let entries = fs::read_dir(folder)
        .map_err(|e| CliError::file(folder, format!("cannot be read ({e}); {expected}")))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(CliError::file(folder, format!("has no *.toml; {expected}")));
    }
    Ok(files)
}

fn differences(kept: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let mut out = Vec::new();
    for (key, new) in found {
        match kept.get(key) {
            Some(old) if old == new => {}
            Some(old) => out.push(format!("{key}: {new}, kept {old}")),
            None => out.push(format!("{key}: {new}, none kept")),
        }
    }
    out.extend(kept.keys().filter(|k| !found.contains_key(*k)).map(|k| format!("{k}: gone")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_new_and_missing_entries_are_distinguished() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let kept = map(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let found = map(&[("a", "1"), ("b", "9"), ("d", "4")]);
        assert_eq!(differences(&kept, &found), ["b: 9, kept 2", "d: 4, none kept", "c: gone"]);
        assert!(differences(&kept, &kept).is_empty());
    }
}
