//! `fairmesh emulate` from the command line: rejections, results, removal of namespaces.
//!
//! A test that needs root is skipped with a message.

// The program runs in real time, so its tests wait in real time.
#![allow(clippy::disallowed_methods)]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{fairmesh, folder, names, run};

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

/// Returns the namespaces of the emulations of one process.
fn namespaces(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
    let ours = format!("fairmesh-{pid}.");
    entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.starts_with(&ours))
        .collect()
}

/// Waits for a condition, at most half a minute.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..300 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} never came");
}

fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = fairmesh(folder);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
}

#[test]
fn mistakes_are_one_line_and_build_nothing() {
    let dir = folder();
    let as_root = nix::unistd::geteuid().is_root();
    for (args, expected) in [
        (&["emulate"][..], "SCENARIO"),
        (&["emulate", "none.toml"], "there is no such file"),
        (&["emulate", "chain.toml", "--congestion", "vegas"], "vegas"),
        (&["emulate", "chain.toml", "--exec", "9", "true"], "no node \"9\""),
        (&["emulate", "chain.toml", "--shell", "x"], "no node \"x\""),
        (&["emulate", "chain.toml", "--routing", "batman"], "[possible values: static, babeld]"),
        (&["emulate", "chain.toml", "--warmup", "9 s"], "--warmup"),
        (&["demo"], "--live"),
    ] {
        let out = run(dir.path(), args);
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{args:?}: {message}");
        let needs_root = message.contains("needs root") && !as_root;
        assert!(message.contains(expected) || needs_root, "{args:?}: {message}");
    }
}

#[test]
fn a_result_folder_like_that_of_run_with_both_side_by_side() {
    if !root("a_result_folder_like_that_of_run_with_both_side_by_side") {
        return;
    }
    let dir = pair();
    let args = ["emulate", "pair.toml", "--beside", "--beside-seeds", "2", "--out", "r"];
    let out =
        run(dir.path(), &[&args[..], &["--exec", "1", "echo $((6 * 7)) from a node"]].concat());
    let message = String::from_utf8(out.stderr).unwrap();
    // An invalid run (exit code 1) has results too.
    assert!(matches!(out.status.code(), Some(0 | 1)), "{message}");
    assert!(message.contains("42 from a node"), "{message}");
    let files = names(&dir.path().join("r"));
    let expected =
        ["flows.parquet", "report.html", "results.json", "scenario.toml", "series.parquet"];
    assert_eq!(files, expected);
    let json = std::fs::read(dir.path().join("r/results.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(runs[..2].iter().all(|r| r.get("emulation").is_none()), "simulated runs");
    let e = &runs[2]["emulation"];
    assert_eq!(e["valid"].as_bool().unwrap(), out.status.success());
    assert!(e["lateness_s"]["events"].as_u64().unwrap() > 1000, "{e}");
    // Length and effect of the radio's stalls, in JSON and in text.
    let stalls = &e["stalls"];
    let bent = stalls["bent"].as_f64().unwrap() <= stalls["bent_bound"].as_f64().unwrap();
    assert_eq!(bent, out.status.success(), "{stalls}");
    assert!(stalls["sum_s"].as_f64().unwrap() >= stalls["longest_s"].as_f64().unwrap(), "{stalls}");
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("the radio") && text.contains("stood still"), "{text}");
    let page = std::fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    assert!(page.contains("stood still"), "the report lacks the stall");
    assert_eq!(e["interfaces"].as_array().unwrap().len(), 2);
    assert_eq!(json["results"][1]["control"], "emulated reno");
    assert!(runs[2]["flows"][0]["goodput_bps"].as_f64().unwrap() > 1e6);
}

#[test]
fn signals_and_crashes_leave_nothing() {
    use nix::sys::signal::Signal;
    if !root("signals_and_crashes_leave_nothing") {
        return;
    }
    let dir = pair();
    let long = ["emulate", "pair.toml", "--duration", "60 s", "--exec", "0", "sleep 77"];
    // Interrupt and termination: the namespaces are removed before the process ends.
    for end in [Signal::SIGINT, Signal::SIGTERM] {
        let child = start(dir.path(), &long);
        let pid = child.id();
        eventually("the namespaces", || namespaces(pid).len() == 2);
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, end);
        let out = child.wait_with_output().unwrap();
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(130), "{end}: {message}");
        assert_eq!(namespaces(pid), Vec::<String>::new(), "{end}");
    }
    // After a crash the namespaces remain, and are found and removed later together with the
    // processes inside. Those of a running emulation are kept.
    let other = start(dir.path(), &long);
    let mut crashed = start(dir.path(), &long);
    let pid = crashed.id();
    eventually("the namespaces", || {
        namespaces(pid).len() == 2 && namespaces(other.id()).len() == 2
    });
    std::thread::sleep(Duration::from_millis(500));
    signal(&crashed, Signal::SIGKILL);
    crashed.wait().unwrap();
    assert_eq!(namespaces(pid).len(), 2);
    let out = run(dir.path(), &["emulate", "--clean"]);
    assert!(out.status.success());
    assert_eq!(namespaces(pid), Vec::<String>::new());
    assert_eq!(namespaces(other.id()).len(), 2, "those of a running emulation are gone");
    // A child that is killed does not end the run.
    let inside = Command::new("ip").args(["netns", "pids", &namespaces(other.id())[0]]).output();
    let inside = String::from_utf8(inside.unwrap().stdout).unwrap();
    for pid in inside.split_whitespace() {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid.parse().unwrap()),
            Signal::SIGKILL,
        );
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(namespaces(other.id()).len(), 2);
    signal(&other, Signal::SIGINT);
    assert_eq!(other.wait_with_output().unwrap().status.code(), Some(130));
}
