//! Limits on the traffic to each next hop of a mesh interface.
//!
//! A root HTB has one class for each next hop, an Ethernet address, with `fq_codel` in it if there is one, and a class without limit
//! for all other frames: those to groups and to next hops without a class. This includes relayed frames of a routed
//! mesh, and on a hard interface of batman-adv. Frames that 802.11s forwards pass no queueing discipline.

use std::collections::BTreeMap;

use fairmesh_units::BitRate;

use super::find::{Root, survey};
use super::place::Place;
use super::tree::Port;
use super::{build, find, ids, leaves};
use crate::error::Error;
use crate::link::{self, Link};
use crate::mac::MacAddr;
use crate::netlink::{Batch, Netlink};
use crate::shaper::{Interface, LeafKind, Removed};
use crate::tc::htb::Class;
use crate::tc::stats::{Dumped, Stats};
use crate::tc::{Handle, Head, filter};

/// Major number of the root.
const ROOT_HANDLE: u16 = 0xfa4;
/// Priority of the filter.
const FILTER_PRIO: u16 = 1;

/// Kinds of queues in a class, best first.
const LEAF_KINDS: [LeafKind; 3] = [LeafKind::FqCodel, LeafKind::Sfq, LeafKind::Pfifo];
/// Packets that wait in a class at most, without `fq_codel`.
const QUEUE_PACKETS: u32 = 100;

/// A class of a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hop {
    /// Minor number.
    minor: u16,
    limit: Option<BitRate>,
}

/// Limits by next hop, in the network namespace in which they were installed.
#[derive(Debug)]
pub struct NextHopShaper {
    netlink: Netlink,
    port: Port,
    burst: u32,
    leaf: LeafKind,
    hops: BTreeMap<MacAddr, Hop>,
    /// Classes of next hops that are gone, until their queues are empty.
    retired: Vec<u16>,
}

impl NextHopShaper {
    /// Most next hops with a class.
    pub const MAX: usize = filter::MAX_DESTINATIONS;

