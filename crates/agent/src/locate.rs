//! Location of the running daemon and its last good configuration if the file is invalid.

use std::path::{Path, PathBuf};

use crate::daemon::lock::{Owner, Registry};
use crate::daemon::store::Store;
use crate::error::AgentError;
use crate::gateway::config::{Config, ConfigError, SOCKET, STATE};
use crate::gateway::kept::last_good_config;

/// The daemon that a command uses.
#[derive(Debug)]
pub struct Located {
    /// Path of its control socket.
    pub socket: PathBuf,
    /// The configuration's error, if the socket was found without it.
    pub broken: Option<ConfigError>,
}

/// Finds the control socket: as given, configured, registered, or at the default path.
///
/// Registered means: by the daemon of this network namespace.
///
/// # Errors
/// An invalid configuration, and no daemon that responds.
pub fn daemon(config: &Path, socket: Option<&Path>) -> Result<Located, AgentError> {
    if let Some(socket) = socket {
        return Ok(Located { socket: socket.to_owned(), broken: None });
    }
    let broken = match Config::load(config) {
        Ok(config) => return Ok(Located { socket: config.socket, broken: None }),
        Err(e) => e,
    };
    let registered = Registry::here().owners().into_iter().map(|owner| owner.socket);
    let mut places = registered.chain([PathBuf::from(SOCKET)]);
    match places.find(|socket| std::os::unix::net::UnixStream::connect(socket).is_ok()) {
        Some(socket) => Ok(Located { socket, broken: Some(broken) }),
        None => Err(broken.into()),
    }
}

/// Returns the folders that may have the last good configuration, the most likely first.
pub fn states() -> Vec<PathBuf> {
    let registered = Registry::here().owners().into_iter().map(|owner| owner.state);
    registered.chain([PathBuf::from(STATE)]).collect()
}

/// Returns the last configuration that worked for the daemon at `socket`.
pub fn last_good(socket: &Path) -> Option<Config> {
    let owners = Registry::here().owners();
    let of_socket = owners.iter().filter(|o: &&Owner| o.socket == socket).map(|o| o.state.clone());
    let mut folders = of_socket.chain([PathBuf::from(STATE)]);
    folders.find_map(|folder| last_good_config(&Store::new(&folder)).ok())
}
