//! What travels between two endpoints: a QUIC packet, one per UDP datagram, and its length on the wire.

use fairmesh_units::Span;

/// Least UDP payload that a path must carry. RFC 9000 §14
pub(crate) const LEAST_DATAGRAM: u32 = 1200;
/// IPv4 and UDP headers, bytes.
const IP_UDP: u32 = 28;
/// Short header with a connection ID of 8 bytes and a packet number of 2 (RFC 9000 §17.3.1), and the tag of the
/// packet protection (RFC 9001 §5.3).
pub(super) const OVERHEAD: u32 = 1 + 8 + 2 + 16;
/// Type, stream ID and an offset of 4 bytes; the frame ends with the packet, and has no length (RFC 9000 §19.8).
pub(super) const STREAM_HEADER: u32 = 1 + 1 + 4;
/// Length of the IPv4 datagram of a lone ACK frame without holes, far into a connection, bytes.
pub const PLAIN_ACK: u32 = IP_UDP + OVERHEAD + 1 + 4 + 1 + 1 + 4;
/// A datagram of the handshake: both sides fill it up (RFC 9000 §14.1).
const HANDSHAKE_DATAGRAM: u32 = LEAST_DATAGRAM;

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion was experienced.
    Ce,
}

/// A part of the stream, of its own length; with `fin` its end follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamFrame {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// The stream ends behind it.
    pub fin: bool,
}

impl StreamFrame {
    /// Offset behind its last byte, the end of the stream counted as one.
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.len as u64 + self.fin as u64
    }
}

/// Datagrams that have arrived in all, by their ECN field. RFC 9000 §19.3.2
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u64,
    /// ECT(1).
    pub ect1: u64,
    /// Marked.
    pub ce: u64,
}

/// An ACK frame. RFC 9000 §19.3
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Packet numbers that arrived, ascending: (first, last), at least one range.
    pub ranges: Vec<(u64, u64)>,
    /// How long the largest of them has waited for this frame.
    pub delay: Span,
    /// Counts of what arrived ECN-capable, if anything did.
    pub ecn: Option<EcnCounts>,
}

impl Ack {
    /// The largest packet number that it acknowledges.
    pub fn largest(&self) -> u64 {
        self.ranges.last().map_or(0, |r| r.1)
    }

    /// Its length, bytes. RFC 9000 §19.3, §19.3.1
    fn bytes(&self) -> u32 {
        let mut ranges = self.ranges.iter().rev();
        let Some(&(first, largest)) = ranges.next() else { return 0 };
        let count = self.ranges.len() as u64 - 1;
        let delay = self.delay.as_nanos() / 8000; // the usual exponent: 3
        let mut bytes =
            1 + varint(largest) + varint(delay) + varint(count) + varint(largest - first);
        let mut smallest = first;
        for &(first, last) in ranges {
            bytes += varint(smallest - last - 2) + varint(last - first);
            smallest = first;
        }
        bytes + self.ecn.map_or(0, |e| varint(e.ect0) + varint(e.ect1) + varint(e.ce))
    }
}

/// Which packets it is one of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The client's first flight, the number of times it was sent before in it.
    Initial {
        /// How many went before.
        attempt: u32,
    },
    /// The server's answer, to the attempt that it saw.
    Handshake {
        /// That attempt.
        attempt: u32,
    },
    /// Of an established connection.
    OneRtt {
        /// Never used again.
        number: u64,
    },
}

/// A QUIC packet, which is a UDP datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Whether it opens the connection, and which number it has.
    pub kind: Kind,
    /// Data.
    pub stream: Option<StreamFrame>,
    /// It asks for an acknowledgement. RFC 9000 §19.2
    pub ping: bool,
    /// Acknowledgement.
    pub ack: Option<Ack>,
    /// ECN field that it leaves with.
    pub ecn: Ecn,
    /// Spin bit (RFC 9000 §17.4); false where it does not spin.
    pub spin: bool,
}

impl Packet {
    pub(super) const fn handshake(kind: Kind) -> Self {
        Packet { kind, stream: None, ping: false, ack: None, ecn: Ecn::NotEct, spin: false }
    }

    /// Its packet number, once the connection is established.
    pub const fn number(&self) -> Option<u64> {
        match self.kind {
            Kind::OneRtt { number } => Some(number),
            Kind::Initial { .. } | Kind::Handshake { .. } => None,
        }
    }

    /// Stream bytes in it.
    pub fn data(&self) -> u32 {
        self.stream.map_or(0, |s| s.len)
    }

    /// Whether the peer has to acknowledge it. RFC 9000 §13.2
    pub const fn is_ack_eliciting(&self) -> bool {
        self.stream.is_some() || self.ping
    }

    /// Length of the UDP payload, bytes.
    pub fn udp_bytes(&self) -> u32 {
        match self.kind {
            Kind::Initial { .. } | Kind::Handshake { .. } => HANDSHAKE_DATAGRAM,
            Kind::OneRtt { .. } => {
                let stream = self.stream.map_or(0, |s| stream_header(s.offset) + s.len);
                OVERHEAD + stream + u32::from(self.ping) + self.ack.as_ref().map_or(0, Ack::bytes)
            }
        }
    }

    /// Length of the IPv4 datagram, bytes.
    pub fn ip_bytes(&self) -> u32 {
        IP_UDP + self.udp_bytes()
    }

    /// Stream bytes from this offset on that fit beside what is in it.
    pub(super) fn room(&self, datagram: u32, offset: u64) -> u32 {
        datagram.saturating_sub(self.udp_bytes() + stream_header(offset))
    }
}

/// Type, stream ID and offset. RFC 9000 §19.8
const fn stream_header(offset: u64) -> u32 {
    if offset == 0 { 2 } else { 2 + varint(offset) }
}

/// Length of a variable-length integer, bytes. RFC 9000 §16
const fn varint(n: u64) -> u32 {
    match n {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_rtt() -> Packet {
        Packet::handshake(Kind::OneRtt { number: 7 })
    }

    #[test]
    fn lengths_on_the_wire() {
        let stream = StreamFrame { offset: 1 << 20, len: 1439, fin: false };
        let data = Packet { stream: Some(stream), ..one_rtt() };
        assert_eq!((data.udp_bytes(), data.ip_bytes()), (1472, 1500));
        assert_eq!(one_rtt().room(1472, 1 << 20), 1439);
        // At the start of the stream there is no offset.
        assert_eq!(one_rtt().room(1472, 0), 1443);
        // Type, largest 2, delay 2, no further range, first range 2: RFC 9000 §19.3.
        let delay = Span::from_millis(1);
        let ack = |ranges: &[(u64, u64)]| Ack { ranges: ranges.to_vec(), delay, ecn: None };
        let with = |ack: Ack| Packet { ack: Some(ack), ..one_rtt() }.udp_bytes() - OVERHEAD;
        assert_eq!(with(ack(&[(0, 100)])), 8);
        // And a gap and a length of a byte each for one more.
        assert_eq!(with(ack(&[(0, 9), (11, 100)])), 8 + 2);
        let counts = Some(EcnCounts { ect0: 100, ect1: 0, ce: 3 });
        assert_eq!(with(Ack { ecn: counts, ..ack(&[(0, 100)]) }), 8 + 4);
        assert_eq!(Packet::handshake(Kind::Initial { attempt: 0 }).ip_bytes(), 1228);
    }
}
