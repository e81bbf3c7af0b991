//! Conflict graphs and their maximal cliques.

use fairmesh_capacity::bounds::Reuse;
use fairmesh_capacity::clique::{Budget, TooManyCliques};
use fairmesh_capacity::convex::Region;
use fairmesh_capacity::domain::{Contention, Domains, Link};
use fairmesh_capacity::graph::{ConflictGraph, Exclusion, Hop};
use fairmesh_capacity::maxmin::{Demand, max_min};
use fairmesh_units::NodeId;
use proptest::prelude::*;

const RULES: [Exclusion; 3] = [Exclusion::Scheduled, Exclusion::Basic, Exclusion::RtsCts];

fn n(i: u32) -> NodeId {
    NodeId(i)
}

fn hop(from: u32, to: u32) -> Hop {
    Hop { from: n(from), to: n(to) }
}

/// A row of nodes, each in range of the next.
fn row(nodes: u32) -> Contention {
    let pairs: Vec<_> = (1..nodes).map(|i| (n(i - 1), n(i))).collect();
    Contention::from_pairs(nodes as usize, &pairs).unwrap()
}

fn sets(domains: &Domains) -> Vec<Vec<u32>> {
    (0..domains.len()).map(|d| domains.links(d).to_vec()).collect()
}

fn cliques(graph: &ConflictGraph) -> Vec<Vec<u32>> {
    sets(&graph.cliques(Budget::default()).unwrap())
}

/// Tries every set of vertices.
fn by_brute_force(graph: &ConflictGraph) -> Vec<Vec<u32>> {
    let all = 0..graph.len() as u32;
    let fits = |set: u32, v: u32| all.clone().all(|u| set >> u & 1 == 0 || graph.conflict(u, v));
    let is_clique = |set: u32| all.clone().all(|v| set >> v & 1 == 0 || fits(set & !(1 << v), v));
    let is_maximal = |set: u32| all.clone().all(|v| set >> v & 1 == 1 || !fits(set, v));
    let mut found: Vec<Vec<u32>> = (1u32..1 << graph.len())
        .filter(|&set| is_clique(set) && is_maximal(set))
        .map(|set| all.clone().filter(|v| set >> v & 1 == 1).collect())
        .collect();
    found.sort();
    found
}

fn graphs() -> impl Strategy<Value = ConflictGraph> {
    (1usize..12).prop_flat_map(|vertices| {
        let end = 0..vertices as u32;
        let edges = prop::collection::vec((end.clone(), end), 0..vertices * vertices);
        edges.prop_map(move |edges| ConflictGraph::from_edges(vertices, &edges))
    })
}

proptest! {
    #[test]
    fn all_maximal_cliques_and_no_others(graph in graphs()) {
        prop_assert_eq!(cliques(&graph), by_brute_force(&graph));
    }

    /// Rates that fill a clique also fill the domain of each of its members.
    #[test]
    fn a_clique_is_part_of_its_members_domains(graph in graphs()) {
        let domains = graph.neighbourhoods();
        for clique in cliques(&graph) {
            for &v in &clique {
                let domain = domains.links(v as usize);
                prop_assert!(clique.iter().all(|u| domain.contains(u)));
            }
        }
    }

    /// The graph of links has the domains of the links, and a stricter rule excludes more.
    #[test]
    fn rules_are_nested(
        pairs in prop::collection::vec((0u32..8, 0u32..8), 1..20),
        ends in prop::collection::vec((0u32..8, 0u32..8), 1..12),
    ) {
        let pairs: Vec<_> = pairs.into_iter().map(|(a, b)| (n(a), n(b))).collect();
        let contention = Contention::from_pairs(8, &pairs).unwrap();
        let hops: Vec<Hop> =
            ends.into_iter().filter(|(a, b)| a != b).map(|(a, b)| hop(a, b)).collect();
        let links: Vec<Link> = hops.iter().map(|h| Link::new(h.from, h.to)).collect();
        let undirected = ConflictGraph::of_links(&contention, &links).unwrap();
        prop_assert_eq!(
            undirected.neighbourhoods(),
            Domains::collision(&contention, &links).unwrap()
        );
        let graphs = RULES.map(|rule| ConflictGraph::of_hops(&contention, &hops, rule).unwrap());
        prop_assert_eq!(&graphs[2], &undirected);
        for (lenient, strict) in [(0, 1), (1, 2)] {
            for (a, b) in graphs[lenient].edges() {
                prop_assert!(graphs[strict].conflict(a, b));
            }
        }
    }
}

