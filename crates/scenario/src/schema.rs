//! The JSON Schema of the TOML form.

use fairmesh_control::Registry;
use serde_json::{Map, Value};

use crate::draft::{Draft, restrict_controls};

/// The JSON Schema of the TOML form, for editors, with the mechanisms that a scenario may name. It
/// allows the keys and types that the reader allows; relations between values are checked by
/// [`Draft::build_with`].
pub fn json_schema(registry: &Registry) -> Value {
    let mut schema: Value = schemars::schema_for!(Draft).into();
    restrict_controls(&mut schema["$defs"]["Control"], registry);
    exact(&mut schema);
    schema["title"] = "fairmesh scenario".into();
    schema
}

/// Restricts a schema of Rust types to the values that TOML has and the types can hold.
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

/// TOML has no null: a key that may be absent is left out.
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

/// The largest value of an integer type, which `format` names; TOML has 64 bits with a sign.
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
