//! Plans: reading, points, filters and adaptive numbers of seeds.

use std::fs;
use std::num::NonZero;
use std::path::Path;

use fairmesh_control::Registry;
use proptest::prelude::*;

use super::{Plan, Sweep};
use crate::store::{OtherRevisions, Store};
use crate::{LabError, Pool, Revision};

const PAIR: &str = "duration = \"200 ms\"\n[topology]\nchain = { hops = 1 }\ngateway = 0\n[traffic]\nflows = \"up\"\n";

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pair.toml"), PAIR).unwrap();
    dir
}

fn plan(folder: &Path, text: &str) -> Result<Plan, LabError> {
    let file = folder.join("plan.toml");
    fs::write(&file, text).unwrap();
    Plan::read(&file, &Registry::standard())
}

fn sweep(folder: &Path, text: &str) -> Sweep {
    Sweep::new(plan(folder, text).unwrap(), &Registry::standard()).unwrap()
}

fn store(folder: &Path, name: &str) -> Store {
    Store::open_at(&folder.join(name), Revision::named("1"), OtherRevisions::Refuse).unwrap()
}

/// Values and control of each case, in order.
fn cases(sweep: &Sweep) -> Vec<String> {
    let seeds = sweep.plan().seeds.count();
    (0..sweep.len() / seeds).map(|case| sweep.name(case)).collect()
}

#[test]
fn keys_are_crossed_zipped_and_filtered() {
    let dir = folder();
    let text = r#"
scenario = "pair.toml"
controls = ["fifo", "source"]
seeds = "3..=4"
[set]
duration = "300 ms"
[options]
room = 0.1
[vary]
radio.rts = [false, true]
"topology.chain.hops" = "1..=2"
[[zip]]
"radio.rate" = ["1 Mbit/s", "2 Mbit/s"]
"radio.retry" = [4, 7]
[[skip]]
"radio.rts" = true
"topology.chain.hops" = [2]
[[only]]
control = "fifo"
[[only]]
"radio.rate" = "2 Mbit/s"
"#;
    // The name of the second zipped key is checked below: it is not a key of scenarios.
    let e = plan(dir.path(), text).map(|p| Sweep::new(p, &Registry::standard()).err());
    let e = e.unwrap().unwrap().to_string();
    assert!(
        e.contains("with radio.rate=1 Mbit/s radio.retry=4") && e.contains("expected one of"),
        "{e}"
    );
    let text = text.replace("radio.retry", "radio.short_retry");
    let sweep = sweep(dir.path(), &text);
    assert_eq!(
        sweep.keys(),
        ["radio.rate", "radio.short_retry", "radio.rts", "topology.chain.hops"]
    );
    assert_eq!(
        cases(&sweep),
        [
            "1 Mbit/s 4 false 1 fifo",
            "1 Mbit/s 4 false 2 fifo",
            "1 Mbit/s 4 true 1 fifo",
            "2 Mbit/s 7 false 1 fifo",
            "2 Mbit/s 7 false 1 source",
            "2 Mbit/s 7 false 2 fifo",
            "2 Mbit/s 7 false 2 source",
            "2 Mbit/s 7 true 1 fifo",
            "2 Mbit/s 7 true 1 source",
        ]
    );
    assert_eq!((sweep.points(), sweep.len()), (6, 18));
    let job = sweep.job(17).unwrap();
    let run = job.resolve(&Registry::standard()).unwrap();
    assert_eq!((job.seed, run.scenario.duration().to_string()), (4, "300 ms".to_owned()));
    assert_eq!(run.scenario.control().value("room"), Some(0.1));
}

#[test]
fn files_maps_and_inline_scenarios_are_sources() {
    let dir = folder();
    let netjson = r#"{"type":"NetworkGraph","protocol":"olsr","version":"0.8","metric":"ETX",
        "nodes":[{"id":"a"},{"id":"b"},{"id":"c"}],
        "links":[{"source":"a","target":"b","cost":1.0},{"source":"b","target":"c","cost":1.5}]}"#;
    fs::write(dir.path().join("map.json"), netjson).unwrap();
    let text = r#"
