//! Packets on their way into an A-MPDU.

use crate::airtime::DELIMITER;
use crate::packet::Outgoing;

/// Packets for one frame, as the layer above offers them.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(crate) taken: &'a mut Vec<Outgoing>,
    /// Bytes that each MPDU has beside its packet.
    pub(crate) overhead: u32,
    /// Length of the A-MPDU so far, without padding at its end.
    pub(crate) bytes: u32,
    pub(crate) most_bytes: u32,
    pub(crate) most: usize,
}

impl Batch<'_> {
    /// Whether a packet of this many bytes still fits.
    #[inline]
    pub fn fits(&self, bytes: u32) -> bool {
        self.taken.len() < self.most && self.with(bytes + self.overhead) <= self.most_bytes
    }

    /// Takes a packet that fits.
    #[inline]
    pub fn take(&mut self, packet: Outgoing) {
        debug_assert!(self.fits(packet.bytes));
        self.bytes = self.with(packet.bytes + self.overhead);
        self.taken.push(packet);
    }

    #[inline]
    fn with(&self, mpdu: u32) -> u32 {
        grown(self.bytes, mpdu)
    }
}

/// The length of an A-MPDU of `bytes` bytes with one more MPDU. Every subframe but the last is padded to
/// a multiple of four (IEEE 802.11-2020 §9.7.1).
#[inline]
pub(crate) fn grown(bytes: u32, mpdu: u32) -> u32 {
    bytes.next_multiple_of(4) + DELIMITER + mpdu
}
