//! The analytic models beside the simulator.

use crate::study::{accuracy, section};
use fairmesh_lab::{Estimate, LabError, Pool};
use fairmesh_scenario::{Direction, ReceptionDraft};
use toml::Value as Setting;

use crate::reproduce::cell::Cell;
use crate::reproduce::plan::Plan;
use crate::reproduce::record::Record;

/// Returns the numbers of Fig. 2 of Rangwala 2008.
///
/// Rows are by the rate of the first group's flows (`rates`, kbit/s), columns are the model and the
/// simulator. `first` has the indices of these flows.
pub(super) fn region_section(plan: &Plan, pool: &Pool<'_>) -> Result<Record, LabError> {
    let experiment = &plan.entry.experiment;
    let bad = |problem: String| LabError::run(&plan.entry.id, problem);
    let file = experiment.scenario.as_ref().ok_or_else(|| bad("it has no scenario".to_owned()))?;
    let (path, text) = plan.entry.scenario(file)?;
    let draft = fairmesh_scenario::draft_from_toml(&path.display().to_string(), &text)?;
    let numbers = |key: &str| -> Result<Vec<f64>, LabError> {
        let list = experiment.set.get(key).and_then(Setting::as_array);
        let number = |v: &Setting| v.as_float().or_else(|| v.as_integer().map(|i| i as f64));
        list.and_then(|l| l.iter().map(number).collect())
            .ok_or_else(|| bad(format!("set.{key}: expected a list of numbers")))
    };
    let group = numbers("first")?;
    let first: Vec<bool> = (0..draft.flow.len()).map(|f| group.contains(&(f as f64))).collect();
    let rates: Vec<f64> = numbers("rates")?.iter().map(|r| r * 1e3).collect();
    let mut cells = Vec::new();
    let mut hash = 0u64;
    let mut all: Vec<Vec<section::Point>> = Vec::new();
    for seed in 1..=plan.seeds() {
        all.push(section::run(&draft, &first, &rates, u64::from(seed), pool)?);
    }
    for (k, rate) in rates.iter().enumerate() {
        let simulated: Vec<f64> = all.iter().map(|s| s[k].simulated / 1e3).collect();
        let model = Estimate::counted(all[0][k].model / 1e3);
        for (column, value) in [("region", model), ("simulated", Estimate::of(&simulated))] {
            hash = (hash ^ value.mean.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            cells.push(Cell {
                row: format!("{:.0}", rate / 1e3),
                column: column.to_owned(),
                arm: String::new(),
                point: String::new(),
                line: String::new(),
                measure: 0,
                value,
            });
        }
    }
    Ok(Record::from_cells(plan, &cells, 0, format!("{hash:016x}")))
}

/// Returns Table 4.1 of Jamshaid 2010.
///
/// Rows are by model and statistic, columns are without and with RTS/CTS.
pub(super) fn model_accuracy(plan: &Plan, pool: &Pool<'_>) -> Result<Record, LabError> {
    let experiment = &plan.entry.experiment;
    let bad = |problem: String| LabError::run(&plan.entry.id, problem);
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
    let topologies = plan.extent.networks(experiment).unwrap_or(50);
    let study = accuracy::run(
        accuracy::Settings {
            topologies,
            seeds: plan.seeds(),
            direction,
            reception,
            ..accuracy::Settings::default()
        },
        pool,
    )?;
    let mut cells = Vec::new();
    let mut hash = 0u64;
    let models = [("cliques", "cliques (Ocl)"), ("domains", "collision domains (Rcd)")];
    for (statistic, what) in ["mean error of ", "std. dev. of the error of "].iter().enumerate() {
        for (model, label) in models {
            for row in study.rows.iter().filter(|r| r.model == model) {
                let value = if statistic == 0 {
                    Estimate { mean: row.mean, ci95: row.ci95 }
                } else {
                    Estimate::exact(row.std)
                };
                hash = (hash ^ value.mean.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                cells.push(Cell {
                    row: format!("{what}{label}"),
                    column: if row.rts { "with RTS/CTS" } else { "no RTS/CTS" }.to_owned(),
                    arm: String::new(),
                    point: String::new(),
                    line: String::new(),
                    measure: statistic,
                    value,
                });
            }
        }
    }
    Ok(Record::from_cells(plan, &cells, 0, format!("{hash:016x}")))
}
