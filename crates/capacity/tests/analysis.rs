//! Both models and all criteria for a whole network.

mod common;

use fairmesh_capacity::analysis::{Analysis, Criterion, Network, Sharing};
use fairmesh_capacity::bounds::{Reuse, aggregate};
use fairmesh_capacity::clique::Budget;
use fairmesh_capacity::fair::{FairError, FlowSpec, LinkSpec, WireUse, fair_allocation};
use fairmesh_capacity::graph::{Exclusion, Hop};
use fairmesh_capacity::link::{Access, LinkModel, Traffic};
use fairmesh_capacity::maxmin::{Demand, Limit, MaxMinError};
use fairmesh_phy::{Phy, Preamble, Rate};
use fairmesh_units::NodeId;

fn n(i: u32) -> NodeId {
    NodeId(i)
}

fn hop(from: u32, to: u32) -> Hop {
    Hop { from: n(from), to: n(to) }
}

fn near(value: &[f64], expected: &[f64]) {
    assert_eq!(value.len(), expected.len());
    for (v, e) in value.iter().zip(expected) {
        assert!((v / e - 1.0).abs() < 1e-6, "{value:?} against {expected:?}");
    }
}

/// Jamshaid 2010 Fig 7.3 at 1 Mb/s.
///
/// The topology is 0-1-2-…-7 with the gateway at 1, and flows from 0, 6 and 7.
struct Fig73 {
    phy: Phy,
    in_range: Vec<Vec<NodeId>>,
    links: Vec<LinkSpec>,
    paths: [Vec<NodeId>; 3],
}

impl Fig73 {
    fn new() -> Self {
        let to_gateway = |from: u32| (1..=from).rev().map(n).collect();
        let links =
            (1..8).map(|i| LinkSpec { from: n(i - 1), to: n(i), rate: Rate(0), delivery: 1.0 });
        Fig73 {
            phy: Phy::dot11b(Preamble::Long),
            in_range: (0..8u32).map(|i| if i > 0 { vec![n(i - 1)] } else { vec![] }).collect(),
            links: links.collect(),
            paths: [vec![n(0), n(1)], to_gateway(6), to_gateway(7)],
        }
    }

    fn flows(&self, traffic: Traffic) -> Vec<FlowSpec<'_>> {
        let demand = Demand::default();
        self.paths.iter().map(|path| FlowSpec { path, wires: &[], traffic, demand }).collect()
    }

    fn network<'a>(&'a self, flows: &'a [FlowSpec<'a>]) -> Network<'a, Vec<NodeId>> {
        Network {
            phy: &self.phy,
            access: Access::Basic,
            in_range: &self.in_range,
            links: &self.links,
            flows,
            sharing: Sharing::Links,
            minimum: &[],
            budget: Budget::default(),
        }
    }

    fn capacity(&self, traffic: Traffic) -> f64 {
        LinkModel::perfect(&self.phy, Rate(0)).capacity(&traffic)
    }
}

