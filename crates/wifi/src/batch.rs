//! Packets being assembled into an A-MPDU.

use fairmesh_phy::frame::{QOS_OVERHEAD, SUBFRAME_HEADER, extended_ampdu, extended_amsdu};

use crate::packet::Outgoing;

/// Packets for one frame, offered by the layer above.
#[derive(Debug)]
pub struct Batch<'a> {
    pub(crate) taken: &'a mut Vec<Outgoing>,
    /// Bytes of each MPDU except its packet.
    pub(crate) overhead: u32,
    /// Length of the A-MPDU so far, without padding at its end.
    pub(crate) bytes: u32,
    pub(crate) most_bytes: u32,
    /// Number of further MPDUs that fit.
    pub(crate) room: usize,
    /// State of the last MPDU, if A-MSDUs are possible.
    pub(crate) joining: Option<Joining<'a>>,
}

/// The last MPDU of a frame, which further packets may join.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    /// Longest A-MSDU, and longest MPDU that carries one.
    pub longest: u32,
    pub mpdu: u32,
    /// Length of its body as an A-MSDU; `None` if no packet may join.
    pub body: Option<u32>,
    /// Length of the A-MPDU before the MPDU.
    pub before: u32,
    /// For each packet taken, true if it joined the one before.
    pub joined: &'a mut Vec<bool>,
}

impl Batch<'_> {
    /// Returns true if a packet of this many bytes still fits.
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

    /// Returns the A-MSDU and total lengths if a packet of this size joins the last MPDU.
    ///
    /// `None` if it does not fit (IEEE 802.11-2020 §10.11).
    fn join(&self, j: &Joining<'_>, bytes: u32) -> Option<(u32, u32)> {
        let body = extended_amsdu(j.body?, bytes + self.overhead - QOS_OVERHEAD);
        let mpdu = body + QOS_OVERHEAD;
        let whole = extended_ampdu(j.before, mpdu);
        (body <= j.longest && mpdu <= j.mpdu && whole <= self.most_bytes).then_some((body, whole))
    }

    /// Adds a packet to the last MPDU or starts the next one; returns true if it joined.
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
