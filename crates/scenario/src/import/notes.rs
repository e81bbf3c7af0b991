//! Ignored values of a map, counted by kind.

use std::collections::BTreeMap;

use fairmesh_document::one_line;
use serde_json::Value;

/// Maximum length of a value shown in a note, characters.
const MAX_VALUE_CHARS: usize = 40;

/// One note per kind of value, with the number of values and the first of them.
#[derive(Default, Debug)]
pub(super) struct Notes(BTreeMap<String, (usize, String)>);

impl Notes {
    /// Counts a value of a kind.
    ///
    /// `kind` continues a sentence that begins with the number of values.
    pub fn add(&mut self, kind: impl Into<String>, example: impl FnOnce() -> String) {
        self.0.entry(kind.into()).or_insert_with(|| (0, example())).0 += 1;
    }

    /// Counts an unexpected value at `key` of `owner`.
    pub fn foreign(&mut self, key: &str, expected: &str, value: &Value, owner: &str) {
        self.add(format!("of `{key}` left out (expected {expected})"), || {
            let text = value.to_string();
            let mut shown: String = text.chars().take(MAX_VALUE_CHARS).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            format!("{shown} of {owner}")
        });
    }

    /// Returns the notes, in the order of their kinds.
    pub fn texts(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(kind, (n, first))| {
            let first = if first.is_empty() { first } else { format!("; the first: {first}") };
            let values = if n == 1 { "value" } else { "values" };
            one_line(&format!("{n} {values} {kind}{first}"))
        })
    }
}
