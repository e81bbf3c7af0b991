//! The fairmesh command line, as a library so that its parts can be tested.

// The rest of the workspace takes time and configuration as arguments; here is where they come from.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod commands;
pub mod error;
pub mod interrupt;
mod terminal;

use std::io::Write;

use args::Command;
use error::CliError;

/// Does what the command line asks for; `command` is the command line, for the record.
///
/// # Errors
/// See [`CliError`].
pub fn dispatch(todo: Command, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    match todo {
        Command::Run(a) => commands::run::run(&a, command, out),
        #[cfg(feature = "linux")]
        Command::Emulate(a) => commands::emulate::run(&a, command, out),
        #[cfg(feature = "linux")]
        Command::Demo(a) => commands::demo::run(&a, out),
        Command::Compare(a) => commands::compare::run(&a, command, out),
        Command::Sweep(a) => commands::sweep::run(&a, command, out),
        Command::Capacity(a) => commands::capacity::run(&a, command, out),
        Command::Optimum(a) => commands::optimum::run(&a, out),
        Command::Validate(a) => commands::validate::run(&a, out),
        Command::Reproduce(a) => commands::reproduce::run(&a, out),
        Command::SideBySide(a) => commands::side_by_side::run(&a, command, out),
        Command::Bench(a) => commands::bench::run(&a, out),
        Command::BenchRow(a) => commands::bench::row(&a, out),
        Command::Fingerprints(a) => commands::fingerprints::run(&a, out),
        #[cfg(feature = "linux")]
        Command::Gateway(a) => commands::gateway::run(a, out),
        Command::List(a) => commands::list::run(&a, &fairmesh_control::Registry::standard(), out),
        Command::Schema => commands::list::schema(out),
    }
}

/// The command line as one would type it again.
pub fn command_line(args: impl Iterator<Item = String>) -> String {
    let mut args = args;
    // However the program was found, its name is this.
    let mut line = args.next().map_or(String::new(), |_| "fairmesh".to_owned());
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
        let args =
            ["/x/fairmesh", "run", "a b.toml", "--duration", "60 s", "it's"].map(String::from);
        let line = super::command_line(args.into_iter());
        assert_eq!(line, "fairmesh run 'a b.toml' --duration '60 s' 'it'\\''s'");
    }
}
