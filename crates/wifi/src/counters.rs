//! MAC counters, as a driver keeps them.

use fairmesh_units::Span;

/// Frames of one station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacCounters {
    /// Unicast data frames put on the air, retries included.
    pub data: u64,
    /// MPDUs in these frames.
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
    /// Own RTS and data frames without a response in time.
    pub timeouts: u64,
    /// Frames that lost an internal collision to a higher category of the same station.
    pub internal_collisions: u64,
    /// Packets dropped after the retry limit.
    pub gave_up: u64,
    /// Decodable frames locked on and lost to other energy.
    pub collided: u64,
    /// Frames lost to the error process of their link.
    pub errored: u64,
    /// MPDUs lost from locked A-MPDUs, for any receiver.
    pub mpdus_missed: u64,
    /// Duplicates received and not passed up.
    pub duplicates: u64,
    /// MPDUs received for this station, duplicates not counted.
    pub received: u64,
}

/// A station's cumulative time by channel state; time neither `busy` nor `transmit` was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelTime {
    /// Total time so far.
    pub active: Span,
    /// Time with energy of other stations on the medium while the station was not transmitting.
    pub busy: Span,
    /// Time locked on a frame that hardware detects, for any receiver and any outcome.
    ///
    /// Other energy, and the time by which one frame outlasts another, counts as `busy` only.
    pub receive: Span,
    /// Time transmitting.
    pub transmit: Span,
}
