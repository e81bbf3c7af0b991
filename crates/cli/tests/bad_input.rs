//! Every error is one line that names it, with exit code 2, and leaves no file behind.

mod common;

use std::fs;
use std::path::Path;

use common::{CHAIN, folder, names, run};

/// Runs the program and returns the single line of its error.
///
/// The content of the folder must not change.
fn refused(dir: &Path, args: &[&str]) -> String {
    let before = names(dir);
    let out = run(dir, args);
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {text}");
    assert!(out.stdout.is_empty(), "{args:?} printed results");
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("fairmesh: "), "{text}");
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
fn options() {
    let dir = folder();
    let d = dir.path();
    contains(&refused(d, &["compare", "chain.toml", "--seeds", "0"]), &["--seeds", "0"]);
    contains(
        &refused(d, &["sweep", "chain.toml", "--vary", "a=1", "--out", "x", "--seeds", "0"]),
        &["--seeds"],
    );
    contains(&refused(d, &["compare", "chain.toml", "--seeds", "-1"]), &["-1"]);
    contains(&refused(d, &["compare", "chain.toml", "--threads", "0"]), &["--threads"]);
    contains(&refused(d, &["run", "chain.toml", "--duration", "5"]), &["--duration", "no unit"]);
    contains(&refused(d, &["run", "chain.toml", "--duration", "0 s"]), &["--duration"]);
    contains(&refused(d, &["run", "chain.toml", "--warmup", "9 s"]), &["--warmup", "less than"]);
    contains(&refused(d, &["run", "chain.toml", "--sample", "0 s"]), &["sampling"]);
    contains(
        &refused(d, &["run", "chain.toml", "--pcap", "x", "--pcap-at", "nobody"]),
        &["--pcap-at", "nobody"],
    );
    contains(&refused(d, &["run", "chain.toml", "--gateway", "1"]), &["--gateway", "not a map"]);
    contains(&refused(d, &["run"]), &["SCENARIO"]);
    contains(&refused(d, &[]), &["expected a command: run, "]);
    contains(&refused(d, &["fly"]), &["fly"]);
}

#[test]
fn controls() {
    let dir = folder();
    let d = dir.path();
    for args in [
        &["run", "chain.toml", "--control", "nosuch"][..],
        &["compare", "chain.toml", "--control", "fifo,nosuch"],
        &["sweep", "chain.toml", "--vary", "radio.rts=true", "--control", "nosuch", "--out", "x"],
    ] {
        contains(&refused(d, args), &["--control", "nosuch", "fifo", "source"]);
    }
    contains(&refused(d, &["compare", "chain.toml", "--control", "fifo,fifo"]), &["twice"]);
}

