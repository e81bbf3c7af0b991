//! The commands from the command line.

// One of these tests is about waiting for a process.
#![allow(clippy::disallowed_methods)]

mod common;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use common::{fairmesh, folder, names, ok, run, workspace};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn compare_prints_one_object_of_the_documented_shape() {
    let dir = folder();
    let args = ["compare", "chain.toml", "--control", "fifo,source", "--seeds", "3", "--json"];
    let text = ok(dir.path(), &args);
    assert_eq!(text.lines().count(), 1);
    let v = json(&text);
    assert_eq!(
        (&v["schema"], &v["scenario"], &v["seeds"]),
        (&1.into(), &"chain".into(), &3.into())
    );
    let results = v["results"].as_array().unwrap();
    assert_eq!(results.iter().map(|r| &r["control"]).collect::<Vec<_>>(), ["fifo", "source"]);
    for r in results {
        for key in [
            "jain",
            "jain_normalized",
            "min_over_fair",
            "max_over_fair",
            "utilization_ratio",
            "sum_goodput_bps",
        ] {
            assert!(r[key]["mean"].is_f64() && r[key]["ci95"].is_f64(), "{key}: {}", r[key]);
        }
        let flows = r["flows"].as_array().unwrap();
        assert_eq!(flows.len(), 3);
        for (i, f) in flows.iter().enumerate() {
            assert_eq!(f["from"], (i + 1).to_string());
            assert_eq!((&f["to"], &f["hops"]), (&"0".into(), &(i + 1).into()));
            assert!(f["goodput_bps"]["mean"].as_f64().unwrap() >= 0.0);
            assert!(f["goodput_bps"]["ci95"].is_f64());
            assert!(f["fair_bps"].as_f64().unwrap() > 50e3);
            let delay = &f["delay_s"];
            assert!(delay.get("mean").is_some() && delay.get("p95").is_some());
        }
        // Goodputs of a chain at 1 Mbit/s: the measured interval is not empty.
        assert!(r["sum_goodput_bps"]["mean"].as_f64().unwrap() > 200e3);
    }
    assert_eq!(names(dir.path()), ["chain.toml"], "--json leaves no folder");
}

#[test]
fn compare_writes_a_whole_folder_and_replaces_its_own() {
    let dir = folder();
    for _ in 0..2 {
        let text = ok(dir.path(), &["compare", "chain.toml", "--seeds", "2", "--duration", "2 s"]);
        assert!(text.contains("Report: results/chain-fifo/report.html"), "{text}");
    }
    let out = dir.path().join("results/chain-fifo");
    let files = ["flows.parquet", "report.html", "results.json", "scenario.toml", "series.parquet"];
    assert_eq!(names(&out), files);
    assert_eq!(names(&dir.path().join("results")), ["chain-fifo"]);
    let v = json(&fs::read_to_string(out.join("results.json")).unwrap());
    assert_eq!(v["runs"].as_array().unwrap().len(), 2);
    assert_eq!(v["command"], "fairmesh compare chain.toml --seeds 2 --duration '2 s'");
    assert_eq!(fs::read_to_string(out.join("scenario.toml")).unwrap(), common::CHAIN);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains(v["runs"][0]["fingerprint"].as_str().unwrap()));
}

