//! Errors and notices of a store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::job::key::{JobKey, KeyError};

/// A line of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The shard's file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
}

impl Place {
    pub(super) fn new(file: &Path, line: u64) -> Self {
        Place { file: file.to_owned(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// Reason why a line of a shard is unusable.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The line is not a JSON object of the expected layout.
    #[error("{}; expected a record with key, kind, crc32 and value", plain(.0))]
    Layout(#[source] serde_json::Error),
    /// The checksum of key, kind and value differs from the recorded one.
    #[error("crc32: found {found:08x} over the record; expected {expected:08x}")]
    Checksum {
        /// Checksum of the record as it stands.
        found: u32,
        /// Checksum when the record was written.
        expected: u32,
    },
    /// The line is longer than any record.
    #[error("more than {most} bytes; expected a shorter record")]
    Length {
        /// Length of the longest line.
        most: usize,
    },
    /// The key is malformed.
    #[error("key: {0}")]
    Key(#[from] KeyError),
    /// The first line is not the header of a shard.
    #[error("{}; expected the header of a fairmesh store", plain(.0))]
    Header(#[source] serde_json::Error),
    /// The header has another layout.
    #[error("store: found layout {found}; expected {expected}")]
    HeaderLayout {
        /// Layout of the file.
        found: u32,
        /// Layout that this program reads.
        expected: u32,
    },
}

/// Operation on a file or folder that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creating it.
    Create,
    /// Reading it.
    Read,
    /// Writing it.
    Write,
    /// Removing it.
    Remove,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Create => "created",
            Operation::Read => "read",
            Operation::Write => "written",
            Operation::Remove => "removed",
        })
    }
}

/// Reason why a store cannot be opened, read, or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The path is a file.
    #[error("{}: is a file; expected a folder for a store", .0.display())]
    NotAFolder(PathBuf),
    /// The system rejected an operation. Records that were complete before stay readable.
    #[error("{}: cannot be {operation} ({source})", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Attempted operation.
        operation: Operation,
        /// The system's reason.
        source: io::Error,
    },
    /// A line other than an unfinished last one is damaged.
    #[error("{place}: {damage}")]
    Damaged {
        /// File and line.
        place: Place,
        /// Problem of the line.
        #[source]
        damage: Damage,
    },
    /// The store has records of another revision, and the caller did not specify their treatment.
    #[error(
        "{}: has records of revision {}; expected {expected}",
        folder.display(), found.join(", ")
    )]
    OtherRevision {
        /// The store.
        folder: PathBuf,
        /// Revisions of its shards other than the expected one, sorted.
        found: Vec<String>,
        /// Revision of this program.
        expected: String,
    },
    /// Two records of one key differ: one of their programs has another revision than it claims.
    #[error(
        "{first}: key {key}: differs from {}; expected equal records of one key",
        second.as_ref().map_or("the record to add".to_owned(), Place::to_string)
    )]
    Conflict {
        /// The key.
        key: JobKey,
        /// Record found first.
        first: Place,
        /// Record that differs; `None` if it was about to be added.
        second: Option<Place>,
    },
    /// A record of this revision gives another result when it is run again.
    #[error(
        "{place}: fingerprint: found {stored}; expected {now}, which this program gives for the same run"
    )]
    Stale {
        /// The record.
        place: Place,
        /// Fingerprint in the record.
        stored: String,
        /// Fingerprint of the repetition.
        now: String,
    },
    /// A record is not of its kind's type.
    #[error("{place}: value: {}; expected a {kind} record", plain(.source))]
    Value {
        /// File and line.
        place: Place,
        /// Kind of the record.
        kind: &'static str,
        /// Parser's reason.
        source: serde_json::Error,
    },
    /// A record cannot be written as JSON.
    #[error("key {key}: cannot be written as JSON: {source}")]
    Encode {
        /// The key.
        key: JobKey,
        /// Encoder's reason.
        source: serde_json::Error,
    },
    /// Another process writes the store that is to be emptied.
    #[error("{}: is being written by another process; expected a store that is not in use", .0.display())]
    InUse(PathBuf),
}

impl StoreError {
    pub(super) fn io(path: &Path, operation: Operation) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| StoreError::Io { path, operation, source }
    }

    pub(super) fn damaged(file: &Path, line: u64, damage: Damage) -> Self {
        StoreError::Damaged { place: Place::new(file, line), damage }
    }
}

/// A fact about a store that its user should know and that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The last line of a shard is incomplete: its writer was stopped.
    /// The record is lost, all others are used.
    Truncated {
        /// File and line.
        place: Place,
        /// Length of the incomplete line.
        bytes: u64,
    },
    /// Shards of another revision are left unused.
    Unused {
        /// The store.
        folder: PathBuf,
        /// The revision.
        revision: String,
        /// Number of its shards.
        shards: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Truncated { place, bytes } => write!(
                f,
                "{place}: incomplete last line of {bytes} bytes, ignored; its writer was stopped"
            ),
            Notice::Unused { folder, revision, shards } => write!(
                f,
                "{}: {shards} {} of revision {revision}, not used",
                folder.display(),
                if *shards == 1 { "file" } else { "files" },
            ),
        }
    }
}

/// Returns the text of an error without control characters.
///
/// The error may quote a damaged file.
fn plain(error: &serde_json::Error) -> String {
    let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    error.to_string().chars().map(plain).collect()
}
