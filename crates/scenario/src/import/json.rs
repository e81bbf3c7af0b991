//! JSON of maps: errors with line and key, strict objects, values of any type.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Result;
use crate::error::{KeyPath, Problem, ScenarioError, Step};

/// Reads JSON; an error has its line and key.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T> {
    use serde_path_to_error::Segment;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let step = |s: &Segment| match s {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            _ => None,
        };
        let key = KeyPath(e.path().iter().filter_map(step).collect());
        json_error(key, &e.into_inner())
    })?;
    reader.end().map_err(|e| json_error(KeyPath::root(), &e))?;
    Ok(value)
}

fn json_error(key: KeyPath, cause: &serde_json::Error) -> ScenarioError {
    let message = cause.to_string();
    // serde_json appends the position, which is put in front here.
    let message = message.split(" at line ").next().unwrap_or_default();
    let problem = match message.split_once(", expected ") {
        Some((what, expected)) => Problem::refused(what, expected),
        None => Problem::Syntax(message.to_owned()),
    };
    let mut e = ScenarioError::at(key, problem);
    e.line = Some(cause.line());
    e
}

/// Replaces Python's `Infinity` and `NaN`, which are not JSON; line numbers are kept.
///
/// The former becomes a number above every protocol's infinity, the latter `null`.
pub(super) fn without_python_numbers(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    let bytes = text.as_bytes();
    let mut in_string = false;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            b'I' | b'N' if !in_string => {
                let found = [("Infinity", "1e300"), ("NaN", "null")];
                let rest = &bytes[at..];
                if let Some((word, number)) =
                    found.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes()))
                {
                    out.push_str(&text[copied..at]);
                    out.push_str(number);
                    at += word.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// A JSON object.
///
/// Serde's derived types also accept a list of their fields' values, which would be assigned by
/// position.
#[derive(Debug)]
pub(super) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Objects<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        d.deserialize_map(Objects(PhantomData))
    }
}

/// The `properties` of a node or link.
///
/// It is an object, `null`, or the empty list that PHP writes for an empty object.
#[derive(Debug)]
pub(super) struct Properties<T>(pub Option<T>);

impl<T> Default for Properties<T> {
    fn default() -> Self {
        Properties(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Properties<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Objects<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
            type Value = Properties<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<Properties<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|p| Properties(Some(p)))
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<Properties<T>, A::Error> {
                match seq.next_element::<serde::de::IgnoredAny>()? {
                    None => Ok(Properties(None)),
                    Some(_) => {
                        let found = serde::de::Unexpected::Seq;
                        Err(serde::de::Error::invalid_type(found, &self))
                    }
                }
            }
            fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<Properties<T>, E> {
                Ok(Properties(None))
            }
        }
        d.deserialize_any(Objects(PhantomData))
    }
}

/// Returns a number, also from a text; `Err` for another value, `Ok(None)` without a value.
pub(super) fn number(value: &Value) -> std::result::Result<Option<f64>, ()> {
    match value {
        Value::Null => Ok(None),
        Value::Number(n) => n.as_f64().map(Some).ok_or(()),
        Value::String(text) => {
            let number = text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
            number.map(Some).ok_or(())
        }
        _ => Err(()),
    }
}

/// Returns a text, also from a number; `Err` for another value, `Ok(None)` without one.
pub(super) fn text(value: Value) -> std::result::Result<Option<String>, ()> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text).filter(|t| !t.trim().is_empty())),
        Value::Number(n) => Ok(Some(n.to_string())),
        _ => Err(()),
    }
}

/// Returns a boolean as maps write it; `Err` for another value, `Ok(None)` without one.
pub(super) fn flag(value: &Value) -> std::result::Result<Option<bool>, ()> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(is) => Ok(Some(*is)),
        Value::Number(n) if n.as_f64() == Some(0.0) => Ok(Some(false)),
        Value::Number(n) if n.as_f64() == Some(1.0) => Ok(Some(true)),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(Some(true)),
            "false" | "no" | "0" | "" => Ok(Some(false)),
            _ => Err(()),
        },
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_numbers_are_replaced_outside_of_texts() {
        let text = "{\"a\": Infinity, \"b\\\"\": NaN,\n\"NaN\": -Infinity, \"c\": \"Infinity\"}";
        let json = without_python_numbers(text);
        assert_eq!(json, "{\"a\": 1e300, \"b\\\"\": null,\n\"NaN\": -1e300, \"c\": \"Infinity\"}");
        assert!(matches!(without_python_numbers("{\"NaN\": 1}"), Cow::Borrowed(_)));
        assert_eq!(without_python_numbers("\"\\"), "\"\\");
    }
}
