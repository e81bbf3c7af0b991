//! Description of an installation, checked before anything is changed.

use std::collections::BTreeMap;
use std::fmt;

use fairmesh_units::BitRate;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::slot::ClassId;
use crate::mac::MacAddr;

/// Name of a network interface: 1 to 15 bytes, no `/`, no white space.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface(String);

impl Interface {
    /// Checks a name.
    ///
    /// # Errors
    /// Returns an error if the kernel would refuse the name (`dev_valid_name`).
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

    /// Returns the name.
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
    /// All kinds, best first.
    pub const ALL: [LeafKind; 5] =
        [LeafKind::FqCodel, LeafKind::Cake, LeafKind::Bfifo, LeafKind::Sfq, LeafKind::Pfifo];

    /// Returns the kernel's name.
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

/// Choice of the leaf.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafChoice {
    /// The first kind that this kernel has, in the order of [`LeafKind::ALL`].
    #[default]
    Best,
    /// This kind, or an error.
    Only(LeafKind),
}

/// Kind of a data plane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShaperKind {
    /// A class of HTB for each subscriber.
    Htb,
    /// Earliest departure times by an eBPF program, and `fq`.
    Edt,
}

impl fmt::Display for ShaperKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShaperKind::Htb => "htb",
            ShaperKind::Edt => "edt",
        })
    }
}

/// Choice of the data plane.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShaperChoice {
    /// Departure times for many subscribers where nothing is lost by them, otherwise HTB.
    #[default]
    Auto,
    /// This kind, or an error.
    Only(ShaperKind),
}

/// Traffic that is neither limited nor counted for a subscriber.
///
/// Its class has the highest priority. ARP, batman-adv's frames (ethertype 0x4305), ICMPv6 neighbour
/// discovery and DHCP are always included.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bypass {
    /// UDP ports of routing protocols.
    pub udp: Vec<u16>,
    /// TCP ports, at either end, of management traffic from or to the gateway itself.
    pub tcp: Vec<u16>,
}

impl Default for Bypass {
    /// Returns OLSR (RFC 3626: 698) and Babel (RFC 8966: 6696); no TCP.
    fn default() -> Self {
        Bypass { udp: vec![698, 6696], tcp: Vec::new() }
    }
}

/// A subscriber of the mesh.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subscriber {
    /// Number, kept as long as the subscriber is known.
    pub class: ClassId,
    /// Addresses. The longest prefix that contains an address decides.
    pub prefixes: Vec<IpNet>,
    /// Ethernet addresses as the gateway sees them, for traffic that no prefix claims.
    pub macs: Vec<MacAddr>,
    /// Quantum, bytes per round, where subscribers share a limit or an interface.
    ///
    /// The ratios of the quanta are those of the weights. [`Subscriber::QUANTUM`] to [`Subscriber::MAX_QUANTUM`].
    pub turn: u32,
}

impl Subscriber {
    /// Shortest quantum, bytes: one full Ethernet frame.
    ///
    /// HTB sends a packet per turn even if it is longer than the quantum, so a shorter quantum would not keep the
    /// ratio.
    pub const QUANTUM: u32 = 1514;
    /// Longest quantum, in bytes.
    pub const MAX_QUANTUM: u32 = 100 * Self::QUANTUM;

    /// Returns a subscriber with prefixes and the shortest quantum.
    pub fn new(class: u16, prefixes: impl IntoIterator<Item = IpNet>) -> Self {
        let prefixes = prefixes.into_iter().collect();
        Subscriber { class: ClassId(class), prefixes, macs: Vec::new(), turn: Self::QUANTUM }
    }
}

/// Shaping of a gateway: one class per subscriber and direction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Interface towards the mesh, which downstream traffic leaves by.
    pub mesh: Interface,
    /// Interface towards the Internet, which upstream traffic leaves by.
    pub wired: Interface,
    /// Name of the nftables table (family `inet`; `netdev` too when Ethernet addresses are used).
    pub table: String,
    /// Major number of the root qdiscs.
    pub handle: u16,
    /// Kind of the data plane.
    #[serde(default)]
    pub shaper: ShaperChoice,
    /// True if the control limits all subscribers together, too.
    #[serde(default)]
    pub aggregate: bool,
    /// Queue in every class.
    pub leaf: LeafChoice,
    /// Size of a `pfifo` or `sfq` leaf, in packets.
    ///
    /// A `bfifo` holds the bytes of as many full packets.
    pub queue: u32,
    /// Least burst of a class after an idle time, in frame bytes.
    ///
    /// At a limit of hundreds of Mbit/s the burst is the bytes of one millisecond.
    #[serde(default = "one_frame")]
    pub burst: u32,
    /// Longest time in which a `bfifo` or `pfifo` leaf drains at its limit, in ms.
    ///
    /// A leaf holds less at a low limit.
    ///
    /// 0: `queue` alone decides, at any limit.
    #[serde(default)]
    pub delay_ms: u32,
    /// Subscribers.
    pub subscribers: Vec<Subscriber>,
    /// Subscriber of forwarded packets that no subscriber claims; without one they have no limit.
    #[serde(default)]
    pub unmapped: Option<ClassId>,
    /// Traffic that bypasses the limits.
    pub bypass: Bypass,
}