#[test]
fn results_do_not_depend_on_threads_sampling_or_capturing() {
    let dir = folder();
    let prints = |extra: &[&str]| {
        let base = ["compare", "chain.toml", "--control", "fifo,source", "--seeds", "2", "--json"];
        let v = json(&ok(dir.path(), &[&base[..], extra].concat()));
        v["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["fingerprints"].clone())
            .collect::<Vec<_>>()
    };
    let one = prints(&["--threads", "1"]);
    assert_eq!(one, prints(&["--threads", "3"]));
    assert_eq!(one, prints(&["--out", "sampled"]));
    fs::create_dir(dir.path().join("captures")).unwrap();
    assert_eq!(one, prints(&["--pcap", "captures"]));
    assert_eq!(names(&dir.path().join("captures")), ["fifo.pcap", "source.pcap"]);
    assert_ne!(one[0][0], one[0][1], "seeds differ");
}

#[test]
fn run_shows_flows_losses_and_airtime() {
    let dir = folder();
    let text = ok(dir.path(), &["run", "chain.toml", "--seed", "4", "--control", "source"]);
    for part in ["chain under source", "seed 4", "3 → 0", "retry limit", "Airtime and frames"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let v = json(&ok(dir.path(), &["run", "chain.toml", "--json"]));
    assert_eq!(v["nodes"].as_array().unwrap().len(), 4);
    for n in v["nodes"].as_array().unwrap() {
        let share = |k: &str| n[k].as_f64().unwrap();
        let sum = share("airtime_tx") + share("airtime_busy") + share("airtime_idle");
        assert!((sum - 1.0).abs() < 1e-6, "{n}");
    }
}

#[test]
fn a_sweep_s_table_has_each_value_below_its_key() {
    let dir = folder();
    let vary = ["--vary", "radio.rts=true", "--vary", "control.use=source"];
    let base = ["sweep", "chain.toml", "--duration", "1 s", "--seeds", "1", "--out", "x"];
    let table = ok(dir.path(), &[&base[..], &vary].concat());
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let header = table.lines().position(|l| l.contains("radio.rts")).unwrap();
    let rows: Vec<_> = table.lines().skip(header).map(words).collect();
    assert_eq!(rows[0][..3], ["radio.rts", "control.use", "control"]);
    assert_eq!(rows[2][..3], ["true", "source", "source"]);
}

#[test]
fn parameters_are_set_and_varied() {
    let dir = folder();
    let d = dir.path();
    let short = ["--duration", "1 s", "--json"];
    let fingerprint = |args: &[&str]| {
        let text = ok(d, &[args, &short].concat());
        json(&text)["fingerprint"].as_str().unwrap().to_owned()
    };
    let source = fingerprint(&["run", "chain.toml", "--control", "source"]);
    let roomy = fingerprint(&["run", "chain.toml", "--control", "source", "--set", "room=0.5"]);
    assert_ne!(source, roomy);
    // The same value in the file.
    let written = format!("{}[control]\nuse = \"source\"\nroom = 0.5\n", common::CHAIN);
    fs::write(d.join("roomy.toml"), written).unwrap();
    assert_eq!(fingerprint(&["run", "roomy.toml"]), roomy);
    assert_eq!(fingerprint(&["run", "roomy.toml", "--set", "source.room=0"]), source);

    // Applied to the controls that have the parameter.
    let args = ["compare", "chain.toml", "--control", "fifo,source", "--seeds", "1"];
    let v = json(&ok(d, &[&args[..], &["--set", "room=0.5"], &short].concat()));
    assert_eq!(v["results"][1]["fingerprints"][0], roomy.as_str());
    let args =
        ["sweep", "chain.toml", "--control", "fifo,source", "--seeds", "1", "--out", "rooms"];
    let v = json(&ok(d, &[&args[..], &["--vary", "control.room=0,0.5"], &short].concat()));
    let cells: Vec<_> = v["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["point"]["control.room"].as_str().unwrap(), r["control"].as_str().unwrap()))
        .collect();
    assert_eq!(cells, [("0", "fifo"), ("0", "source"), ("0.5", "fifo"), ("0.5", "source")]);
    let shards = common::shards(&d.join("rooms/store"));
    let lines = fs::read_to_string(&shards[0]).unwrap();
    assert!(lines.contains(&roomy) && lines.contains(&source), "{lines}");

    for (set, problem) in [
        ("room=2", "--set: source: room must lie in 0 to 1, not 2"),
        ("queue=2.5", "--set: source: queue must be a whole number from 1 to 1000, not 2.5"),
        (
            "epoch=5",
            "--set: no control that runs has a parameter \"epoch\"; source has room, queue",
        ),
        ("pfrc.epoch=5", "--set: pfrc is none of the controls that run"),
    ] {
        let out = run(d, &["run", "chain.toml", "--control", "source", "--set", set]);
        assert_eq!(out.status.code(), Some(2), "{set}");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(message.trim_end(), format!("fairmesh: {problem}"));
    }
}

#[test]
fn unpublished_controls_are_marked() {
    let dir = folder();
    let args = ["compare", "chain.toml", "--seeds", "1", "--duration", "1 s", "--control"];
    let text = ok(dir.path(), &[&args[..], &["pfrc,pfrc+bursts", "--out", "x"]].concat());
    let row = |name: &str| text.lines().any(|l| l.trim_start().starts_with(name));
    assert!(row("pfrc+bursts *") && row("pfrc ") && !row("pfrc *"), "{text}");
    assert!(text.contains("* ours: not published"), "{text}");
    let report = fs::read_to_string(dir.path().join("x/report.html")).unwrap();
    assert!(report.contains("\"name\":\"pfrc+bursts\"") && report.contains("\"ours\":true"));
    let v = json(&ok(dir.path(), &[&args[..], &["pfrc,pfrc+bursts", "--json"]].concat()));
    let ours: Vec<_> = v["results"].as_array().unwrap().iter().map(|r| &r["ours"]).collect();
    assert_eq!(ours, [&Value::Bool(false), &Value::Bool(true)]);
    let text = ok(dir.path(), &[&args[..], &["fifo,pfrc", "--out", "y"]].concat());
    assert!(!text.contains("ours"), "{text}");
    let listed = ok(dir.path(), &["list", "wcp"]);
    assert!(listed.contains("ours, after Rangwala 2008 §3.1"), "{listed}");
}

#[test]
fn fingerprints_are_kept_and_checked() {
    let dir = folder();
    let d = dir.path();
    fs::create_dir(d.join("scenarios")).unwrap();
    fs::rename(d.join("chain.toml"), d.join("scenarios/chain.toml")).unwrap();
    ok(d, &["fingerprints", "--check", "kept.json", "--update"]);
    let kept = json(&fs::read_to_string(d.join("kept.json")).unwrap());
    assert_eq!(
        kept.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["chain/fifo", "chain/source"]
    );
    ok(d, &["fingerprints", "--check", "kept.json"]);
    let old = kept["chain/fifo"].as_str().unwrap();
    let text = fs::read_to_string(d.join("kept.json")).unwrap().replace(old, "0000000000000000");
    fs::write(d.join("kept.json"), text).unwrap();
    let out = run(d, &["fingerprints", "--check", "kept.json"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains("chain/fifo"));
}

#[test]
fn validate_summarises_a_scenario() {
    let dir = folder();
    let text = ok(dir.path(), &["validate", "chain.toml"]);
    assert!(text.contains("chain.toml: correct. 4 nodes") && text.contains("3 2 1 0"), "{text}");
    let v = json(&ok(dir.path(), &["validate", "chain.toml", "--json"]));
    assert_eq!(v["flows"][2]["path"], serde_json::json!(["3", "2", "1", "0"]));
}

#[test]
fn lists_schema_help_and_version() {
    let dir = folder();
    assert!(ok(dir.path(), &["list"]).contains("source"));
    let listed = json(&ok(dir.path(), &["list", "--json"]));
    assert_eq!(listed["schema"], 1);
    let mut names = listed["controls"].as_array().unwrap().iter().map(|c| &c["name"]);
    assert!(names.any(|name| name == "fifo"));
    let one = ok(dir.path(), &["list", "gap"]);
    for expected in ["gap: ", "Mancuso 2010", "runs at: ", "+aggregate", "gamma", "use = \"gap\""] {
        assert!(one.contains(expected), "{expected} is not in\n{one}");
    }
    let one = &json(&ok(dir.path(), &["list", "pfrc", "--json"]))["controls"][0];
    let epoch = one["settings"].as_array().unwrap().iter().find(|s| s["name"] == "epoch").unwrap();
    assert_eq!((&epoch["default"], &epoch["min"]), (&Value::from(10.0), &Value::from(1.0)));
    assert_eq!((&epoch["unit"], &epoch["whole"]), (&Value::from("s"), &Value::from(false)));
    let ours = |name: &str| {
        let variants = one["variants"].as_array().unwrap();
        variants.iter().find(|v| v["name"] == name).unwrap()["ours"].clone()
    };
    assert_eq!((ours("bursts"), ours("exponential")), (Value::Bool(true), Value::Bool(false)));
    assert!(json(&ok(dir.path(), &["schema"]))["properties"]["radio"].is_object());
    assert!(ok(dir.path(), &["--version"]).starts_with("fairmesh "));
    for command in ["run", "compare", "sweep", "validate", "fingerprints", "list", "schema"] {
        assert!(ok(dir.path(), &[command, "--help"]).contains("Example"), "{command}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = folder();
    let mut child = fairmesh(dir.path())
        .args(["schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One byte is read, then the pipe closes long before the schema is complete.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(out.status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_half_written() {
    use std::time::{Duration, Instant};
    let dir = folder();
    let d = dir.path();
    let mut child = fairmesh(d)
        .args(["compare", "chain.toml", "--seeds", "50", "--duration", "2000 s", "--out", "x"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while names(d).len() < 2 && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(names(d).len(), 2, "the folder is claimed before the first run");
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(d), ["chain.toml"]);
}

#[test]
fn a_control_with_nowhere_to_run_is_noted() {
    let scenario = workspace().join("scenarios/stack.toml");
    let dir = folder();
    let file = scenario.to_str().unwrap();
    let args = ["compare", file, "--control", "fifo,pfrc", "--duration", "21 s", "--json"];
    let out = run(dir.path(), &[&args[..], &["--warmup", "20 s", "--seeds", "1"]].concat());
    assert!(out.status.success());
    let notes = String::from_utf8(out.stderr).unwrap();
    assert!(notes.contains("note: pfrc runs at no node here"), "{notes}");
    assert!(!notes.contains("note: fifo"), "{notes}");
}

#[test]
fn marks_that_no_flow_takes_are_noted() {
    let text = std::fs::read_to_string(workspace().join("scenarios/triantafyllidou-hidden.toml"));
    let text = text.unwrap();
    let dir = folder();
    let file = dir.path().join("hidden.toml");
    let notes = |ecn: &str, control: &str| {
        std::fs::write(&file, text.replace("ecn = true", ecn)).unwrap();
        let args = ["run", file.to_str().unwrap(), "--duration", "21 s", "--control", control];
        let out = run(dir.path(), &args);
        assert!(out.status.success());
        String::from_utf8(out.stderr).unwrap()
    };
    assert!(!notes("ecn = true", "lbm+multihop").contains("note"));
    let none = notes("ecn = false", "lbm+multihop");
    assert!(none.contains("note: lbm+multihop only marks packets"), "{none}");
    assert!(notes("ecn = \"ect1\"", "lbm+multihop").contains("only marks"));
    assert!(!notes("ecn = false", "nred+ecn").contains("note"));
}

#[test]
fn run_writes_netjson_with_the_measures_of_the_run() {
    let dir = folder();
    let args = ["run", "chain.toml", "--seed", "3", "--netjson", "chain.json", "--json"];
    let run_record = json(&ok(dir.path(), &args));
    let graph = json(&fs::read_to_string(dir.path().join("chain.json")).unwrap());
    assert_eq!(graph["properties"]["fingerprint"], run_record["fingerprint"]);
    let airtime = |v: &Value| v["airtime_tx"].as_f64().unwrap();
    let nodes = graph["nodes"].as_array().unwrap().iter();
    let found: Vec<f64> = nodes.map(|n| airtime(&n["properties"])).collect();
    let recorded = run_record["nodes"].as_array().unwrap().iter();
    assert_eq!(found, recorded.map(airtime).collect::<Vec<_>>());
    assert!(found.iter().all(|a| *a > 0.0));
    // The file is a map with the same flows.
    let map = ["run", "chain.json", "--flows", "up", "--duration", "2 s", "--json"];
    assert_eq!(json(&ok(dir.path(), &map))["flows"].as_array().unwrap().len(), 3);
    let out = run(dir.path(), &["run", "chain.toml", "--netjson", "none/chain.json"]);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && error.contains("none: is not there; expected an existing folder"),
        "{error}"
    );
}
