//! The datagram between gateways: header, body, HMAC-SHA-256 (RFC 2104, FIPS 180-4).
//!
//! | octets | |
//! |---|---|
//! | 0–3 | `fmgp` |
//! | 4 | version, 1 |
//! | 5 | kind: 0 a heartbeat without body, 1 a message of the control |
//! | 6–7 | length of the body |
//! | 8–11 | the sender's number |
//! | 12–19 | the sender's epoch, drawn at its start |
//! | 20–27 | sequence: rises with every datagram of an epoch |
//! | 28–35 | challenge of the sender to the receiver |
//! | 36–43 | the receiver's last challenge that the sender knows; 0: none |
//! | 44… | body, at most [`MAX_BODY`] octets |
//! | last 32 | tag |
//!
//! Integers are big-endian.

use core::ops::RangeInclusive;

use crate::key::{Key, TAG_BYTES};

const MAGIC: &[u8; 4] = b"fmgp";
/// Version of the format.
const VERSION: u8 = 1;
/// Octets before the body.
const HEADER: usize = 44;
/// Longest body. The datagram then fits into 1,280 octets of IPv6.
pub const MAX_BODY: usize = 1152;
/// Longest datagram.
pub const MAX_DATAGRAM: usize = HEADER + MAX_BODY + TAG_BYTES;
/// Valid numbers of gateways.
pub const NUMBERS: RangeInclusive<u32> = 1..=65_535;

/// Contents of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Sender.
    pub number: u32,
    /// Epoch, drawn at the sender's start.
    pub epoch: u64,
    /// Sequence number, increasing within the epoch.
    pub sequence: u64,
    /// Challenge that the receiver has to repeat.
    pub challenge: u64,
    /// Last challenge of the receiver that the sender knows.
    pub echo: u64,
    /// Message of the control; `None`: a heartbeat.
    pub body: Option<&'a [u8]>,
}

/// Reason why a datagram is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Invalid format.
    Malformed,
    /// Another version.
    Version,
    /// Wrong tag: made without the key, or modified in transit.
    Tag,
}

impl<'a> Frame<'a> {
    /// Returns the bytes of the datagram.
    ///
    /// A body is at most [`MAX_BODY`] octets; a longer one is not sent.
    pub fn seal(&self, key: &Key) -> Vec<u8> {
        let body = self.body.filter(|b| b.len() <= MAX_BODY).unwrap_or_default();
        let mut out = Vec::with_capacity(HEADER + body.len() + TAG_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, u8::from(self.body.is_some())]);
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        for value in [self.epoch, self.sequence, self.challenge, self.echo] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out.extend_from_slice(body);
        let tag = key.tag(&out);
        out.extend_from_slice(&tag);
        out
    }

    /// Reads a datagram and checks its tag.
    ///
    /// # Errors
    /// It is invalid, or was made without this key.
    pub fn open(bytes: &'a [u8], key: &Key) -> Result<Self, Unreadable> {
        let (frame, tagged, tag) = Frame::read(bytes)?;
        // In constant time.
        if key.verifies(tagged, tag) { Ok(frame) } else { Err(Unreadable::Tag) }
    }

    /// Reads the fields, the octets that the tag covers, and the tag.
    fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8], &'a [u8]), Unreadable> {
        let malformed = Unreadable::Malformed;
        if bytes.len() > MAX_DATAGRAM || bytes.get(..4) != Some(MAGIC) {
            return Err(malformed);
        }
        match bytes.get(4) {
            Some(&VERSION) => {}
            Some(_) => return Err(Unreadable::Version),
            None => return Err(malformed),
        }
        let body = bytes.len().checked_sub(HEADER + TAG_BYTES).ok_or(malformed)?;
        let octets = |at: usize| -> [u8; 8] {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            value
        };
        let long = |at: usize| u64::from_be_bytes(octets(at));
        let number = (long(8) >> 32) as u32;
        let has_body = match bytes[5] {
            0 => false,
            1 => true,
            _ => return Err(malformed),
        };
        let length = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        if length != body || has_body != (body > 0) || !NUMBERS.contains(&number) {
            return Err(malformed);
        }
        let (tagged, tag) = bytes.split_at(HEADER + body);
        let frame = Frame {
            number,
            epoch: long(12),
            sequence: long(20),
            challenge: long(28),
            echo: long(36),
            body: has_body.then(|| &tagged[HEADER..]),
        };
        Ok((frame, tagged, tag))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(octet: u8) -> Key {
        Key::new([octet; 32])
    }

    fn frame(body: Option<&[u8]>) -> Frame<'_> {
        Frame { number: 7, epoch: 1 << 63, sequence: 5, challenge: 6, echo: 0, body }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = frame(Some(b"xyz")).seal(&key(1));
        let head: String = bytes[..44].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            head,
            "666d677001010003000000078000000000000000000000000000000500000000000000060000000000000000"
        );
        assert_eq!((&bytes[44..47], bytes.len()), (&b"xyz"[..], 44 + 3 + 32));
        assert_eq!(frame(None).seal(&key(1)).len(), 76);
        let longest = vec![0; MAX_BODY];
        assert_eq!(frame(Some(&longest)).seal(&key(1)).len(), MAX_DATAGRAM);
        // IPv6 and UDP around it (RFC 8200 §3 and §5, RFC 768).
        const { assert!(MAX_DATAGRAM + 40 + 8 <= 1280) };
    }

    #[test]
    fn another_key_version_kind_length_or_number_is_named() {
        let good = frame(Some(b"xyz")).seal(&key(1));
        assert_eq!(Frame::open(&good, &key(1)), Ok(frame(Some(b"xyz"))));
        assert_eq!(Frame::open(&good, &key(2)), Err(Unreadable::Tag));
        let with = |at: usize, octet: u8| {
            let mut bytes = good.clone();
            bytes[at] = octet;
            Frame::open(&bytes, &key(1)).unwrap_err()
        };
        assert_eq!(with(4, 2), Unreadable::Version);
        for (at, octet) in [(0, b'x'), (5, 0), (5, 2), (7, 4), (8, 1), (11, 0)] {
            assert_eq!(with(at, octet), Unreadable::Malformed, "octet {at}");
        }
        assert_eq!(Frame::open(&good[..75], &key(1)), Err(Unreadable::Malformed));
        assert_eq!(Frame::open(b"", &key(1)), Err(Unreadable::Malformed));
    }

    proptest! {
        #[test]
        fn a_changed_octet_is_noticed(body in prop::collection::vec(any::<u8>(), 1..99), at in 0usize..200, by in 1u8..) {
            let mut bytes = frame(Some(&body)).seal(&key(1));
            let at = at % bytes.len();
            bytes[at] ^= by;
            prop_assert!(Frame::open(&bytes, &key(1)).is_err());
        }

        #[test]
        fn nothing_makes_the_parser_fail(bytes in prop::collection::vec(any::<u8>(), 0..1400), head in any::<bool>()) {
            let mut bytes = bytes;
            if head && bytes.len() > 8 {
                bytes[..6].copy_from_slice(b"fmgp\x01\x01");
                let length = bytes.len().saturating_sub(76) as u16;
                bytes[6..8].copy_from_slice(&length.to_be_bytes());
            }
            prop_assert!(Frame::open(&bytes, &key(1)).is_err());
        }
    }
}
