//! Mechanisms of every node, or of several kinds of nodes that exchange their state.

pub mod cna;
pub mod gap;
pub(crate) mod ifa;
pub(crate) mod maxmin;
pub(crate) mod wcp;
pub(crate) mod wcpcap;
