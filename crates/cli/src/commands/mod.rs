//! One module per command.

pub mod bench;
pub mod capacity;
pub mod compare;
pub mod demo;
pub mod emulate;
pub mod fingerprints;
pub mod gateway;
pub mod list;
pub mod reproduce;
pub mod run;
pub mod side_by_side;
pub mod sweep;
pub mod validate;

use std::io::{self, Write};

use fairmesh_scenario::{Scenario, Transport};

use crate::error::CliError;

/// Prints a JSON value as one line.
pub(crate) fn print_json(
    out: &mut dyn Write,
    value: &impl serde::Serialize,
) -> Result<(), CliError> {
    // Serialising our own plain structures fails only when writing does.
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Says what was changed or left out while reading a scenario.
pub(crate) fn warn(warnings: &[String]) {
    for w in warnings {
        // Nobody to tell is no reason to stop.
        let _ = writeln!(io::stderr(), "fairmesh: note: {}", crate::error::one_line(w));
    }
}

/// Says which controls have nowhere to run, or nobody to hear them, so that nobody takes what comes
/// out for their doing.
pub(crate) fn warn_of_idle_controls(scenarios: &[Scenario]) {
    let idle = |s: &&Scenario| {
        // `fifo` is the absence of control.
        s.control.name != "fifo" && fairmesh_engine::controlled_nodes(s) == Ok(0)
    };
    let note = |s: &Scenario| {
        let why = match s.gateway {
            None => "; the scenario names no gateway (topology.gateway)",
            Some(_) => "",
        };
        format!("{} runs at no node here, so its results are those of fifo{why}", s.control.name)
    };
    warn(&scenarios.iter().filter(idle).map(note).collect::<Vec<_>>());
    let unheard = |s: &&Scenario| only_marks(&s.control.name) && !idle(s) && !hears_marks(s);
    let note = |s: &Scenario| {
        let name = &s.control.name;
        format!(
            "{name} only marks packets, and no flow takes marks (transport.ecn): nobody slows down"
        )
    };
    warn(&scenarios.iter().filter(unheard).map(note).collect::<Vec<_>>());
}

/// Whether marks are all that a control has.
fn only_marks(control: &str) -> bool {
    control.split('+').next() == Some("lbm")
}

/// Whether any flow answers to the marks of the scenario's control.
fn hears_marks(scenario: &Scenario) -> bool {
    let ect1_too = scenario.control.name.split('+').any(|variant| variant == "ect1");
    scenario.flows.iter().any(|f| match &f.transport {
        Transport::Tcp(tcp) => tcp.ecn && (!tcp.ect1 || ect1_too),
        Transport::Udp => false,
    })
}
