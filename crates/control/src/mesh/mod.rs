//! What runs at every node, or at several kinds of nodes that tell each other what they need.

pub mod cna;
pub mod gap;
pub(crate) mod ifa;
pub(crate) mod maxmin;
pub(crate) mod wcp;
pub(crate) mod wcpcap;
