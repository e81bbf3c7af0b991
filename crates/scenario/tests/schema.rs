//! The JSON schema allows exactly what the reader allows.
//!
//! Documents generated from the schema can be read, and readable documents satisfy the schema.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use fairmesh_control::Registry;
use fairmesh_scenario::{Problem, draft_from_toml, json_schema};
use fairmesh_units::Stream;
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| json_schema(&Registry::standard()));
static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&SCHEMA).unwrap());

#[test]
fn every_file_satisfies_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let files: Vec<_> = files.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    assert!(files.len() > 40, "{}", files.len());
    for file in files {
        let (name, text) = (file.display(), fs::read_to_string(&file).unwrap());
        let value = to_json(&text);
        let wrong = VALIDATOR.validate(&value).map_err(|e| e.to_string());
        assert_eq!(wrong, Ok(()), "{name}");
    }
}

#[test]
fn the_schema_refuses_the_errors_of_the_parser() {
    let right = "duration = \"9 s\"\ntopology.links = [[1, 2]]\nflow = [{ from = 1, to = 2 }]\n";
    assert!(VALIDATOR.is_valid(&to_json(right)));
    for wrong in [
        "colour = 1",
        "duration = \"9\"",
        "duration = \"9 m\"",
        "radio = { rts = 3 }",
        "radio = { phy = \"802.11z\" }",
        "radio = { queue = { packets = 9 } }",
        "topology = { links = [[1, 2, 3]] }",
        "topology = { links = [[1, -2]] }",
        "flow = [{ from = 1 }]",
        "flow = [{ from = 1, to = 2, traffic = \"flood\" }]",
        "flow = [{ from = 1, to = 2, transport = { mss = 512 } }]",
        "control = { use = \"fifo\", epoch = \"x\" }",
        "control = { use = \"rtt+agents\", agents = 3 }",
    ] {
        let mut value = to_json(right);
        for (key, v) in to_json(wrong).as_object().unwrap() {
            value[key] = v.clone();
        }
        assert!(!VALIDATOR.is_valid(&value), "accepted: {wrong}");
    }
}

/// Returns TOML as JSON, for the schema.
fn to_json(text: &str) -> Value {
    fn value(v: &toml::de::DeValue<'_>) -> Value {
        use toml::de::DeValue;
        match v {
            DeValue::String(s) => Value::from(s.as_ref()),
            DeValue::Integer(n) => Value::from(n.as_str().parse::<i64>().unwrap()),
            DeValue::Float(x) => Value::from(x.as_str().parse::<f64>().unwrap()),
            DeValue::Boolean(b) => Value::from(*b),
            DeValue::Datetime(d) => Value::from(d.to_string()),
            DeValue::Array(a) => a.iter().map(|v| value(v.get_ref())).collect(),
            DeValue::Table(t) => table(t),
        }
    }
    fn table(t: &toml::de::DeTable<'_>) -> Value {
        t.iter().map(|(k, v)| (k.get_ref().to_string(), value(v.get_ref()))).collect()
    }
    table(toml::de::DeTable::parse(text).unwrap().get_ref())
}

/// Generator of documents from a schema.
struct Maker<'a> {
    root: &'a Value,
    random: Stream,
}

impl Maker<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u32) as usize
    }

    fn pick<'v>(&mut self, all: &'v [Value]) -> &'v Value {
        &all[self.below(all.len())]
    }

    /// Returns a value that the schema allows. Optional keys are rarer the deeper they are.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(target) = schema["$ref"].as_str() {
            let root = self.root;
            return self.value(root.pointer(target.trim_start_matches('#')).unwrap(), depth);
        }
        for of_branches in ["anyOf", "oneOf"] {
            if let Some(branches) = schema[of_branches].as_array() {
                let branch = self.pick(branches).clone();
                return self.value(&branch, depth);
            }
        }
        if schema.get("const").is_some() {
            return schema["const"].clone();
        }
        if let Some(words) = schema["enum"].as_array() {
            return self.pick(words).clone();
        }
        match schema["type"].as_str() {
            Some("boolean") => Value::from(self.below(2) == 1),
            Some("integer") => {
                let least = schema["minimum"].as_f64().unwrap_or(0.0) as i64;
                let most = schema["maximum"].as_f64().unwrap_or(9e15) as i64;
                // Mostly small, sometimes at the ends of the range.
                match self.below(10) {
                    0 => Value::from(least),
                    1 => Value::from(most),
                    n => Value::from((least + n as i64).min(most)),
                }
            }
            Some("number") => {
                let least = schema["minimum"].as_f64().unwrap_or(-1.0);
                let most = schema["maximum"].as_f64().unwrap_or(least.max(0.0) + 10.0);
                let part = self.below(11) as f64 / 10.0;
                Value::from(least + (most - least) * part)
            }
            Some("array") => self.array(schema, depth),
            Some("object") | None => self.object(schema, depth),
            Some("string") => Value::from(self.text(schema["pattern"].as_str().unwrap_or(r"\S"))),
            other => panic!("type {other:?}"),
        }
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(items) = schema["prefixItems"].as_array() {
            return items.iter().map(|s| self.value(s, depth + 1)).collect();
        }
        let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
        let most = schema["maxItems"].as_u64().map_or(least + 2, |n| n as usize);
        let number = least + self.below(most - least + 1);
        (0..number).map(|_| self.value(&schema["items"], depth + 1)).collect()
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let none = Map::new();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let mut out = Map::new();
        for (key, rule) in schema["properties"].as_object().unwrap_or(&none) {
            if required.iter().any(|r| r == key) || self.below(3 + 2 * depth) == 0 {
                out.insert(key.clone(), self.value(rule, depth + 1));
            }
        }
        if schema["additionalProperties"].is_object() && self.below(2) == 0 {
            out.insert("extra".to_owned(), self.value(&schema["additionalProperties"], depth + 1));
        }
        Value::Object(out)
    }

    fn text(&mut self, pattern: &str) -> String {
        if pattern == r"\S" {
            return ["1", "2", "a", "b c"][self.below(4)].to_owned();
        }
        if let Some(name) = pattern.strip_prefix('^').filter(|p| !p.starts_with('\\')) {
            // A control: `name`, or `name(\+(one|other))*`.
            let (name, variants) = name.split_once("(\\+(").unwrap_or((name, ""));
            let name = name.trim_end_matches('$');
            let variants: Vec<&str> =
                variants.trim_end_matches("))*$").split('|').filter(|v| !v.is_empty()).collect();
            return match self.below(variants.len() + 1) {
                0 => name.to_owned(),
                n => format!("{name}+{}", variants[n - 1]),
            };
        }
        // A quantity: a number and one of the units in the last parentheses.
        let units = pattern.rsplit_once(r"\s*(").unwrap().1.split(r")\s*$").next().unwrap();
        let units = units.replace("[kMG]?(bit|b)/s", "Mbit/s|kb/s|bit/s");
        let units: Vec<&str> = units.split('|').collect();
        let unit = units[self.below(units.len())];
        let number = ["0", "1", "2.5", "100", ".5", "3.", "1e2", "+7"][self.below(8)];
        format!("{number}{}{unit}", ["", " "][self.below(2)])
    }
}

