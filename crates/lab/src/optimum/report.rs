//! The optimum of a scenario beside the results of the analytic models.
//!
//! It is the object printed by `optimum --json`.

use std::num::NonZero;

use fairmesh_scenario::Scenario;
use serde::Serialize;

use super::{Found, OnProgress, Optimum, Settings, SharingUnit, Stop, find, find_in};
use crate::analysis::Capacity;
use crate::layout::{GENERATOR, SCHEMA};
use crate::{LabError, Store};

/// Takes the optimum of a scenario from a store, or searches it.
///
/// `threads` is the number of threads; `None` for all cores.
///
/// # Errors
/// Returns an error if the engine rejects the scenario, or a store cannot be read.
pub fn optimum_of(
    scenario: &Scenario,
    per: SharingUnit,
    store: Option<&Store>,
    threads: Option<NonZero<usize>>,
    progress: OnProgress<'_>,
) -> Result<Found, LabError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, NonZero::get))
        .build()
        .map_err(|e| LabError::wrong("threads", e))?;
    let (groups, settings) = (per.groups(scenario), Settings::default());
    let found = pool.install(|| match store {
        Some(store) => find_in(store, scenario, &groups, &settings, progress),
        None => find(scenario, &groups, &settings, progress).map(Found::searched),
    });
    found.map_err(|e| LabError::optimum(scenario, e))
}

/// An optimum with the analytic models beside it. Rates in bit/s of application data.
#[derive(Clone, Debug, Serialize)]
pub struct OptimumReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// One entry per flow, in scenario order.
    pub flows: Vec<FlowLine>,
    /// Sum of the optimum.
    pub sum_optimum_bps: f64,
    /// Sums of the models.
    pub sum_models_bps: ModelRates,
    /// The search itself: groups, stretches, limits, settings, cost.
    pub search: Optimum,
    /// True if the search ended at its effort limit: flows may be able to have more.
    pub bounded: bool,
    /// True if it was stored by an earlier search.
    pub kept: bool,
    /// [`GENERATOR`].
    pub generator: &'static str,
}

/// Max-min rates by the analytic models, named as in `capacity`.
/// `None` if the model rejects the scenario, or the flow does not use the air.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ModelRates {
    /// Collision domains of nodes that decode each other (Jamshaid 2010 §4.1).
    pub domains: Option<f64>,
    /// Cliques of links between nodes that sense each other.
    pub cliques: Option<f64>,
}

/// One flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowLine {
    /// Name.
    pub name: String,
    /// Source.
    pub from: String,
    /// Destination.
    pub to: String,
    /// Wireless hops.
    pub hops: u32,
    /// Weight.
    pub weight: f64,
    /// Max-min rate of the flow in the simulator, averaged over the measured time.
    pub optimum_bps: f64,
    /// Limit of its application for that rate; `None` if limits change with the flows.
    pub limit_bps: Option<f64>,
    /// Reason why the flow has no higher rate, in that case.
    pub stop: Option<Stop>,
    /// Results of the models.
    pub models_bps: ModelRates,
}

impl OptimumReport {
    /// Combines an optimum with the models' results.
    pub fn new(scenario: &Scenario, search: Optimum, kept: bool) -> Self {
        // A scenario that the models reject has an optimum too.
        let capacity = Capacity::of(scenario, None).ok();
        let name = |n: fairmesh_units::NodeId| scenario.nodes()[n.index()].name.clone();
        let rate = |model: &str, flow: &str| {
            let capacity = capacity.as_ref()?;
            let at = capacity.flows.iter().position(|f| f.name == flow)?;
            capacity.own(model)?.by(capacity.fair())?.rates_bps.get(at).copied()
        };
        let only = match search.stretches.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        let line = |(i, flow): (usize, &fairmesh_scenario::Flow)| {
            let steady = only.and_then(|s| s.flows.iter().find(|f| f.flow == i));
            FlowLine {
                name: flow.name.clone(),
                from: name(flow.from),
                to: name(flow.to),
                hops: flow.wireless_hops,
                weight: flow.weight,
                optimum_bps: search.flows[i].optimum_bps,
                limit_bps: steady.map(|f| f.limit_bps),
                stop: steady.map(|f| f.stop),
                models_bps: ModelRates {
                    domains: rate("domains", &flow.name),
                    cliques: rate("cliques", &flow.name),
                },
            }
        };
        let flows: Vec<FlowLine> = scenario.flows().iter().enumerate().map(line).collect();
        let sum = |of: &dyn Fn(&ModelRates) -> Option<f64>| {
            let rates: Vec<f64> = flows.iter().filter_map(|f| of(&f.models_bps)).collect();
            (!rates.is_empty()).then(|| rates.iter().sum())
        };
        OptimumReport {
            schema: SCHEMA,
            scenario: scenario.name().to_owned(),
            sum_optimum_bps: flows.iter().map(|f| f.optimum_bps).sum(),
            sum_models_bps: ModelRates {
                domains: sum(&|m| m.domains),
                cliques: sum(&|m| m.cliques),
            },
            flows,
            bounded: search.stretches.iter().any(|s| s.bounded),
            search,
            kept,
            generator: GENERATOR,
        }
    }
}
