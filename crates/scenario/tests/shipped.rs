//! The scenario files of this repository, and the schema they are promised to satisfy.

mod common;

use std::path::{Path, PathBuf};

use common::{paths, read};
use fairmesh_capacity::domain::{Contention, Domains, Link};
use fairmesh_capacity::maxmin::{Demand, max_min};
use fairmesh_control::Registry;
use fairmesh_scenario::{ImportOptions, Scenario, json_schema, parse};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .map(|p| {
            let name = p.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(p).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn shipped(name: &str) -> Scenario {
    let (_, text) = files().into_iter().find(|f| f.0 == name).unwrap();
    read(&text)
}

#[test]
fn every_file_builds_and_explains_itself() {
    let files = files();
    assert!(files.len() >= 20, "{}", files.len());
    for (name, text) in files {
        let s = parse(&format!("{name}.toml"), text.as_bytes(), &ImportOptions::default());
        let s = s.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(s.name(), name);
        assert!(text.starts_with("# "), "{name} does not say what it shows");
        assert!(
            !s.description().is_empty() && s.warnings().is_empty(),
            "{name}: {:?}",
            s.warnings()
        );
    }
}

#[test]
fn rangwala_flows_take_the_papers_paths() {
    let side_by_side = [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]];
    let joined = ["diamond-joined", "half-diamond-joined"];
    for name in ["stack", "diamond", "half-diamond"].into_iter().chain(joined) {
        let s = shipped(name);
        assert_eq!(paths(&s), side_by_side, "{name}");
        assert_eq!(s.mac().rts_threshold, Some(0));
    }
    assert_eq!(paths(&shipped("chain-cross"))[0], [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn weights_of_jamshaid_fig_8_2() {
    let s = shipped("jamshaid-fig-8.2");
    let with = |w: f64| {
        let ids = s.flows().iter().filter(|f| f.weight == w).map(|f| f.from.0);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(with(1.0), [4, 9, 14, 23, 24, 31]);
    assert_eq!(with(2.0), [2, 7, 12, 21, 28, 35]);
    assert_eq!(with(3.0), [5, 10, 15, 20, 25, 30]);
}

/// Max-min rates by collision domains of one-hop hearing, links at their nominal rates, in units
/// of `r` bit/s: the model in which Jamshaid 2010 §7.2 states its examples.
fn ideal(s: &Scenario, r: f64) -> Vec<f64> {
    let links: Vec<Link> =
        s.links().iter().filter(|l| l.from < l.to).map(|l| Link::new(l.from, l.to)).collect();
    let pairs: Vec<_> = s.links().iter().map(|l| (l.from, l.to)).collect();
    let contention = Contention::from_pairs(s.nodes().len(), &pairs).unwrap();
    let domains = Domains::collision(&contention, &links).unwrap();
    let cost = |w: &[fairmesh_units::NodeId]| {
        let at = links.iter().position(|&l| l == Link::new(w[0], w[1])).unwrap();
        let rate = s.link(w[0], w[1]).unwrap().rate.unwrap_or(s.mac().rate);
        (at as u32, r / s.mac().phy.bit_rate(rate).0 as f64)
    };
    let usage: Vec<_> = s
        .flows()
        .iter()
        .map(|f| domains.usage(&f.path.windows(2).map(cost).collect::<Vec<_>>()))
        .collect();
    let demands = vec![Demand::default(); s.flows().len()];
    max_min(&demands, &usage, domains.len()).unwrap().rates
}

fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-9, "{got:?}, not {want:?}");
    }
}

#[test]
fn bottlenecks_of_jamshaid_figs_7_3_and_7_6a() {
    close(&ideal(&shipped("jamshaid-fig-7.3"), 1e6), &[1. / 5., 1. / 10., 1. / 10.]);
    let s = shipped("jamshaid-fig-7.6a");
    assert_eq!(s.nodes().len(), 16);
    let twelfth = 1. / 12.;
    let want = [1. / 3., 1. / 6., 1. / 6., twelfth, twelfth, twelfth, twelfth];
    close(&ideal(&s, 1e6), &want);
}

#[test]
fn every_file_satisfies_the_schema() {
    let schema = json_schema(&Registry::standard());
    for (name, text) in files() {
        let value = to_json(&text);
        let wrong = check(&value, &schema, &schema, "");
        assert!(wrong.is_none(), "{name}: {}", wrong.unwrap());
    }
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    let schema = json_schema(&Registry::standard());
    let right = "duration = \"9 s\"\ntopology.links = [[1, 2]]\nflow = [{ from = 1, to = 2 }]\n";
    assert_eq!(check(&to_json(right), &schema, &schema, ""), None);
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
        "control = { use = \"maxmin+agents\", agents = 3 }",
    ] {
        let mut value = to_json(right);
        for (key, v) in to_json(wrong).as_object().unwrap() {
            value[key] = v.clone();
        }
        assert!(check(&value, &schema, &schema, "").is_some(), "accepted: {wrong}");
    }
}

/// TOML as JSON, for the schema.
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

/// A validator for the part of JSON Schema that the schema uses. It fails on every keyword that it
/// does not know, so it cannot pass by ignoring one. Returns the first violation.
fn check(v: &Value, schema: &Value, root: &Value, at: &str) -> Option<String> {
    let Some(rules) = schema.as_object() else {
        return (schema == &Value::Bool(false)).then(|| format!("{at}: nothing may stand here"));
    };
    let wrong = |what: &str| Some(format!("{at}: {v} is not {what}"));
    let sub = |v: &Value, s: &Value, step: &str| check(v, s, root, &format!("{at}/{step}"));
    for (keyword, rule) in rules {
        let violation = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => None,
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(v, root.pointer(pointer).unwrap(), root, at)
            }
            "type" => {
                let is = |kind: &str| match kind {
                    "string" => v.is_string(),
                    "number" => v.is_number(),
                    "integer" => v.is_i64() || v.is_u64(),
                    "boolean" => v.is_boolean(),
                    "array" => v.is_array(),
                    "object" => v.is_object(),
                    "null" => v.is_null(),
                    other => panic!("type {other}"),
                };
                let fits = match rule {
                    Value::Array(kinds) => kinds.iter().any(|k| is(k.as_str().unwrap())),
                    kind => is(kind.as_str().unwrap()),
                };
                if fits { None } else { wrong(&rule.to_string()) }
            }
            "const" if v == rule => None,
            "const" => wrong(&rule.to_string()),
            "enum" if rule.as_array().unwrap().contains(v) => None,
            "enum" => wrong(&rule.to_string()),
            "anyOf" | "oneOf" => {
                let fits = rule.as_array().unwrap().iter().filter(|s| sub(v, s, "").is_none());
                let count = fits.count();
                let right = if keyword == "oneOf" { count == 1 } else { count > 0 };
                if right { None } else { wrong("any of the alternatives") }
            }
            "properties" => v.as_object().and_then(|o| {
                let known = rule.as_object().unwrap();
                o.iter().find_map(|(k, v)| sub(v, known.get(k)?, k))
            }),
            "additionalProperties" => v.as_object().and_then(|o| {
                let known = rules.get("properties").and_then(Value::as_object);
                let others = o.iter().filter(|(k, _)| known.is_none_or(|p| !p.contains_key(*k)));
                others.into_iter().find_map(|(k, v)| sub(v, rule, k))
            }),
            "required" => v.as_object().and_then(|o| {
                let mut keys = rule.as_array().unwrap().iter().map(|k| k.as_str().unwrap());
                keys.find(|k| !o.contains_key(*k)).map(|k| format!("{at}: no {k}"))
            }),
            "items" => v.as_array().and_then(|a| a.iter().find_map(|v| sub(v, rule, "items"))),
            "minItems" | "maxItems" => v.as_array().and_then(|a| {
                let limit = rule.as_u64().unwrap() as usize;
                let fits = if keyword == "minItems" { a.len() >= limit } else { a.len() <= limit };
                if fits { None } else { wrong("of the right length") }
            }),
            "minLength" => v.as_str().and_then(|s| {
                if s.len() >= rule.as_u64().unwrap() as usize { None } else { wrong("long enough") }
            }),
            "minimum" => v.as_f64().and_then(|x| {
                if x >= rule.as_f64().unwrap() { None } else { wrong("large enough") }
            }),
            "maximum" => v.as_f64().and_then(|x| {
                if x <= rule.as_f64().unwrap() { None } else { wrong("small enough") }
            }),
            "pattern" => v.as_str().and_then(|s| {
                if pattern(s, rule.as_str().unwrap()) { None } else { wrong("a quantity") }
            }),
            other => panic!("keyword {other}"),
        };
        if violation.is_some() {
            return violation;
        }
    }
    None
}

