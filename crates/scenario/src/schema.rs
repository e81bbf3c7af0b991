//! The JSON Schema of the TOML form.

use fairmesh_control::Registry;
use serde_json::{Map, Value};

use crate::draft::{Draft, restrict_controls};

/// Returns the JSON Schema of the TOML form, for editors, with the registry's mechanisms.
///
/// It allows the keys and types that the reader allows; [`Draft::build_with`] checks relations between
/// values.
pub fn json_schema(registry: &Registry) -> Value {
    let mut schema: Value = schemars::schema_for!(Draft).into();
    restrict_controls(&mut schema["$defs"]["Control"], registry);
    exact(&mut schema);
    schema["title"] = "fairmesh scenario".into();
    schema
}

/// Restricts a schema of Rust types to the values that TOML and the types can represent.
fn exact(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(exact),
        Value::Object(rules) => {
            without_null(rules);
            bounded(rules);
            rules.values_mut().for_each(exact);
        }
        _ => {}
    }
}

/// Removes `null`, which TOML lacks: an optional key is omitted.
fn without_null(rules: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = rules.get_mut("type") {
        types.retain(|t| t != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            rules.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(branches)) = rules.get_mut("anyOf") {
        branches.retain(|b| b["type"] != "null");
    }
}

/// Limits an integer type to its range, by its `format`; TOML has signed 64 bits.
fn bounded(rules: &mut Map<String, Value>) {
    let most = match rules.get("format").and_then(Value::as_str) {
        Some("uint8") => u64::from(u8::MAX),
        Some("uint16") => u64::from(u16::MAX),
        Some("uint32") => u64::from(u32::MAX),
        Some("uint64" | "uint") => i64::MAX as u64,
        _ => return,
    };
    rules.entry("maximum").or_insert_with(|| most.into());
}
