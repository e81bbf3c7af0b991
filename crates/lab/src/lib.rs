//! The laboratory: load a scenario, change it, run it under controls and seeds, and measure.
//!
//! It has all functions for a command line, a notebook or a cluster. It has no arguments, no
//! terminal and no system calls beyond files; its errors name the file, the key and the
//! expected value.

pub mod analysis;
pub mod batch;
pub mod capture;
pub mod changes;
pub mod city;
pub mod comparison;
pub mod drops;
mod error;
pub mod estimate;
pub mod files;
pub mod frame;
pub mod job;
mod layout;
pub mod notes;
pub mod optimum;
pub mod record;
pub mod seeds;
pub mod source;
pub mod store;
pub mod summary;
pub mod sweep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timeline;
pub mod tradeoff;
pub mod verdict;

pub use batch::{Batch, Pool, Progress};
pub use changes::Changes;
pub use city::City;
pub use comparison::Comparison;
pub use error::{BoxedError, ErrorPlace, FileProblem, LabError, RunProblem, SettingProblem};
pub use estimate::Estimate;
pub use frame::Frame;
pub use job::{Job, JobKey, Revision};
pub use seeds::Seeds;
pub use store::{OtherRevisions, Store, StoreError};
// Inputs and results of the laboratory, so that a program needs no other crate of fairmesh.
pub use fairmesh_capacity as models;
pub use fairmesh_control as control;
pub use fairmesh_engine::{CancelToken, measures};
pub use fairmesh_scenario as scenario;
pub use fairmesh_units as units;
