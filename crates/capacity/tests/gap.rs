//! GAP's fluid model.
//!
//! It has equations (1) to (10) of Mancuso 2010, its equilibria and its convergence.

use fairmesh_capacity::gap::trajectory::{State, uncontrolled};
use fairmesh_capacity::gap::{Gap, GapError, Load, Regime, Stability, phase};
use proptest::prelude::*;

/// The single branch of §VI.
///
/// It has U* of 3.37 Mbit/s, 256 kbit/s of it for signalling, a third for the neighbour. α and β per update
/// as in §VI.D, ten updates per second.
fn branch() -> Gap {
    let capacity = 3.37e6;
    let steps = (0.01 * capacity, 0.9);
    Gap::from_steps(capacity, capacity / 3.0, 0.256 / 3.37, steps, (1, 0.1)).unwrap()
}

fn start(gap: &Gap) -> State {
    State { limit: gap.capacity(), waiting: 0.0, backlog: 0.0 }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1.0)
}

#[test]
fn without_control_the_neighbours_take_all() {
    let both = Load { single: f64::INFINITY, multi: 1e6 };
    assert_eq!(uncontrolled(3e6, both), (3e6, 0.0));
    assert_eq!(uncontrolled(3e6, Load { single: 2.5e6, multi: 1e6 }), (2.5e6, 0.5e6));
}

#[test]
fn the_target_and_the_free_signalling_bandwidth_follow_equations_1_and_2() {
    let g = Gap::new(10.0, 4.0, 0.2, 1.0, 1.0).unwrap();
    // U_M* − B_D = 6 − 2 = 4.
    assert!(close(g.target_limit(0.0), 8.0) && close(g.free_signalling(0.0), 2.0));
    assert!(close(g.target_limit(3.0), 5.0) && close(g.free_signalling(3.0), 2.0));
    assert!(close(g.target_limit(4.0), 4.0), "both lines meet");
    assert!(close(g.target_limit(5.0), 4.0) && close(g.free_signalling(5.0), 1.0));
    assert!(close(g.target_limit(9.0), 4.0) && g.free_signalling(9.0) == 0.0);
}

#[test]
fn the_three_conditions_of_section_v_b() {
    let g = Gap::new(10.0, 4.0, 0.2, 1.0, 0.5).unwrap();
    let rest = |single, multi| g.equilibrium(Load { single, multi });
    let light = rest(3.0, 9.0);
    assert_eq!((light.regime, light.single, light.multi), (Regime::Light, 3.0, 7.0));
    assert_eq!(light.utilization(), 10.0, "full use is possible");
    let free = rest(5.0, 2.0);
    assert_eq!((free.regime, free.single, free.multi), (Regime::Unsaturated, 5.0, 2.0));
    let border = rest(f64::INFINITY, 1.0);
    assert_eq!(border.regime, Regime::Threshold);
    assert!(close(border.single, 7.0) && close(border.multi, 1.0));
    assert_eq!((border.below, border.above), (Stability::Linear(1.0), Stability::Exponential(0.5)));
    let full = rest(f64::INFINITY, f64::INFINITY);
    assert_eq!((full.regime, full.single, full.multi), (Regime::Saturated, 4.0, 6.0));
    assert_eq!((full.below, full.above), (Stability::Floor, Stability::Exponential(0.5)));
    assert!([light, free, border, full].iter().all(|e| e.is_stable()));
}

#[test]
fn demand_is_tracked_down_and_up_again() {
    // Fig. 5(a): multi-hop demand falls from 1.2 Mbit/s in steps of 0.3 to zero and rises again, 30
    // s each; two hops use twice the air.
    let g = branch();
    let steps = [1.2, 0.9, 0.6, 0.3, 0.0, 0.3, 0.6, 0.9, 1.2];
    let load = |mbit: f64| Load { single: f64::INFINITY, multi: 2.0 * mbit * 1e6 };
    let loads: Vec<(f64, Load)> = steps.iter().map(|&m| (30.0, load(m))).collect();
    let moments = g.follow(start(&g), &loads, 0.01);
    for (i, &(_, load)) in loads.iter().enumerate() {
        let end = 30.0 * (i + 1) as f64 - 0.5;
        let at = moments.iter().find(|m| m.time >= end).unwrap();
        let rest = g.equilibrium(load);
        assert!(close(at.single, rest.single), "step {i}: {} {}", at.single, rest.single);
        // The backlog of the neighbours' limited phase is gone, too.
        assert!(close(at.multi, rest.multi), "step {i}: {} {}", at.multi, rest.multi);
    }
    assert_eq!(g.equilibrium(loads[0].1).regime, Regime::Saturated, "1.2 is more than its share");
}