#[test]
fn exclusion_depends_on_range_between_ends() {
    // Two links with one hop between them: 0-1 and 2-3.
    let contention = row(4);
    let excluded = |one, other| RULES.map(|rule| rule.excludes(&contention, one, other));
    // A sender next to a receiver.
    assert_eq!(excluded(hop(0, 1), hop(2, 3)), [true; 3]);
    assert_eq!(excluded(hop(1, 0), hop(3, 2)), [true; 3]);
    // Senders side by side: exposed terminals.
    assert_eq!(excluded(hop(1, 0), hop(2, 3)), [false, true, true]);
    // Receivers side by side.
    assert_eq!(excluded(hop(0, 1), hop(3, 2)), [false, false, true]);
    // With one more node between them, no rule excludes.
    let far = row(5);
    assert!(RULES.iter().all(|rule| !rule.excludes(&far, hop(0, 1), hop(3, 4))));
    // Transmissions that share a node exclude each other under every rule.
    for (one, other) in [((0, 1), (1, 2)), ((0, 1), (1, 0)), ((1, 0), (1, 2)), ((0, 1), (2, 1))] {
        let (one, other) = (hop(one.0, one.1), hop(other.0, other.1));
        assert_eq!(excluded(one, other), [true; 3], "{one:?} {other:?}");
    }
}

#[test]
fn cliques_of_a_chain_are_three_links_in_a_row() {
    let links: Vec<Link> = (0..7).map(|i| Link::new(n(i), n(i + 1))).collect();
    let graph = ConflictGraph::of_links(&row(8), &links).unwrap();
    let expected: Vec<Vec<u32>> = (0..5).map(|i| vec![i, i + 1, i + 2]).collect();
    assert_eq!(cliques(&graph), expected);
    assert_eq!(graph.neighbourhoods().links(3), [1, 2, 3, 4, 5]);
    assert_eq!(graph.edges().count(), 6 + 5);
    // A link without neighbours is a clique of its own; an empty graph has none.
    assert_eq!(cliques(&ConflictGraph::from_edges(2, &[])), [[0], [1]]);
    assert!(cliques(&ConflictGraph::from_edges(0, &[])).is_empty());
}

/// Jamshaid 2010 §7.5.2.
///
/// A long chain with perfect scheduling carries W/2 when half of the traffic flows each way and W/3 in one
/// direction; with the exchange of 802.11 W/3 either way.
#[test]
fn a_long_chain_attains_the_bounds() {
    let nodes = 10;
    let contention = row(nodes);
    let up: Vec<Hop> = (1..nodes).rev().map(|i| hop(i, i - 1)).collect();
    let down: Vec<Hop> = (1..nodes).map(|i| hop(i - 1, i)).collect();
    let aggregate = |flows: &[&[Hop]], rule| {
        let hops: Vec<Hop> = flows.concat();
        let graph = ConflictGraph::of_hops(&contention, &hops, rule).unwrap();
        let cliques = graph.cliques(Budget::default()).unwrap();
        let mut next = 0;
        let usage: Vec<_> = flows
            .iter()
            .map(|flow| {
                let first = next;
                next += flow.len() as u32;
                cliques.usage(&(first..next).map(|i| (i, 1.0)).collect::<Vec<_>>())
            })
            .collect();
        let demands = vec![Demand::default(); flows.len()];
        let fair = max_min(&demands, &usage, cliques.len()).unwrap();
        fair.rates.iter().sum::<f64>()
    };
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{value}");
    near(aggregate(&[&up, &down], Exclusion::Scheduled), Reuse::ScheduledBothWays.fraction());
    near(aggregate(&[&up], Exclusion::Scheduled), Reuse::ScheduledOneWay.fraction());
    near(aggregate(&[&up, &down], Exclusion::RtsCts), Reuse::Dcf.fraction());
    near(aggregate(&[&up], Exclusion::RtsCts), Reuse::Dcf.fraction());
    // In between: receivers may be neighbours.
    near(aggregate(&[&up, &down], Exclusion::Basic), 2.0 / 5.0);
    near(aggregate(&[&down], Exclusion::Basic), 1.0 / 3.0);
}

/// A limit of the clique model: in a ring of five no more than two can be active together.
#[test]
fn a_ring_of_five_is_overestimated() {
    let edges: Vec<(u32, u32)> = (0..5).map(|i| (i, (i + 1) % 5)).collect();
    let graph = ConflictGraph::from_edges(5, &edges);
    let share = |domains: &Domains| {
        let usage: Vec<_> = (0..5).map(|i| domains.usage(&[(i, 1.0)])).collect();
        max_min(&[Demand::default(); 5], &usage, domains.len()).unwrap().rates[0]
    };
    assert!((share(&graph.cliques(Budget::default()).unwrap()) - 1.0 / 2.0).abs() < 1e-12);
    assert!((share(&graph.neighbourhoods()) - 1.0 / 3.0).abs() < 1e-12);
}

