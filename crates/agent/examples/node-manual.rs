//! Writes the man pages and shell completions of `fairmesh-node` into a folder.

use clap::CommandFactory;

fn main() -> std::io::Result<()> {
    fairmesh_manual::main(&fairmesh_agent::node::args::Cli::command())
}
