//! Places of limits, for everything that must remove them: the start, the guard and `reset`.

use fairmesh_linux::bpf::{FlowMeter, Marker};
use fairmesh_linux::{Error, Interface, LocalPlace, LocalShaper, NextHopShaper, Removed};
use serde::{Deserialize, Serialize};

use super::config::{Config, Routing};
use crate::daemon::guard::Rescue;

/// Places at which a router may have limits, and programs.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct Places {
    /// Classes of local traffic.
    #[serde(rename = "places")]
    pub local: Vec<LocalPlace>,
    /// Interfaces with classes of next hops.
    pub next_hops: Vec<Interface>,
}

impl Places {
    /// Returns the places of a configuration.
    pub fn of(config: &Config) -> Self {
        let next_hops = match config.routing {
            Routing::Hwmp => Vec::new(),
            _ => config.interfaces.clone(),
        };
        Places { local: config.places(), next_hops }
    }

    /// Returns the interfaces, each once.
    pub fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        let local = self.local.iter().map(|p| &p.interface);
        let apart = |i: &&Interface| !self.local.iter().any(|p| p.interface == **i);
        local.chain(self.next_hops.iter().filter(apart))
    }

    /// Adds the places of another run.
    pub fn add(&mut self, other: Places) {
        let Places { local, next_hops } = other;
        self.local
            .extend(local.into_iter().filter(|p| !self.local.contains(p)).collect::<Vec<_>>());
        let new = next_hops.into_iter().filter(|i| !self.next_hops.contains(i));
        self.next_hops.extend(new.collect::<Vec<_>>());
    }

    /// Removes all limits; continues after an error.
    pub fn clear(&self) -> (Removed, Vec<(Interface, Error)>) {
        let (mut removed, mut errors) = (Removed::default(), Vec::new());
        let local = self.local.iter().map(|p| (&p.interface, LocalShaper::remove(p)));
        let next_hops = self.next_hops.iter().map(|i| (i, NextHopShaper::remove(i)));
        for (interface, result) in local.chain(next_hops) {
            match result {
                Ok(some) => removed.add(some),
                Err(e) => errors.push((interface.clone(), e)),
            }
        }
        // Both look at the same root, and each finds that of the other.
        let ours = removed.qdiscs.clone();
        removed.kept.retain(|kept| !ours.iter().any(|q| kept.starts_with(&format!("{q}: "))));
        removed.kept.sort();
        removed.kept.dedup();
        (removed, errors)
    }
}

/// Removes the programs that a process has left on an interface.
///
/// # Errors
/// The kernel's refusal. A missing interface is none.
pub fn remove_programs(interface: &Interface) -> Result<Removed, Error> {
    let mut removed = Marker::remove(interface)?;
    removed.add(FlowMeter::remove(interface)?);
    Ok(removed)
}

impl Rescue for Places {
    type Error = Error;

    fn lift(&mut self) -> Result<(), Error> {
        let local = self.local.iter().map(LocalShaper::lift);
        let next_hops = self.next_hops.iter().map(NextHopShaper::lift);
        local.chain(next_hops).fold(Ok(()), Result::and)
    }

    fn remove(&mut self) -> Result<(), Error> {
        match self.clear().1.into_iter().next() {
            None => Ok(()),
            Some((_, e)) => Err(e),
        }
    }
}
