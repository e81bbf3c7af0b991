//! The process around the [gateway](crate::gateway): a clock, threads, sockets, files that are kept.

pub mod guard;
pub mod http;
pub mod lock;
pub mod metrics;
pub mod peers;
pub mod preflight;
pub mod runtime;
pub mod signs;
pub mod socket;
pub mod state;