/// Returns [`Layout::DEFAULT_BURST`], for a stored layout without a burst.
fn one_frame() -> u32 {
    Layout::DEFAULT_BURST
}

impl Layout {
    /// Default handle of our root qdiscs.
    pub const DEFAULT_HANDLE: u16 = 0x0fa1;
    /// Default name of our table.
    pub const DEFAULT_TABLE: &'static str = "fairmesh";
    /// Default packets in a leaf without AQM.
    ///
    /// A FIFO of twice the 50 of the papers' interface queues, since bursts from the wire are larger than those of a
    /// radio.
    pub const DEFAULT_QUEUE: u32 = 100;
    /// Default burst, frame bytes: one full frame, as in `tc`.
    pub const DEFAULT_BURST: u32 = 1600;

    /// Largest burst, bytes: some milliseconds of any interface.
    pub const MAX_BURST: u32 = 16 << 20;

    /// Least packets in a leaf at any limit.
    ///
    /// A wire needs three, a mesh five: a TCP that loses one of four packets gets too few duplicate acknowledgements and
    /// waits for its timeout (docs/gateway-leaves.md).
    pub const MIN_QUEUE: u32 = 5;

    /// Least bytes in a leaf at any limit: as many full frames.
    pub const MIN_LEAF_BYTES: u32 = Layout::MIN_QUEUE * Layout::FRAME_BYTES;

    /// A full frame, in bytes.
    const FRAME_BYTES: u32 = 1514;

    /// Returns the length of a leaf at a limit, its class's own or the aggregate's.
    ///
    /// Bytes for a `bfifo`, packets for others. Kinds that measure delay themselves ignore it. No message
    /// changes the length of `sfq`, which is therefore the same at all limits.
    pub fn queue_at(&self, kind: LeafKind, limit: Option<BitRate>) -> u32 {
        let (frame, least) = match kind {
            LeafKind::Bfifo => (1, Layout::MIN_LEAF_BYTES),
            _ => (Layout::FRAME_BYTES, Layout::MIN_QUEUE),
        };
        let most = self.queue.saturating_mul(Layout::FRAME_BYTES / frame);
        let Some(limit) = limit.filter(|_| self.delay_ms > 0 && kind != LeafKind::Sfq) else {
            return most;
        };
        let bits = u128::from(limit.0) * u128::from(self.delay_ms) / 1000;
        let held = u32::try_from(bits / (8 * u128::from(frame))).unwrap_or(u32::MAX);
        held.max(least).min(most)
    }

    /// Returns a layout without subscribers and with the defaults.
    pub fn new(mesh: Interface, wired: Interface) -> Self {
        Layout {
            mesh,
            wired,
            table: Layout::DEFAULT_TABLE.to_owned(),
            handle: Layout::DEFAULT_HANDLE,
            shaper: ShaperChoice::Auto,
            aggregate: false,
            leaf: LeafChoice::Best,
            queue: Layout::DEFAULT_QUEUE,
            burst: Layout::DEFAULT_BURST,
            delay_ms: 0,
            subscribers: Vec::new(),
            unmapped: None,
            bypass: Bypass::default(),
        }
    }

    /// True if another layout has the same interfaces and names.
    pub fn same_place(&self, other: &Layout) -> bool {
        let place = |l: &Layout| (l.mesh.clone(), l.wired.clone(), l.table.clone(), l.handle);
        place(self) == place(other)
    }

    /// Refuses changes of properties that are fixed while running.
    pub(super) fn refuse_fixed(&self, new: &Layout) -> Result<(), LayoutError> {
        let what = if self.mesh != new.mesh || self.wired != new.wired {
            "an interface"
        } else if self.table != new.table {
            "the table's name"
        } else if self.handle != new.handle {
            "the handle"
        } else if self.shaper != new.shaper {
            "the shaper"
        } else if (self.leaf, self.queue, self.delay_ms) != (new.leaf, new.queue, new.delay_ms) {
            "the leaf queue"
        } else if self.burst != new.burst {
            "the burst"
        } else if self.bypass != new.bypass {
            "the bypass"
        } else {
            return Ok(());
        };
        Err(LayoutError::Fixed(what))
    }