#[test]
fn fig_7_3_under_both_models_and_all_criteria() {
    let fig = Fig73::new();
    let tcp = Traffic::tcp(1460, 0, 1.0, true);
    let flows = fig.flows(tcp);
    let r = fig.capacity(tcp);
    let a = fig.network(&flows).analyse().unwrap();
    assert_eq!(a.hops, (0..7).map(|i| hop(i, i + 1)).collect::<Vec<_>>());
    near(&a.capacities[2], &[r; 6]);
    let check = |rates: &[f64], expected: [f64; 3]| {
        // A zero rate may be a rounding error above zero.
        for (rate, e) in rates.iter().zip(expected) {
            assert!((rate / r - e).abs() < 1e-6, "{rates:?} in units of {r}");
        }
    };

    // With s for f2 + f3, domain c allows f1 + 4 s ≤ R and domain d 5 s ≤ R.
    let model = &a.collision;
    let fair = &model.max_min;
    check(&fair.rates, [0.2, 0.1, 0.1]);
    assert_eq!(fair.limits, [Limit::Domain(2), Limit::Domain(3), Limit::Domain(3)]);
    assert_eq!(model.bottleneck(&model.max_min, 0), Some(&[0, 1, 2, 3, 4][..]));
    assert_eq!(model.bottleneck(&model.max_min, 1), Some(&[1, 2, 3, 4, 5][..]));
    near(&[fair.aggregate, fair.utilisation], &[0.4 * r, (0.2 + 0.5 + 0.6) * r]);
    near(&[fair.utilisation_ratio.unwrap()], &[1.3 / 1.4]);
    let fair = model.by(Criterion::Proportional).unwrap();
    check(&fair.rates, [1.0 / 3.0, 1.0 / 12.0, 1.0 / 12.0]);
    assert_eq!(fair.limits, [Limit::Domain(2); 3]);
    near(&[fair.utilisation_ratio.unwrap()], &[1.25 / 1.4]);
    check(&model.by(Criterion::Aggregate).unwrap().rates, [1.0, 0.0, 0.0]);
    // The flow with the most hops per unit of air.
    check(&model.by(Criterion::Utilisation).unwrap().rates, [0.2, 0.0, 0.2]);
    near(&[model.by(Criterion::Utilisation).unwrap().utilisation], &[1.4 * r]);

    // Cliques of three: f1 + 2 s ≤ R and 3 s ≤ R.
    let model = a.cliques.as_ref().unwrap();
    let fair = &model.max_min;
    check(&fair.rates, [1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]);
    assert_eq!(model.bottleneck(&model.max_min, 0), Some(&[0, 1, 2][..]));
    assert_eq!(model.bottleneck(&model.max_min, 2), Some(&[1, 2, 3][..]));
    check(&model.by(Criterion::Proportional).unwrap().rates, [1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]);
    check(&model.by(Criterion::Aggregate).unwrap().rates, [1.0, 0.0, 0.0]);
    check(&model.by(Criterion::Utilisation).unwrap().rates, [1.0 / 3.0, 0.0, 1.0 / 3.0]);

    for model in [&a.collision, model] {
        for criterion in Criterion::ALL {
            let rates = model.by(criterion).unwrap();
            assert_eq!(rates.criterion, criterion);
            assert!(rates.load.iter().all(|&l| l <= 1.0 + 1e-12), "{:?}", rates.load);
        }
        // §7.5.2: the fair aggregate lies between a third of the slowest link and all of it,
        // although collision domains guarantee only a fifth.
        let gateway: Vec<f64> = a.capacities.iter().map(|c| c[c.len() - 1]).collect();
        let bounds = aggregate(&gateway, Reuse::Dcf).unwrap();
        near(&[bounds.lower, bounds.upper], &[r / 3.0, r]);
        let fair = model.max_min.aggregate;
        assert!(bounds.lower <= fair && fair <= bounds.upper);
    }
    assert_eq!(fig.network(&flows).analyse().unwrap(), a, "the same to the last bit");
}

