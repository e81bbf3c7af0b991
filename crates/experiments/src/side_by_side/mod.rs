//! Every control on every topology of the papers and on real maps: one table, one picture.
//!
//! What runs where is declared in `reproductions/side-by-side/side-by-side.toml`; the controls come
//! from the registry, so that a new one appears by itself. The record of a run is kept beside it,
//! and `docs/controls/side-by-side.md` and its picture are made from that record alone.

pub mod answers;
pub mod arms;
pub mod declare;
pub mod page;
pub mod picture;
pub mod plan;
pub mod record;
pub mod topology;

/// Folder of the declaration and the record, below the experiments.
pub const FOLDER: &str = "side-by-side";
/// The declaration.
pub const DECLARATION: &str = "side-by-side/side-by-side.toml";
/// The kept record.
pub const RECORD: &str = "side-by-side/record.json";
