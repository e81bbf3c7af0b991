//! Radios, queues and transports of today, side by side: who starves, and which control still helps.
//!
//! Cases and topologies are declared in `reproductions/today/today.toml`. The record of a run is kept
//! beside it; `docs/today.md` and its picture are made from that record alone.

mod answers;
pub mod declare;
mod means;
pub mod page;
pub mod picture;
pub mod plan;
pub mod record;

/// Folder of the declaration and the record, below the experiments.
pub const FOLDER: &str = "today";
/// The declaration.
pub const DECLARATION: &str = "today/today.toml";
/// The kept record.
pub const RECORD: &str = "today/record.json";
/// The page's place in the documents.
pub const PAGE: &str = "today.md";
/// The picture's, seen from there.
pub const PICTURE: &str = "img/today.svg";

/// A flow below this part of the mean of its run's flows starves.
pub const STARVED: f64 = 0.1;
