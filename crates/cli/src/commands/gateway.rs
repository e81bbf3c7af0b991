//! `fairmesh gateway`, `fairmesh node`: the commands of the daemons' own programs.

use std::io::Write;

use fairmesh_agent::daemon::clock::Clock;

use crate::args::{GatewayArgs, NodeArgs};
use crate::error::CliError;

/// Runs the requested command of the daemon.
///
/// # Errors
/// Those of the daemon, see [`fairmesh_agent::error::AgentError`].
pub fn run(args: GatewayArgs, out: &mut dyn Write) -> Result<(), CliError> {
    Ok(fairmesh_agent::commands::dispatch(args.command, &Clock::system(), out)?)
}

/// Runs the requested command of a router's daemon.
///
/// # Errors
/// Those of the daemon, see [`fairmesh_agent::error::AgentError`].
pub fn node(args: NodeArgs, out: &mut dyn Write) -> Result<(), CliError> {
    Ok(fairmesh_agent::node::commands::dispatch(args.command, out)?)
}
