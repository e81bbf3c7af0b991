//! Errors of the commands: one line each, and an exit code.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use fairmesh_control::StartError;
use fairmesh_units::BitRate;

use crate::daemon::runtime::StartError as RuntimeError;
use crate::daemon::socket::{AskError, Refusal};
use crate::gateway::config::{ConfigError, is_shown};
use crate::gateway::governor::UnknownSubscriber;
use crate::gateway::host::ReloadError;

/// Reason why the last configuration that worked cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FallbackProblem {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The configuration is refused, such as after an update of the program.
    #[error(transparent)]
    Config(#[from] Box<ConfigError>),
}

/// Part of a configuration that a control refuses.
#[derive(Debug, thiserror::Error)]
pub enum ControlProblem {
    /// Guarantees add up to more than the links carry.
    #[error(
        "control: guarantees add up to {sum}; expected at most {bound}, which is all that the links \
         of [[neighbour]] are sure to carry"
    )]
    Guarantees {
        /// Sum of the guarantees.
        sum: String,
        /// Largest sum.
        bound: String,
    },
    /// The weight of a subscriber.
    #[error("subscriber \"{subscriber}\": weight {weight}; expected one above 0")]
    Weight {
        /// Name of the subscriber.
        subscriber: String,
        /// Weight of the subscriber.
        weight: String,
    },
    /// The control cannot start.
    #[error("control.use: {0}")]
    Start(#[source] StartError),
}

/// Reason why the daemon cannot listen at the path of its control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketPathError {
    /// The path is a directory.
    #[error("paths.socket: {} is a directory; expected a free path or a socket", .0.display())]
    Directory(PathBuf),
    /// The path is a file that the daemon must not replace.
    #[error(
        "paths.socket: {} exists and is not a socket; expected a free path or a socket",
        .0.display()
    )]
    NotASocket(PathBuf),
    /// The path cannot be examined.
    #[error(
        "paths.socket: {} cannot be used ({problem}); expected a free path or a socket",
        path.display()
    )]
    Unusable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
}

/// Reason why the key of `[peers]` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{}: {problem}; expected a key: {KEY_COMMAND}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// The file is not a regular file.
    #[error("{}: is not a regular file; expected a key: {KEY_COMMAND}", .0.display())]
    NotAFile(PathBuf),
    /// Other users can read the file.
    #[error(
        "{}: is readable by other users (mode {mode:04o}); run `chmod 0600 {}`",
        path.display(),
        path.display()
    )]
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// File mode.
        mode: u32,
    },
    /// The file does not contain a key.
    #[error("{}: not a key; expected 64 hexadecimal digits, as fairmesh-gateway key prints", .0.display())]
    NotAKey(PathBuf),
}

/// Command that creates a key.
const KEY_COMMAND: &str = "umask 077; fairmesh-gateway key > FILE (or fairmesh-node key), and copy the file to all machines of the mesh";

/// Reason why the exchange with other gateways is closed.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The address cannot be bound.
    #[error(
        "{address}: {problem}; expected an address of this machine and a free port (peers.listen)"
    )]
    Address {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
}

/// Reason why the daemon refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The line is not a request of this version.
    #[error("not a request: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The direction is unknown.
    #[error("direction \"{0}\"; expected down or up")]
    Direction(String),
    /// The duration of an override is out of range.
    #[error("{0} s is out of range; expected 1 s to 366 days")]
    Duration(f64),
    /// The rate of an override is out of range.
    #[error("{0} is out of range; expected 1 kbit/s to 1 Tbit/s")]
    Rate(BitRate),
    /// There is no such subscriber.
    #[error(transparent)]
    Subscriber(#[from] UnknownSubscriber),
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The change needs a restart.
    #[error("{}: {problem}", file.display())]
    Fixed {
        /// The configuration file.
        file: PathBuf,
        /// Value that cannot change.
        #[source]
        problem: Box<ReloadError>,
    },
    /// The control refuses the configuration.
    #[error("{}: {problem}", file.display())]
    Control {
        /// The configuration file.
        file: PathBuf,
        /// Refused part.
        #[source]
        problem: Box<ControlProblem>,
    },
}

impl RequestError {
    /// Returns the stable name of the reason, for programs that use the control socket.
    pub const fn code(&self) -> &'static str {
        match self {
            RequestError::Syntax(_) => "syntax",
            RequestError::Direction(_) => "direction",
            RequestError::Duration(_) => "duration",
            RequestError::Rate(_) => "rate",
            RequestError::Subscriber(_) => "subscriber",
            RequestError::Config(_) => "config",
            RequestError::Fixed { .. } => "fixed",
            RequestError::Control { .. } => "control",
        }
    }
}

impl From<RequestError> for Refusal {
    fn from(e: RequestError) -> Self {
        Refusal::new(e.code(), &e)
    }
}