seeds = 1
scenario = [
    "pair.toml",
    { file = "map.json", set = { gateways = "a", flows = "down", duration = "1 s" } },
    { name = "mesh", inline = { duration = "500 ms", topology = { random = { nodes = 5, width = "300 m" }, gateway = 0 }, traffic = { flows = "up" } } },
]
[vary]
duration = ["400 ms", "600 ms"]
"#;
    let sweep = sweep(dir.path(), text);
    assert_eq!(sweep.keys(), ["scenario", "duration"]);
    assert_eq!(
        cases(&sweep),
        [
            "pair 400 ms fifo",
            "pair 600 ms fifo",
            "map 400 ms fifo",
            "map 600 ms fifo",
            "mesh 400 ms fifo",
            "mesh 600 ms fifo"
        ]
    );
    let run = |i: usize| sweep.job(i).unwrap().resolve(&Registry::standard()).unwrap().scenario;
    assert_eq!((run(2).duration().to_string(), run(2).flows().len()), ("400 ms".into(), 2));
    assert_eq!((run(5).duration().to_string(), run(5).nodes().len()), ("600 ms".into(), 5));
    for (set, parts) in [
        ("duration = 5", "scenario[1].set.duration: found 5; expected a time"),
        ("flows = \"left\"", "set.flows: found \"left\"; expected one of up"),
        ("radio.rate = \"2 m\"", "set.radio.rate"),
        ("colour = 1", "unknown key; expected one of duration, warmup, gateways"),
    ] {
        let changed = text.replace("gateways = \"a\", flows = \"down\", duration = \"1 s\"", set);
        let e = plan(dir.path(), &changed).unwrap_err().to_string();
        assert!(e.contains("plan.toml:5") && e.contains(parts), "{e}");
    }
    // Serialised as for another program.
    let sent: Plan = serde_json::from_str(&serde_json::to_string(sweep.plan()).unwrap()).unwrap();
    assert_eq!(&sent, sweep.plan());
}

#[test]
fn mistakes_are_one_line_with_file_line_key_and_expectation() {
    let dir = folder();
    let base = "scenario = \"pair.toml\"\n";
    for (more, parts) in [
        (
            "sede = 1\n",
            "plan.toml:2: sede: unknown key; expected one of scenario, controls, seeds, set",
        ),
        ("seeds = \"5..5\"\n", "plan.toml:2: seeds: found \"5..5\"; expected a number of seeds"),
        ("seeds = 0\n", "plan.toml:2: seeds: found \"0\"; expected"),
        (
            "controls = [\"fifo\", \"fair\"]\n",
            "plan.toml:2: controls[1]: found \"fair\"; expected one of fifo, ",
        ),
        (
            "[vary]\nradio.rts = []\n",
            "plan.toml:3: vary.radio.rts: found []; expected a list of values, or a range",
        ),
        ("[vary]\nradio.rts = true\n", "plan.toml:3: vary.radio.rts: found true; expected a list"),
        (
            "[vary]\nradio.rts = [true, true]\n",
            "plan.toml:3: vary.radio.rts: a value is given twice; expected each",
        ),
        (
            "[vary]\n\"topology.chain.hops\" = \"3..=1\"\n",
            "plan.toml:3: vary.topology.chain.hops: found",
        ),
        (
            "[[zip]]\na = [1, 2]\nb = [1]\n",
            "plan.toml:4: zip[0].b: found 1 values; expected 2, as a has",
        ),
        (
            "[[zip]]\na = [1]\n[vary]\na = [1]\n",
            "plan.toml:5: vary.a: a varies twice; expected each key once",
        ),
        (
            "[[skip]]\n\"radio.rts\" = true\n",
            "plan.toml:3: skip[0].radio.rts: unknown key; expected one of control, scenario",
        ),
        (
            "[until]\nmeasure = \"fairness\"\nhalf_width = 1\n",
            "plan.toml:3: until.measure: found \"fairness\"; expected one of jain, ",
        ),
        (
            "[until]\nmeasure = \"jain\"\nhalf_width = 0\n",
            "plan.toml:4: until.half_width: found 0; expected a number above 0",
        ),
        (
            "[until]\nmeasure = \"jain\"\nhalf_width = \"5\"\n",
            "plan.toml:4: until.half_width: found \"5\"; expected",
        ),
        (
            "[until]\nmeasure = \"jain\"\nhalf_width = 1\nleast = 1\n",
            "plan.toml:5: until.least: 1 is out of range; expected 2 or more",
        ),
        ("[until]\nmeasure = \"jain\"\n", "plan.toml:2: until: `half_width` is missing"),
    ] {
        let e = plan(dir.path(), &format!("{base}{more}")).unwrap_err().to_string();
        assert!(e.contains(parts) && !e.contains('\n'), "{e}\n  expected {parts}");
    }
    for (text, parts) in [
        ("seeds = 1\n", "`scenario` is missing"),
        ("scenario = []\n", "plan.toml:1: scenario: found no scenario; expected one or more"),
        ("scenario = 3\n", "plan.toml:1: scenario: found integer `3`; expected a scenario file"),
        ("scenario = \"none.toml\"\n", "plan.toml:1: scenario: "),
        (
            "scenario = { fil = \"pair.toml\" }\n",
            "plan.toml:1: scenario.fil: unknown key; expected one of name, file",
        ),
        (
            "scenario = { name = \"x\" }\n",
            "plan.toml:1: scenario: no scenario is given, or several; expected either",
        ),
        (
            "scenario = [\"pair.toml\", \"pair.toml\"]\n",
            "plan.toml:1: scenario[1]: two scenarios have the name \"pair\"; expected",
        ),
        (
            "scenario = \"pair.toml\"\n[[skip]]\ncontrol = \"fifo\"\n",
            "the filters leave no point; expected at least one",
        ),
        ("scenario = \"pair.toml\"\n[vary]\nradio.colour = [1]\n", "expected one of"),
    ] {
        let e = plan(dir.path(), text).and_then(|p| Sweep::new(p, &Registry::standard()));
        let e = e.unwrap_err().to_string();
        assert!(e.contains(parts) && !e.contains('\n'), "{e}\n  expected {parts}");
    }
}