/// All pairs except those within groups of three: 3^(n/3) maximal cliques.
///
/// Moon and Moser 1965.
fn moon_moser_graph(vertices: u32) -> ConflictGraph {
    let pairs = (0..vertices).flat_map(|a| (0..a).map(move |b| (a, b)));
    let edges: Vec<_> = pairs.filter(|(a, b)| a / 3 != b / 3).collect();
    ConflictGraph::from_edges(vertices as usize, &edges)
}

#[test]
fn hopeless_graphs_are_refused() {
    assert_eq!(cliques(&moon_moser_graph(15)).len(), 243);
    let few = Budget { cliques: 243, ..Budget::default() };
    assert!(moon_moser_graph(15).cliques(few).is_ok());
    // 3^20 of them.
    let budget = Budget::default();
    let refused = moon_moser_graph(60).cliques(budget).unwrap_err();
    assert_eq!(refused, TooManyCliques { vertices: 60, found: budget.cliques, budget });
    let text = refused.to_string();
    assert!(text.contains("50000") && text.contains("collision-domain"), "{text}");
    // Stopped by the limit on work.
    let budget = Budget { cliques: usize::MAX, work: 100_000 };
    let refused = moon_moser_graph(60).cliques(budget).unwrap_err();
    assert!(refused.found > 100 && refused.found < 100_000, "{refused:?}");
    // Refused before the search.
    let budget = Budget { cliques: usize::MAX, work: 1000 };
    assert_eq!(moon_moser_graph(60).cliques(budget).unwrap_err().found, 0);
}

#[test]
fn one_large_cell_is_one_clique() {
    let vertices = 1500u32;
    let edges: Vec<_> = (0..vertices).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
    let graph = ConflictGraph::from_edges(vertices as usize, &edges);
    let cell = graph.cliques(Budget::default()).unwrap();
    assert_eq!(cell.len(), 1);
    assert_eq!(cell.links(0).len(), vertices as usize);
}

/// Domains follow from the same conflicts, so cliques allow all that domains allow.
#[derive(Clone, Debug)]
struct Mesh {
    graph: ConflictGraph,
    costs: Vec<Vec<(u32, f64)>>,
    demands: Vec<Demand>,
}

fn meshes() -> impl Strategy<Value = Mesh> {
    graphs().prop_flat_map(|graph| {
        let link = 0..graph.len() as u32;
        let costs = prop::collection::vec((link, 0.2f64..2.0), 1..5);
        let demand = (0.5f64..3.0, prop_oneof![Just(f64::INFINITY), 0.05f64..1.0])
            .prop_map(|(weight, limit)| Demand { weight, limit });
        prop::collection::vec((costs, demand), 1..6).prop_map(move |flows| {
            let (costs, demands) = flows.into_iter().unzip();
            Mesh { graph: graph.clone(), costs, demands }
        })
    })
}

proptest! {
    #[test]
    fn domains_never_allow_more_than_cliques(mesh in meshes()) {
        let Mesh { graph, costs, demands } = mesh;
        let models = [graph.neighbourhoods(), graph.cliques(Budget::default()).unwrap()];
        let usage = models.clone().map(|m| costs.iter().map(|c| m.usage(c)).collect::<Vec<_>>());
        let regions = [0, 1].map(|m| Region {
            demands: &demands,
            minimum: &[],
            usage: &usage[m],
            domains: models[m].len(),
        });
        let fair = [0, 1].map(|m| max_min(&demands, &usage[m], models[m].len()).unwrap().rates);
        let proportional = regions.map(|r| r.proportional().unwrap().rates);
        let ones = vec![1.0; demands.len()];
        let most = regions.map(|r| r.maximise(&ones).unwrap().rates);
        for rates in [&fair[0], &proportional[0], &most[0]] {
            let mut load = vec![0.0; models[1].len()];
            for (rate, shares) in rates.iter().zip(&usage[1]) {
                shares.iter().for_each(|&(d, share)| load[d as usize] += rate * share);
            }
            prop_assert!(load.iter().all(|&l| l <= 1.0 + 1e-9), "{:?}", load);
        }
        let worst = |rates: &[f64]| {
            let level = |(rate, d): (&f64, &Demand)| rate / d.weight;
            rates.iter().zip(&demands).map(level).fold(f64::INFINITY, f64::min)
        };
        prop_assert!(worst(&fair[0]) <= worst(&fair[1]) * (1.0 + 1e-9));
        let logarithms = |rates: &[f64]| {
            rates.iter().zip(&demands).map(|(r, d)| d.weight * r.ln()).sum::<f64>()
        };
        prop_assert!(logarithms(&proportional[0]) <= logarithms(&proportional[1]) + 1e-9);
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        prop_assert!(sum(&most[0]) <= sum(&most[1]) * (1.0 + 1e-6));
    }
}
