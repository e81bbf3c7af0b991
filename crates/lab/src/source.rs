//! Scenarios from files, with changes from outside.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::changes::Edit;
use crate::notes::{few_packets, long_enough};
use crate::{Changes, FileProblem, LabError, SettingProblem};
use fairmesh_control::Registry;
use fairmesh_scenario::{Draft, Format, ImportOptions, MAX_FILE_BYTES, Scenario, draft, format_of};

/// A scenario and its source.
#[derive(Debug)]
pub struct Loaded {
    /// The file, as given.
    pub path: PathBuf,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// The scenario, changes applied.
    pub scenario: Scenario,
}

/// Reads a scenario and applies its changes.
///
/// # Errors
/// Returns an error if the file or the changes are invalid.
pub fn load(path: &Path, changes: &Changes, registry: &Registry) -> Result<Loaded, LabError> {
    let bytes = read(path)?;
    let scenario = build(path, &bytes, changes, registry)?;
    Ok(Loaded { path: path.to_owned(), bytes, scenario })
}

/// Reads a scenario as [`load`] does, and runs a map long enough for verdicts on its flows.
///
/// Without a duration in `changes`, a map gets one in which every flow has 200 packets at its fair rate, and a warning
/// that states it.
///
/// # Errors
/// Returns an error if the file or the changes are invalid.
pub fn load_long_enough(
    path: &Path,
    changes: &Changes,
    registry: &Registry,
) -> Result<Loaded, LabError> {
    let loaded = load(path, changes, registry)?;
    let is_map = format_of(&loaded.bytes).is_ok_and(|(format, _)| format != Format::Toml);
    if !is_map || changes.duration.is_some() {
        return Ok(loaded);
    }
    let Some(duration) = long_enough(&loaded.scenario) else { return Ok(loaded) };
    let longer = Changes { duration: Some(duration), ..changes.clone() };
    let scenario = build(path, &loaded.bytes, &longer, registry)?;
    let usual = loaded.scenario.duration();
    let note = match few_packets(&scenario) {
        None => format!(
            "simulated time {duration} instead of {usual}, so that every flow has 200 packets at its fair rate"
        ),
        Some(_) => format!(
            "simulated time {duration} instead of {usual}, the longest without an option, is too short for 200 packets \
             of every flow"
        ),
    };
    Ok(Loaded { scenario: scenario.with_warnings([note]), ..loaded })
}

/// Builds a scenario from a file's content and applies its changes.
/// `registry` has the mechanisms that it may name.
///
/// # Errors
/// Returns an error if the content or the changes are invalid.
pub fn build(
    path: &Path,
    bytes: &[u8],
    changes: &Changes,
    registry: &Registry,
) -> Result<Scenario, LabError> {
    let (draft, is_map) = changed(path, bytes, changes)?;
    let scenario = draft.build_with(registry)?;
    if is_map {
        let notes = few_packets(&scenario);
        return Ok(scenario.with_warnings(notes));
    }
    Ok(scenario)
}

/// Reads a scenario and applies its changes without resolving it: as a file would have it.
///
/// # Errors
/// Returns an error if the content or a single value is invalid.
pub fn draft_of(path: &Path, bytes: &[u8], changes: &Changes) -> Result<Draft, LabError> {
    Ok(changed(path, bytes, changes)?.0)
}

/// Returns the changed draft, and true if it was a map.
fn changed(path: &Path, bytes: &[u8], changes: &Changes) -> Result<(Draft, bool), LabError> {
    let name = path.to_string_lossy();
    let format = format_of(bytes).map(|(format, _)| format);
    if let Ok(format) = format {
        check_map_options(path, changes, format)?;
    }
    let is_map = format.is_ok_and(|format| format != Format::Toml);
    let mut draft = draft(&name, bytes, &import_options(changes))?;
    if !changes.edits.is_empty() {
        if is_map {
            return Err(LabError::at(path, FileProblem::Map));
        }
        let edit = |e: &Edit| fairmesh_scenario::Edit::text(&e.key, &e.value, "vary");
        draft.edit(&changes.edits.iter().map(edit).collect::<Vec<_>>())?;
    }
    if let Some(duration) = changes.duration {
        draft.set_duration(duration, "duration");
    }
    if let Some(warmup) = changes.warmup {
        draft.set_warmup(warmup, "warmup");
    }
    Ok((draft, is_map))
}

fn import_options(changes: &Changes) -> ImportOptions {
    let usual = ImportOptions::default();
    ImportOptions {
        gateways: changes.gateways.clone(),
        direction: changes.flows.unwrap_or(usual.direction),
        flows: changes.flow_count.map(|n| n as usize),
        connections: changes.connections,
        subscribers: changes.subscribers,
        phy: changes.radio.phy,
        rate: changes.radio.rate,
        width: changes.radio.width,
        streams: changes.radio.streams,
        channel: changes.radio.channel,
        metric: changes.radio.metric,
        graph: changes.radio.graph.clone(),
        ..usual
    }
}

/// Rejects a map's options for a scenario file, which has its own gateway, flows and rates.
fn check_map_options(path: &Path, changes: &Changes, format: Format) -> Result<(), LabError> {
    if matches!(format, Format::Toml) {
        let given = [
            ("gateway", !changes.gateways.is_empty()),
            ("flows", changes.flows.is_some()),
            ("flow count", changes.flow_count.is_some()),
            ("connections", changes.connections.is_some()),
            ("subscribers", changes.subscribers),
        ];
        let radio = changes.radio.given();
        let radio = radio.iter().map(|(setting, _)| (*setting, true));
        return match given.into_iter().chain(radio).find(|(_, is)| *is) {
            None => Ok(()),
            Some((setting, _)) => {
                Err(LabError::wrong(setting, SettingProblem::NotAMap { file: path.to_owned() }))
            }
        };
    }
    Ok(())
}

/// Reads a file up to the size limit of scenarios.
///
/// # Errors
/// Returns an error if it does not exist, is not a file, is too large or is not readable.
pub fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let expected = "a scenario file";
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => LabError::at(path, FileProblem::Missing { expected }),
        _ => LabError::at(path, FileProblem::Unreadable { error, expected }),
    };
    if fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Err(LabError::at(path, FileProblem::Folder { expected }));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than accepted, so that the parser detects and rejects longer content; an endless pipe or
    // device does not fill the memory.
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
