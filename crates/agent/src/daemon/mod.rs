//! A generic daemon: the runtime of any [service](service::Service).
//!
//! [`runtime`] has the loop, signals and effects; [`clock`] the time; [`socket`] the control socket; [`http`] the server of the
//! metrics and of pages; [`store`] the state; [`lock`] exclusive use of resources; [`guard`] the second process;
//! [`journal`] named events; [`metrics`] their values for Prometheus. Nothing here depends on a gateway.

pub mod clock;
pub mod endpoint;
pub mod files;
pub mod guard;
pub mod http;
pub mod journal;
pub mod lock;
pub mod metrics;
pub mod process;
pub mod runtime;
pub mod service;
pub mod socket;
pub mod store;
