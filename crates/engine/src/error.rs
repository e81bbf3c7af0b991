//! Why a scenario cannot run.

/// A scenario that the engine refuses. One line each.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The scenario names no known control, or one with bad settings.
    #[error("control: {0}")]
    Control(String),
    /// The capacity model refuses the scenario.
    #[error("the analytic fair rates cannot be computed: {0}")]
    Capacity(String),
    /// A queue's description is invalid.
    #[error("node \"{node}\": queue: {problem}")]
    Queue {
        /// Name of the node.
        node: String,
        /// What is wrong.
        problem: String,
    },
    /// A path crosses two nodes that neither hear each other nor share a wire.
    #[error("flow \"{flow}\": no link or wire from \"{from}\" to \"{to}\"")]
    BrokenPath {
        /// Name of the flow.
        flow: String,
        /// Name of the node before the gap.
        from: String,
        /// Name of the node after it.
        to: String,
    },
    /// Sampling that often would never end.
    #[error("the sampling interval must be longer than zero")]
    ZeroSample,
}
