//! Families of networks: the generated networks, and a study of a few of them.

use std::collections::BTreeSet;

use fairmesh_control::Registry;
use fairmesh_experiments::study::Settings;
use fairmesh_experiments::study::families::{self, Family, Times, network, networks};
use fairmesh_lab::Pool;
use fairmesh_lab::optimum::Settings as Search;
use fairmesh_lab::{OtherRevisions, Store};
use fairmesh_scenario::NodeKind;

const SHORT: Times = Times { duration_s: 40, warmup_s: 20 };

#[test]
fn every_network_builds_and_follows_from_its_number() {
    let all = networks(&Family::ALL, None, SHORT).unwrap();
    let random = all.iter().filter(|n| matches!(n.family, Family::Random | Family::Lossy));
    assert!(random.count() >= 50);
    let names: BTreeSet<&str> = all.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names.len(), all.len());
    let texts: BTreeSet<&str> = all.iter().map(|n| n.text.as_str()).collect();
    assert_eq!(texts.len(), all.len(), "no two are alike");
    for n in &all {
        let s = n.scenario().unwrap_or_else(|e| panic!("{}: {e}", n.name));
        assert!(s.warnings().is_empty(), "{}: {:?}", n.name, s.warnings());
        assert!(s.subscribers().list.len() >= 3, "{}", n.name);
        let nodes = s.nodes().iter().filter(|n| n.kind == NodeKind::Wireless).count();
        if matches!(n.family, Family::Random | Family::Lossy | Family::Floods) {
            assert!((12..=40).contains(&nodes), "{}: {nodes}", n.name);
        }
        let lossless = s.links().iter().all(|l| l.delivery.0 == 1.0);
        assert_eq!(lossless, !n.about.contains("lossy"), "{}", n.name);
        assert!(s.links().iter().all(|l| l.delivery.0 >= 0.85), "{}", n.name);
    }
    let again = network(Family::Lossy, 3, SHORT).unwrap();
    assert!(all.contains(&again));
}

#[test]
fn a_few_are_as_even_over_the_families_as_it_goes() {
    let few = networks(&Family::ALL, Some(9), SHORT).unwrap();
    let of = |f: Family| few.iter().filter(|n| n.family == f).count();
    assert_eq!(Family::ALL.map(of), [2, 2, 1, 1, 1, 1, 1]);
}

#[test]
fn a_study_has_each_homes_share_of_the_optimum() {
    let nets =
        vec![network(Family::Chains, 0, SHORT).unwrap(), network(Family::Grids, 0, SHORT).unwrap()];
    let settings = Settings {
        controls: ["fifo", "static-flow"].map(String::from).to_vec(),
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
    let folder = std::env::temp_dir().join(format!("fairmesh-families-{}", std::process::id()));
    let cache = Store::open(&folder, OtherRevisions::Refuse).unwrap();
    let study = families::run(&nets, &settings, Some(&cache), &Pool::default()).unwrap();
    assert_eq!((study.searched, study.runs, study.outcomes.len()), (2, 4, 4));
    let row = |family, control| study.row(&nets, family, control).unwrap();
    let [fifo, limited] = [0, 1].map(|c| row(None, c));
    assert_eq!((fifo.networks, limited.networks), (2, 2));
    // A distant home starves without control, and does not starve with limits at the model's rates.
    assert!(fifo.worst.mean.mean < 0.5 * limited.worst.mean.mean, "{fifo:?} {limited:?}");
    assert!(
        limited.jain.least.mean > fifo.jain.least.mean
            && limited.worst.least.mean <= limited.worst.mean.mean
    );
    assert!(study.row(&nets, Some(Family::Trees), 0).is_none());
    let csv = study.csv(&nets);
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.contains("chains-00,\"3 hops, 1 Mbit/s, up\""), "{csv}");
    // In a second study the optima are stored, and all results are equal.
    let again = families::run(&nets, &settings, Some(&cache), &Pool::default()).unwrap();
    assert_eq!((again.searched, again.fingerprint), (0, study.fingerprint));
    assert_eq!(again.csv(&nets), csv);
    std::fs::remove_dir_all(&folder).unwrap();
}
