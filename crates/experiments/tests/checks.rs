//! `validate`, `bench`, `accuracy` and `boundary` of `fairmesh-experiments`.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use std::path::Path;

use common::{folder, names, ok, run, workspace};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn refused(dir: &Path, args: &[&str]) -> String {
    let before = names(dir);
    let out = run(dir, args);
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {text}");
    assert!(out.stdout.is_empty(), "{args:?} printed results");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("fairmesh-experiments: "), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    assert_eq!(names(dir), before, "{args:?} left something behind");
    text
}

fn contains(text: &str, parts: &[&str]) {
    for p in parts {
        assert!(text.contains(p), "{p:?} is not in {text:?}");
    }
}

#[test]
fn validation_and_benchmarks() {
    let dir = folder();
    let d = dir.path();
    contains(&refused(d, &["validate", "--reference", "nowhere"]), &["nowhere/reference.json"]);
    contains(&refused(d, &["bench", "--reference", "nowhere"]), &["nowhere/cost.json"]);
    let reference = workspace().join("validation/ns3");
    let reference = reference.to_str().unwrap();
    contains(
        &refused(d, &["validate", "--reference", reference, "--group", "zz"]),
        &["zz", "a, b"],
    );
    contains(
        &refused(d, &["bench", "--reference", reference, "--row", "zz"]),
        &["zz", "f_rand100"],
    );
}

#[test]
fn a_row_of_the_reference_agrees() {
    let reference = workspace().join("validation/ns3");
    let out = run(
        folder().path(),
        &[
            "validate",
            "--reference",
            reference.to_str().unwrap(),
            "--group",
            "m",
            "--quick",
            "--json",
        ],
    );
    let v = json(&String::from_utf8(out.stdout).unwrap());
    assert_eq!(v["rows"].as_array().unwrap().len(), 2);
    assert!(v["rows"][0]["lines"][0]["ours_bps"].as_f64().unwrap() > 100e3);
}

#[test]
fn a_benchmark_row_measures_its_own_process() {
    let reference = workspace().join("validation/ns3");
    let reference = reference.to_str().unwrap();
    for row in ["b_ns2_h1", "scale:30"] {
        let args = ["bench-row", row, "--reference", reference, "--seconds", "2"];
        let v = json(&ok(folder().path(), &args));
        assert!(v["transmissions"].as_u64().unwrap() > 100);
        assert!(v["cpu_s"].as_f64().unwrap() > 0.0);
        assert!(v["peak_kib"].as_i64().unwrap() > 1000);
    }
}

#[test]
fn models_are_compared_with_the_simulator() {
    let dir = folder();
    let v = json(&ok(dir.path(), &["boundary", "1", "--json"]));
    assert_eq!(v["cases"].as_array().unwrap().len(), 1);
    contains(&refused(dir.path(), &["accuracy", "1"]), &["<N>", "2..=10000"]);
    contains(&refused(dir.path(), &["boundary"]), &["<N>"]);
}
