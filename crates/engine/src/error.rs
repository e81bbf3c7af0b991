//! Errors of a scenario that cannot run.

use std::fmt;

use fairmesh_capacity::fair::FairError;
use fairmesh_control::StartError;
use fairmesh_queueing::SpecError;

/// Error of a scenario that the engine rejects, or of a cancelled run.
///
/// Each prints as one line.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Refused start of a control.
    ///
    /// It needs a capability that the simulator lacks, or rejects a setting.
    #[error("control: {0}")]
    Control(#[source] Box<StartError>),
    /// The control does not work with this kind of network.
    #[error("control: {control}: {conflict}")]
    Conflict {
        /// Name of the control, variants included.
        control: String,
        /// The property of the network that it does not work with.
        conflict: Conflict,
    },
    /// The capacity model rejects the scenario, and the control needs its fair rates.
    #[error("the analytic fair rates cannot be computed: {0}")]
    Capacity(#[from] FairError),
    /// The description of a queue is invalid.
    #[error("node \"{node}\": queue: {invalid}")]
    Queue {
        /// Name of the node.
        node: String,
        /// The invalid value.
        #[source]
        invalid: SpecError,
    },
    /// A path crosses two nodes that neither decode each other's frames nor share a wire.
    #[error("flow \"{flow}\": no link or wire from \"{from}\" to \"{to}\"")]
    BrokenPath {
        /// Name of the flow.
        flow: String,
        /// Name of the node before the gap.
        from: String,
        /// Name of the node after the gap.
        to: String,
    },
    /// A sampling interval of zero, which would never end.
    #[error("the sampling interval must be longer than zero")]
    ZeroSample,
    /// The run was cancelled before its end; there is no record.
    #[error("the run was cancelled")]
    Cancelled,
}

/// A property of a network that a control does not work with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Conflict {
    /// Nodes have several radios, and the control reads the queue or the airtime of one.
    SeveralRadios,
    /// Radios have a queue per access category, and the control reads one queue.
    AccessCategories,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = "expected a control of the gateway, such as rtt, pfrc, arc or static";
        match self {
            Conflict::SeveralRadios => {
                write!(f, "it knows one radio per node, and here are several; {expected}")
            }
            Conflict::AccessCategories => {
                let four = "with access categories there are four";
                write!(f, "it knows one queue per radio, and {four}; {expected}")
            }
        }
    }
}
