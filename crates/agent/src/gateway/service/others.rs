//! The other gateways of the mesh.

use fairmesh_linux::Shaper;

use super::{Gateway, Input};
use crate::gateway::journal::Level;
use crate::gateway::peers::{Change, PeersReport};

impl<P: Shaper> Gateway<P> {
    /// Receives messages of other gateways.
    ///
    /// No error ends the daemon: without messages this gateway governs alone.
    pub(super) fn receive_from_peers(&mut self) {
        let now = self.now();
        let Some((socket, wake)) = &mut self.parts.peers else { return };
        let wake = wake.clone();
        let problem = socket.open(now, move || wake.send(Input::Datagrams));
        let governor = &mut self.host.governor;
        socket.read(now, |datagram| {
            governor.receive(now, datagram.number, datagram.restarted, datagram.body)
        });
        let changes = socket.changes(now);
        if let Some(problem) = problem {
            self.note(Level::Error, "peers.unavailable", || {
                format!("{problem}; this gateway governs alone")
            });
        }
        for change in changes {
            let (level, code, text) = match change {
                Change::Active(n, at) => {
                    (Level::Info, "peer.here", format!("gateway {n} ({at}) is active"))
                }
                Change::Restarted(n, at) => {
                    (Level::Info, "peer.restarted", format!("gateway {n} ({at}) has restarted"))
                }
                Change::TimedOut(n, at) => {
                    (Level::Warning, "peer.silent", format!("gateway {n} ({at}) has timed out"))
                }
                Change::Refused(at, cause) => {
                    let advice = cause.advice().unwrap_or(cause.name());
                    (Level::Warning, "peer.refused", format!("{at}: {advice}"))
                }
                Change::Unsent(at, why) => (Level::Warning, "peer.unsent", format!("{at}: {why}")),
            };
            self.note(level, code, || text);
        }
    }

    /// Sends the control's messages and heartbeats to the other gateways.
    pub(super) fn send_to_peers(&mut self) {
        let now = self.now();
        let messages = self.host.governor.take_messages();
        if let Some((socket, _)) = &mut self.parts.peers {
            socket.send(now, &messages);
        }
    }

    /// Sends the control's orders to the routers of homes.
    pub(super) fn send_orders(&mut self) {
        let Some(key) = &self.config.agents else { return };
        let governor = &mut self.host.governor;
        let mut orders = Vec::new();
        for (home, body) in governor.take_orders() {
            orders.extend(governor.router_of(home).map(|router| (router, body)));
        }
        let name = self.config.mechanism.definition().name.clone();
        if let Some(problem) = self.parts.orders.send(self.at.now, key, &name, &orders) {
            self.note(Level::Error, "agents.unavailable", || {
                format!("{problem}; floods are not limited at their source")
            });
        }
    }

    /// Returns the report of the other gateways.
    pub(super) fn peers_report(&self) -> Option<PeersReport> {
        let (socket, _) = self.parts.peers.as_ref()?;
        let governor = &self.host.governor;
        Some(socket.report(self.now(), governor.governed_by(), governor.exchanges()))
    }
}
