//! `radio.rules = "ns2"` against the stored rows of the packaged ns-2.35 (validation/ns2).
//!
//! ns-2 itself is not needed.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{folder, run, workspace};
use fairmesh_experiments::validation::suite::{self, Choice};
use fairmesh_lab::Pool;
use serde_json::{Value, json};

fn reference() -> PathBuf {
    workspace().join("validation/ns2")
}

#[test]
fn rows_agree_with_ns2() {
    let outcomes = suite::run(&[reference()], &Choice::default(), &Pool::default()).unwrap();
    assert!(outcomes.len() >= 50, "{}", outcomes.len());
    assert!(outcomes.iter().all(|o| o.verdict.not_run.is_none()));
    let mut failed = vec![];
    for v in outcomes.iter().map(|o| &o.verdict) {
        for l in &v.lines {
            println!(
                "{:26} {:5} {:7.1} ± {:5.1} {:7.1} ± {:5.1} {:+6.1} % {}",
                v.tag,
                l.what,
                l.reference_bps / 1e3,
                l.reference_half_width / 1e3,
                l.ours_bps / 1e3,
                l.ours_half_width / 1e3,
                100.0 * l.difference.unwrap_or_default(),
                if l.agrees { "" } else { "DIFFERS" },
            );
        }
        if v.promised && !v.agrees {
            failed.push(v.tag.as_str());
        }
    }
    assert!(failed.is_empty(), "{}: {}", failed.len(), failed.join(", "));
}

/// Returns the command's output for a copy of the reference with these rows.
fn validated(dir: &Path, rows: &[Value]) -> std::process::Output {
    let copy = dir.join("reference");
    fs::create_dir_all(copy.join("scen")).unwrap();
    let scenario = "scen/chain1_one.txt";
    fs::copy(reference().join(scenario), copy.join(scenario)).unwrap();
    fs::write(copy.join("reference.json"), serde_json::to_string(rows).unwrap()).unwrap();
    run(dir, &["validate", "--reference", copy.to_str().unwrap()])
}

#[test]
fn a_row_that_ns2_could_not_run_is_not_judged() {
    let dir = folder();
    let rows: Vec<Value> =
        serde_json::from_slice(&fs::read(reference().join("reference.json")).unwrap()).unwrap();
    let good = rows.into_iter().find(|r| r["tag"] == "chain1_one").unwrap();
    let mut absent = good.clone();
    absent["tag"] = json!("absent");
    absent["not_run"] = json!("ns is not installed; apt-get install ns2");
    for key in ["seeds", "flows"] {
        absent[key] = json!([]);
    }
    absent["sum_bps"] = json!({ "mean": 0.0, "half_width": 0.0 });
    let out = validated(dir.path(), &[good, absent.clone()]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text}");
    assert!(text.contains("not run: ns is not installed"), "{text}");
    assert!(text.contains("group ns2-tcp: 1 of 1 rows agree, 1 not run"), "{text}");
    // Only such rows: none agrees and none fails.
    let out = validated(dir.path(), &[absent]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && text.contains("0 of 0 rows agree, 1 not run"), "{text}");
}

/// Runs the script for ns-2 with another program in its place.
fn harness(dir: &Path, program: &str) -> (bool, Value) {
    let ns = dir.join("ns");
    fs::write(&ns, program).unwrap();
    fs::set_permissions(&ns, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let out = dir.join("rows.json");
    let status = std::process::Command::new("python3")
        .args([reference().join("run.py"), "--out".into(), out.clone(), "--ns".into(), ns])
        .args(["--seeds", "2", "chain1_one"])
        .output()
        .unwrap()
        .status;
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    assert_eq!((rows.len(), &rows[0]["flows"]), (1, &json!([])));
    (status.success(), rows[0]["not_run"].clone())
}

#[test]
fn a_script_that_dies_and_output_cut_short_leave_a_reason() {
    let dir = folder();
    let reason = |program: &str| {
        let (success, reason) = harness(dir.path(), program);
        assert!(!success);
        reason.as_str().unwrap().to_owned()
    };
    let other = reason("#!/bin/sh\necho 'ns-2 2.34; expected 2.35' >&2; exit 2\n");
    assert_eq!(other, "harness.tcl ended with exit code 2: ns-2 2.34; expected 2.35");
    let dead = reason("#!/bin/sh\necho 'assertion failed' >&2; kill -ABRT $$\n");
    assert_eq!(dead, "harness.tcl ended with exit code -6: assertion failed");
    // A trace without a path, and results without their end.
    assert_eq!(reason("#!/bin/sh\nexit 0\n"), "the trace has 0 paths; expected 2");
    let paths = "s 80.0 _1_ RTR  --- 1 cbr 84 [0 0 0 0] ------- [1:0 0:0 32 0] [0] 0 0\n\
                 s 83.0 _0_ RTR  --- 2 cbr 84 [0 0 0 0] ------- [0:1 1:1 32 1] [0] 0 0";
    let cut = format!(
        "#!/bin/sh\ncase \"$*\" in *paths=1*) echo '{paths}';; *) printf '{{\"tag\":\"chain1\"';; esac\n"
    );
    assert_eq!(reason(&cut), "seed 1: the output ends before the line of results");
    let nowhere = std::process::Command::new("python3")
        .args([reference().join("run.py"), "--out".into(), dir.path().join("none.json")])
        .args(["--ns", "no-such-ns", "chain1_one"])
        .output()
        .unwrap();
    let text = String::from_utf8(nowhere.stdout).unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text.contains("not run: no-such-ns is not installed; apt-get install ns2"), "{text}");
}
