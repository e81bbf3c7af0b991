//! `fairmesh-experiments side-by-side --today` as a user meets it, and the page that is made of its record.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use std::fs;

use common::{folder, names, ok, run, workspace};
use serde_json::Value;

fn path(of: &str) -> String {
    workspace().join(of).to_string_lossy().into_owned()
}

/// Page and picture are what the record gives; a changed one is noticed.
#[test]
fn page_and_picture_are_what_the_record_gives() {
    let dir = folder();
    let (from, docs) = (path("reproductions"), path("docs"));
    ok(dir.path(), &["side-by-side", "--today", "--check", "--from", &from, "--docs", &docs]);
    let mine = dir.path().join("docs").to_string_lossy().into_owned();
    ok(dir.path(), &["side-by-side", "--today", "--page", "--from", &from, "--docs", &mine]);
    let page = dir.path().join("docs/today.md");
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, text.replacen("802.11ac", "802.11ad", 1)).unwrap();
    let check = ["side-by-side", "--today", "--check", "--from", &from, "--docs", &mine];
    let out = run(dir.path(), &check);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("not what the record gives"));
}

/// The record is of the declaration as it is: every case on every network, each with a result or none to run at.
#[test]
fn the_record_is_of_the_declaration() {
    let text = fs::read_to_string(path("reproductions/today/record.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    let declared = fs::read_to_string(path("reproductions/today/today.toml")).unwrap();
    // The label is the first key of its table.
    let labels = |table: &str| -> Vec<String> {
        let head = format!("\n[[{table}]]\nlabel = \"");
        let heads = declared.split(&head).skip(1);
        heads.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let of = |key: &str| -> Vec<String> {
        let list = record[key].as_array().unwrap();
        list.iter().map(|e| e["label"].as_str().unwrap().to_owned()).collect()
    };
    let cases = labels("section.case");
    assert!(cases.len() > 30, "{cases:?}");
    assert_eq!(of("cases"), cases);
    assert_eq!(of("topologies"), labels("topology"));
    assert!(declared.contains(&format!("\nseeds = {}\n", record["seeds"])));
    let cells = record["cells"].as_array().unwrap();
    assert_eq!(cells.len(), cases.len() * of("topologies").len());
    for cell in cells {
        assert_eq!(cell["measures"].is_null(), cell["fingerprint"].is_null(), "{cell}");
    }
}

#[test]
fn a_quick_look() {
    let dir = folder();
    let args = ["side-by-side", "--today", "--quick", "--from", &path("reproductions")];
    let text = ok(dir.path(), &args);
    for part in ["Aggregation", "Queues of today", "ac, A-MPDUs", "ac, maxmin", "of 3"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let results = dir.path().join("results/today");
    assert_eq!(names(&results), ["results.json", "today.md", "today.svg"]);
    let page = fs::read_to_string(results.join("today.md")).unwrap();
    assert!(page.contains("no node to run at"), "the Stack has no gateway");
}

#[test]
fn mistakes_are_one_line() {
    let dir = folder();
    for more in [&["--map", "x.json"][..], &["--control", "pfrc"], &["--seeds", "0"]] {
        let out = run(dir.path(), &[&["side-by-side", "--today"], more].concat());
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!((out.status.code(), line.trim_end().lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains(more[0]), "{line}");
    }
    let out = run(dir.path(), &["reproduce", "today", "--from", &path("reproductions")]);
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("fairmesh-experiments side-by-side --today")
    );
}
