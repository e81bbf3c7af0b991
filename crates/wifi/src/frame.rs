//! Frames on the air.

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

/// The last transmission of a station; times in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmission {
    /// Last bit.
    pub end: u64,
    /// Duration field.
    pub nav: u64,
    /// Time on the air.
    pub air: u64,
    /// Length of the PSDU.
    pub bytes: u32,
    /// Receiving station.
    pub to: u32,
    pub rate: Rate,
    pub kind: FrameKind,
    /// True until its last bit.
    pub on_air: bool,
}

/// A frame as its transmitter sends it.
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
    /// Content of a BlockAck; `None` in every other frame.
    pub block_ack: Option<BlockAck>,
    /// Access category; for a response, that of the frame to which it responds.
    pub access: Access,
}

/// The content of a BlockAck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockAck {
    /// The sequence number of the first bit.
    pub first: u16,
    /// One bit per MPDU that the receiver has, least significant bit first.
    pub bitmap: [u64; 4],
}

/// An MPDU in a data frame, or one packet of its A-MSDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnAirMpdu {
    /// The upper layer's packet.
    pub packet: u32,
    /// Length, header and FCS included.
    pub bytes: u32,
    /// Sequence number, 0..4096.
    pub sequence: u16,
    /// True if the Retry bit is set.
    pub retry: bool,
    /// Position of the packet in an A-MSDU, if the MPDU carries one.
    ///
    /// Each of its packets then has an entry.
    pub subframe: Option<Subframe>,
}

/// A part of an A-MSDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subframe {
    /// Index, from 0.
    pub index: u16,
    /// Number of subframes.
    pub count: u16,
}
