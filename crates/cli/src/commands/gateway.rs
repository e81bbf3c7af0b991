//! `fairmesh gateway`: the daemon's own commands, which the gateway-only build has too.

use std::io::Write;

use crate::args::GatewayArgs;
use crate::error::CliError;

/// Runs the requested command of the daemon.
///
/// # Errors
/// The daemon's own, see [`fairmesh_agent::error::AgentError`].
pub fn run(args: GatewayArgs, out: &mut dyn Write) -> Result<(), CliError> {
    Ok(fairmesh_agent::commands::dispatch(args.command, out)?)
}
