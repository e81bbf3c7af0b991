//! Testbed: emulated meshes with the gateway daemon under test in them.
//!
//! The emulator joins the engine to network namespaces and knows no daemon. This crate writes the
//! daemon's configuration from a scenario, starts the daemon in the gateway's namespace, reads its
//! status once per second and adds its decisions to the run's record:
//!
//! - [`configuration`]: the daemon's configuration, derived from a scenario;
//! - [`Daemon`]: one daemon process and its record; [`Workspace`]: the files of several of them;
//! - [`run`]: one emulation with or without a daemon; [`refuses`] and [`arm`]: the same for an
//!   experiment's arm on real stacks;
//! - [`demo`]: the live view that turns the daemon on part-way through a run.

// The rest of the workspace takes time as an argument; a testbed runs in real time.
#![allow(clippy::disallowed_methods)]

pub mod configuration;
mod daemon;
pub mod demo;
mod error;
mod run;
mod workspace;

pub use daemon::{Daemon, Program};
pub use error::{ScenarioProblem, TestbedError};
pub use run::{Hooks, arm, refuses, run};
pub use workspace::Workspace;
