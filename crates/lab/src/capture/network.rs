//! IPv4, TCP, UDP and QUIC headers of the packets inside data frames.

use fairmesh_engine::observe::{AirPacket, AirPayload};
use fairmesh_transport::quic::Kind;
use fairmesh_transport::{Flags, Segment};
use fairmesh_units::NodeId;

/// Port numbers of one flow: the end that opened it and the end that serves it.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Source node of the flow.
    pub client: NodeId,
    /// Port of the source node.
    pub client_port: u16,
    /// Port at the destination.
    pub server_port: u16,
}

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const IP_HEADER: usize = 20;
/// Connection ID of every QUIC connection.
const CONNECTION_ID: [u8; 8] = *b"fairmesh";

/// Returns the IPv4 address of a node, numbered from 10.0.0.1.
pub fn address(node: NodeId) -> [u8; 4] {
    let [_, b, c, d] = (node.0 + 1).to_be_bytes();
    [10, b, c, d]
}

/// Appends the datagram; returns true if all of it was written.
/// Payload, which is zero, is written only up to the capture length.
pub fn write(out: &mut Vec<u8>, packet: &AirPacket, ports: Option<&Ports>) -> bool {
    let (source, destination) = (address(packet.source), address(packet.destination));
    let protocol = match packet.payload {
        AirPayload::Tcp(_) => PROTOCOL_TCP,
        AirPayload::Udp { .. } | AirPayload::Quic { .. } => PROTOCOL_UDP,
    };
    let start = out.len();
    // RFC 3168 §5: ECN field, CE = 11, ECT(0) = 10, ECT(1) = 01.
    let ecn = match (packet.ce, packet.ect, packet.ect1) {
        (true, ..) => 0b11,
        (_, true, true) => 0b01,
        (_, ect, _) => u8::from(ect) << 1,
    };
    out.extend_from_slice(&[0x45, ecn]);
    out.extend_from_slice(&(packet.ip_bytes as u16).to_be_bytes());
    // Identification 0 with "don't fragment" (RFC 6864 §4.1), no offset.
    out.extend_from_slice(&[0, 0, 0x40, 0]);
    out.extend_from_slice(&[64, protocol, 0, 0]);
    out.extend_from_slice(&source);
    out.extend_from_slice(&destination);
    let sum = checksum(0, &out[start..]);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());

    let from_client = ports.is_none_or(|p| p.client == packet.source);
    let (client, server) = ports.map_or((49_152, 5001), |p| (p.client_port, p.server_port));
    let (from_port, to_port) = if from_client { (client, server) } else { (server, client) };
    let transport = out.len();
    out.extend_from_slice(&from_port.to_be_bytes());
    out.extend_from_slice(&to_port.to_be_bytes());
    let length = packet.ip_bytes as usize - IP_HEADER;
    let sum_at = match packet.payload {
        AirPayload::Tcp(segment) => tcp(out, &segment),
        AirPayload::Udp { sequence } => udp(out, length, sequence),
        AirPayload::Quic { kind } => quic(out, length, kind),
    };
    // Pseudo-header (RFC 9293 §3.1, RFC 768). The payload adds nothing: it is zero.
    let mut pseudo = [0; 12];
    pseudo[..4].copy_from_slice(&source);
    pseudo[4..8].copy_from_slice(&destination);
    pseudo[9] = protocol;
    pseudo[10..].copy_from_slice(&(length as u16).to_be_bytes());
    let mut sum = checksum(partial(0, &pseudo), &out[transport..]);
    if sum == 0 && protocol == PROTOCOL_UDP {
        // RFC 768: zero means that no checksum was computed.
        sum = 0xffff;
    }
    out[transport + sum_at..transport + sum_at + 2].copy_from_slice(&sum.to_be_bytes());

    let end = start + packet.ip_bytes as usize;
    let kept = end.min(start + super::SNAPLEN as usize);
    // Never truncates: headers are shorter than the stored length.
    out.resize(kept.max(out.len()), 0);
    out.len() == end
}

/// Appends the rest of a TCP header and returns the place of its checksum.
fn tcp(out: &mut Vec<u8>, s: &Segment) -> usize {
    let blocks = s.sack.as_slice();
    let options = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() };
    // Sequence numbers start at 0 and wrap as TCP's do.
    let (sequence, acknowledged) =
        (s.seq as u32, if s.flags.has(Flags::ACK) { s.ack as u32 } else { 0 });
    out.extend_from_slice(&sequence.to_be_bytes());
    out.extend_from_slice(&acknowledged.to_be_bytes());
    out.push((((20 + options) / 4) << 4) as u8);
    let bits = [
        (Flags::FIN, 0x01),
        (Flags::SYN, 0x02),
        (Flags::ACK, 0x10),
        (Flags::ECE, 0x40),
        (Flags::CWR, 0x80),
    ];
    let push = if s.len > 0 { 0x08 } else { 0 };
    out.push(bits.iter().filter(|(f, _)| s.flags.has(*f)).fold(push, |b, (_, bit)| b | bit));
    // Window: the model's never limits. Checksum later; no urgent data.
    out.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 0]);
    if options > 0 {
        // RFC 2018 §3, after two bytes of padding.
        out.extend_from_slice(&[1, 1, 5, (2 + 8 * blocks.len()) as u8]);
        for (from, to) in blocks {
            for edge in [from, to] {
                out.extend_from_slice(&acknowledged.wrapping_add(*edge).to_be_bytes());
            }
        }
    }
    16
}

/// Appends the rest of a UDP header and the datagram's running number, if it has room for it.
fn udp(out: &mut Vec<u8>, length: usize, sequence: u64) -> usize {
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    if length >= 16 {
        out.extend_from_slice(&sequence.to_be_bytes());
    }
    6
}

/// Appends the rest of a UDP header and a QUIC header.
///
/// The content of a real packet is encrypted; here it is zero.
fn quic(out: &mut Vec<u8>, length: usize, kind: Kind) -> usize {
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    let handshake = |first: u8| {
        // RFC 9000 §17.2: long header, version 1, connection IDs of 8 bytes.
        [&[first][..], &[0, 0, 0, 1], &[8], &CONNECTION_ID, &[8], &CONNECTION_ID].concat()
    };
    match kind {
        Kind::Initial { .. } => out.extend(handshake(0xc1)),
        Kind::Handshake { .. } => out.extend(handshake(0xe1)),
        Kind::OneRtt { number } => {
            // RFC 9000 §17.3: short header, a packet number of 2 bytes.
            out.push(0x41);
            out.extend_from_slice(&CONNECTION_ID);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
    }
    6
}

/// Adds 16-bit words to a running sum (RFC 1071).
fn partial(sum: u32, bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .fold(sum, |s, c| s + (u32::from(c[0]) << 8) + c.get(1).map_or(0, |b| u32::from(*b)))
}

/// Returns the Internet checksum of `bytes` after `sum`.
fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    let mut sum = partial(sum, bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