#[test]
fn files() {
    let dir = folder();
    let d = dir.path();
    fs::write(d.join("empty.toml"), "").unwrap();
    fs::write(d.join("binary.toml"), [0u8, 159, 146, 150, 255, 0, 7]).unwrap();
    fs::write(d.join("key.toml"), CHAIN.replace("rate =", "raet =")).unwrap();
    fs::write(d.join("unit.toml"), CHAIN.replace("4 s", "4 m")).unwrap();
    fs::write(d.join("bare.toml"), CHAIN.replace("\"4 s\"", "4")).unwrap();
    let garbage: Vec<u8> =
        (0..10_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(d.join("garbage.toml"), garbage).unwrap();
    for command in ["run", "compare", "validate"] {
        contains(
            &refused(d, &[command, "nosuch.toml"]),
            &["nosuch.toml", "no such file", "expected"],
        );
        contains(&refused(d, &[command, "."]), &[".: is a folder", "expected"]);
        contains(&refused(d, &[command, "empty.toml"]), &["empty.toml", "empty", "expected"]);
        contains(&refused(d, &[command, "binary.toml"]), &["binary.toml", "expected"]);
        contains(&refused(d, &[command, "garbage.toml"]), &["garbage.toml", "expected"]);
        contains(&refused(d, &[command, "key.toml"]), &["key.toml:4", "raet", "rate"]);
        contains(&refused(d, &[command, "unit.toml"]), &["unit.toml:2", "duration", "wrong unit"]);
        contains(&refused(d, &[command, "bare.toml"]), &["bare.toml:2", "duration"]);
    }
}

#[test]
fn maps() {
    let dir = folder();
    let d = dir.path();
    let map = |nodes: &str, links: &str| {
        format!(
            r#"{{"type":"NetworkGraph","protocol":"olsr","version":"1","metric":"etx","nodes":{nodes},"links":{links}}}"#
        )
    };
    let nodes = r#"[{"id":"a"},{"id":"b"},{"id":"c"}]"#;
    let good = map(
        nodes,
        r#"[{"source":"a","target":"b","cost":1.0},{"source":"b","target":"c","cost":1.0}]"#,
    );
    let bad = map(nodes, r#"[{"source":"a","target":"zz","cost":1.0}]"#);
    fs::write(d.join("good.netjson"), good).unwrap();
    fs::write(d.join("bad.netjson"), bad).unwrap();
    contains(
        &refused(d, &["compare", "good.netjson", "--gateway", "q"]),
        &["good.netjson", "\"q\"", "\"b\", \"a\", \"c\""],
    );
    contains(
        &refused(d, &["compare", "good.netjson", "--metric", "miles"]),
        &["--metric", "\"miles\"", "throughput-kbit"],
    );
    contains(&refused(d, &["compare", "good.netjson", "--graph", "x"]), &["--graph", "\"x\""]);
    contains(&refused(d, &["compare", "bad.netjson", "--gateway", "a"]), &["bad.netjson", "zz"]);
    contains(
        &refused(d, &["compare", "good.netjson", "--gateway", "a", "--flows", "sideways"]),
        &["sideways", "up"],
    );
    let map = |more: &[&str]| {
        refused(d, &[&["validate", "good.netjson", "--gateway", "a"], more].concat())
    };
    contains(&map(&["--phy", "802.11z"]), &["--phy", "802.11z", "802.11ax"]);
    contains(&map(&["--width", "33 MHz"]), &["good.netjson", "radio.width", "33 MHz", "40 MHz"]);
    contains(&map(&["--channel", "14"]), &["good.netjson", "radio.channel", "14", "1 to 13"]);
    let slow = ["--phy", "802.11n", "--rate", "24 Mbit/s"];
    contains(&map(&slow), &["good.netjson", "radio.rate", "802.11n", "802.11g"]);
    contains(
        &refused(d, &["sweep", "good.netjson", "--gateway", "a", "--vary", "a=1", "--out", "x"]),
        &["--vary", "a=1", "unknown key", "gateways"],
    );
    let text = common::ok(
        d,
        &[
            "compare",
            "good.netjson",
            "--gateway",
            "a",
            "--flows",
            "up",
            "--seeds",
            "1",
            "--duration",
            "2 s",
            "--json",
        ],
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["results"][0]["flows"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn places_that_cannot_be_written() {
    let dir = folder();
    let d = dir.path();
    fs::create_dir(d.join("mine")).unwrap();
    fs::write(d.join("mine/thesis.tex"), "years of work").unwrap();
    for out in ["chain.toml", "chain.toml/x", "mine"] {
        contains(&refused(d, &["compare", "chain.toml", "--out", out]), &[out, "expected"]);
        contains(&refused(d, &["run", "chain.toml", "--out", out]), &[out, "expected"]);
        let sweep = ["sweep", "chain.toml", "--vary", "radio.rts=true", "--out", out];
        contains(&refused(d, &sweep), &[out, "expected"]);
    }
    contains(&refused(d, &["run", "chain.toml", "--pcap", "mine"]), &["mine", "folder"]);
    let file = ["run", "chain.toml", "--pcap", "chain.toml/x"];
    contains(&refused(d, &file), &["chain.toml", "is a file", "existing folder"]);
    contains(
        &refused(d, &["compare", "chain.toml", "--out", "o", "--pcap", "chain.toml"]),
        &["chain.toml"],
    );
    // A capture does not create its folder.
    let expected = ["new", "expected an existing folder"];
    contains(&refused(d, &["run", "chain.toml", "--pcap", "new/x.pcap"]), &expected);
    contains(&refused(d, &["compare", "chain.toml", "--out", "o", "--pcap", "new"]), &expected);
    assert!(!d.join("new").exists() && !d.join("o").exists());
    assert_eq!(fs::read_to_string(d.join("mine/thesis.tex")).unwrap(), "years of work");
}

#[test]
fn sweeps() {
    let dir = folder();
    let d = dir.path();
    let sweep = |vary: &str| refused(d, &["sweep", "chain.toml", "--vary", vary, "--out", "x"]);
    contains(&sweep("radio.rts"), &["--vary", "KEY=VALUE"]);
    contains(&sweep("radio.rst=true"), &["chain.toml", "rst", "rts"]);
    contains(&sweep("radio.rate=1 m"), &["radio.rate=1 m", "wrong unit"]);
    contains(&sweep("flow.*.start=1 s"), &["--vary", "flow"]);
}

#[test]
fn fingerprints() {
    let dir = folder();
    contains(&refused(dir.path(), &["fingerprints", "nowhere"]), &["nowhere"]);
}

/// An option that contradicts the file is an error.
///
/// The line names the option, the file and the key.
#[test]
fn options_that_contradict_the_file() {
    let dir = folder();
    let d = dir.path();
    let late = "duration = \"10 s\"\n[topology]\nchain = { hops = 1 }\n[[flow]]\nfrom = 1\nto = 0\n\
                start = \"5 s\"\nstop = \"8 s\"\n[[rate_change]]\nat = \"7 s\"\nfrom = 0\nto = 1\n\
                rate = \"1 Mbit/s\"\n";
    fs::write(d.join("late.toml"), late).unwrap();
    fs::write(d.join("short.toml"), late.replace("\"10 s\"", "\"1 s\"")).unwrap();
    let start = ["late.toml:7: flow[0].start: 5 s is out of range", "the run, 1 s", "--duration"];
    contains(&refused(d, &["run", "late.toml", "--duration", "1 s"]), &start);
    contains(&refused(d, &["compare", "late.toml", "--duration", "1 s"]), &start);
    contains(&refused(d, &["run", "short.toml"]), &["short.toml:7: flow[0].start: 5 s is out of"]);
    contains(
        &refused(d, &["run", "late.toml", "--duration", "6 s"]),
        &["late.toml:10: rate_change[0].at: 7 s is out of range", "the run, 6 s", "--duration"],
    );
    contains(
        &refused(d, &["run", "late.toml", "--warmup", "10 s"]),
        &["late.toml: warmup: 10 s is out of range", "less than `duration`, 10 s", "--warmup"],
    );
    let vary = |axis: &str| refused(d, &["sweep", "late.toml", "--vary", axis, "--out", "x"]);
    contains(&vary("flow.0.start=12 s"), &["--vary", "flow[0].start: 12 s is out of range"]);
    contains(&vary("flow.0.stop=4 s"), &["--vary", "flow[0].stop"]);
    contains(&vary("warmup=10 s"), &["--vary", "warmup: 10 s is out of range"]);
    contains(
        &vary("rate_change.0.at=11 s"),
        &["--vary", "rate_change[0].at: 11 s is out of range"],
    );
    contains(&vary("flow.0.wait=1"), &["--vary", "flow[0].wait: unknown key"]);
    contains(&vary("flow.0.weight=heavy"), &["--vary", "flow[0].weight"]);
}
