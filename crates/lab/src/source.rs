//! From a file to a scenario, with what is changed about it from outside.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use fairmesh_scenario::{Format, ImportOptions, MAX_FILE_BYTES, Scenario, draft, format_of};
use toml::Table;

use crate::changes::Edit;
use crate::notes::few_packets;
use crate::sweep::vary::set;
use crate::{Changes, LabError};

/// A scenario and where it came from.
#[derive(Debug)]
pub struct Loaded {
    /// The file, as given.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The scenario, changes applied.
    pub scenario: Scenario,
}

/// Reads a scenario and applies what is changed about it.
///
/// # Errors
/// Everything that can be wrong with the file, or with the changes.
pub fn load(path: &Path, changes: &Changes) -> Result<Loaded, LabError> {
    let bytes = read(path)?;
    let scenario = build(path, &bytes, changes)?;
    Ok(Loaded { path: path.to_owned(), bytes, scenario })
}

/// Builds a scenario from a file's content and applies what is changed about it.
///
/// # Errors
/// Everything that can be wrong with the content, or with the changes.
pub fn build(path: &Path, bytes: &[u8], changes: &Changes) -> Result<Scenario, LabError> {
    if changes.edits.is_empty() {
        return build_text(path, bytes, changes);
    }
    let text = edited(path, bytes, &changes.edits)?;
    build_text(path, text.as_bytes(), changes).map_err(|e| match e {
        // The line is not one of the file's.
        LabError::Scenario(mut e) => {
            e.line = None;
            LabError::Scenario(e)
        }
        e => e,
    })
}

/// The text of a TOML scenario with other values for some keys.
fn edited(path: &Path, bytes: &[u8], edits: &[Edit]) -> Result<String, LabError> {
    let text = String::from_utf8_lossy(bytes);
    let mut table: Table = toml::from_str(&text).map_err(|_| {
        LabError::file(path, "is a map; expected a TOML scenario, whose keys can be varied")
    })?;
    for Edit { key, value } in edits {
        set(&mut table, key, value).map_err(|e| LabError::setting("vary", e))?;
    }
    toml::to_string(&table).map_err(|e| LabError::file(path, e))
}

fn build_text(path: &Path, bytes: &[u8], changes: &Changes) -> Result<Scenario, LabError> {
    let name = path.to_string_lossy();
    if let Ok((format, _)) = format_of(bytes) {
        check_map_options(path, changes, format)?;
    }
    let mut draft = draft(&name, bytes, &import_options(changes))?;
    if let Some(duration) = changes.duration {
        draft.set_duration(duration, "duration");
    }
    if let Some(warmup) = changes.warmup {
        draft.set_warmup(warmup, "warmup");
    }
    let scenario = draft.build()?;
    if format_of(bytes).is_ok_and(|(format, _)| format != Format::Toml) {
        let notes = few_packets(&scenario);
        return Ok(scenario.with_warnings(notes));
    }
    Ok(scenario)
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

/// Refuses a map's options for a scenario file, which has its own gateway, flows and rates.
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
                let file = path.display();
                let problem = format!("{file} is no map; expected this setting in the file itself");
                Err(LabError::setting(setting, problem))
            }
        };
    }
    Ok(())
}

/// Reads a file of at most the size that any scenario has.
///
/// # Errors
/// When it is not there, not a file, too large or not readable.
pub fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let expected = "expected a scenario file";
    let metadata = fs::metadata(path).map_err(|e| {
        let what = if e.kind() == std::io::ErrorKind::NotFound {
            "there is no such file".to_owned()
        } else {
            format!("cannot be read ({e})")
        };
        LabError::file(path, format!("{what}; {expected}"))
    })?;
    if metadata.is_dir() {
        return Err(LabError::file(path, format!("is a folder; {expected}")));
    }
    let unreadable =
        |e: std::io::Error| LabError::file(path, format!("cannot be read ({e}); {expected}"));
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than accepted, so that the parser sees and refuses what is too long; a pipe or
    // device without end does not fill the memory.
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
