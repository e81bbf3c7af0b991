//! `fairmesh demo --live`.

use std::io::{self, Write};
use std::path::PathBuf;

use fairmesh_control::Registry;
use fairmesh_engine::measures::jain;
use fairmesh_lab::Changes;
use fairmesh_lab::changes::{set_times, with_control};
use fairmesh_lab::source::{build, load};
use fairmesh_report::table;
use fairmesh_testbed::demo::{Controller, SCENARIO, Verdict, show};
use fairmesh_testbed::{Hooks, Programs};
use fairmesh_units::Span;

use crate::args::DemoArgs;
use crate::commands::emulate::{judged, summary};
use crate::error::CliError;
use crate::interrupt;

/// Control of the daemon if the scenario names none.
const DEFAULT_CONTROL: &str = "pfrc";

/// Emulates a mesh, shows its rates and compares those without and with the daemon.
///
/// # Errors
/// Bad input, missing rights, an interrupt; all namespaces are removed. A run that did not keep
/// real time is [`CliError::Verdict`], after its results were printed.
pub fn run(args: &DemoArgs, registry: &Registry, out: &mut dyn Write) -> Result<(), CliError> {
    let mut scenario = match &args.scenario {
        Some(path) => load(path, &Changes::default(), registry)?.scenario,
        None => {
            let name = PathBuf::from("demo-live.toml");
            build(&name, SCENARIO.as_bytes(), &Changes::default(), registry)?
        }
    };
    scenario = set_times(scenario, args.duration, None)?;
    let on = args.after.unwrap_or(Span::from_nanos(scenario.duration().as_nanos() / 3));
    if on >= scenario.duration() {
        let problem =
            format!("found {on}; expected less than the duration of {}", scenario.duration());
        return Err(CliError::option("--after", problem));
    }
    let controller = match &args.daemon {
        Some(line) => Controller::Command(line.clone()),
        None => Controller::Daemon(Programs::this()?),
    };
    if args.daemon.is_none() && scenario.control().is_none() {
        scenario = with_control(&scenario, DEFAULT_CONTROL, registry)?;
    }
    let hooks = Hooks { stop: interrupt::awaited(), ready: &mut |_| {}, progress: &mut |_| {} };
    let (record, verdict) = show(&scenario, &controller, on, hooks, &mut io::stderr())?;
    writeln!(out, "After {} s, without and with the daemon", scenario.duration().as_secs_f64())?;
    writeln!(out, "{}\n", table_of(&verdict))?;
    if args.daemon.is_none() {
        writeln!(out, "The daemon's last decisions and their reasons:")?;
        let last = &record.decisions;
        for d in &last[last.len().saturating_sub(5)..] {
            writeln!(out, "{:>5.0} s  {}: {}", d.time_s, d.code, d.reason)?;
        }
        for problem in record.emulation.iter().flat_map(|e| &e.problems) {
            writeln!(io::stderr(), "fairmesh: warning: {problem}")?;
        }
    }
    if let Some(e) = &record.emulation {
        write!(out, "\n{}", summary(e))?;
    }
    out.flush()?;
    judged(std::iter::once(&record))
}

/// Returns the table of rates without and with the daemon.
fn table_of(verdict: &Verdict) -> String {
    let mut t = table::table(&["flow", "without kbit/s", "with kbit/s"]);
    let cell = |r: &Option<Vec<f64>>, f: usize| {
        table::optional(r.as_ref().and_then(|r| r.get(f).copied()), 1e-3, 1)
    };
    for (f, label) in verdict.flows.iter().enumerate() {
        table::row(&mut t, [label.clone(), cell(&verdict.without, f), cell(&verdict.with, f)]);
    }
    let fairness = |r: &Option<Vec<f64>>| table::optional(r.as_ref().map(|r| jain(r)), 1.0, 3);
    table::row(&mut t, ["Jain".to_owned(), fairness(&verdict.without), fairness(&verdict.with)]);
    t.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_late_is_a_failure() {
        let mut record = fairmesh_lab::testing::record("fifo", 1, &[(1e5, 1e5, 1)]);
        assert!(judged(std::iter::once(&record)).is_ok(), "a simulated one is never late");
        let mut e = fairmesh_engine::record::EmulationRecord { valid: true, ..Default::default() };
        record.emulation = Some(e.clone());
        assert!(judged(std::iter::once(&record)).is_ok());
        (e.valid, e.problems) = (false, vec!["late".to_owned()]);
        record.emulation = Some(e);
        assert_eq!(judged(std::iter::once(&record)).unwrap_err().exit_code(), 1);
    }

    #[test]
    fn a_phase_without_rates_has_empty_cells() {
        let verdict = Verdict {
            flows: vec!["1 → server (1 hops)".into(), "2 → server (2 hops)".into()],
            without: Some(vec![800e3, 0.0]),
            with: None,
        };
        let table = table_of(&verdict);
        let line = |of: &str| table.lines().find(|l| l.contains(of)).unwrap().to_owned();
        assert!(line("1 → server").contains("800.0"), "{table}");
        assert!(line("Jain").contains("0.500"), "{table}");
    }
}
