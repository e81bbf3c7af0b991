//! Properties of proportionally fair rates, of the largest sums, and of guaranteed minima.

use fairmesh_capacity::convex::{ConvexError, Optimum, Region};
use fairmesh_capacity::maxmin::{Demand, Limit, MaxMinError, max_min, max_min_above};
use proptest::prelude::*;

const INF: f64 = f64::INFINITY;

#[derive(Clone, Debug)]
struct Problem {
    demands: Vec<Demand>,
    minimum: Vec<f64>,
    usage: Vec<Vec<(u32, f64)>>,
    domains: usize,
    /// Other rates, before they are made feasible.
    other: Vec<f64>,
    values: Vec<f64>,
}

impl Problem {
    fn region(&self) -> Region<'_> {
        let Problem { demands, minimum, usage, domains, .. } = self;
        Region { demands, minimum, usage, domains: *domains }
    }

    fn loads(&self, rates: &[f64]) -> Vec<f64> {
        let mut load = vec![0.0; self.domains];
        for (rate, shares) in rates.iter().zip(&self.usage) {
            shares.iter().for_each(|&(d, share)| load[d as usize] += rate * share);
        }
        load
    }

    fn fullest(&self, rates: &[f64]) -> f64 {
        self.loads(rates).into_iter().fold(0.0, f64::max)
    }

    fn is_feasible(&self, rates: &[f64]) -> bool {
        let ranges = self.demands.iter().zip(&self.minimum);
        self.fullest(rates) <= 1.0 + 1e-9
            && rates
                .iter()
                .zip(ranges)
                .all(|(r, (d, least))| *r >= least * (1.0 - 1e-8) && *r <= d.limit)
    }

    /// Feasible rates between the minima and the boundary.
    fn feasible(&self) -> Vec<f64> {
        let mut extra: Vec<f64> = (0..self.other.len())
            .map(|i| self.other[i].min(self.demands[i].limit - self.minimum[i]))
            .collect();
        let fixed = self.loads(&self.minimum);
        let free = self.loads(&extra);
        let room = fixed.iter().zip(&free).filter(|(_, f)| **f > 0.0);
        let scale = room.map(|(fixed, free)| (1.0 - fixed) / free).fold(1.0, f64::min);
        extra.iter_mut().for_each(|e| *e *= scale.max(0.0));
        let sum = |i: usize| (extra[i] + self.minimum[i]).min(self.demands[i].limit);
        (0..extra.len()).map(sum).collect()
    }
}

fn problems() -> impl Strategy<Value = Problem> {
    (1usize..8, 1usize..7).prop_flat_map(|(flows, domains)| {
        // Few distinct values, so that ties and equal domains are common.
        let share = prop_oneof![Just(0.5), Just(1.0), Just(2.0), 0.1..3.0];
        let shares = prop::collection::btree_map(0..domains as u32, share, 1..=domains);
        let weight = prop_oneof![Just(1.0), Just(2.0), 0.2..4.0];
        let limit = prop_oneof![3 => Just(INF), 1 => 0.0..0.5];
        let demand = (weight, limit).prop_map(|(weight, limit)| Demand { weight, limit });
        let minimum = prop_oneof![2 => Just(0.0), 1 => 0.0..0.4];
        let value = prop_oneof![Just(0.0), Just(1.0), 0.1..5.0];
        (
            prop::collection::vec(demand, flows),
            prop::collection::vec(minimum, flows),
            prop::collection::vec(shares.prop_map(|m| m.into_iter().collect()), flows),
            prop::collection::vec(0.0..20.0, flows),
            prop::collection::vec(value, flows),
        )
            .prop_map(move |(demands, mut minimum, usage, other, values)| {
                for (least, d) in minimum.iter_mut().zip(&demands) {
                    *least = f64::min(*least, d.limit);
                }
                let mut p = Problem { demands, minimum, usage, domains, other, values };
                let excess = p.fullest(&p.minimum).max(0.9) / 0.9;
                p.minimum.iter_mut().for_each(|m| *m /= excess);
                p
            })
    })
}

