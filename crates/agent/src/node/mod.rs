//! The daemon of a mesh router: senses, messages to neighbours, and a mechanism.
//!
//! - [`config`]: the configuration, checked with file, line and key of every error;
//! - [`message`]: the message between neighbours, as bytes; [`neighbours`]: authentication, replay protection, rates
//!   and expiry of received messages; [`orders`]: those of a gateway over several hops;
//! - [`numbers`]: numbers of routers that hold in the whole mesh;
//! - [`machine`]: senses and acts of a router, and those of this machine; [`offers`]: its capabilities for mechanisms;
//!   [`rig`]: the host of one mechanism; [`passing`]: the flows that pass;
//! - [`service`]: the router as a state machine; [`report`]: `status` and `why`; [`metrics`]; [`state`]: values across
//!   restarts; [`places`]: removal of limits;
//! - [`start`]: the start on a machine; [`commands`]: the commands; [`doctor`]: causes of a router that has no effect.

mod answers;
pub mod args;
pub mod commands;
pub mod config;
pub mod doctor;
#[cfg(test)]
pub(crate) mod fake;
pub mod machine;
pub mod message;
pub mod metrics;
pub mod neighbours;
pub mod numbers;
pub mod offers;
pub mod orders;
pub mod passing;
pub mod places;
pub mod report;
pub mod rig;
pub mod service;
pub mod start;
pub mod state;
