//! The code of docs/lab.md is the code of this file, and it runs.

use std::fs;
use std::path::Path;

use fairmesh_lab::control::Registry;
use fairmesh_lab::{Batch, Changes, Comparison, LabError, Pool, record, source};

fn starving_flows(map: &Path) -> Result<Comparison, LabError> {
    let changes = Changes { gateways: vec!["10.1.0.1".into()], ..Changes::default() };
    let registry = Registry::standard();
    let map = source::load(map, &changes, &registry)?;
    let batch = Batch::new(&map.scenario, &["fifo", "source", "pfrc"], &registry, 1..=10)?;
    let comparison = Comparison::of(&batch.run(&Pool::default())?);
    for control in &comparison.results {
        for flow in control.starved() {
            let part = flow.over_fair.map_or(0.0, |part| 100.0 * part);
            println!("{}: {} has {part:.1} %", control.control, flow.label());
        }
    }
    Ok(comparison)
}

fn again(folder: &Path) -> Result<Comparison, LabError> {
    let runs = record::read_results(folder)?;
    Ok(Comparison::of(&runs))
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn ten_lines_run_three_controls_with_ten_seeds() {
    let comparison = starving_flows(&root().join("crates/scenario/tests/fixtures/olsr.netjson"));
    let comparison = comparison.unwrap();
    let names: Vec<&str> = comparison.results.iter().map(|r| r.control.as_str()).collect();
    assert_eq!(names, ["fifo", "source", "pfrc"]);
    for r in &comparison.results {
        assert_eq!(r.fingerprints.len(), 10);
        assert!(r.sum_goodput_bps.mean > 0.0 && r.sum_goodput_bps.ci95.is_some());
    }
}

#[test]
fn a_damaged_earlier_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let e = again(folder.path()).unwrap_err().to_string();
    assert!(e.contains("results.json: cannot be read") && e.contains("expected a record"), "{e}");
}

/// Every block of Rust in the guide is in this file, line by line.
#[test]
fn the_guide_shows_this_file() {
    let guide = fs::read_to_string(root().join("docs/lab.md")).unwrap();
    let lines = |text: &str| text.lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>();
    let here = lines(include_str!("guide.rs"));
    let mut seen = 0;
    for block in guide.split("```rust\n").skip(1) {
        let block = lines(block.split("```").next().unwrap_or_default());
        let block: Vec<String> = block.into_iter().filter(|l| !l.is_empty()).collect();
        assert!(here.windows(block.len()).any(|w| w == block), "not in guide.rs: {block:#?}");
        seen += 1;
    }
    assert_eq!(seen, 3);
}
