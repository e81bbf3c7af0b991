//! Interframe spaces, contention windows, retry limits, and the control frames of each rate.

use fairmesh_units::Span;

use crate::rates::Rate;

/// Interframe spaces, contention windows and retry limits of a PHY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhyTiming {
    /// Slot time.
    pub slot: Span,
    /// Short interframe space.
    pub sifs: Span,
    /// DCF interframe space: SIFS and two slots.
    pub difs: Span,
    /// Extended interframe space: SIFS, an ACK at the lowest basic rate, DIFS.
    pub eifs: Span,
    /// Smallest contention window; a first backoff is uniform in `0..=cw_min` slots.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// Attempts for an RTS, or for a frame sent without one (dot11ShortRetryLimit).
    pub short_retry_limit: u32,
    /// Attempts for a data frame sent after RTS/CTS (dot11LongRetryLimit).
    pub long_retry_limit: u32,
}

impl PhyTiming {
    /// Returns the contention window after a failed attempt: 2(CW + 1) − 1, at most `cw_max`.
    pub const fn next_cw(&self, cw: u32) -> u32 {
        let doubled = 2 * cw + 1;
        if doubled < self.cw_max { doubled } else { self.cw_max }
    }
}

/// Control frames for data at one rate, precomputed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// Rate of the ACK, the BlockAck and the CTS.
    pub rate: Rate,
    /// Rate of the RTS, by the same rule.
    pub rts_rate: Rate,
    /// Duration of an ACK.
    pub ack: Span,
    /// Duration of a BlockAck.
    pub block_ack: Span,
    /// Longest PSDU of a frame that lasts at most 5.484 ms at an MCS, bytes; 0 at other rates.
    pub longest_psdu: u32,
    /// Duration of the CTS that responds to the RTS.
    pub cts: Span,
    /// Duration of an RTS.
    pub rts: Span,
    /// Time from the end of a frame until the sender gives up waiting for the start of the ACK.
    ///
    /// SIFS + slot + aRxPHYStartDelay (IEEE 802.11-2020 §10.3.2.11).
    ///
    /// 222 µs for 802.11b with the long preamble, for an ACK at 1 or at 2 Mbit/s, because only its
    /// preamble and header (192 µs) count. If no reception has begun by then, the attempt has
    /// failed, and the next backoff may begin a DIFS after the timeout: 272 µs after the end of the
    /// frame, while stations that sensed the same collision wait EIFS (364 µs).
    pub ack_timeout: Span,
    /// Time from the end of the RTS until the sender gives up waiting for a CTS.
    ///
    /// Equals `ack_timeout`.
    pub cts_timeout: Span,
}
