//! Deserializer from spanned TOML into serde types that keeps the position of every error.
//!
//! The `toml` crate's own deserializer reports positions but neither key paths nor typed causes;
//! this one reports both.

use std::borrow::Cow;

use serde::de::{self, IntoDeserializer};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::path::{KeyPath, Step};
use crate::problem::{Located, Problem};

/// Name to pass to `deserialize_enum` for a table with a key `kind` that names the variant.
///
/// The other keys are those of the variant. The visitor gets values other than tables unchanged.
pub const BY_KIND: &str = "table by kind";
/// Name for a value that is such a table, or the word of `kind` for one without other keys.
pub const WORD_OR_KIND: &str = "word or table by kind";
/// Name to pass to `deserialize_enum` for a table in which the name of a variant is a key.
///
/// Without such a key it is the first variant. A word alone stands for a table without keys.
pub const WORD_OR_KEY: &str = "word or table by key";
/// Key that names the variant.
const VARIANT_KEY: &str = "kind";

/// An error that is passed up from a value to the file.
#[derive(Debug)]
struct Fault {
    /// Steps of the key path, from the innermost outwards.
    steps: Vec<Step>,
    /// Byte offset of the innermost value.
    offset: Option<usize>,
    problem: Problem,
}

impl Fault {
    fn new(problem: Problem) -> Self {
        Fault { steps: Vec::new(), offset: None, problem }
    }
    fn at(mut self, offset: usize) -> Self {
        self.offset.get_or_insert(offset);
        self
    }
    fn under(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
    /// Returns the finished error, with its line in `text`.
    fn locate(mut self, text: &str) -> Located {
        self.steps.reverse();
        Located {
            line: self.offset.map(|o| line_of(text, o)),
            key: KeyPath(self.steps),
            problem: self.problem,
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}
impl std::error::Error for Fault {}

/// Returns the description of a type in words.
///
/// serde names types by their Rust names; the description is for authors of files.
fn in_words(expected: &str) -> String {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number without a unit",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
    .to_owned()
}

impl de::Error for Fault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        // Our own `Deserialize` implementations report errors as "problem; expected …".
        let text = message.to_string();
        Fault::new(match text.split_once("; expected ") {
            Some((what, expected)) => Problem::refused(what, expected),
            None => Problem::Syntax(text),
        })
    }
    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Fault::new(Problem::value(found.to_string(), in_words(&expected.to_string())))
    }
    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Fault::invalid_type(found, expected)
    }
    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        Fault::new(Problem::value(format!("{length} elements"), expected.to_string()))
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Fault::new(Problem::value(
            format!("\"{variant}\""),
            format!("one of {}", expected.join(", ")),
        ))
    }
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let known = expected.iter().map(|&k| k.to_owned()).collect();
        Fault::new(Problem::UnknownKey { known }).under(Step::Key(field.to_owned()))
    }
    fn missing_field(field: &'static str) -> Self {
        Fault::new(Problem::MissingKey(field.to_owned()))
    }
}

/// Returns the line, from 1, of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    1 + text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count()
}

/// Returns the byte offset of the value at a key path.
///
/// If it does not exist, the offset is that of the nearest enclosing value.
fn offset_of(root: &Spanned<DeTable<'_>>, path: &KeyPath) -> Option<usize> {
    let mut steps = path.0.iter();
    let Some(Step::Key(first)) = steps.next() else { return None };
    let mut value = get(root.get_ref(), first)?;
    for step in steps {
        let next = match (step, value.get_ref()) {
            (Step::Key(k), DeValue::Table(t)) => get(t, k),
            (Step::Index(i), DeValue::Array(a)) => a.get(*i),
            _ => None,
        };
        match next {
            Some(v) => value = v,
            None => break,
        }
    }
    Some(value.span().start)
}

fn get<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, v)| v)
}

/// A value and its position.
struct Value<'a, 'i>(&'a Spanned<DeValue<'i>>);

/// A parsed document that keeps the positions of its values.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    root: Spanned<DeTable<'t>>,
}