/// Every flow below its demand names a full domain that it uses.
fn explained(p: &Problem, o: &Optimum) -> bool {
    (0..o.rates.len()).all(|i| match o.limits[i] {
        Limit::Demand => o.rates[i] >= p.demands[i].limit * (1.0 - 1e-6),
        Limit::Domain(d) => {
            o.load[d] > 1.0 - 1e-4 && p.usage[i].iter().any(|&(x, s)| x as usize == d && s > 0.0)
        }
        Limit::Wire(_) => false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The definition, Jamshaid 2010 §2.1.2.
    ///
    /// No feasible change gains more, in proportion, than it costs.
    #[test]
    fn proportional_fairness(p in problems()) {
        let o = p.region().proportional().unwrap();
        prop_assert!(p.is_feasible(&o.rates), "{:?}", o);
        prop_assert!(explained(&p, &o), "{:?}", o);
        let gain = |other: &[f64]| {
            let flows = (0..other.len()).filter(|&i| p.demands[i].limit > 0.0);
            let change = |i: usize| p.demands[i].weight * (other[i] - o.rates[i]) / o.rates[i];
            let total: f64 = p.demands.iter().map(|d| d.weight).sum();
            flows.map(change).sum::<f64>() / total
        };
        let other = p.feasible();
        prop_assert!(p.is_feasible(&other));
        let fair = max_min_above(&p.demands, &p.minimum, &p.usage, p.domains).unwrap().rates;
        let largest = p.region().maximise(&p.values).unwrap().rates;
        for other in [other, fair, largest] {
            prop_assert!(gain(&other) <= o.gap + 1e-8, "{:?} {:?}", o, other);
        }
    }

    /// No feasible rates exceed the optimum, and the gap proves it.
    #[test]
    fn largest_sum(p in problems()) {
        let o = p.region().maximise(&p.values).unwrap();
        prop_assert!(p.is_feasible(&o.rates), "{:?}", o);
        let worth = |rates: &[f64]| rates.iter().zip(&p.values).map(|(r, v)| r * v).sum::<f64>();
        let fair = max_min_above(&p.demands, &p.minimum, &p.usage, p.domains).unwrap().rates;
        let proportional = p.region().proportional().unwrap().rates;
        for other in [p.feasible(), fair, proportional] {
            prop_assert!(worth(&other) <= worth(&o.rates) * (1.0 + o.gap) + 1e-9);
        }
        // Domains with a price are full.
        for (price, load) in o.prices.iter().zip(&o.load) {
            prop_assert!(*price == 0.0 || *load > 1.0 - 1e-4);
        }
    }

    /// Only ratios of weights count, and rates follow the unit of the costs.
    #[test]
    fn scales(p in problems(), factor in 0.001f64..1e6) {
        let mut q = p.clone();
        q.demands.iter_mut().for_each(|d| d.weight *= factor);
        let near = |a: &[f64], b: &[f64], unit: f64| {
            a.iter().zip(b).all(|(x, y)| (x * unit - y).abs() <= 1e-5 * (unit * 1e-3 + y))
        };
        let (a, b) = (p.region().proportional().unwrap(), q.region().proportional().unwrap());
        prop_assert!(near(&a.rates, &b.rates, 1.0), "{:?} {:?}", a, b);
        let weighted = |p: &Problem| {
            max_min_above(&p.demands, &p.minimum, &p.usage, p.domains).unwrap().rates
        };
        prop_assert!(near(&weighted(&p), &weighted(&q), 1.0));

        let mut q = p.clone();
        q.usage.iter_mut().flatten().for_each(|(_, share)| *share /= factor);
        q.demands.iter_mut().for_each(|d| d.limit *= factor);
        q.minimum.iter_mut().for_each(|m| *m *= factor);
        let b = q.region().proportional().unwrap();
        prop_assert!(near(&a.rates, &b.rates, factor), "{:?} {:?}", a, b);
    }

    /// With one shared domain, proportional fairness is max-min fairness of airtime.
    ///
    /// This holds for any cost per bit (§2.1.2 for equal costs).
    #[test]
    fn one_domain_is_shared_by_weight(
        flows in prop::collection::vec((0.2f64..4.0, 0.1f64..3.0), 1..9),
    ) {
        let demands: Vec<_> = flows.iter().map(|f| Demand { weight: f.0, limit: INF }).collect();
        let usage: Vec<_> = flows.iter().map(|f| vec![(0, f.1)]).collect();
        let region = Region { demands: &demands, minimum: &[], usage: &usage, domains: 1 };
        let o = region.proportional().unwrap();
        let total: f64 = flows.iter().map(|f| f.0).sum();
        for (rate, (weight, cost)) in o.rates.iter().zip(&flows) {
            prop_assert!((rate * cost - weight / total).abs() < 1e-10);
        }
    }

    /// Bisects for the highest common level above the minima of all flows not yet fixed.
    ///
    /// It then fixes those that cannot rise: slow, but simple.
    #[test]
    fn minima_agree_with_bisection(p in problems()) {
        let a = max_min_above(&p.demands, &p.minimum, &p.usage, p.domains).unwrap();
        prop_assert!(p.is_feasible(&a.rates));
        let count = p.demands.len();
        let mut fixed: Vec<Option<f64>> = vec![None; count];
        while fixed.iter().any(Option::is_none) {
            let at = |level: f64| -> Vec<f64> {
                let rate = |i: usize| {
                    let d = p.demands[i];
                    fixed[i].unwrap_or((level * d.weight).clamp(p.minimum[i], d.limit))
                };
                (0..count).map(rate).collect()
            };
            let (mut low, mut high) = (0.0, 1e3);
            for _ in 0..200 {
                let mid = 0.5 * (low + high);
                if p.fullest(&at(mid)) <= 1.0 { low = mid } else { high = mid }
            }
            let rates = at(low);
            let before = fixed.iter().flatten().count();
            for i in 0..count {
                let mut raised = rates.clone();
                raised[i] += 1e-7;
                let stuck = rates[i] >= p.demands[i].limit || p.fullest(&raised) > 1.0;
                if fixed[i].is_none() && stuck {
                    fixed[i] = Some(rates[i]);
                }
            }
            prop_assert!(fixed.iter().flatten().count() > before);
        }
        for (rate, slow) in a.rates.iter().zip(fixed.iter().flatten()) {
            prop_assert!((rate - slow).abs() < 1e-5, "{:?} {:?}", a.rates, fixed);
        }
    }
}

fn demand(weight: f64, limit: f64) -> Demand {
    Demand { weight, limit }
}

fn near(value: &[f64], expected: &[f64]) {
    assert_eq!(value.len(), expected.len());
    for (v, e) in value.iter().zip(expected) {
        assert!((v - e).abs() < 1e-7, "{value:?} against {expected:?}");
    }
}

/// Two consecutive links, a flow on each and one over both, at 1 Mbit/s.
fn tandem() -> Vec<Vec<(u32, f64)>> {
    vec![vec![(0, 1e-6)], vec![(1, 1e-6)], vec![(0, 1e-6), (1, 1e-6)]]
}

#[test]
fn weights_limits_and_minima_by_hand() {
    let usage = tandem();
    let solve = |demands: &[Demand], minimum: &[f64]| {
        Region { demands, minimum, usage: &usage, domains: 2 }.proportional().unwrap()
    };
    let mbit = |o: &Optimum| o.rates.iter().map(|r| r / 1e6).collect::<Vec<_>>();
    // With weight w for the long flow, x = w / (w + 2) of each link.
    for w in [1.0, 2.0, 6.0] {
        let o = solve(&[demand(1.0, INF), demand(1.0, INF), demand(w, INF)], &[]);
        let x = w / (w + 2.0);
        near(&mbit(&o), &[1.0 - x, 1.0 - x, x]);
        assert_eq!(o.limits, [Limit::Domain(0), Limit::Domain(1), Limit::Domain(0)]);
        // Two full links, each priced at its weight: 1/(1 − x) per Mbit/s.
        near(&[o.prices[0], o.prices[1]], &[1.0 / (1.0 - x); 2]);
    }
    // A capped short flow leaves room for the long one on its link only.
    let o = solve(&[demand(1.0, 0.2e6), demand(1.0, INF), demand(1.0, INF)], &[]);
    near(&mbit(&o), &[0.2, 0.5, 0.5]);
    assert_eq!(o.limits, [Limit::Demand, Limit::Domain(1), Limit::Domain(1)]);
    // A flow without demand does not count.
    let o = solve(&[demand(1.0, 0.0), demand(1.0, INF), demand(1.0, INF)], &[]);
    near(&mbit(&o), &[0.0, 0.5, 0.5]);
    // A guarantee above a flow's share reduces the others.
    let o = solve(&[demand(1.0, INF); 3], &[0.0, 0.0, 0.6e6]);
    near(&mbit(&o), &[0.4, 0.4, 0.6]);
}

#[test]
fn sums_with_and_without_minima_by_hand() {
    let usage = tandem();
    let demands = [demand(1.0, INF); 3];
    let solve = |values: &[f64; 3], minimum: &[f64]| {
        let region = Region { demands: &demands, minimum, usage: &usage, domains: 2 };
        region.maximise(values).unwrap()
    };
    let mbit = |o: &Optimum| o.rates.iter().map(|r| r / 1e6).collect::<Vec<_>>();
    // Jamshaid 2010 §2.1.3: the aggregate is largest when the long flow starves.
    near(&mbit(&solve(&[1.0; 3], &[])), &[1.0, 1.0, 0.0]);
    near(&mbit(&solve(&[1.0; 3], &[0.1e6, 0.0, 0.3e6])), &[0.7, 0.7, 0.3]);
    near(&mbit(&solve(&[1.0, 1.0, 3.0], &[])), &[0.0, 0.0, 1.0]);
    near(&mbit(&solve(&[1.0, 1.0, 3.0], &[0.1e6, 0.0, 0.0])), &[0.1, 0.1, 0.9]);
    // By hops every split uses both links fully.
    let o = solve(&[1.0, 1.0, 2.0], &[]);
    assert!((o.rates[0] + o.rates[1] + 2.0 * o.rates[2] - 2e6).abs() < 1.0);
    // With zero values any rates are optimal.
    assert_eq!(solve(&[0.0; 3], &[]).gap, 0.0);
}

#[test]
fn guaranteed_minima_in_max_min() {
    let usage = vec![vec![(0, 1.0)]; 3];
    let run =
        |demands: &[Demand], minimum: &[f64]| max_min_above(demands, minimum, &usage, 1).unwrap();
    let all = [demand(1.0, INF); 3];
    // A guarantee below the fair share has no effect; one above it reduces the others.
    near(&run(&all, &[0.2, 0.0, 0.0]).rates, &[1.0 / 3.0; 3]);
    let a = run(&all, &[0.5, 0.0, 0.0]);
    near(&a.rates, &[0.5, 0.25, 0.25]);
    assert_eq!(a.limits, [Limit::Domain(0); 3]);
    // Equal minimum and limit fix the rate.
    let fixed = [demand(1.0, 0.4), demand(2.0, INF), demand(1.0, INF)];
    let a = run(&fixed, &[0.4, 0.0, 0.0]);
    near(&a.rates, &[0.4, 0.4, 0.2]);
    assert_eq!(a.limits, [Limit::Demand, Limit::Domain(0), Limit::Domain(0)]);
    // All of the air is guaranteed.
    near(&run(&all, &[0.5, 0.3, 0.2]).rates, &[0.5, 0.3, 0.2]);
}

#[test]
fn refusals() {
    let usage = tandem();
    let demands = [demand(1.0, INF), demand(1.0, 1e5), demand(1.0, INF)];
    let solve = |minimum: &[f64]| {
        let region = Region { demands: &demands, minimum, usage: &usage, domains: 2 };
        let refused = region.proportional().unwrap_err();
        assert_eq!(region.maximise(&[1.0; 3]).unwrap_err(), refused);
        match refused {
            ConvexError::Region(e) => {
                assert_eq!(max_min_above(&demands, minimum, &usage, 2), Err(e));
                e
            }
            other => panic!("{other}"),
        }
    };
    assert_eq!(solve(&[0.0]), MaxMinError::LengthMismatch);
    assert_eq!(solve(&[0.0, -1.0, 0.0]), MaxMinError::BadMinimum(1));
    assert_eq!(solve(&[0.0, 2e5, 0.0]), MaxMinError::BadMinimum(1), "more than it asks for");
    let over = solve(&[0.8e6, 0.05e6, 0.7e6]);
    assert_eq!(over, MaxMinError::Overcommitted { domain: 0, load: 1.5 });
    assert!(over.to_string().contains("150.0 %"), "{over}");

    let region = Region { demands: &demands, minimum: &[], usage: &usage, domains: 2 };
    assert_eq!(region.maximise(&[1.0; 2]), Err(ConvexError::BadValue(2)));
    assert_eq!(region.maximise(&[1.0, f64::NAN, 1.0]), Err(ConvexError::BadValue(1)));
    let unbounded = Region { usage: &[vec![]], demands: &demands[..1], ..region };
    assert_eq!(unbounded.proportional(), Err(ConvexError::Region(MaxMinError::Unbounded(0))));
    let no_flow = Region { usage: &[], demands: &[], minimum: &[], domains: 0 };
    assert!(no_flow.proportional().unwrap().rates.is_empty());
    assert!(no_flow.maximise(&[]).unwrap().rates.is_empty());
    assert!(max_min(&[], &[], 0).unwrap().rates.is_empty());
}
