use super::*;
use proptest::prelude::*;

fn losses(errors: &mut FrameErrors, frames: u64, gap: Span, bytes: u32, rate: Rate) -> f64 {
    let mut rng = Stream::new(1, "loss");
    let air = Span::from_millis(1);
    let lost = (0..frames)
        .filter(|i| errors.lost(Time::ZERO + gap * *i, air, bytes, rate, &mut rng))
        .count();
    lost as f64 / frames as f64
}

#[test]
fn independent_errors_have_the_given_frequency() {
    let gap = Span::from_millis(2);
    assert_eq!(losses(&mut FrameErrors::None, 1000, gap, 1500, Rate(0)), 0.0);
    let mut frame = FrameErrors::per_frame(0.25).unwrap();
    assert!((losses(&mut frame, 100_000, gap, 1500, Rate(0)) - 0.25).abs() < 0.005);
    assert_eq!(frame.delivery(1, Rate(3)), 0.75);
    let mut always = FrameErrors::per_frame(1.0).unwrap();
    assert_eq!(losses(&mut always, 1000, gap, 1500, Rate(0)), 1.0);
}

#[test]
fn bit_errors_depend_on_size_and_rate() {
    let mut e = FrameErrors::per_bit(&[0.0, 1e-5]).unwrap();
    let expected = 1.0 - (1.0_f64 - 1e-5).powi(12_000);
    assert_eq!(losses(&mut e, 1000, Span::from_millis(2), 1500, Rate(0)), 0.0);
    for rate in [Rate(1), Rate(3)] {
        let f = losses(&mut e, 100_000, Span::from_millis(2), 1500, rate);
        assert!((f - expected).abs() < 0.005, "{f} against {expected}");
    }
    let d = FrameErrors::per_bit_from_delivery(0.8, 1000).unwrap();
    assert!((d.delivery(1000, Rate(0)) - 0.8).abs() < 1e-12);
    assert!((d.delivery(500, Rate(2)) - 0.8_f64.sqrt()).abs() < 1e-12);
    assert_eq!(FrameErrors::per_bit_from_delivery(0.0, 1000).unwrap().delivery(1, Rate(0)), 0.0);
}

#[test]
fn published_chain_has_the_published_mean() {
    let m = ThreeStateModel::triantafyllidou(0.01).unwrap();
    let [good, bad, very_bad] = m.stationary();
    // Balance equations of Table 4.1 solved by hand: 1 : 0.033742 : 0.233129.
    assert!((bad / good - 0.033_742).abs() < 1e-6, "{:?}", m.stationary());
    assert!((very_bad / good - 0.233_129).abs() < 1e-6);
    assert!((good + bad + very_bad - 1.0).abs() < 1e-12);
    assert!((m.mean_error() - 0.010_387).abs() < 1e-6);
}

#[test]
fn long_run_error_rate_of_the_chain() {
    let model = Arc::new(ThreeStateModel::triantafyllidou(0.1).unwrap());
    let mean = model.mean_error();
    for gap in [Span::from_micros(20), Span::from_micros(90), Span::from_millis(3)] {
        let mut e = FrameErrors::ThreeState(ThreeState::new(model.clone()));
        let f = losses(&mut e, 400_000, gap, 1000, Rate(0));
        assert!((f - mean).abs() < 0.003, "{f} against {mean} at gaps of {gap}");
    }
}

#[test]
fn states_persist_over_short_gaps_only() {
    let model = Arc::new(ThreeStateModel::triantafyllidou(0.01).unwrap());
    let very_bad_again = |gap: Span| {
        let mut chain = ThreeState::new(model.clone());
        let mut rng = Stream::new(3, "chain");
        let states: Vec<State> =
            (0..100_000u64).map(|i| chain.advance(Time::ZERO + gap * i, &mut rng)).collect();
        let from = states.windows(2).filter(|w| w[0] == State::VeryBad).count();
        let stay = states.windows(2).filter(|w| w[0] == State::VeryBad && w[1] == w[0]).count();
        stay as f64 / from as f64
    };
    assert!((very_bad_again(Span::from_micros(20)) - 0.77).abs() < 0.01);
    let stationary = model.stationary()[State::VeryBad as usize];
    assert!((very_bad_again(Span::from_millis(2)) - stationary).abs() < 0.01);
}

#[test]
fn within_one_step_the_state_stays() {
    let model = Arc::new(ThreeStateModel::triantafyllidou(0.01).unwrap());
    let mut chain = ThreeState::new(model);
    let mut rng = Stream::new(5, "chain");
    let s = chain.advance(Time::from_nanos(20_000), &mut rng);
    let before = rng.clone().bits();
    assert_eq!(chain.advance(Time::from_nanos(39_999), &mut rng), s);
    assert_eq!(rng.bits(), before, "nothing was drawn");
}

#[test]
fn refusals() {
    assert_eq!(FrameErrors::per_frame(1.5).unwrap_err(), LossError::NotAProbability(1.5));
    assert_eq!(FrameErrors::per_bit(&[]).unwrap_err(), LossError::NoRate);
    assert_eq!(
        ThreeStateModel::triantafyllidou(0.3).unwrap_err(),
        LossError::NotAProbability(1.65)
    );
    let step = Span::from_micros(20);
    let new = |m| ThreeStateModel::new(m, [0.0; 3], step).unwrap_err();
    assert_eq!(new([[0.9, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), LossError::RowSum(0));
    // Absorbing in each state, and a cycle of period three.
    assert_eq!(new([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), LossError::NotErgodic);
    assert_eq!(new([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), LossError::NotErgodic);
    let table = ThreeStateModel::TABLE_4_1;
    assert_eq!(ThreeStateModel::new(table, [0.0; 3], Span::ZERO), Err(LossError::ZeroStep));
}

fn row() -> impl Strategy<Value = [f64; 3]> {
    (0.01..1.0, 0.01..1.0, 0.01..1.0).prop_map(|(a, b, c): (f64, f64, f64)| {
        let s = a + b + c;
        [a / s, b / s, c / s]
    })
}

proptest! {
    /// Jumping over a gap gives the same distribution as stepping through it.
    #[test]
    fn jumping_equals_stepping(rows in [row(), row(), row()], steps in 0u64..300, from in 0usize..3) {
        let m = ThreeStateModel::new(rows, [0.0; 3], Span::from_micros(20)).unwrap();
        let mut v = [0.0; 3];
        v[from] = 1.0;
        for _ in 0..steps {
            v = [0, 1, 2].map(|j| (0..3).map(|i| v[i] * rows[i][j]).sum());
        }
        let jump = m.after(STATES[from], steps);
        for j in 0..3 {
            prop_assert!((jump[j] - v[j]).abs() < 1e-9, "{jump:?} {v:?}");
        }
    }
}
