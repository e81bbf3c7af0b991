//! Parameter sweeps: varied settings, runs, and their summary.

mod cell;
mod plan;
pub mod summary;
pub mod vary;

pub use cell::Cell;
pub use plan::{STORE, Sweep};
