//! The command line of `fairmesh-experiments`: one module per command.

pub mod args;
mod bench;
mod models;
mod realtime;
mod reproduce;
mod validate;

use std::io::Write;

use fairmesh_front::error::CliError;

use args::Command;

/// Runs a command.
///
/// # Errors
/// See [`CliError`].
pub fn dispatch(command: Command, out: &mut dyn Write) -> Result<(), CliError> {
    match command {
        Command::Reproduce(a) => reproduce::run(&a, out),
        Command::Validate(a) => validate::run(&a, out),
        Command::Bench(a) => bench::run(&a, out),
        Command::BenchRow(a) => bench::row(&a, out),
        Command::Accuracy(a) => models::accuracy(&a, out),
        Command::Boundary(a) => models::boundary(&a, out),
        #[cfg(feature = "linux")]
        Command::Gateway { command } => {
            let clock = fairmesh_agent::daemon::clock::Clock::system();
            Ok(fairmesh_agent::commands::dispatch(command, &clock, out)?)
        }
    }
}
