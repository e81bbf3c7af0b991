//! Packets passed to the MAC, and its report on each.

use fairmesh_phy::Rate;
use fairmesh_units::Span;

/// A link of the medium: an index handed out by [`Air::link`](crate::Air::link).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// A packet passed to the MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The upper layer's handle.
    pub packet: u32,
    /// Link; `None` broadcasts at the lowest basic rate, once and unacknowledged.
    pub link: Option<LinkId>,
    /// Length of the IP datagram.
    pub bytes: u32,
}

/// Outcome of a packet in the MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The receiver acknowledged it, or it was a broadcast.
    Sent,
    /// Retry limit reached; the receiver did not get the packet.
    Lost,
    /// Retry limit reached because acknowledgements were lost; the receiver has the packet.
    Unconfirmed,
}

/// Transmit status of one packet, reported when the MAC has finished it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendReport {
    /// The packet.
    pub packet: Outgoing,
    /// Outcome.
    pub outcome: Outcome,
    /// Data frames put on the air that carried it.
    pub data_attempts: u32,
    /// RTS frames put on the air for the packet.
    pub rts_attempts: u32,
    /// Rate of the last data frame.
    pub rate: Rate,
    /// Medium time of all its frames (RTS, data) and of the responses to them (CTS, ACK).
    ///
    /// For shared frames, its share by length.
    pub airtime: Span,
    /// Time from the moment the MAC took it.
    pub service: Span,
}

/// Rate of one attempt, as a rate series gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AttemptRate {
    /// Rate of the data frame.
    pub rate: Rate,
    /// True if no attempt follows when this one is not answered.
    pub last: bool,
}
