//! Errors of changes to the kernel.

use std::io;

use crate::shaper::layout::LayoutError;

/// Error of a call into the kernel's networking. The previous state stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Capabilities are missing.
    #[error("not permitted: {what} needs CAP_NET_ADMIN (run as root, or see the systemd unit)")]
    NotPermitted {
        /// Attempted operation.
        what: String,
    },
    /// The interface does not exist (any more).
    #[error("no interface `{0}`")]
    NoInterface(String),
    /// Another program's queueing discipline is at the root.
    #[error(
        "`{interface}` already has a root qdisc that is not ours: {kind} {handle}; it is unchanged. \
         Remove it (tc qdisc del dev {interface} root) or shape another interface"
    )]
    ForeignQdisc {
        /// Interface.
        interface: String,
        /// Kind, as `tc` names it.
        kind: String,
        /// Handle, as `tc` prints it.
        handle: String,
    },
    /// Another program's nftables table has our name.
    #[error(
        "nftables has a table `inet {table}` that is not ours; it is unchanged. \
         Choose another table name, or remove it (nft delete table inet {table})"
    )]
    ForeignTable {
        /// Name of the table.
        table: String,
    },
    /// The interfaces of a layout are swapped.
    #[error(
        "mesh and wired are swapped: the default route leads over {mesh}, and the subscriber at {subscriber} is \
         reached over {wired}; nothing is limited"
    )]
    Swapped {
        /// Interface of the mesh in the layout.
        mesh: String,
        /// Wired interface in the layout.
        wired: String,
        /// Address of a subscriber.
        subscriber: std::net::IpAddr,
    },
    /// The kernel or the system lacks something.
    #[error("missing: {what}; {hint}")]
    Missing {
        /// Missing feature.
        what: String,
        /// Remedy.
        hint: String,
    },
    /// The layout is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A call needs an installed data plane.
    #[error("nothing is installed yet")]
    NotInstalled,
    /// An installed object is no longer there.
    #[error("the queues on `{interface}` are gone: {what}")]
    Gone {
        /// Interface.
        interface: String,
        /// Object found in its place.
        what: String,
    },
    /// Another program changed or removed our rules.
    #[error(
        "another program removed or changed the rules in table {table} (for example a reloaded \
         firewall)"
    )]
    RulesGone {
        /// Name of the table.
        table: String,
    },
    /// The kernel refused a message.
    #[error("{what}: {source}{}", detail(.message))]
    Kernel {
        /// Attempted operation.
        what: String,
        /// The kernel's error number.
        source: io::Error,
        /// The kernel's text, if there is one (extended acknowledgement).
        message: Option<String>,
    },
    /// The kernel's verifier refused a BPF program.
    #[error("the kernel's verifier refuses the program ({source}): {}", last_lines(.log))]
    Verifier {
        /// The kernel's error number.
        source: io::Error,
        /// The verifier's log, of several lines.
        log: String,
    },
    /// `nft` refused the rule set.
    #[error("nft: {0}")]
    Nft(String),
    /// A program takes longer than its caller waits; it continues, and the call can be repeated.
    #[error("{program} has not ended after {seconds} s; it is killed after 30 s")]
    Busy {
        /// Name of the program.
        program: &'static str,
        /// Seconds since its start.
        seconds: u64,
    },
    /// A reply cannot be parsed.
    #[error("cannot parse the kernel's response to {what}: {why}")]
    Malformed {
        /// Request that was sent.
        what: &'static str,
        /// Problem of the reply.
        why: String,
    },
    /// Any other error of the system.
    #[error("{what}: {source}")]
    Io {
        /// Attempted operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Returns the end of a verifier's log in one line.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

fn detail(message: &Option<String>) -> String {
    message.as_ref().map(|m| format!(" ({m})")).unwrap_or_default()
}

impl Error {
    /// True if an interface is missing.
    pub fn is_interface_lost(&self) -> bool {
        matches!(self, Error::NoInterface(_) | Error::Gone { .. })
            || matches!(self, Error::Kernel { source, .. } if source.raw_os_error() == Some(libc::ENODEV))
    }

    /// Wraps the system's error of the operation `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    /// True if the call has not ended yet and can be repeated.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Busy { .. })
    }

    /// Returns the error number of a kernel's refusal.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Kernel { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
