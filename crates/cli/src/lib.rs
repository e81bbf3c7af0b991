//! The fairmesh command line, as a library so that its parts can be tested.

// The rest of the workspace takes time and configuration as arguments; here is where they come from.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod commands;

use std::io::Write;

pub use fairmesh_front::{error, interrupt, terminal};

use args::Command;
use error::CliError;

/// Does what the command line asks for; `command` is the command line, for the record.
///
/// # Errors
/// See [`CliError`].
pub fn dispatch(todo: Command, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    match todo {
        Command::Run(a) => commands::run::run(&a, command, out),
        #[cfg(feature = "linux")]
        Command::Emulate(a) => commands::emulate::run(&a, command, out),
        #[cfg(feature = "linux")]
        Command::Demo(a) => commands::demo::run(&a, out),
        Command::Compare(a) => commands::compare::run(&a, command, out),
        Command::Sweep(a) => commands::sweep::run(&a, command, out),
        Command::Capacity(a) => commands::capacity::run(&a, command, out),
        Command::Optimum(a) => commands::optimum::run(&a, out),
        Command::Validate(a) => commands::validate::run(&a, out),
        Command::Fingerprints(a) => commands::fingerprints::run(&a, out),
        #[cfg(feature = "linux")]
        Command::Gateway(a) => commands::gateway::run(a, out),
        Command::List(a) => commands::list::run(&a, &fairmesh_control::Registry::standard(), out),
        Command::Schema => commands::list::schema(out),
    }
}
