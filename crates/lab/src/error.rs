//! Errors of the laboratory.
//!
//! Each is printed as one sentence that names file, key or setting, and the expected value.

mod place;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use fairmesh_control::{ParameterError, UnknownControl};
use fairmesh_engine::EngineError;
use fairmesh_scenario::{Scenario, ScenarioError};
use fairmesh_units::Span;

use crate::analysis::error::AnalysisError;
use crate::optimum::error::OptimumError;
use crate::store::error::StoreError;
use crate::sweep::axes::AxisError;

pub use place::ErrorPlace;

/// Reason from a crate on top of the laboratory.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Reason for a rejection or an unfinished operation.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A setting from outside the scenario file is invalid.
    #[error("{setting}: {problem}")]
    Setting {
        /// Name of the setting, such as `gateway` or `duration`.
        setting: &'static str,
        /// Found and expected value.
        problem: Box<SettingProblem>,
    },
    /// A file or folder is invalid, or cannot be read or written.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path as given.
        path: PathBuf,
        /// Found and expected value.
        problem: Box<FileProblem>,
    },
    /// A scenario is invalid; its message names file and key.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run or an analysis was rejected.
    #[error("{scenario}: {problem}")]
    Run {
        /// Scenario file or name.
        scenario: String,
        /// The reason.
        problem: Box<RunProblem>,
    },
    /// A store of results cannot be used.
    #[error(transparent)]
    Store(Box<StoreError>),
    /// The caller stopped a batch. Completed results are in its store.
    #[error("{what}: stopped after {done} of {total}")]
    Stopped {
        /// Name of the batch.
        what: &'static str,
        /// Jobs completed.
        done: usize,
        /// Total number of jobs.
        total: usize,
    },
}

