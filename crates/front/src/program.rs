//! Entry point of a program.
//!
//! It reads the command line, runs the command, and maps its outcome to an exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use fairmesh_lab::files::folder;

use crate::error::{CliError, one_line};
use crate::interrupt;

/// Outcome of reading a command line.
#[derive(Debug)]
pub enum Parsed<C> {
    /// A command to run.
    Command(Box<C>),
    /// Text that was requested: help or version.
    Text(String),
    /// An invalid command line, with the error on one line.
    Mistake(String),
}

/// Reads a command line.
pub fn parse<C: Parser>(args: impl IntoIterator<Item = OsString>) -> Parsed<C> {
    match C::try_parse_from(args) {
        Ok(cli) => Parsed::Command(Box::new(cli)),
        Err(e) => match e.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Parsed::Text(e.to_string()),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Parsed::Mistake(format!("expected a command: {}", commands::<C>()))
            }
            _ => Parsed::Mistake(mistake(&e)),
        },
    }
}

fn commands<C: Parser>() -> String {
    let command = C::command();
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    shown.map(clap::Command::get_name).collect::<Vec<_>>().join(", ")
}

/// Returns the parser's message without usage and pointers, on one line.
fn mistake(e: &clap::Error) -> String {
    let text = e.to_string();
    let message = text.split("\nUsage:").next().unwrap_or(&text);
    let message = message.split("\nFor more information").next().unwrap_or(message);
    let message = message.trim().strip_prefix("error: ").unwrap_or(message.trim());
    one_line(message)
}

/// Runs a program.
///
/// `name` is the prefix of error lines. An interrupt removes unfinished files and ends the process,
/// unless `handles_interrupts` is true for the command. `dispatch` runs the command; its second
/// argument is the command line for records.
pub fn main<C: Parser>(
    name: &str,
    handles_interrupts: impl FnOnce(&C) -> bool,
    dispatch: impl FnOnce(C, &str, &mut dyn Write) -> Result<(), CliError>,
) -> ExitCode {
    let outcome = match parse::<C>(std::env::args_os()) {
        Parsed::Command(cli) => {
            if !handles_interrupts(&cli) {
                // Without a handler an interrupt ends the process too, but leaves temporary files.
                let _ = interrupt::handle(|| {
                    if interrupt::is_awaited() {
                        return;
                    }
                    if interrupt::stops_a_batch() {
                        let _ = writeln!(
                            io::stderr(),
                            "stopping after the current runs; interrupt again to stop at once"
                        );
                        return;
                    }
                    folder::remove_unfinished();
                    std::process::exit(interrupt::EXIT_CODE.into());
                });
            }
            let mut out = io::BufWriter::new(io::stdout());
            let line = command_line(name, std::env::args().skip(1));
            dispatch(*cli, &line, &mut out).and_then(|()| Ok(out.flush()?))
        }
        Parsed::Text(text) => io::stdout().write_all(text.as_bytes()).map_err(CliError::from),
        Parsed::Mistake(problem) => Err(CliError::option("command line", problem)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            if let Some(line) = e.line() {
                // A closed standard error does not cause a panic.
                let _ = writeln!(io::stderr(), "{name}: {line}");
            }
            ExitCode::from(e.exit_code())
        }
    }
}

/// Returns the command line, quoted for a shell.
///
/// `name` replaces the path with which the program was started.
pub fn command_line(name: &str, args: impl Iterator<Item = String>) -> String {
    let mut line = name.to_owned();
    for a in args {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
        line.push(' ');
        if !a.is_empty() && a.chars().all(plain) {
            line += &a;
        } else {
            line += &format!("'{}'", a.replace('\'', "'\\''"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    #[test]
    fn command_lines_can_be_typed_again() {
        let args = ["run", "a b.toml", "--duration", "60 s", "it's"].map(String::from);
        let line = super::command_line("fairmesh", args.into_iter());
        assert_eq!(line, "fairmesh run 'a b.toml' --duration '60 s' 'it'\\''s'");
    }
}
