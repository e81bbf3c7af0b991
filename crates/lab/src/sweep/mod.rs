//! Parameter sweeps: what to vary, the runs, and a journal of those that are finished.

pub mod journal;
mod plan;
pub mod summary;
pub mod vary;

pub use plan::Sweep;