/// The two kinds of patterns that the schema has: a number and one of the units in parentheses, and
/// the name of a control with any of its variants.
fn pattern(text: &str, pattern: &str) -> bool {
    let head = r"^\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*(";
    let Some(units) = pattern.strip_prefix(head) else { return name(text, pattern) };
    let units = units.strip_suffix(r")\s*$").unwrap();
    let units = if units == "[kMG]?(bit|b)/s" {
        "bit/s|b/s|kbit/s|kb/s|Mbit/s|Mb/s|Gbit/s|Gb/s"
    } else {
        units
    };
    let text = text.trim();
    let cut = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = (text[..cut].trim(), &text[cut..]);
    number.parse::<f64>().is_ok() && units.split('|').any(|u| u == unit)
}

/// `^fifo$`, or `^arc(\+(exponential))*$`.
fn name(text: &str, pattern: &str) -> bool {
    let pattern = pattern.strip_prefix('^').unwrap().strip_suffix('$').unwrap();
    let (base, variants) = match pattern.split_once(r"(\+(") {
        Some((base, rest)) => (base, rest.strip_suffix("))*").unwrap()),
        None => (pattern, ""),
    };
    let mut parts = text.split('+');
    parts.next() == Some(base) && parts.all(|part| variants.split('|').any(|v| v == part))
}
