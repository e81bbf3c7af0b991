//! A mechanism that is not part of fairmesh, compared with the shipped ones.
//!
//! It is registered beside them, and named in a scenario file and in a job. `cargo run` in this
//! folder prints a table.

mod additive;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use fairmesh_control::Registry;
use fairmesh_lab::job::{Choice, Job, Measures, Source};
use fairmesh_lab::{Batch, Changes, Comparison, Estimate, Pool, Revision, batch, source};

/// A scenario with the mechanism of this crate in its `[control]`.
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/village.toml");

fn main() -> ExitCode {
    match registry().and_then(|registry| Ok((job(&registry)?, compare(&registry)?))) {
        Ok((line, table)) => {
            print!("{line}{table}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("own-mechanism: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the shipped mechanisms and the one of this crate.
fn registry() -> Result<Registry, Box<dyn Error>> {
    let mut registry = Registry::standard();
    registry.add(additive::definition())?;
    Ok(registry)
}

/// Compares the scenario's own control with others: a row for each control.
fn compare(registry: &Registry) -> Result<String, Box<dyn Error>> {
    let scenario = source::load(Path::new(SCENARIO), &Changes::default(), registry)?.scenario;
    let batch = Batch::new(&scenario, &["fifo", "pfrc", "additive"], registry, 1..=2)?;
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

/// Returns one run as data, as for another machine, and the key of its result.
fn job(registry: &Registry) -> Result<String, Box<dyn Error>> {
    let job = Job {
        source: Source::new(Path::new(SCENARIO), &std::fs::read(SCENARIO)?)?,
        changes: Changes::default(),
        control: Choice { name: Some("additive".into()), options: vec!["step=40".parse()?] },
        seed: 7,
        measures: Measures::default(),
    };
    let sent = serde_json::to_string(&job)?;
    let received: Job = serde_json::from_str(&sent)?;
    let resolved = received.resolve(registry)?;
    let record = batch::measured(&resolved.scenario, &resolved.options)?;
    let key = received.key(&Revision::current(), registry)?;
    let epochs = record.decisions.iter().filter(|d| d.code.starts_with("additive.")).count();
    Ok(format!("job {key}: {} with seed {}, {epochs} decisions\n", record.control, record.seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_file_names_the_mechanism_with_its_options() {
        let load =
            |registry: &Registry| source::load(Path::new(SCENARIO), &Changes::default(), registry);
        let scenario = load(&registry().unwrap()).unwrap().scenario;
        assert_eq!(scenario.control().to_string(), "additive");
        assert_eq!(scenario.control().value("step"), Some(20.0));
        let refused = load(&Registry::standard()).unwrap_err().to_string();
        assert!(
            refused.contains("village.toml:22: control.use: there is no control \"additive\""),
            "{refused}"
        );
    }

    #[test]
    fn a_job_runs_the_mechanism() {
        let line = job(&registry().unwrap()).unwrap();
        assert!(line.contains(": additive with seed 7, "), "{line}");
        assert!(!line.contains(", 0 decisions"), "{line}");
    }

    #[test]
    fn the_comparison_has_a_row_for_it() {
        let table = compare(&registry().unwrap()).unwrap();
        assert!(table.lines().any(|l| l.starts_with("additive ")), "{table}");
    }
}
