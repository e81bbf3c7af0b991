//! docs/scenarios.md and the pages in docs/scenarios list every key with valid examples.

mod common;

use std::collections::BTreeSet;

use fairmesh_control::Registry;
use fairmesh_scenario::json_schema;
use serde_json::Value;

/// Text of the overview, then of the pages of its sections.
fn page() -> String {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let sections = std::fs::read_dir(docs.join("scenarios")).unwrap();
    let mut pages: Vec<_> = sections.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages.insert(0, docs.join("scenarios.md"));
    pages.iter().map(|page| std::fs::read_to_string(page).unwrap()).collect()
}

fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(o) => {
            if let Some(Value::Object(properties)) = o.get("properties") {
                found.extend(properties.keys().cloned());
            }
            // The parameters of controls have a generated page.
            o.iter()
                .filter(|(key, _)| *key != "oneOf" || !is_control(o))
                .for_each(|(_, v)| keys(v, found));
        }
        Value::Array(a) => a.iter().for_each(|v| keys(v, found)),
        _ => {}
    }
}

/// Returns true for the schema of `[control]`.
fn is_control(schema: &serde_json::Map<String, Value>) -> bool {
    schema.get("properties").is_some_and(|p| p.get("use").is_some())
}

/// The schema has the parameters of each control, and no others.
#[test]
fn the_schema_has_the_parameters_of_every_control() {
    let schema = json_schema(&Registry::standard());
    let control = &schema["$defs"]["Control"];
    let branches = control["oneOf"].as_array().unwrap();
    let of = |name: &str| branches.iter().find(|b| b["title"] == name).unwrap();
    assert_eq!(branches.len(), Registry::standard().all().count());
    let pfrc = of("pfrc");
    assert_eq!(pfrc["additionalProperties"], false);
    let epoch = &pfrc["properties"]["epoch"];
    assert_eq!((&epoch["minimum"], &epoch["maximum"]), (&Value::from(1.0), &Value::from(600.0)));
    assert_eq!(epoch["description"], "time between decisions, s");
    assert_eq!(pfrc["properties"]["queue"]["type"], "integer");
    let name = pfrc["properties"]["use"]["pattern"].as_str().unwrap();
    assert_eq!(name, "^pfrc(\\+(exponential|relaxed|constrained|bursts|peers))*$");
    assert_eq!(of("fifo")["required"], Value::Array(Vec::new()));
}

#[test]
fn every_key_of_the_schema_is_documented() {
    let page = page();
    let mut found = BTreeSet::new();
    keys(&json_schema(&Registry::standard()), &mut found);
    assert!(found.len() > 80, "{}", found.len());
    for key in found {
        let named = [format!("`{key}`"), format!("`[{key}]`"), format!("`[[{key}]]`")];
        assert!(
            named.iter().any(|n| page.contains(n)),
            "{key} is not in docs/scenarios.md or docs/scenarios"
        );
    }
}

#[test]
fn the_examples_of_the_page_are_right() {
    let page = page();
    let whole = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(common::read(whole).flows().len(), 3);
    let wrong =
        "name = \"x\"\n\n\n\n[topology]\nlinks = [[1, 2], [4, 5]]\n[[flow]]\nfrom = 1\nto = 4\n";
    let wrong = wrong.replacen('\n', "\nduration = \"1 s\"\n", 1).replacen("\n\n", "\n", 1);
    let line = common::refuse(&wrong).to_string();
    assert!(page.contains(&line.replace("test.toml", "town.toml")), "{line}");
    // The inline examples, each in its context.
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
        let examples: Vec<&str> =
            page.split('`').filter(|e| e.starts_with(&format!("{lines} {{"))).collect();
        assert!(examples.len() > 1, "{lines}");
        for example in examples {
            common::read(&format!("{context}{example}\n"));
        }
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
