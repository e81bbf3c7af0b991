//! A QUIC packet between two endpoints, one per UDP datagram, and its length on the wire.

use fairmesh_units::Span;

/// Minimum UDP payload that a path must carry, bytes. RFC 9000 §14
pub(crate) const MIN_DATAGRAM: u32 = 1200;
/// IPv4 and UDP headers, in bytes.
const IP_UDP: u32 = 28;
/// Bytes of the short header and of the packet protection's tag (RFC 9001 §5.3).
///
/// The header has a connection ID of 8 bytes and a packet number of 2 (RFC 9000 §17.3.1).
pub(super) const PACKET_OVERHEAD: u32 = 1 + 8 + 2 + 16;
/// Bytes of type, stream ID and an offset of 4 bytes.
///
/// The frame ends with the packet, and has no length (RFC 9000 §19.8).
pub(super) const STREAM_HEADER: u32 = 1 + 1 + 4;
/// Length of an IPv4 datagram with a single ACK frame without holes, in bytes.
///
/// The packet number is large.
pub const PLAIN_ACK: u32 = IP_UDP + PACKET_OVERHEAD + 1 + 4 + 1 + 1 + 4;
/// Length of a handshake datagram, bytes: both sides pad it (RFC 9000 §14.1).
const HANDSHAKE_DATAGRAM: u32 = MIN_DATAGRAM;

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

/// A part of the stream, and its end if `fin` is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamFrame {
    /// Offset of its first byte.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// True if the stream ends after this range.
    pub fin: bool,
}

impl StreamFrame {
    /// Returns the offset after its last byte; the end of the stream counts as one byte.
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.len as u64 + self.fin as u64
    }
}

/// Total datagrams received, by ECN field. RFC 9000 §19.3.2
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
    /// Time between the arrival of the largest of them and this frame.
    pub delay: Span,
    /// Counts of arrived ECN-capable packets, if any.
    pub ecn: Option<EcnCounts>,
}

impl Ack {
    /// Returns the largest packet number that it acknowledges.
    pub fn largest(&self) -> u64 {
        self.ranges.last().map_or(0, |r| r.1)
    }

    /// Returns its length, bytes. RFC 9000 §19.3, §19.3.1
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

/// Packet type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The client's first flight, with its attempt number.
    Initial {
        /// Number of earlier attempts.
        attempt: u32,
    },
    /// The server's response to the attempt that it received.
    Handshake {
        /// Number of the attempt.
        attempt: u32,
    },
    /// A packet of an established connection.
    OneRtt {
        /// Packet number, never reused.
        number: u64,
    },
}

/// A QUIC packet, which is a UDP datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Packet type and number.
    pub kind: Kind,
    /// Data.
    pub stream: Option<StreamFrame>,
    /// True if it carries a PING, which is ack-eliciting. RFC 9000 §19.2
    pub ping: bool,
    /// Acknowledgement.
    pub ack: Option<Ack>,
    /// ECN field at departure.
    pub ecn: Ecn,
    /// Spin bit (RFC 9000 §17.4); false if the connection does not use it.
    pub spin: bool,
}

impl Packet {
    pub(super) const fn handshake(kind: Kind) -> Self {
        Packet { kind, stream: None, ping: false, ack: None, ecn: Ecn::NotEct, spin: false }
    }

    /// Returns its packet number, once the connection is established.
    pub const fn number(&self) -> Option<u64> {
        match self.kind {
            Kind::OneRtt { number } => Some(number),
            Kind::Initial { .. } | Kind::Handshake { .. } => None,
        }
    }

    /// Returns the stream bytes in the packet.
    pub fn data(&self) -> u32 {
        self.stream.map_or(0, |s| s.len)
    }

    /// Returns true if the peer has to acknowledge it. RFC 9000 §13.2
    pub const fn is_ack_eliciting(&self) -> bool {
        self.stream.is_some() || self.ping
    }

    /// Returns the length of the UDP payload, in bytes.
    pub fn udp_bytes(&self) -> u32 {
        match self.kind {
            Kind::Initial { .. } | Kind::Handshake { .. } => HANDSHAKE_DATAGRAM,
            Kind::OneRtt { .. } => {
                let stream = self.stream.map_or(0, |s| stream_header(s.offset) + s.len);
                PACKET_OVERHEAD
                    + stream
                    + u32::from(self.ping)
                    + self.ack.as_ref().map_or(0, Ack::bytes)
            }
        }
    }

    /// Returns the length of the IPv4 datagram, in bytes.
    pub fn ip_bytes(&self) -> u32 {
        IP_UDP + self.udp_bytes()
    }

    /// Returns the stream bytes from this offset on that fit in addition to its other frames.
    pub(super) fn room(&self, datagram: u32, offset: u64) -> u32 {
        datagram.saturating_sub(self.udp_bytes() + stream_header(offset))
    }
}

/// Returns the bytes of type, stream ID and offset. RFC 9000 §19.8
const fn stream_header(offset: u64) -> u32 {
    if offset == 0 { 2 } else { 2 + varint(offset) }
}

/// Returns the length of a variable-length integer, bytes. RFC 9000 §16
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
        let with = |ack: Ack| Packet { ack: Some(ack), ..one_rtt() }.udp_bytes() - PACKET_OVERHEAD;
        assert_eq!(with(ack(&[(0, 100)])), 8);
        // A gap and a length of one byte each for a further range.
        assert_eq!(with(ack(&[(0, 9), (11, 100)])), 8 + 2);
        let counts = Some(EcnCounts { ect0: 100, ect1: 0, ce: 3 });
        assert_eq!(with(Ack { ecn: counts, ..ack(&[(0, 100)]) }), 8 + 4);
        assert_eq!(Packet::handshake(Kind::Initial { attempt: 0 }).ip_bytes(), 1228);
    }
}
