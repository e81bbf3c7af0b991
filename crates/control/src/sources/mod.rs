//! What runs where flows start.

pub(crate) mod agent;
pub(crate) mod source;
pub(crate) mod tcp_ap;
