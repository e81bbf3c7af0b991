//! Properties of max-min allocations and of collision domains.

use fairmesh_capacity::domain::{Contention, Domains, Link};
use fairmesh_capacity::maxmin::{Demand, Limit, max_min};
use fairmesh_units::NodeId;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Problem {
    demands: Vec<Demand>,
    usage: Vec<Vec<(u32, f64)>>,
    domains: usize,
}

fn problem() -> impl Strategy<Value = Problem> {
    (1usize..8, 1usize..7).prop_flat_map(|(flows, domains)| {
        // Few distinct values, so that ties are common.
        let cost = prop_oneof![Just(0.5), Just(1.0), Just(2.0), 0.1..3.0];
        let shares = prop::collection::btree_map(0..domains as u32, cost, 1..=domains);
        let weight = prop_oneof![Just(1.0), Just(2.0), 0.2..4.0];
        let limit = prop_oneof![3 => Just(f64::INFINITY), 1 => 0.0..0.5];
        let demand = (weight, limit).prop_map(|(weight, limit)| Demand { weight, limit });
        (
            prop::collection::vec(demand, flows),
            prop::collection::vec(shares.prop_map(|m| m.into_iter().collect()), flows),
        )
            .prop_map(move |(demands, usage)| Problem { demands, usage, domains })
    })
}

fn loads(p: &Problem, rates: &[f64]) -> Vec<f64> {
    let mut load = vec![0.0; p.domains];
    for (rate, shares) in rates.iter().zip(&p.usage) {
        for &(d, cost) in shares {
            load[d as usize] += rate * cost;
        }
    }
    load
}

fn feasible(p: &Problem, rates: &[f64]) -> bool {
    loads(p, rates).iter().all(|&l| l <= 1.0 + 1e-9)
}

/// Bisects for the highest common level of all flows not yet fixed.
///
/// It then fixes each flow that cannot rise alone: slow, but simple.
fn by_bisection(p: &Problem) -> Vec<f64> {
    let count = p.demands.len();
    let mut fixed: Vec<Option<f64>> = vec![None; count];
    while fixed.iter().any(Option::is_none) {
        let at = |level: f64| -> Vec<f64> {
            (0..count)
                .map(|i| {
                    let d = p.demands[i];
                    fixed[i].unwrap_or((level * d.weight).min(d.limit))
                })
                .collect()
        };
        let (mut low, mut high) = (0.0, 1e3);
        for _ in 0..200 {
            let mid = 0.5 * (low + high);
            if loads(p, &at(mid)).iter().all(|&l| l <= 1.0) { low = mid } else { high = mid }
        }
        let rates = at(low);
        let before = fixed.iter().filter(|f| f.is_some()).count();
        for i in (0..count).filter(|&i| fixed[i].is_none()).collect::<Vec<_>>() {
            let mut raised = rates.clone();
            raised[i] += 1e-7;
            if rates[i] >= p.demands[i].limit || !loads(p, &raised).iter().all(|&l| l <= 1.0) {
                fixed[i] = Some(rates[i]);
            }
        }
        assert!(fixed.iter().filter(|f| f.is_some()).count() > before);
    }
    fixed.into_iter().flatten().collect()
}

proptest! {
    #[test]
    fn feasible_and_agrees_with_bisection(p in problem()) {
        let a = max_min(&p.demands, &p.usage, p.domains).unwrap();
        prop_assert!(feasible(&p, &a.rates));
        let slow = by_bisection(&p);
        for (r, s) in a.rates.iter().zip(&slow) {
            prop_assert!((r - s).abs() < 1e-5, "{:?} {:?}", a.rates, slow);
        }
    }

    /// No flow can increase without reducing one with at most the same rate per weight.
    #[test]
    fn every_flow_has_a_bottleneck(p in problem()) {
        let a = max_min(&p.demands, &p.usage, p.domains).unwrap();
        let per_weight = |i: usize| a.rates[i] / p.demands[i].weight;
        for i in 0..p.demands.len() {
            match a.limits[i] {
                Limit::Demand => prop_assert_eq!(a.rates[i], p.demands[i].limit),
                Limit::Domain(d) => {
                    prop_assert!((a.load[d] - 1.0).abs() < 1e-9);
                    for j in 0..p.demands.len() {
                        let shares = p.usage[j].iter().any(|&(x, _)| x as usize == d);
                        prop_assert!(!shares || per_weight(j) <= per_weight(i) + 1e-9);
                    }
                    prop_assert!(p.usage[i].iter().any(|&(x, _)| x as usize == d));
                }
                Limit::Wire(w) => prop_assert!(false, "wire {w}, and there is none"),
            }
        }
    }

    /// Links faster by a factor give flows faster by that factor.
    #[test]
    fn scales(p in problem(), factor in 0.001f64..1e7) {
        let a = max_min(&p.demands, &p.usage, p.domains).unwrap();
        let mut q = p.clone();
        q.usage.iter_mut().flatten().for_each(|(_, cost)| *cost /= factor);
        q.demands.iter_mut().for_each(|d| d.limit *= factor);
        let b = max_min(&q.demands, &q.usage, q.domains).unwrap();
        for (x, y) in a.rates.iter().zip(&b.rates) {
            prop_assert!((x * factor - y).abs() <= 1e-9 * (1.0 + y));
        }
    }

    /// The order in which flows are listed does not matter.
    #[test]
    fn order_of_flows_is_irrelevant(p in problem()) {
        let a = max_min(&p.demands, &p.usage, p.domains).unwrap();
        let mut q = p.clone();
        q.demands.reverse();
        q.usage.reverse();
        let mut b = max_min(&q.demands, &q.usage, q.domains).unwrap().rates;
        b.reverse();
        for (x, y) in a.rates.iter().zip(&b) {
            prop_assert!((x - y).abs() < 1e-9);
        }
    }

    /// The definition, checked pair by pair on random graphs.
    #[test]
    fn collision_domains_follow_the_definition(
        pairs in prop::collection::vec((0u32..12, 0u32..12), 1..30),
    ) {
        let pairs: Vec<_> = pairs.into_iter().map(|(a, b)| (NodeId(a), NodeId(b))).collect();
        let contention = Contention::from_pairs(12, &pairs).unwrap();
        let links: Vec<_> = pairs.iter().filter(|p| p.0 != p.1).map(|p| Link::new(p.0, p.1)).collect();
        let domains = Domains::collision(&contention, &links).unwrap();
        for i in 0..links.len() {
            for j in 0..links.len() {
                let in_range = |a: NodeId, b: NodeId| {
                    a == b || pairs.iter().any(|&p| p == (a, b) || p == (b, a))
                };
                let contend =
                    links[i].ends().iter().any(|&a| links[j].ends().iter().any(|&b| in_range(a, b)));
                prop_assert_eq!(domains.links(i).contains(&(j as u32)), contend);
            }
        }
    }
}
