//! Stored records beside their experiments, as read by the pages.

use fairmesh_lab::LabError;

use super::catalogue::{Catalogue, Entry, RECORDS_FOLDER};
use super::record::Record;
use super::tally::Tally;

/// Folder of the details below that of the screens.
pub const DETAILS_FOLDER: &str = "details";

/// One experiment with its record, if there is one.
pub(super) struct Kept {
    pub(super) entry: Entry,
    pub(super) record: Option<Record>,
}

/// Returns the counts of some experiments of one paper.
pub(super) fn total(part: &[&Kept]) -> Tally {
    let records: Vec<&Record> = part.iter().filter_map(|k| k.record.as_ref()).collect();
    Tally::of_all(&records)
}

/// Returns the stored record of an experiment.
///
/// # Errors
/// Returns an error if it exists and cannot be read.
pub fn kept(catalogue: &Catalogue, id: &str) -> Result<Option<Record>, LabError> {
    let name = format!("{RECORDS_FOLDER}/{id}.json");
    let Some(text) = catalogue.file(&name)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|e| {
        let problem = format!(
            "{e}; expected a record, as fairmesh-experiments reproduce {id} --record writes it"
        );
        LabError::file(catalogue.shown(&name), problem)
    })
}
