//! Arms of experiments in the emulator.
//!
//! A test that needs root is skipped with a message.

// The program runs in real time.
#![allow(clippy::disallowed_methods)]

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use std::io::Write;

use common::run;

fn root(test: &str) -> bool {
    let is = nix::unistd::geteuid().is_root();
    if !is {
        // Not captured by the test harness: a skipped test should not look like a passed one.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs root for network namespaces");
        assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
    }
    is
}

const PAIR: &str = r#"
duration = "4 s"
warmup = "1 s"
[radio]
rate = "11 Mbit/s"
[topology]
chain = { hops = 1 }
gateway = 0
[traffic]
flows = "up"
traffic = "bulk"
"#;

fn pair() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("pair.toml"), PAIR).unwrap();
    dir
}

const REPRODUCED: &str = r#"
title = "Mine"
paper = "nobody 2026"
place = "nowhere"
unquoted = "nobody wrote it"
about = "One upload, in virtual and in real time."
scenario = "pair.toml"
quick = { seeds = 1 }
full = { seeds = 2, emulated = 1 }
layout = { rows = ["arm"], columns = ["measure"] }

[[arm]]
label = "simulated"
control = "fifo"

[[arm]]
label = "emulated"
in = "emulator"
control = "fifo"

[[arm]]
label = "at nodes"
in = "emulator"
control = "wcp"

[[measure]]
label = "kbit/s"
of = "sum-goodput"

[[measure]]
label = "ms"
of = "packet-delay"
"#;

/// An arm of a reproduction runs in the emulator beside the simulator's.
///
/// If it cannot run there, it is refused by name.
#[test]
fn arms_of_reproductions_are_emulated() {
    let dir = pair();
    let mine = dir.path().join("reproductions/mine");
    std::fs::create_dir_all(&mine).unwrap();
    std::fs::copy(dir.path().join("pair.toml"), mine.join("pair.toml")).unwrap();
    std::fs::write(mine.join("experiment.toml"), REPRODUCED).unwrap();
    let reproduce = |more: &[&str]| {
        let out = run(dir.path(), &[&["reproduce", "mine", "--json"], more].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let all: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        all[0].clone()
    };
    let missing = |record: &serde_json::Value, arm: &str| -> Option<String> {
        let all = record["missing"].as_array().unwrap();
        let measured = all.iter().find(|m| m["arm"] == arm)?;
        Some(measured["because"].as_str().unwrap().to_owned())
    };
    let quick = reproduce(&[]);
    assert!(missing(&quick, "emulated").unwrap().contains("--full"), "{quick}");
    assert_eq!(quick.get("emulated"), None);

    let full = reproduce(&["--full"]);
    if !root("arms_of_reproductions_are_emulated") {
        assert!(missing(&full, "emulated").unwrap().contains("root"), "{full}");
        return;
    }
    assert!(missing(&full, "at nodes").unwrap().contains("at a gateway"), "{full}");
    assert_eq!(full["runs"], 2, "the emulator's are counted apart");
    if let Some(why) = missing(&full, "emulated") {
        // The machine stalled in every attempt.
        assert!(why.contains("invalid"), "{why}");
        return;
    }
    let runs = full["emulated"][0]["runs"].as_array().unwrap();
    assert!(runs.len() == 1 && runs[0]["bent"].as_f64().unwrap() <= 0.1, "{full}");
    let row = |label: &str| {
        let rows = full["rows"].as_array().unwrap();
        rows.iter().find(|r| r["label"] == label).unwrap()["cells"].as_array().unwrap().clone()
    };
    let [simulated, emulated] = ["simulated", "emulated"].map(row);
    let ratio = emulated[0]["ours"].as_f64().unwrap() / simulated[0]["ours"].as_f64().unwrap();
    assert!((0.8..1.25).contains(&ratio), "{full}");
    assert_eq!(
        (simulated.len(), emulated.len()),
        (2, 1),
        "delays of the kernel's TCP are not known"
    );
}
