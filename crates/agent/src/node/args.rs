//! The grammar of `fairmesh-node`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::config::CONFIG_PATH;
use crate::args::{GuardArgs, KeyArgs};

/// Fair shares at the routers of a Wi-Fi mesh: measures links and neighbours, exchanges messages
/// with them, and limits this router's own traffic as a control decides.
#[derive(Debug, Parser)]
#[command(name = "fairmesh-node", version, max_term_width = 100)]
#[command(after_help = "Example:\n  fairmesh-node check && fairmesh-node run")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: NodeCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Check the configuration and this machine without changing anything
    #[command(after_help = "Example:\n  fairmesh-node check --config node.toml")]
    Check(ConfigArgs),
    /// Run the daemon in the foreground, until a signal ends it
    #[command(after_help = "SIGHUP reads the configuration again.\n\n\
        Example:\n  fairmesh-node run --config /etc/fairmesh/node.toml")]
    Run(RunArgs),
    /// Show interfaces, neighbours, and the limit
    #[command(after_help = "Example:\n  fairmesh-node status --json")]
    Status(AskArgs),
    /// Explain the limit by the control's last decisions
    #[command(after_help = "Example:\n  fairmesh-node why")]
    Why(AskArgs),
    /// Remove the queues and rules of this program, and no others, from the kernel
    #[command(after_help = "Example:\n  fairmesh-node reset")]
    Reset(ConfigArgs),
    /// Find causes of missing neighbours and ineffective limits
    #[command(after_help = "Example:\n  fairmesh-node doctor")]
    Doctor(AskArgs),
    /// Print a new key for the routers of one mesh
    #[command(after_help = "Example:\n  umask 077; fairmesh-node key > node.key")]
    Key(KeyArgs),
    /// The guard process that removes the limit if the daemon dies
    #[command(hide = true)]
    Guard(GuardArgs),
}

/// `check` and `reset`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// Run without the guard process that removes the limit if the daemon is killed
    #[arg(long)]
    pub no_guard: bool,
    /// Print events as JSON objects
    #[arg(long)]
    pub json: bool,
}

/// Options of the commands that ask the daemon.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// Configuration file, which names the daemon's socket
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_sound_and_every_command_has_an_example() {
        crate::args::assert_sound(Cli::command());
    }
}
