//! A-MSDUs: several packets for one receiver in one MPDU, delivered or lost together.
//!
//! IEEE 802.11-2020 §9.3.2.2 and §10.11.

use fairmesh_phy::Modern;
use fairmesh_phy::frame::{QOS_OVERHEAD, SUBFRAME_HEADER};

use crate::mpdu::Mpdu;
use crate::packet::Outgoing;
use crate::reorder::SEQUENCE_MASK;

/// Mask of sequence numbers that have separate entries.
///
/// They are as many as in the largest block acknowledgement window. An entry becomes obsolete when its number
/// is reused.
const NUMBERS_APART: u16 = 255;

/// A packet of an A-MSDU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Msdu {
    pub packet: Outgoing,
    /// Instant at which the MAC took it.
    pub since: u64,
}

/// The packets of A-MSDUs except the first of each, which is stored with its MPDU.
#[derive(Clone, Debug)]
pub(crate) struct Bundles {
    /// Longest A-MSDU, bytes; zero if there are none.
    pub longest: u32,
    /// Longest MPDU that holds one, in bytes.
    pub mpdu: u32,
    /// Per link (and category), by the low bits of the MPDU's number; allocated on first use.
    rest: Vec<Vec<Vec<Msdu>>>,
}

impl Bundles {
    pub fn new(modern: &Modern, places: usize) -> Self {
        let longest = modern.amsdu;
        let mpdu = modern.longest_mpdu_with_amsdu();
        Bundles { longest, mpdu, rest: vec![Vec::new(); if longest > 0 { places } else { 0 }] }
    }

    /// Returns true if A-MSDUs are possible.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.longest > 0
    }

    /// Starts the entry of a new MPDU's number.
    #[cold]
    pub fn begin(&mut self, place: usize, sequence: u16) {
        if let Some(rest) = self.rest[place].get_mut(usize::from(sequence & NUMBERS_APART)) {
            rest.clear();
        }
    }

    /// Adds a packet to an MPDU.
    pub fn add(&mut self, place: usize, sequence: u16, msdu: Msdu) {
        let numbers = &mut self.rest[place];
        if numbers.is_empty() {
            numbers.resize(usize::from(NUMBERS_APART) + 1, Vec::new());
        }
        numbers[usize::from(sequence & NUMBERS_APART)].push(msdu);
    }

    /// Returns the packets of an MPDU after its first.
    pub fn rest(&self, place: usize, sequence: u16) -> &[Msdu] {
        let numbers = self.rest.get(place);
        numbers.and_then(|n| n.get(usize::from(sequence & NUMBERS_APART))).map_or(&[], |r| r)
    }
}

impl Mpdu {
    /// Returns the length of its body, counted as an A-MSDU even with one packet.
    pub fn body(&self) -> u32 {
        let carried = self.bytes - QOS_OVERHEAD;
        if self.bundled { carried } else { SUBFRAME_HEADER + carried }
    }

    /// Returns true if packets may still join: neither the MPDU nor an RTS for it was sent.
    pub fn is_open(&self) -> bool {
        self.data_attempts == 0 && self.rts_attempts == 0
    }
}

/// Passes up the packets of an MPDU: its own packet, and those that came with it.
#[inline]
pub(crate) fn pass_up_msdus(
    bundles: &Bundles,
    place: usize,
    sequence: u16,
    packet: u32,
    up: &mut Vec<u32>,
) {
    up.push(packet);
    if bundles.wanted() {
        up.extend(bundles.rest(place, sequence & SEQUENCE_MASK).iter().map(|m| m.packet.packet));
    }
}
