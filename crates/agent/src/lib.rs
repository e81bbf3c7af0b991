//! The gateway daemon: who shares the mesh, what each of them gets, and what limits it.
//!
//! - [`config`]: the configuration, checked with file, line and key of every error;
//! - [`governor`]: counters in, limits and named events out; hosts the very controls of the
//!   simulator, without a clock and without a kernel;
//! - [`host`]: governor and data plane together, and what happens when either fails;
//! - [`runtime`]: the daemon: a clock, signals, the control [`socket`], [`metrics`], [`state`] kept
//!   over restarts, and the [`guard`] that lifts limits when it dies;
//! - [`sources`]: subscribers that the configuration does not list; [`doctor`]: what makes limits
//!   ineffective; [`report`]: `status` and `why`;
//! - [`journal`]: named events, counted and told within reason.

// Time, files and processes begin in this crate's runtime.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod commands;
pub mod config;
pub mod doctor;
pub mod error;
#[cfg(test)]
mod fake;
pub mod governor;
pub mod guard;
pub mod host;
pub mod journal;
mod json;
pub mod metrics;
pub mod report;
pub mod runtime;
mod site;
pub mod socket;
pub mod sources;
pub mod state;
