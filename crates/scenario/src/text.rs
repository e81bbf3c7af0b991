//! Quantities as text ("11 Mbit/s") in serde types and in the schema.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use fairmesh_units::{BitRate, Bytes, Decibel, Distance, Frequency, QuantityError, Span, Unit};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serializer, de};

/// A quantity with a unit.
pub trait Quantity: FromStr<Err = QuantityError> {
    /// Unit of the quantity's text.
    const UNIT: Unit;
    /// Returns the quantity's text.
    fn text(&self) -> String;
}

macro_rules! quantity {
    ($($type:ident => $show:expr),* $(,)?) => {$(
        impl Quantity for $type {
            const UNIT: Unit = Unit::$type;
            fn text(&self) -> String {
                $show(self)
            }
        }
    )*};
}

quantity! {
    Span => |v: &Span| v.to_string(),
    BitRate => |v: &BitRate| v.to_string(),
    Bytes => |v: &Bytes| v.to_string(),
    Distance => |v: &Distance| v.to_string(),
    Frequency => |v: &Frequency| v.to_string(),
    Decibel => |v: &Decibel| format!("{} dB", v.0),
}

struct Text<T>(PhantomData<T>);

impl<T: Quantity> de::Visitor<'_> for Text<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::UNIT.expected())
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Serialises a quantity, for `#[serde(with = "text")]`.
pub fn serialize<T: Quantity, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&value.text())
}

/// Deserialises a quantity, for `#[serde(with = "text")]`.
pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    d.deserialize_str(Text(PhantomData))
}

/// `#[serde(with = "text::option")]` for an optional quantity.
pub mod option {
    use super::{Deserializer, Quantity, Serializer, Text};
    use core::marker::PhantomData;

    /// Serialises, for `#[serde(with)]`.
    pub fn serialize<T: Quantity, S: Serializer>(
        value: &Option<T>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(v) => s.serialize_some(&v.text()),
            None => s.serialize_none(),
        }
    }

    /// Deserialises, for `#[serde(with)]`; `#[serde(default)]` handles an absent key.
    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<T>, D::Error> {
        d.deserialize_str(Text(PhantomData)).map(Some)
    }
}

/// `#[serde(with = "text::list")]` for a list of quantities.
pub mod list {
    use super::{Deserialize, Deserializer, Quantity, Serializer};
    use serde::Serialize;

    #[derive(Deserialize, Serialize)]
    #[serde(bound(deserialize = "T: Quantity", serialize = "T: Quantity"))]
    struct One<T>(#[serde(with = "super")] T);

    /// Serialises, for `#[serde(with)]`.
    pub fn serialize<T: Quantity, S: Serializer>(
        values: &Option<Vec<T>>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        values.as_ref().map(|v| v.iter().map(Quantity::text).collect::<Vec<_>>()).serialize(s)
    }

    /// Deserialises, for `#[serde(with)]`.
    pub fn deserialize<'de, T: Quantity, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Vec<T>>, D::Error> {
        Vec::<One<T>>::deserialize(d).map(|v| Some(v.into_iter().map(|One(t)| t).collect()))
    }
}

/// Returns the schema of a quantity: a number and a unit.
pub fn schema<T: Quantity>(_: &mut SchemaGenerator) -> Schema {
    let units = match T::UNIT {
        Unit::Span => "ns|us|µs|μs|ms|s|min|h",
        Unit::BitRate => "[kMG]?(bit|b)/s",
        Unit::Bytes => "B|kB|KiB|MB|MiB|GB|GiB",
        Unit::Distance => "m|km",
        Unit::Decibel => "dB",
        Unit::Frequency => "kHz|MHz|GHz",
    };
    // Only levels may be negative.
    let sign = if T::UNIT == Unit::Decibel { "[+-]?" } else { "[+]?" };
    let number = r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?";
    json_schema!({
        "type": "string",
        "description": T::UNIT.expected(),
        "pattern": format!(r"^\s*{sign}{number}\s*({units})\s*$"),
    })
}

/// Returns the schema of a list of quantities.
pub fn schema_list<T: Quantity>(g: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": schema::<T>(g) })
}
