//! Bit rates, sizes, distances and probabilities.

use core::fmt;

use crate::time::Span;

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BitRate(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bytes(pub u64);

/// A distance in metres, finite and not negative when parsed.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Distance(pub f64);

/// A frequency or the width of a channel, Hz.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Frequency(pub u64);

/// A probability, between 0 and 1 when parsed.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Probability(pub f64);

impl BitRate {
    /// Returns the time to send `bytes` at this rate, rounded up to a nanosecond.
    ///
    /// The rate must not be zero.
    pub const fn time_for(self, bytes: u64) -> Span {
        let bits_ns = bytes as u128 * 8 * 1_000_000_000;
        Span::from_nanos(bits_ns.div_ceil(self.0 as u128) as u64)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0;
        if r >= 1_000_000_000 {
            write!(f, "{} Gbit/s", r as f64 / 1e9)
        } else if r >= 1_000_000 {
            write!(f, "{} Mbit/s", r as f64 / 1e6)
        } else if r >= 1_000 {
            write!(f, "{} kbit/s", r as f64 / 1e3)
        } else {
            write!(f, "{r} bit/s")
        }
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0;
        if b >= 1_000_000 && b.is_multiple_of(1_000) {
            write!(f, "{} MB", b as f64 / 1e6)
        } else if b >= 10_000 && b.is_multiple_of(100) {
            write!(f, "{} kB", b as f64 / 1e3)
        } else {
            write!(f, "{b} B")
        }
    }
}
impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MHz", self.0 as f64 / 1e6)
    }
}
impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m", self.0)
    }
}
