//! Names of nodes.

use core::cmp::Ordering;
use core::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A node's name, written as a string or an integer: `4` and `"4"` are equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Name(String);

impl Name {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number, for names that are plain integers.
    fn number(&self) -> Option<u64> {
        // "07" is not a number: it would be another spelling of 7.
        if self.0.len() > 1 && self.0.starts_with('0') {
            return None;
        }
        if self.0.bytes().all(|b| b.is_ascii_digit()) { self.0.parse().ok() } else { None }
    }

    /// Compares names: numbers before words, numbers by size.
    ///
    /// Words are all equal, so that a stable sort keeps them in order of appearance.
    pub(crate) fn rank(&self, other: &Name) -> Ordering {
        match (self.number(), other.number()) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Name(name.trim().to_owned())
    }
}
impl From<String> for Name {
    fn from(name: String) -> Self {
        Name::from(name.as_str())
    }
}
impl From<usize> for Name {
    fn from(number: usize) -> Self {
        Name(number.to_string())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.number() {
            Some(n) => s.serialize_u64(n),
            None => s.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a node's name: a word or an integer from 0")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
                if name.trim().is_empty() {
                    return Err(E::invalid_value(de::Unexpected::Str(name), &self));
                }
                Ok(Name::from(name))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Name, E> {
                Ok(Name(number.to_string()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Name, E> {
                u64::try_from(number)
                    .map(|n| Name(n.to_string()))
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Name".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "pattern": r"\S" },
            { "type": "integer", "minimum": 0 },
        ] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_their_text_are_the_same_name() {
        assert_eq!(Name::from(4), Name::from("4"));
        assert_eq!(serde_json::from_str::<Name>("4").unwrap(), Name::from(" 4 "));
        assert!(serde_json::from_str::<Name>("-1").is_err());
        assert!(serde_json::from_str::<Name>("\" \"").is_err());
    }

    #[test]
    fn numbers_rank_by_size_and_words_keep_their_order() {
        let mut names = ["b", "10", "9", "a", "07"].map(Name::from);
        names.sort_by(Name::rank);
        assert_eq!(names.map(|n| n.to_string()), ["9", "10", "b", "a", "07"]);
    }
}
