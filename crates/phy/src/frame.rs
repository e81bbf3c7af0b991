//! Sizes of frames, bytes: headers, control frames, A-MSDU and A-MPDU subframes.

/// Size of a unicast data frame's MAC header and FCS, in bytes.
///
/// The header has three addresses, no QoS and no HT control.
pub const DATA_OVERHEAD: u32 = 28;
/// Bytes of a QoS data frame's MAC header and FCS; MPDUs of 802.11n and later are QoS data.
pub const QOS_OVERHEAD: u32 = 30;
/// Bytes of a compressed BlockAck frame with a bitmap of 64 (IEEE 802.11-2020 §9.3.1.8.2).
pub const BLOCK_ACK: u32 = 32;
/// Bytes of a compressed BlockAck frame with a bitmap of 256 (IEEE 802.11ax-2021 §9.3.1.8.2).
pub const BLOCK_ACK_256: u32 = 56;
/// Bytes of the delimiter before each MPDU of an A-MPDU (IEEE 802.11-2020 §9.7.1).
pub const DELIMITER: u32 = 4;
/// Bytes of the LLC/SNAP header in front of an IP datagram. ns-2 has none.
pub const LLC_SNAP: u32 = 8;
/// Bytes of an ACK frame.
pub const ACK: u32 = 14;
/// Bytes of a CTS frame.
pub const CTS: u32 = 14;
/// Bytes of an RTS frame.
pub const RTS: u32 = 20;
/// Bytes of an A-MSDU subframe header: destination, source, length.
///
/// IEEE 802.11-2020 §9.3.2.2.2.
pub const SUBFRAME_HEADER: u32 = 14;
/// Longest MPDU in an A-MPDU of 802.11n, bytes: its delimiter has 12 bits for the length.
///
/// §9.7.1.
pub const LONGEST_MPDU_IN_HT_AMPDU: u32 = 4095;

/// Returns the length of an A-MPDU of `bytes` bytes with one more MPDU of `mpdu` bytes.
///
/// Every subframe except the last is padded to a multiple of four (IEEE 802.11-2020 §9.7.1).
#[inline]
pub const fn extended_ampdu(bytes: u32, mpdu: u32) -> u32 {
    bytes.next_multiple_of(4) + DELIMITER + mpdu
}

/// Returns the length of an A-MSDU of `body` bytes with one more packet of `msdu` bytes.
///
/// The packet includes its LLC header.
///
/// Every subframe except the last is padded to a multiple of four (IEEE 802.11-2020 §9.3.2.2.2).
#[inline]
pub const fn extended_amsdu(body: u32, msdu: u32) -> u32 {
    body.next_multiple_of(4) + SUBFRAME_HEADER + msdu
}
