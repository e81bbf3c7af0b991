//! Subscribers that share at a gateway, and the direction of their flows.

use fairmesh_units::{BitRate, NodeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The subscribers of a scenario; empty if flows share individually.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Subscribers {
    /// Subscribers; each flow is in at most one of them.
    pub list: Vec<Subscriber>,
    /// Queueing of the packets of several flows in their shared class.
    pub leaf: SharedLeaf,
}

/// A home: flows with a common share in each direction, as in the gateway's daemon.
#[derive(Clone, PartialEq, Debug)]
pub struct Subscriber {
    /// Unique name among subscribers.
    pub name: String,
    /// Share relative to other subscribers, in each direction.
    pub weight: f64,
    /// Share from the gateway into the mesh.
    pub down: Share,
    /// Share from the mesh to the gateway.
    pub up: Share,
}

/// Share of a subscriber in one direction.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Share {
    /// Indices of the scenario's flows, ascending.
    pub flows: Vec<usize>,
    /// Maximum total rate of these flows, in IP bytes; positive.
    pub ceiling: Option<BitRate>,
    /// Guaranteed total rate of these flows, in IP bytes; at most the ceiling.
    pub guarantee: Option<BitRate>,
}

/// Queueing of the packets of several flows in their common class at a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SharedLeaf {
    /// A buffer per flow of as many full packets as the control requests, served in turn.
    ///
    /// It is the fair queueing of the daemon's `shaping.leaf = "best"` within each class.
    #[default]
    Fq,
    /// One queue as the control requests it: the daemon's `shaping.leaf = "control"`.
    Control,
    /// The daemon's `shaping.leaf = "fq_codel"`, for single flows, too.
    ///
    /// CoDel drops by waiting time, at departure.
    #[serde(rename = "fq_codel")]
    FqCodel,
}

impl Subscriber {
    /// Returns its flows of both directions, downstream first.
    pub fn flows(&self) -> impl Iterator<Item = usize> + '_ {
        self.down.flows.iter().chain(&self.up.flows).copied()
    }

    /// Returns both directions, downstream first.
    pub fn shares(&self) -> [&Share; 2] {
        [&self.down, &self.up]
    }
}

/// Crossing of a gateway by a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Crossing {
    /// The gateway.
    pub gateway: NodeId,
    /// Mesh node at the flow's end in the mesh.
    pub home: NodeId,
    /// True if data flows into the mesh.
    pub down: bool,
}

/// Returns the crossing of a gateway by a path.
///
/// `None` if the path does not cross it, or is in the mesh on both sides of it.
pub(crate) fn crossing(
    path: &[NodeId],
    gateway: NodeId,
    wired: impl Fn(NodeId, NodeId) -> bool,
) -> Option<Crossing> {
    let at = path.iter().position(|&n| n == gateway)?;
    let radio: Vec<usize> = (1..path.len()).filter(|&i| !wired(path[i - 1], path[i])).collect();
    let (first, last) = (*radio.first()?, *radio.last()?);
    if last <= at {
        Some(Crossing { gateway, home: path[first - 1], down: false })
    } else if first > at {
        Some(Crossing { gateway, home: path[last], down: true })
    } else {
        None
    }
}
