//! Experiments: reproductions of papers, comparisons of all controls, and studies.
//!
//! The studies cover the analytic models and controls on generated networks. The crate also
//! compares the simulator with ns-3 and measures its speed.

// Benchmarks start programs and read the process's CPU clock.
#![allow(clippy::disallowed_methods)]

pub mod bench;
pub mod cli;
pub mod reproduce;
pub mod study;
pub mod validation;
