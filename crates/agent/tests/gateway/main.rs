//! The daemon on real kernels: four network namespaces, real packets, real signals.
//! Skipped, with a line that says so, without root.

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
