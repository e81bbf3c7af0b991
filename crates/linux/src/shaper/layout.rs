//! What is to be installed, checked before anything is touched.

use std::collections::BTreeMap;
use std::fmt;

use fairmesh_units::BitRate;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::slot::ClassId;
use crate::mac::MacAddr;

/// The name of a network interface: 1 to 15 bytes, no `/`, no white space.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface(String);

impl Interface {
    /// Checks a name.
    ///
    /// # Errors
    /// A name that the kernel would refuse (`dev_valid_name`).
    pub fn new(name: impl Into<String>) -> Result<Self, LayoutError> {
        let name = name.into();
        let fits = (1..16).contains(&name.len()) && name != "." && name != "..";
        // Stricter than the kernel: the name also goes into a rule set as text.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-@".contains(&b);
        if fits && name.bytes().all(plain) {
            Ok(Interface(name))
        } else {
            Err(LayoutError::InterfaceName(name))
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Interface {
    type Error = LayoutError;
    fn try_from(name: String) -> Result<Self, LayoutError> {
        Interface::new(name)
    }
}
impl From<Interface> for String {
    fn from(i: Interface) -> String {
        i.0
    }
}
impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A queueing discipline at the end of each class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafKind {
    /// Flow queueing with CoDel (RFC 8290).
    FqCodel,
    /// CAKE, without its own shaper.
    Cake,
    /// One FIFO per subscriber, measured in bytes.
    Bfifo,
    /// Stochastic fairness queueing. The kernel cannot change its length in place.
    Sfq,
    /// One FIFO per subscriber, measured in packets.
    Pfifo,
}

impl LeafKind {
    /// All, best first.
    pub const ALL: [LeafKind; 5] =
        [LeafKind::FqCodel, LeafKind::Cake, LeafKind::Bfifo, LeafKind::Sfq, LeafKind::Pfifo];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            LeafKind::FqCodel => "fq_codel",
            LeafKind::Cake => "cake",
            LeafKind::Bfifo => "bfifo",
            LeafKind::Sfq => "sfq",
            LeafKind::Pfifo => "pfifo",
        }
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which leaf to use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafChoice {
    /// The first that this kernel has, in the order of [`LeafKind::ALL`].
    #[default]
    Best,
    /// This one or an error.
    Only(LeafKind),
}

/// What is never limited nor counted as anybody's: it has a class of its own that goes first.
/// ARP, batman-adv's frames (ethertype 0x4305), ICMPv6 neighbour discovery and DHCP always are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bypass {
    /// UDP ports of routing protocols.
    pub udp: Vec<u16>,
    /// TCP ports, at either end, of management traffic from or to the gateway itself.
    pub tcp: Vec<u16>,
}

impl Default for Bypass {
    /// OLSR (RFC 3626: 698) and Babel (RFC 8966: 6696); no TCP.
    fn default() -> Self {
        Bypass { udp: vec![698, 6696], tcp: Vec::new() }
    }
}

/// One who shares the mesh.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subscriber {
    /// Its number; kept as long as the subscriber is known.
    pub class: ClassId,
    /// Its addresses. Of several prefixes that hold an address the longest counts.
    pub prefixes: Vec<IpNet>,
    /// Its Ethernet addresses as the gateway sees them, for traffic that no prefix claims.
    pub macs: Vec<MacAddr>,
    /// Bytes it may send per round where subscribers share a limit or an interface: their ratios are those
    /// of the weights. [`Subscriber::TURN`] to [`Subscriber::LONGEST_TURN`].
    pub turn: u32,
}

impl Subscriber {
    /// Shortest turn, bytes: one full Ethernet frame. HTB sends a packet per turn even if it is longer than the
    /// turn, so a shorter turn would not keep the ratio.
    pub const TURN: u32 = 1514;
    /// Longest turn, bytes.
    pub const LONGEST_TURN: u32 = 100 * Self::TURN;

