//! Interfaces: their properties, counters and events.

mod offload;
pub mod route;

pub use offload::{Offloads, offloads};

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::{Emitable, Parseable};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
    State, VlanFlags,
};
use serde::Serialize;

use crate::error::Error;
use crate::mac::MacAddr;
use crate::netlink::Netlink;

/// `RTNLGRP_LINK`.
const GROUP_LINK: u32 = 1;
/// Bytes of an IEEE 802.1Q tag.
const VLAN_TAG: u16 = 4;

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Link {
    /// The kernel's index; a new one if the interface is created again.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Kind of a virtual interface (`veth`, `bridge`, `batadv`, `tun`, …).
    pub kind: Option<String>,
    /// Ethernet address; `None` if frames have none.
    pub mac: Option<MacAddr>,
    /// Bytes of the link's header that queueing disciplines count.
    ///
    /// None if packets have no link header, as on TUN and PPP interfaces; for a VLAN the tag only if the interface
    /// itself writes it.
    pub header: u16,
    /// True if the interface interprets packet priorities itself (a VLAN's `egress-qos-map`).
    pub maps_priorities: bool,
    /// True if the interface is administratively up, with carrier if the driver reports carriers.
    pub up: bool,
    /// Largest packet in bytes.
    pub mtu: u32,
    /// Interface of which this one is a port (bridge, batman-adv).
    pub controller: Option<u32>,
    /// The driver's counters.
    pub counters: LinkCounters,
}

/// Counters of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LinkCounters {
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets not sent.
    pub tx_dropped: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
}

impl Link {
    /// Reads the payload of a link message.
    pub fn read(payload: &[u8]) -> Option<Link> {
        let message = LinkMessage::parse(payload).ok()?;
        let flags = message.header.flags;
        let mut link = Link {
            index: message.header.index,
            name: String::new(),
            kind: None,
            mac: None,
            header: if message.header.link_layer_type == LinkLayerType::Ether { 14 } else { 0 },
            maps_priorities: false,
            up: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::Running),
            mtu: 0,
            controller: None,
            counters: LinkCounters::default(),
        };
        let ethernet = message.header.link_layer_type == LinkLayerType::Ether;
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) if ethernet => {
                    link.mac = bytes.try_into().ok().map(MacAddr);
                }
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Controller(index) => link.controller = Some(index),
                LinkAttribute::OperState(State::Down | State::LowerLayerDown) => link.up = false,
                LinkAttribute::LinkInfo(infos) => {
                    link.vlan(&infos);
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(InfoKind::Other(kind)) => Some(kind.clone()),
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                LinkAttribute::Stats64(s) => {
                    link.counters = LinkCounters {
                        tx_bytes: s.tx_bytes,
                        tx_packets: s.tx_packets,
                        tx_dropped: s.tx_dropped,
                        rx_bytes: s.rx_bytes,
                        rx_packets: s.rx_packets,
                    };
                }
                _ => {}
            }
        }
        Some(link)
    }
}

impl Link {
    /// Reads the attributes of a VLAN.
    fn vlan(&mut self, infos: &[LinkInfo]) {
        for info in infos {
            let LinkInfo::Data(InfoData::Vlan(infos)) = info else { continue };
            for info in infos {
                match info {
                    // Otherwise the driver below or the kernel inserts the tag, after the queueing discipline.
                    InfoVlan::Flags((flags, _)) if !flags.contains(VlanFlags::ReorderHdr) => {
                        self.header += VLAN_TAG;
                    }
                    InfoVlan::EgressQos(map) => self.maps_priorities |= !map.is_empty(),
                    _ => {}
                }
            }
        }
    }
}

/// Finds an interface by name.
///
/// # Errors
/// Returns an error if there is none, or the kernel does not respond.
pub fn find(netlink: &mut Netlink, name: &str) -> Result<Link, Error> {
    let mut question = LinkMessage::default();
    question.attributes.push(LinkAttribute::IfName(name.to_owned()));
    one(netlink, &question, name)
}

/// Finds an interface of the calling thread's network namespace by name.
///
/// `/sys` is not used: it shows the namespace of the process that mounted it.
///
/// # Errors
/// Returns an error if there is none, or the kernel does not respond.
pub fn named(name: &str) -> Result<Link, Error> {
    find(&mut Netlink::open()?, name)
}

/// Finds an interface by index.
///
/// # Errors
/// Returns an error if there is none, or the kernel does not respond.
pub fn by_index(netlink: &mut Netlink, index: u32, name: &str) -> Result<Link, Error> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    one(netlink, &question, name)
}

