//! Start and end of a program: arguments, output, errors, exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::error::AgentError;

/// Parses the arguments, runs `dispatch`, and returns the exit code; errors are one line.
pub fn run<C: Parser>(
    name: &str,
    dispatch: impl FnOnce(C, &mut dyn Write) -> Result<(), AgentError>,
) -> ExitCode {
    let arguments = match C::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => {
            let code = u8::try_from(e.exit_code()).unwrap_or(2);
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    let mut out = io::BufWriter::new(io::stdout());
    match dispatch(arguments, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // The findings before a bad verdict are useful.
            let _ = out.flush();
            if e.exit_code() != 0 {
                let _ = writeln!(io::stderr(), "{name}: {}", e.line());
            }
            ExitCode::from(e.exit_code())
        }
    }
}
