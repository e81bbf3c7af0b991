//! `fairmesh-experiments reproduce` from the command line, and a subset of the reproductions.

#[path = "../../cli/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{fairmesh, folder, names, ok, run, shards, workspace};
use serde_json::Value;

fn json(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn reproductions() -> String {
    workspace().join("reproductions").to_string_lossy().into_owned()
}

fn quick(ids: &[&str]) -> Vec<Value> {
    let dir = folder();
    let from = reproductions();
    json(&ok(dir.path(), &[&["reproduce"], ids, &["--from", &from, "--json"]].concat()))
}

/// Returns the stored record of an experiment.
fn kept(id: &str) -> Value {
    let path = PathBuf::from(reproductions()).join(format!("records/{id}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A quick run of a few experiments does not contradict their records on any machine.
///
/// No number that agrees there differs here, and no statement that holds there fails here.
#[test]
fn a_quick_run_contradicts_no_record() {
    let ids = [
        "figure-3.2",
        "jamshaid-figure-3.4",
        "figure-6.5",
        "figure-7.6",
        "figure-8.5",
        "table-6.4",
    ];
    let records = quick(&ids);
    assert_eq!(records.len(), ids.len());
    for r in &records {
        let id = r["id"].as_str().unwrap();
        let full = kept(id);
        let list = |r: &Value, name: &str| r[name].as_array().unwrap().clone();
        for row in list(r, "rows") {
            let of_row = |k: &Value| k["label"] == row["label"];
            let Some(known) = list(&full, "rows").into_iter().find(of_row) else { continue };
            for (cell, known) in list(&row, "cells").iter().zip(list(&known, "cells")) {
                let both = (cell["verdict"].as_str(), known["verdict"].as_str());
                assert_ne!(both, (Some("differs"), Some("agrees")), "{id}: {row}");
            }
        }
        let known = list(&full, "claims");
        for (claim, known) in list(r, "claims").iter().zip(&known) {
            assert_eq!(claim["asked"], known["asked"], "{id}");
            let both = (claim["outcome"].as_str(), known["outcome"].as_str());
            assert_ne!(both, (Some("fails"), Some("holds")), "{id}: {claim}");
        }
    }
}

/// The order of the schemes of Tables 6.2 and 6.3 by normalised Jain index.
#[test]
fn the_schemes_are_in_the_order_of_the_thesis() {
    for r in quick(&["table-6.2", "table-6.3"]) {
        let order = &r["orders"][0];
        assert!(order["pairs"].as_u64().unwrap() > 5, "{order}");
        assert_eq!(order["wrong"], Value::Array(vec![]), "{}", r["id"]);
    }
}

#[test]
fn the_table_of_a_quick_run() {
    let dir = folder();
    let args = ["reproduce", "table-6.4", "--from", &reproductions(), "--out", "out"];
    let text = ok(dir.path(), &args);
    let table: Vec<&str> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(table.join("\n"));
    let out = dir.path().join("out/jamshaid-table-6.4");
    assert_eq!(names(&out), ["report.html", "results.json", "table.csv"]);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for part in
        ["Static per-flow limits", "fairmesh-experiments reproduce jamshaid-table-6.4", "agrees"]
    {
        assert!(page.contains(part), "{part}");
    }
    let csv = fs::read_to_string(out.join("table.csv")).unwrap();
    assert!(csv.lines().nth(1).unwrap().starts_with("\"up, 1→0\",\"rate / fair\",1.0000"), "{csv}");
}

#[test]
fn pictures_are_drawn_and_embedded() {
    let dir = folder();
    let args = [
        "reproduce",
        "jamshaid-fig-3.6",
        "fig-8.6",
        "jamshaid-figure-3.4",
        "--seeds",
        "1",
        "--from",
        &reproductions(),
    ];
    ok(dir.path(), &args);
    let out = |id: &str| dir.path().join("results/reproduce").join(id);
    for (id, pictures) in
        [("jamshaid-figure-3.6", 4), ("jamshaid-figure-8.6", 1), ("jamshaid-figure-3.4", 1)]
    {
        let files = names(&out(id));
        let drawn: Vec<_> = files.iter().filter(|f| f.ends_with(".svg")).collect();
        assert_eq!(drawn.len(), pictures, "{id}: {files:?}");
        for f in drawn {
            let svg = fs::read_to_string(out(id).join(f)).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{f}");
        }
        let page = fs::read_to_string(out(id).join("report.html")).unwrap();
        assert_eq!(page.matches("data:image/svg+xml").count(), pictures);
        assert!(!page.contains("src=\"http") && !page.contains("{{"));
    }
}

#[test]
fn numbers_do_not_depend_on_threads_or_company() {
    let dir = folder();
    let from = reproductions();
    let once = |more: &[&str]| {
        let args = ["reproduce", "figure-8.6", "--json", "--no-cache", "--from", &from];
        let args = [&args, more].concat();
        json(&ok(dir.path(), &args)).remove(0)
    };
    let alone = once(&["--threads", "1", "--seeds", "3"]);
    assert_eq!(alone, once(&["--threads", "3", "--seeds", "3"]));
    assert_eq!(alone, once(&["jamshaid-figure-3.4", "--seeds", "3"]));
    assert_ne!(alone["fingerprint"], once(&["--seeds", "4"])["fingerprint"]);
}

/// An experiment that is killed continues from its stored runs, with the same numbers.
#[test]
fn a_killed_experiment_continues() {
    let dir = folder();
    let from = reproductions();
    let kept = dir.path().join("cache/unfinished");
    // Complete lines of all shards, without their headers.
    let runs = || -> usize {
        // The last run removes the store.
        let lines = |p: &PathBuf| fs::read_to_string(p).unwrap_or_default().matches('\n').count();
        shards(&kept).iter().map(|p| lines(p).saturating_sub(1)).sum()
    };
    let of = |cache: &'static str, seeds: &str| {
        let args = ["reproduce", "figure-6.5", "--json", "--threads", "1", "--cache", cache];
        let more = ["--from", &from, "--seeds", seeds];
        args.iter().chain(&more).map(|a| (*a).to_owned()).collect::<Vec<_>>()
    };
    let all = |cache, seeds: &str| {
        let args = of(cache, seeds);
        json(&ok(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    // One run is complete, the others are not. On a busy machine all may be complete before the
    // check; then the test uses more.
    let seeds = (2u32..)
        .find_map(|doublings| {
            let seeds = (1 << doublings).to_string();
            let mut first = fairmesh(dir.path());
            let mut first = first.args(of("cache", &seeds)).stdout(Stdio::null()).spawn().unwrap();
            while runs() == 0 && first.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            first.kill().unwrap();
            first.wait().unwrap();
            (runs() > 0).then_some(seeds)
        })
        .unwrap();
    // A stored run that this program does not repeat is rejected.
    let shard = shards(&kept).remove(0);
    let text = fs::read_to_string(&shard).unwrap();
    let old = text.split("\"fingerprint\":\"").nth(1).unwrap().split('"').next().unwrap();
    fs::write(&shard, text.replacen(old, "0123456789abcdef", 1)).unwrap();
    let args = of("cache", &seeds);
    let out = fairmesh(dir.path()).args(args).output().unwrap();
    let line = String::from_utf8(out.stderr).unwrap();
    assert!(line.contains(".jsonl:2: crc32: found "), "{line}");
    fs::write(&shard, text).unwrap();

    assert_eq!(all("cache", &seeds), all("other", &seeds));
    assert_eq!(shards(&kept), Vec::<PathBuf>::new());
}

/// The command that a stored record names reproduces the record exactly.
#[test]
fn a_kept_record_comes_out_again() {
    let dir = folder();
    let from = reproductions();
    let path = PathBuf::from(&from).join("records/jamshaid-figure-8.6.json");
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    // The version of the program that made the record may be older than the results' revision.
    kept["generator"] = format!("fairmesh {}", env!("CARGO_PKG_VERSION")).into();
    let command = kept["command"].as_str().unwrap().to_owned();
    let mut args: Vec<&str> = command.split(' ').skip(1).collect();
    args.extend(["--json", "--from", &from]);
    assert_eq!(json(&ok(dir.path(), &args)).remove(0), kept);
}

/// The pages are built from the records: overview, a page and details per paper, comparisons.
///
/// They are equal from the folder and from the embedded experiments, and their links lead to pages
/// and pictures.
#[test]
fn the_pages_match_the_records() {
    let dir = folder();
    let from = reproductions();
    let all = |name: &str, args: &[&str]| {
        let file = dir.path().join(name).join("reproductions.md").to_string_lossy().into_owned();
        ok(dir.path(), &[&["reproduce", "page", "--out", &file], args].concat());
        texts(&dir.path().join(name))
    };
    let made = all("pages", &["--from", &from]);
    assert_eq!(made, all("embedded", &[]));
    let (mut links, mut pictures) = (0, 0);
    for (name, text) in made.iter().filter(|(name, _)| name.ends_with(".md")) {
        assert!(text.starts_with("<!-- Made by "), "{name}");
        for target in text.split("](").skip(1).filter_map(|t| t.split([')', '#']).next()) {
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = normal(&Path::new(name).parent().unwrap().join(target));
            // Pages of both kinds are in one folder of the site.
            let written = workspace().join("docs").join(&path);
            assert!(made.contains_key(&path) || written.is_file(), "{name}: {target}");
            links += usize::from(!target.ends_with(".svg"));
            pictures += usize::from(target.ends_with(".svg"));
        }
    }
    assert!(links > 10 && pictures > 10, "{links} links, {pictures} pictures");
    for name in ["controls/side-by-side.md", "today.md", "reproductions/details/others.md"] {
        assert!(made.contains_key(name), "{name}");
    }
}

/// Texts of the files below a folder, by path.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// Path without `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part.as_os_str().to_string_lossy() {
            up if up == ".." => drop(parts.pop()),
            part => parts.push(part.into_owned()),
        }
    }
    parts.join("/")
}

#[test]
fn experiments_are_part_of_the_program() {
    let dir = folder();
    let listed =
        |args: &[&str]| json(&ok(dir.path(), &[&["reproduce", "list", "--json"], args].concat()));
    let built_in = listed(&[]);
    assert_eq!(built_in, listed(&["--from", &reproductions()]));
    assert!(built_in.len() >= 29, "{}", built_in.len());
    let text = ok(dir.path(), &["reproduce", "list", "--from", &reproductions()]);
    assert!(text.contains("absent: Jamshaid 2010, Figure 6.10: "), "{text}");
    let out = run(dir.path(), &["reproduce", "jamshaid-figure-3.4", "--record"]);
    assert_eq!(out.status.code(), Some(2), "there is no folder to keep it in");
}

#[test]
fn records_are_kept_beside_the_experiments() {
    let dir = folder();
    let mine = dir.path().join("reproductions/mine");
    fs::create_dir_all(&mine).unwrap();
    fs::copy(dir.path().join("chain.toml"), mine.join("chain.toml")).unwrap();
    fs::write(mine.join("experiment.toml"), EXPERIMENT).unwrap();
    let text = ok(dir.path(), &["reproduce", "mine", "--record"]);
    assert!(text.contains("not run: nobody: unknown control \"telepathy\""), "{text}");
    let kept = fs::read_to_string(dir.path().join("reproductions/records/mine.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        (&kept["id"], &kept["seeds"], &kept["runs"]),
        (&"mine".into(), &2.into(), &2.into())
    );
    ok(dir.path(), &["reproduce", "page", "--out", "page.md"]);
    let page = fs::read_to_string(dir.path().join("page/details/others.md")).unwrap();
    assert!(
        page.contains("`fairmesh-experiments reproduce mine`: 2 seeds, 2 simulations"),
        "{page}"
    );
    // Judged again with a changed declaration; nothing runs.
    let changed = EXPERIMENT.replace("\"nobody\"", "\"somebody\"");
    fs::write(mine.join("experiment.toml"), changed).unwrap();
    let text = ok(dir.path(), &["reproduce", "judge"]);
    assert!(text.contains("mine: 1 rows not run"), "{text}");
    assert_eq!(ok(dir.path(), &["reproduce", "judge"]), "");
}

/// An arm that is declared later runs alone and gives the record of a whole run.
///
/// The fingerprint is equal too.
#[test]
fn an_added_arm_gives_the_record_of_a_whole_run() {
    let dir = folder();
    let mine = dir.path().join("reproductions/mine");
    fs::create_dir_all(&mine).unwrap();
    fs::copy(dir.path().join("chain.toml"), mine.join("chain.toml")).unwrap();
    let one = EXPERIMENT.replace("telepathy", "fq");
    let (head, tail) = one.split_at(one.find("[[measure]]").unwrap());
    let two = format!("{head}[[arm]]\nlabel = \"late\"\ncontrol = \"source\"\n\n{tail}");
    let path = dir.path().join("reproductions/records/mine.json");
    let kept = || serde_json::from_str::<Value>(&fs::read_to_string(&path).unwrap()).unwrap();
    fs::write(mine.join("experiment.toml"), &one).unwrap();
    ok(dir.path(), &["reproduce", "mine", "--record"]);
    let text = ok(dir.path(), &["reproduce", "mine", "--missing", "--record"]);
    assert!(text.contains("mine: no arm is missing"), "{text}");
    fs::write(mine.join("experiment.toml"), &two).unwrap();
    ok(dir.path(), &["reproduce", "mine", "--missing", "--record"]);
    let added = kept();
    assert_eq!(added["rows"].as_array().unwrap().len(), 3);
    ok(dir.path(), &["reproduce", "mine", "--record"]);
    assert_eq!(kept(), added);
    // An arm before the others cannot continue their fingerprint.
    let early =
        one.replacen("[[arm]]", "[[arm]]\nlabel = \"early\"\ncontrol = \"source\"\n\n[[arm]]", 1);
    fs::write(mine.join("experiment.toml"), early).unwrap();
    let out = run(dir.path(), &["reproduce", "mine", "--missing", "--record"]);
    let line = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{line}");
    assert!(line.contains("expected missing arms at the end"), "{line}");
}

const EXPERIMENT: &str = r#"
title = "Mine"
paper = "nobody 2026"
place = "nowhere"
unquoted = "nobody wrote it"
about = "Three uploads."
scenario = "chain.toml"
quick = { seeds = 2 }
full = { seeds = 3 }
layout = { rows = ["arm"], columns = ["flow"] }

[[arm]]
label = "fifo"
control = "fifo"

[[arm]]
label = "nobody"
control = "telepathy"

[[measure]]
of = "goodput"
"#;

#[test]
fn mistakes_are_one_line() {
    let dir = folder();
    let mine = dir.path().join("reproductions/mine");
    fs::create_dir_all(&mine).unwrap();
    fs::copy(dir.path().join("chain.toml"), mine.join("chain.toml")).unwrap();
    let check = |experiment: &str, args: &[&str], wanted: &[&str]| {
        fs::write(mine.join("experiment.toml"), experiment).unwrap();
        let out = run(dir.path(), args);
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{line}");
        for w in wanted {
            assert!(line.contains(w), "{line}: {w}");
        }
        assert!(!dir.path().join("results").exists(), "nothing is left");
    };
    let mine = ["reproduce", "mine"];
    check(EXPERIMENT, &["reproduce", "yours"], &["yours", "no such experiment"]);
    check(EXPERIMENT, &["reproduce", "mine", "--seeds", "0"], &["--seeds"]);
    check("title = 3\n", &mine, &["experiment.toml", "line 1"]);
    let without = |part: &str, with: &str| EXPERIMENT.replace(part, with);
    check(
        &without("of = \"goodput\"", "of = \"goodness\""),
        &mine,
        &["experiment.toml", "line 21", "goodness"],
    );
    check(&without("chain.toml", "chin.toml"), &mine, &["chin.toml", "no such file"]);
    check(&without("seeds = 2", "seeds = 0"), &mine, &["seeds", "at least 1"]);
    check(
        &without(
            "control = \"fifo\"",
            "control = \"fifo\"\nset = { \"radio.rate\" = \"3 Mbit/s\" }",
        ),
        &mine,
        &["at fifo", "radio.rate"],
    );
    check(
        &without("control = \"fifo\"", "control = \"source\"\nset = { \"control.speed\" = 3 }"),
        &mine,
        &["speed"],
    );
    check(&without("[\"flow\"]", "[\"flow\", \"phase\", \"colour\"]"), &mine, &["colour"]);
    let study = EXPERIMENT.split("[[arm]]").next().unwrap().replace(
        "scenario = \"chain.toml\"",
        "study = \"gateway-families\"\nset = { duration = 4, warmup = 1, families = [\"hills\"] }",
    );
    check(&study, &mine, &["mine", "set.families", "hills", "expected some of random, lossy"]);
    check(&without("unquoted = \"nobody wrote it\"\n", ""), &mine, &["experiment.toml", "quote"]);
    let claim = "quote = \"about 40 Kb/s\"\n[[claim]]\nsays = \"s\"\nsource = \"§1\"\nquote = \"about 40 Kb/s\"\n\
                 cell = [\"a\", \"b\"]\nabout = 41\n";
    let claimed = without("unquoted = \"nobody wrote it\"\n", "");
    let (head, rest) = claimed.split_at(claimed.find("scenario").unwrap());
    let (quote, claim) = claim.split_once('\n').unwrap();
    let claimed = format!("{head}{quote}\n{rest}{claim}");
    check(&claimed, &mine, &["experiment.toml", "claim \"s\"", "found 41", "its quote prints"]);
}

/// A short version of both comparisons; runs are equal to those of the records.
#[test]
fn comparisons_in_brief() {
    let dir = folder();
    let from = reproductions();
    let args =
        ["reproduce", "side-by-side", "--from", &from, "--json", "--control", "fifo,pfrc+relaxed"];
    let record = &json(&ok(dir.path(), &args))[0];
    let labels: Vec<&str> =
        record["rows"].as_array().unwrap().iter().map(|r| r["label"].as_str().unwrap()).collect();
    let expected = ["fifo, With a gateway", "fifo, Without a gateway", "fifo, Stack"];
    assert!(expected.iter().all(|l| labels.contains(l)), "{labels:?}");
    let missing = record["missing"].to_string();
    assert!(missing.contains("pfrc+relaxed, Stack"), "{missing}");

    let args =
        ["reproduce", "today", "--from", &from, "--control", "arc-fq+relearn", "--out", "out"];
    let text = ok(dir.path(), &args);
    assert!(
        text.contains("ac, arc-fq+relearn, all")
            && !text.contains("ac, arc-fq+relearn, slow station"),
        "{text}"
    );
    let page = fs::read_to_string(dir.path().join("out/today/today.md")).unwrap();
    assert!(page.contains("| ac, arc-fq+relearn |") && !page.contains("{{"), "{page}");
}

#[test]
fn some_controls_are_recorded_again() {
    let dir = folder();
    let mine = dir.path().join("reproductions/mine");
    fs::create_dir_all(&mine).unwrap();
    let declaration = r#"
title = "Mine"
paper = "fairmesh"
place = "here"
unquoted = "ours"
about = "Two controls."
scenario = "chain.toml"
quick = { seeds = 1 }
full = { seeds = 1 }
layout = { rows = ["arm", "place"], columns = ["measure"] }
arm = [{ label = "none", control = "fifo" }, { label = "source", control = "source" }]
topology = [{ label = "short", family = "chains", set = { duration = "2 s" } }, { label = "long", family = "chains" }]
measure = [{ label = "JFI", of = "jain" }]
"#;
    fs::write(mine.join("experiment.toml"), declaration).unwrap();
    fs::copy(dir.path().join("chain.toml"), mine.join("chain.toml")).unwrap();
    ok(dir.path(), &["reproduce", "mine", "--record"]);
    let kept = || -> Value {
        let path = dir.path().join("reproductions/records/mine.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let before = kept();
    assert_eq!((before["runs"].as_u64(), before["rows"].as_array().unwrap().len()), (Some(4), 6));
    ok(dir.path(), &["reproduce", "mine", "--record", "--control", "source"]);
    assert_eq!(kept(), before);
    let refused = |args: &[&str], wanted: &str| {
        let out = run(dir.path(), &[&["reproduce", "mine"], args].concat());
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && text.lines().count() == 1, "{text}");
        assert!(text.contains(wanted), "{text}");
    };
    refused(&["--record", "--control", "source", "--seeds", "2"], "other seeds");
    refused(&["--control", "telepathy"], "telepathy");
    refused(&["--map", "x.json"], "x.json");
}
