//! Classes by number and direction.

use serde::{Deserialize, Serialize};

/// A subscriber's number, the same in both directions.
///
/// It is constant for as long as the subscriber is known. [`ClassId::ALL`] stands for all subscribers of a
/// direction together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub u16);

impl ClassId {
    /// All subscribers of a direction together: its limit is the aggregate limit.
    pub const ALL: ClassId = ClassId(0);
    /// Largest number of a subscriber.
    pub const MAX: ClassId = ClassId(64_000);
    /// Numbers per group; the numbers below it belong to no group.
    ///
    /// This limits the classes of one queueing discipline, since the kernel walks all of them to make another.
    pub const GROUP: u16 = 1024;

    /// Returns the group of a number, from 1; `None` for the first numbers.
    pub const fn group(self) -> Option<u16> {
        match self.0 / ClassId::GROUP {
            0 => None,
            group => Some(group),
        }
    }

    /// True if the kernel keeps this number's queue in another list than the groups' trees.
    ///
    /// The kernel has an interface's qdiscs in sixteen lists and searches the trees' list at each change of a class.
    /// Numbers in groups should satisfy this.
    pub const fn is_swift(self) -> bool {
        self.group().is_none() || file(self.0) != ClassId::TREES
    }

    /// List of the kernel that holds the groups' trees.
    pub(crate) const TREES: u32 = 15;
}

/// Returns the kernel's list of a qdisc by its handle's major number.
///
/// It is `qdisc_hash` of 4 bits, by `hash_32`.
pub(crate) const fn file(major: u16) -> u32 {
    ((major as u32) << 16).wrapping_mul(0x61c8_8647) >> 28
}

/// Direction of traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Into the mesh: shaped on the mesh side.
    Down,
    /// Out of the mesh: shaped on the wired side.
    Up,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Down, Direction::Up];

    /// Returns the index of this direction in an array of both.
    pub const fn index(self) -> usize {
        match self {
            Direction::Down => 0,
            Direction::Up => 1,
        }
    }

    /// Returns the interface on which this direction leaves the gateway.
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

/// A class in one direction: of a subscriber, or of all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Subscriber.
    pub class: ClassId,
    /// Direction.
    pub direction: Direction,
}
