//! The classes that a host builds for a mechanism before it starts.
//!
//! Flat by intention: a list of classes at one point of the node, each with a limit and a queue.
//! The simulator builds a token bucket or a class tree from it; a router builds HTB classes with
//! leaf disciplines and `nftables` rules. `docs/control-hosts.md` has the table.

use fairmesh_units::{BitRate, Bytes};

use crate::{Class, Share};

/// Point in the node at which the classes are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Data of flows that start at this node, before it enters the radio's queue.
    ///
    /// Forwarded data and acknowledgements pass unlimited.
    Local,
    /// Data of flows that cross this node in either direction.
    ///
    /// At a gateway, this is all data between mesh and backhaul. Acknowledgements, routing and
    /// other signalling pass unlimited (Jamshaid 2010 §6.2.3).
    Transit,
    /// All packets that the radio sends: the classes replace its transmit queue.
    Interface,
}

/// Limit of a class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// No limit until a rate is set.
    None,
    /// A rate of IP bytes.
    Rate(BitRate),
    /// A share of the airtime.
    Airtime(Share),
}

/// Queue of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// One drop-tail queue.
    DropTail {
        /// Size in packets.
        packets: u32,
    },
    /// A buffer per flow, served round robin by bytes.
    Fair {
        /// Size of each buffer in packets.
        packets: u32,
    },
    /// Random early detection.
    Red {
        /// Hard limit in packets.
        packets: u32,
        /// True if ECN-capable packets are marked instead of being dropped early.
        ecn: bool,
    },
    /// Flow random early drop.
    Fred {
        /// Hard limit in packets.
        packets: u32,
    },
}

/// One class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClassPlan {
    /// Traffic of the class. In a template: any class of the same kind.
    pub class: Class,
    /// Limit at the start.
    pub limit: Limit,
    /// Bytes that may leave back to back.
    ///
    /// This is the size of the token bucket that enforces the limit, at the start or once a limit
    /// is set. For an airtime bucket: the airtime of these bytes at the link's rate.
    pub burst: Bytes,
    /// Queue of its packets.
    pub leaf: Leaf,
}

/// The classes of a mechanism at one node.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Point in the node at which they are placed.
    pub point: Point,
    /// The classes.
    ///
    /// A packet belongs to its flow's class, else to its link's, else to [`Class::All`]; without any of these
    /// it passes unlimited.
    pub classes: Vec<ClassPlan>,
    /// Template for classes that an action names before they exist.
    pub template: Option<ClassPlan>,
}

impl Plan {
    /// No classes: the node's queue stays as it is.
    pub fn none() -> Self {
        Plan { point: Point::Local, classes: Vec::new(), template: None }
    }

    /// True if there is nothing to build, at the start or later.
    pub fn is_none(&self) -> bool {
        self.classes.is_empty() && self.template.is_none()
    }
}
