//! Parameter sweeps: plans, varied keys, runs, and their summary.

pub mod axes;
mod cell;
mod draft;
mod plan;
mod runs;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod until;

pub use cell::Cell;
pub use draft::json_schema;
pub use plan::{Base, Plan};
pub use runs::{STORE_FOLDER, Sweep};
