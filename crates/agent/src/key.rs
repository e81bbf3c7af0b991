//! Secret key of a mesh, and tags made with it: HMAC-SHA-256 (RFC 2104, FIPS 180-4).

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Default path of the key that routers share, also with a gateway that sends them orders.
pub const NODE_KEY_PATH: &str = "/etc/fairmesh/node.key";

/// Octets of a complete tag.
pub const TAG_BYTES: usize = 32;

/// Secret key that all daemons of a mesh share.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Returns the key of these octets.
    pub const fn new(octets: [u8; 32]) -> Self {
        Key(octets)
    }

    /// Reads 64 hexadecimal digits, ignoring white space around them.
    pub fn read(text: &str) -> Option<Key> {
        let digits = text.trim().as_bytes();
        let mut key = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (octet, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16);
            *octet = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Key(key))
    }

    /// Returns the tag of these octets.
    pub fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.mac(bytes).finalize().into_bytes().into()
    }

    /// True if `tag` is the tag of these octets, or its beginning; compares in constant time.
    ///
    /// The caller sets the length of a truncated tag (RFC 2104 §5: at least half of the tag or 80 bits).
    pub fn verifies(&self, bytes: &[u8], tag: &[u8]) -> bool {
        self.mac(bytes).verify_truncated_left(tag).is_ok()
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(bytes);
        mac
    }
}

// A key never appears in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(octet: u8) -> Key {
        Key::new([octet; 32])
    }

    /// RFC 4231 §4.2 and §4.3: keys of 20 and 4 octets, padded as HMAC itself pads them.
    #[test]
    fn the_tag_is_hmac_sha_256() {
        let tag = |key: &[u8], text: &[u8]| {
            let mut padded = [0; 32];
            padded[..key.len()].copy_from_slice(key);
            let tag = Key::new(padded).tag(text);
            tag.iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        assert_eq!(
            tag(&[0x0b; 20], b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            tag(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn keys_are_64_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(Key::read(&format!(" {text}\n")).unwrap().0[..2], [0, 255]);
        for wrong in
            [&text[..63], &format!("{text}0"), &text.replace("ff", "fg"), "", &"é".repeat(32)]
        {
            assert!(Key::read(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{:?}", key(1)), "Key", "never shown");
    }

    #[test]
    fn a_tag_may_be_truncated_and_is_never_empty() {
        let tag = key(1).tag(b"xyz");
        assert!(key(1).verifies(b"xyz", &tag) && key(1).verifies(b"xyz", &tag[..12]));
        assert!(!key(1).verifies(b"xyz", &[]) && !key(1).verifies(b"xyz", &tag[1..13]));
        assert!(!key(2).verifies(b"xyz", &tag[..12]) && !key(1).verifies(b"xy", &tag));
    }
}
