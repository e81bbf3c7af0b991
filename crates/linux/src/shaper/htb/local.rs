//! Limit on the traffic that a mesh router itself sends into the mesh.
//!
//! A root HTB on one interface has two classes: local traffic, with the limit, and all else. On a batman-adv interface
//! and on an 802.11s mesh point forwarded frames do not pass the queueing discipline, so all packets are local. On a
//! routed mesh a rule of nftables gives packets between mesh interfaces, and those of routing protocols, the class
//! without limit. Flows of local traffic can have classes of their own, by the priority of their packets
//! ([`crate::bpf::FlowMeter::assign`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fairmesh_units::BitRate;
use serde::{Deserialize, Serialize};

use super::find::{Root, survey};
use super::place::Place;
use super::tree::Port;
use super::{build, find, ids, leaves};
use crate::error::Error;
use crate::link::{self, Link};
use crate::netlink::{Batch, Netlink};
use crate::nft::alive::{self, NFPROTO_INET, RuleSet};
use crate::nft::{self, MARKER_CHAIN, run::Table};
use crate::shaper::{Interface, LeafKind, Removed};
use crate::tc::htb::Class;
use crate::tc::stats::{Dumped, Stats};
use crate::tc::{Handle, Head};

/// Major number of the root.
const ROOT_HANDLE: u16 = 0xfa2;
/// Name of the table, if there is one.
const TABLE_NAME: &str = "fairmesh-node";
/// Ports of routing protocols: OLSR, Babel.
const ROUTING_PORTS: &str = "698, 6696";
/// Most packets in the class without limit.
const UNLIMITED_QUEUE_PACKETS: u32 = 1000;

/// Priority (`SO_PRIORITY`) of packets that take no part in the limit.
pub const UNLIMITED_PRIORITY: u32 = Handle::new(ROOT_HANDLE, ids::BYPASS).0;

/// Place of a limit on local traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalPlace {
    /// Interface over which the traffic leaves.
    pub interface: Interface,
    /// All mesh interfaces of a routed mesh.
    ///
    /// Empty if forwarded frames do not pass the queueing discipline.
    pub routed: Vec<Interface>,
}

/// A limit on local traffic, in the network namespace in which it was installed.
#[derive(Debug)]
pub struct LocalShaper {
    netlink: Netlink,
    port: Port,
    burst: u32,
    /// Rules of a routed mesh.
    rules: Option<Rules>,
    /// Numbers of the flows with a class.
    flows: BTreeSet<u16>,
}

/// Our rules as they were installed, to find changes by other programs.
#[derive(Debug)]
struct Rules {
    netfilter: Netlink,
    generation: Option<u32>,
    set: RuleSet,
}

impl Rules {
    fn new() -> Result<Self, Error> {
        let mut netfilter = Netlink::netfilter()?;
        let generation = alive::generation(&mut netfilter)?;
        let set = alive::rules(&mut netfilter, &[NFPROTO_INET], TABLE_NAME)?;
        Ok(Rules { netfilter, generation, set })
    }

    fn verify(&mut self) -> Result<(), Error> {
        let generation = alive::generation(&mut self.netfilter)?;
        if generation.is_some() && generation == self.generation {
            return Ok(());
        }
        let dormant = alive::dormant(&mut self.netfilter, NFPROTO_INET, TABLE_NAME)?;
        if dormant || alive::rules(&mut self.netfilter, &[NFPROTO_INET], TABLE_NAME)? != self.set {
            return Err(Error::RulesGone { table: TABLE_NAME.to_owned() });
        }
        self.generation = generation;
        Ok(())
    }
}

impl LocalShaper {
    /// Most flows with a class; their numbers are 1 to this one.
    pub const MAX_FLOWS: u16 = 1024;

