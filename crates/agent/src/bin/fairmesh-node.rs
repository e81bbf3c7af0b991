//! The daemon of a mesh router and its commands.

use std::process::ExitCode;

use fairmesh_agent::node::args::Cli;
use fairmesh_agent::node::commands;
use fairmesh_agent::program;

fn main() -> ExitCode {
    program::run("fairmesh-node", |cli: Cli, out| commands::dispatch(cli.command, out))
}
