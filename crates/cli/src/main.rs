//! The fairmesh command line.

use std::io::{self, Write};
use std::process::ExitCode;

use fairmesh_cli::args::{self, Parsed};
use fairmesh_cli::error::CliError;
use fairmesh_cli::{dispatch, interrupt};
use fairmesh_lab::files::folder;

fn main() -> ExitCode {
    let outcome = match args::parse(std::env::args_os()) {
        Parsed::Command(command) => {
            if !command.ends_in_its_own_way() {
                // Without a handler an interrupt still ends the process; it would only leave
                // temporary files.
                let _ = ctrlc::set_handler(|| {
                    if interrupt::is_awaited() {
                        return;
                    }
                    folder::remove_unfinished();
                    std::process::exit(interrupt::EXIT_CODE.into());
                });
            }
            let mut out = io::BufWriter::new(io::stdout());
            let line = fairmesh_cli::command_line(std::env::args());
            dispatch(*command, &line, &mut out).and_then(|()| Ok(out.flush()?))
        }
        Parsed::Text(text) => io::stdout().write_all(text.as_bytes()).map_err(CliError::from),
        Parsed::Mistake(problem) => Err(CliError::option("command line", problem)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            if let Some(line) = e.line() {
                // Nobody to tell is no reason to panic.
                let _ = writeln!(io::stderr(), "fairmesh: {line}");
            }
            ExitCode::from(e.exit_code())
        }
    }
}
