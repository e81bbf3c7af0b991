//! What a gateway enforces on its two interfaces, and what it counts there.
//!
//! Downstream traffic is shaped where it enters the mesh, by destination; upstream traffic where it
//! leaves towards the wire, by source as the mesh knows it (before any address translation). Every
//! subscriber has one class in each direction; traffic of nobody known has a class without a limit.

mod htb;
pub(crate) mod layout;
pub(crate) mod slot;

pub use htb::HtbShaper;
pub(crate) use htb::place::Place;
pub use layout::{Bypass, Interface, Layout, LayoutError, LeafChoice, LeafKind, Subscriber};
pub use slot::{ClassId, Direction, Side, Slot};

use std::fmt;

use fairmesh_units::BitRate;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A new limit. It replaces the old one in place: what waits in the class stays there.
///
/// Limits count bytes of Ethernet frames, as the kernel's queueing disciplines do (14 more than
/// the IP packet on Ethernet, none more on a TUN interface).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RateChange {
    /// Of which class.
    pub slot: Slot,
    /// At most this; `None`: unlimited.
    pub rate: Option<BitRate>,
}

/// What passed through a class since it was made. Counters only grow, except when the class was
/// made anew (interface lost, reboot).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClassCounters {
    /// Which class.
    pub slot: Slot,
    /// Bytes sent (Ethernet frames).
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that found the class's queue full. What an AQM drops later is in its own counters.
    pub drops: u64,
    /// Times the class had to wait for its limit.
    pub overlimits: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Bytes waiting.
    pub backlog_bytes: u64,
}

/// Counters of one interface and of what its shaping saw, for comparing them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Its name.
    pub name: String,
    /// The kernel's index for it.
    pub index: u32,
    /// Administratively up and with carrier.
    pub up: bool,
    /// Bytes sent by the driver.
    pub tx_bytes: u64,
    /// Packets sent by the driver.
    pub tx_packets: u64,
    /// Packets the driver gave up.
    pub tx_dropped: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes that passed our root qdisc.
    pub shaped_bytes: u64,
    /// Packets that passed our root qdisc.
    pub shaped_packets: u64,
    /// Packets dropped by our qdiscs, all of them.
    pub shaped_drops: u64,
    /// Bytes of the subscribers' classes together.
    pub subscriber_bytes: u64,
    /// Packets of the subscribers' classes together.
    pub subscriber_packets: u64,
    /// Bytes of nobody known.
    pub unmapped_bytes: u64,
    /// Packets of nobody known.
    pub unmapped_packets: u64,
    /// Bytes of routing and management traffic.
    pub bypass_bytes: u64,
    /// Packets of routing and management traffic.
    pub bypass_packets: u64,
    /// Packets that nftables gave to a subscriber's class on this interface.
    pub classified_packets: u64,
    /// IPv6 packets of nobody known that nftables saw on this interface.
    pub unmapped_ipv6_packets: u64,
}

/// What an interface has sent, in frame bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SentCounters {
    /// By the driver.
    pub bytes: u64,
    /// Of nobody known.
    pub unmapped: u64,
    /// Of routing and management.
    pub bypass: u64,
}

/// How a packet's class reaches HTB.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Classifier {
    /// In the packet's priority, which HTB reads itself.
    Priority,
    /// In the packet's mark, read by a `fw` filter.
    MarkFw,
    /// In the packet's mark, read by a two-instruction BPF filter.
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

/// What this kernel and system offer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Features {
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Version of `nft`, if there is one.
    pub nft: Option<String>,
    /// Leaf disciplines there are, best first. Empty when it could not be tried beforehand; the
    /// best that works is then found while installing.
    pub leaves: Vec<LeafKind>,
    /// Whether HTB is there; `None` when it could not be tried beforehand.
    pub htb: Option<bool>,
    /// Ways to classify there are. [`Classifier::Priority`] needs nothing but HTB, yet some Wi-Fi
    /// drivers overwrite the priority: which one holds is found out on the interface itself.
    pub classifiers: Vec<Classifier>,
    /// Whether ARP and other frames without IP can be told apart (`u32` or `bpf` filter).
    pub bypass_filter: bool,
    /// Whether nftables can look at frames as they leave an interface (netdev egress hook, Linux
    /// 5.16), needed to classify downstream by Ethernet address.
    pub egress_hook: bool,
    /// Flow tables that let traffic go around us, as `family table/name`.
    pub flowtables: Vec<String>,
}

/// Result of [`Shaper::install`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// The discipline in every class.
    pub leaf: LeafKind,
    /// How packets are classified downstream and upstream; each was tried with packets of our own.
    pub classifier: [Classifier; 2],
    /// Whether structures of an earlier run were found and taken over.
    pub adopted: bool,
    /// Classes that an earlier run had left and nobody needs any more.
    pub swept: usize,
    /// Bytes of the link's header downstream and upstream, which limits count and IP does not.
    pub headers: [u16; 2],
    /// Default queueing disciplines that were replaced, as `interface: kind`. The kernel puts them
    /// back by itself when ours go.
    pub replaced: Vec<String>,
    /// What the operator should know.
    pub notes: Vec<String>,
}

/// Result of [`Shaper::relayout`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Relaid {
    /// Subscribers that came.
    pub added: usize,
    /// Subscribers that went. Their classes are unlimited until what waited in them is sent.
    pub removed: usize,
    /// Subscribers whose addresses changed.
    pub changed: usize,
}

/// Result of [`Shaper::remove`].
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Removed {
    /// Interfaces from which our qdisc was taken.
    pub qdiscs: Vec<String>,
    /// Tables removed.
    pub tables: Vec<String>,
    /// What was there but not ours, and stays.
    pub kept: Vec<String>,
}

