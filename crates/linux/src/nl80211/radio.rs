//! The radio of an interface, read from the kernel.

use super::{CONTROLLER, FAMILY, MeshPath, Proxied, RadioMode, Station, Survey};
use super::{ask_family, ask_interface, ask_paths, ask_proxied, ask_stations, ask_survey};
use super::{read_family, read_interface, read_path, read_proxied, read_station, read_survey};
use crate::error::Error;
use crate::link;
use crate::netlink::Netlink;

/// Source of a radio's channel times and neighbours.
pub trait Radio {
    /// Returns the channels with their times in ms; the one in use is marked.
    ///
    /// # Errors
    /// Returns an error if the interface is gone, or the driver has no survey.
    fn survey(&mut self) -> Result<Vec<Survey>, Error>;

    /// Returns the stations of the interface with their counters, rates and signals.
    ///
    /// Neighbours of a mesh point without an established peer link are left out.
    ///
    /// # Errors
    /// Returns an error if the interface is gone.
    fn stations(&mut self) -> Result<Vec<Station>, Error>;
}

/// A radio of this machine, read by nl80211.
#[derive(Debug)]
pub struct Nl80211 {
    netlink: Netlink,
    family: u16,
    index: u32,
}

impl Nl80211 {
    /// Opens the radio of an interface in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if there is no such interface, or the kernel has no nl80211.
    pub fn open(interface: &str) -> Result<Self, Error> {
        let index = link::named(interface)?.index;
        let mut netlink = Netlink::generic()?;
        let read = |_, payload: &[u8]| read_family(payload);
        let missing = || Error::Missing {
            what: format!("{FAMILY} (kernel module cfg80211)"),
            hint: format!("{interface} needs a Wi-Fi driver"),
        };
        match netlink.get(FAMILY, CONTROLLER, ask_family, read) {
            Ok(Some(family)) => Ok(Nl80211 { netlink, family, index }),
            Err(e) if e.errno() != Some(libc::ENOENT) => Err(e),
            Ok(None) | Err(_) => Err(missing()),
        }
    }
}

impl Nl80211 {
    /// Returns the mode of the interface; `None` if it is not Wi-Fi.
    ///
    /// # Errors
    /// Returns an error if the kernel does not respond.
    pub fn mode(&mut self) -> Result<Option<RadioMode>, Error> {
        let index = self.index;
        let read = |_, payload: &[u8]| read_interface(payload);
        let asked =
            self.netlink.get("Wi-Fi mode", self.family, |out| ask_interface(out, index), read);
        match asked {
            Err(e) if e.errno().is_some_and(|no| no != libc::EPERM) => Ok(None),
            other => other,
        }
    }

    /// Returns the paths of a mesh point.
    ///
    /// # Errors
    /// Returns an error if the interface is gone, or is not a mesh point.
    pub fn paths(&mut self) -> Result<Vec<MeshPath>, Error> {
        let mut found = Vec::new();
        let (family, index) = (self.family, self.index);
        let each = |_, payload: &[u8]| found.extend(read_path(payload));
        self.netlink.dump("mesh paths", family, |out| ask_paths(out, index), each)?;
        Ok(found)
    }

    /// Returns the addresses that other mesh points forward for.
    ///
    /// # Errors
    /// Returns an error if the interface is gone, or is not a mesh point.
    pub fn proxied(&mut self) -> Result<Vec<Proxied>, Error> {
        let mut found = Vec::new();
        let (family, index) = (self.family, self.index);
        let each = |_, payload: &[u8]| found.extend(read_proxied(payload));
        self.netlink.dump("proxied addresses", family, |out| ask_proxied(out, index), each)?;
        Ok(found)
    }
}

impl Radio for Nl80211 {
    fn survey(&mut self) -> Result<Vec<Survey>, Error> {
        let mut found = Vec::new();
        let (family, index) = (self.family, self.index);
        let each = |_, payload: &[u8]| found.extend(read_survey(payload));
        self.netlink.dump("channels", family, |out| ask_survey(out, index), each)?;
        Ok(found)
    }

    fn stations(&mut self) -> Result<Vec<Station>, Error> {
        let mut found = Vec::new();
        let (family, index) = (self.family, self.index);
        let each = |_, payload: &[u8]| found.extend(read_station(payload).filter(|s| s.peered));
        self.netlink.dump("stations", family, |out| ask_stations(out, index, None), each)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_radio_is_refused_or_has_no_stations() {
        assert!(matches!(Nl80211::open("no-such-radio"), Err(Error::NoInterface(_))));
        match Nl80211::open("lo") {
            Err(e) => assert!(e.to_string().contains(FAMILY), "{e}"),
            Ok(mut radio) => {
                assert!(radio.stations().map_or(true, |s| s.is_empty()));
                assert!(radio.paths().map_or(true, |p| p.is_empty()));
                assert!(radio.proxied().map_or(true, |p| p.is_empty()));
                assert_eq!(radio.mode().unwrap(), None);
            }
        }
    }
}
