//! What can go wrong with a command: one line each, and an exit code.

use std::io;
use std::path::Path;

use crate::gateway::config::ConfigError;

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel or the system refuses.
    #[error(transparent)]
    Linux(#[from] fairmesh_linux::Error),
    /// The daemon refuses what was asked of it.
    #[error("{0}")]
    Refused(String),
    /// The daemon does not answer.
    #[error("{socket}: {problem}; expected a running daemon (fairmesh-gateway run)")]
    NoDaemon {
        /// Where it was looked for.
        socket: String,
        /// What happened.
        problem: String,
    },
    /// A check did not pass: the command worked, its verdict is no.
    #[error("{0}")]
    Verdict(String),
    /// A file or folder.
    #[error("{path}: {problem}")]
    File {
        /// Its path.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// Standard output could not be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl AgentError {
    /// A wrong file.
    pub fn file(path: &Path, problem: impl ToString) -> Self {
        AgentError::File { path: path.display().to_string(), problem: problem.to_string() }
    }

    /// 0 when a reader of ours went away, 1 for a failed check, 2 for wrong input or surroundings.
    pub fn exit_code(&self) -> u8 {
        match self {
            AgentError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            AgentError::Verdict(_) => 1,
            _ => 2,
        }
    }
}
