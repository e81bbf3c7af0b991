//! What a region is asked about, what it answers, and why it may not.

use core::fmt;

use fairmesh_phy::Phy;
use fairmesh_units::NodeId;

use super::independent_sets::{MAX_LINKS, MAX_STEPS};
use crate::domain::UnknownNode;
use crate::fair::{FairError, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;

/// How often a frame is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Retries {
    /// Until it arrives, as the region of the paper has it (Rangwala 2008 §4.3): nothing is lost,
    /// and the boundary is where queues grow without end.
    #[default]
    Unlimited,
    /// As the MAC's limits have it: packets are given up, so queues last longer and less arrives.
    Mac,
}

/// What counts as achievable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The largest share of time that a node's queue may be busy: the paper's U.
    pub utilisation: f64,
    /// Attempts per frame.
    pub retries: Retries,
    /// The largest share of a flow's packets that may be given up on the way.
    pub loss: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { utilisation: 1.0, retries: Retries::Unlimited, loss: 0.05 }
    }
}

/// Links in use, who hears whom, and which frames cross them.
#[derive(Clone, Copy, Debug)]
pub struct LinkMesh<'a, L> {
    /// The physical layer of all nodes: its MAC constants are the model's.
    pub phy: &'a Phy,
    /// With or without RTS/CTS.
    pub access: Access,
    /// By node id, the nodes it hears: whose frames it senses and which spoil its receptions.
    pub hears: &'a [L],
    /// The links in use, one direction each; `delivery` is the probability that an attempt at a
    /// data frame survives the channel, collisions apart.
    pub links: &'a [LinkSpec],
    /// What crosses them: at least one stream for each link with a load.
    pub streams: &'a [Stream],
    /// What counts as achievable. Losses are not looked at: loads are what arrives.
    pub settings: Settings,
}

/// Frames of one kind that cross one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The index of the link.
    pub link: usize,
    /// The stream (an earlier one) whose frames, once received, are what is sent here: the hop
    /// before, or for acknowledgments the data's last hop. `None` where it is not known, or at a
    /// source.
    pub after: Option<usize>,
}

/// How much a stream carries.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Frames that arrive at the sender's queue, 1/s.
    pub frames: f64,
    /// Mean PSDU of a data frame in bytes, MAC header and FCS included.
    pub psdu: u32,
}

/// A link under some rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkState {
    /// Frames that arrive at its queue, 1/s.
    pub arrivals: f64,
    /// Share of the attempts that get no CTS, or without RTS/CTS collide.
    pub refused: f64,
    /// Probability that a data frame is lost although its receiver was ready.
    pub lost: f64,
    /// Attempts per frame.
    pub attempts: f64,
    /// E\[S\]: from the head of the queue until done with, s.
    pub service: f64,
    /// Probability that a frame is given up.
    pub dropped: f64,
}

/// A node that sends, under some rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeState {
    /// The node.
    pub node: NodeId,
    /// Share of the time in which it finds the medium idle, of that in which it does not send.
    pub idle: f64,
    /// Σ λ E\[S\] over its outgoing links.
    pub utilisation: f64,
}

/// The network under some rates.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// By link, in the order of [`super::Region::hops`].
    pub links: Vec<LinkState>,
    /// By sending node.
    pub nodes: Vec<NodeState>,
    /// By flow, the share of its packets that is given up on the way.
    pub loss: Vec<f64>,
}

impl State {
    /// Whether no node's queue is busy for more than this share of the time.
    pub fn stable(&self, utilisation: f64) -> bool {
        self.nodes.iter().all(|v| v.utilisation <= utilisation)
    }
}

/// Why there is no state under some rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NoState {
    /// They are beyond the boundary: no schedule carries the frames, or attempts pile up until a queue
    /// would be needed for more than twice the time there is.
    Beyond,
    /// The equations neither settle nor pile up: nothing is known of these rates.
    NotSettled {
        /// Rounds that were made.
        rounds: usize,
        /// The largest change of a probability in the last one.
        moved: f64,
        /// The largest Σ λ E\[S\] then.
        utilisation: f64,
    },
    /// An assumption of the model does not hold on this network.
    Outside(Outside),
}

/// The assumption that does not hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outside {
    /// Without RTS/CTS: frames of two senders that do not hear each other are so long beside the
    /// largest contention window that, having met, they meet again and again. Then both queues fill
    /// together, and what the model has independent is one process.
    LongFrames {
        /// One of the two links.
        one: Hop,
        /// The other.
        other: Hop,
        /// Probability that they meet again from the largest window.
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

/// From the largest window, frames of hidden senders meet again with at most this probability. Above it a
/// meeting lasts longer than it takes until the next frame comes, and the model is wrong by factors
/// (docs/models/region-validation.md).
pub const MEET_AGAIN: f64 = 0.5;

/// Why there is no region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RegionError {
    /// The network or a flow is wrong.
    Fair(FairError),
    /// U outside (0, 1], or a loss outside [0, 1).
    BadSettings,
    /// A stream names a link that there is not, or follows one that comes later.
    BadStream(usize),
    /// So many links, or the steps that sum over those that can be on together, are too many.
    TooLarge {
        /// Links that flows use.
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