    /// One with prefixes and the shortest turn.
    pub fn new(class: u16, prefixes: impl IntoIterator<Item = IpNet>) -> Self {
        let prefixes = prefixes.into_iter().collect();
        Subscriber { class: ClassId(class), prefixes, macs: Vec::new(), turn: Self::TURN }
    }
}

/// What the gateway shapes: one class per subscriber and direction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Downstream traffic leaves here.
    pub mesh: Interface,
    /// Upstream traffic leaves here.
    pub wired: Interface,
    /// Name of the nftables table (family `inet`; `netdev` too when Ethernet addresses are used).
    pub table: String,
    /// Major number of the root qdiscs.
    pub handle: u16,
    /// Queue in every class.
    pub leaf: LeafChoice,
    /// Packets that a `pfifo` or `sfq` leaf holds, and full packets that a `bfifo` has bytes for.
    pub queue: u32,
    /// Frame bytes that a class may send back to back after a rest, at least: a limit of hundreds
    /// of Mbit/s gets what passes within a millisecond.
    #[serde(default = "one_frame")]
    pub burst: u32,
    /// Milliseconds in which a `bfifo` or `pfifo` leaf empties at its limit, at most: it holds
    /// less where the limit is low. 0: as much as `queue` says at any limit.
    #[serde(default)]
    pub delay_ms: u32,
    /// Who shares.
    pub subscribers: Vec<Subscriber>,
    /// Which of them forwarded packets belong to that nobody claims; without one they have no limit.
    #[serde(default)]
    pub unmapped: Option<ClassId>,
    /// What is left alone.
    pub bypass: Bypass,
}

/// [`Layout::BURST`], for a layout that was kept before there was a choice.
fn one_frame() -> u32 {
    Layout::BURST
}

impl Layout {
    /// Handle of our root qdiscs unless another is chosen.
    pub const HANDLE: u16 = 0x0fa1;
    /// Name of our table unless another is chosen.
    pub const TABLE: &'static str = "fairmesh";
    /// Packets in a leaf without AQM unless chosen: a FIFO of twice the 50 of the papers'
    /// interface queues, since bursts from the wire are larger than those of a radio.
    pub const QUEUE: u32 = 100;
    /// Frame bytes of a burst unless chosen: one full frame, as `tc` has it.
    pub const BURST: u32 = 1600;

    /// The largest burst: some milliseconds of any interface.
    pub const LARGEST_BURST: u32 = 16 << 20;

    /// Packets in a leaf however low its limit. A wire needs three, a mesh five: a TCP that lost one of
    /// four is told by nobody and waits for its timeout (docs/gateway-dataplane.md).
    pub const LEAST_QUEUE: u32 = 5;

    /// Bytes in a leaf however low its limit: as many full frames.
    pub const LEAST_BYTES: u32 = Layout::LEAST_QUEUE * Layout::FRAME;

    /// A full frame.
    const FRAME: u32 = 1514;

    /// What a leaf of some kind holds at a limit, be it its class's own or that of all who share: bytes for a
    /// `bfifo`, packets for others. Kinds that know time by themselves take no notice, and `sfq`, which no message
    /// makes longer or shorter, has one length at all limits.
    pub fn queue_at(&self, kind: LeafKind, limit: Option<BitRate>) -> u32 {
        let (frame, least) = match kind {
            LeafKind::Bfifo => (1, Layout::LEAST_BYTES),
            _ => (Layout::FRAME, Layout::LEAST_QUEUE),
        };
        let most = self.queue.saturating_mul(Layout::FRAME / frame);
        let Some(limit) = limit.filter(|_| self.delay_ms > 0 && kind != LeafKind::Sfq) else {
            return most;
        };
        let bits = u128::from(limit.0) * u128::from(self.delay_ms) / 1000;
        let held = u32::try_from(bits / (8 * u128::from(frame))).unwrap_or(u32::MAX);
        held.max(least).min(most)
    }

    /// Nobody yet, everything else as by default.
    pub fn new(mesh: Interface, wired: Interface) -> Self {
        Layout {
            mesh,
            wired,
            table: Layout::TABLE.to_owned(),
            handle: Layout::HANDLE,
            leaf: LeafChoice::Best,
            queue: Layout::QUEUE,
            burst: Layout::BURST,
            delay_ms: 0,
            subscribers: Vec::new(),
            unmapped: None,
            bypass: Bypass::default(),
        }
    }

    /// Whether another is on the same interfaces under the same names.
    pub fn same_place(&self, other: &Layout) -> bool {
        let place = |l: &Layout| (l.mesh.clone(), l.wired.clone(), l.table.clone(), l.handle);
        place(self) == place(other)
    }

