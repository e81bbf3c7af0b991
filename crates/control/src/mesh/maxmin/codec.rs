//! Encoding of a packet's values: levels and rates around its transmitter, and on its path.
//!
//! The levels and rates are of three circles around the transmitter; the path has its lowest level so far.
//!
//! The encoding takes 34 bits in unused fields of the IPv4 header: those in which `cna` has 37, without the
//! two bits of ECN. Slot 0 has the path's lowest level (8 bits, kept by the host's `Min`); slot 1 has the
//! kind (present: 1, which values: 2) and three codes of 8 bits.

use crate::Header;

/// Slot of the lowest level on the path.
pub(super) const PATH_SLOT: u8 = 0;
/// Slot of the circles.
pub(super) const CIRCLES_SLOT: u8 = 1;

const PRESENT_FLAG: u32 = 1 << 31;
const RATES_FLAG: u32 = 1 << 24;
const OUTER_FLAG: u32 = 1 << 25;

/// Smallest rate that has a code, in bit/s.
pub(super) const MIN_RATE: f64 = 2_000.0;
/// Ratio of neighbouring codes.
const CODE_RATIO: f64 = 1.045;
const MAX_CODE: u8 = 255;

/// Encodes a rate per unit of weight, application bit/s, in 8 bits, rounded down.
///
/// The code 0 means that there is none.
pub(super) fn code(rate: f64) -> u8 {
    let steps = libm::log(rate.max(MIN_RATE) / MIN_RATE) / libm::log(CODE_RATIO);
    // NaN becomes the smallest rate.
    1 + (libm::floor(steps + 1e-6).max(0.0)).min(f64::from(MAX_CODE - 1)) as u8
}

/// Returns the rate of a code.
pub(super) fn rate(code: u8) -> Option<f64> {
    let steps = code.checked_sub(1)?;
    Some(MIN_RATE * libm::pow(CODE_RATIO, f64::from(steps)))
}

/// Codes of one value for each circle.
///
/// The circles are the node itself; the node with those that send to it; the node with its neighbours and those that
/// send to them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Circles(pub [u8; 3]);

/// Contents of a header or a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Values {
    /// The lowest level of each circle: it can only fall from one to the next.
    Levels(Circles),
    /// The fastest flow of each circle: it can only rise.
    Rates(Circles),
    /// Values for nodes that sense farther than they receive.
    Outer(OuterValues),
}

/// A node's part of the air, and its neighbours' values of their widest circle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct OuterValues {
    /// Airtime of its exchanges, in 255ths of the time.
    pub air: u8,
    /// Code of the lowest level of the next circle.
    pub level: u8,
    /// Code of the fastest flow of the next circle.
    pub rate: u8,
}

/// Values that no node sends under the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// Returns the word of slot 1.
pub(super) fn word(values: Values) -> u32 {
    let (kind, Circles([a, b, c])) = match values {
        Values::Levels(circles) => (0, circles),
        Values::Rates(circles) => (RATES_FLAG, circles),
        Values::Outer(outer) => (OUTER_FLAG, Circles([outer.air, outer.level, outer.rate])),
    };
    PRESENT_FLAG | kind | u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c)
}

/// Returns the smaller of two levels as codes; 0 is none.
pub(super) fn least(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

/// Reads slot 1; `None` if nothing is carried.
pub(super) fn read(word: u32) -> Result<Option<Values>, Malformed> {
    if word == 0 {
        return Ok(None);
    }
    let [a, b, c] = [word >> 16, word >> 8, word].map(|v| v as u8);
    let circles = Circles([a, b, c]);
    if word & PRESENT_FLAG == 0
        || word & !(PRESENT_FLAG | RATES_FLAG | OUTER_FLAG | 0x00ff_ffff) != 0
    {
        return Err(Malformed);
    }
    if word & OUTER_FLAG != 0 {
        let outer = OuterValues { air: a, level: b, rate: c };
        return if word & RATES_FLAG == 0 {
            Ok(Some(Values::Outer(outer)))
        } else {
            Err(Malformed)
        };
    }
    if word & RATES_FLAG != 0 {
        return if a <= b && b <= c { Ok(Some(Values::Rates(circles))) } else { Err(Malformed) };
    }
    let falls = least(a, b) == b && least(b, c) == c;
    if falls { Ok(Some(Values::Levels(circles))) } else { Err(Malformed) }
}

/// Returns the lowest level on a packet's path so far.
pub(super) fn way(header: &Header) -> Result<Option<f64>, Malformed> {
    let code = header.0[usize::from(PATH_SLOT)];
    u8::try_from(code).map(rate).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_code_is_a_rate_rounded_down_by_less_than_a_step() {
        assert_eq!((rate(0), rate(1)), (None, Some(MIN_RATE)));
        for bps in [2e3, 30e3, 250e3, 269_123.0, 5e6, 100e6] {
            let decoded = rate(code(bps)).unwrap();
            assert!(
                decoded <= bps * (1.0 + 1e-6) && decoded * CODE_RATIO > bps,
                "{bps}: {decoded}"
            );
            assert_eq!(code(decoded), code(bps), "a decoded rate has the same code");
        }
        assert!(rate(MAX_CODE).unwrap() > 140e6);
        // No other value is valid.
        for odd in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0] {
            assert_eq!(code(odd), 1);
        }
        assert_eq!(code(f64::INFINITY), MAX_CODE);
    }

    #[test]
    fn impossible_circles_are_malformed() {
        let levels = |c| word(Values::Levels(Circles(c)));
        let rates = |c| word(Values::Rates(Circles(c)));
        for fine in [levels([0, 0, 9]), levels([9, 9, 3]), rates([0, 4, 4]), levels([0, 0, 0])] {
            assert!(read(fine).is_ok(), "{fine:x}");
        }
        // A wider circle above the one inside it, or without a value although the one inside has one.
        for bad in
            [levels([3, 9, 9]), levels([9, 9, 0]), rates([4, 3, 9]), 1, PRESENT_FLAG | 3 << 24]
        {
            assert_eq!(read(bad), Err(Malformed), "{bad:x}");
        }
        assert_eq!(read(0), Ok(None));
        assert_eq!(way(&Header([256, 0, 0, 0, 0, 0, 0, 0])), Err(Malformed));
    }

    proptest! {
        #[test]
        fn read_values_are_written_unchanged(bits: u32) {
            if let Ok(Some(values)) = read(bits) {
                prop_assert_eq!(read(word(values)), Ok(Some(values)));
            }
        }
    }
}
