//! Changes of a draft by key path, made before it is resolved.

use toml::{Table, Value};

use fairmesh_document::Document;
use fairmesh_units::Span;

use crate::draft::Draft;
use crate::error::{KeyPath, Override, Problem, ScenarioError};
use crate::origin::Origin;

/// Another value of a key of a draft.
#[derive(Clone, PartialEq, Debug)]
pub struct Edit {
    /// Dotted path; `*` stands for every element of a list, a number for one.
    pub key: String,
    /// Value, as in a file.
    pub value: Value,
    /// Setting or option that requests it, for messages.
    pub by: String,
}

impl Edit {
    /// Returns a value as written on a command line.
    ///
    /// It is a number, true or false if it parses as one, otherwise a string.
    pub fn text(key: &str, text: &str, by: &str) -> Self {
        Edit { key: key.to_owned(), value: value(text), by: by.to_owned() }
    }
}

impl Draft {
    /// Sets keys.
    ///
    /// All edits are applied before the draft is read again, so they may depend on each other. Keys
    /// that do not exist yet are created in tables, so that a default can be changed; elements of
    /// lists must exist.
    ///
    /// # Errors
    /// A key that cannot be set, and values that a file would be refused for; the error names the
    /// edit.
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

    /// Sets the simulated time on behalf of the setting `by`.
    ///
    /// The draft's warm-up is kept unless it would take at least half of the run: then it becomes a
    /// tenth.
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

    /// Returns the draft as a TOML table, without absent values and defaults of optional keys.
    ///
    /// # Errors
    /// Returns an error if a value has no form in TOML.
    pub fn table(&self) -> Result<Table, ScenarioError> {
        let broken = |e: toml::ser::Error| {
            ScenarioError::at(KeyPath::root(), Problem::Syntax(e.to_string()))
        };
        Table::try_from(self).map_err(broken)
    }

