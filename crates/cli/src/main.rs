//! The fairmesh command line.

use std::process::ExitCode;

use fairmesh_cli::args::Cli;
use fairmesh_cli::dispatch;
use fairmesh_control::Registry;
use fairmesh_front::program;

fn main() -> ExitCode {
    program::main::<Cli>(
        "fairmesh",
        |cli| cli.command.ends_in_its_own_way(),
        |cli, line, out| dispatch(cli.command, line, &Registry::standard(), out),
    )
}
