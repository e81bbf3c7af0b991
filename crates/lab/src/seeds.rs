//! Seeds of a batch or sweep.

use core::fmt;
use core::str::FromStr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Largest number of seeds of a batch.
pub const MAX_SEEDS: u64 = 100_000;

/// Consecutive seeds: `10` stands for 1 to 10, `11..=20` and `11..21` for 11 to 20.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Seeds(RangeInclusive<u64>);

/// Seeds that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found}; expected a number of seeds from 1 to {MAX_SEEDS}, or a range such as 1..=100"
)]
pub struct SeedsError {
    /// The text or range.
    pub found: String,
}

impl Seeds {
    /// Returns the seeds 1 to `number`.
    ///
    /// # Errors
    /// Returns an error if there are none or more than [`MAX_SEEDS`].
    pub fn first(number: u64) -> Result<Self, SeedsError> {
        Self::range(1..=number).map_err(|_| SeedsError { found: number.to_string() })
    }

    /// Returns consecutive seeds.
    ///
    /// # Errors
    /// Returns an error if there are none or more than [`MAX_SEEDS`].
    pub fn range(seeds: RangeInclusive<u64>) -> Result<Self, SeedsError> {
        let wrong = seeds.is_empty() || seeds.end() - seeds.start() >= MAX_SEEDS;
        match wrong {
            true => Err(SeedsError { found: Seeds(seeds).to_string() }),
            false => Ok(Seeds(seeds)),
        }
    }

    /// Returns the first and the last seed.
    pub fn bounds(&self) -> RangeInclusive<u64> {
        self.0.clone()
    }

    /// Returns the number of seeds, at least 1.
    pub fn count(&self) -> usize {
        (self.0.end() - self.0.start() + 1) as usize
    }
}

impl From<Seeds> for String {
    fn from(seeds: Seeds) -> Self {
        seeds.to_string()
    }
}

impl TryFrom<String> for Seeds {
    type Error = SeedsError;

    fn try_from(text: String) -> Result<Self, SeedsError> {
        text.parse()
    }
}

impl Default for Seeds {
    /// The seeds 1 to 5.
    fn default() -> Self {
        Seeds(1..=5)
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.0.start(), self.0.end())
    }
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Self, SeedsError> {
        let wrong = || SeedsError { found: format!("\"{text}\"") };
        let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
        let seeds = match text.split_once("..") {
            None => Seeds::first(number(text)?),
            Some((from, to)) => {
                let from = number(from)?;
                let last = match to.strip_prefix('=') {
                    Some(last) => number(last)?,
                    None => number(to)?.checked_sub(1).ok_or_else(wrong)?,
                };
                Seeds::range(from..=last)
            }
        };
        seeds.map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        let of = |text: &str| text.parse::<Seeds>().map(|s| s.bounds());
        assert_eq!(of("3"), Ok(1..=3));
        assert_eq!(of("1..=100"), Ok(1..=100));
        assert_eq!(of(" 5 .. 8"), Ok(5..=7));
        assert_eq!("11..=20".parse::<Seeds>().unwrap().count(), 10);
        for bad in ["0", "", "-1", "5..5", "0..0", "8..=5", "1..", "..=3", "x", "1..=200000"] {
            let e = bad.parse::<Seeds>().unwrap_err().to_string();
            assert!(e.contains(&format!("found \"{bad}\"; expected")), "{e}");
        }
    }
}
