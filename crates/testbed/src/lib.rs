//! Testbed: emulated meshes with the daemons under test in them.
//!
//! The emulator joins the engine to network namespaces and knows no daemon. This crate writes the
//! daemon's configuration from a scenario, starts the daemon in the gateway's namespace, reads its
//! status once per second and adds its decisions to the run's record:
//!
//! - [`configuration`]: the daemon's configuration, derived from a scenario;
//! - [`Daemon`]: the gateway's daemon and its record; [`Routers`]: a daemon at every router; [`Workspace`]: the files
//!   of several emulations;
//! - [`run`]: one emulation with or without a daemon; [`refuses`] and [`arm`]: the same for an
//!   experiment's arm on real stacks;
//! - [`demo`]: the live view that turns the daemon on part-way through a run.

// The rest of the workspace takes time as an argument; a testbed runs in real time.
#![allow(clippy::disallowed_methods)]

mod agent;
pub mod configuration;
mod daemon;
pub mod demo;
mod error;
mod process;
mod routers;
mod run;
mod workspace;

pub use agent::Agent;
pub use daemon::Daemon;
pub use error::{ScenarioProblem, TestbedError};
pub use process::{Program, Programs};
pub use routers::Routers;
pub use run::{Hooks, arm, refuses, run};
pub use workspace::{Daemons, Workspace};
