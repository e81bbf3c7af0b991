//! What can go wrong: a sentence each, that names what it is about and what was expected.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::optimum::OptimumError;
use crate::store::StoreError;

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
    /// A store of results cannot be used.
    #[error(transparent)]
    Store(Box<StoreError>),
    /// The caller stopped a batch. Results that were complete are in its store.
    #[error("{what}: stopped after {done} of {total}")]
    Stopped {
        /// Name of the batch.
        what: &'static str,
        /// Jobs that are complete.
        done: usize,
        /// All jobs.
        total: usize,
    },
}

impl From<StoreError> for LabError {
    fn from(e: StoreError) -> Self {
        LabError::Store(Box::new(e))
    }
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

    /// A search for an optimum that failed: of a store, or of the scenario.
    pub fn optimum(scenario: &fairmesh_scenario::Scenario, e: OptimumError) -> Self {
        match e {
            OptimumError::Store(e) => e.into(),
            e => LabError::run(scenario.name(), e),
        }
    }

    /// A refused run.
    pub fn run(scenario: impl Into<String>, problem: impl Display) -> Self {
        LabError::Run { scenario: scenario.into(), problem: problem.to_string() }
    }
}
