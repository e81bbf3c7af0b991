//! The daemon on real kernels: four network namespaces, real packets, real signals.
//!
//! Without root the tests are skipped with a message.

#![allow(clippy::disallowed_methods)] // real time passes here

#[path = "../common/mod.rs"]
mod common;
mod configuration;
mod deaths;
mod faults;
mod hostile;
mod init;
mod peers;
mod shares;
mod signs;
