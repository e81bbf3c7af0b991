//! JSON output for programs.

use std::io::Write;

use serde::Serialize;

use crate::error::AgentError;

/// Prints one value on a line of its own.
pub(crate) fn print(out: &mut dyn Write, value: &impl Serialize) -> Result<(), AgentError> {
    serde_json::to_writer(&mut *out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
