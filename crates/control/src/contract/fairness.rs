//! The key `fairness` of configurations: the objective between flows.

use core::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Objective between flows, as configurations name it.
///
/// Files write `"max-min"`, `"proportional"` or `{ alpha = 2 }`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fairness {
    /// No flow can have more without another one that has no more than it getting less.
    MaxMin,
    /// Flows that share a bottleneck have equal airtime.
    Proportional,
    /// Alpha-fair rates.
    Alpha(f64),
}

impl Fairness {
    /// Parameter of mechanisms that have an objective.
    pub const PARAMETER: &str = "alpha_fairness";
    /// Key of the table in configurations.
    const KEY: &str = "alpha";
    /// Value of that parameter for max-min fairness, the largest one.
    pub const MAX_MIN: f64 = 100.0;

    /// Returns the value of [`Fairness::PARAMETER`].
    pub fn alpha(self) -> f64 {
        match self {
            Fairness::MaxMin => Fairness::MAX_MIN,
            Fairness::Proportional => 1.0,
            Fairness::Alpha(alpha) => alpha,
        }
    }
}

impl<'de> de::Deserialize<'de> for Fairness {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Objective;
        impl<'de> Visitor<'de> for Objective {
            type Value = Fairness;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"max-min\", \"proportional\" or { alpha = NUMBER }")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Fairness, E> {
                match name {
                    "max-min" => Ok(Fairness::MaxMin),
                    "proportional" => Ok(Fairness::Proportional),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fairness, A::Error> {
                let mut alpha = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key != Fairness::KEY {
                        return Err(de::Error::unknown_field(&key, &[Fairness::KEY]));
                    }
                    alpha = Some(map.next_value()?);
                }
                alpha.map(Fairness::Alpha).ok_or_else(|| de::Error::missing_field(Fairness::KEY))
            }
        }
        d.deserialize_any(Objective)
    }
}

impl Serialize for Fairness {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Fairness::MaxMin => s.serialize_str("max-min"),
            Fairness::Proportional => s.serialize_str("proportional"),
            Fairness::Alpha(alpha) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry(Fairness::KEY, alpha)?;
                map.end()
            }
        }
    }
}