impl<'t> Document<'t> {
    /// Parses TOML.
    ///
    /// # Errors
    /// Text that is not TOML, with the parser's message.
    pub fn parse(text: &'t str) -> Result<Self, Located> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Document { text, root }),
            Err(e) => {
                // The parser ends some of its messages with "…, expected …".
                let problem = match e.message().split_once(", expected ") {
                    Some((what, expected)) => Problem::refused(what, expected),
                    None => Problem::Syntax(e.message().to_owned()),
                };
                let line = e.span().map(|s| line_of(text, s.start));
                Err(Located { line, key: KeyPath::root(), problem })
            }
        }
    }

    /// Decodes the whole document.
    ///
    /// # Errors
    /// Returns the first invalid value, key or type, in file order.
    pub fn decode<T: de::DeserializeOwned>(&self) -> Result<T, Located> {
        let table = Table::new(self.root.get_ref());
        T::deserialize(de::value::MapAccessDeserializer::new(table))
            .map_err(|fault| fault.locate(self.text))
    }

    /// Returns the line, from 1, of the value at a key path.
    ///
    /// If it does not exist, the line is that of the nearest enclosing value.
    pub fn line(&self, path: &KeyPath) -> Option<usize> {
        offset_of(&self.root, path).map(|offset| line_of(self.text, offset))
    }
}

impl<'de> de::Deserializer<'de> for Value<'_, '_> {
    type Error = Fault;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let offset = self.0.span().start;
        let result = match self.0.get_ref() {
            DeValue::String(s) => visitor.visit_str(s),
            DeValue::Boolean(b) => visitor.visit_bool(*b),
            DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
                Ok(n) => visitor.visit_i64(n),
                Err(_) => Err(Fault::new(Problem::range(n, "a 64-bit integer"))),
            },
            DeValue::Float(x) => match x.as_str().parse::<f64>() {
                Ok(v) => visitor.visit_f64(v),
                Err(_) => Err(Fault::new(Problem::value(x.as_str(), "a number"))),
            },
            DeValue::Datetime(_) => {
                Err(de::Error::invalid_type(de::Unexpected::Other("date"), &visitor))
            }
            DeValue::Array(a) => {
                let mut elements = Elements { values: a.iter(), next: 0 };
                visitor.visit_seq(&mut elements).and_then(|v| match elements.values.next() {
                    // Visitors of fixed-length tuples stop early.
                    Some(_) => Err(de::Error::invalid_length(a.len(), &"fewer")),
                    None => Ok(v),
                })
            }
            DeValue::Table(t) => visitor.visit_map(Table::new(t)),
        };
        result.map_err(|e| e.at(offset))
    }

    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: de::Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: de::Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let offset = self.0.span().start;
        if [BY_KIND, WORD_OR_KIND, WORD_OR_KEY].contains(&name) {
            return match (Choice::of(self.0, name, variants), self.0.get_ref()) {
                (Ok(Some(choice)), _) => visitor.visit_enum(choice).map_err(|e| e.at(offset)),
                (Ok(None), DeValue::String(s)) => {
                    Err(de::Error::invalid_type(de::Unexpected::Str(s), &visitor))
                }
                (Ok(None), _) => self.deserialize_any(visitor),
                (Err(e), _) => Err(e),
            }
            .map_err(|e: Fault| e.at(offset));
        }
        let result = match self.0.get_ref() {
            DeValue::String(s) => visitor.visit_enum(IntoDeserializer::<Fault>::into_deserializer(
                Cow::<str>::clone(s).into_owned(),
            )),
            other => Err(Fault::new(Problem::value(
                other.type_str(),
                format!("one of {}", variants.join(", ")),
            ))),
        };
        result.map_err(|e| e.at(offset))
    }

    /// Derived code would read an array as the values of the fields in their order.
    fn deserialize_struct<V: de::Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0.get_ref() {
            DeValue::Array(_) => {
                let found: Fault =
                    de::Error::invalid_type(de::Unexpected::Other("array"), &visitor);
                Err(found.at(self.0.span().start))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// A variant that a word or a table names, and the keys of the table.
struct Choice<'a, 'i> {
    variant: &'static str,
    content: Table<'a, 'i>,
}

impl<'a, 'i> Choice<'a, 'i> {
    /// Returns the variant that a value names; `None` for a value that is neither word nor table.
    fn of(
        value: &'a Spanned<DeValue<'i>>,
        name: &str,
        variants: &'static [&'static str],
    ) -> Result<Option<Self>, Fault> {
        let known = |word: &str| variants.iter().copied().find(|v| *v == word);
        let table = match value.get_ref() {
            DeValue::String(word) if name != BY_KIND => {
                let content = Table { entries: Vec::new().into_iter(), value: None };
                return Ok(known(word).map(|variant| Choice { variant, content }));
            }
            DeValue::Table(table) => table,
            _ => return Ok(None),
        };
        if name == WORD_OR_KEY {
            let mut named = variants.iter().copied().filter(|v| get(table, v).is_some());
            let variant = named.next();
            if let (Some(one), Some(other)) = (variant, named.next()) {
                let both = format!("both `{one}` and `{other}`");
                return Err(Fault::new(Problem::refused(both, "one of them")));
            }
            let content = Table::new(table);
            return Ok(variant
                .or(variants.first().copied())
                .map(|variant| Choice { variant, content }));
        }
        let Some(kind) = get(table, VARIANT_KEY) else {
            return Err(Fault::new(Problem::MissingKey(VARIANT_KEY.to_owned())));
        };
        let found = match kind.get_ref() {
            DeValue::String(word) => match known(word) {
                Some(variant) => {
                    return Ok(Some(Choice {
                        variant,
                        content: Table::without(table, VARIANT_KEY),
                    }));
                }
                None => format!("\"{word}\""),
            },
            other => other.type_str().to_owned(),
        };
        let problem = Problem::value(found, format!("one of {}", variants.join(", ")));
        Err(Fault::new(problem).at(kind.span().start).under(Step::Key(VARIANT_KEY.to_owned())))
    }
}

impl<'de, 'a, 'i> de::EnumAccess<'de> for Choice<'a, 'i> {
    type Error = Fault;
    type Variant = Table<'a, 'i>;
    fn variant_seed<V: de::DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Table<'a, 'i>), Fault> {
        let name = IntoDeserializer::<Fault>::into_deserializer(self.variant);
        Ok((seed.deserialize(name)?, self.content))
    }
}

