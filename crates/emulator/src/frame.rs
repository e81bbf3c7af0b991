//! Ethernet frames between namespaces and the engine.

use std::fmt;

use fairmesh_transport::quic::Ecn;

/// Bytes of an Ethernet header, which is not sent on the air: 802.11 has its own.
pub const HEADER_BYTES: usize = fairmesh_linux::tap::ETHERNET_BYTES;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mac(pub [u8; 6]);

/// Prefix of the emulator's addresses: locally administered, then "fm".
const MAC_PREFIX: [u8; 3] = [0x02, 0x66, 0x6d];

impl Mac {
    /// Returns the address of a node's radio.
    pub const fn radio(node: u16) -> Self {
        let [a, b, c] = MAC_PREFIX;
        Mac([a, b, c, 0, (node >> 8) as u8, node as u8])
    }

    /// Returns the address of one end of a wire.
    pub const fn wire(wire: u16, b_end: bool) -> Self {
        let [a, b, c] = MAC_PREFIX;
        Mac([a, b, c, 1 + b_end as u8, (wire >> 8) as u8, wire as u8])
    }

    /// Returns the node with this radio address.
    pub fn node(self) -> Option<u16> {
        match self.0 {
            [a, b, c, 0, high, low] if [a, b, c] == MAC_PREFIX => {
                Some(u16::from_be_bytes([high, low]))
            }
            _ => None,
        }
    }

    /// Returns true for a broadcast or multicast address, which every receiver accepts.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Returns the destination of a frame and the length of its payload.
///
/// `None` if it is not a frame.
pub fn parse(frame: &[u8]) -> Option<(Mac, u32)> {
    let to: [u8; 6] = frame.get(..6)?.try_into().ok()?;
    let payload = frame.len().checked_sub(HEADER_BYTES)?;
    Some((Mac(to), payload as u32))
}

/// Returns the IPv4 header of a frame, if it has one.
fn ipv4(frame: &[u8]) -> Option<&[u8]> {
    let ip = frame.get(HEADER_BYTES..HEADER_BYTES + 20)?;
    (frame[12..HEADER_BYTES] == [0x08, 0x00] && ip[0] >> 4 == 4).then_some(ip)
}

/// Returns the ECN field of the IPv4 datagram in a frame (RFC 3168 §5).
pub fn ecn(frame: &[u8]) -> Ecn {
    match ipv4(frame).map_or(0, |ip| ip[1] & 0b11) {
        0b00 => Ecn::NotEct,
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Writes "congestion experienced" into an IPv4 header, and corrects its checksum.
pub fn mark(frame: &mut [u8]) {
    let Some(ip) = ipv4(frame) else { return };
    let before = u16::from_be_bytes([ip[0], ip[1]]);
    let after = before | 0b11;
    let sum = u16::from_be_bytes([ip[10], ip[11]]);
    // RFC 1624 §3, equation 3.
    let long = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (long & 0xffff) + (long >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    frame[HEADER_BYTES + 1] = after as u8;
    frame[HEADER_BYTES + 10..HEADER_BYTES + 12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Contents of the frames in the engine, by the engine's number.
#[derive(Debug, Default)]
pub struct Frames {
    slots: Vec<Vec<u8>>,
}

impl Frames {
    /// Stores a frame's content; the entry is reused when the number is.
    pub fn put(&mut self, number: u32, content: &[u8]) {
        let i = number as usize;
        if self.slots.len() <= i {
            self.slots.resize_with(i + 1, Vec::new);
        }
        self.slots[i].clear();
        self.slots[i].extend_from_slice(content);
    }

    /// Marks a frame, see [`mark`].
    pub fn mark(&mut self, number: u32) {
        if let Some(frame) = self.slots.get_mut(number as usize) {
            mark(frame);
        }
    }

    /// Returns a frame's content.
    pub fn get(&self, number: u32) -> &[u8] {
        self.slots.get(number as usize).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_lengths() {
        assert_eq!(Mac::radio(258).node(), Some(258));
        assert_eq!(Mac::wire(3, true).node(), None);
        assert_eq!(Mac::radio(1).to_string(), "02:66:6d:00:00:01");
        assert!(Mac([0xff; 6]).is_group() && Mac([0x33, 0x33, 0, 0, 0, 1]).is_group());
        assert!(!Mac::radio(7).is_group());
        let mut frame = vec![0xff; 6];
        assert_eq!(parse(&frame), None);
        frame.resize(1514, 0);
        assert_eq!(parse(&frame), Some((Mac([0xff; 6]), 1500)));
    }

    /// RFC 1071: the header's words and its checksum add up to ones.
    fn adds_up(ip: &[u8]) -> bool {
        let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    #[test]
    fn a_mark_is_in_the_header_and_its_checksum() {
        // RFC 1071's sum over a header from 10.66.0.1 to 10.66.0.3.
        let header = |tos: u8| {
            let mut ip = [
                0x45, tos, 0x05, 0xdc, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 66, 0, 1, 10, 66, 0, 3,
            ];
            let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut frame = vec![0; 12];
            frame.extend([0x08, 0x00]);
            frame.extend(ip);
            frame
        };
        for (tos, is) in
            [(0b00, Ecn::NotEct), (0b01, Ecn::Ect1), (0xfe, Ecn::Ect0), (0b11, Ecn::Ce)]
        {
            let mut frame = header(tos);
            assert_eq!(ecn(&frame), is);
            assert!(adds_up(&frame[HEADER_BYTES..]));
            mark(&mut frame);
            assert_eq!(ecn(&frame), Ecn::Ce);
            assert_eq!(frame[HEADER_BYTES + 1] & 0xfc, tos & 0xfc, "the rest of the byte stays");
            assert!(adds_up(&frame[HEADER_BYTES..]), "{tos:#x}");
        }
        let mut other = header(0b10);
        other[12] = 0x86;
        let before = other.clone();
        mark(&mut other);
        assert!(other == before && ecn(&other) == Ecn::NotEct, "IPv6 and others are left alone");
    }
}
