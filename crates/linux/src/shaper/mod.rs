//! Enforcement and counters on the two interfaces of a gateway.
//!
//! Downstream traffic is shaped where it enters the mesh, by destination; upstream traffic where it leaves towards the
//! wire, by source as the mesh knows it (before any address translation). Every subscriber has one class in each
//! direction; unmapped traffic has a class without a limit.

mod airtime;
mod choice;
mod edt;
mod htb;
pub(crate) mod ids;
pub(crate) mod layout;
mod rules;
pub(crate) mod slot;

pub use airtime::{AirtimeSample, AirtimeShares};
pub use choice::GatewayShaper;
pub use edt::EdtShaper;
pub use htb::HtbShaper;
pub use htb::local::{LocalPlace, LocalShaper, UNLIMITED_PRIORITY};
pub use htb::next_hops::NextHopShaper;
pub(crate) use htb::place::Place;
pub use layout::{
    Bypass, Interface, Layout, LayoutError, LeafChoice, LeafKind, ShaperChoice, ShaperKind,
    Subscriber,
};
pub use slot::{ClassId, Direction, Side, Slot};

use std::fmt;

use fairmesh_units::BitRate;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A new limit. It replaces the old one in place: packets waiting in the class stay there.
///
/// Limits count bytes of Ethernet frames, as the kernel's queueing disciplines do (14 more than the IP packet on
/// Ethernet, none more on a TUN interface).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RateChange {
    /// Class and direction.
    pub slot: Slot,
    /// Limit; `None`: unlimited.
    pub rate: Option<BitRate>,
}

/// Counters of a class since its creation.
///
/// They only grow, unless the class is created again (interface lost, reboot).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClassCounters {
    /// Class and direction.
    pub slot: Slot,
    /// Bytes sent (Ethernet frames).
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that found the class's queue full. Later drops of an AQM are in its own counters.
    pub drops: u64,
    /// Times that the class had to wait for its limit.
    pub overlimits: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Bytes waiting.
    pub backlog_bytes: u64,
}

/// Counters of one interface and of its shaping, for comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Name.
    pub name: String,
    /// The kernel's index.
    pub index: u32,
    /// True if it is administratively up and has carrier.
    pub up: bool,
    /// Bytes sent by the driver.
    pub tx_bytes: u64,
    /// Packets sent by the driver.
    pub tx_packets: u64,
    /// Packets that the driver gave up.
    pub tx_dropped: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes that passed our root qdisc.
    pub shaped_bytes: u64,
    /// Packets that passed our root qdisc.
    pub shaped_packets: u64,
    /// Packets that all our qdiscs dropped.
    pub shaped_drops: u64,
    /// Bytes of the subscribers' classes together.
    pub subscriber_bytes: u64,
    /// Packets of the subscribers' classes together.
    pub subscriber_packets: u64,
    /// Bytes of unmapped traffic.
    pub unmapped_bytes: u64,
    /// Packets of unmapped traffic.
    pub unmapped_packets: u64,
    /// Bytes of routing and management traffic.
    pub bypass_bytes: u64,
    /// Packets of routing and management traffic.
    pub bypass_packets: u64,
    /// Packets that nftables gave to a subscriber's class on this interface.
    pub classified_packets: u64,
    /// IPv6 packets of unmapped traffic that nftables saw on this interface.
    pub unmapped_ipv6_packets: u64,
}

/// Bytes that an interface has sent, as frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SentCounters {
    /// Total of the driver.
    pub bytes: u64,
    /// Unmapped traffic.
    pub unmapped: u64,
    /// Routing and management traffic.
    pub bypass: u64,
}

/// Field of a packet that carries the class to HTB.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Classifier {
    /// The packet's priority, which HTB reads itself.
    Priority,
    /// The packet's mark, read by a `fw` filter.
    MarkFw,
    /// The packet's mark, read by a two-instruction BPF filter.
    MarkBpf,
}

impl fmt::Display for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Classifier::Priority => "priority",
            Classifier::MarkFw => "mark (fw)",
            Classifier::MarkBpf => "mark (bpf)",
        })
    }
}

/// Features of this kernel and system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Features {
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Version of `nft`, if there is one.
    pub nft: Option<String>,
    /// Available leaf disciplines, best first.
    ///
    /// Empty if they could not be tried beforehand; the installation then finds the best one that works.
    pub leaves: Vec<LeafKind>,
    /// True if HTB is available; `None` if it could not be tried beforehand.
    pub htb: Option<bool>,
    /// Available classifiers.
    ///
    /// [`Classifier::Priority`] needs nothing but HTB, yet some Wi-Fi drivers overwrite the priority: the installation
    /// tests which one works on the interface.
    pub classifiers: Vec<Classifier>,
    /// True if ARP and other frames without IP can be recognised (`u32` or `bpf` filter).
    pub bypass_filter: bool,
    /// True if nftables can process frames on egress of an interface.
    ///
    /// Classifying downstream by Ethernet address needs this netdev egress hook (Linux 5.16).
    pub egress_hook: bool,
    /// Flow tables with traffic that bypasses the shaping, as `family table/name`.
    pub flowtables: Vec<String>,
}

