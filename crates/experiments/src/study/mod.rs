//! Studies of the analytic models and of controls on generated networks.

pub mod accuracy;
mod against;
pub mod boundary;
pub mod families;
pub mod floods;
pub mod meshes;
pub mod newcomers;
pub mod region;
pub mod section;

pub use against::{MeasureSummary, Settings};
