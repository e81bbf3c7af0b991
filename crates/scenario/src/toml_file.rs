//! The TOML form.

use fairmesh_document::Document;

use crate::draft::Draft;
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::scenario::Scenario;

/// Reads a TOML scenario and builds it. `file_name` is for messages, and names the scenario where
/// the file does not.
///
/// # Errors
/// The first thing found wrong, with file, line and key.
pub(crate) fn parse_toml(file_name: &str, text: &str) -> Result<Scenario, ScenarioError> {
    read(file_name, text, Draft::build)
}

/// Reads a TOML scenario without building it.
///
/// # Errors
/// The first thing found wrong with a single value, with file, line and key.
pub fn draft_from_toml(file_name: &str, text: &str) -> Result<Draft, ScenarioError> {
    read(file_name, text, |draft| Ok(draft.clone()))
}

fn read<T>(
    file_name: &str,
    text: &str,
    then: impl FnOnce(&Draft) -> Result<T, ScenarioError>,
) -> Result<T, ScenarioError> {
    let in_file = |mut e: ScenarioError| {
        e.file = Some(file_name.to_owned());
        e
    };
    if text.trim().is_empty() {
        return Err(in_file(ScenarioError::at(KeyPath::root(), Problem::Empty)));
    }
    let document = Document::parse(text).map_err(|e| in_file(e.into()))?;
    let mut draft: Draft = document.decode().map_err(|e| in_file(e.into()))?;
    draft.name.get_or_insert_with(|| stem(file_name));
    then(&draft).map_err(|mut e| {
        e.line = document.line(&e.key);
        in_file(e)
    })
}

/// The file's name without folders and extension.
pub(crate) fn stem(file_name: &str) -> String {
    let base = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
    if stem.is_empty() { base.to_owned() } else { stem.to_owned() }
}
