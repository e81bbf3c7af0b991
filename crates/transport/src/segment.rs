//! A TCP segment between two endpoints: a header and the length of its payload.

use core::fmt;
use core::ops::BitOr;

/// IPv4 and TCP headers without options, in bytes.
const HEADERS: u32 = 40;

/// Header bits of a segment, and the ECT bit of the IP header around it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Flags = Flags(0);
    /// Opens a connection.
    pub const SYN: Flags = Flags(1);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(2);
    /// Last segment of its direction.
    pub const FIN: Flags = Flags(4);
    /// Echoes a congestion mark (RFC 3168 §6.1).
    pub const ECE: Flags = Flags(8);
    /// The congestion window was reduced (RFC 3168 §6.1).
    pub const CWR: Flags = Flags(16);
    /// IP header: the datagram may be marked instead of dropped (ECT(0), RFC 3168 §5).
    pub const ECT: Flags = Flags(32);
    /// IP header, with [`Flags::ECT`]: the codepoint is ECT(1) instead of ECT(0).
    ///
    /// RFC 3168 §5, RFC 9331 §4.1.
    pub const ECT1: Flags = Flags(64);

    /// Returns true if all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds `other` if `condition` holds.
    pub(crate) const fn with(self, other: Flags, condition: bool) -> Flags {
        if condition { Flags(self.0 | other.0) } else { self }
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, o: Flags) -> Flags {
        Flags(self.0 | o.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Flags::SYN, "SYN"),
            (Flags::ACK, "ACK"),
            (Flags::FIN, "FIN"),
            (Flags::ECE, "ECE"),
            (Flags::CWR, "CWR"),
            (Flags::ECT, "ECT"),
            (Flags::ECT1, "ECT1"),
        ];
        let mut rest = false;
        for (flag, name) in names {
            if self.has(flag) {
                write!(f, "{}{name}", if rest { "|" } else { "" })?;
                rest = true;
            }
        }
        if rest { Ok(()) } else { f.write_str("-") }
    }
}

/// Up to three ranges received out of order (RFC 2018).
///
/// They are offsets from the acknowledgement number.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    ranges: [(u32, u32); SackBlocks::MAX],
    len: u8,
}

impl SackBlocks {
    /// Maximum number of ranges: three fit together with a timestamp option (RFC 2018 §3).
    pub const MAX: usize = 3;

    /// Adds the range `start..end` of offsets; ignored if the option is full.
    pub fn push(&mut self, start: u32, end: u32) {
        if let Some(slot) = self.ranges.get_mut(usize::from(self.len)) {
            *slot = (start, end);
            self.len += 1;
        }
    }

    /// Returns the ranges as (first byte, byte after the last), the most recently changed first.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.len)]
    }

    /// Returns true if there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// A TCP segment. Sequence numbers start at 0 (the SYN) and never wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Number of the first byte (of the SYN or FIN if there is no payload).
    pub seq: u64,
    /// Next byte expected from the other side, if `flags` has ACK.
    pub ack: u64,
    /// Payload, in bytes.
    pub len: u32,
    /// Header bits.
    pub flags: Flags,
    /// Ranges received out of order.
    pub sack: SackBlocks,
    /// Total number of marked data datagrams received, if both ends count them; otherwise 0.
    ///
    /// It is the full packet counter of RFC 9768 (§3.2.2), of which the header carries the last
    /// three bits.
    pub ce: u32,
}

impl Segment {
    /// Returns the size of the IPv4 datagram, in bytes.
    ///
    /// It has 40 of headers, the payload, and 4 + 8n for n SACK blocks (kind, length and two bytes of
    /// padding; RFC 2018 §3).
    pub const fn ip_bytes(&self) -> u32 {
        let options = if self.sack.is_empty() { 0 } else { 4 + 8 * self.sack.len as u32 };
        HEADERS + self.len + options
    }

    /// Returns true if it is only an acknowledgement.
    pub const fn is_pure_ack(&self) -> bool {
        self.len == 0
            && self.flags.has(Flags::ACK)
            && !self.flags.has(Flags::SYN)
            && !self.flags.has(Flags::FIN)
    }

    /// Returns the sequence number after this segment: SYN and FIN count as one byte each.
    pub(crate) const fn end(&self) -> u64 {
        self.seq
            + self.len as u64
            + self.flags.has(Flags::SYN) as u64
            + self.flags.has(Flags::FIN) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_on_the_wire() {
        let ack = Segment { flags: Flags::ACK, ..Segment::default() };
        assert_eq!(ack.ip_bytes(), 40);
        assert!(ack.is_pure_ack());
        let data = Segment { len: 1460, flags: Flags::ACK, ..Segment::default() };
        assert_eq!(data.ip_bytes(), 1500);
        let mut sacked = ack;
        sacked.sack.push(1460, 2920);
        assert_eq!(sacked.ip_bytes(), 52);
        for _ in 0..5 {
            sacked.sack.push(4380, 5840);
        }
        assert_eq!(sacked.ip_bytes(), 68);
    }

    #[test]
    fn is_small_enough_to_be_copied() {
        assert!(size_of::<Segment>() <= 64);
    }
}