#[test]
fn directions_and_handshakes() {
    // Away from the gateway and towards it, in two halves with adjacent senders or adjacent
    // receivers.
    let fig = Fig73::new();
    let udp = Traffic::udp(1500, true);
    let demand = Demand::default();
    let share = |one: [u32; 2], other: [u32; 2], rule| {
        let (one, other) = (one.map(n), other.map(n));
        let flows = [&one, &other].map(|path| FlowSpec { path, wires: &[], traffic: udp, demand });
        let sharing = Sharing::Directed(rule);
        let a = Network { sharing, ..fig.network(&flows) }.analyse().unwrap();
        assert_eq!(a.hops.len(), 2);
        a.cliques.unwrap().max_min.rates[0] / fig.capacity(udp)
    };
    near(&[share([0, 1], [3, 2], Exclusion::Basic)], &[1.0]);
    near(&[share([0, 1], [3, 2], Exclusion::RtsCts)], &[0.5]);
    near(&[share([1, 0], [2, 3], Exclusion::Scheduled)], &[1.0]);
    near(&[share([1, 0], [2, 3], Exclusion::Basic)], &[0.5]);
    // TCP needs both directions of a link, which exclude each other.
    let tcp = Traffic::tcp(1460, 0, 1.0, true);
    let path = [n(0), n(1)];
    let flows = [FlowSpec { path: &path, wires: &[], traffic: tcp, demand }];
    let sharing = Sharing::Directed(Exclusion::Basic);
    let a = Network { sharing, ..fig.network(&flows) }.analyse().unwrap();
    assert_eq!(a.hops, [hop(0, 1), hop(1, 0)]);
    near(&a.collision.max_min.rates, &[fig.capacity(tcp)]);
}

