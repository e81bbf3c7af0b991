//! The TOML form.

use fairmesh_document::Document;

use crate::draft::Draft;
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::origin::Origin;

/// Reads a TOML scenario without resolving it.
///
/// `file_name` is for messages, and names the scenario if the file does not.
///
/// # Errors
/// Returns the first invalid value, with file, line and key.
pub fn draft_from_toml(file_name: &str, text: &str) -> Result<Draft, ScenarioError> {
    let origin = Origin::text(file_name, text);
    let read = || {
        if text.trim().is_empty() {
            return Err(ScenarioError::at(KeyPath::root(), Problem::Empty));
        }
        let mut draft: Draft = Document::parse(text)?.decode()?;
        draft.name.get_or_insert_with(|| stem(file_name));
        Ok(draft)
    };
    match read() {
        Ok(draft) => Ok(Draft { origin, ..draft }),
        Err(e) => Err(origin.locate(e)),
    }
}

/// Returns the file's name without folders and extension.
pub(crate) fn stem(file_name: &str) -> String {
    let base = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
    if stem.is_empty() { base.to_owned() } else { stem.to_owned() }
}
