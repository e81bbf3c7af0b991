//! A result folder: the output of a run or comparison for other programs.

use fairmesh_engine::record::RunRecord;

use super::folder::{RESULTS_FILE, ResultFolder};
use super::parquet;
use crate::comparison::{Comparison, ResultFile};
use crate::frame;
use crate::source::Loaded;
use crate::{FileProblem, LabError};

/// Fills a folder: `results.json`, the tables and the scenario as it was read.
/// `command` is recorded as the command that produced it.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn fill(
    folder: &ResultFolder,
    loaded: &Loaded,
    comparison: &Comparison,
    records: &[Vec<RunRecord>],
    command: &str,
) -> Result<(), LabError> {
    let json = serde_json::to_vec_pretty(&ResultFile::new(comparison, command, records))
        .map_err(|e| LabError::at(RESULTS_FILE, FileProblem::Encode(e.into())))?;
    folder.write(RESULTS_FILE, &json)?;
    for (name, table) in
        [("flows.parquet", frame::flows(records)), ("series.parquet", frame::series(records))]
    {
        let bytes = parquet::encode(&table)
            .map_err(|e| LabError::at(name, FileProblem::Encode(e.into())))?;
        folder.write(name, &bytes)?;
    }
    let extension = loaded.path.extension().map_or("txt".into(), |e| e.to_string_lossy());
    folder.write(&format!("scenario.{extension}"), &loaded.bytes)
}
