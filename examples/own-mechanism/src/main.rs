//! A mechanism that is not part of fairmesh, registered beside the shipped ones and compared with
//! them: `cargo run` in this folder prints a table.

mod additive;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use fairmesh_control::Registry;
use fairmesh_control::units::Span;
use fairmesh_lab::{Batch, Changes, Comparison, Estimate, Pool, source};

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/chain-3-up.toml");

fn main() -> ExitCode {
    match compare() {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("own-mechanism: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The table: a row for each control.
fn compare() -> Result<String, Box<dyn Error>> {
    let mut registry = Registry::standard();
    registry.add(additive::definition())?;

    let mut additive = registry.lookup("additive")?;
    additive.set("step", 20.0)?;
    additive.set("epoch", 5.0)?;
    let controls = [registry.lookup("fifo")?, registry.lookup("pfrc")?, additive];

    let changes = Changes {
        duration: Some(Span::from_secs(160)),
        warmup: Some(Span::from_secs(60)),
        ..Changes::default()
    };
    let scenario = source::load(Path::new(SCENARIO), &changes)?.scenario;
    let under = |control| scenario.clone().with_control(control);
    let scenarios = controls.into_iter().map(under).collect();
    let batch = Batch { scenarios, seeds: 1..=2, sample: None, captures: None };
    let comparison = Comparison::of(&batch.run(&Pool::default())?);

    let shown = |e: &Option<Estimate>| {
        e.as_ref().map_or_else(|| "-".to_owned(), |e| format!("{:.2}", e.mean))
    };
    let mut table =
        format!("{:<10} {:>6} {:>12} {:>12}\n", "control", "Jain", "worst/fair", "utilization");
    for r in &comparison.results {
        let (worst, used) = (shown(&r.min_over_fair), shown(&r.utilization_ratio));
        table += &format!("{:<10} {:>6.3} {worst:>12} {used:>12}\n", r.control, r.jain.mean);
    }
    Ok(table)
}
