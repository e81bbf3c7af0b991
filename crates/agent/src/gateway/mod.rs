//! The gateway: the first [service](crate::daemon::service::Service) of the daemon.
//!
//! [`start`] puts it on a machine: threads, sockets of other gateways, the kernel's data plane.
//! [`service`] is the state machine; files and commands are only in [`start`], [`sources`],
//! [`kept`], [`doctor`] and [`init`].

pub mod apply;
pub mod config;
pub mod directory;
pub mod doctor;
pub mod exchange;
#[cfg(test)]
pub(crate) mod fake;
pub mod governor;
pub mod headers;
pub mod history;
pub mod host;
pub mod init;
pub use crate::daemon::journal;
pub mod kept;
pub mod link_rates;
pub mod metrics;
mod offers;
pub mod orders;
pub mod page;
pub mod peers;
pub mod preflight;
pub mod probes;
pub mod report;
pub mod request;
pub mod rescue;
pub mod service;
pub mod signs;
pub mod sources;
pub mod start;
mod verdict;
