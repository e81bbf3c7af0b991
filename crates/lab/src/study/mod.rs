//! Experiments that compare the analytic models with the simulator.

pub mod accuracy;
pub mod boundary;
pub mod families;
pub mod floods;
pub mod meshes;
pub mod section;