fn text_of(document: &Value) -> String {
    toml::to_string(&toml::Value::try_from(document).unwrap()).unwrap()
}

/// Applies a change that may invalidate a document, at a random place outside of `[control]`.
///
/// The lookup of the mechanism checks its options.
fn disturb(value: &mut Value, random: &mut Stream) {
    let mut below = |n: usize| random.below(n as u32) as usize;
    let other = [json!(3), json!(-1), json!("word"), json!(2.5), json!(true), json!([]), json!({})];
    match value {
        Value::Object(keys) if !keys.is_empty() && below(3) > 0 => {
            let names: Vec<String> = keys.keys().filter(|k| *k != "control").cloned().collect();
            if names.is_empty() {
                return;
            }
            let name = &names[below(names.len())];
            match below(8) {
                0 => drop(keys.remove(name)),
                1 => drop(keys.insert("foreign".to_owned(), json!(1))),
                2 => {
                    let taken = keys.remove(name).unwrap();
                    keys.insert(["rate", "kind", "packets", "min"][below(4)].to_owned(), taken);
                }
                _ => disturb(keys.get_mut(name).unwrap(), random),
            }
        }
        Value::Array(items) if !items.is_empty() && below(3) > 0 => {
            let at = below(items.len());
            disturb(&mut items[at], random);
        }
        _ => *value = other[below(other.len())].clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn documents_generated_from_the_schema_are_read(seed in any::<u64>()) {
        let document = Maker { root: &SCHEMA, random: Stream::new(seed, "schema") }.value(&SCHEMA, 0);
        prop_assert!(VALIDATOR.is_valid(&document), "{document}");
        let text = text_of(&document);
        match draft_from_toml("made.toml", &text) {
            Err(e) => prop_assert!(false, "{}\n{}", e, text),
            // Meaning may be invalid: a node that does not exist, a key that another value
            // requires.
            Ok(draft) => {
                if let Err(e) = draft.build() {
                    let of_form = matches!(
                        e.problem,
                        Problem::UnknownKey { .. } | Problem::Value { .. } | Problem::Syntax(_)
                    );
                    prop_assert!(!of_form, "{}\n{}", e, text);
                }
            }
        }
    }

    #[test]
    fn readable_documents_satisfy_the_schema(seed in any::<u64>(), changes in 1..4_usize) {
        let mut random = Stream::new(seed, "changes");
        let mut document =
            Maker { root: &SCHEMA, random: Stream::new(seed, "schema") }.value(&SCHEMA, 0);
        (0..changes).for_each(|_| disturb(&mut document, &mut random));
        prop_assume!(document.is_object());
        let text = text_of(&document);
        let valid = VALIDATOR.validate(&document).map_err(|e| format!("{e} at {}", e.instance_path()));
        if let (Ok(_), Err(e)) = (draft_from_toml("changed.toml", &text), valid) {
            prop_assert!(false, "{}\n{}", e, text);
        }
    }
}

#[test]
fn both_outcomes_occur_among_changed_documents() {
    let read = |seed: u64| {
        let mut document =
            Maker { root: &SCHEMA, random: Stream::new(seed, "schema") }.value(&SCHEMA, 0);
        disturb(&mut document, &mut Stream::new(seed, "changes"));
        document.is_object() && draft_from_toml("changed.toml", &text_of(&document)).is_ok()
    };
    let accepted = (0..300).filter(|&seed| read(seed)).count();
    assert!((20..280).contains(&accepted), "{accepted}");
}
