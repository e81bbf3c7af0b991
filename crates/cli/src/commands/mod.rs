//! One module per command.

pub mod bench;
pub mod capacity;
pub mod compare;
#[cfg(feature = "linux")]
pub mod demo;
mod documents;
#[cfg(feature = "linux")]
pub mod emulate;
pub mod fingerprints;
#[cfg(feature = "linux")]
pub mod gateway;
pub mod list;
pub mod optimum;
mod realtime;
pub mod reproduce;
pub mod run;
pub mod side_by_side;
pub mod sweep;
mod today;
pub mod validate;

use std::io::{self, Write};

use crate::error::CliError;

/// Prints a JSON value as one line.
pub(crate) fn print_json(
    out: &mut dyn Write,
    value: &impl serde::Serialize,
) -> Result<(), CliError> {
    // Serialising our own plain structures fails only when writing does.
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Says what was changed or left out while reading a scenario.
pub(crate) fn warn(warnings: &[String]) {
    for w in warnings {
        // Nobody to tell is no reason to stop.
        let _ = writeln!(io::stderr(), "fairmesh: note: {}", crate::error::one_line(w));
    }
}
