//! The bounds of Jamshaid 2010 §7.5.2 under the models that they belong to.

mod common;

use fairmesh_capacity::bounds::{Reuse, floor};
use fairmesh_capacity::clique::Budget;
use fairmesh_capacity::domain::{Contention, Domains, Link};
use fairmesh_capacity::graph::ConflictGraph;
use fairmesh_capacity::maxmin::{Demand, max_min};
use fairmesh_units::NodeId;

fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-12, "{value} against {expected}");
}

/// A chain of `links` links with nodes in range up to `reach` hops.
fn chain(links: u32, reach: u32) -> ConflictGraph {
    let pairs: Vec<_> = (0..=links)
        .flat_map(|a| (a + 1..=links.min(a + reach)).map(move |b| (NodeId(a), NodeId(b))))
        .collect();
    let contention = Contention::from_pairs(links as usize + 1, &pairs).unwrap();
    let links: Vec<_> = (0..links).map(|i| Link::new(NodeId(i), NodeId(i + 1))).collect();
    ConflictGraph::of_links(&contention, &links).unwrap()
}

fn sum(usage: &[Vec<(u32, f64)>], domains: &Domains) -> f64 {
    let fair = max_min(&vec![Demand::default(); usage.len()], usage, domains.len()).unwrap();
    fair.rates.iter().sum()
}

/// W/3 by cliques and W/5 by domains with a range of one hop; W/4 and W/7 with two hops.
///
/// A flow shorter than its domain has more.
#[test]
fn a_lone_flow_over_a_long_chain_attains_the_lower_bound() {
    for reach in [1, 2, 3] {
        let long = 4 * reach + 6;
        for links in 1..=long {
            let graph = chain(links, reach);
            let path: Vec<_> = (0..links).map(|l| (l, 1.0)).collect();
            for (domains, reuse) in [
                (graph.neighbourhoods(), Reuse::Domains(reach)),
                (graph.cliques(Budget::default()).unwrap(), Reuse::Cliques(reach)),
            ] {
                let usage = [domains.usage(&path)];
                let rate = sum(&usage, &domains);
                near(rate, floor(&usage));
                assert!(rate >= reuse.fraction() * (1.0 - 1e-12));
                if links == long {
                    near(rate, reuse.fraction());
                }
            }
        }
    }
    assert_eq!(Reuse::Cliques(1).fraction(), Reuse::Dcf.fraction());
}

/// Fair rates sum to at least W/5, and by cliques to at least W/3.
///
/// In a mesh with shortest paths and links of one rate, no domain holds more than five links of a path.
#[test]
fn no_mesh_is_below_it() {
    for (nodes, range, flows) in [(60, 0.25, 30), (150, 0.15, 40)] {
        let mesh = common::mesh(nodes, range, flows);
        let contention = Contention::new(&mesh.in_range).unwrap();
        let hops = |p: &Vec<NodeId>| p.windows(2).map(|h| Link::new(h[0], h[1])).collect();
        let paths: Vec<Vec<Link>> = mesh.paths.iter().map(hops).collect();
        let mut links = paths.concat();
        links.sort_unstable();
        links.dedup();
        let graph = ConflictGraph::of_links(&contention, &links).unwrap();
        let index = |l: &Link| (links.binary_search(l).unwrap() as u32, 1.0);
        for (domains, reuse) in [
            (graph.neighbourhoods(), Reuse::Domains(1)),
            (graph.cliques(Budget::default()).unwrap(), Reuse::Cliques(1)),
        ] {
            let usage: Vec<_> = paths
                .iter()
                .map(|p| domains.usage(&p.iter().map(index).collect::<Vec<_>>()))
                .collect();
            let least = floor(&usage);
            assert!(least >= reuse.fraction() * (1.0 - 1e-12), "{least} for {reuse:?}");
            assert!(sum(&usage, &domains) >= least * (1.0 - 1e-12));
        }
    }
    assert_eq!(floor(&[]), f64::INFINITY);
}
