//! `fairmesh gateway`: the daemon's own commands, as in the gateway-only build.

use std::io::Write;

use fairmesh_agent::daemon::clock::Clock;

use crate::args::GatewayArgs;
use crate::error::CliError;

/// Runs the requested command of the daemon.
///
/// # Errors
/// Those of the daemon, see [`fairmesh_agent::error::AgentError`].
pub fn run(args: GatewayArgs, out: &mut dyn Write) -> Result<(), CliError> {
    Ok(fairmesh_agent::commands::dispatch(args.command, &Clock::system(), out)?)
}
