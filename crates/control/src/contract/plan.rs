//! The classes that a host builds for a mechanism before it starts.
//!
//! Flat on purpose: a list of classes at one point of the node, each with a limit and a queue.
//! The simulator makes it a token bucket or a class tree, a router makes it HTB classes with leaf
//! disciplines and `nftables` rules; `docs/control.md` has the table.

use fairmesh_units::{BitRate, Bytes};

use crate::{Class, Share};

/// Where in the node the classes stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Data of flows sourced at this node, before it joins the radio's queue. Forwarded data and
    /// acknowledgements pass untouched.
    Local,
    /// Data of flows that cross this node in either direction; at a gateway that is all data
    /// between mesh and backhaul. Acknowledgements, routing and other housekeeping pass untouched
    /// (Jamshaid 2010 §6.2.3).
    Transit,
    /// Everything the radio sends: the classes replace its transmit queue.
    Interface,
}

/// What a class may send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// Whatever it likes, until a rate is set.
    None,
    /// A rate of IP bytes.
    Rate(BitRate),
    /// A share of the airtime.
    Airtime(Share),
}

/// How packets wait in a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// One drop-tail queue.
    DropTail {
        /// Its size.
        packets: u32,
    },
    /// A buffer per flow, served round robin by bytes.
    Fair {
        /// Size of each buffer.
        packets: u32,
    },
    /// Random early detection.
    Red {
        /// Hard limit.
        packets: u32,
        /// Mark ECN-capable packets instead of dropping them early.
        ecn: bool,
    },
    /// Flow random early drop.
    Fred {
        /// Hard limit.
        packets: u32,
    },
}

/// One class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClassPlan {
    /// Which traffic it takes. In a template: any class of the same kind.
    pub class: Class,
    /// What it may send.
    pub limit: Limit,
    /// What may leave back to back: the size of the token bucket that enforces the limit, now or
    /// once one is set. Of an airtime bucket: the airtime of these bytes at the link's rate.
    pub burst: Bytes,
    /// Where its packets wait.
    pub leaf: Leaf,
}

/// The classes of a mechanism at one node.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Where they stand.
    pub point: Point,
    /// The classes. A packet belongs to its flow's class, else its link's, else [`Class::All`],
    /// else it passes untouched.
    pub classes: Vec<ClassPlan>,
    /// For classes that are named by an action before they exist.
    pub template: Option<ClassPlan>,
}

impl Plan {
    /// No classes: the node's queue stays as it is.
    pub fn none() -> Self {
        Plan { point: Point::Local, classes: Vec::new(), template: None }
    }

    /// Whether there is nothing to build, now or later.
    pub fn is_none(&self) -> bool {
        self.classes.is_empty() && self.template.is_none()
    }
}
