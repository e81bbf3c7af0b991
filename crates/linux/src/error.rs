//! Why something could not be done to the kernel.

use std::io;

use crate::shaper::layout::LayoutError;

/// Why a call into the kernel's networking failed. What was in force before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Capabilities are missing.
    #[error("not permitted: {what} needs CAP_NET_ADMIN (run as root, or see the systemd unit)")]
    NotPermitted {
        /// What was tried.
        what: String,
    },
    /// There is no such interface (now).
    #[error("no interface `{0}`")]
    NoInterface(String),
    /// Somebody else's queueing discipline is where ours would go.
    #[error(
        "`{interface}` already has a root qdisc that is not ours: {kind} {handle}; it is left alone. \
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
    /// Somebody else's nftables table has our name.
    #[error(
        "nftables has a table `inet {table}` that is not ours; it is left alone. \
         Choose another table name, or remove it (nft delete table inet {table})"
    )]
    ForeignTable {
        /// Its name.
        table: String,
    },
    /// The interfaces of a layout lead the other way.
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
        /// What.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// The description to be installed is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A call that needs an installed data plane.
    #[error("nothing is installed yet")]
    NotInstalled,
    /// What was installed is no longer there.
    #[error("what was installed on `{interface}` has gone: {what}")]
    Gone {
        /// Interface.
        interface: String,
        /// What is there instead.
        what: String,
    },
    /// Our rules are no longer as they were put.
    #[error(
        "the rules in table {table} were removed or changed by somebody else (a firewall that was \
         loaded anew?)"
    )]
    RulesGone {
        /// The table's name.
        table: String,
    },
    /// The kernel refused a message.
    #[error("{what}: {source}{}", detail(.message))]
    Kernel {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
        /// Its words, where it has any (extended acknowledgement).
        message: Option<String>,
    },
    /// `nft` refused the rule set.
    #[error("nft: {0}")]
    Nft(String),
    /// A program takes longer than its caller waits; it goes on, and the call can be repeated.
    #[error("{program} has not ended after {seconds} s; it is killed after 30 s")]
    Busy {
        /// Its name.
        program: &'static str,
        /// Seconds since its start.
        seconds: u64,
    },
    /// A reply that makes no sense.
    #[error("the kernel's answer to {what} could not be read: {why}")]
    Malformed {
        /// What was asked.
        what: &'static str,
        /// What is wrong with the answer.
        why: String,
    },
    /// Anything else from the system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

fn detail(message: &Option<String>) -> String {
    message.as_ref().map(|m| format!(" ({m})")).unwrap_or_default()
}

impl Error {
    /// Whether an interface is what is missing.
    pub fn is_interface_lost(&self) -> bool {
        matches!(self, Error::NoInterface(_) | Error::Gone { .. })
            || matches!(self, Error::Kernel { source, .. } if source.raw_os_error() == Some(libc::ENODEV))
    }

    /// Wraps the system's answer to `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    /// Returns whether the call has not ended yet and can be repeated.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Busy { .. })
    }

    /// The error number of a kernel's refusal.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Kernel { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
