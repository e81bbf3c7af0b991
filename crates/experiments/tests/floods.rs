//! The study of floods on two small networks.

use fairmesh_control::Registry;
use fairmesh_experiments::study;
use fairmesh_experiments::study::families::Family;
use fairmesh_experiments::study::floods::{Flood, Settings, named_network, run};
use fairmesh_lab::Pool;
use fairmesh_lab::optimum::Settings as Search;

#[test]
fn names_of_networks_and_floods_are_read() {
    assert_eq!(named_network("chains-02"), Some((Family::Chains, 2)));
    for none in ["chains", "chains-8", "hills-1", "chains-x"] {
        assert_eq!(named_network(none), None, "{none}");
    }
    let read = ["tcp", "400", "10x", "0", "x", "-5", "4.5"].map(Flood::parse);
    let flood = [Some(Flood::Tcp), Some(Flood::Rate(400)), Some(Flood::Times(10))];
    assert_eq!(read[..3], flood);
    assert_eq!(read[3..], [None; 4]);
}

#[test]
fn an_agent_limits_a_flood_at_its_source() {
    let search = Search {
        search: vec![1001, 1002],
        check: vec![2001],
        times_s: (8.0, 16.0),
        most_events: 4_000_000,
        ..Search::default()
    };
    let controls = ["rtt", "rtt+agents"].map(String::from).to_vec();
    let settings = Settings {
        runs: study::Settings { controls, registry: Registry::standard(), seeds: 1, search },
        networks: vec![(Family::Chains, 0), (Family::Grids, 0)],
        floods: vec![Flood::Tcp, Flood::Rate(400), Flood::Times(10)],
        // Earlier the search may not have found its level, and then continues more slowly:
        // docs/controls/floods.md.
        start: 300,
        end: 440,
    };
    let study = run(&settings, None, &Pool::default()).unwrap();
    assert_eq!((study.runs, study.outcomes.len()), (12, 12));
    let row = |flood, control| study.row(flood, control, 1).unwrap();
    let spared = row(0, 1);
    assert_eq!((spared.networks, spared.wrong, spared.starved), (2, 0, 0));
    assert_eq!((row(0, 0).named.0, spared.named.0), (0.0, 0.0), "a TCP is none");
    for flood in [1, 2] {
        let (gateway, agent) = (row(flood, 0), row(flood, 1));
        assert_eq!((gateway.named.0, agent.named.0), (1.0, 1.0), "{gateway:?} {agent:?}");
        // The longest time in docs/controls/floods.md.
        assert!(agent.named.1 <= 48.0, "{agent:?}");
        assert_eq!((gateway.wrong, agent.wrong), (0, 0));
        // Either a home behind it starves, or no home does.
        assert!(gateway.worst.mean.mean < 0.2 && gateway.starved > 0, "{gateway:?}");
        assert_eq!(agent.starved, 0);
        assert!(agent.sum.mean.mean > 0.9 * spared.sum.mean.mean, "{agent:?} {spared:?}");
    }
    let csv = study.csv(&settings.floods);
    assert_eq!(csv.lines().count(), 13);
    assert!(csv.contains("grids-00,10 times its share,rtt+agents,"), "{csv}");
}