/// Reason why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel or the system refuses.
    #[error(transparent)]
    Linux(#[from] fairmesh_linux::Error),
    /// The daemon cannot start.
    #[error(transparent)]
    Start(#[from] RuntimeError),
    /// Neither the configuration nor the last one that worked can be used.
    #[error("{config}; the last configuration that worked, {}: {problem}", last_good.display())]
    NoFallback {
        /// The configuration's error.
        config: Box<ConfigError>,
        /// Path of the last configuration that worked.
        last_good: PathBuf,
        /// Error of that configuration.
        problem: FallbackProblem,
    },
    /// The control refuses the configuration.
    #[error("{}: {problem}", file.display())]
    Control {
        /// The configuration file.
        file: PathBuf,
        /// Refused part.
        #[source]
        problem: Box<ControlProblem>,
    },
    /// The key of the routers cannot be used.
    #[error("{}: key: {problem}", file.display())]
    NodeKey {
        /// The configuration file.
        file: PathBuf,
        /// Problem of the key.
        #[source]
        problem: KeyError,
    },
    /// Another object is at the path of the control socket.
    #[error(transparent)]
    SocketPath(#[from] SocketPathError),
    /// The command must not run beside a running daemon.
    #[error("the daemon is running ({0}); stop it first")]
    Running(#[source] RuntimeError),
    /// The guard of a daemon that has ended still works.
    #[error(
        "the guard of an ended daemon is still lifting limits ({}: {problem}); try again in a few seconds",
        lock.display()
    )]
    GuardAtWork {
        /// Path of the guard's lock.
        lock: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// The daemon's response is of another version.
    #[error(
        "cannot parse the daemon's response ({0}); restart the daemon so that both have the same version"
    )]
    Answer(#[source] serde_json::Error),
    /// The second process was not started by the daemon.
    #[error("--layout: {0}; expected the daemon's")]
    GuardLayout(#[source] serde_json::Error),
    /// The daemon does not respond, or refuses.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// `init` does not replace a file.
    #[error("{}: exists; expected a free path, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// The mode in the configuration cannot be changed.
    #[error("{}: mode: cannot be changed here ({problem}); expected a line `mode = \"{mode}\"`", file.display())]
    Mode {
        /// Path of the file.
        file: PathBuf,
        /// The mode that was wanted.
        mode: &'static str,
        /// The reason.
        problem: String,
    },
    /// The configuration keeps no history.
    #[error("{}: history.size: is 0 B; expected a size, so that the daemon keeps a history", .0.display())]
    NoHistory(PathBuf),
    /// The history cannot be read.
    #[error(
        "{}: {problem}; expected the folder of a history, which `fairmesh-gateway run` writes (history.folder)",
        folder.display()
    )]
    History {
        /// Folder.
        folder: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// The time of a report has no length.
    #[error("--until: is not after --since; expected a smaller time before now")]
    EmptyTime,
    /// A file cannot be written.
    #[error("{}: {problem}", path.display())]
    Unwritable {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        problem: io::Error,
    },
    /// `init` found too little for a configuration; the command itself worked.
    #[error("not enough information for a configuration; nothing was written")]
    Incomplete,
    /// Checks failed; the command itself worked.
    #[error("{0} checks failed; nothing was changed")]
    ChecksFailed(usize),
    /// `doctor` found causes of ineffective limits; the command itself worked.
    #[error("{0} problems make limits ineffective")]
    Ineffective(usize),
    /// Standard output could not be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl AgentError {
    /// Returns the message for a terminal.
    ///
    /// Invisible characters of files, keys and names, and those that would change the direction of writing, are
    /// escaped.
    pub fn line(&self) -> String {
        let message = self.to_string();
        message
            .chars()
            .map(|c| if is_shown(c) { c.to_string() } else { c.escape_unicode().to_string() })
            .collect()
    }

    /// Returns the exit code: 0 for a closed output, 1 for a failed check, 2 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            AgentError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            AgentError::ChecksFailed(_) | AgentError::Ineffective(_) | AgentError::Incomplete => 1,
            _ => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::config::Config;

    #[test]
    fn messages_escape_changes_of_writing_direction() {
        let whole =
            "[mesh]\ninterface = \"a\"\n[wired]\ninterface = \"b\"\n[control]\nuse = \"fifo\"\n";
        let evil = [
            "[[subscriber]]\nname = \"a\u{202e}b\"\nprefixes = [\"10.0.0.0/8\"]\n",
            "[[subscriber]]\nname = \"c\"\nprefixes = [\"10.0.0.0/8\u{202e}\"]\n",
            "[[subscriber]]\nname = \"c\"\nprefixes = [\"10.0.0.0/8\"]\nplan = \"\\u001b[2J\"\n",
            "\"\u{2066}k\" = 1\n",
            "[\"\\u009b\"]\n",
            "\u{feff}[plan.\"\u{e0041}\"]\ndown = \"1\u{200b} Mbit/s\"\n",
        ];
        for text in evil {
            let Err(e) = Config::parse("gateway.toml", &(whole.to_owned() + text)) else {
                panic!("{text:?}: taken");
            };
            let line = AgentError::from(e).line();
            assert!(line.chars().all(is_shown), "{line:?}");
            assert!(line.starts_with("gateway.toml:"), "{line}");
        }
    }
}
