//! Reasons why a source of subscribers could not be read.

use std::io;
use std::process::ExitStatus;

use super::{MAX_RESPONSE, MAX_VALUES, TIMEOUT};

/// Reason why a source of subscribers could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The kernel refuses, or the interface has no such table.
    #[error(transparent)]
    Kernel(#[from] fairmesh_linux::Error),
    /// A directory, pipe or device where a file was expected.
    #[error("not a regular file; expected one with a NetworkGraph")]
    NotAFile,
    /// A file that is too large.
    #[error("more than {} MiB", MAX_RESPONSE >> 20)]
    TooLarge,
    /// A file that is not text.
    #[error("not UTF-8 text")]
    NotText,
    /// JSON with too many values.
    #[error("{0} values; expected at most {MAX_VALUES}")]
    TooManyValues(usize),
    /// Nothing where JSON was expected.
    #[error("empty; expected JSON")]
    Empty,
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// JSON without a list.
    #[error("not a list")]
    NotAList,
    /// JSON without a graph.
    #[error("not a NetJSON NetworkGraph")]
    NotAGraph,
    /// A graph without a list of nodes.
    #[error("a graph without nodes")]
    NoNodes,
    /// A graph in which no node has an address.
    #[error(
        "{nodes} nodes, none with an address; expected addresses as `id`, `label`, \
         `local_addresses` or `properties.addresses`"
    )]
    NoAddresses {
        /// Number of nodes.
        nodes: usize,
    },
    /// A table of batman-adv in which no originator has clients.
    #[error(
        "{originators} originators, none with clients; expected entries of the global translation \
         table"
    )]
    NoClients {
        /// Number of originators.
        originators: usize,
    },
    /// A part of OLSR's response that cannot be read.
    #[error("/{table}: {problem}")]
    Table {
        /// The part, such as `hna`.
        table: &'static str,
        /// The reason.
        problem: Box<SourceError>,
    },
    /// OLSR's response has no routes.
    #[error("response without \"routes\"")]
    NoRoutes,
    /// Another protocol than that of babeld's local interface.
    #[error("not Babel's local interface")]
    NotBabel,
    /// babeld refuses the request.
    #[error("refused: {0}")]
    Refused(String),
    /// The dump of babeld has no end.
    #[error("truncated response; expected `ok` at the end of the dump")]
    NoEnd,
    /// The connection was closed within a response.
    #[error("truncated response: the connection was closed")]
    Closed,
    /// A response of unlimited length or duration.
    #[error("response without end")]
    Endless,
    /// No response in time.
    #[error("no response within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// A command failed.
    #[error("{program} failed ({status}): {output}")]
    Failed {
        /// The program.
        program: String,
        /// Exit status of the program.
        status: ExitStatus,
        /// Beginning of its error output.
        output: String,
    },
    /// A command with output that is not text.
    #[error("{program} prints no text")]
    NoText {
        /// The program.
        program: String,
    },
    /// The reader itself failed.
    #[error("internal error while reading a source; please report it")]
    Panic,
}

/// A source that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", prefix(name))]
pub struct FailedSource {
    /// The source: a file, a command or an address; empty if it is unknown.
    pub name: String,
    /// The reason.
    pub problem: SourceError,
}

fn prefix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name}: ") }
}
