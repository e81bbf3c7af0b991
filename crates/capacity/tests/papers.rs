//! Worked examples of Jamshaid 2010 §2.1 and §7.2, and allocations on the ns-3 anchor's mesh.

use fairmesh_capacity::clique::Budget;
use fairmesh_capacity::convex::Region;
use fairmesh_capacity::domain::{Contention, Domains, Link};
use fairmesh_capacity::fair::{FairError, FlowSpec, LinkSpec, fair_allocation};
use fairmesh_capacity::graph::ConflictGraph;
use fairmesh_capacity::link::{Access, LinkModel, Traffic, saturated_goodput};
use fairmesh_capacity::maxmin::{Allocation, Demand, Limit, MaxMinError, max_min};
use fairmesh_phy::{Phy, Preamble, Rate};
use fairmesh_units::NodeId;

fn n(i: u32) -> NodeId {
    NodeId(i)
}

fn near(value: &[f64], expected: &[f64]) {
    assert_eq!(value.len(), expected.len());
    for (v, e) in value.iter().zip(expected) {
        assert!((v - e).abs() < 1e-9, "{value:?} against {expected:?}");
    }
}

/// A chain of links with these capacities (in units of R).
///
/// Flow i crosses the links of `flows[i]`.
fn chain(capacities: &[f64], flows: &[&[u32]], domains: &Domains) -> Allocation {
    let usage: Vec<_> = flows
        .iter()
        .map(|f| {
            let costs: Vec<_> = f.iter().map(|&l| (l, 1.0 / capacities[l as usize])).collect();
            domains.usage(&costs)
        })
        .collect();
    max_min(&vec![Demand::default(); flows.len()], &usage, domains.len()).unwrap()
}

fn wireless_graph(links: u32) -> ConflictGraph {
    let pairs: Vec<_> = (0..links).map(|i| (n(i), n(i + 1))).collect();
    let contention = Contention::from_pairs(links as usize + 1, &pairs).unwrap();
    let links: Vec<_> = pairs.iter().map(|&(a, b)| Link::new(a, b)).collect();
    ConflictGraph::of_links(&contention, &links).unwrap()
}

fn wireless(links: u32) -> Domains {
    wireless_graph(links).neighbourhoods()
}

fn cliques(graph: &ConflictGraph) -> Domains {
    graph.cliques(Budget::default()).unwrap()
}

