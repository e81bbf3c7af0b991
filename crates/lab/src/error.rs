//! What can go wrong: a sentence each, that names what it is about and what was expected.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Why something was refused or could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Something asked for from outside the scenario file is wrong.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name, such as `gateway` or `duration`.
        setting: String,
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
}

impl LabError {
    /// A wrong setting.
    pub fn setting(setting: impl Into<String>, problem: impl Display) -> Self {
        LabError::Setting { setting: setting.into(), problem: problem.to_string() }
    }

    /// A wrong file or folder.
    pub fn file(path: impl AsRef<Path>, problem: impl Display) -> Self {
        LabError::File { path: path.as_ref().to_owned(), problem: problem.to_string() }
    }

    /// A refused run.
    pub fn run(scenario: impl Into<String>, problem: impl Display) -> Self {
        LabError::Run { scenario: scenario.into(), problem: problem.to_string() }
    }
}
