//! Writes the man pages and shell completions of `fairmesh-gateway` into a folder.

use clap::CommandFactory;

fn main() -> std::io::Result<()> {
    fairmesh_manual::main(&fairmesh_agent::args::Cli::command())
}
