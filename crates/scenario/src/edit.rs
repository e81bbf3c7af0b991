//! Changes of a draft by key path, made before it is resolved.

use toml::{Table, Value};

use fairmesh_document::Document;
use fairmesh_units::Span;

use crate::draft::Draft;
use crate::error::{KeyPath, Override, Problem, ScenarioError};
use crate::origin::Origin;

/// Another value for a key of a draft.
#[derive(Clone, PartialEq, Debug)]
pub struct Edit {
    /// Dotted path; `*` stands for every element of a list, a number for one.
    pub key: String,
    /// The value, as a file would have it.
    pub value: Value,
    /// The setting or option that asks for it, for messages.
    pub by: String,
}

impl Edit {
    /// A value that is written as on a command line: a number, true or false if it reads as one, else a
    /// string.
    pub fn text(key: &str, text: &str, by: &str) -> Self {
        Edit { key: key.to_owned(), value: value(text), by: by.to_owned() }
    }
}

impl Draft {
    /// Sets keys. All edits are applied before the draft is read again, so they may depend on each other.
    /// Keys that do not exist yet are created in tables, so that a default can be changed; lists must have
    /// the element.
    ///
    /// # Errors
    /// A key that cannot be set, and what the same value in a file would be refused for; the error names
    /// the edit.
    pub fn edit(&mut self, edits: &[Edit]) -> Result<(), ScenarioError> {
        let mut origin = std::mem::take(&mut self.origin);
        let read = self.edited(edits, &mut origin);
        match read {
            Ok(draft) => *self = draft,
            Err(e) => {
                let located = origin.locate(e);
                self.origin = origin;
                return Err(located);
            }
        }
        self.origin = origin;
        Ok(())
    }

    /// Sets the simulated time on behalf of the setting `by`. A warm-up that the draft has stays, unless it
    /// would take half of the run or more: then it becomes a tenth.
    pub fn set_duration(&mut self, duration: Span, by: &str) {
        let tenth = |of: Span| Span::from_nanos(of.as_nanos() / 10);
        let warmup = self.warmup.unwrap_or(tenth(self.duration));
        let long = warmup.saturating_mul(2) >= duration;
        self.duration = duration;
        self.warmup = Some(if long { tenth(duration) } else { warmup });
        self.origin.add(Override { key: "duration".into(), by: by.to_owned() });
    }

    /// Sets the start of the measured interval on behalf of the setting `by`.
    pub fn set_warmup(&mut self, warmup: Span, by: &str) {
        self.warmup = Some(warmup);
        self.origin.add(Override { key: "warmup".into(), by: by.to_owned() });
    }

    fn edited(&self, edits: &[Edit], origin: &mut Origin) -> Result<Draft, ScenarioError> {
        let broken = |e: &dyn core::fmt::Display| {
            ScenarioError::at(KeyPath::root(), Problem::Syntax(e.to_string()))
        };
        let mut table = Table::try_from(self).map_err(|e| broken(&e))?;
        for Edit { key, value, by } in edits {
            origin.add(Override { key: KeyPath::from(key.as_str()), by: by.clone() });
            put(&mut table, key, value).map_err(|problem| {
                let (what, expected) =
                    problem.split_once("; expected ").unwrap_or((&problem, "a key"));
                ScenarioError::at(KeyPath::from(key.as_str()), Problem::refused(what, expected))
            })?;
        }
        let text = toml::to_string(&table).map_err(|e| broken(&e))?;
        let document = Document::parse(&text)?;
        document.decode().map_err(|e| {
            // The line would be one of the edited text.
            let mut e = ScenarioError::from(e);
            e.line = None;
            e
        })
    }
}

/// Sets `key` in a table to a value.
///
/// # Errors
/// The step of the path that does not exist, and what could stand there.
pub fn put(root: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    let steps: Vec<&str> = key.split('.').collect();
    set_in_table(root, &steps, value)
}

fn set_in_table(table: &mut Table, steps: &[&str], value: &Value) -> Result<(), String> {
    match steps {
        [] => Ok(()),
        [last] => {
            table.insert((*last).to_owned(), value.clone());
            Ok(())
        }
        [first, rest @ ..] => {
            let inner = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
            set_in_value(inner, first, rest, value)
        }
    }
}

fn set_in_value(at: &mut Value, name: &str, steps: &[&str], value: &Value) -> Result<(), String> {
    let Some((first, rest)) = steps.split_first() else {
        *at = value.clone();
        return Ok(());
    };
    match at {
        Value::Table(table) => set_in_table(table, steps, value),
        Value::Array(items) if *first == "*" => {
            if items.is_empty() {
                return Err(format!("{name} is empty; expected at least one element"));
            }
            items.iter_mut().try_for_each(|i| set_in_value(i, name, rest, value))
        }
        Value::Array(items) => {
            let n = items.len();
            let item = first.parse::<usize>().ok().and_then(|i| items.get_mut(i));
            let item = item.ok_or_else(|| {
                format!(
                    "{name} is a list of {n}; expected * or a number below {n}, not \"{first}\""
                )
            })?;
            set_in_value(item, name, rest, value)
        }
        other => Err(format!(
            "{name} is {}; expected a table or a list in which \"{first}\" can be set",
            other.type_str()
        )),
    }
}

/// The value that a text stands for in TOML: a number, true or false, a quoted string; else the text itself.
pub fn value(text: &str) -> Value {
    // The parser of the file format itself, so that 1e6, 0x10 and inf mean the same in both.
    match toml::from_str::<Table>(&format!("v = {text}")).ok().and_then(|mut t| t.remove("v")) {
        Some(v @ (Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::String(_))) => v,
        _ => Value::String(text.to_owned()),
    }
}