    /// Checks everything that can be known without a kernel.
    ///
    /// # Errors
    /// The first thing wrong.
    pub fn check(&self) -> Result<(), LayoutError> {
        if self.mesh == self.wired {
            return Err(LayoutError::SameInterface(self.mesh.clone()));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts = self.table.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        if !starts || self.table.len() > 32 || !self.table.bytes().all(plain) {
            return Err(LayoutError::TableName(self.table.clone()));
        }
        // The kernel hands out 0x8000 and up by itself; 0xffff is its ingress.
        if !(0x0100..0x8000).contains(&self.handle) {
            return Err(LayoutError::Handle(self.handle));
        }
        if !(2..=10_000).contains(&self.queue) {
            return Err(LayoutError::Queue(self.queue));
        }
        if !(1..=Layout::LARGEST_BURST).contains(&self.burst) {
            return Err(LayoutError::Burst(self.burst));
        }
        let mut classes = BTreeMap::new();
        let mut prefixes = BTreeMap::new();
        let mut macs = BTreeMap::new();
        for s in &self.subscribers {
            if s.class == ClassId::ALL || s.class > ClassId::MAX {
                return Err(LayoutError::Class(s.class));
            }
            if !(Subscriber::TURN..=Subscriber::LONGEST_TURN).contains(&s.turn) {
                return Err(LayoutError::Turn { class: s.class, turn: s.turn });
            }
            if classes.insert(s.class, ()).is_some() {
                return Err(LayoutError::DuplicateClass(s.class));
            }
            for prefix in &s.prefixes {
                let prefix = prefix.trunc();
                if let Some(first) = prefixes.insert(prefix, s.class) {
                    return Err(LayoutError::DuplicatePrefix { prefix, first, second: s.class });
                }
            }
            for &mac in &s.macs {
                if !mac.is_unicast() {
                    return Err(LayoutError::GroupMac { mac, class: s.class });
                }
                if let Some(first) = macs.insert(mac, s.class) {
                    return Err(LayoutError::DuplicateMac { mac, first, second: s.class });
                }
            }
        }
        match self.unmapped {
            Some(class) if !classes.contains_key(&class) => Err(LayoutError::Class(class)),
            _ => Ok(()),
        }
    }
}

/// What is wrong with a [`Layout`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Not an interface's name.
    #[error("`{0}` is not an interface name; expected 1 to 15 letters, digits or . _ - @")]
    InterfaceName(String),
    /// One interface for both sides.
    #[error("mesh and wired side are both `{0}`; expected two interfaces")]
    SameInterface(Interface),
    /// Not a table's name.
    #[error("`{0}` is not a table name; expected a letter, then letters, digits or _")]
    TableName(String),
    /// A handle the kernel or others use.
    #[error("handle {0:#x} is not free for use; expected 0x100 to 0x7fff")]
    Handle(u16),
    /// A queue too short or too long.
    #[error("a queue of {0} packets; expected 2 to 10000")]
    Queue(u32),
    /// A burst that no bucket holds.
    #[error("a burst of {} bytes; expected 1 to {}", .0, Layout::LARGEST_BURST)]
    Burst(u32),
    /// A class number out of range.
    #[error("class {}; expected 1 to {}", .0.0, ClassId::MAX.0)]
    Class(ClassId),
    /// A turn out of range.
    #[error(
        "a turn of {turn} bytes of class {}; expected {} to {}",
        .class.0, Subscriber::TURN, Subscriber::LONGEST_TURN
    )]
    Turn {
        /// The subscriber's class.
        class: ClassId,
        /// The refused length, bytes.
        turn: u32,
    },
    /// Two subscribers with one number.
    #[error("class {} is used by two subscribers", .0.0)]
    DuplicateClass(ClassId),
    /// Two subscribers with one prefix.
    #[error("{prefix} belongs to classes {} and {}; expected one", .first.0, .second.0)]
    DuplicatePrefix {
        /// The prefix.
        prefix: IpNet,
        /// Who had it first.
        first: ClassId,
        /// Who claims it too.
        second: ClassId,
    },
    /// Two subscribers with one Ethernet address.
    #[error("{mac} belongs to classes {} and {}; expected one", .first.0, .second.0)]
    DuplicateMac {
        /// The address.
        mac: MacAddr,
        /// Who had it first.
        first: ClassId,
        /// Who claims it too.
        second: ClassId,
    },
    /// A multicast address.
    #[error("{mac} of class {} is a group address; expected a station's", .class.0)]
    GroupMac {
        /// The address.
        mac: MacAddr,
        /// Whose.
        class: ClassId,
    },
    /// A change that needs a new installation.
    #[error("{0} cannot change while running; remove and install anew")]
    Fixed(&'static str),
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
