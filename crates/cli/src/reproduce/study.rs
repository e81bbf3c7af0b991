//! Experiments that are more than runs of scenarios: their numbers come from code.

use fairmesh_scenario::{Direction, ReceptionDraft};
use toml::Value as Setting;

use super::cells::{Cell, Value};
use super::neighbourhood;
use super::plan::Plan;
use super::record::Record;
use crate::args::ThreadArgs;
use crate::error::CliError;
use crate::study::accuracy::{self, Settings};

/// The studies, by name.
pub const KNOWN: [&str; 3] = ["model-accuracy", "neighbourhood-limits", "neighbourhood-sums"];

/// Runs the study of a plan; `None` where it has none.
///
/// # Errors
/// An unknown study or setting; what the study refuses.
pub fn record(plan: &Plan, threads: ThreadArgs) -> Result<Option<Record>, CliError> {
    let Some(name) = &plan.entry.experiment.study else { return Ok(None) };
    match name.as_str() {
        "model-accuracy" => model_accuracy(plan, threads).map(Some),
        "neighbourhood-limits" => Ok(Some(of_numbers(plan, &neighbourhood::limits()))),
        "neighbourhood-sums" => Ok(Some(of_numbers(plan, &neighbourhood::sums()))),
        _ => {
            let problem = format!("there is no study \"{name}\"; expected {}", KNOWN.join(", "));
            Err(CliError::Run { scenario: plan.entry.id.clone(), problem })
        }
    }
}

/// A record of numbers that have a row and a column and no spread.
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
                value: Value { value: *value, ci95: None },
            }
        })
        .collect();
    Record::from_cells(plan, &cells, 0, format!("{hash:016x}"))
}

/// Table 4.1 of Jamshaid 2010: rows by model and statistic, columns without and with RTS/CTS.
fn model_accuracy(plan: &Plan, threads: ThreadArgs) -> Result<Record, CliError> {
    let experiment = &plan.entry.experiment;
    let bad = |problem: String| CliError::Run { scenario: plan.entry.id.clone(), problem };
    let word = |key: &str| experiment.set.get(key).and_then(Setting::as_str);
    let direction = match word("flows") {
        None | Some("up") => Direction::Up,
        Some("down") => Direction::Down,
        Some(other) => {
            return Err(bad(format!("set.flows: found \"{other}\"; expected up or down")));
        }
    };
    let reception = match word("reception") {
        None | Some("ns2") => ReceptionDraft::Ns2,
        Some("sinr") => ReceptionDraft::Sinr,
        Some(other) => {
            return Err(bad(format!("set.reception: found \"{other}\"; expected ns2 or sinr")));
        }
    };
    let topologies = plan.extent.effort(experiment).networks.unwrap_or(50);
    let study = accuracy::run(
        Settings { topologies, seeds: plan.seeds(), direction, reception, ..Settings::default() },
        threads,
    )?;
    let mut cells = Vec::new();
    let mut hash = 0u64;
    let models = [("cliques", "cliques (Ocl)"), ("domains", "collision domains (Rcd)")];
    for (statistic, what) in ["mean error of ", "std. dev. of the error of "].iter().enumerate() {
        for (model, label) in models {
            for row in study.rows.iter().filter(|r| r.model == model) {
                let value = if statistic == 0 { row.mean } else { row.std };
                hash = (hash ^ value.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                cells.push(Cell {
                    row: format!("{what}{label}"),
                    column: if row.rts { "with RTS/CTS" } else { "no RTS/CTS" }.to_owned(),
                    arm: String::new(),
                    point: String::new(),
                    line: String::new(),
                    measure: statistic,
                    value: Value { value, ci95: None },
                });
            }
        }
    }
    Ok(Record::from_cells(plan, &cells, 0, format!("{hash:016x}")))
}
