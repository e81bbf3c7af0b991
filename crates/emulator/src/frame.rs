//! Ethernet frames between namespaces and the engine.

use std::fmt;

/// Bytes of an Ethernet header, which does not go on the air: 802.11 has its own.
pub const HEADER: usize = fairmesh_linux::tap::ETHERNET;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mac(pub [u8; 6]);

/// Ours begin like this: locally administered, then "fm".
const OURS: [u8; 3] = [0x02, 0x66, 0x6d];

impl Mac {
    /// Of a node's radio.
    pub const fn radio(node: u16) -> Self {
        let [a, b, c] = OURS;
        Mac([a, b, c, 0, (node >> 8) as u8, node as u8])
    }

    /// Of one end of a wire.
    pub const fn wire(wire: u16, b_end: bool) -> Self {
        let [a, b, c] = OURS;
        Mac([a, b, c, 1 + b_end as u8, (wire >> 8) as u8, wire as u8])
    }

    /// The node whose radio has this address.
    pub fn node(self) -> Option<u16> {
        match self.0 {
            [a, b, c, 0, high, low] if [a, b, c] == OURS => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }

    /// Broadcast or multicast: for whoever hears it.
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

/// Destination of a frame and the length of what it carries; `None` if it is no frame.
pub fn parse(frame: &[u8]) -> Option<(Mac, u32)> {
    let to: [u8; 6] = frame.get(..6)?.try_into().ok()?;
    let payload = frame.len().checked_sub(HEADER)?;
    Some((Mac(to), payload as u32))
}

/// The content of frames that are in the engine, by the engine's number.
#[derive(Debug, Default)]
pub struct Frames {
    slots: Vec<Vec<u8>>,
}

impl Frames {
    /// Keeps a frame's content; the place is used again when the number is.
    pub fn put(&mut self, number: u32, content: &[u8]) {
        let i = number as usize;
        if self.slots.len() <= i {
            self.slots.resize_with(i + 1, Vec::new);
        }
        self.slots[i].clear();
        self.slots[i].extend_from_slice(content);
    }

    /// A frame's content.
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
}
