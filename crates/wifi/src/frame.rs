//! Frames as they are on the air.

use fairmesh_phy::Rate;
use fairmesh_units::{NodeId, Span, Time};

use crate::access::Access;

/// Kinds of frame on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Data, unicast or broadcast.
    Data,
    /// Acknowledgement.
    Ack,
    /// Request to send.
    Rts,
    /// Clear to send.
    Cts,
    /// Block acknowledgement.
    BlockAck,
    /// An interferer's energy; not a frame.
    Noise,
}

/// A frame as its transmitter puts it on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnAir {
    /// First bit of the preamble.
    pub start: Time,
    /// Last bit.
    pub end: Time,
    /// Kind.
    pub kind: FrameKind,
    /// Transmitter.
    pub from: NodeId,
    /// Receiver; `None` for broadcast and noise.
    pub to: Option<NodeId>,
    /// Rate.
    pub rate: Rate,
    /// Length of the PSDU: of the MPDU, header and FCS included, where the frame carries one.
    pub bytes: u32,
    /// Duration field.
    pub nav: Span,
    /// What a BlockAck says; `None` in every other frame.
    pub block_ack: Option<BlockAck>,
    /// The category that it goes by; of an answer, that of what it answers.
    pub access: Access,
}

/// The content of a BlockAck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockAck {
    /// The sequence number that the first bit is of.
    pub first: u16,
    /// A bit for each MPDU that the receiver has, from the least significant one on.
    pub bitmap: [u64; 4],
}

/// An MPDU inside a data frame, or one packet of several in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnAirMpdu {
    /// The upper layer's packet.
    pub packet: u32,
    /// Length, header and FCS included.
    pub bytes: u32,
    /// Sequence number, 0..4096.
    pub sequence: u16,
    /// The Retry bit.
    pub retry: bool,
    /// Where the MPDU carries an A-MSDU: which part of it the packet is. Each of its packets then has an entry.
    pub subframe: Option<Subframe>,
}

/// A part of an A-MSDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subframe {
    /// Its place, from 0.
    pub index: u16,
    /// Subframes in all.
    pub count: u16,
}