#[test]
fn weights_demands_and_minima() {
    let fig = Fig73::new();
    let udp = Traffic::udp(1500, true);
    let r = fig.capacity(udp);
    let mut flows = fig.flows(udp);
    flows[1].demand.weight = 3.0;
    let a = fig.network(&flows).analyse().unwrap();
    // 5 (f2 + f3) = R at weights 3 and 1; f1 gets the rest of domain c.
    near(&a.collision.max_min.rates, &[r / 5.0, 0.15 * r, 0.05 * r]);
    flows[1].demand = Demand { weight: 1.0, limit: 0.05 * r };
    let a = fig.network(&flows).analyse().unwrap();
    for model in [&a.collision, a.cliques.as_ref().unwrap()] {
        assert_eq!(model.bottleneck(&model.max_min, 1), None);
        assert_eq!(model.bottleneck(model.by(Criterion::Proportional).unwrap(), 1), None);
        near(&[model.by(Criterion::Proportional).unwrap().rates[1]], &[0.05 * r]);
    }
    let flows = fig.flows(udp);
    let minimum = [0.0, 0.05 * r, 0.15 * r];
    let a = Network { minimum: &minimum, ..fig.network(&flows) }.analyse().unwrap();
    near(&a.collision.max_min.rates, &[r / 5.0, 0.05 * r, 0.15 * r]);
    let most = a.collision.by(Criterion::Aggregate).unwrap();
    near(&most.rates, &[0.2 * r, 0.05 * r, 0.15 * r]);
    let refused = Network { minimum: &[0.0, 0.2 * r, 0.2 * r], ..fig.network(&flows) }.analyse();
    match refused {
        Err(FairError::MaxMin(MaxMinError::Overcommitted { domain, load })) => {
            assert_eq!(domain, 3);
            near(&[load], &[2.0]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_name_the_parameter() {
    let fig = Fig73::new();
    let flows = fig.flows(Traffic::udp(1500, true));
    let missing = Network { links: &fig.links[..5], ..fig.network(&flows) }.analyse().unwrap_err();
    assert_eq!(missing, FairError::NoLink { flow: 1, from: n(6), to: n(5) });
}

fn thousand(budget: Budget) -> Analysis {
    let mesh = common::mesh(1000, 0.06, 300);
    let traffic = Traffic::tcp(1460, 0, 2.0, true);
    let demand = Demand::default();
    let flows: Vec<_> =
        mesh.paths.iter().map(|path| FlowSpec { path, wires: &[], traffic, demand }).collect();
    let phy = Phy::dot11b(Preamble::Long);
    let network = Network {
        phy: &phy,
        access: Access::Basic,
        in_range: &mesh.in_range,
        links: &mesh.links,
        flows: &flows,
        sharing: Sharing::Links,
        minimum: &[],
        budget,
    };
    let analysis = network.analyse().unwrap();
    let alone = fair_allocation(&phy, Access::Basic, &mesh.in_range, &mesh.links, &flows).unwrap();
    let fair = &analysis.collision.max_min;
    assert_eq!((&fair.rates, &fair.limits), (&alone.rates, &alone.limits));
    assert_eq!(fair.utilisation, alone.utilisation);
    analysis
}

/// 1,000 nodes with about ten others in range, 300 uploads, all criteria.
#[test]
fn a_thousand_nodes_by_domains() {
    let a = thousand(Budget { cliques: 100, ..Budget::default() });
    // The budget is too small for cliques; all other results are present.
    assert_eq!(a.cliques.as_ref().unwrap_err().found, 100);
    let rates = &a.collision.max_min.rates;
    assert!(rates.iter().all(|&r| r > 0.0));
    let mut distinct = rates.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup_by(|x, y| (*x / *y - 1.0).abs() < 1e-9);
    assert!(distinct.len() > 1, "bottlenecks are distributed");
}

#[test]
fn a_thousand_nodes_by_cliques() {
    let a = thousand(Budget::default());
    let cliques = a.cliques.unwrap();
    assert!(cliques.domains.len() > 100);
    for criterion in Criterion::ALL {
        let (strict, lenient) =
            (a.collision.by(criterion).unwrap(), cliques.by(criterion).unwrap());
        assert!(lenient.load.iter().all(|&l| l <= 1.0 + 1e-9));
        let better = match criterion {
            Criterion::MaxMin | Criterion::Unweighted => {
                let worst = |r: &[f64]| r.iter().copied().fold(f64::INFINITY, f64::min);
                worst(&lenient.rates) >= worst(&strict.rates)
            }
            Criterion::Proportional => {
                let logarithms = |r: &[f64]| r.iter().map(|x| x.ln()).sum::<f64>();
                logarithms(&lenient.rates) >= logarithms(&strict.rates)
            }
            Criterion::Aggregate => lenient.aggregate >= strict.aggregate,
            Criterion::Utilisation => lenient.utilisation >= strict.utilisation,
        };
        assert!(better, "{criterion:?}");
        assert!(strict.utilisation_ratio.unwrap() <= 1.0 + 1e-6);
    }
}

#[test]
fn wires_take_no_air_and_are_shared() {
    // 0-1 by radio, a cable to 2, 2-3 by radio: the links are out of range of each other.
    let mut fig = Fig73::new();
    fig.in_range[2].clear();
    let udp = Traffic::udp(1500, true);
    let demand = Demand::default();
    let path: Vec<NodeId> = (0..4).map(n).collect();
    let cable = |share| [WireUse { hop: Some(1), wire: 0, share }];
    let analyse = |share: f64, flows: usize| {
        let wires = cable(share);
        let flows = vec![FlowSpec { path: &path, wires: &wires, traffic: udp, demand }; flows];
        fig.network(&flows).analyse().unwrap()
    };
    // A wire of 1 Gbit/s is never full.
    let alone = analyse(1e-9, 1);
    assert_eq!(alone.hops, [hop(0, 1), hop(2, 3)]);
    assert_eq!(alone.capacities[0].len(), 2);
    let fair = &alone.collision.max_min;
    near(&fair.rates, &[fig.capacity(udp)]);
    near(&[fair.utilisation], &[2.0 * fig.capacity(udp)]);
    // One of 100 kbit/s is full before the air, under any criterion and either model.
    let shared = analyse(1e-5, 2);
    for model in [&shared.collision, shared.cliques.as_ref().unwrap()] {
        for rates in Criterion::ALL.map(|c| model.by(c).unwrap()) {
            assert!((rates.aggregate / 1e5 - 1.0).abs() < 1e-4, "{rates:?}");
            assert_eq!(rates.load.len(), model.domains.len());
        }
        let fair = &model.max_min;
        near(&fair.rates, &[5e4, 5e4]);
        assert_eq!(fair.limits, [Limit::Wire(0); 2]);
        assert_eq!(model.bottleneck(fair, 0), None);
    }
}
