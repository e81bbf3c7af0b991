//! Reasons for the absence of an optimum.

use fairmesh_engine::EngineError;

use crate::store::error::StoreError;

/// Reason for the absence of an optimum.
#[derive(Debug, thiserror::Error)]
pub enum OptimumError {
    /// The engine rejects the scenario.
    #[error("{0}")]
    Run(#[from] EngineError),
    /// A limit or a time that is invalid in the scenario of a search.
    #[error("{0}")]
    World(Box<fairmesh_scenario::ScenarioError>),
    /// A group is invalid.
    #[error("group {group}: {problem}")]
    Group {
        /// Index of the group.
        group: usize,
        /// Problem of the group.
        problem: GroupProblem,
    },
    /// A flow that is in no group.
    #[error("flow \"{0}\" is in no group; expected each flow in one")]
    Alone(String),
    /// Too few seeds for the search.
    #[error("search: {found} seeds; expected 2 or more")]
    SearchSeeds {
        /// Number of seeds.
        found: usize,
    },
    /// No seeds for the check.
    #[error("check: no seeds; expected 1 or more")]
    NoCheckSeeds,
    /// A seed of the check is also one of the search.
    #[error("check: seed {seed} is one of the search; expected other seeds")]
    SharedSeed {
        /// The seed.
        seed: u64,
    },
    /// A tolerance out of its range.
    #[error("tolerance: {0}; expected between 0 and 0.5")]
    Tolerance(f64),
    /// Times of measurements out of their range.
    #[error("times_s: {least} to {most} s; expected increasing times from 1 to 100000 s")]
    Times {
        /// Shortest measurement, in s.
        least: f64,
        /// Longest measurement, in s.
        most: f64,
    },
    /// The store of optima cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reason for the rejection of a group.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GroupProblem {
    /// The weight is not a positive number.
    #[error("weight {0}; expected a number above 0")]
    Weight(f64),
    /// A flow that the scenario does not have.
    #[error("flow {flow}; expected an index below {count}")]
    NoFlow {
        /// Index of the flow.
        flow: usize,
        /// Number of flows of the scenario.
        count: usize,
    },
    /// A flow that is in another group too.
    #[error("flow \"{flow}\" is in group {first} already; expected each flow in one")]
    Shared {
        /// The flow.
        flow: String,
        /// Index of the other group.
        first: usize,
    },
}

impl From<fairmesh_scenario::ScenarioError> for OptimumError {
    fn from(e: fairmesh_scenario::ScenarioError) -> Self {
        OptimumError::World(Box::new(e))
    }
}
