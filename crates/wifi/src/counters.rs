//! What a driver counts.

use fairmesh_units::Span;

/// Frames of one station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacCounters {
    /// Unicast data frames put on the air, retries included.
    pub data: u64,
    /// MPDUs in them.
    pub mpdus: u64,
    /// RTS frames put on the air.
    pub rts: u64,
    /// CTS frames put on the air.
    pub cts: u64,
    /// ACK frames put on the air.
    pub ack: u64,
    /// BlockAck frames put on the air.
    pub block_ack: u64,
    /// Broadcast frames put on the air.
    pub broadcast: u64,
    /// Own RTS and data frames that got no answer in time.
    pub timeouts: u64,
    /// Frames that lost the medium to a higher category of their own station.
    pub internal_collisions: u64,
    /// Packets given up after the retry limit.
    pub gave_up: u64,
    /// Decodable frames locked on and lost to other energy.
    pub collided: u64,
    /// Frames lost to the error process of their link.
    pub errored: u64,
    /// MPDUs lost of A-MPDUs that were locked on, whoever they were for.
    pub mpdus_missed: u64,
    /// Duplicates received and not passed up.
    pub duplicates: u64,
    /// MPDUs received for this station, duplicates not counted.
    pub received: u64,
}

/// A station's time, cumulative; what is neither `busy` nor `transmit` was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelTime {
    /// All time so far.
    pub active: Span,
    /// With energy of others on the medium while the station was not transmitting itself.
    pub busy: Span,
    /// Receiving: locked on a frame whose beginning stood out, whoever it was for and whatever
    /// became of it, as a card's own counter runs. Other energy, and what one frame outlasts another
    /// by, is busy only.
    pub receive: Span,
    /// Transmitting.
    pub transmit: Span,
}
