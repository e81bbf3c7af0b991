//! Experiments: reproductions of the papers, all controls side by side, studies of the models and of
//! controls on generated networks, the simulator against ns-3, and its speed.

// Benchmarks start programs and read the process's own clock.
#![allow(clippy::disallowed_methods)]

pub mod bench;
pub mod cli;
pub mod reproduce;
pub mod study;
pub mod validation;
