//! Addresses of daemons on this machine.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Address at which a daemon of this machine listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}