/// Reason for the rejection of a setting.
#[derive(Debug, thiserror::Error)]
pub enum SettingProblem {
    /// A batch without seeds.
    #[error("found none; expected at least one")]
    NoSeeds,
    /// The threads cannot be started.
    #[error("{0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A run of zero duration.
    #[error("found 0 s; expected a longer time")]
    NoTime,
    /// A warm-up that leaves nothing to measure.
    #[error("found {warmup}; expected less than the duration of {duration}")]
    NothingMeasured {
        /// The warm-up.
        warmup: Span,
        /// Simulated time.
        duration: Span,
    },
    /// A window that starts after the run.
    #[error("found {found}; expected less than the duration of {duration}")]
    WindowStart {
        /// Start of the window.
        found: Span,
        /// Simulated time.
        duration: Span,
    },
    /// A window that is empty or too long.
    #[error("found {found}; expected more than 0 s and at most {longest}")]
    WindowLength {
        /// Length of the window.
        found: Span,
        /// Greatest length that is accepted.
        longest: Span,
    },
    /// A control that does not exist.
    #[error("{0}")]
    UnknownControl(#[from] UnknownControl),
    /// A control is named twice.
    #[error("\"{0}\" is given twice; expected each once")]
    ControlTwice(String),
    /// A value outside the range of a control's option.
    #[error("{0}")]
    Option(#[from] ParameterError),
    /// An option is set for a control that does not run.
    #[error("{0} is none of the controls that run")]
    ControlNotRun(String),
    /// None of the controls that run has the option.
    #[error("no control that runs has a parameter \"{option}\"; {}", options(known))]
    UnknownOption {
        /// The option.
        option: String,
        /// The controls with their options.
        known: Vec<(String, Vec<String>)>,
    },
    /// A setting for maps is given for a scenario file.
    #[error("{} is not a map; expected this setting in the file itself", file.display())]
    NotAMap {
        /// The scenario file.
        file: PathBuf,
    },
    /// A flow that the scenario does not have.
    #[error("there is no flow \"{flow}\"; expected one of {known}")]
    UnknownFlow {
        /// The flow.
        flow: String,
        /// Some flows of the scenario.
        known: String,
    },
    /// A list of values that cannot be read.
    #[error(transparent)]
    Axis(#[from] AxisError),
    /// A key is varied twice.
    #[error("{0} is given twice; expected each key once")]
    KeyTwice(String),
    /// Filters that leave nothing.
    #[error("the filters leave no point; expected at least one")]
    NoPoint,
    /// A measure that runs do not have.
    #[error("runs under {control} have no {measure}; expected a measure that all runs have")]
    NoMeasure {
        /// The measure.
        measure: String,
        /// A control without it.
        control: String,
    },
    /// A combination of values that the scenario does not allow.
    #[error("with {}: {error}", values(point))]
    Point {
        /// Varied keys and their values.
        point: Vec<(String, String)>,
        /// Problem of the scenario.
        error: ScenarioError,
    },
    /// Reason from a crate on top of the laboratory.
    #[error(transparent)]
    Other(BoxedError),
}

fn options(known: &[(String, Vec<String>)]) -> String {
    let one = |(control, options): &(String, Vec<String>)| match options.is_empty() {
        true => format!("{control} has none"),
        false => format!("{control} has {}", options.join(", ")),
    };
    known.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn values(point: &[(String, String)]) -> String {
    point.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Reason for the rejection of a file or folder, or for a failed operation on it.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// There is no such file.
    #[error("there is no such file; expected {expected}")]
    Missing {
        /// Content that was expected.
        expected: &'static str,
    },
    /// There is no such folder.
    #[error("is not there; expected an existing folder")]
    NoFolder,
    /// The file or folder cannot be read.
    #[error("cannot be read ({error}); expected {expected}")]
    Unreadable {
        /// The system's reason.
        error: io::Error,
        /// Content that was expected.
        expected: &'static str,
    },
    /// The file or folder cannot be written or created.
    #[error("cannot be written ({0}); expected a place to write results to")]
    Unwritable(io::Error),
    /// The path is that of a folder.
    #[error("is a folder; expected {expected}")]
    Folder {
        /// Form that was expected.
        expected: &'static str,
    },
    /// The path is that of a file.
    #[error("is a file; expected {expected}")]
    File {
        /// Form that was expected.
        expected: &'static str,
    },
    /// The path does not end in a name.
    #[error("expected the name of something to create")]
    NoName,
    /// A folder that has other content.
    #[error("is not empty and {lacks}; expected a new folder name")]
    OtherContent {
        /// Kind of folder that was expected.
        lacks: &'static str,
    },
    /// A map where a scenario in TOML is needed.
    #[error("is a map; expected a TOML scenario, of which keys can be varied")]
    Map,
    /// The content is not JSON.
    #[error("is no JSON ({error}); expected {expected}")]
    NotJson {
        /// The parser's reason.
        error: serde_json::Error,
        /// Content that was expected.
        expected: &'static str,
    },
    /// A key has another value than this program would write.
    #[error("{key}: found {found}; expected {expected}")]
    Key {
        /// The key.
        key: String,
        /// Value of the key.
        found: String,
        /// The value that was expected.
        expected: String,
    },
    /// A value cannot be read.
    #[error("{}{error}; expected a record of this version of fairmesh", prefix(key))]
    Value {
        /// The key; empty for the whole content.
        key: String,
        /// The parser's reason.
        error: serde_json::Error,
    },
    /// Results cannot be written in the format of the file.
    #[error("cannot be written: {0}")]
    Encode(BoxedError),
    /// Reason from a crate on top of the laboratory.
    #[error(transparent)]
    Other(BoxedError),
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// Reason for the rejection of a run or an analysis of a scenario.
#[derive(Debug, thiserror::Error)]
pub enum RunProblem {
    /// The engine rejects it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An analytic model rejects it.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The scenario has no optimum.
    #[error(transparent)]
    Optimum(#[from] OptimumError),
    /// Reason from a crate on top of the laboratory.
    #[error(transparent)]
    Other(BoxedError),
}

impl From<StoreError> for LabError {
    fn from(e: StoreError) -> Self {
        LabError::Store(Box::new(e))
    }
}

impl LabError {
    /// Builds the error of an invalid setting.
    pub(crate) fn wrong(setting: &'static str, problem: impl Into<SettingProblem>) -> Self {
        LabError::Setting { setting, problem: Box::new(problem.into()) }
    }

    /// Builds the error of an invalid file or folder.
    pub(crate) fn at(path: impl AsRef<Path>, problem: FileProblem) -> Self {
        LabError::File { path: path.as_ref().to_owned(), problem: Box::new(problem) }
    }

    /// Builds the error of a rejected run or analysis.
    pub fn refused(scenario: impl fmt::Display, problem: impl Into<RunProblem>) -> Self {
        LabError::Run { scenario: scenario.to_string(), problem: Box::new(problem.into()) }
    }

    /// Builds the error of a failed search for an optimum: of a store, or of the scenario.
    pub fn optimum(scenario: &Scenario, e: OptimumError) -> Self {
        match e {
            OptimumError::Store(e) => e.into(),
            OptimumError::Run(EngineError::Cancelled) => {
                LabError::Stopped { what: "searching the optimum", done: 0, total: 1 }
            }
            e => LabError::refused(scenario.name(), e),
        }
    }

    /// Builds the error of an invalid setting with a caller's reason.
    pub fn setting(setting: &'static str, problem: impl Into<BoxedError>) -> Self {
        LabError::wrong(setting, SettingProblem::Other(problem.into()))
    }

    /// Builds the error of an invalid file or folder with a caller's reason.
    pub fn file(path: impl AsRef<Path>, problem: impl Into<BoxedError>) -> Self {
        LabError::at(path, FileProblem::Other(problem.into()))
    }

    /// Builds the error of a rejected run with a caller's reason.
    pub fn run(scenario: impl Into<String>, problem: impl Into<BoxedError>) -> Self {
        LabError::refused(scenario.into(), RunProblem::Other(problem.into()))
    }
}
