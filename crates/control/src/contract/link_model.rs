//! A host's model of its radio: the loads that links can carry together.
//!
//! The arithmetic of the DCF belongs to the radio. A mechanism that needs it gets it from its host
//! ([`crate::Setting::model`], [`crate::Knowledge::LinkModel`]) and stays independent of radios.
//! Its questions contain only values that the mechanism has learned itself.

use core::fmt::Debug;

use fairmesh_units::{BitRate, NodeId};

use crate::Link;

/// A link in a question to the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadedLink {
    /// Ends of the link.
    pub link: Link,
    /// Nominal rate of the link.
    pub rate: BitRate,
    /// Probability that an attempt at a data frame survives the channel, collisions apart.
    pub delivery: f64,
}

/// Frames of one kind on one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameStream {
    /// Index of the link.
    pub link: usize,
    /// Index of the earlier stream that this one forwards or acknowledges.
    ///
    /// `None` at a source, or if it is not known.
    pub after: Option<usize>,
}

/// Load of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FrameLoad {
    /// Packets that arrive at the sender's queue, in 1/s.
    pub packets: f64,
    /// Mean size of the IP packet, in bytes.
    pub bytes: u32,
}

/// Model of a radio's MAC.
///
/// It measures nothing: all knowledge of other nodes is passed to it.
pub trait LinkModel: Debug + Send + Sync {
    /// Returns the probability that a data frame on an own link is received, without collisions.
    ///
    /// `bytes` is the size of the IP packet. Probes of a routing protocol measure this value (ETX).
    fn delivery(&self, link: Link, bytes: u32) -> f64;

    /// Prepares these links: computes everything that depends on the graph alone.
    ///
    /// `in_range` are pairs of nodes in each other's range. Returns `None` if the links are too many or
    /// inconsistent.
    fn prepare(
        &self,
        links: &[LoadedLink],
        in_range: &[(NodeId, NodeId)],
        streams: &[FrameStream],
    ) -> Option<Box<dyn LinkRates>>;
}

/// Reason for which a model has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// The loads exceed the capacity.
    Beyond,
    /// The model's equations did not converge, so the answer is unknown.
    NotSettled,
    /// An assumption of the model does not hold on these links.
    Outside,
}

/// Links with loads that can be evaluated.
pub trait LinkRates: Debug + Send {
    /// Returns the largest share of time for which a sender's queue is busy.
    ///
    /// It is Σ λ E\[S\] over the sender's links (Rangwala 2008 §3.2). Takes one load per stream.
    ///
    /// # Errors
    /// The reason for which the model has no answer.
    fn busiest(&mut self, loads: &[FrameLoad]) -> Result<f64, NoAnswer>;

    /// Returns the share of time that all frames take one after the other, without collisions.
    ///
    /// It must be below 1 if no two of the links are ever active at once. It serves as a fallback
    /// if [`LinkRates::busiest`] has no answer.
    fn airtime(&self, loads: &[FrameLoad]) -> f64;
}
