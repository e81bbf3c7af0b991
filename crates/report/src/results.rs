//! A result folder with its report.

use fairmesh_lab::LabError;
use fairmesh_lab::comparison::Comparison;
use fairmesh_lab::files::folder::ResultFolder;
use fairmesh_lab::files::results::fill;
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::source::Loaded;

use crate::explorer::{Sources, render};
use crate::settings;
use crate::topology::Drawing;

/// Fills and finishes the folder.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn write(
    folder: ResultFolder,
    loaded: &Loaded,
    comparison: &Comparison,
    records: &[Vec<RunRecord>],
    command: &str,
) -> Result<(), LabError> {
    let page = render(&Sources {
        comparison,
        records,
        drawing: &Drawing::from(&loaded.scenario),
        settings: &settings::list(&loaded.scenario),
        command,
    });
    folder.write("report.html", page.as_bytes())?;
    fill(&folder, loaded, comparison, records, command)?;
    folder.finish()
}
