//! The fairmesh command line, as a library so that its parts can be tested.

// The rest of the workspace gets time and configuration as arguments; the command line reads them.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod commands;

use std::io::Write;

pub use fairmesh_front::{error, interrupt, terminal};

use args::Command;
use error::CliError;
use fairmesh_control::Registry;

/// Runs a command.
///
/// `command` is the command line, for the record; `registry` has the mechanisms that it may name.
///
/// # Errors
/// See [`CliError`].
pub fn dispatch(
    todo: Command,
    command: &str,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    match todo {
        Command::Run(a) => commands::run::run(&a, command, registry, out),
        #[cfg(feature = "linux")]
        Command::Emulate(a) => commands::emulate::run(&a, command, registry, out),
        #[cfg(feature = "linux")]
        Command::Medium(a) => commands::medium::run(&a, registry, out),
        #[cfg(feature = "linux")]
        Command::Demo(a) => commands::demo::run(&a, registry, out),
        Command::Compare(a) => commands::compare::run(&a, command, registry, out),
        Command::Sweep(a) => commands::sweep::run(&a, command, registry, out),
        Command::Capacity(a) => commands::capacity::run(&a, command, registry, out),
        Command::Optimum(a) => commands::optimum::run(&a, registry, out),
        Command::Validate(a) => commands::validate::run(&a, registry, out),
        Command::Fingerprints(a) => commands::fingerprints::run(&a, registry, out),
        #[cfg(feature = "linux")]
        Command::Gateway(a) => commands::gateway::run(a, out),
        #[cfg(feature = "linux")]
        Command::Node(a) => commands::gateway::node(a, out),
        Command::List(a) => commands::list::run(&a, registry, out),
        Command::Schema(a) => commands::list::schema(a, registry, out),
    }
}
