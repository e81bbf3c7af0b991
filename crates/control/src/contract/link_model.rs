//! What a host knows of its radio: which loads links can carry together.
//!
//! The arithmetic of the DCF lives where the radio does; a mechanism that decides by it gets it
//! from its host ([`crate::Setting::model`], [`crate::Knowledge::LinkModel`]) and stays free of
//! radios. It asks only with what it has learned itself.

use core::fmt::Debug;

use fairmesh_units::{BitRate, NodeId};

use crate::Link;

/// A link as the question has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadedLink {
    /// Its ends.
    pub link: Link,
    /// Its nominal rate.
    pub rate: BitRate,
    /// Probability that an attempt at a data frame survives the channel, collisions apart.
    pub delivery: f64,
}

/// Frames of one kind on one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameStream {
    /// Index of the link.
    pub link: usize,
    /// The stream, earlier in the list, whose frames are passed on or answered by these; `None` at
    /// a source, and where it is not known.
    pub after: Option<usize>,
}

/// How much a stream carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FrameLoad {
    /// Packets that arrive at the sender's queue, 1/s.
    pub packets: f64,
    /// Mean size of the IP packet, bytes.
    pub bytes: u32,
}

/// A radio's MAC as a model: no measurement, and nothing about other nodes but what it is told.
pub trait LinkModel: Debug + Send + Sync {
    /// Probability that an attempt at a data frame with an IP packet of so many bytes on an own link
    /// survives the channel, collisions apart: what probes of a routing protocol measure (ETX).
    fn delivery(&self, link: Link, bytes: u32) -> f64;

    /// Prepares for questions about these links; everything that depends on the graph only is
    /// worked out here. `hears` are pairs of nodes in each other's range. `None` where the links
    /// are too many, or make no sense.
    fn prepare(
        &self,
        links: &[LoadedLink],
        hears: &[(NodeId, NodeId)],
        streams: &[FrameStream],
    ) -> Option<Box<dyn LinkRates>>;
}

/// Why a model has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// The loads are more than can be carried.
    Beyond,
    /// Its equations did not settle: it does not know.
    NotSettled,
    /// Something that it assumes is not so on these links.
    Outside,
}

/// Links whose loads can be asked about.
pub trait LinkRates: Debug + Send {
    /// The largest share of time for which a sender's queue is busy, Σ λ E\[S\] over its links
    /// (Rangwala 2008 §3.2). One load per stream.
    ///
    /// # Errors
    /// Why there is none.
    fn busiest(&mut self, loads: &[FrameLoad]) -> Result<f64, NoAnswer>;

    /// The share of time that all frames take one after the other, without collisions: it has to be
    /// below 1 where no two of the links are ever on at once. What remains where
    /// [`LinkRates::busiest`] does not know.
    fn airtime(&self, loads: &[FrameLoad]) -> f64;
}
