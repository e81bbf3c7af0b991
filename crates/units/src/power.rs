//! Radio power and decibels.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Received or transmitted power, in attowatts (1e-18 W).
///
/// It is an integer, so that the interference at a receiver returns exactly to zero when every
/// contribution has left. The range is −150 dBm to +42 dBm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Power(pub u64);

impl Power {
    /// No power.
    pub const ZERO: Power = Power(0);

    /// Converts from watts, to the nearest attowatt; negative and NaN give zero.
    pub fn from_watts(w: f64) -> Self {
        Power((w * 1e18 + 0.5) as u64)
    }
    /// Converts from dBm.
    pub fn from_dbm(dbm: f64) -> Self {
        Power::from_watts(libm::pow(10.0, dbm / 10.0) * 1e-3)
    }
    /// Returns the power in watts.
    pub fn as_watts(self) -> f64 {
        self.0 as f64 * 1e-18
    }
    /// Returns the power in dBm; −∞ for zero power.
    pub fn as_dbm(self) -> f64 {
        10.0 * libm::log10(self.as_watts() * 1e3)
    }
}

impl Add for Power {
    type Output = Power;
    fn add(self, o: Power) -> Power {
        Power(self.0 + o.0)
    }
}
impl AddAssign for Power {
    fn add_assign(&mut self, o: Power) {
        self.0 += o.0;
    }
}
impl Sub for Power {
    type Output = Power;
    fn sub(self, o: Power) -> Power {
        Power(self.0 - o.0)
    }
}
impl SubAssign for Power {
    fn sub_assign(&mut self, o: Power) {
        self.0 -= o.0;
    }
}
impl fmt::Debug for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Exact, because texts of scenarios are compared; dBm for readers.
        write!(f, "{} aW ({:.2} dBm)", self.0, self.as_dbm())
    }
}

/// A ratio of powers in decibels.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decibel(pub f64);

impl Decibel {
    /// Returns the ratio as a plain number.
    pub fn ratio(self) -> f64 {
        libm::pow(10.0, self.0 / 10.0)
    }
}