    /// Returns the obstacle for which [`LocalShaper::install`] would refuse; changes nothing.
    ///
    /// # Errors
    /// The obstacle.
    pub fn check(place: &LocalPlace) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let link = link::find(&mut netlink, place.interface.name())?;
        survey(&mut netlink, &link, ROOT_HANDLE)?;
        if place.routed.is_empty() {
            return Ok(());
        }
        match nft::run::table("inet", TABLE_NAME)? {
            Table::Foreign => Err(Error::ForeignTable { table: TABLE_NAME.to_owned() }),
            Table::Absent | Table::Ours => nft::run::check(&rules(place)),
        }
    }

    /// Installs the classes without a limit; those of an earlier run are replaced.
    ///
    /// `packets`: longest queue, in packets as large as the MTU; `burst`: in bytes.
    ///
    /// # Errors
    /// Another program's root qdisc or table (they stay), or missing features. Nothing of ours is left then.
    pub fn install(place: &LocalPlace, packets: u32, burst: u32) -> Result<Self, Error> {
        LocalShaper::check(place)?;
        let mut netlink = Netlink::open()?;
        let link = link::find(&mut netlink, place.interface.name())?;
        let port = port(&link);
        if find::root(&mut netlink, &link, ROOT_HANDLE)? == Root::Ours {
            build::remove_root(&mut netlink, &port)?;
        }
        let flows = BTreeSet::new();
        let mut shaper = LocalShaper { netlink, port, burst, rules: None, flows };
        let built = shaper.build(place, packets);
        if built.is_err() {
            let _ = LocalShaper::remove(place);
        }
        built.map(|()| shaper)
    }

    /// Serves the flows of local traffic in turn, with at most `packets` in all queues.
    ///
    /// Where the kernel has no `fq_codel` they share one queue.
    ///
    /// # Errors
    /// The class or the interface is gone.
    pub fn serve_in_turn(&mut self, packets: u32) -> Result<(), Error> {
        let (netlink, port) = (&mut self.netlink, &self.port);
        match leaves::put(netlink, port, ids::UNMAPPED, LeafKind::FqCodel, packets) {
            Err(e) if e.errno() == Some(libc::ENOENT) => Ok(()),
            other => other.map_err(|e| port.gone_or(e)),
        }
    }

    fn build(&mut self, place: &LocalPlace, packets: u32) -> Result<(), Error> {
        let (netlink, port) = (&mut self.netlink, &self.port);
        build::put_root(netlink, port)?;
        let mut batch = Batch::new();
        port.local(&mut batch, None, self.burst);
        port.own(&mut batch, ids::BYPASS, 0);
        port.leaf(&mut batch, ids::BYPASS, LeafKind::Pfifo, UNLIMITED_QUEUE_PACKETS);
        let refused = netlink.apply(&mut batch)?;
        port.refused(refused, "adding our classes")?;
        leaves::put_splitting(netlink, port, ids::UNMAPPED, packets)?;
        // Without the filter ARP is local traffic.
        port.bypass_frames(netlink)?;
        if !place.routed.is_empty() {
            nft::run::apply(&rules(place))?;
            self.rules = Some(Rules::new()?);
        }
        Ok(())
    }

    /// Changes the limit in place; `None` lifts it.
    ///
    /// The rate is of IP bytes in packets as large as the interface's MTU.
    ///
    /// # Errors
    /// The class or the interface is gone, or the kernel's refusal.
    pub fn set_rate(&mut self, rate: Option<BitRate>) -> Result<(), Error> {
        let mut batch = Batch::new();
        self.port.local(&mut batch, rate.map(|r| self.frames(r)), self.burst);
        let refused = self.netlink.apply(&mut batch)?;
        self.port.refused(refused, "changing the limit").map_err(|e| self.port.gone_or(e))
    }

    /// Returns the rate of frames as large as the MTU, of which the IP bytes have this rate.
    fn frames(&self, rate: BitRate) -> BitRate {
        let (mtu, header) = (u128::from(self.port.mtu.max(1)), u128::from(self.port.header));
        let bits = u128::from(rate.0) * (mtu + header) / mtu;
        BitRate(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Adds or changes the class of a flow, with a queue of `packets`; `None`: without limit.
    ///
    /// Returns the priority that gives a packet this class.
    ///
    /// # Errors
    /// A number beyond [`LocalShaper::MAX_FLOWS`], the tree or the interface is gone, or the kernel's refusal.
    pub fn set_flow(
        &mut self,
        number: u16,
        rate: Option<BitRate>,
        packets: u32,
    ) -> Result<u32, Error> {
        if number == 0 || number > LocalShaper::MAX_FLOWS {
            return Err(Error::Missing {
                what: format!("class {number} of a flow on {}", self.port.name),
                hint: format!("at most {} flows have one", LocalShaper::MAX_FLOWS),
            });
        }
        let mut batch = Batch::new();
        self.port.next_hop(&mut batch, number, rate.map(|r| self.frames(r)), self.burst);
        let refused = self.netlink.apply(&mut batch)?;
        let what = "changing a flow's limit";
        self.port.refused(refused, what).map_err(|e| self.port.gone_or(e))?;
        if !self.flows.contains(&number) {
            leaves::put_splitting(&mut self.netlink, &self.port, number, packets)
                .map_err(|e| self.port.gone_or(e))?;
        }
        self.flows.insert(number);
        Ok(self.port.class(number).0)
    }

    /// Removes the class of a flow, with the packets that wait in it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove_flow(&mut self, number: u16) -> Result<(), Error> {
        if !self.flows.remove(&number) {
            return Ok(());
        }
        let mut batch = Batch::new();
        self.port.delete(&mut batch, self.port.class(number));
        let refused = self.netlink.apply(&mut batch)?;
        self.port.refused(refused, "removing a flow's class").map_err(|e| self.port.gone_or(e))
    }

    /// Reads the counters of all flows with a class, as frames.
    ///
    /// # Errors
    /// A class or the interface is gone.
    pub fn sample_flows(&mut self) -> Result<Vec<(u16, Stats)>, Error> {
        let head = Head::new(self.port.index, Handle::NONE, self.port.root());
        let mut there = BTreeMap::new();
        let read = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload).filter(|d| d.kind == "htb") else { return };
            if let Some(stats) = dumped.stats {
                there.insert(dumped.head.handle.minor(), stats);
            }
        };
        let dumped = self.netlink.dump("classes", libc::RTM_GETTCLASS, |out| head.write(out), read);
        dumped.map_err(|e| self.port.gone_or(e))?;
        let stats = |n: &u16| {
            there.get(n).map(|s| (*n, *s)).ok_or_else(|| self.port.gone("a flow's class is gone"))
        };
        self.flows.iter().map(stats).collect()
    }

    /// Reads the counters of local traffic, as frames.
    ///
    /// # Errors
    /// The class or the interface is gone, or another program has changed our rules: forwarded packets get the limit.
    pub fn sample(&mut self) -> Result<Stats, Error> {
        let head = Head::new(self.port.index, self.port.class(ids::UNMAPPED), Handle::NONE);
        let read = |_, payload: &[u8]| {
            let dumped = Dumped::read(payload)?;
            dumped.stats.filter(|_| dumped.kind == "htb")
        };
        let kind = libc::RTM_GETTCLASS;
        match self.netlink.get("a class", kind, |out| head.write(out), read) {
            Ok(Some(stats)) => self.rules.as_mut().map_or(Ok(()), Rules::verify).map(|()| stats),
            Ok(None) => Err(self.port.gone("there is no such class")),
            Err(e) => Err(self.port.gone_or(e)),
        }
    }

    /// Bytes of the link's header, which the counters include for every packet.
    pub fn header(&self) -> u16 {
        self.port.header
    }

    /// Lifts the limit that this or another process has set; classes stay.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn lift(place: &LocalPlace) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let link = match link::find(&mut netlink, place.interface.name()) {
            Err(Error::NoInterface(_)) => return Ok(()),
            found => found?,
        };
        if find::root(&mut netlink, &link, ROOT_HANDLE)? != Root::Ours {
            return Ok(());
        }
        let port = port(&link);
        let mut batch = Batch::new();
        port.local(&mut batch, None, 0);
        let head = Head::new(port.index, Handle::NONE, port.root());
        let read = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload) else { return };
            let minor = dumped.head.handle.minor();
            let limited = Class::read(dumped.options).is_some_and(|c| c.ceil < Class::UNLIMITED);
            if limited && minor <= LocalShaper::MAX_FLOWS {
                port.next_hop(&mut batch, minor, None, 0);
            }
        };
        netlink.dump("classes", libc::RTM_GETTCLASS, |out| head.write(out), read)?;
        let refused = netlink.apply(&mut batch)?;
        port.refused(refused, "lifting the limit")
    }

    /// Removes what this or another process has installed, and nothing else.
    ///
    /// # Errors
    /// The kernel's refusal; as much as possible is removed then.
    pub fn remove(place: &LocalPlace) -> Result<Removed, Error> {
        let mut removed = Removed::default();
        let mut netlink = Netlink::open()?;
        let qdisc = match link::find(&mut netlink, place.interface.name()) {
            Err(Error::NoInterface(_)) => Ok(()),
            Err(e) => Err(e),
            Ok(link) => match find::root(&mut netlink, &link, ROOT_HANDLE) {
                Ok(Root::Ours) => build::remove_root(&mut netlink, &port(&link)).map(|()| {
                    removed.qdiscs.push(link.name);
                }),
                Ok(Root::Foreign { kind, handle }) => {
                    removed.kept.push(format!("{}: {kind} {handle}", link.name));
                    Ok(())
                }
                Ok(Root::Default(_) | Root::Fq) => Ok(()),
                Err(e) => Err(e),
            },
        };
        let table = if place.routed.is_empty() { Ok(()) } else { remove_table(&mut removed) };
        qdisc.and(table).map(|()| removed)
    }
}

