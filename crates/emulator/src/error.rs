//! Errors of an emulation.

use std::io;

/// Error of an emulation; its message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// Root privileges are missing.
    #[error("needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) to make network namespaces; try sudo")]
    NotRoot,
    /// A failed operation of the emulator or its system.
    #[error("{what}: {problem}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// The engine refuses the scenario.
    #[error(transparent)]
    Engine(#[from] fairmesh_engine::EngineError),
    /// Nodes with several radios, or radios on several channels.
    #[error(
        "radios.{0}: the emulator has one radio per node, all on one channel; expected `[radio]` alone"
    )]
    Radios(String),
    /// Access categories.
    #[error(
        "radio.edca: the emulator's interfaces have one queue each, without access categories; expected flows \
         without `access` and `dscp`, and no `radio.edca`"
    )]
    Categories,
    /// A congestion control that the kernel does not have.
    #[error(
        "flow[{flow}].transport.tcp: the kernel has no \"{name}\"; expected newreno, cubic or bbr, or one of them for all"
    )]
    Congestion {
        /// Index of the flow in the scenario, from 0.
        flow: usize,
        /// Name of the flow in the scenario.
        name: &'static str,
    },
    /// A transport that the kernel does not have.
    #[error("flow[{flow}].transport.quic: the kernel has no QUIC; expected tcp or udp")]
    Quic {
        /// Index of the flow in the scenario, from 0.
        flow: usize,
    },
    /// More nodes than namespaces are supported.
    #[error("{0} nodes; expected at most 1000, each is a namespace")]
    TooLarge(usize),
    /// A path crosses nodes without a link.
    #[error("no link or wire from \"{from}\" to \"{to}\"")]
    NoLink {
        /// Node before the missing link.
        from: String,
        /// Node after the missing link.
        to: String,
    },
    /// Two flows between one pair of nodes take different paths.
    #[error(
        "two flows from \"{from}\" to \"{to}\" take different paths; the kernel routes by addresses, \
         so expected one path per pair of nodes"
    )]
    TwoPaths {
        /// First node.
        from: String,
        /// Last node.
        to: String,
    },
    /// A node name that is not in the scenario.
    #[error("there is no node \"{0}\"; expected a node of the scenario")]
    NoNode(String),
    /// The routing is not available here.
    #[error("routing {0}")]
    Routing(String),
    /// The scenario has no medium, or a frame ended it.
    #[error(transparent)]
    Medium(#[from] fairmesh_medium::MediumError),
    /// Too few radios for the scenario's stations.
    #[error(
        "mac80211_hwsim has {have} radios, and the scenario has {need} stations; expected one radio per \
         station: modprobe mac80211_hwsim radios={need}"
    )]
    TooFewRadios {
        /// Number of radios.
        have: usize,
        /// Number of stations.
        need: usize,
    },
    /// A failed call into the kernel's networking.
    #[error(transparent)]
    Linux(#[from] fairmesh_linux::Error),
    /// The user interrupted the emulation.
    #[error("interrupted")]
    Interrupted,
}

impl EmulatorError {
    /// Wraps a system error with the operation that failed.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |problem| EmulatorError::System { what, problem }
    }
}
