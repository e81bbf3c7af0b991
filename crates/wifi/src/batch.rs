//! Packets on their way into an A-MPDU.

use fairmesh_phy::frame::{QOS_OVERHEAD, SUBFRAME_HEADER, extended_ampdu, extended_amsdu};

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
    /// How many more MPDUs there may be.
    pub(crate) room: usize,
    /// Where there may be A-MSDUs.
    pub(crate) joining: Option<Joining<'a>>,
}

/// The MPDU at the end of a frame, which more packets may join.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    /// Longest A-MSDU, and longest MPDU that has one.
    pub longest: u32,
    pub mpdu: u32,
    /// Length of what it carries as an A-MSDU; `None`: nothing joins it.
    pub body: Option<u32>,
    /// Length of the A-MPDU before it.
    pub before: u32,
    /// Which of the packets taken have joined the one before.
    pub joined: &'a mut Vec<bool>,
}

impl Batch<'_> {
    /// Whether a packet of this many bytes still fits.
    #[inline]
    pub fn fits(&self, bytes: u32) -> bool {
        (self.room > 0 && self.with(bytes + self.overhead) <= self.most_bytes)
            || self.joining.as_ref().is_some_and(|j| self.join(j, bytes).is_some())
    }

    /// Takes a packet that fits.
    #[inline]
    pub fn take(&mut self, packet: Outgoing) {
        debug_assert!(self.fits(packet.bytes));
        self.taken.push(packet);
        if self.joining.is_some() && self.joins(packet.bytes) {
            return;
        }
        self.bytes = self.with(packet.bytes + self.overhead);
        self.room -= 1;
    }

    /// What the A-MSDU, and the whole, would be with a packet of so many bytes in the last MPDU; `None`: it has no
    /// room (IEEE 802.11-2020 §10.11).
    fn join(&self, j: &Joining<'_>, bytes: u32) -> Option<(u32, u32)> {
        let body = extended_amsdu(j.body?, bytes + self.overhead - QOS_OVERHEAD);
        let mpdu = body + QOS_OVERHEAD;
        let whole = extended_ampdu(j.before, mpdu);
        (body <= j.longest && mpdu <= j.mpdu && whole <= self.most_bytes).then_some((body, whole))
    }

    /// Puts a packet into the last MPDU, or has it begin the next.
    #[cold]
    fn joins(&mut self, bytes: u32) -> bool {
        let found = self.joining.as_ref().and_then(|j| self.join(j, bytes));
        let Some(j) = &mut self.joining else { return false };
        j.joined.push(found.is_some());
        match found {
            Some((body, whole)) => (j.body, self.bytes) = (Some(body), whole),
            None => {
                let msdu = bytes + self.overhead - QOS_OVERHEAD;
                (j.body, j.before) = (Some(SUBFRAME_HEADER + msdu), self.bytes);
            }
        }
        found.is_some()
    }

    #[inline]
    fn with(&self, mpdu: u32) -> u32 {
        extended_ampdu(self.bytes, mpdu)
    }
}
