//! Errors of the testbed.

use std::io;
use std::path::{Path, PathBuf};

use fairmesh_agent::gateway::config::ConfigError;
use fairmesh_control::StartError;
use fairmesh_emulator::EmulatorError;
use fairmesh_engine::EngineError;

/// Reason why a testbed run cannot start or cannot be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// The daemon cannot be configured from the scenario.
    #[error("{scenario}: {problem}")]
    Scenario {
        /// Name of the scenario.
        scenario: String,
        /// The missing or contradictory part.
        #[source]
        problem: Box<ScenarioProblem>,
    },
    /// A file or folder of the testbed cannot be read or written.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// The emulator refuses or aborts the run.
    #[error("{scenario}: {problem}")]
    Emulator {
        /// Name of the scenario.
        scenario: String,
        /// The emulator's error.
        #[source]
        problem: Box<EmulatorError>,
    },
}

impl TestbedError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |problem| TestbedError::File { path, problem }
    }

    pub(crate) fn scenario(name: &str) -> impl FnOnce(ScenarioProblem) -> Self {
        let scenario = name.to_owned();
        move |problem| TestbedError::Scenario { scenario, problem: Box::new(problem) }
    }
}

/// Part of a scenario for which no daemon can be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioProblem {
    /// No gateway, so no node where the daemon could run.
    #[error("the scenario names no gateway; expected one, where the daemon runs")]
    NoGateway,
    /// More than one gateway.
    #[error("the scenario has {0} gateways; expected one: an emulation runs one daemon")]
    SeveralGateways(usize),
    /// No wire at the gateway, or several.
    #[error(
        "{0} wires at the gateway; expected one: upstream traffic is limited where it leaves the mesh"
    )]
    Uplinks(usize),
    /// A subscriber that owns some of a node's flows and not all.
    #[error(
        "subscriber \"{0}\" does not have all flows between its nodes and the wired side; expected all, \
         because the daemon identifies subscribers by address"
    )]
    SplitSubscriber(String),
    /// The fair rates cannot be computed.
    #[error(transparent)]
    FairRates(#[from] EngineError),
    /// The daemon refuses the configuration derived from the scenario.
    #[error("the gateway's daemon does not run \"{control}\": {problem}")]
    Configuration {
        /// Name of the control.
        control: String,
        /// The daemon's error.
        #[source]
        problem: Box<ConfigError>,
    },
    /// The daemon cannot start the control.
    #[error("the gateway's daemon does not run \"{control}\": {problem}")]
    Control {
        /// Name of the control.
        control: String,
        /// The daemon's error.
        #[source]
        problem: Box<StartError>,
    },
    /// No router can run the control.
    #[error(
        "no router of the emulation runs \"{control}\": {problem}; `fairmesh medium` gives real Wi-Fi stacks the \
         scenario's radio"
    )]
    NoRouter {
        /// Name of the control.
        control: String,
        /// Everything that a router lacks.
        #[source]
        problem: Box<StartError>,
    },
    /// The control does not run at a gateway.
    #[error("\"{0}\" does not run at a gateway; controls at nodes run in the simulator only")]
    NotAtGateway(String),
}