impl<'de> de::VariantAccess<'de> for Table<'_, '_> {
    type Error = Fault;
    fn unit_variant(self) -> Result<(), Fault> {
        self.newtype_variant::<Nothing>().map(|_| ())
    }
    fn newtype_variant_seed<T: de::DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(de::value::MapAccessDeserializer::new(self))
    }
    fn tuple_variant<V: de::Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(self)
    }
    fn struct_variant<V: de::Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_map(self)
    }
}

/// A table without keys.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

struct Elements<'a, 'i> {
    values: std::slice::Iter<'a, Spanned<DeValue<'i>>>,
    next: usize,
}

impl<'de> de::SeqAccess<'de> for &mut Elements<'_, '_> {
    type Error = Fault;
    fn next_element_seed<T: de::DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(value) = self.values.next() else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        let at = value.span().start;
        // A value may also be rejected after it was read.
        seed.deserialize(Value(value)).map(Some).map_err(|e| e.at(at).under(Step::Index(index)))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

type Entry<'a, 'i> = (&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

struct Table<'a, 'i> {
    entries: std::vec::IntoIter<Entry<'a, 'i>>,
    value: Option<Entry<'a, 'i>>,
}

impl<'a, 'i> Table<'a, 'i> {
    fn new(table: &'a DeTable<'i>) -> Self {
        // In file order, so that the first error of the file is the one reported.
        let mut entries: Vec<Entry<'a, 'i>> = table.iter().collect();
        entries.sort_by_key(|(k, _)| k.span().start);
        Table { entries: entries.into_iter(), value: None }
    }

    /// Returns all entries except one.
    fn without(table: &'a DeTable<'i>, key: &str) -> Self {
        let mut entries: Vec<Entry<'a, 'i>> = Table::new(table).entries.collect();
        entries.retain(|(k, _)| k.get_ref() != key);
        Table { entries: entries.into_iter(), value: None }
    }
}

impl<'de> de::MapAccess<'de> for Table<'_, '_> {
    type Error = Fault;
    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(entry);
        let key: &str = entry.0.get_ref();
        seed.deserialize(IntoDeserializer::<Fault>::into_deserializer(key))
            .map(Some)
            .map_err(|e| e.at(entry.0.span().start))
    }
    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, value)) = self.value.take() else {
            return Err(de::Error::custom("a value was read before its key"));
        };
        let at = value.span().start;
        seed.deserialize(Value(value))
            .map_err(|e| e.at(at).under(Step::Key(key.get_ref().to_string())))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}
