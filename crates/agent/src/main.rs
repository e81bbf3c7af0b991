//! The gateway-only build: the daemon and its commands, without the simulator.

use std::process::ExitCode;

use fairmesh_agent::args::Cli;
use fairmesh_agent::commands;
use fairmesh_agent::daemon::clock::Clock;
use fairmesh_agent::program;

fn main() -> ExitCode {
    program::run("fairmesh-gateway", |cli: Cli, out| {
        commands::dispatch(cli.command, &Clock::system(), out)
    })
}
