//! The scenario files of this repository satisfy the schema.

mod common;

use std::path::{Path, PathBuf};

use common::{paths, read};
use fairmesh_capacity::domain::{Contention, Domains, Link};
use fairmesh_capacity::maxmin::{Demand, max_min};
use fairmesh_scenario::{ImportOptions, Scenario, parse};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .map(|p| {
            let name = p.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(p).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn shipped(name: &str) -> Scenario {
    let (_, text) = files().into_iter().find(|f| f.0 == name).unwrap();
    read(&text)
}

#[test]
fn every_file_builds_and_has_a_description() {
    let files = files();
    assert!(files.len() >= 20, "{}", files.len());
    for (name, text) in files {
        let s = parse(&format!("{name}.toml"), text.as_bytes(), &ImportOptions::default());
        let s = s.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(s.name(), name);
        assert!(text.starts_with("# "), "{name} has no comment on its purpose");
        assert!(
            !s.description().is_empty() && s.warnings().is_empty(),
            "{name}: {:?}",
            s.warnings()
        );
    }
}

#[test]
fn rangwala_flows_take_the_papers_paths() {
    let side_by_side = [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]];
    let joined = ["diamond-joined", "half-diamond-joined"];
    for name in ["stack", "diamond", "half-diamond"].into_iter().chain(joined) {
        let s = shipped(name);
        assert_eq!(paths(&s), side_by_side, "{name}");
        assert_eq!(s.mac().rts_threshold, Some(0));
    }
    assert_eq!(paths(&shipped("chain-cross"))[0], [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn weights_of_jamshaid_fig_8_2() {
    let s = shipped("jamshaid-fig-8.2");
    let with = |w: f64| {
        let ids = s.flows().iter().filter(|f| f.weight == w).map(|f| f.from.0);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(with(1.0), [4, 9, 14, 23, 24, 31]);
    assert_eq!(with(2.0), [2, 7, 12, 21, 28, 35]);
    assert_eq!(with(3.0), [5, 10, 15, 20, 25, 30]);
}

/// Returns max-min rates by collision domains with a range of one hop, in units of `r` bit/s.
///
/// Links have their nominal rates: the model of the examples of Jamshaid 2010 §7.2.
fn ideal(s: &Scenario, r: f64) -> Vec<f64> {
    let links: Vec<Link> =
        s.links().iter().filter(|l| l.from < l.to).map(|l| Link::new(l.from, l.to)).collect();
    let pairs: Vec<_> = s.links().iter().map(|l| (l.from, l.to)).collect();
    let contention = Contention::from_pairs(s.nodes().len(), &pairs).unwrap();
    let domains = Domains::collision(&contention, &links).unwrap();
    let cost = |w: &[fairmesh_units::NodeId]| {
        let at = links.iter().position(|&l| l == Link::new(w[0], w[1])).unwrap();
        let rate = s.link(w[0], w[1]).unwrap().rate.unwrap_or(s.mac().rate);
        (at as u32, r / s.mac().phy.bit_rate(rate).0 as f64)
    };
    let usage: Vec<_> = s
        .flows()
        .iter()
        .map(|f| domains.usage(&f.path.windows(2).map(cost).collect::<Vec<_>>()))
        .collect();
    let demands = vec![Demand::default(); s.flows().len()];
    max_min(&demands, &usage, domains.len()).unwrap().rates
}

fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-9, "{got:?}, not {want:?}");
    }
}

#[test]
fn bottlenecks_of_jamshaid_figs_7_3_and_7_6a() {
    close(&ideal(&shipped("jamshaid-fig-7.3"), 1e6), &[1. / 5., 1. / 10., 1. / 10.]);
    let s = shipped("jamshaid-fig-7.6a");
    assert_eq!(s.nodes().len(), 16);
    let twelfth = 1. / 12.;
    let want = [1. / 3., 1. / 6., 1. / 6., twelfth, twelfth, twelfth, twelfth];
    close(&ideal(&s, 1e6), &want);
}