/// Result of [`Shaper::install`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// Kind of the data plane.
    pub shaper: ShaperKind,
    /// Queueing discipline in every class.
    pub leaf: LeafKind,
    /// Classifiers downstream and upstream; each was tested with packets of our own.
    pub classifier: [Classifier; 2],
    /// True if objects of an earlier run were taken over.
    pub adopted: bool,
    /// Classes of an earlier run that are no longer needed.
    pub swept: usize,
    /// Link's header downstream and upstream, bytes; limits count it and IP does not.
    pub headers: [u16; 2],
    /// Default queueing disciplines that were replaced, as `interface: kind`.
    ///
    /// The kernel restores them when ours are removed.
    pub replaced: Vec<String>,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

/// Result of [`Shaper::relayout`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RelayoutResult {
    /// Added subscribers.
    pub added: usize,
    /// Removed subscribers. Their classes are unlimited until their queues are empty.
    pub removed: usize,
    /// Subscribers whose addresses changed.
    pub changed: usize,
}

/// Result of [`Shaper::remove`].
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Removed {
    /// Interfaces from which our qdisc was removed.
    pub qdiscs: Vec<String>,
    /// Removed tables.
    pub tables: Vec<String>,
    /// Objects of other programs, which stay.
    pub kept: Vec<String>,
}

impl Removed {
    /// Adds the result of another removal.
    pub fn add(&mut self, other: Removed) {
        self.qdiscs.extend(other.qdiscs);
        self.tables.extend(other.tables);
        self.kept.extend(other.kept);
    }
}

/// Check that packets reach their classes, since the last call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verification {
    /// Direction.
    pub direction: Direction,
    /// Packets that nftables gave to subscribers' classes.
    pub classified: u64,
    /// Packets that arrived in these classes (sent, waiting or dropped).
    pub arrived: u64,
    /// False if most of them did not arrive.
    pub holds: bool,
    /// Classifier in force from now on (another one, if the previous one did not work).
    pub classifier: Classifier,
}

/// A difference between a data plane's configured and actual behaviour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deviation {
    /// Another program changed limits; they were restored.
    Limits {
        /// Direction of the classes.
        direction: Direction,
        /// Number of classes.
        classes: usize,
    },
    /// An interface is a port of a bridge or a bond.
    ///
    /// Routed packets leave through that one unclassified.
    Port {
        /// The interface.
        interface: String,
        /// The interface that it is a port of.
        controller: String,
    },
    /// The driver sends packets that did not pass our queueing discipline.
    Bypassed {
        /// Direction of the packets.
        direction: Direction,
        /// Bytes that the driver sent.
        sent: u64,
        /// Bytes that passed the queueing discipline.
        shaped: u64,
    },
    /// A rule or filter of another program moves packets into or out of a subscriber's class.
    Foreign {
        /// The rule or filter and its parent.
        by: String,
        /// Class that it gives; `None` for a priority or mark that is not a class.
        class: Option<String>,
        /// Command that lists it.
        list: String,
    },
    /// A rule or filter of another program with a computed value may change packets' classes.
    Unverified {
        /// The rule or filter and its parent.
        by: String,
        /// Command that lists it.
        list: String,
    },
    /// Packets that were given a subscriber's class did not arrive there.
    Misrouted {
        /// Direction of the packets.
        direction: Direction,
        /// Packets that were given a class.
        classified: u64,
        /// Packets that arrived in classes.
        arrived: u64,
        /// Classifier in force from now on, if it was replaced.
        replaced_by: Option<Classifier>,
    },
}

impl Deviation {
    /// Returns the name of the kind, for events.
    pub const fn code(&self) -> &'static str {
        match self {
            Deviation::Limits { .. } => "limits.changed",
            Deviation::Port { .. } => "interface.port",
            Deviation::Bypassed { .. } => "traffic.bypasses",
            Deviation::Foreign { .. } => "classifier.foreign",
            Deviation::Unverified { .. } => "classifier.unverified",
            Deviation::Misrouted { .. } => "classifier.failed",
        }
    }

    /// Returns true if limits work again after the call that found it.
    pub const fn is_repaired(&self) -> bool {
        match self {
            Deviation::Limits { .. } => true,
            Deviation::Misrouted { replaced_by, .. } => replaced_by.is_some(),
            Deviation::Port { .. }
            | Deviation::Bypassed { .. }
            | Deviation::Foreign { .. }
            | Deviation::Unverified { .. } => false,
        }
    }

    /// Returns true if limits are known not to work as configured.
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Deviation::Unverified { .. })
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deviation::Limits { direction, classes } => write!(
                f,
                "{direction}: another program changed the rates of {classes} classes; they were set again"
            ),
            Deviation::Port { interface, controller } => write!(
                f,
                "{interface} is a port of {controller}: routed packets leave through {controller} and \
                 are not limited; shape {controller}, or take {interface} out of it"
            ),
            Deviation::Bypassed { direction, sent, shaped } => write!(
                f,
                "{direction}: the interface sent {sent} bytes, of which {shaped} passed the limits; \
                 look for offloads and redirections past the queueing discipline"
            ),
            Deviation::Foreign { by, class: Some(class), list } => write!(
                f,
                "{by} of another program moves packets of all subscribers into class {class}; \
                 remove it ({list})"
            ),
            Deviation::Foreign { by, class: None, list } => write!(
                f,
                "{by} of another program takes packets out of the class of their subscriber; remove it ({list})"
            ),
            Deviation::Unverified { by, list } => write!(
                f,
                "{by} of another program may change the class of packets, which cannot be verified ({list})"
            ),
            Deviation::Misrouted { direction, classified, arrived, replaced_by } => {
                write!(
                    f,
                    "{direction}: only {arrived} of {classified} classified packets reached their class, because \
                     another program sets their priority or mark (nft list ruleset)"
                )?;
                match replaced_by {
                    Some(to) => write!(f, "; packets are now classified by {to}"),
                    None => f.write_str("; no other classifier is available"),
                }
            }
        }
    }
}

