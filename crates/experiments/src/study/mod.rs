//! Studies: experiments on generated networks, of the analytic models and of controls.

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
