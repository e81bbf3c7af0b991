//! The daemon of a mesh router and its commands.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use fairmesh_agent::node::args::Cli;
use fairmesh_agent::node::commands;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let code = u8::try_from(e.exit_code()).unwrap_or(2);
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    let mut out = io::BufWriter::new(io::stdout());
    let done = commands::dispatch(cli.command, &mut out);
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // The findings before a bad verdict are useful.
            let _ = out.flush();
            if e.exit_code() != 0 {
                let _ = writeln!(io::stderr(), "fairmesh-node: {}", e.line());
            }
            ExitCode::from(e.exit_code())
        }
    }
}
