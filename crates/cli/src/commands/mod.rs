//! One module per command.

pub mod capacity;
pub mod compare;
#[cfg(feature = "linux")]
pub mod demo;
#[cfg(feature = "linux")]
pub mod emulate;
pub mod fingerprints;
#[cfg(feature = "linux")]
pub mod gateway;
pub mod list;
#[cfg(feature = "linux")]
pub mod medium;
pub mod optimum;
pub mod run;
pub mod sweep;
pub mod validate;

pub(crate) use fairmesh_front::output::{print_json, warn};
