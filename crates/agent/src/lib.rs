//! The gateway daemon: who shares the mesh, what each of them gets, and what limits it.
//!
//! - [`gateway::config`]: the configuration, checked with file, line and key of every error;
//! - [`gateway::governor`]: counters in, limits and named events out; hosts the very controls of the
//!   simulator, without a clock and without a kernel;
//! - [`gateway::host`]: governor and data plane together, and what happens when either fails;
//! - [`gateway::sources`]: subscribers that the configuration does not list;
//!   [`gateway::doctor`]: what makes limits ineffective; [`gateway::report`]: `status` and `why`;
//! - [`gateway::service`]: the gateway as a state machine; [`gateway::start`]: the same on a machine;
//! - [`daemon`]: the runtime of any [service](daemon::service::Service): clock, loop, control
//!   [`socket`](daemon::socket), [metrics](daemon::http), [state](daemon::store), locks, and the
//!   [`guard`](daemon::guard) that undoes a daemon's effects when it dies.

// Time, files and processes begin in this crate's runtime.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod commands;
pub mod daemon;
pub mod error;
pub mod gateway;
mod json;
mod locate;
