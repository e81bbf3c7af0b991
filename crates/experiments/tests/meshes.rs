//! Random meshes: the generated networks, and a study of one of them.

use std::collections::BTreeSet;

use fairmesh_control::Registry;
use fairmesh_experiments::study::Settings;
use fairmesh_experiments::study::families::Times;
use fairmesh_experiments::study::meshes::{self, FIRST_TUNING_MESH, Kind, REPORTED_MESHES, mesh};
use fairmesh_lab::Pool;
use fairmesh_lab::optimum::Settings as Search;

const SHORT: Times = Times { duration_s: 30, warmup_s: 10 };

#[test]
fn every_mesh_builds_and_follows_from_its_number() {
    let reported = meshes::meshes(0, 6 * REPORTED_MESHES, SHORT).unwrap();
    let tuning = meshes::meshes(FIRST_TUNING_MESH, 6, SHORT).unwrap();
    assert!(reported.len() >= 50);
    let mut texts = BTreeSet::new();
    for m in reported.iter().chain(&tuning) {
        let s = m.scenario().unwrap_or_else(|e| panic!("{}: {e}", m.name));
        assert!(s.warnings().is_empty(), "{}: {:?}", m.name, s.warnings());
        assert!((6..=20).contains(&s.flows().len()), "{}: {}", m.name, s.flows().len());
        assert!((16..=30).contains(&s.nodes().len()), "{}", m.name);
        let rates: BTreeSet<_> = s.links().iter().map(|l| l.rate).collect();
        assert_eq!(rates.len() > 1, m.kind == Kind::Mixed, "{}", m.name);
        // Without the name, which contains the number.
        let body = m.text.split("[radio]").nth(1).unwrap().to_owned();
        assert!(texts.insert(body), "{} is there twice", m.name);
    }
    assert_eq!(mesh(Kind::Mixed, 3, SHORT).unwrap(), reported[3 * REPORTED_MESHES as usize + 3]);
    let four = meshes::meshes(0, 7, SHORT).unwrap();
    assert_eq!(Kind::ALL.map(|k| four.iter().filter(|m| m.kind == k).count()), [2, 1, 1, 1, 1, 1]);
}

#[test]
fn a_study_has_each_flows_share_of_the_optimum_and_its_cost() {
    let nets = vec![mesh(Kind::Eleven, FIRST_TUNING_MESH, SHORT).unwrap()];
    let settings = Settings {
        controls: ["fifo", "cna", "mesh-maxmin"].map(String::from).to_vec(),
        registry: Registry::standard(),
        seeds: 1,
        search: Search {
            search: vec![1001, 1002],
            check: vec![2001],
            times_s: (4.0, 8.0),
            most_events: 3_000_000,
            ..Search::default()
        },
    };
    let study = meshes::run(&nets, &settings, None, &Pool::default()).unwrap();
    assert_eq!((study.searched, study.runs), (1, 3));
    let [fifo, cna, ours] = [0, 1, 2].map(|c| study.row(&nets, None, c).unwrap());
    assert!(fifo.signalling.mean == 0.0 && cna.signalling.mean > 0.0, "{fifo:?} {cna:?}");
    assert!(
        ours.worst.least.mean > fifo.worst.least.mean && ours.worst.mean == ours.worst.least,
        "{fifo:?} {ours:?}"
    );
    assert!(ours.delay_s.mean > 0.0 && ours.delay_s.mean < 1.0, "{ours:?}");
    assert!(study.row(&nets, Some(Kind::Wide), 0).is_none());
    let csv = study.csv(&nets);
    assert_eq!(csv.lines().count(), 4, "{csv}");
}
