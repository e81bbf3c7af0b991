//! The daemons under test in an emulation, of either kind.

use std::sync::atomic::AtomicBool;

use fairmesh_emulator::{Network, Progress};
use fairmesh_engine::record::RunRecord;

use crate::daemon::Daemon;
use crate::error::TestbedError;
use crate::routers::Routers;

/// Daemons under test in an emulation.
#[derive(Debug)]
pub enum Agent {
    /// The gateway's daemon.
    Gateway(Box<Daemon>),
    /// A daemon at every router.
    Routers(Routers),
}

impl Agent {
    pub(crate) fn enter(&mut self, network: &Network, stop: &AtomicBool) {
        match self {
            Agent::Gateway(daemon) => daemon.enter(network, stop),
            Agent::Routers(routers) => routers.enter(network, stop),
        }
    }

    pub(crate) fn watch(&mut self, p: &Progress) {
        match self {
            Agent::Gateway(daemon) => daemon.watch(p),
            Agent::Routers(routers) => routers.watch(p),
        }
    }

    pub(crate) fn finish(self, record: &mut RunRecord) -> Result<(), TestbedError> {
        match self {
            Agent::Gateway(daemon) => daemon.finish(record),
            Agent::Routers(routers) => routers.finish(record),
        }
    }
}
