//! Instants and spans on the simulated (or monotonic) clock.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

/// An instant: nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Instant after every other one; stands for "never".
    pub const NEVER: Time = Time(u64::MAX);

    /// Returns the instant `ns` nanoseconds after the start.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Time(ns)
    }
    /// Returns nanoseconds since the start.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Returns the time elapsed since `earlier`, zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// Empty span.
    pub const ZERO: Span = Span(0);
    /// Longer than every other span.
    pub const MAX: Span = Span(u64::MAX);

    /// Returns `ns` nanoseconds.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Span(ns)
    }
    /// Returns `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Span(us * 1_000)
    }
    /// Returns `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Span(ms * 1_000_000)
    }
    /// Returns `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Span(s * 1_000_000_000)
    }
    /// Returns `s` seconds to the nearest nanosecond; negative and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Self {
        // `as` saturates: NaN and negatives become 0.
        Span((s * 1e9 + 0.5) as u64)
    }
    /// Returns nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Returns the difference, zero rather than negative.
    #[inline]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// Returns the product, the longest span rather than overflow.
    #[inline]
    pub const fn saturating_mul(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, d: Span) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, d: Span) {
        *self = *self + d;
    }
}
impl Sub<Time> for Time {
    type Output = Span;
    /// Returns zero rather than a negative span, as [`Time::since`].
    #[inline]
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}
impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, o: Span) -> Span {
        Span(self.0.saturating_add(o.0))
    }
}
impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, o: Span) {
        *self = *self + o;
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, n: u64) -> Span {
        Span(self.0 * n)
    }
}
impl Div<Span> for Span {
    type Output = u64;
    /// Returns the whole number of times that `o` fits.
    #[inline]
    fn div(self, o: Span) -> u64 {
        self.0 / o.0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        if ns >= 1_000_000_000 || ns == 0 {
            write!(f, "{} s", ns as f64 / 1e9)
        } else if ns >= 1_000_000 {
            write!(f, "{} ms", ns as f64 / 1e6)
        } else if ns >= 1_000 {
            write!(f, "{} us", ns as f64 / 1e3)
        } else {
            write!(f, "{ns} ns")
        }
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Time::NEVER {
            return f.write_str("never");
        }
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
