//! A scenario, run to its end.

use fairmesh_control::Mechanism;
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;

use crate::collect::record;
use crate::error::EngineError;
use crate::fair::fair_rates;
use crate::host::{self, ControlAt};
use crate::observe::Observer;
use crate::record::RunRecord;
use crate::world::{RunOptions, World};

/// Runs a scenario to its end.
///
/// # Errors
/// See [`EngineError`]; nothing has run then.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunRecord, EngineError> {
    launch::<false>(scenario, options, &host::mechanism(scenario)?, None)
}

/// Runs a scenario to its end while `observer` sees every frame. The outcome is the same.
///
/// # Errors
/// See [`EngineError`]; nothing has run then.
pub fn run_observed(
    scenario: &Scenario,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<RunRecord, EngineError> {
    launch::<true>(scenario, options, &host::mechanism(scenario)?, Some(observer))
}

/// Runs a scenario to its end under a mechanism of the caller's, instead of its own control: one
/// that is in no registry ([`Mechanism::of`]), for instance.
///
/// # Errors
/// See [`EngineError`]; nothing has run then.
pub fn run_under(
    scenario: &Scenario,
    options: &RunOptions,
    mechanism: &Mechanism,
) -> Result<RunRecord, EngineError> {
    let record = launch::<false>(scenario, options, mechanism, None)?;
    Ok(RunRecord { control: mechanism.to_string(), ..record })
}

/// Starts the controls, and runs the world that serves them.
fn launch<'a, const WATCH: bool>(
    scenario: &'a Scenario,
    options: &RunOptions,
    mechanism: &Mechanism,
    observer: Option<&'a mut dyn Observer>,
) -> Result<RunRecord, EngineError> {
    if options.sample == Some(Span::ZERO) {
        return Err(EngineError::ZeroSample);
    }
    let fair = fair_rates(scenario)?;
    let controls = host::start(scenario, mechanism, &fair, options.seed)?;
    if controls.iter().any(ControlAt::needs_taps) {
        let mut world = World::<WATCH, true>::new(scenario, options, fair, controls, observer)?;
        let end = world.run();
        Ok(record(world, end))
    } else {
        let mut world = World::<WATCH, false>::new(scenario, options, fair, controls, observer)?;
        let end = world.run();
        Ok(record(world, end))
    }
}
