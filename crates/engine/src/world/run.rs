//! A scenario, run to its end.

use fairmesh_control::Mechanism;
use fairmesh_queueing::DisciplineSpec;
use fairmesh_scenario::Scenario;
use fairmesh_units::Span;

use crate::error::EngineError;
use crate::fair::{FairRates, fair_rates};
use crate::host::{self, ControlAt, Controls};
use crate::observe::Observer;
use crate::record::RunRecord;
use crate::world::collect::record;
use crate::world::{RunOptions, World};

/// Runs a scenario to its end.
///
/// # Errors
/// See [`EngineError`]; nothing has run then.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunRecord, EngineError> {
    launch::<false>(scenario, options, Controls::of(scenario), fair_rates(scenario)?, None)
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
    launch::<true>(scenario, options, Controls::of(scenario), fair_rates(scenario)?, Some(observer))
}

/// Runs a scenario to its end under a mechanism of the caller's, instead of its own controls: one
/// that is in no registry ([`Mechanism::of`]), for instance.
///
/// # Errors
/// See [`EngineError`]; nothing has run then.
pub fn run_under(
    scenario: &Scenario,
    options: &RunOptions,
    mechanism: &Mechanism,
) -> Result<RunRecord, EngineError> {
    run_told(scenario, options, mechanism, fair_rates(scenario)?)
}

/// [`run_under`], where the mechanism is told other rates than the analytic ones: what a search or
/// an operator found, for instance. The record's `fair_bps` are these.
///
/// # Errors
/// See [`EngineError`]; nothing has run then.
pub fn run_told(
    scenario: &Scenario,
    options: &RunOptions,
    mechanism: &Mechanism,
    rates: FairRates,
) -> Result<RunRecord, EngineError> {
    let only = Controls { mechanism, at_gateways: None };
    let record = launch::<false>(scenario, options, only, rates, None)?;
    Ok(RunRecord { control: mechanism.to_string(), ..record })
}

/// Whether some queue charges neighbours for what is received from them.
fn charges_received(scenario: &Scenario) -> bool {
    let queues = scenario.nodes.iter().filter_map(|n| n.queue.as_ref()).chain([&scenario.queue]);
    let airtime =
        |d: &DisciplineSpec| matches!(d, DisciplineSpec::Stations(s) if s.airtime.is_some());
    queues.map(|q| &q.discipline).any(airtime)
}

/// Starts the controls, and runs the world that serves them.
fn launch<'a, const WATCH: bool>(
    scenario: &'a Scenario,
    options: &RunOptions,
    controls: Controls<'_>,
    fair: FairRates,
    observer: Option<&'a mut dyn Observer>,
) -> Result<RunRecord, EngineError> {
    if options.sample == Some(Span::ZERO) {
        return Err(EngineError::ZeroSample);
    }
    let controls = host::start(scenario, controls, &fair, options.seed)?;
    let listens = controls.iter().any(ControlAt::needs_listeners);
    if listens || options.acknowledged || options.links || charges_received(scenario) {
        let mut world = World::<WATCH, true>::new(scenario, options, fair, controls, observer)?;
        let end = world.run();
        Ok(record(world, end))
    } else {
        let mut world = World::<WATCH, false>::new(scenario, options, fair, controls, observer)?;
        let end = world.run();
        Ok(record(world, end))
    }
}