#[test]
fn the_schema_describes_every_key() {
    let schema = super::json_schema();
    let keys: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 10, "{keys:?}");
    for key in
        ["scenario", "controls", "seeds", "set", "options", "vary", "zip", "only", "skip", "until"]
    {
        assert!(schema["properties"][key]["description"].is_string(), "{key}");
    }
}

/// Seeds of each case by the rule, from the values alone.
fn by_hand(values: &[Vec<f64>], width: f64, least: usize) -> Vec<usize> {
    let enough = |v: &Vec<f64>| {
        let mut n = least.min(v.len());
        while n < v.len() && crate::Estimate::of(&v[..n]).ci95.is_none_or(|ci| ci > width) {
            n = (n + n.div_ceil(2)).min(v.len());
        }
        n
    };
    values.iter().map(enough).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// The counted runs depend neither on the number of threads nor on the content of the store.
    #[test]
    fn the_number_of_seeds_depends_on_results_alone(
        threads in 1..4_usize,
        least in 2..5_usize,
        width in 1e3..6e4_f64,
        before in 1..12_u64,
    ) {
        let dir = folder();
        let text = format!(
            "scenario = \"pair.toml\"\nseeds = 12\n[set]\n\"radio.errors.frame\" = 0.2\n[vary]\n\"radio.rate\" = [\"1 Mbit/s\", \"11 Mbit/s\"]\n\
             [until]\nmeasure = \"sum_goodput_bps\"\nhalf_width = {width}\nleast = {least}\n"
        );
        let adaptive = sweep(dir.path(), &text);
        let fixed = text.split("[until]").next().unwrap();
        let all = sweep(dir.path(), fixed);
        let whole = store(dir.path(), "whole");
        all.fill(&whole, &Pool::default()).unwrap();
        let mut values = Vec::new();
        all.each(&whole, |cells| {
            values.push(cells.iter().map(|c| c.goodput_bps.iter().sum()).collect());
            Ok(())
        }).unwrap();
        let parts = store(dir.path(), "parts");
        let some = sweep(dir.path(), &fixed.replace("seeds = 12", &format!("seeds = {before}")));
        some.fill(&parts, &Pool::default()).unwrap();
        let pool = Pool { threads: NonZero::new(threads), ..Pool::default() };
        adaptive.fill(&parts, &pool).unwrap();
        let mut counted = Vec::new();
        adaptive.each(&parts, |cells| {
            counted.push(cells.len());
            Ok(())
        }).unwrap();
        prop_assert_eq!(&counted, &by_hand(&values, width, least));
        let most = |n: &usize| (*n).max(before as usize);
        prop_assert_eq!(parts.len(), counted.iter().map(most).sum::<usize>());
    }
}
