//! Stores of results from the command line: interrupted, shared, damaged and full.

// Some of these tests are about waiting for a process.
#![allow(clippy::disallowed_methods)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{fairmesh, folder, names, ok, run, shards};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the arguments of a sweep of two points, two controls and some seeds.
fn sweep<'a>(seeds: &'a str, out: &'a str) -> Vec<&'a str> {
    let base = ["sweep", "chain.toml", "--duration", "1 s", "--vary", "radio.rts=false,true"];
    let more = ["--control", "fifo,source", "--seeds", seeds, "--out", out, "--json"];
    [&base[..], &more].concat()
}

/// Returns the lines of all shards, without their headers.
fn records(store: &Path) -> Vec<String> {
    let lines = |shard: &std::path::PathBuf| {
        let text = fs::read_to_string(shard).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = shards(store).iter().flat_map(lines).collect();
    all.sort();
    all
}

/// Returns the single line of a rejection.
fn refusal(folder: &Path, args: &[&str]) -> String {
    let out = run(folder, args);
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    text
}

#[test]
fn a_sweep_resumes_where_it_stopped() {
    let dir = folder();
    let d = dir.path();
    let whole = json(&ok(d, &sweep("2", "a")));
    assert_eq!(whole["results"].as_array().unwrap().len(), 4);
    assert_eq!(names(&d.join("a")), ["store", "sweep.json", "sweep.parquet", "sweep.svg"]);

    // As after a kill in the middle of a line.
    let shard = fs::read_to_string(&shards(&d.join("a/store"))[0]).unwrap();
    assert_eq!(shard.lines().count(), 1 + 8);
    fs::create_dir_all(d.join("b/store")).unwrap();
    let lines: Vec<&str> = shard.lines().collect();
    let cut = format!("{}\n{}", lines[..4].join("\n"), &lines[4][..lines[4].len() / 2]);
    fs::write(d.join("b/store/shard-1-0.jsonl"), &cut).unwrap();
    let out = run(d, &sweep("2", "b"));
    let note = String::from_utf8(out.stderr).unwrap();
    assert!(note.contains("b/store/shard-1-0.jsonl:5: incomplete last line of"), "{note}");
    let resumed = json(&String::from_utf8(out.stdout).unwrap());
    assert_eq!(resumed["results"], whole["results"]);
    assert_eq!(fs::read_to_string(d.join("b/store/shard-1-0.jsonl")).unwrap(), cut);
    // Complete runs were not repeated, and the two stores have the same records.
    assert_eq!(shards(&d.join("b/store")).len(), 2);
    fs::write(d.join("b/store/shard-1-0.jsonl"), lines[..4].join("\n") + "\n").unwrap();
    assert_eq!(records(&d.join("b/store")), records(&d.join("a/store")));

    // With more seeds, only the new ones run.
    ok(d, &sweep("3", "b"));
    assert_eq!(records(&d.join("b/store")).len(), 12);
    // A comparison uses the runs that it shares with the sweep.
    let compare = ["compare", "chain.toml", "--duration", "1 s", "--control", "fifo,source"];
    let more = ["--seeds", "2", "--json", "--store", "b/store"];
    let stored = json(&ok(d, &[&compare[..], &more].concat()));
    assert_eq!(records(&d.join("b/store")).len(), 12, "both have rts = false");
    let fresh = json(&ok(d, &[&compare[..], &more[..3]].concat()));
    assert_eq!(stored, fresh);

    // A damaged line in the middle is rejected with its place.
    fs::write(d.join("b/store/shard-1-0.jsonl"), shard.replacen("goodput_bps", "goodput_bpz", 1))
        .unwrap();
    let line = refusal(d, &sweep("3", "b"));
    assert!(line.contains("b/store/shard-1-0.jsonl:2: crc32: found "), "{line}");
}

#[test]
fn a_plan_has_the_runs_of_a_sweep_by_options() {
    let dir = folder();
    let d = dir.path();
    let options = json(&ok(d, &sweep("11..=12", "options")));
    let plan = "scenario = \"chain.toml\"\ncontrols = [\"fifo\", \"source\"]\nseeds = 3\n[set]\nduration = \"1 s\"\n\
                warmup = \"400 ms\"\n[vary]\nradio.rts = [false, true]\n";
    fs::write(d.join("plan.toml"), plan).unwrap();
    let args = ["sweep", "plan.toml", "--json", "--out", "plan"];
    let planned = json(&ok(d, &[&args[..], &["--seeds", "11..=12"]].concat()));
    assert_eq!(planned["results"], options["results"]);
    assert_eq!(records(&d.join("plan/store")), records(&d.join("options/store")));
    let own = json(&ok(d, &args));
    assert_eq!((&own["seeds"], records(&d.join("plan/store")).len()), (&3.into(), 20));
    assert!(fs::read_to_string(d.join("plan/sweep.svg")).unwrap().contains("radio.rts"));

    for (more, parts) in [
        (&["--vary", "a=1"][..], "--vary: plan.toml is a plan; expected this setting in the file"),
        (&["--control", "fifo"], "--control: plan.toml is a plan"),
        (&["--duration", "1 s"], "--duration, --warmup and options for maps: plan.toml is a plan"),
        (&["--on", "tcp://127.0.0.1:1"], "--on: "),
    ] {
        let line = match more[0] {
            // Python, if present, prints another line first.
            "--on" => {
                let out = fairmesh(d).args(args).args(more).env("PYTHON", "no-python").output();
                String::from_utf8(out.unwrap().stderr).unwrap()
            }
            _ => refusal(d, &[&args[..], more].concat()),
        };
        assert!(line.contains(parts), "{line}");
    }
    fs::write(d.join("plan.toml"), plan.replace("[vary]", "[very]")).unwrap();
    let line = refusal(d, &args);
    assert!(line.contains("very: unknown key; expected one of scenario, "), "{line}");
    let line = refusal(d, &["sweep", "chain.toml", "--out", "x"]);
    assert!(line.contains("--vary: none is given; expected KEY=VALUE"), "{line}");
}

#[test]
fn two_processes_work_on_one_sweep() {
    let dir = folder();
    let d = dir.path();
    let alone = json(&ok(d, &sweep("12", "alone")));
    let start = || {
        let mut command = fairmesh(d);
        command.args(sweep("12", "shared")).args(["--threads", "1"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    for process in both {
        let out = process.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let summary = json(&String::from_utf8(out.stdout).unwrap());
        assert_eq!(summary["results"], alone["results"]);
    }
    let mut shared = records(&d.join("shared/store"));
    shared.dedup();
    assert_eq!(shared, records(&d.join("alone/store")));
}

/// A store of another build: its header names another revision.
#[test]
fn runs_of_another_revision_are_refused_kept_aside_or_removed() {
    let dir = folder();
    let d = dir.path();
    let whole = json(&ok(d, &sweep("1", "a")));
    let path = shards(&d.join("a/store")).remove(0);
    let text = fs::read_to_string(&path).unwrap();
    let revision = json(text.lines().next().unwrap())["revision"].as_str().unwrap().to_owned();
    let is = format!("\"revision\":\"{revision}\"");
    // Half of the runs, of a program before the change of a constant.
    let half: Vec<&str> = text.lines().take(3).collect();
    let old = half.join("\n").replace(&is, "\"revision\":\"0.0\"") + "\n";
    fs::write(&path, &old).unwrap();
    let line = refusal(d, &sweep("1", "a"));
    for words in [
        "a/store: has records of revision 0.0",
        &format!("expected {revision}"),
        "--fresh removes",
        "--keep leaves",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(shards(&d.join("a/store")).len(), 1, "nothing was run");

    let out = run(d, &[&sweep("1", "a")[..], &["--keep"]].concat());
    let note = String::from_utf8(out.stderr).unwrap();
    assert!(note.contains("1 file of revision 0.0, not used"), "{note}");
    assert_eq!(json(&String::from_utf8(out.stdout).unwrap())["results"], whole["results"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
    let new: Vec<_> = shards(&d.join("a/store")).into_iter().filter(|s| *s != path).collect();
    assert_eq!(fs::read_to_string(&new[0]).unwrap().lines().count(), 1 + 4, "all four ran");

    ok(d, &[&sweep("1", "a")[..], &["--fresh"]].concat());
    let left = shards(&d.join("a/store"));
    assert_eq!(left.len(), 1);
    assert!(fs::read_to_string(&left[0]).unwrap().contains(&is));
    let both = run(d, &[&sweep("1", "a")[..], &["--fresh", "--keep"]].concat());
    assert_eq!(both.status.code(), Some(2));
}

/// A file-size limit in place of a full disk: both reject the end of a write.
#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_nothing_that_was_complete_is_lost() {
    let dir = folder();
    let d = dir.path();
    ok(d, &sweep("2", "whole"));
    let size = fs::metadata(&shards(&d.join("whole/store"))[0]).unwrap().len();
    // Blocks of 512 bytes; about half of the runs fit.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", size / 2 / 512);
    let out = Command::new("sh")
        .current_dir(d)
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_fairmesh")])
        .args(sweep("2", "full"))
        .args(["--threads", "1"])
        .output()
        .unwrap();
    let line = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{line}");
    assert!(line.contains(".jsonl: cannot be written (File too large"), "{line}");
    let kept = records(&d.join("full/store"));
    assert!(kept.len() > 1 && kept.len() < 8, "{}", kept.len());
    let out = run(d, &sweep("2", "full"));
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert_eq!(records(&d.join("full/store")), records(&d.join("whole/store")));
}

/// A comparison interrupted by Ctrl-C keeps complete runs, and continues.
#[cfg(unix)]
#[test]
fn an_interrupted_comparison_continues() {
    let dir = folder();
    let d = dir.path();
    let args = ["compare", "chain.toml", "--seeds", "400", "--json", "--threads", "1"];
    let args = [&args[..], &["--duration", "2 s", "--store", "runs"]].concat();
    let mut process = fairmesh(d);
    let process = process.args(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while shards(&d.join("runs")).is_empty() || records(&d.join("runs")).len() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let interrupt = Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let out = process.wait_with_output().unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(130), "{text}");
    assert!(text.contains("comparing: stopped after "), "{text}");
    let before = records(&d.join("runs"));
    assert!(before.len() < 400);
    let more: Vec<&str> = args.iter().map(|a| if *a == "400" { "8" } else { a }).collect();
    let resumed = json(&ok(d, &more));
    let fresh: Vec<&str> = more[..more.len() - 2].to_vec();
    assert_eq!(resumed, json(&ok(d, &fresh)));
    let after = records(&d.join("runs"));
    assert!(before.iter().all(|r| after.contains(r)));
}
