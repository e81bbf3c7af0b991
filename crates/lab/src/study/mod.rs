//! Experiments that compare the analytic models with the simulator.

pub mod accuracy;
mod against;
pub mod boundary;
pub mod families;
pub mod floods;
pub mod meshes;
pub mod newcomers;
pub mod region;
pub mod section;

pub use against::{Over, Settings};
