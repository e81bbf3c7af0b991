//! Writes the man pages and shell completions of `fairmesh` into a folder.

use clap::CommandFactory;

fn main() -> std::io::Result<()> {
    fairmesh_manual::main(&fairmesh_cli::args::Cli::command())
}