impl Removed {
    /// Takes in what else was removed.
    pub fn add(&mut self, other: Removed) {
        self.qdiscs.extend(other.qdiscs);
        self.tables.extend(other.tables);
        self.kept.extend(other.kept);
    }
}

/// Whether packets reach the classes they are meant for, since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verification {
    /// Which way.
    pub direction: Direction,
    /// Packets that nftables gave to subscribers' classes.
    pub classified: u64,
    /// Packets that arrived there (sent, waiting or dropped).
    pub arrived: u64,
    /// `false` if most of them did not arrive.
    pub holds: bool,
    /// The classifier in force from now on (another one, if the last did not hold).
    pub classifier: Classifier,
}

/// A difference between what a data plane was told to do and what it does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deviation {
    /// Another program changed limits; they were set again.
    Limits {
        /// Direction of the classes.
        direction: Direction,
        /// Number of the classes.
        classes: usize,
    },
    /// An interface is a port of a bridge or a bond, so routed packets leave through the latter
    /// and are not classified.
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
    /// A rule or filter of another program gives packets the class of one subscriber, or takes them
    /// out of theirs.
    Foreign {
        /// The rule or filter and its place.
        by: String,
        /// The class that it gives; `None` for a priority or mark that is no class.
        class: Option<String>,
        /// The command that lists it.
        list: String,
    },
    /// A rule or filter of another program may change the class of packets: the value is computed.
    Unverified {
        /// The rule or filter and its place.
        by: String,
        /// The command that lists it.
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
        /// The classifier in force from now on, if another one was put in place.
        replaced_by: Option<Classifier>,
    },
}

impl Deviation {
    /// Name of the kind, for events.
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

    /// Returns whether limits act again after the call that found it.
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

    /// Returns whether limits are known not to act as they should.
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
                "{by} of another program gives packets class {class}, whatever subscriber they belong \
                 to; remove it ({list})"
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
                    "{direction}: of {classified} packets with a class {arrived} arrived in it, because \
                     another program sets their priority or mark (nft list ruleset)"
                )?;
                match replaced_by {
                    Some(to) => write!(f, "; they are classified by {to} from now on"),
                    None => f.write_str("; no other way to classify is left"),
                }
            }
        }
    }
}

/// The data plane of a gateway. Every call may be repeated; an error leaves traffic flowing.
pub trait Shaper {
    /// What kernel and system offer. Touches nothing.
    ///
    /// # Errors
    /// Only if nothing at all can be found out.
    fn probe(&mut self) -> Result<Features, Error>;

    /// Builds everything, all classes unlimited, on top of what an earlier run may have left:
    /// classes that are there already keep their queues and counters and become unlimited.
    ///
    /// # Errors
    /// A wrong layout, foreign qdiscs or tables in the way (they stay), missing features.
    fn install(&mut self, layout: &Layout) -> Result<Installed, Error>;

    /// Lets subscribers come, go and change addresses. Interfaces, table and leaf stay as
    /// installed. New classes are unlimited.
    ///
    /// # Errors
    /// A wrong layout (nothing changes then), or the kernel's refusal.
    fn relayout(&mut self, layout: &Layout) -> Result<Relaid, Error>;

    /// Changes limits in place, in one batch per direction.
    ///
    /// # Errors
    /// The first change refused; all others are carried out.
    fn set_rates(&mut self, changes: &[RateChange]) -> Result<(), Error>;

    /// Reads all subscribers' counters. `out` is cleared first; its order is the kernel's.
    ///
    /// # Errors
    /// An interface or our qdisc on it is gone.
    fn sample(&mut self, out: &mut Vec<ClassCounters>) -> Result<(), Error>;

    /// Reads one interface's counters.
    ///
    /// # Errors
    /// The interface is gone.
    fn interface(&mut self, which: Side) -> Result<InterfaceCounters, Error>;

    /// Reads what an interface has sent, for whom: cheap enough for every look at the classes.
    ///
    /// # Errors
    /// The interface is gone.
    fn sent(&mut self, which: Side) -> Result<SentCounters, Error>;

    /// Compares what was classified with what arrived in classes since the last call, and changes
    /// to another classifier where the one in use does not hold.
    ///
    /// # Errors
    /// An interface is gone.
    fn verify(&mut self) -> Result<Vec<Verification>, Error>;

    /// Compares effects and objects with what was set: limits of classes, rules and map elements,
    /// counters of the interfaces with those of the classes. Puts right what can be put right in
    /// place. One call looks at a part of thousands of classes, the next call at the next part.
    ///
    /// # Errors
    /// Classes or rules that are missing, an interface that is gone, the kernel's refusal.
    fn audit(&mut self) -> Result<Vec<Deviation>, Error>;

    /// Classification of packets now, downstream and upstream; newcomers or [`Shaper::verify`] may have changed it.
    fn classifiers(&self) -> Option<[Classifier; 2]>;

    /// Keeps limits in force: without a call in 10 s packets are no longer classified, and nobody is
    /// limited, whatever became of the callers. Looks as well whether everything is as it was put.
    ///
    /// # Errors
    /// [`Error::RulesGone`], an interface that is gone or has another name now, the kernel's refusal.
    fn renew(&mut self) -> Result<(), Error>;

    /// Makes every class unlimited; structure and counters stay. The safe state.
    ///
    /// # Errors
    /// The kernel's refusal; as many classes as possible are unlimited then.
    fn release(&mut self) -> Result<(), Error>;

    /// Removes everything that is ours, of this run or an earlier one, and only that. `layout`'s
    /// interfaces, table and handle say where to look.
    ///
    /// # Errors
    /// The kernel's refusal; as much as possible is removed then.
    fn remove(&mut self, layout: &Layout) -> Result<Removed, Error>;
}
