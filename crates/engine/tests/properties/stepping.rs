//! Steps, cancellation and threads have no influence on the record.

use std::thread;

use fairmesh_engine::observe::AirFrame;
use fairmesh_engine::{
    CancelToken, EngineError, Inputs, Observer, RunOptions, Simulation, Status, run,
};
use fairmesh_scenario::Scenario;
use fairmesh_units::{Span, Time};
use proptest::prelude::*;

use super::{essence, options, recipe};

fn simulation(scenario: &Scenario, options: &RunOptions, cancel: &CancelToken) -> Simulation {
    let inputs = Inputs::analytic(scenario, None).unwrap();
    let inputs = Inputs { cancel: cancel.clone(), ..inputs };
    Simulation::new(scenario.clone().into(), options, inputs).unwrap()
}

/// A number of steps of one kind.
#[derive(Clone, Copy, Debug)]
enum Steps {
    Events(u32),
    Nanoseconds(u32),
    Span(u64),
}

fn steps() -> impl Strategy<Value = Vec<Steps>> {
    let one = prop_oneof![
        (1u32..300).prop_map(Steps::Events),
        (1u32..50).prop_map(Steps::Nanoseconds),
        (1u64..200_000_000).prop_map(Steps::Span),
    ];
    // The list is repeated to the end of the run, so each pass must advance.
    let last = (20_000_000u64..200_000_000).prop_map(Steps::Span);
    (prop::collection::vec(one, 1..8), last).prop_map(|(mut steps, last)| {
        steps.push(last);
        steps
    })
}

fn take(simulation: &mut Simulation, steps: Steps) {
    match steps {
        Steps::Events(n) => (0..n).for_each(|_| {
            simulation.step();
        }),
        Steps::Nanoseconds(n) => (0..n).for_each(|_| {
            let until = simulation.now() + Span::from_nanos(1);
            assert_ne!(simulation.advance(until), Status::Cancelled);
            assert!(simulation.now() >= until || simulation.advance(until) == Status::Ended);
        }),
        Steps::Span(ns) => {
            simulation.advance(simulation.now() + Span::from_nanos(ns));
        }
    }
}

/// Observer that cancels its run at the first frame after an instant.
struct CancelsAt(Time, CancelToken);

impl Observer for CancelsAt {
    fn frame(&mut self, frame: &AirFrame) {
        if frame.start >= self.0 {
            self.1.cancel();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn steps_of_any_size_change_nothing(
        recipe in recipe(), seed in 0u64..1000, steps in steps(), links in any::<bool>(),
    ) {
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let sample = Some(Span::from_millis(70));
        let options = RunOptions { sample, links, acknowledged: links, ..options(seed) };
        let whole = run(&scenario, &options).unwrap();
        let mut simulation = simulation(&scenario, &options, &CancelToken::default());
        let mut before = simulation.snapshot();
        for steps in steps.iter().cycle() {
            take(&mut simulation, *steps);
            let now = simulation.snapshot();
            prop_assert!(now.time_s >= before.time_s && now.events >= before.events);
            let delivered = now.flows.iter().zip(&before.flows);
            prop_assert!(delivered.clone().all(|(n, b)| n.delivered_bytes >= b.delivered_bytes));
            before = now;
            if simulation.advance(simulation.now()) == Status::Ended {
                break;
            }
        }
        // The last snapshot agrees with the record.
        prop_assert_eq!(before.progress(), 1.0);
        prop_assert_eq!(before.events, whole.totals.events);
        for (now, flow) in before.flows.iter().zip(&whole.flows) {
            prop_assert_eq!(now.goodput_bps, Some(flow.goodput_bps));
        }
        let stepped = simulation.finish().unwrap();
        prop_assert_eq!(format!("{whole:?}"), format!("{stepped:?}"));
    }

    #[test]
    fn single_events_change_nothing(recipe in recipe(), seed in 0u64..1000) {
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let whole = run(&scenario, &options(seed)).unwrap();
        let mut simulation = simulation(&scenario, &options(seed), &CancelToken::default());
        let mut steps = 0;
        while simulation.step() == Status::Running {
            steps += 1;
        }
        // One source may send several datagrams ahead of the radio in one step.
        prop_assert!(steps <= whole.totals.events);
        prop_assert_eq!(essence(&whole), essence(&simulation.finish().unwrap()));
    }

    #[test]
    fn a_cancelled_run_stops_soon_and_its_repetition_is_complete(
        recipe in recipe(), seed in 0u64..1000, at in 0u64..4_000,
    ) {
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let at = Time::ZERO + Span::from_millis(at);
        let cancel = CancelToken::default();
        let observer: Option<Box<dyn Observer>> = Some(Box::new(CancelsAt(at, cancel.clone())));
        let inputs = Inputs::analytic(&scenario, None).unwrap();
        let inputs = Inputs { observer, cancel: cancel.clone(), ..inputs };
        let mut first =
            Simulation::new(scenario.clone().into(), &options(seed), inputs).unwrap();
        let status = first.advance(Time::NEVER);
        prop_assert_eq!(status == Status::Cancelled, cancel.is_cancelled());
        if status == Status::Cancelled {
            let now = first.snapshot();
            prop_assert_eq!(first.step(), Status::Cancelled);
            prop_assert_eq!(first.advance(Time::NEVER), Status::Cancelled);
            prop_assert_eq!(first.snapshot(), now);
            prop_assert_eq!(first.finish().unwrap_err(), EngineError::Cancelled);
        }
        let again = simulation(&scenario, &options(seed), &CancelToken::default());
        let whole = run(&scenario, &options(seed)).unwrap();
        prop_assert_eq!(essence(&again.finish().unwrap()), essence(&whole));
    }

    #[test]
    fn moves_between_threads_change_nothing(recipe in recipe(), seed in 0u64..1000) {
        let Some(scenario) = recipe.build() else { return Ok(()) };
        let whole = run(&scenario, &options(seed)).unwrap();
        let mut simulation = simulation(&scenario, &options(seed), &CancelToken::default());
        drop(scenario);
        for _ in 0..4 {
            let step = move || {
                simulation.advance(simulation.now() + Span::from_millis(900));
                simulation
            };
            simulation = thread::spawn(step).join().unwrap();
        }
        prop_assert_eq!(essence(&whole), essence(&simulation.finish().unwrap()));
    }
}

#[test]
fn cancellation_takes_effect_within_twenty_milliseconds() {
    let text = "duration = \"10 s\"\n[topology]\nlinks = [[0, 1]]\n[[flow]]\nfrom = 0\nto = 1\n";
    let scenario = fairmesh_scenario::draft_from_toml("pair.toml", text).unwrap().build().unwrap();
    let cancel = CancelToken::default();
    let at = Time::ZERO + Span::from_millis(1_234);
    let observer: Option<Box<dyn Observer>> = Some(Box::new(CancelsAt(at, cancel.clone())));
    let inputs = Inputs { observer, cancel, ..Inputs::default() };
    let mut simulation = Simulation::new(scenario.into(), &RunOptions::default(), inputs).unwrap();
    assert_eq!(simulation.advance(Time::NEVER), Status::Cancelled);
    let late = simulation.now().since(at);
    assert!(late <= Span::from_millis(21), "{late}");
}
