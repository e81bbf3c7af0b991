//! Frames that wait at the stations, and counters.

use std::collections::VecDeque;

use fairmesh_wifi::Access;

/// Counters of one station.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StationCounters {
    /// Data frames taken from the kernel.
    pub data: u64,
    /// Management and other frames taken from the kernel.
    pub management: u64,
    /// Bytes of all of them, with FCS.
    pub bytes: u64,
    /// Frames with a positive status.
    pub delivered: u64,
    /// Frames given up.
    pub lost: u64,
    /// Frames passed to the kernel as received.
    pub received: u64,
    /// Frames that the medium holds now.
    pub in_flight: u64,
    /// Most frames that it held at once.
    pub most_in_flight: u64,
    /// Frames that were not valid, or that no station could send.
    pub invalid: u64,
}

/// One station.
#[derive(Clone, Debug, Default)]
pub(crate) struct Station {
    /// Frames by access category; all in best effort unless stations have several.
    pub queues: [VecDeque<u32>; Access::COUNT],
    /// TID of the frame last taken from each queue; `None` for a frame that no A-MPDU carries.
    pub serving: [Option<u8>; Access::COUNT],
    pub counters: StationCounters,
}
