//! 802.11 frames of an ad-hoc network (IEEE 802.11-2020 §9.3).

use fairmesh_engine::observe::{AirFrame, FrameKind};
use fairmesh_units::NodeId;

use super::network::{self, Ports};

/// BSSID of the only network: locally administered, and not a node's address.
const BSSID: [u8; 6] = [0x02, 0xfa, 0x1e, 0x4e, 0x54, 0x00];
const BROADCAST: [u8; 6] = [0xff; 6];
/// MAC header of an ad-hoc data frame and FCS, in bytes.
const DATA_OVERHEAD: u32 = 24 + 4;
/// The QoS Control field, for best effort (IEEE 802.11-2020 §9.2.4.5).
const QOS_CONTROL: [u8; 2] = [0, 0];
/// QoS Control: an A-MSDU (bit 7, §9.2.4.5.9).
const AMSDU_PRESENT: u8 = 0x80;
/// BA Control: compressed, TID 0 (§9.3.1.8).
const COMPRESSED: u16 = 2 << 1;
/// Fragment Number of a BlockAck with a bitmap of 256 (IEEE 802.11ax-2021 Table 9-30a).
const BITMAP_256: u16 = 4;
/// LLC and SNAP for IPv4 (RFC 1042).
const LLC_SNAP: [u8; 8] = [0xaa, 0xaa, 0x03, 0x00, 0x00, 0x00, 0x08, 0x00];

const DATA: u8 = 0x08;
const QOS_DATA: u8 = 0x88;
const RTS: u8 = 0xb4;
const CTS: u8 = 0xc4;
const ACK: u8 = 0xd4;
const BLOCK_ACK: u8 = 0x94;
const RETRY: u8 = 0x08;

/// Returns the MAC address of a node: locally administered, numbered from 1.
pub fn address(node: NodeId) -> [u8; 6] {
    let [a, b, c, d] = (node.0 + 1).to_be_bytes();
    [0x02, 0, a, b, c, d]
}

/// Appends `frame` and returns its length on the air with FCS.
/// Zero payload beyond the capture length is left out, and unless `whole`, so is a packet inside.
pub fn write(out: &mut Vec<u8>, frame: &AirFrame, ports: &[Ports], whole: bool) -> u32 {
    let start = out.len();
    let kind = match frame.kind {
        FrameKind::Data if frame.qos => QOS_DATA,
        FrameKind::Data => DATA,
        FrameKind::Ack => ACK,
        FrameKind::Rts => RTS,
        FrameKind::Cts => CTS,
        FrameKind::BlockAck => BLOCK_ACK,
    };
    out.push(kind);
    out.push(if frame.retry { RETRY } else { 0 });
    out.extend_from_slice(&frame.duration_us.to_le_bytes());
    out.extend_from_slice(&frame.to.map_or(BROADCAST, address));
    match frame.kind {
        // §9.3.1.3 and §9.3.1.4: CTS and ACK name their receiver only.
        FrameKind::Ack | FrameKind::Cts => {}
        FrameKind::Rts => out.extend_from_slice(&address(frame.from)),
        FrameKind::BlockAck => {
            out.extend_from_slice(&address(frame.from));
            block_ack(out, frame);
        }
        FrameKind::Data => return data(out, start, frame, ports, whole),
    }
    seal(out, start);
    (out.len() - start) as u32
}

/// Appends the body of a BlockAck.
///
/// It has BA Control, Block Ack Starting Sequence Control and the bitmap, with the frame's length.
fn block_ack(out: &mut Vec<u8>, frame: &AirFrame) {
    let Some(ack) = frame.block_ack else { return };
    let long = frame.mpdu_bytes > 32;
    // TID_INFO (§9.3.1.8.2).
    let control = COMPRESSED | u16::from(frame.priority) << 12;
    out.extend_from_slice(&control.to_le_bytes());
    let fragment = if long { BITMAP_256 } else { 0 };
    out.extend_from_slice(&(ack.first << 4 | fragment).to_le_bytes());
    for word in &ack.bitmap[..if long { 4 } else { 1 }] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Appends one packet of an A-MSDU (§9.3.2.2.2) to `out` from `start` on.
/// Adds its FCS if it is the complete last one.
/// A packet without content ends the stored part: `complete`, before and after.
pub fn subframe(
    out: &mut Vec<u8>,
    start: usize,
    frame: &AirFrame,
    ports: &[Ports],
    complete: &mut bool,
) {
    let last = frame.subframe.is_none_or(|s| s.index + 1 == s.count);
    let Some(packet) = frame.packet else {
        *complete = false;
        return;
    };
    if !*complete {
        return;
    }
    out.extend_from_slice(&frame.to.map_or(BROADCAST, address));
    out.extend_from_slice(&address(frame.from));
    out.extend_from_slice(&((LLC_SNAP.len() as u32 + packet.ip_bytes) as u16).to_be_bytes());
    out.extend_from_slice(&LLC_SNAP);
    // Headers are spread over the whole, which is therefore stored.
    let end = out.len() + packet.ip_bytes as usize;
    network::write(out, &packet, ports.get(packet.flow.index()));
    out.resize(end, 0);
    match last {
        true => seal(out, start),
        // After a QoS header of 26 bytes subframes begin two bytes beyond a multiple of four.
        false => out.resize(start + 26 + (end - start - 26).next_multiple_of(4), 0),
    }
}

fn data(out: &mut Vec<u8>, start: usize, frame: &AirFrame, ports: &[Ports], whole: bool) -> u32 {
    out.extend_from_slice(&address(frame.from));
    out.extend_from_slice(&BSSID);
    out.extend_from_slice(&(frame.sequence << 4).to_le_bytes());
    let mut overhead = DATA_OVERHEAD;
    if frame.qos {
        let [low, high] = QOS_CONTROL;
        let amsdu = if frame.subframe.is_some() { AMSDU_PRESENT } else { 0 };
        out.extend_from_slice(&[low | amsdu | frame.priority, high]);
        overhead += QOS_CONTROL.len() as u32;
    }
    if frame.subframe.is_some() {
        // Packets follow, one by one.
        return frame.mpdu_bytes;
    }
    let Some(packet) = frame.packet else {
        // A message of a control mechanism: no IP inside, and nothing to dissect.
        let body = frame.mpdu_bytes.saturating_sub(overhead);
        out.resize(out.len() + body.min(super::SNAPLEN) as usize, 0);
        if body <= super::SNAPLEN {
            seal(out, start);
        }
        return body + overhead;
    };
    let length = overhead + LLC_SNAP.len() as u32 + packet.ip_bytes;
    if !whole {
        return length;
    }
    out.extend_from_slice(&LLC_SNAP);
    let whole = network::write(out, &packet, ports.get(packet.flow.index()));
    if whole {
        seal(out, start);
    }
    length
}

/// Appends the frame check sequence: CRC-32 over everything since `start`.
/// The least significant byte is first (§9.2.4.8).
fn seal(out: &mut Vec<u8>, start: usize) {
    let fcs = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&fcs.to_le_bytes());
}
