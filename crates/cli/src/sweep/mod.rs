//! Parameter sweeps: what to vary, and a journal of finished runs.

pub mod journal;
pub mod summary;
pub mod vary;