fn one(netlink: &mut Netlink, question: &LinkMessage, name: &str) -> Result<Link, Error> {
    let read = |_, payload: &[u8]| Link::read(payload);
    let answer = netlink.get("the interface", libc::RTM_GETLINK, |out| emit(question, out), read);
    match answer {
        Ok(Some(link)) => Ok(link),
        Ok(None) => Err(Error::NoInterface(name.to_owned())),
        Err(e) if matches!(e.errno(), Some(libc::ENODEV | libc::EINVAL)) => {
            Err(Error::NoInterface(name.to_owned()))
        }
        Err(e) => Err(e),
    }
}

/// Returns all interfaces.
///
/// # Errors
/// Returns an error if the kernel does not respond.
pub fn all(netlink: &mut Netlink) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    let question = LinkMessage::default();
    netlink.dump(
        "interfaces",
        libc::RTM_GETLINK,
        |out| emit(&question, out),
        |_, payload| {
            links.extend(Link::read(payload));
        },
    )?;
    Ok(links)
}

fn emit(message: &LinkMessage, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + message.buffer_len(), 0);
    message.emit(&mut out[start..]);
}

/// An event of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// The interface appeared, or one of its properties changed.
    Changed(Link),
    /// The interface is gone.
    Gone(Link),
    /// Events were lost: all interfaces must be read again.
    Overrun,
}

/// Event source for interfaces of the network namespace in which it was opened.
///
/// Readable (`AsFd`) when there is an event.
#[derive(Debug)]
pub struct LinkEvents {
    netlink: Netlink,
}

impl LinkEvents {
    /// Opens the event source.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn open() -> Result<Self, Error> {
        Ok(LinkEvents { netlink: Netlink::with_groups(&[GROUP_LINK])? })
    }

    /// Returns the events since the last call, without waiting.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn read(&mut self) -> Result<Vec<LinkEvent>, Error> {
        let mut events = Vec::new();
        let complete = self.netlink.read_events(|kind, payload| {
            let Some(link) = Link::read(payload) else { return };
            match kind {
                libc::RTM_NEWLINK => events.push(LinkEvent::Changed(link)),
                libc::RTM_DELLINK => events.push(LinkEvent::Gone(link)),
                _ => {}
            }
        })?;
        if !complete {
            events.push(LinkEvent::Overrun);
        }
        Ok(events)
    }
}

impl AsRawFd for LinkEvents {
    fn as_raw_fd(&self) -> RawFd {
        self.netlink.as_raw_fd()
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::VlanQosMapping;

    use super::*;

    /// Returns a VLAN as the kernel shows it.
    fn vlan(flags: VlanFlags, map: Vec<VlanQosMapping>) -> Link {
        let mut message = LinkMessage::default();
        message.header.link_layer_type = LinkLayerType::Ether;
        message.attributes.push(LinkAttribute::IfName("wan.7".into()));
        let data = vec![
            InfoVlan::Id(7),
            InfoVlan::Flags((flags, VlanFlags::all())),
            InfoVlan::EgressQos(map),
        ];
        let info = vec![LinkInfo::Kind(InfoKind::Vlan), LinkInfo::Data(InfoData::Vlan(data))];
        message.attributes.push(LinkAttribute::LinkInfo(info));
        let mut bytes = Vec::new();
        emit(&message, &mut bytes);
        Link::read(&bytes).unwrap()
    }

    #[test]
    fn a_vlan_counts_its_tag_only_where_it_writes_it() {
        let link = vlan(VlanFlags::ReorderHdr, Vec::new());
        assert_eq!((link.header, link.maps_priorities), (14, false));
        assert_eq!(link.kind.as_deref(), Some("vlan"));
        let link = vlan(VlanFlags::empty(), vec![VlanQosMapping::Mapping(6, 6)]);
        assert_eq!((link.header, link.maps_priorities), (18, true));
    }

    /// PPP over Ethernet: packets have no link header until they are below the queue.
    #[test]
    fn packets_travel_bare_on_ppp_and_tun() {
        for kind in [LinkLayerType::Ppp, LinkLayerType::None, LinkLayerType::Rawip] {
            let mut message = LinkMessage::default();
            message.header.link_layer_type = kind;
            let mut bytes = Vec::new();
            emit(&message, &mut bytes);
            assert_eq!(Link::read(&bytes).unwrap().header, 0, "{kind:?}");
        }
    }
}
