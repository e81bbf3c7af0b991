//! Output of commands: JSON on standard output, notes on standard error.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::{CliError, one_line};

/// Prints a JSON value as one line.
///
/// # Errors
/// Standard output that cannot be written.
pub fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), CliError> {
    // Serialising our own plain structures fails only if writing fails.
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Prints notes, such as changes made while reading a scenario, to standard error.
pub fn warn(notes: &[String]) {
    for note in notes {
        // A closed standard error does not end the command.
        let _ = writeln!(io::stderr(), "fairmesh: note: {}", one_line(note));
    }
}
