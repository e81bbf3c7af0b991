//! The gateway daemon: subscribers of the mesh, their shares, and their limits.
//!
//! - [`gateway::config`]: the configuration, checked with file, line and key of every error;
//! - [`gateway::governor`]: counters in, limits and named events out; hosts the controls of the simulator, without a
//!   clock and without a kernel;
//! - [`gateway::host`]: governor and data plane together, and the handling of their failures;
//! - [`gateway::init`]: a first configuration from a survey of this machine and its mesh;
//! - [`gateway::sources`]: subscribers that the configuration does not list; [`gateway::doctor`]: causes of ineffective
//!   limits; [`gateway::report`]: `status` and `why`;
//! - [`gateway::service`]: the gateway as a state machine; [`gateway::start`]: its start on a machine;
//! - [`node`]: the daemon of a mesh router: [messages](node::message) to its neighbours;
//! - [`daemon`]: the runtime of any [service](daemon::service::Service): clock, loop, control
//!   [`socket`](daemon::socket), [metrics](daemon::http), [state](daemon::store), locks, and the
//!   [`guard`](daemon::guard) that undoes a daemon's effects when it dies.

// Time, files and processes begin in this crate's runtime.
#![allow(clippy::disallowed_methods)]

pub mod args;
pub mod commands;
pub mod daemon;
pub mod error;
pub mod events;
pub mod gateway;
mod json;
pub mod key;
mod locate;
pub mod node;
mod program;
mod ubus;
