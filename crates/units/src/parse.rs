//! Parser of quantities such as "11 Mbit/s", "250 m", "200 s".
//!
//! A quantity is a number, an optional space, and a unit.

use core::fmt;
use core::str::FromStr;

use crate::{BitRate, Bytes, Decibel, Distance, Frequency, Span};

/// Expected kind of a quantity's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A length of time.
    Span,
    /// A bit rate.
    BitRate,
    /// A size in bytes.
    Bytes,
    /// A distance.
    Distance,
    /// A power ratio.
    Decibel,
    /// A frequency, or the width of a channel.
    Frequency,
}

impl Unit {
    /// Returns the accepted units and an example, for error messages.
    pub const fn expected(self) -> &'static str {
        match self {
            Unit::Span => "a time such as \"200 s\" (ns, us, ms, s, min, h)",
            Unit::BitRate => {
                "a rate such as \"11 Mbit/s\" (bit/s, kbit/s, Mbit/s, Gbit/s; b/s also works)"
            }
            Unit::Bytes => "a size such as \"512 B\" (B, kB, KiB, MB, MiB, GB, GiB)",
            Unit::Distance => "a distance such as \"250 m\" (m, km)",
            Unit::Decibel => "a ratio such as \"10 dB\" (dB)",
            Unit::Frequency => "a width such as \"20 MHz\" (kHz, MHz, GHz)",
        }
    }

    fn factor(self, unit: &str) -> Option<f64> {
        Some(match (self, unit) {
            (Unit::Span, "ns") => 1e-9,
            (Unit::Span, "us" | "µs" | "μs") => 1e-6,
            (Unit::Span, "ms") => 1e-3,
            (Unit::Span, "s") => 1.0,
            (Unit::Span, "min") => 60.0,
            (Unit::Span, "h") => 3600.0,
            (Unit::BitRate, "bit/s" | "b/s") => 1.0,
            (Unit::BitRate, "kbit/s" | "kb/s") => 1e3,
            (Unit::BitRate, "Mbit/s" | "Mb/s") => 1e6,
            (Unit::BitRate, "Gbit/s" | "Gb/s") => 1e9,
            (Unit::Bytes, "B") => 1.0,
            (Unit::Bytes, "kB") => 1e3,
            (Unit::Bytes, "KiB") => 1024.0,
            (Unit::Bytes, "MB") => 1e6,
            (Unit::Bytes, "MiB") => 1024.0 * 1024.0,
            (Unit::Bytes, "GB") => 1e9,
            (Unit::Bytes, "GiB") => 1024.0 * 1024.0 * 1024.0,
            (Unit::Distance, "m") => 1.0,
            (Unit::Distance, "km") => 1e3,
            (Unit::Decibel, "dB") => 1.0,
            (Unit::Frequency, "kHz") => 1e3,
            (Unit::Frequency, "MHz") => 1e6,
            (Unit::Frequency, "GHz") => 1e9,
            _ => return None,
        })
    }
}

/// Reason for the rejection of a quantity's text.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantityError {
    /// The rejected text.
    pub text: String,
    /// The expected quantity.
    pub expected: Unit,
    /// Problem with the text.
    pub problem: Problem,
}

/// The kinds of wrong quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// No number in front.
    NotANumber,
    /// A number without a unit.
    MissingUnit,
    /// A unit of another quantity, or none known.
    WrongUnit,
    /// A negative value.
    Negative,
    /// Infinite, NaN or beyond the type's range.
    OutOfRange,
}

impl QuantityError {
    /// Returns the problem, without the expected quantity.
    pub fn description(&self) -> String {
        let what = match self.problem {
            Problem::NotANumber => "has no number",
            Problem::MissingUnit => "has no unit",
            Problem::WrongUnit => "has a wrong unit",
            Problem::Negative => "is negative",
            Problem::OutOfRange => "is out of range",
        };
        format!("\"{}\" {what}", self.text)
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.description(), self.expected.expected())
    }
}
impl core::error::Error for QuantityError {}