    fn edited(&self, edits: &[Edit], origin: &mut Origin) -> Result<Draft, ScenarioError> {
        let broken = |e: &dyn core::fmt::Display| {
            ScenarioError::at(KeyPath::root(), Problem::Syntax(e.to_string()))
        };
        let mut table = self.table()?;
        for Edit { key, value, by } in edits {
            origin.add(Override { key: KeyPath::from(key.as_str()), by: by.clone() });
            put(&mut table, key, value).map_err(|e| {
                ScenarioError::at(
                    KeyPath::from(key.as_str()),
                    Problem::refused(e.description(), e.expected()),
                )
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

/// A key path that does not exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EditError {
    /// A path over every element of an empty list.
    EmptyList {
        /// Name of the list.
        name: String,
    },
    /// An element that does not exist.
    NoElement {
        /// Name of the list.
        name: String,
        /// Number of its elements.
        len: usize,
        /// Step of the path.
        step: String,
    },
    /// A key below a value that is neither table nor list.
    NotATable {
        /// Name of the value.
        name: String,
        /// Type of the value in TOML.
        found: &'static str,
        /// Step of the path.
        step: String,
    },
}

impl EditError {
    /// Returns the problem.
    pub fn description(&self) -> String {
        match self {
            EditError::EmptyList { name } => format!("{name} is empty"),
            EditError::NoElement { name, len, .. } => format!("{name} is a list of {len}"),
            EditError::NotATable { name, found, .. } => format!("{name} is {found}"),
        }
    }

    /// Returns the expected form.
    pub fn expected(&self) -> String {
        match self {
            EditError::EmptyList { .. } => "at least one element".to_owned(),
            EditError::NoElement { len, step, .. } => {
                format!("* or a number below {len}, not \"{step}\"")
            }
            EditError::NotATable { step, .. } => {
                format!("a table or a list in which \"{step}\" can be set")
            }
        }
    }
}

impl core::fmt::Display for EditError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}; expected {}", self.description(), self.expected())
    }
}
impl core::error::Error for EditError {}

/// Sets `key` in a table to a value.
///
/// # Errors
/// The step of the path that does not exist, and the expected ones.
pub fn put(root: &mut Table, key: &str, value: &Value) -> Result<(), EditError> {
    let steps: Vec<&str> = key.split('.').collect();
    set_in_table(root, &steps, value)
}

/// Returns the value at a dotted path; `None` if there is none.
pub fn get<'a>(root: &'a Table, key: &str) -> Option<&'a Value> {
    let mut steps = key.split('.');
    let first = root.get(steps.next()?)?;
    steps.try_fold(first, |at, step| match at {
        Value::Table(table) => table.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn set_in_table(table: &mut Table, steps: &[&str], value: &Value) -> Result<(), EditError> {
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

fn set_in_value(
    at: &mut Value,
    name: &str,
    steps: &[&str],
    value: &Value,
) -> Result<(), EditError> {
    let Some((first, rest)) = steps.split_first() else {
        *at = value.clone();
        return Ok(());
    };
    match at {
        Value::Table(table) => set_in_table(table, steps, value),
        Value::Array(items) if *first == "*" => {
            if items.is_empty() {
                return Err(EditError::EmptyList { name: name.to_owned() });
            }
            items.iter_mut().try_for_each(|i| set_in_value(i, name, rest, value))
        }
        Value::Array(items) => {
            let len = items.len();
            let item = first.parse::<usize>().ok().and_then(|i| items.get_mut(i));
            let item = item.ok_or_else(|| EditError::NoElement {
                name: name.to_owned(),
                len,
                step: (*first).to_owned(),
            })?;
            set_in_value(item, name, rest, value)
        }
        other => Err(EditError::NotATable {
            name: name.to_owned(),
            found: other.type_str(),
            step: (*first).to_owned(),
        }),
    }
}

/// Returns the value of a text in TOML.
///
/// It is a number, true or false, a quoted string, a list in brackets, a table in braces; otherwise the text
/// itself.
pub fn value(text: &str) -> Value {
    // Uses the parser of the file format, so that 1e6, 0x10 and inf have the same meaning.
    let document = toml::from_str::<Table>(&format!("v = {text}")).ok().filter(|t| t.len() == 1);
    match document.and_then(|mut t| t.remove("v")) {
        Some(v) if !v.is_datetime() => v,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(root: &mut Table, key: &str, text: &str) -> Result<(), EditError> {
        put(root, key, &value(text))
    }

    fn scenario() -> Table {
        toml::from_str(
            "duration = \"60 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[[flow]]\nfrom = 1\n\
             traffic = { kind = \"cbr\", rate = \"100 kbit/s\" }\n[[flow]]\nfrom = 2\n\
             traffic = { kind = \"cbr\", rate = \"100 kbit/s\" }\n",
        )
        .unwrap()
    }

    #[test]
    fn sets_every_element_one_element_and_new_keys() {
        let mut t = scenario();
        set(&mut t, "flow.*.traffic.rate", "150 kbit/s").unwrap();
        set(&mut t, "flow.1.from", "7").unwrap();
        set(&mut t, "radio.rts", "true").unwrap();
        set(&mut t, "control.alpha", "0.5").unwrap();
        let flow = |i: usize| &t["flow"][i];
        assert_eq!(flow(0)["traffic"]["rate"].as_str(), Some("150 kbit/s"));
        assert_eq!(flow(1)["traffic"]["rate"].as_str(), Some("150 kbit/s"));
        assert_eq!(
            (flow(0)["from"].as_integer(), flow(1)["from"].as_integer()),
            (Some(1), Some(7))
        );
        assert_eq!(t["radio"]["rts"].as_bool(), Some(true));
        assert_eq!(t["control"]["alpha"].as_float(), Some(0.5));
        set(&mut t, "flow.0.traffic", "{ kind = \"bulk\" }").unwrap();
        set(&mut t, "topology.positions", "[[0, 1.5], [2, 3]]").unwrap();
        assert_eq!(t["flow"][0]["traffic"]["kind"].as_str(), Some("bulk"));
        assert_eq!(t["topology"]["positions"][1][0].as_integer(), Some(2));
        assert_eq!(get(&t, "topology.positions.1.0"), Some(&Value::Integer(2)));
        assert_eq!(
            (get(&t, "flow.2.from"), get(&t, "duration.x"), get(&t, "")),
            (None, None, None)
        );
        assert_eq!(value("[fe80::1]"), Value::String("[fe80::1]".to_owned()));
        assert_eq!(value("1\nw = 2"), Value::String("1\nw = 2".to_owned()));
    }

    #[test]
    fn missing_paths_are_refused_by_name() {
        let e = |key: &str| set(&mut scenario(), key, "1").unwrap_err().to_string();
        assert!(e("flow.9.from").contains("list of 2"));
        assert!(e("flow.from").contains("expected * or a number"));
        assert!(e("duration.x").contains("duration is string"));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(key in "[a-z0-9.*]{0,12}", text in "\\PC{0,12}") {
            let _ = set(&mut scenario(), &key, &text);
        }
    }
}
