//! Inputs and results of a region, and its errors.

use core::fmt;

use fairmesh_phy::Phy;
use fairmesh_units::NodeId;

use super::independent_sets::{MAX_LINKS, MAX_STEPS};
use crate::domain::UnknownNode;
use crate::fair::{FairError, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;

/// Number of attempts at a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Retries {
    /// Until it arrives, as in the paper (Rangwala 2008 §4.3).
    ///
    /// No frame is lost, and the boundary is where queues grow without limit.
    #[default]
    Unlimited,
    /// Up to the MAC's limits.
    ///
    /// Packets are dropped, so queues stay stable longer and fewer packets arrive.
    Mac,
}

/// Criteria of achievability.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Largest share of time for which a node's queue may be busy: the paper's U.
    pub utilisation: f64,
    /// Attempts per frame.
    pub retries: Retries,
    /// Largest share of a flow's packets that may be dropped on the path.
    pub loss: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { utilisation: 1.0, retries: Retries::Unlimited, loss: 0.05 }
    }
}

/// Links in use, the range relation, and the frames that cross the links.
#[derive(Clone, Copy, Debug)]
pub struct LinkMesh<'a, L> {
    /// The physical layer of all nodes: its MAC constants are the model's.
    pub phy: &'a Phy,
    /// With or without RTS/CTS.
    pub access: Access,
    /// By node id, the nodes in range: it senses their frames, which destroy its receptions.
    pub in_range: &'a [L],
    /// The links in use, one direction each.
    ///
    /// `delivery` is the probability that an attempt at a data frame survives the channel, without
    /// collisions.
    pub links: &'a [LinkSpec],
    /// Frames that cross them: at least one stream for each link with a load.
    pub streams: &'a [Stream],
    /// Criteria of achievability. Losses are ignored: loads are arrivals.
    pub settings: Settings,
}

/// Frames of one kind that cross one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The index of the link.
    pub link: usize,
    /// Index of the earlier stream that supplies its frames.
    ///
    /// It is the previous hop, or for acknowledgments the data's last hop. `None` if unknown, or at a source.
    pub after: Option<usize>,
}

/// Load of a stream.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Frames that arrive at the sender's queue, in 1/s.
    pub frames: f64,
    /// Mean PSDU of a data frame in bytes, MAC header and FCS included.
    pub psdu: u32,
}

/// A link under the given rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkState {
    /// Frames that arrive at its queue, in 1/s.
    pub arrivals: f64,
    /// Share of attempts that get no CTS, or that collide without RTS/CTS.
    pub refused: f64,
    /// Probability that a data frame is lost although its receiver was ready.
    pub lost: f64,
    /// Attempts per frame.
    pub attempts: f64,
    /// E\[S\]: time from the head of the queue to completion, in s.
    pub service: f64,
    /// Probability that a frame is dropped.
    pub dropped: f64,
}

/// A sending node under the given rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeState {
    /// The node.
    pub node: NodeId,
    /// Share of the time without own transmissions in which it finds the medium idle.
    pub idle: f64,
    /// Σ λ E\[S\] over its outgoing links.
    pub utilisation: f64,
}

/// The network under the given rates.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// By link, in the order of [`super::Region::hops`].
    pub links: Vec<LinkState>,
    /// By sending node.
    pub nodes: Vec<NodeState>,
    /// By flow, the share of its packets that is dropped on the path.
    pub loss: Vec<f64>,
}

impl State {
    /// Returns true if no node's queue is busy for more than this share of the time.
    pub fn stable(&self, utilisation: f64) -> bool {
        self.nodes.iter().all(|v| v.utilisation <= utilisation)
    }
}

/// Reason for the absence of a state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NoState {
    /// The rates are beyond the boundary.
    ///
    /// No schedule carries the frames, or attempts grow until a queue would need more than twice
    /// the available time.
    Beyond,
    /// The equations neither converge nor diverge: the state is unknown.
    NotSettled {
        /// Number of rounds that were run.
        rounds: usize,
        /// Largest change of a probability in the last round.
        moved: f64,
        /// Largest Σ λ E\[S\] in the last round.
        utilisation: f64,
    },
    /// An assumption of the model does not hold on this network.
    Outside(Outside),
}

/// The assumption that does not hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outside {
    /// Without RTS/CTS.
    ///
    /// Frames of two mutually hidden senders are too long for the largest window. Once they have collided,
    /// they collide repeatedly, both queues fill together, and processes that the model treats as independent
    /// are not.
    LongFrames {
        /// One of the two links.
        one: Hop,
        /// The other.
        other: Hop,
        /// Probability that they collide again with the largest window.
        again: f64,
    },
}

impl fmt::Display for NoState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoState::Beyond => f.write_str("the rates are beyond the boundary"),
            NoState::NotSettled { rounds, moved, utilisation } => write!(
                f,
                "the equations did not settle: after {rounds} rounds a probability still moves by \
                 {moved:.1e}, with the busiest queue at {utilisation:.2}"
            ),
            NoState::Outside(Outside::LongFrames { one, other, again }) => write!(
                f,
                "the model does not hold: without RTS/CTS frames from {} to {} and from {} to {} that \
                 have met meet again with probability {again:.2}, of at most {MEET_AGAIN:.2}",
                one.from.0, one.to.0, other.from.0, other.to.0
            ),
        }
    }
}
impl core::error::Error for NoState {}

/// Maximum probability that frames of hidden senders collide again with the largest window.
///
/// Above it a collision lasts longer than the time until the next frame, and the model is wrong by
/// factors (docs/notes/2026-11-region-validation.md).
pub const MEET_AGAIN: f64 = 0.5;

/// Reason for the absence of a region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RegionError {
    /// The network or a flow is invalid.
    Fair(FairError),
    /// U outside (0, 1], or a loss outside [0, 1).
    BadSettings,
    /// A stream names a link that does not exist, or follows one that comes later.
    BadStream(usize),
    /// Too many links, or too many steps for the sums over sets of active links.
    TooLarge {
        /// Number of links that flows use.
        links: usize,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionError::Fair(e) => e.fmt(f),
            RegionError::BadSettings => {
                f.write_str("the region needs a utilisation above 0, at most 1, and a loss below 1")
            }
            RegionError::BadStream(i) => write!(
                f,
                "stream {i} has to be on one of the links, and after an earlier stream if any"
            ),
            RegionError::TooLarge { links } => write!(
                f,
                "gave up on the achievable rate region: {links} links, or the steps that sum over \
                 those that can be on together, are too many (at most {} links, {} steps); \
                 collision domains and cliques remain",
                MAX_LINKS, MAX_STEPS
            ),
        }
    }
}
impl core::error::Error for RegionError {}

impl From<FairError> for RegionError {
    fn from(e: FairError) -> Self {
        RegionError::Fair(e)
    }
}
impl From<UnknownNode> for RegionError {
    fn from(e: UnknownNode) -> Self {
        RegionError::Fair(e.into())
    }
}
