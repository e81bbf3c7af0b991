//! Errors of the command line: one line each, and an exit code.

use std::fmt::Display;
use std::io;
use std::path::Path;

use fairmesh_lab::scenario::ScenarioError;
use fairmesh_lab::{LabError, SettingProblem, StoreError};

/// Reason why a command ended early; [`CliError::line`] is the user's message.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// An option or argument is invalid.
    #[error("{option}: {problem}")]
    Option {
        /// The option as typed, such as `--seeds`.
        option: String,
        /// Description of the problem and of the accepted values.
        problem: String,
    },
    /// Error in a file, a scenario or a run.
    #[error(transparent)]
    Lab(LabError),
    /// A store has results of another program.
    #[error("{error}; {advice}")]
    Store {
        /// The reason.
        error: Box<StoreError>,
        /// Options that determine the treatment of the store.
        advice: &'static str,
    },
    /// A check failed: the command itself worked.
    #[error("{0}")]
    Verdict(String),
    /// The user interrupted a command, which has cleaned up.
    #[error("interrupted; everything was removed")]
    Interrupted,
    /// Error of the gateway daemon or of its client.
    #[cfg(feature = "linux")]
    #[error(transparent)]
    Gateway(Box<fairmesh_agent::error::AgentError>),
    /// Standard output could not be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

#[cfg(feature = "linux")]
impl From<fairmesh_agent::error::AgentError> for CliError {
    fn from(e: fairmesh_agent::error::AgentError) -> Self {
        CliError::Gateway(Box::new(e))
    }
}

#[cfg(feature = "linux")]
impl From<fairmesh_testbed::TestbedError> for CliError {
    fn from(e: fairmesh_testbed::TestbedError) -> Self {
        use fairmesh_emulator::EmulatorError;
        use fairmesh_testbed::TestbedError;

        match e {
            TestbedError::Emulator { problem, .. }
                if matches!(*problem, EmulatorError::Interrupted) =>
            {
                CliError::Interrupted
            }
            TestbedError::Emulator { problem: e, .. } if matches!(*e, EmulatorError::NotRoot) => {
                CliError::option("emulate", e)
            }
            TestbedError::Emulator { scenario, problem } => CliError::run(scenario, problem),
            TestbedError::Scenario { scenario, problem } => CliError::run(scenario, problem),
            TestbedError::File { path, problem } => CliError::file(path, problem),
            e => CliError::run("testbed", e),
        }
    }
}

/// Options of the laboratory's settings, by the setting's name.
pub const OPTIONS_OF_SETTINGS: [(&str, &str); 24] = [
    ("channel", "--channel"),
    ("connections", "--connections"),
    ("control", "--control"),
    ("duration", "--duration"),
    ("flow count", "--flow-count"),
    ("flows", "--flows"),
    ("for", "--for"),
    ("from", "--from"),
    ("gateway", "--gateway"),
    ("graph", "--graph"),
    ("group", "--group"),
    ("map", "--map"),
    ("metric", "--metric"),
    ("options", "--set"),
    ("phy", "--phy"),
    ("rate", "--rate"),
    ("row", "--row"),
    ("seeds", "--seeds"),
    ("streams", "--streams"),
    ("subscribers", "--subscribers"),
    ("threads", "--threads"),
    ("vary", "--vary"),
    ("warmup", "--warmup"),
    ("width", "--width"),
];

/// Converts a setting's name to the option that sets it.
impl From<LabError> for CliError {
    fn from(e: LabError) -> Self {
        match e {
            LabError::Setting { setting, problem } => {
                let flag = OPTIONS_OF_SETTINGS.iter().find(|(name, _)| *name == setting);
                let problem = match *problem {
                    SettingProblem::Point { point, error } => {
                        SettingProblem::Point { point, error: with_option(error) }
                    }
                    other => other,
                };
                CliError::option(flag.map_or(setting, |(_, flag)| flag), problem)
            }
            LabError::Store(error) if matches!(*error, StoreError::OtherRevision { .. }) => {
                let advice = "--fresh removes all records, --keep leaves these unused";
                CliError::Store { error, advice }
            }
            LabError::Store(error) if matches!(*error, StoreError::Stale { .. }) => {
                CliError::Store { error, advice: "--fresh removes all records" }
            }
            LabError::Scenario(e) => CliError::Lab(LabError::Scenario(with_option(e))),
            e => CliError::Lab(e),
        }
    }
}

/// Replaces the setting that overrides a key by its option.
fn with_option(e: ScenarioError) -> ScenarioError {
    let by = e.overridden().map(|o| o.by.clone());
    match OPTIONS_OF_SETTINGS.iter().find(|(name, _)| Some(*name) == by.as_deref()) {
        Some((_, flag)) => e.with_override_by(*flag),
        None => e,
    }
}

impl CliError {
    /// Returns the error of an invalid option.
    pub fn option(option: impl Into<String>, problem: impl Display) -> Self {
        CliError::Option { option: option.into(), problem: problem.to_string() }
    }
    /// Returns the error of an invalid file or folder.
    pub fn file(path: impl AsRef<Path>, problem: impl Display) -> Self {
        CliError::Lab(LabError::file(path, problem.to_string()))
    }
    /// Returns the error of a rejected run.
    pub fn run(scenario: impl Into<String>, problem: impl Display) -> Self {
        CliError::Lab(LabError::run(scenario, problem.to_string()))
    }

    /// Returns the exit code.
    ///
    /// 0 if the reader of the output has ended (`fairmesh … | head`), 1 for a failed check, 2 for
    /// all errors in the input or the environment.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            CliError::Verdict(_) => 1,
            CliError::Interrupted | CliError::Lab(LabError::Stopped { .. }) => {
                crate::interrupt::EXIT_CODE
            }
            #[cfg(feature = "linux")]
            CliError::Gateway(e) => e.exit_code(),
            _ => 2,
        }
    }

    /// Returns the message on one line; `None` if there is no reader for it.
    pub fn line(&self) -> Option<String> {
        let line = || {
            #[cfg(feature = "linux")]
            if let CliError::Gateway(e) = self {
                return one_line(&e.line());
            }
            one_line(&self.to_string())
        };
        (self.exit_code() != 0).then(line)
    }
}

/// Joins the lines of `text` into one and removes control characters.
///
/// An error thus stays one line for any quoted file.
pub fn one_line(text: &str) -> String {
    let joined = text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty());
    // A heading and the text below it form one clause.
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
    fn settings_of_the_laboratory_become_options() {
        for (setting, flag) in OPTIONS_OF_SETTINGS {
            let e = CliError::from(LabError::setting(setting, "found 0"));
            assert_eq!((e.line(), e.exit_code()), (Some(format!("{flag}: found 0")), 2));
        }
        let e = CliError::from(LabError::setting("of no option", "no"));
        assert_eq!(e.line().unwrap(), "of no option: no");
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let e = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((e.exit_code(), e.line()), (0, None));
        assert_eq!(CliError::Verdict("no".into()).exit_code(), 1);
    }
}
