//! What can go wrong with a command: one line each, and an exit code.

use std::io;
use std::path::Path;

use crate::gateway::config::{ConfigError, is_shown};

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

    /// What is told of it in a terminal. Files, keys and names in it may be anybody's: what would turn the writing, or
    /// cannot be seen, is spelled out.
    pub fn line(&self) -> String {
        let told = self.to_string();
        told.chars()
            .map(|c| if is_shown(c) { c.to_string() } else { c.escape_unicode().to_string() })
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::config::Config;

    #[test]
    fn nothing_that_a_file_says_turns_a_terminals_writing() {
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
