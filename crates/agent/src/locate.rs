//! Location of the running daemon and its last good configuration if the file is invalid.

use std::path::{Path, PathBuf};

use crate::daemon::lock::{Owner, Registry};
use crate::daemon::store::Store;
use crate::error::AgentError;
use crate::gateway::config::{Config, ConfigError, SOCKET_PATH, STATE_FOLDER};
use crate::gateway::kept::last_good_config;

/// Kind of resource that only a gateway's daemon claims; routers' daemons have other ones.
const KIND: &str = "table";

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
    daemon_of(&Registry::here(), config, socket)
}

fn daemon_of(
    registry: &Registry,
    config: &Path,
    socket: Option<&Path>,
) -> Result<Located, AgentError> {
    if let Some(socket) = socket {
        return Ok(Located { socket: socket.to_owned(), broken: None });
    }
    let broken = match Config::load(config) {
        Ok(config) => return Ok(Located { socket: config.socket, broken: None }),
        Err(e) => e,
    };
    let registered = registry.owners(KIND).into_iter().map(|owner| owner.socket);
    let mut places = registered.chain([PathBuf::from(SOCKET_PATH)]);
    match places.find(|socket| std::os::unix::net::UnixStream::connect(socket).is_ok()) {
        Some(socket) => Ok(Located { socket, broken: Some(broken) }),
        None => Err(broken.into()),
    }
}

/// Returns the folders that may have the last good configuration, the most likely first.
pub fn states() -> Vec<PathBuf> {
    let registered = Registry::here().owners(KIND).into_iter().map(|owner| owner.state);
    registered.chain([PathBuf::from(STATE_FOLDER)]).collect()
}

/// Returns the last configuration that worked for the daemon at `socket`.
pub fn last_good(socket: &Path) -> Option<Config> {
    let owners = Registry::here().owners(KIND);
    let of_socket = owners.iter().filter(|o: &&Owner| o.socket == socket).map(|o| o.state.clone());
    let mut folders = of_socket.chain([PathBuf::from(STATE_FOLDER)]);
    folders.find_map(|folder| last_good_config(&Store::new(&folder)).ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;
    use crate::gateway::rescue;

    /// Both daemons run on one machine, and the router's is the newer one.
    #[test]
    fn an_invalid_configuration_does_not_lead_to_a_routers_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("gateway.toml"), "mode = 7\n").unwrap();
        let sockets = ["gateway.sock", "node.sock"].map(at);
        let _listening = sockets.each_ref().map(|s| UnixListener::bind(s).unwrap());
        let registry = Registry::at(&at("run"), 1);
        let interface = |name: &str| fairmesh_linux::Interface::new(name).unwrap();
        let layout = fairmesh_linux::Layout::new(interface("bat0"), interface("eth0"));
        let node = "interfaces = [\"wlan0\"]\nrouting = \"layer3\"\nmode = \"observe\"\n";
        let node = crate::node::config::Config::parse("node.toml", node).unwrap();
        let claims = [rescue::resources(&layout), crate::node::start::resources(&node)];
        let mut held = Vec::new();
        for (socket, resources) in sockets.iter().zip(&claims) {
            let mut claim = registry.claim(resources, Duration::ZERO).unwrap();
            claim.register(&Owner::new(socket, folder.path())).unwrap();
            held.push(claim);
        }
        let located = daemon_of(&registry, &at("gateway.toml"), None).unwrap();
        assert_eq!(located.socket, sockets[0]);
        assert!(located.broken.unwrap().to_string().contains("mode"));
    }
}