#[test]
fn rise_and_decay_take_as_long_as_predicted() {
    let g = branch();
    let probability_off = Load { single: f64::INFINITY, multi: 0.0 };
    let low = State { limit: g.guarantee(), waiting: 1.0, backlog: 0.0 };
    let rise = g.follow(low, &[(60.0, probability_off)], 0.001);
    let there = rise.iter().find(|m| m.single >= g.threshold() * (1.0 - 1e-9)).unwrap();
    assert!((there.time - g.rise_time()).abs() < 0.01, "{} {}", there.time, g.rise_time());
    let full = Load { single: f64::INFINITY, multi: f64::INFINITY };
    let high = State { limit: g.threshold(), waiting: 1.0, backlog: 0.0 };
    let decay = g.follow(high, &[(60.0, full)], 0.001);
    let there = decay.iter().find(|m| m.single <= g.guarantee() * (1.0 + 1e-9)).unwrap();
    assert!((there.time - g.decay_time()).abs() < 0.01, "{} {}", there.time, g.decay_time());
}

#[test]
fn eight_neighbours_rise_eight_times_as_fast() {
    let of = |n| Gap::from_steps(1e6, 1e5, 0.1, (1e4, 0.9), (n, 0.1)).unwrap();
    assert!(close(of(8).rise_time() * 8.0, of(1).rise_time()));
    assert!(close(of(8).decay_time(), of(1).decay_time()));
}

#[test]
fn arrows_point_to_the_equilibrium() {
    let g = branch();
    let load = Load { single: f64::INFINITY, multi: 1e6 };
    let rest = g.equilibrium(load);
    let arrows = phase::field(&g, load, 1e6, 21, 5);
    assert_eq!(arrows.len(), 105);
    for a in &arrows {
        if a.at.backlog == 0.0 {
            let towards = (rest.limit - a.at.limit) * a.slope.limit;
            assert!(towards > 0.0 || (rest.limit - a.at.limit).abs() < 1.0, "{a:?}");
        } else {
            // A backlog is served first: the neighbours' limit falls.
            assert!(a.slope.limit < 0.0 || a.at.limit <= g.guarantee(), "{a:?}");
        }
    }
}

#[test]
fn impossible_parameters_are_refused() {
    let gap = |u, s, gamma, a, b| Gap::new(u, s, gamma, a, b).unwrap_err();
    assert_eq!(gap(0.0, 0.0, 0.1, 1.0, 1.0), GapError::Capacity(0.0));
    assert!(matches!(gap(f64::NAN, 0.0, 0.1, 1.0, 1.0), GapError::Capacity(_)));
    assert_eq!(gap(10.0, 11.0, 0.1, 1.0, 1.0), GapError::Guarantee(11.0));
    let gamma = gap(10.0, 4.0, 0.7, 1.0, 1.0);
    assert_eq!(gamma, GapError::Gamma { gamma: 0.7, limit: 0.6 });
    assert_eq!(
        gamma.to_string(),
        "gamma must be above 0 and at most 0.600, (U* - U_S*) / U*, not 0.7"
    );
    assert!(matches!(gap(10.0, 4.0, f64::NAN, 1.0, 1.0), GapError::Gamma { .. }));
    assert_eq!(gap(10.0, 4.0, 0.1, 1.0, 0.0), GapError::Step(0.0));
}

proptest! {
    /// From every start the system converges to the equilibrium, under every load.
    #[test]
    fn every_start_ends_at_the_equilibrium(
        share in 0.05..0.8f64,
        gamma in 0.02..0.15f64,
        limit in 0.0..1.0f64,
        backlog in 0.0..2.0f64,
        single in 0.0..2.0f64,
        multi in 0.0..0.9f64,
    ) {
        let g = Gap::new(1.0, share, gamma, 0.2, 1.0).unwrap();
        let load = Load { single, multi: multi * g.multi_share() };
        let begin = State { limit: share + limit * (1.0 - share), waiting: 0.0, backlog };
        let end = *g.follow(begin, &[(600.0, load)], 0.02).last().unwrap();
        let rest = g.equilibrium(load);
        prop_assert!((end.single - rest.single).abs() < 1e-3, "{:?} {:?}", end, rest);
        prop_assert!((end.multi - rest.multi).abs() < 1e-3, "{:?} {:?}", end, rest);
        prop_assert!(end.single + end.multi <= 1.0 + 1e-9);
        prop_assert!(rest.is_stable());
    }
}
