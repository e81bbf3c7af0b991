//! docs/scenarios.md knows every key, and its examples are right.

mod common;

use std::collections::BTreeSet;

use fairmesh_scenario::json_schema;
use serde_json::Value;

fn page() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
    std::fs::read_to_string(path).unwrap()
}

fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(o) => {
            if let Some(Value::Object(properties)) = o.get("properties") {
                found.extend(properties.keys().cloned());
            }
            o.values().for_each(|v| keys(v, found));
        }
        Value::Array(a) => a.iter().for_each(|v| keys(v, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_schema_is_documented() {
    let page = page();
    let mut found = BTreeSet::new();
    keys(&json_schema(), &mut found);
    assert!(found.len() > 80, "{}", found.len());
    for key in found {
        let named = [format!("`{key}`"), format!("`[{key}]`"), format!("`[[{key}]]`")];
        assert!(named.iter().any(|n| page.contains(n)), "{key} is not in docs/scenarios.md");
    }
}

#[test]
fn the_examples_of_the_page_are_right() {
    let page = page();
    let whole = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(common::read(whole).flows.len(), 3);
    let wrong =
        "name = \"x\"\n\n\n\n[topology]\nlinks = [[1, 2], [4, 5]]\n[[flow]]\nfrom = 1\nto = 4\n";
    let wrong = wrong.replacen('\n', "\nduration = \"1 s\"\n", 1).replacen("\n\n", "\n", 1);
    let line = common::refuse(&wrong).to_string();
    assert!(page.contains(&line.replace("test.toml", "town.toml")), "{line}");
    // The inline examples, each in its place.
    for (context, lines) in [
        (
            "duration = \"9 s\"\ntopology.chain = { hops = 1 }\nflow = [{ from = 0, to = 1 }]\n[radio]\n",
            "queue =",
        ),
        (
            "duration = \"9 s\"\ntopology.chain = { hops = 1 }\nflow = [{ from = 0, to = 1 }]\n[traffic]\n",
            "transport =",
        ),
    ] {
        let example =
            page.split(&format!("Example: `{lines}")).nth(1).unwrap().split('`').next().unwrap();
        common::read(&format!("{context}{lines}{example}\n"));
    }
    for errors in
        page.split("`{ ").filter(|e| e.starts_with("frame") || e.starts_with("chain = { tr"))
    {
        let value = errors.split('`').next().unwrap();
        common::read(&format!(
            "duration = \"9 s\"\ntopology.chain = {{ hops = 1 }}\nflow = [{{ from = 0, to = 1 }}]\nradio.errors = {{ {value}\n"
        ));
    }
}