fn remove_table(removed: &mut Removed) -> Result<(), Error> {
    match nft::run::table("inet", TABLE_NAME) {
        Ok(Table::Ours) => {
            nft::run::apply(&format!("delete table inet {TABLE_NAME}\n"))?;
            removed.tables.push(format!("inet {TABLE_NAME}"));
        }
        Ok(Table::Foreign) => removed.kept.push(format!("table inet {TABLE_NAME}: not ours")),
        // Without nft there is no table of ours.
        Ok(Table::Absent) | Err(Error::Missing { .. }) => {}
        Err(e) => return Err(e),
    }
    Ok(())
}

fn port(link: &Link) -> Port {
    let place = Place { root: Handle::new(ROOT_HANDLE, 0), grouped: false };
    let Link { name, index, mtu, header, .. } = link.clone();
    Port { name, index, place, mtu, header }
}

/// Returns the script that makes our table, in place of one of an earlier run.
fn rules(place: &LocalPlace) -> String {
    let names = |all: &[Interface]| {
        all.iter().map(|i| format!("\"{}\"", i.name())).collect::<Vec<_>>().join(", ")
    };
    let (out, meshes) = (place.interface.name(), names(&place.routed));
    let free = Handle::new(ROOT_HANDLE, ids::BYPASS);
    let mut text = format!("add table inet {TABLE_NAME}\ndelete table inet {TABLE_NAME}\n");
    let _ = write!(
        text,
        "table inet {TABLE_NAME} {{\n chain {MARKER_CHAIN} {{\n  type filter hook forward priority mangle; policy accept;\n  \
         oifname \"{out}\" iifname {{ {meshes} }} meta priority set {free}\n }}\n \
         chain output {{\n  type filter hook output priority mangle; policy accept;\n  \
         oifname \"{out}\" udp dport {{ {ROUTING_PORTS} }} meta priority set {free}\n }}\n}}\n"
    );
    text
}
