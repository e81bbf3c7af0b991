//! Experiments that are more than runs of scenarios; their numbers are computed by code.

mod gateways;
mod meshes;
mod models;

use crate::study::Settings;
use crate::study::families::Times;
use fairmesh_lab::Estimate;
use fairmesh_lab::LabError;
use fairmesh_lab::Pool;
use fairmesh_lab::Store;
use toml::Value as Setting;

use super::cell::Cell;
use super::neighbourhood;
use super::plan::Plan;
use super::record::Record;

/// The studies, by name.
pub const STUDIES: [&str; 8] = [
    "model-accuracy",
    "region-section",
    "neighbourhood-limits",
    "neighbourhood-sums",
    "gateway-families",
    "gateway-floods",
    "mesh-families",
    "mesh-newcomers",
];

/// Result of a study.
#[derive(Debug)]
pub struct Found {
    /// The table.
    pub record: Record,
    /// Results beside the table: names of files, and their text.
    pub files: Vec<(String, String)>,
}

impl From<Record> for Found {
    fn from(record: Record) -> Self {
        Found { record, files: Vec::new() }
    }
}

/// Runs the study of a plan; `None` if it has none.
///
/// Optima are taken from `cache` and stored there.
///
/// # Errors
/// An unknown study or setting; an error of the study.
pub fn record(
    plan: &Plan,
    cache: Option<&Store>,
    pool: &Pool<'_>,
) -> Result<Option<Found>, LabError> {
    let Some(name) = &plan.entry.experiment.study else { return Ok(None) };
    match name.as_str() {
        "model-accuracy" => models::model_accuracy(plan, pool).map(|r| Some(r.into())),
        "region-section" => models::region_section(plan, pool).map(|r| Some(r.into())),
        "neighbourhood-limits" => Ok(Some(of_numbers(plan, &neighbourhood::limits()).into())),
        "neighbourhood-sums" => Ok(Some(of_numbers(plan, &neighbourhood::sums()).into())),
        "gateway-families" => gateways::gateway_families(plan, cache, pool).map(Some),
        "gateway-floods" => gateways::gateway_floods(plan, cache, pool).map(Some),
        "mesh-families" => meshes::mesh_families(plan, cache, pool).map(Some),
        "mesh-newcomers" => meshes::mesh_newcomers(plan, pool).map(Some),
        _ => {
            let problem = format!("there is no study \"{name}\"; expected {}", STUDIES.join(", "));
            Err(LabError::run(&plan.entry.id, problem))
        }
    }
}

/// Returns a record of numbers with a row and a column and without an interval.
fn of_numbers(plan: &Plan, numbers: &[(String, &str, f64)]) -> Record {
    let mut hash = 0u64;
    let cells: Vec<Cell> = numbers
        .iter()
        .map(|(row, column, value)| {
            hash = (hash ^ value.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Cell {
                row: row.clone(),
                column: (*column).to_owned(),
                arm: String::new(),
                point: String::new(),
                line: String::new(),
                measure: 0,
                value: Estimate::counted(*value),
            }
        })
        .collect();
    Record::from_cells(plan, &cells, 0, format!("{hash:016x}"))
}

/// Returns `set.KEY` of the study's declaration as words.
fn words(plan: &Plan, key: &str) -> Result<Vec<String>, LabError> {
    let list = plan.entry.experiment.set.get(key).and_then(Setting::as_array);
    list.and_then(|l| l.iter().map(|v| v.as_str().map(str::to_owned)).collect()).ok_or_else(|| {
        LabError::run(&plan.entry.id, format!("set.{key}: expected a list of words"))
    })
}

/// Returns `set.KEY` of the study's declaration as whole seconds.
fn seconds(plan: &Plan, key: &str) -> Result<u32, LabError> {
    let given = plan.entry.experiment.set.get(key).and_then(Setting::as_integer);
    given.and_then(|s| u32::try_from(s).ok()).ok_or_else(|| {
        LabError::run(&plan.entry.id, format!("set.{key}: expected a number of seconds"))
    })
}

/// Returns duration and warm-up of each run.
fn times_of(plan: &Plan) -> Result<Times, LabError> {
    let (duration_s, warmup_s) = (seconds(plan, "duration")?, seconds(plan, "warmup")?);
    Ok(Times { duration_s, warmup_s })
}

/// Returns controls and seeds of a study that is compared with optima.
fn settings_of(plan: &Plan) -> Result<Settings, LabError> {
    let controls = words(plan, "controls")?;
    let registry = plan.entry.registry().clone();
    Ok(Settings { controls, registry, seeds: plan.seeds(), search: Default::default() })
}

/// Returns one row: a value for each measure of the declaration, in its order.
fn row_of(plan: &Plan, label: &str, values: &[Estimate]) -> Result<Vec<Cell>, LabError> {
    let measures = &plan.entry.experiment.measures;
    if measures.len() != values.len() {
        let problem = format!("measure: expected {} of them", values.len());
        return Err(LabError::run(&plan.entry.id, problem));
    }
    let cell = |(measure, value): (usize, &Estimate)| Cell {
        row: label.to_owned(),
        column: measures[measure].label.clone(),
        arm: String::new(),
        point: String::new(),
        line: String::new(),
        measure,
        value: *value,
    };
    Ok(values.iter().enumerate().map(cell).collect())
}
