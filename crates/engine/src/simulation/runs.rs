//! Whole runs in one call.

use std::any::Any;
use std::sync::Arc;

use fairmesh_control::Mechanism;
use fairmesh_scenario::Scenario;

use super::{CancelToken, Inputs, Simulation};
use crate::error::EngineError;
use crate::observe::Observer;
use crate::record::RunRecord;
use crate::world::RunOptions;

/// Runs a scenario to its end, with the analytic fair rates if the capacity model has them.
///
/// # Errors
/// See [`EngineError`]; the run has then not started.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunRecord, EngineError> {
    let inputs = Inputs::analytic(scenario, None)?;
    Simulation::new(Arc::new(scenario.clone()), options, inputs)?.finish()
}

/// Runs a scenario to its end while `observer` receives every frame; returns both.
///
/// # Errors
/// See [`EngineError`]; the run has then not started.
pub fn run_observed<O: Observer>(
    scenario: &Scenario,
    options: &RunOptions,
    observer: O,
) -> Result<(RunRecord, O), EngineError> {
    run_observed_until(scenario, options, observer, CancelToken::default())
}

/// Runs a scenario to its end, or until `cancel` is used; returns record and observer.
///
/// `observer` receives every frame.
///
/// # Errors
/// See [`EngineError`].
///
/// # Panics
/// Never: the observer that a simulation returns is the one it was given.
pub fn run_observed_until<O: Observer>(
    scenario: &Scenario,
    options: &RunOptions,
    observer: O,
    cancel: CancelToken,
) -> Result<(RunRecord, O), EngineError> {
    let observer: Option<Box<dyn Observer>> = Some(Box::new(observer));
    let inputs = Inputs { observer, cancel, ..Inputs::analytic(scenario, None)? };
    let simulation = Simulation::new(Arc::new(scenario.clone()), options, inputs)?;
    let (record, observer) = simulation.finish_observed()?;
    let observer: Box<dyn Any> = observer.expect("a simulation keeps its observer");
    let observer = observer.downcast::<O>().expect("it is the one that was given");
    Ok((record, *observer))
}

/// Runs a scenario to its end under a given control instead of its own.
///
/// The control need not be in a registry ([`Mechanism::of`]).
///
/// # Errors
/// See [`EngineError`]; the run has then not started.
pub fn run_under(
    scenario: &Scenario,
    options: &RunOptions,
    mechanism: &Mechanism,
) -> Result<RunRecord, EngineError> {
    let inputs = Inputs::analytic(scenario, Some(mechanism.clone()))?;
    Simulation::new(Arc::new(scenario.clone()), options, inputs)?.finish()
}