    /// Checks everything that does not depend on a kernel.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn check(&self) -> Result<(), LayoutError> {
        if self.mesh == self.wired {
            return Err(LayoutError::SameInterface(self.mesh.clone()));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts = self.table.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        if !starts || self.table.len() > 32 || !self.table.bytes().all(plain) {
            return Err(LayoutError::TableName(self.table.clone()));
        }
        // The kernel assigns 0x8000 and up by itself; 0xffff is its ingress.
        if !(0x0100..0x8000).contains(&self.handle) {
            return Err(LayoutError::Handle(self.handle));
        }
        if !(2..=10_000).contains(&self.queue) {
            return Err(LayoutError::Queue(self.queue));
        }
        if !(1..=Layout::MAX_BURST).contains(&self.burst) {
            return Err(LayoutError::Burst(self.burst));
        }
        let mut classes = BTreeMap::new();
        let mut prefixes = BTreeMap::new();
        let mut macs = BTreeMap::new();
        for s in &self.subscribers {
            if s.class == ClassId::ALL || s.class > ClassId::MAX {
                return Err(LayoutError::Class(s.class));
            }
            if !(Subscriber::QUANTUM..=Subscriber::MAX_QUANTUM).contains(&s.turn) {
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
        if self.shaper == ShaperChoice::Only(ShaperKind::Edt) {
            super::EdtShaper::accepts(self)?;
        }
        match self.unmapped {
            Some(class) if !classes.contains_key(&class) => Err(LayoutError::Class(class)),
            _ => Ok(()),
        }
    }
}

/// Error in a [`Layout`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}; expected {}", self.problem(), self.expected())]
#[non_exhaustive]
pub enum LayoutError {
    /// The name of an interface is invalid.
    InterfaceName(String),
    /// Both sides have the same interface.
    SameInterface(Interface),
    /// The name of a table is invalid.
    TableName(String),
    /// The handle is used by the kernel or others.
    Handle(u16),
    /// The queue is too short or too long.
    Queue(u32),
    /// The burst is too large for a bucket.
    Burst(u32),
    /// A class number is out of range.
    Class(ClassId),
    /// A quantum is out of range.
    Turn {
        /// The subscriber's class.
        class: ClassId,
        /// Refused quantum, in bytes.
        turn: u32,
    },
    /// Two subscribers have the same number.
    DuplicateClass(ClassId),
    /// Two subscribers have the same prefix.
    DuplicatePrefix {
        /// The prefix.
        prefix: IpNet,
        /// First subscriber with it.
        first: ClassId,
        /// Second subscriber with it.
        second: ClassId,
    },
    /// Two subscribers have the same Ethernet address.
    DuplicateMac {
        /// The address.
        mac: MacAddr,
        /// First subscriber with it.
        first: ClassId,
        /// Second subscriber with it.
        second: ClassId,
    },
    /// An Ethernet address of a subscriber is a multicast address.
    GroupMac {
        /// The address.
        mac: MacAddr,
        /// The subscriber's class.
        class: ClassId,
    },
    /// Departure times have no leaf of this kind.
    Shaper(LeafKind),
    /// Departure times have no aggregate limit.
    ShaperWithAggregate,
    /// The change needs a new installation.
    Fixed(&'static str),
}

impl LayoutError {
    /// Describes the rejected value.
    pub fn problem(&self) -> String {
        match self {
            Self::InterfaceName(name) => format!("`{name}` is not an interface name"),
            Self::SameInterface(name) => format!("mesh and wired side are both `{name}`"),
            Self::TableName(name) => format!("`{name}` is not a table name"),
            Self::Handle(handle) => format!("handle {handle:#x} is reserved"),
            Self::Queue(packets) => format!("a queue of {packets} packets"),
            Self::Burst(bytes) => format!("a burst of {bytes} bytes"),
            Self::Class(class) => format!("class {}", class.0),
            Self::Turn { class, turn } => format!("a turn of {turn} bytes of class {}", class.0),
            Self::DuplicateClass(class) => format!("class {} is used by two subscribers", class.0),
            Self::DuplicatePrefix { prefix, first, second } => {
                format!("{prefix} belongs to classes {} and {}", first.0, second.0)
            }
            Self::DuplicateMac { mac, first, second } => {
                format!("{mac} belongs to classes {} and {}", first.0, second.0)
            }
            Self::GroupMac { mac, class } => {
                format!("{mac} of class {} is a group address", class.0)
            }
            Self::Shaper(leaf) => format!("the shaper edt has no queues of kind {leaf}"),
            Self::ShaperWithAggregate => {
                "the shaper edt has no limit of all subscribers together".into()
            }
            Self::Fixed(what) => format!("{what} cannot change while running"),
        }
    }

    /// Describes an accepted value.
    pub fn expected(&self) -> String {
        match self {
            Self::InterfaceName(_) => "1 to 15 letters, digits or . _ - @".into(),
            Self::SameInterface(_) => "two interfaces".into(),
            Self::TableName(_) => "a letter, then letters, digits or _".into(),
            Self::Handle(_) => "0x100 to 0x7fff".into(),
            Self::Queue(_) => "2 to 10000".into(),
            Self::Burst(_) => format!("1 to {}", Layout::MAX_BURST),
            Self::Class(_) => format!("1 to {}", ClassId::MAX.0),
            Self::Turn { .. } => format!("{} to {}", Subscriber::QUANTUM, Subscriber::MAX_QUANTUM),
            Self::DuplicateClass(_) => "one class for each".into(),
            Self::DuplicatePrefix { .. } | Self::DuplicateMac { .. } => "one".into(),
            Self::GroupMac { .. } => "the address of a station".into(),
            Self::Shaper(_) => "leaf `bfifo` or `best`, or the shaper htb".into(),
            Self::ShaperWithAggregate => "the shaper htb, or a control without such a limit".into(),
            Self::Fixed(_) => "the same value, or a new installation".into(),
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
