//! The optimum: the max-min rates that the simulator itself carries (docs/models/optimum.md).
//!
//! It is found by a search over limits at the sources.
//!
//! [`find`] runs a scenario's own radio, queues and transports under the engine's own source
//! limiter. It raises all groups of flows together until the next step does not fit, fixes those that
//! cannot rise alone, and continues with the rest: progressive filling (Bertsekas & Gallager 1992
//! §6.5.2), in which "does it fit?" is a measurement. The result is then measured again with
//! other seeds, and that measurement is reported.

mod bench;
mod bound;
pub(crate) mod error;
mod fit;
mod groups;
mod kept;
mod meter;
mod record;
mod report;
mod rise;
mod search;
mod settings;
mod steady;

use std::ops::ControlFlow;

use fairmesh_scenario::Scenario;

pub use error::{GroupProblem, OptimumError};
pub use groups::Stop;
pub use kept::{Found, find_in};
pub use record::{FlowOptimum, Optimum, Stretch, StretchFlow};
pub use report::{FlowLine, ModelRates, OptimumReport, optimum_of};
pub use settings::{Group, Progress, Settings, SharingUnit};

/// Progress callback; called from any thread after each run.
///
/// `Break` cancels the search, also within its current runs: [`OptimumError::Run`] with
/// [`fairmesh_engine::EngineError::Cancelled`].
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Progress callback that does nothing.
pub fn unobserved(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Searches the optimum of a scenario; the scenario's control is not used.
///
/// `groups` are the units that share ([`Group::each`] for individual flows). The search runs on the
/// rayon pool in which it is called. Its result does not depend on the number of threads.
///
/// # Errors
/// Returns an error if groups or settings are invalid, or the engine rejects the scenario.
pub fn find(
    scenario: &Scenario,
    groups: &[Group],
    settings: &Settings,
    progress: OnProgress<'_>,
) -> Result<Optimum, OptimumError> {
    settings::check(scenario, groups, settings)?;
    let meter = meter::Meter::new(settings, progress);
    let asked = steady::asked(scenario, &settings.search, &meter)?;
    let mut stretches = Vec::new();
    let steady = steady::stretches(scenario, &asked)?;
    let mut left = steady.iter().filter(|s| !s.flows.is_empty()).count();
    for steady in steady {
        if steady.flows.is_empty() {
            stretches.push(Stretch { share: steady.share, flows: Vec::new(), bounded: false });
            continue;
        }
        let bench = bench::Bench::new(&steady, settings, &meter);
        let found = search::Search::new(&bench, groups, settings).run(left)?;
        left -= 1;
        stretches.push(record::stretch(&steady, &found));
    }
    Ok(record::optimum(scenario, groups, settings, &asked, stretches, &meter))
}

/// Returns the received rate of every flow in each stretch, bit/s by stretch and flow.
///
/// The sources are limited to `limits(stretch, flow)` of application data, to test a given vector.
/// Flows are those of the scenario. Rates are means over `seeds`.
///
/// # Errors
/// Returns an error if the engine rejects the scenario.
pub fn receive(
    scenario: &Scenario,
    optimum: &Optimum,
    seeds: &[u64],
    limits: &dyn Fn(&Stretch, &StretchFlow) -> f64,
) -> Result<Vec<Vec<f64>>, OptimumError> {
    let meter = meter::Meter::new(&optimum.settings, &unobserved);
    let asked: Vec<Option<f64>> = optimum.flows.iter().map(|f| f.demand_bps).collect();
    let stretches = steady::stretches(scenario, &asked)?;
    let each = stretches.iter().zip(&optimum.stretches).map(|(steady, stretch)| {
        let bench = bench::Bench::new(steady, &optimum.settings, &meter);
        let limits: Vec<f64> = stretch.flows.iter().map(|f| limits(stretch, f)).collect();
        let targets: Vec<f64> = stretch.flows.iter().map(|f| f.optimum_bps).collect();
        let received = match bench.measure(&[&limits], &targets, seeds, search::CHECK_LENGTH_FACTOR)
        {
            Ok(mut received) => received.remove(0),
            Err(meter::Halt::Failed(e)) => return Err(e),
            Err(meter::Halt::Spent) => unreachable!("no budget was given"),
        };
        let mut rates = vec![0.0; scenario.flows().len()];
        for (flow, rate) in stretch.flows.iter().zip(received.mean) {
            rates[flow.flow] = rate;
        }
        Ok(rates)
    });
    each.collect()
}