/// Note for subscribers with Ethernet addresses on old kernels.
const NO_EGRESS_HOOK: &str = "nftables has no egress hook here (Linux 5.16): downstream traffic is not classified by \
                              Ethernet address";

/// The data plane of a gateway. Every call may be repeated; an error leaves traffic flowing.
pub trait Shaper {
    /// Finds the features of kernel and system. Changes nothing.
    ///
    /// # Errors
    /// Nothing at all can be found out.
    fn probe(&mut self) -> Result<Features, Error>;

    /// Installs everything, with all classes unlimited.
    ///
    /// Classes of an earlier run keep their queues and counters and become unlimited.
    ///
    /// # Errors
    /// An invalid layout, other programs' qdiscs or tables in the way (they stay), missing features.
    fn install(&mut self, layout: &Layout) -> Result<Installed, Error>;

    /// Adds and removes subscribers and changes their addresses.
    ///
    /// Interfaces, table and leaf stay as installed. New classes are unlimited.
    ///
    /// # Errors
    /// An invalid layout (nothing changes then), or the kernel's refusal.
    fn relayout(&mut self, layout: &Layout) -> Result<RelayoutResult, Error>;

    /// Changes limits in place, in one batch per direction.
    ///
    /// # Errors
    /// The first refused change; all others are carried out.
    fn set_rates(&mut self, changes: &[RateChange]) -> Result<(), Error>;

    /// Reads all subscribers' counters. `out` is cleared first; its order is the kernel's.
    ///
    /// # Errors
    /// Returns an error if an interface or our qdisc on it is gone.
    fn sample(&mut self, out: &mut Vec<ClassCounters>) -> Result<(), Error>;

    /// Reads one interface's counters.
    ///
    /// # Errors
    /// Returns an error if the interface is gone.
    fn interface(&mut self, which: Side) -> Result<InterfaceCounters, Error>;

    /// Reads the bytes that an interface has sent by kind, at the cost of a small request.
    ///
    /// It is called with every sample of the classes.
    ///
    /// # Errors
    /// Returns an error if the interface is gone.
    fn sent(&mut self, which: Side) -> Result<SentCounters, Error>;

    /// Compares classified packets with packets that arrived in classes since the last call.
    ///
    /// Replaces a classifier that does not work.
    ///
    /// # Errors
    /// Returns an error if an interface is gone.
    fn verify(&mut self) -> Result<Vec<Verification>, Error>;

    /// Compares effects and objects with the configured ones, and repairs them in place.
    ///
    /// These are limits of classes, rules and map elements, and counters of the interfaces with those of the classes.
    /// Of thousands of classes one call checks a part, and the next call the next part.
    ///
    /// # Errors
    /// Classes or rules that are missing, an interface that is gone, the kernel's refusal.
    fn audit(&mut self) -> Result<Vec<Deviation>, Error>;

    /// Returns the classifiers in force, downstream and upstream.
    ///
    /// New subscribers or [`Shaper::verify`] may have changed them.
    fn classifiers(&self) -> Option<[Classifier; 2]>;

    /// Renews the limits and checks that all objects are in place.
    ///
    /// Without a call in 10 s packets are no longer classified and no limit applies, whatever the state of the callers.
    ///
    /// # Errors
    /// [`Error::RulesGone`], an interface that is gone or has another name now, the kernel's refusal.
    fn renew(&mut self) -> Result<(), Error>;

    /// Makes every class unlimited; structure and counters stay. This is the safe state.
    ///
    /// # Errors
    /// The kernel's refusal; as many classes as possible are unlimited then.
    fn release(&mut self) -> Result<(), Error>;

    /// Removes everything that is ours, of this run or an earlier one, and nothing else.
    ///
    /// The interfaces, table and handle of `layout` are searched.
    ///
    /// # Errors
    /// The kernel's refusal; as much as possible is removed then.
    fn remove(&mut self, layout: &Layout) -> Result<Removed, Error>;
}
