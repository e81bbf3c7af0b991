//! Names of things by everything that is in them.

use std::fmt::{self, Write};

use twox_hash::XxHash3_128;

/// A hash of text as it is written.
pub(crate) struct Hash(XxHash3_128);

impl Hash {
    /// Of a text, as 32 hexadecimal digits.
    pub(crate) fn of(text: fmt::Arguments<'_>) -> String {
        let mut hash = Hash(XxHash3_128::new());
        // Writing into a hash cannot fail.
        let _ = hash.write_fmt(text);
        format!("{:032x}", hash.0.finish_128())
    }

    /// Of bytes, as 32 hexadecimal digits.
    pub(crate) fn of_bytes(bytes: &[u8]) -> String {
        format!("{:032x}", XxHash3_128::oneshot(bytes))
    }
}

impl Write for Hash {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.write(s.as_bytes());
        Ok(())
    }
}
