//! `optimum`, and `compare --optimum`.

mod common;

use common::{fairmesh, names, ok, run};
use serde_json::Value;

/// Two uploads of one hop, one of which has a low demand.
const PAIR: &str = r#"
duration = "20 s"
warmup = "5 s"
[radio]
rate = "1 Mbit/s"
profile = "graph"
[topology]
links = [[1, 0], [2, 0], [1, 2]]
[traffic]
transport = "udp"
[[flow]]
from = 1
to = 0
traffic = { kind = "cbr", rate = "100 kbit/s", packet = "1000 B" }
[[flow]]
from = 2
to = 0
traffic = { kind = "cbr", rate = "2 Mbit/s", packet = "1000 B" }
"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn found_kept_and_compared_with() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("pair.toml"), PAIR).unwrap();
    let search = |file: &str, more: &[&str]| {
        let args = [&["optimum", file, "--json"], more].concat();
        json(&ok(at, &args))
    };
    let found = search("pair.toml", &["--cache", "kept"]);
    assert_eq!((&found["schema"], &found["kept"]), (&1.into(), &false.into()));
    let rate = |v: &Value, i: usize| v["flows"][i]["optimum_bps"].as_f64().unwrap();
    assert!((rate(&found, 0) - 100e3).abs() < 3e3, "{found}");
    assert!(rate(&found, 1) > 500e3 && rate(&found, 1) < 850e3, "{found}");
    let stop = |i: usize| found["flows"][i]["stop"].as_str().unwrap();
    assert_eq!((stop(0), stop(1)), ("demand", "air"));
    for model in ["domains", "cliques"] {
        assert!(found["flows"][1]["models_bps"][model].as_f64().unwrap() > 500e3, "{model}");
    }
    assert_eq!(names(at), ["kept", "pair.toml"], "nothing else is written");

    // The same scenario in another file, on one thread, without stored optima.
    std::fs::write(at.join("other.toml"), PAIR).unwrap();
    let again = search("other.toml", &["--no-cache", "--threads", "1"]);
    assert_eq!((&again["search"], &again["kept"]), (&found["search"], &false.into()));
    let kept = search("other.toml", &["--cache", "kept"]);
    assert_eq!((&kept["search"], &kept["kept"]), (&found["search"], &true.into()));
    let table = ok(at, &["optimum", "pair.toml", "--cache", "kept"]);
    for words in ["kept from an earlier search", "optimum kbit/s", "demand", "cliques kbit/s"] {
        assert!(table.contains(words), "{words}: {table}");
    }

    // In the user's folder by default.
    let mut program = fairmesh(at);
    program.args(["optimum", "pair.toml", "--json"]).env("XDG_CACHE_HOME", at.join("cache"));
    std::fs::create_dir(at.join("cache")).unwrap();
    std::fs::rename(at.join("kept"), at.join("cache/fairmesh")).unwrap();
    let kept = json(&String::from_utf8(program.output().unwrap().stdout).unwrap());
    assert_eq!(kept["kept"], true);

    let compare = ["compare", "pair.toml", "--control", "fifo,source", "--seeds", "2", "--json"];
    let plain = json(&ok(at, &compare));
    assert!(plain["results"][0].get("min_over_optimum").is_none());
    assert!(plain["results"][0]["flows"][0].get("optimum_bps").is_none());
    let more = ["--optimum", "--cache", "cache/fairmesh", "--out", "result"];
    let both = json(&ok(at, &[&compare[..], &more].concat()));
    let fifo = &both["results"][0];
    for flow in 0..2 {
        assert_eq!(fifo["flows"][flow]["optimum_bps"], found["flows"][flow]["optimum_bps"]);
    }
    let goodput = |i: usize| fifo["flows"][i]["goodput_bps"]["mean"].as_f64().unwrap();
    let optimum = rate(&found, 0) + rate(&found, 1);
    let sum = fifo["sum_over_optimum"]["mean"].as_f64().unwrap();
    assert!((sum - (goodput(0) + goodput(1)) / optimum).abs() < 1e-9, "{fifo}");
    assert!(fifo["min_over_optimum"]["ci95"].is_f64());
    assert!(fifo["jain_optimum"]["mean"].as_f64().unwrap() <= 1.0);
    let report = std::fs::read_to_string(at.join("result/report.html")).unwrap();
    assert!(
        report.contains("smallest share of the optimum")
            && report.contains("\"reference\":\"optimum\"")
    );
    assert_eq!(fifo["fingerprints"], plain["results"][0]["fingerprints"], "runs are the same");
}

#[test]
fn bad_input_is_one_line() {
    let dir = common::folder();
    for (args, words) in [
        (&["optimum", "nowhere.toml"][..], "nowhere.toml: there is no such file"),
        (&["optimum", "chain.toml", "--gateway", "1"], "--gateway: chain.toml is not a map"),
        (&["optimum", "chain.toml", "--cache", "x", "--no-cache"], "--cache"),
    ] {
        let out = run(dir.path(), args);
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert!(line.contains(words) && line.trim_end().lines().count() == 1, "{line}");
    }
}