/// Fig 2.3: wired nodes 1, 2 and 3 in a row, a flow over each link and one over both.
///
/// Wires do not exclude each other, so both models have one unit of time per link.
#[test]
fn fig_2_3_three_notions_of_fairness() {
    let wires = ConflictGraph::from_edges(2, &[]);
    assert_eq!(cliques(&wires), wires.neighbourhoods());
    let domains = cliques(&wires);
    let flows: [&[u32]; 3] = [&[0], &[1], &[0, 1]];
    near(&chain(&[1.0; 2], &flows, &domains).rates, &[0.5; 3]);

    let crossing = |f: &&[u32]| domains.usage(&f.iter().map(|&l| (l, 1.0)).collect::<Vec<_>>());
    let usage: Vec<_> = flows.iter().map(crossing).collect();
    let demands = [Demand::default(); 3];
    let region = Region { demands: &demands, minimum: &[], usage: &usage, domains: 2 };
    let fair = region.proportional().unwrap();
    near(&fair.rates, &[2.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(fair.limits, [Limit::Domain(0), Limit::Domain(1), Limit::Domain(0)]);
    // §2.1.3: the sum is largest when the long flow gets zero.
    let most = region.maximise(&[1.0; 3]).unwrap();
    for (rate, expected) in most.rates.iter().zip([1.0, 1.0, 0.0]) {
        assert!((rate - expected).abs() < 1e-7, "{:?}", most.rates);
    }
    // Effective utilisation: 1/2 + 1/2 + 2/2, and 2/3 + 2/3 + 2/3, are both the maximum.
    let hops = [1.0, 1.0, 2.0];
    let widest = region.maximise(&hops).unwrap();
    let worth = |rates: &[f64]| rates.iter().zip(hops).map(|(r, h)| r * h).sum::<f64>();
    near(&[worth(&[0.5; 3]), worth(&fair.rates)], &[2.0; 2]);
    assert!((worth(&widest.rates) - 2.0).abs() < 1e-7);
}

/// Fig 7.1: D, 1, 2, 3 wired in a row with 2R between D and 1, R beyond.
#[test]
fn fig_7_1_wired() {
    let a = chain(&[2.0, 1.0, 1.0], &[&[0], &[0, 1], &[0, 1, 2]], &Domains::isolated(3));
    near(&a.rates, &[1.0, 0.5, 0.5]);
    assert_eq!(a.limits, [Limit::Domain(0), Limit::Domain(1), Limit::Domain(1)]);
    near(&a.load, &[1.0, 1.0, 0.5]);
    assert_eq!(cliques(&ConflictGraph::from_edges(3, &[])), Domains::isolated(3));
}

/// Fig 7.2: 1-GW-2-3-4-5-6 with links a to f; f1 crosses a, f2 crosses f to b.
///
/// All links have 2R except one, which has R.
#[test]
fn fig_7_2_position_of_the_slow_link() {
    let (c, d) = (2, 3);
    let with_slow = |slow: usize| {
        let mut capacities = [2.0; 6];
        capacities[slow] = 1.0;
        chain(&capacities, &[&[0], &[5, 4, 3, 2, 1]], &wireless(6))
    };
    let f = with_slow(5);
    near(&f.rates, &[2.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(f.limits, [Limit::Domain(c), Limit::Domain(d)]);
    for slow in 1..5 {
        let other = with_slow(slow);
        near(&other.rates, &[1.0 / 3.0, 1.0 / 3.0]);
        near(&other.load[c..=d], &[1.0, 1.0]);
    }
    let a = with_slow(0);
    near(&a.rates, &[1.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(a.limits, [Limit::Domain(c), Limit::Domain(c)]);
    assert!(a.load[d] < 0.99, "d is no bottleneck when a is slow");
}

/// Fig. 7.2 by cliques, for which the thesis gives no values.
///
/// Three consecutive links share the air, so a slow link limits f1 only within reach of link a.
#[test]
fn fig_7_2_by_cliques() {
    let domains = cliques(&wireless_graph(6));
    for slow in 0..6 {
        let mut capacities = [2.0; 6];
        capacities[slow] = 1.0;
        let a = chain(&capacities, &[&[0], &[5, 4, 3, 2, 1]], &domains);
        near(&a.rates, if slow <= 2 { &[0.5, 0.5] } else { &[1.0, 0.5] });
    }
}

/// Fig 7.3: 1-GW-2-3-4-5-6-7, flows from 1, 6 and 7 to GW, uniform links.
#[test]
fn fig_7_3_distributed_bottlenecks() {
    let a = chain(&[1.0; 7], &[&[0], &[5, 4, 3, 2, 1], &[6, 5, 4, 3, 2, 1]], &wireless(7));
    near(&a.rates, &[0.2, 0.1, 0.1]);
    let (c, d) = (2, 3);
    assert_eq!(a.limits, [Limit::Domain(c), Limit::Domain(d), Limit::Domain(d)]);
    // By cliques of three links: 3 (f2 + f3) ≤ R and f1 + 2 (f2 + f3) ≤ R.
    let flows: [&[u32]; 3] = [&[0], &[5, 4, 3, 2, 1], &[6, 5, 4, 3, 2, 1]];
    let a = chain(&[1.0; 7], &flows, &cliques(&wireless_graph(7)));
    near(&a.rates, &[1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]);
}

#[test]
fn chains_with_one_upload_per_node() {
    // Two hops: 2 + 1 crossings of one shared medium. Three hops: 3 + 2 + 1.
    near(&chain(&[1.0; 2], &[&[0], &[1, 0]], &wireless(2)).rates, &[1.0 / 3.0; 2]);
    let three = chain(&[1.0; 3], &[&[0], &[1, 0], &[2, 1, 0]], &wireless(3));
    near(&three.rates, &[1.0 / 6.0; 3]);
}

#[test]
fn weights_and_demands() {
    let one = Domains::isolated(1);
    let usage = vec![one.usage(&[(0, 1.0)]); 3];
    let demand = |weight, limit| Demand { weight, limit };
    let inf = f64::INFINITY;
    let d = [demand(1.0, inf), demand(2.0, inf), demand(3.0, inf)];
    near(&max_min(&d, &usage, 1).unwrap().rates, &[1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0]);
    // The third takes only 0.1; the others share the rest 1 : 2.
    let d = [demand(1.0, inf), demand(2.0, inf), demand(3.0, 0.1)];
    let a = max_min(&d, &usage, 1).unwrap();
    near(&a.rates, &[0.3, 0.6, 0.1]);
    assert_eq!(a.limits, [Limit::Domain(0), Limit::Domain(0), Limit::Demand]);
    // All demands fit.
    let a = max_min(&[demand(1.0, 0.2); 3], &usage, 1).unwrap();
    near(&a.rates, &[0.2; 3]);
    assert_eq!(a.limits, [Limit::Demand; 3]);
    // A flow without demand gets zero and uses no air.
    let d = [demand(1.0, 0.0), demand(1.0, inf), demand(1.0, inf)];
    near(&max_min(&d, &usage, 1).unwrap().rates, &[0.0, 0.5, 0.5]);
}

#[test]
fn max_min_refusals() {
    let d = Demand::default();
    let run = |d: Demand, usage: Vec<(u32, f64)>| max_min(&[d], &[usage], 1).unwrap_err();
    assert_eq!(run(d, vec![]), MaxMinError::Unbounded(0));
    assert_eq!(run(d, vec![(0, 0.0)]), MaxMinError::Unbounded(0));
    assert_eq!(run(d, vec![(0, f64::NAN)]), MaxMinError::BadCost(0));
    assert_eq!(run(d, vec![(1, 1.0)]), MaxMinError::BadCost(0));
    assert_eq!(run(Demand { weight: 0.0, ..d }, vec![(0, 1.0)]), MaxMinError::BadDemand(0));
    assert_eq!(run(Demand { limit: -1.0, ..d }, vec![(0, 1.0)]), MaxMinError::BadDemand(0));
    assert_eq!(max_min(&[d], &[], 1), Err(MaxMinError::LengthMismatch));
    let bounded = Demand { limit: 5.0, ..d };
    assert_eq!(max_min(&[bounded], &[vec![]], 0).unwrap().rates, [5.0]);
}

/// A network of nodes in a row, 802.11b at one rate.
struct Row {
    phy: Phy,
    in_range: Vec<Vec<NodeId>>,
    links: Vec<LinkSpec>,
}

impl Row {
    fn new(nodes: u32, rate: Rate, delivery: f64) -> Self {
        let in_range = (0..nodes).map(|i| if i > 0 { vec![n(i - 1)] } else { vec![] }).collect();
        let links =
            (1..nodes).map(|i| LinkSpec { from: n(i - 1), to: n(i), rate, delivery }).collect();
        Row { phy: Phy::dot11b(Preamble::Long), in_range, links }
    }

    fn rates(&self, paths: &[Vec<NodeId>], traffic: Traffic) -> Vec<f64> {
        let demand = Demand::default();
        let flows: Vec<_> =
            paths.iter().map(|path| FlowSpec { path, wires: &[], traffic, demand }).collect();
        fair_allocation(&self.phy, Access::Basic, &self.in_range, &self.links, &flows)
            .unwrap()
            .rates
    }
}

fn up(from: u32) -> Vec<NodeId> {
    (0..=from).rev().map(n).collect()
}

/// The ns-3 anchor, 3-hop chain with uploads of 1500-byte datagrams at 1 Mb/s.
///
/// 150 kb/s each pass without loss, and no split carries more than 452 kb/s in sum.
#[test]
fn three_hop_chain_in_kbit_per_second() {
    let row = Row::new(4, Rate(0), 1.0);
    let udp = Traffic::udp(1500, true);
    let rates = row.rates(&[up(1), up(2), up(3)], udp);
    let nominal = saturated_goodput(&row.phy, Rate(0), &udp, Access::Basic);
    for r in &rates {
        assert!((r / (nominal / 6.0) - 1.0).abs() < 1e-9);
        assert!((r / 150.3e3 - 1.0).abs() < 0.01, "{r}");
    }
}

/// Jamshaid 2010 §7.3: with 1 Mb/s links Fig 7.3 gives 160, 80 and 80 kb/s, 320 in sum.
#[test]
fn fig_7_3_in_kbit_per_second() {
    // GW is node 1 of the row 0-1-…-7; downloads and uploads cost the same.
    let row = Row::new(8, Rate(0), 1.0);
    let to_gw = |from: u32| (1..=from).rev().map(n).collect::<Vec<_>>();
    let paths = [vec![n(0), n(1)], to_gw(6), to_gw(7)];
    let rates = row.rates(&paths, Traffic::tcp(1460, 0, 1.0, true));
    for (rate, expected) in rates.iter().zip([160e3, 80e3, 80e3]) {
        assert!((rate / expected - 1.0).abs() < 0.005, "{rates:?}");
    }
    assert!((rates.iter().sum::<f64>() / 320e3 - 1.0).abs() < 0.005);
}

#[test]
fn tcp_counts_its_acknowledgments_on_the_way_back() {
    let row = Row::new(3, Rate(0), 1.0);
    let tcp = Traffic::tcp(1460, 0, 1.0, true);
    let nominal = LinkModel::perfect(&row.phy, Rate(0)).capacity(&tcp);
    let one = row.rates(&[up(1)], tcp);
    assert!((one[0] / nominal - 1.0).abs() < 1e-9);
    let two = row.rates(&[up(2)], tcp);
    assert!((two[0] / (nominal / 2.0) - 1.0).abs() < 1e-9);
    // ns-3: 398 to 401 kb/s over two hops.
    assert!((two[0] / 400e3 - 1.0).abs() < 0.01, "{two:?}");
}

#[test]
fn a_lossy_first_hop_spares_the_second() {
    // 30 % delivery: 8 % of the datagrams are lost at the first hop and do not load the second.
    let lossy = 0.3;
    let mut row = Row::new(3, Rate(0), 1.0);
    row.links[1].delivery = lossy;
    let udp = Traffic::udp(1500, true);
    let perfect = LinkModel::perfect(&row.phy, Rate(0)).frame(udp.psdu);
    let first = LinkModel { delivery: lossy, ..LinkModel::perfect(&row.phy, Rate(0)) };
    let first = first.frame(udp.psdu);
    let seconds = first.seconds + first.delivered * perfect.seconds;
    let expected = 12_000.0 * first.delivered / seconds;
    let got = row.rates(&[up(2)], udp)[0];
    assert!((got / expected - 1.0).abs() < 1e-9, "{got} against {expected}");
}

#[test]
fn utilisation_and_bottlenecks() {
    let row = Row::new(4, Rate(3), 1.0);
    let traffic = Traffic::udp(512, true);
    let demand = Demand::default();
    let (a, b) = (up(1), up(3));
    let flows = [&a, &b].map(|path| FlowSpec { path, wires: &[], traffic, demand });
    let f = fair_allocation(&row.phy, Access::RtsCts, &row.in_range, &row.links, &flows).unwrap();
    let nominal = saturated_goodput(&row.phy, Rate(3), &traffic, Access::RtsCts);
    assert!((f.utilisation / nominal - 1.0).abs() < 1e-9, "one medium, always in use");
    assert!((f.aggregate() / (nominal / 2.0) - 1.0).abs() < 1e-9);
    assert_eq!(f.links, [(0, 1), (1, 2), (2, 3)].map(|(a, b)| Link::new(n(a), n(b))));
    assert!(f.load.iter().all(|l| (l - 1.0).abs() < 1e-9));
}

#[test]
fn fair_allocation_refusals() {
    let mut row = Row::new(3, Rate(0), 1.0);
    let traffic = Traffic::udp(512, true);
    let demand = Demand::default();
    let run = |row: &Row, path: &[NodeId]| {
        let flow = FlowSpec { path, wires: &[], traffic, demand };
        fair_allocation(&row.phy, Access::Basic, &row.in_range, &row.links, &[flow]).unwrap_err()
    };
    assert_eq!(run(&row, &[n(1)]), FairError::NoPath(0));
    assert_eq!(run(&row, &[n(0), n(2)]), FairError::NoLink { flow: 0, from: n(0), to: n(2) });
    row.links[0].delivery = 0.0;
    assert_eq!(run(&row, &up(1)), FairError::BadLink { from: n(0), to: n(1) });
    row.links[0] = LinkSpec { from: n(0), to: n(1), rate: Rate(4), delivery: 1.0 };
    assert_eq!(run(&row, &up(1)), FairError::BadLink { from: n(0), to: n(1) });
}
