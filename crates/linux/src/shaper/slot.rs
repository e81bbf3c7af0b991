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
    pub const MAX: ClassId = ClassId(65_000);
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