/// Splits, checks and scales a text; the value is in the quantity's base unit.
fn parse(text: &str, expected: Unit) -> Result<f64, QuantityError> {
    let err = |problem| QuantityError { text: text.to_owned(), expected, problem };
    let t = text.trim();
    // The unit starts at the first character that cannot be in a number ("1e3 m": 'e' counts only
    // before a digit or sign).
    let b = t.as_bytes();
    let cut = (0..b.len())
        .find(|&i| match b[i] {
            b'0'..=b'9' | b'.' | b'+' | b'-' => false,
            b'e' | b'E' => !(i > 0 && matches!(b.get(i + 1), Some(b'0'..=b'9' | b'+' | b'-'))),
            _ => true,
        })
        .unwrap_or(b.len());
    let (number, unit) = (t[..cut].trim(), t[cut..].trim());
    let value = f64::from_str(number).map_err(|_| err(Problem::NotANumber))?;
    if unit.is_empty() {
        return Err(err(Problem::MissingUnit));
    }
    let factor = expected.factor(unit).ok_or_else(|| err(Problem::WrongUnit))?;
    let scaled = value * factor;
    if !scaled.is_finite() {
        return Err(err(Problem::OutOfRange));
    }
    if scaled < 0.0 && expected != Unit::Decibel {
        return Err(err(Problem::Negative));
    }
    Ok(scaled)
}

fn integer(text: &str, expected: Unit, value: f64) -> Result<u64, QuantityError> {
    // 2^63: leaves room to add two of them.
    if value >= 9.2e18 {
        return Err(QuantityError {
            text: text.to_owned(),
            expected,
            problem: Problem::OutOfRange,
        });
    }
    Ok((value + 0.5) as u64)
}

impl FromStr for Span {
    type Err = QuantityError;
    fn from_str(s: &str) -> Result<Self, QuantityError> {
        Ok(Span::from_nanos(integer(s, Unit::Span, parse(s, Unit::Span)? * 1e9)?))
    }
}
impl FromStr for BitRate {
    type Err = QuantityError;
    fn from_str(s: &str) -> Result<Self, QuantityError> {
        Ok(BitRate(integer(s, Unit::BitRate, parse(s, Unit::BitRate)?)?))
    }
}
impl FromStr for Bytes {
    type Err = QuantityError;
    fn from_str(s: &str) -> Result<Self, QuantityError> {
        Ok(Bytes(integer(s, Unit::Bytes, parse(s, Unit::Bytes)?)?))
    }
}
impl FromStr for Frequency {
    type Err = QuantityError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let value = parse(s, Unit::Frequency)?;
        Ok(Frequency(integer(s, Unit::Frequency, value.round())?))
    }
}

impl FromStr for Distance {
    type Err = QuantityError;
    fn from_str(s: &str) -> Result<Self, QuantityError> {
        Ok(Distance(parse(s, Unit::Distance)?))
    }
}
impl FromStr for Decibel {
    type Err = QuantityError;
    fn from_str(s: &str) -> Result<Self, QuantityError> {
        Ok(Decibel(parse(s, Unit::Decibel)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!("11 Mbit/s".parse(), Ok(BitRate(11_000_000)));
        assert_eq!("5.5Mb/s".parse(), Ok(BitRate(5_500_000)));
        assert_eq!("1e3 m".parse(), Ok(Distance(1000.0)));
        assert_eq!("200 s".parse(), Ok(Span::from_secs(200)));
        assert_eq!("20 µs".parse(), Ok(Span::from_micros(20)));
        assert_eq!("64 KiB".parse(), Ok(Bytes(65536)));
        assert_eq!("-3 dB".parse(), Ok(Decibel(-3.0)));
    }

    #[test]
    fn invalid_quantities_are_refused_with_the_problem() {
        let p = |s: &str| s.parse::<BitRate>().unwrap_err().problem;
        assert_eq!(p("11"), Problem::MissingUnit);
        assert_eq!(p("11 m"), Problem::WrongUnit);
        assert_eq!(p("fast"), Problem::NotANumber);
        assert_eq!(p("-1 kbit/s"), Problem::Negative);
        assert_eq!(p("1e300 Gbit/s"), Problem::OutOfRange);
        assert_eq!(p("NaN bit/s"), Problem::NotANumber);
        assert!("".parse::<Span>().is_err());
    }

    proptest! {
        #[test]
        fn printing_and_reading_agree(r in 0u64..1_000_000_000_000, b in 0u64..1_000_000_000, ns in 0u64..1_000_000_000_000) {
            prop_assert_eq!(BitRate(r).to_string().parse(), Ok(BitRate(r)));
            prop_assert_eq!(Bytes(b).to_string().parse(), Ok(Bytes(b)));
            prop_assert_eq!(Span::from_nanos(ns).to_string().parse(), Ok(Span::from_nanos(ns)));
        }

        #[test]
        fn never_panics(s in "\\PC{0,20}") {
            let _ = s.parse::<Span>();
            let _ = s.parse::<BitRate>();
            let _ = s.parse::<Decibel>();
        }
    }
}
