//! `fairmesh-experiments side-by-side` as a user meets it, and the page that is made of its record.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use std::fs;

use common::{folder, names, ok, run, workspace};
use fairmesh_control::Registry;
use serde_json::Value;

fn reproductions() -> String {
    workspace().join("reproductions").to_string_lossy().into_owned()
}

fn docs() -> String {
    workspace().join("docs").to_string_lossy().into_owned()
}

fn kept() -> Value {
    let path = workspace().join("reproductions/side-by-side/record.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Page and picture are what the record gives; a changed one is noticed.
#[test]
fn page_and_picture_are_what_the_record_gives() {
    let dir = folder();
    let (from, docs) = (reproductions(), docs());
    ok(dir.path(), &["side-by-side", "--check", "--from", &from, "--docs", &docs]);
    let mine = dir.path().join("docs").to_string_lossy().into_owned();
    ok(dir.path(), &["side-by-side", "--page", "--from", &from, "--docs", &mine]);
    let page = dir.path().join("docs/controls/side-by-side.md");
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, text.replacen("fifo", "lifo", 1)).unwrap();
    let out = run(dir.path(), &["side-by-side", "--check", "--from", &from, "--docs", &mine]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("not what the record gives"));
}

/// Every control of the program is in the record or left out with a reason, with intervals from five
/// seeds, on the papers' topologies and both maps.
#[test]
fn the_record_has_every_control() {
    let record = kept();
    let column = |list: &str, key: &str| -> Vec<String> {
        let list = record[list].as_array().unwrap();
        list.iter().map(|e| e[key].as_str().unwrap().to_owned()).collect()
    };
    let known = [column("controls", "name"), column("left_out", "control")].concat();
    for definition in Registry::standard().all() {
        let variants =
            definition.variants.iter().map(|v| format!("{}+{}", definition.name, v.name));
        for control in std::iter::once(definition.name.to_string()).chain(variants) {
            assert!(
                known.contains(&control),
                "{control} is not in the record; fairmesh-experiments side-by-side --map … --record puts it there"
            );
        }
    }
    assert!(record["seeds"].as_u64().unwrap() >= 5);
    let topologies = record["topologies"].as_array().unwrap();
    assert!(topologies.iter().all(|t| t["ran"] == true) && topologies.len() >= 26);
    for cell in record["cells"].as_array().unwrap() {
        let measured = cell["measures"].is_object();
        assert!(measured != cell["because"].is_string(), "{cell}");
        assert!(!measured || cell["measures"]["jain"][1].is_number(), "{cell}");
    }
}

#[test]
fn a_quick_look() {
    let dir = folder();
    let from = reproductions();
    let args = ["side-by-side", "--quick", "--control", "fifo,source,gap", "--from", &from];
    let text = ok(dir.path(), &args);
    for part in ["With a gateway", "Without a gateway", "source", "fair rates", "neighbours of"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        names(&dir.path().join("results/side-by-side")),
        ["results.json", "side-by-side.md", "side-by-side.svg"]
    );
    let folder = dir.path().join("results/side-by-side");
    let page = fs::read_to_string(folder.join("side-by-side.md")).unwrap();
    assert!(page.contains("no node to run at"), "gap has no gateway on the Stack");
    assert!(page.contains("Not run: Battlemesh v10, 10 dBm, Freifunk Leipzig"));
    let json = |threads: &str| {
        let more = ["--json", "--threads", threads, "--seeds", "1"];
        let text = ok(dir.path(), &[&args[..], &more[..]].concat());
        let mut record: Value = serde_json::from_str(&text).unwrap();
        record["command"] = Value::Null;
        record
    };
    let one = json("1");
    assert_eq!(one, json("2"), "numbers do not depend on threads");
    let cells = one["cells"].as_array().unwrap();
    let of = |control: &str, topology: &str| {
        cells.iter().find(|c| c["control"] == control && c["topology"] == topology).unwrap()
    };
    assert_eq!(of("gap", "Stack")["because"], "no node to run at");
    assert!(of("gap", "Fig. 2(a)")["measures"]["airtime_ms"][0].as_f64().unwrap() > 1.0);
    assert_eq!(of("fifo", "Stack")["measures"]["bytes_per_s"][0], 0.0);
}

#[test]
fn mistakes_are_one_line() {
    let dir = folder();
    let from = reproductions();
    let check = |args: &[&str], wanted: &[&str]| {
        let args = [&["side-by-side", "--from", &from], args].concat();
        let out = run(dir.path(), &args);
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{line}");
        for w in wanted {
            assert!(line.contains(w), "{line}: {w}");
        }
        assert!(!dir.path().join("results").exists(), "nothing is left");
    };
    check(&["--map", "chain.toml"], &["--map", "chain.toml", "freifunk-leipzig.netjson"]);
    check(&["--map", "none/freifunk-leipzig.netjson"], &["none/", "no such file"]);
    check(&["--control", "telepathy"], &["--control", "telepathy"]);
    check(&["--seeds", "0"], &["--seeds"]);
    let out = run(dir.path(), &["reproduce", "side-by-side", "--from", &from]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("fairmesh-experiments side-by-side"));
}
