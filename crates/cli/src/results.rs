//! A result folder: what a run or comparison leaves behind.

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;

use crate::error::CliError;
use crate::load::Loaded;
use crate::output::folder::{MARK, ResultFolder};
use crate::output::json::{Comparison, ResultFile};
use crate::output::parquet;
use crate::report::{Drawing, Report};
use crate::settings;

/// Fills and finishes the folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(
    folder: ResultFolder,
    loaded: &Loaded,
    comparison: &Comparison,
    records: &[Vec<RunRecord>],
    command: &str,
) -> Result<(), CliError> {
    let scenario: &Scenario = &loaded.scenario;
    let report = Report {
        comparison,
        records,
        drawing: &Drawing::from(scenario),
        parameters: &settings::list(scenario),
        command,
    };
    folder.write("report.html", report.render().as_bytes())?;
    let json = serde_json::to_vec_pretty(&ResultFile::new(comparison, command, records))
        .map_err(|e| CliError::file(MARK, e))?;
    folder.write(MARK, &json)?;
    for (name, columns) in
        [("flows.parquet", parquet::flows(records)), ("series.parquet", parquet::series(records))]
    {
        let bytes = parquet::encode(&columns).map_err(|e| CliError::file(name, e))?;
        folder.write(name, &bytes)?;
    }
    let extension = loaded.path.extension().map_or("txt".into(), |e| e.to_string_lossy());
    folder.write(&format!("scenario.{extension}"), &loaded.bytes)?;
    folder.finish()
}
