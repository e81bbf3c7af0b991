//! Mechanisms of nodes that source flows.

pub(crate) mod agent;
pub(crate) mod source;
pub(crate) mod tcp_ap;
