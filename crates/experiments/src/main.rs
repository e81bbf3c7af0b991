//! Command line of the experiments.

use std::process::ExitCode;

use fairmesh_experiments::cli::args::Cli;
use fairmesh_experiments::cli::dispatch;
use fairmesh_front::program;

fn main() -> ExitCode {
    program::main::<Cli>(
        "fairmesh-experiments",
        |cli| cli.command.handles_interrupts(),
        |cli, _, out| dispatch(cli.command, out),
    )
}
