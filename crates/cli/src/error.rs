//! What can go wrong at the command line: one line each, and an exit code.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command ended early. [`CliError::line`] is what the user sees.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// An option or argument is wrong.
    #[error("{option}: {problem}")]
    Option {
        /// The option as typed, such as `--seeds`.
        option: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A file or folder is wrong, or cannot be read or written.
    #[error("{}: {problem}", path.display())]
    File {
        /// Its path as given.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
    },
    /// A scenario is wrong; its message names file and key.
    #[error(transparent)]
    Scenario(#[from] fairmesh_scenario::ScenarioError),
    /// A run was refused.
    #[error("{scenario}: {problem}")]
    Run {
        /// Scenario file or name.
        scenario: String,
        /// The engine's reason.
        problem: String,
    },
    /// A check of ours did not pass: the command worked, its verdict is no.
    #[error("{0}")]
    Verdict(String),
    /// The user interrupted a command that had to clean up, and has.
    #[error("interrupted; everything was removed")]
    Interrupted,
    /// The gateway daemon, or what asks it.
    #[error(transparent)]
    Gateway(Box<fairmesh_agent::error::AgentError>),
    /// Standard output could not be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl From<fairmesh_agent::error::AgentError> for CliError {
    fn from(e: fairmesh_agent::error::AgentError) -> Self {
        CliError::Gateway(Box::new(e))
    }
}

impl CliError {
    /// A wrong option.
    pub fn option(option: impl Into<String>, problem: impl Display) -> Self {
        CliError::Option { option: option.into(), problem: problem.to_string() }
    }
    /// A wrong file or folder.
    pub fn file(path: impl AsRef<Path>, problem: impl Display) -> Self {
        CliError::File { path: path.as_ref().to_owned(), problem: problem.to_string() }
    }

    /// 0 when a reader of ours went away (`fairmesh … | head`), 1 for a failed check, 2 for
    /// everything that was wrong with the input or the surroundings.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            CliError::Verdict(_) => 1,
            CliError::Interrupted => crate::interrupt::EXIT_CODE,
            CliError::Gateway(e) => e.exit_code(),
            _ => 2,
        }
    }

    /// The message on one line; `None` when there is nobody to tell.
    pub fn line(&self) -> Option<String> {
        (self.exit_code() != 0).then(|| one_line(&self.to_string()))
    }
}

/// Joins the lines of `text` into one and drops control characters, so that an error stays one
/// line whatever file it quotes.
pub fn one_line(text: &str) -> String {
    let joined = text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty());
    // A heading and what stands below it are one clause.
    let line = joined.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    let mut clean: String =
        line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(500).collect();
    if line.chars().count() > 500 {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_of_bounded_length() {
        let e = CliError::file("a.toml", "bad\n  key \u{7}\nhere");
        assert_eq!(e.line().unwrap(), "a.toml: bad; key \u{fffd}; here");
        assert_eq!(e.exit_code(), 2);
        assert_eq!(one_line("not given:\n  <FILE>\n  --out"), "not given: <FILE>; --out");
        assert!(one_line(&"x".repeat(100_000)).chars().count() <= 501);
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let e = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((e.exit_code(), e.line()), (0, None));
        assert_eq!(CliError::Verdict("no".into()).exit_code(), 1);
    }
}
