//! Classes by number and direction.

use serde::{Deserialize, Serialize};

/// A subscriber's number, the same in both directions and for as long as the subscriber is known.
/// [`ClassId::ALL`] stands for all subscribers of a direction together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub u16);

impl ClassId {
    /// All subscribers of a direction together: its limit is the aggregate's.
    pub const ALL: ClassId = ClassId(0);
    /// The largest number of a subscriber.
    pub const MAX: ClassId = ClassId(64_000);
    /// So many numbers are a group, but those below it, which are none: one queueing discipline of the kernel
    /// holds so many classes at most, since each that is made walks all that are there.
    pub const GROUP: u16 = 1024;

    /// The group of a number, from 1; `None` for the first ones.
    pub const fn group(self) -> Option<u16> {
        match self.0 / ClassId::GROUP {
            0 => None,
            group => Some(group),
        }
    }

    /// Whether the kernel files this number's queue apart from the groups' trees, which it looks for at each change
    /// of a class: it knows an interface's qdiscs by sixteen lists. Numbers in groups should be such ones.
    pub const fn is_swift(self) -> bool {
        self.group().is_none() || file(self.0) != ClassId::TREES
    }

    /// The list with the groups' trees.
    pub(crate) const TREES: u32 = 15;
}

/// In which list a device's qdisc is, by its handle's major number (`qdisc_hash` of 4 bits, `hash_32`).
pub(crate) const fn file(major: u16) -> u32 {
    ((major as u32) << 16).wrapping_mul(0x61c8_8647) >> 28
}

/// Which way traffic flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Into the mesh: shaped on the mesh side.
    Down,
    /// Out of the mesh: shaped on the wired side.
    Up,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Down, Direction::Up];

    /// Where it is in an array of both.
    pub const fn index(self) -> usize {
        match self {
            Direction::Down => 0,
            Direction::Up => 1,
        }
    }

    /// The interface on which this direction leaves the gateway.
    pub const fn egress(self) -> Side {
        match self {
            Direction::Down => Side::Mesh,
            Direction::Up => Side::Wired,
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Direction::Down => "down",
            Direction::Up => "up",
        })
    }
}

/// One of the gateway's two interfaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Towards the mesh.
    Mesh,
    /// Towards the Internet.
    Wired,
}

/// One class: a subscriber (or all of them) in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Whose.
    pub class: ClassId,
    /// Which way.
    pub direction: Direction,
}