    /// Returns the obstacle for which [`NextHopShaper::install`] would refuse.
    ///
    /// Nothing is changed.
    ///
    /// # Errors
    /// The obstacle.
    pub fn check(interface: &Interface) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let link = link::find(&mut netlink, interface.name())?;
        ethernet(&link)?;
        survey(&mut netlink, &link, ROOT_HANDLE).map(drop)
    }

    /// Installs the tree without any next hop; that of an earlier run is replaced.
    ///
    /// `burst`: bytes that a class may send at once, at least those of one millisecond.
    ///
    /// # Errors
    /// Another program's root qdisc (it stays), or missing features. Nothing of ours is left then.
    pub fn install(interface: &Interface, burst: u32) -> Result<Self, Error> {
        NextHopShaper::check(interface)?;
        let mut netlink = Netlink::open()?;
        let link = link::find(&mut netlink, interface.name())?;
        let port = port(&link);
        if find::root(&mut netlink, &link, ROOT_HANDLE)? == Root::Ours {
            build::remove_root(&mut netlink, &port)?;
        }
        let (leaf, hops, retired) = (LEAF_KINDS[0], BTreeMap::new(), Vec::new());
        let mut shaper = NextHopShaper { netlink, port, burst, leaf, hops, retired };
        let built = shaper.build();
        if built.is_err() {
            let _ = build::remove_root(&mut shaper.netlink, &shaper.port);
        }
        built.map(|()| shaper)
    }

    fn build(&mut self) -> Result<(), Error> {
        build::put_root(&mut self.netlink, &self.port)?;
        let mut batch = Batch::new();
        self.port.own(&mut batch, ids::UNMAPPED, 1);
        let refused = self.netlink.apply(&mut batch)?;
        self.port.refused(refused, "adding our classes")?;
        for kind in LEAF_KINDS {
            match leaves::put(&mut self.netlink, &self.port, ids::UNMAPPED, kind, QUEUE_PACKETS) {
                Ok(()) => {
                    self.leaf = kind;
                    return self.classify();
                }
                Err(e) if e.errno() == Some(libc::ENOENT) => {}
                Err(e) => return Err(e),
            }
        }
        Err(Error::Missing {
            what: "any leaf qdisc: fq_codel, sfq or pfifo".into(),
            hint: "modprobe sch_fq_codel".into(),
        })
    }

    /// Kind of the queue in each class: `fq_codel`, or the best that this kernel has.
    pub fn leaf(&self) -> LeafKind {
        self.leaf
    }

    /// Writes the filter for the present next hops; the kernel replaces an earlier one at once.
    fn classify(&mut self) -> Result<(), Error> {
        let class = |hop: &Hop| self.port.class(hop.minor);
        let hops: Vec<_> = self.hops.iter().map(|(mac, hop)| (*mac, class(hop))).collect();
        let what = || format!("adding the filter of next hops on {}", self.port.name);
        let (index, root) = (self.port.index, self.port.root());
        let done =
            self.netlink.change(what, libc::RTM_NEWTFILTER, libc::NLM_F_CREATE as u16, |out| {
                filter::write_destinations(out, index, root, FILTER_PRIO, &hops);
            });
        match done {
            Err(e) if e.errno() == Some(libc::ENOENT) => Err(Error::Missing {
                what: "filters of kind bpf (kernel module cls_bpf)".into(),
                hint: "modprobe cls_bpf; on OpenWrt install kmod-sched-bpf".into(),
            }),
            other => other.map_err(|e| self.port.gone_or(e)),
        }
    }

    /// Sets limits in one batch; `None` lifts a limit. A next hop without a class gets one.
    ///
    /// A limit is of Ethernet frames' bytes. Waiting packets and counters stay.
    ///
    /// # Errors
    /// More than [`NextHopShaper::MAX`] next hops, the tree or the interface is gone, or the kernel's refusal.
    pub fn set_rates(&mut self, limits: &[(MacAddr, Option<BitRate>)]) -> Result<(), Error> {
        let mut batch = Batch::new();
        let mut hops = self.hops.clone();
        let mut retired = self.retired.clone();
        for &(mac, limit) in limits {
            let known = hops.get(&mac).map(|hop| hop.minor);
            let minor = match known {
                Some(minor) => minor,
                None => self.free(&hops, &retired).ok_or_else(|| Error::Missing {
                    what: format!("a class for the next hop {mac}"),
                    hint: format!("{} next hops have one already", NextHopShaper::MAX),
                })?,
            };
            self.port.next_hop(&mut batch, minor, limit, self.burst);
            if known.is_none() {
                self.port.leaf(&mut batch, minor, self.leaf, QUEUE_PACKETS);
                retired.retain(|old| *old != minor);
            }
            hops.insert(mac, Hop { minor, limit });
        }
        let added = hops.len() != self.hops.len();
        let refused = self.netlink.apply(&mut batch)?;
        let what = "changing limits of next hops";
        self.port.refused(refused, what).map_err(|e| self.port.gone_or(e))?;
        (self.hops, self.retired) = (hops, retired);
        if added { self.classify() } else { Ok(()) }
    }

    /// Returns a minor number that is not in use.
    fn free(&self, hops: &BTreeMap<MacAddr, Hop>, retired: &[u16]) -> Option<u16> {
        let taken = |minor: u16| hops.values().any(|hop| hop.minor == minor);
        let most = NextHopShaper::MAX as u16;
        (1..=most).find(|minor| !taken(*minor) && !retired.contains(minor))
    }

    /// Removes a next hop; its class stays without a limit until its queue is empty.
    ///
    /// # Errors
    /// The tree or the interface is gone, or the kernel's refusal.
    pub fn forget(&mut self, next_hop: MacAddr) -> Result<(), Error> {
        let Some(hop) = self.hops.remove(&next_hop) else { return Ok(()) };
        self.classify()?;
        let mut batch = Batch::new();
        self.port.next_hop(&mut batch, hop.minor, None, self.burst);
        let refused = self.netlink.apply(&mut batch)?;
        self.retired.push(hop.minor);
        self.port.refused(refused, "lifting a limit").map_err(|e| self.port.gone_or(e))
    }

    /// Returns the limit of a next hop; the outer `None` if it has no class.
    pub fn limit(&self, next_hop: MacAddr) -> Option<Option<BitRate>> {
        self.hops.get(&next_hop).map(|hop| hop.limit)
    }

    /// Reads the counters of all next hops, in Ethernet frames.
    ///
    /// Classes of removed next hops end here when their queues are empty.
    ///
    /// # Errors
    /// The tree or the interface is gone.
    pub fn sample(&mut self, out: &mut Vec<(MacAddr, Stats)>) -> Result<(), Error> {
        let head = Head::new(self.port.index, Handle::NONE, self.port.root());
        let mut there = BTreeMap::new();
        let read = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload).filter(|d| d.kind == "htb") else { return };
            if let Some(stats) = dumped.stats {
                there.insert(dumped.head.handle, stats);
            }
        };
        let dumped = self.netlink.dump("classes", libc::RTM_GETTCLASS, |out| head.write(out), read);
        dumped.map_err(|e| self.port.gone_or(e))?;
        out.clear();
        for (mac, hop) in &self.hops {
            let stats = there.get(&self.port.class(hop.minor));
            out.push((*mac, *stats.ok_or_else(|| self.port.gone("there is no such class"))?));
        }
        self.end_retired(&there)
    }

    fn end_retired(&mut self, there: &BTreeMap<Handle, Stats>) -> Result<(), Error> {
        let mut batch = Batch::new();
        self.retired.retain(|minor| {
            let class = self.port.class(*minor);
            let waiting = there.get(&class).is_some_and(|stats| stats.queued_packets > 0);
            if !waiting {
                self.port.delete(&mut batch, class);
            }
            waiting
        });
        self.netlink.apply(&mut batch).map(drop)
    }

    /// Lifts all limits that this or another process has set; classes stay.
    ///
    /// # Errors
    /// The kernel's refusal. A missing interface is none.
    pub fn lift(interface: &Interface) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let link = match link::find(&mut netlink, interface.name()) {
            Err(Error::NoInterface(_)) => return Ok(()),
            found => found?,
        };
        if find::root(&mut netlink, &link, ROOT_HANDLE)? != Root::Ours {
            return Ok(());
        }
        let port = port(&link);
        let head = Head::new(port.index, Handle::NONE, port.root());
        let mut batch = Batch::new();
        let read = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload) else { return };
            let minor = dumped.head.handle.minor();
            let limited = Class::read(dumped.options).is_some_and(|c| c.ceil < Class::UNLIMITED);
            if limited && usize::from(minor) <= NextHopShaper::MAX {
                port.next_hop(&mut batch, minor, None, 0);
            }
        };
        netlink.dump("classes", libc::RTM_GETTCLASS, |out| head.write(out), read)?;
        let refused = netlink.apply(&mut batch)?;
        port.refused(refused, "lifting a limit")
    }

    /// Removes what this or another process has installed, and nothing else.
    ///
    /// # Errors
    /// The kernel's refusal. A missing interface is none.
    pub fn remove(interface: &Interface) -> Result<Removed, Error> {
        let mut removed = Removed::default();
        let mut netlink = Netlink::open()?;
        let link = match link::find(&mut netlink, interface.name()) {
            Err(Error::NoInterface(_)) => return Ok(removed),
            found => found?,
        };
        match find::root(&mut netlink, &link, ROOT_HANDLE)? {
            Root::Ours => {
                build::remove_root(&mut netlink, &port(&link))?;
                removed.qdiscs.push(link.name);
            }
            Root::Foreign { kind, handle } => {
                removed.kept.push(format!("{}: {kind} {handle}", link.name));
            }
            Root::Default(_) | Root::Fq => {}
        }
        Ok(removed)
    }
}

fn ethernet(link: &Link) -> Result<(), Error> {
    if link.header > 0 {
        return Ok(());
    }
    Err(Error::Missing {
        what: format!("an Ethernet header on {}", link.name),
        hint: "limit next hops on the interface below it".into(),
    })
}

fn port(link: &Link) -> Port {
    let place = Place { root: Handle::new(ROOT_HANDLE, 0), grouped: false };
    let Link { name, index, mtu, header, .. } = link.clone();
    Port { name, index, place, mtu, header }
}
