//! The stretches of a scenario with constant flows over a constant network.

use std::sync::Arc;

use fairmesh_control::Mechanism;
use fairmesh_engine::{CapacityModel, EngineError, Inputs, RunOptions, Simulation};
use fairmesh_scenario::{Flow, Scenario, Transport};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::Span;
use rayon::prelude::*;

use super::error::OptimumError;
use super::meter::Meter;

/// A scenario in which nothing starts, stops or changes.
///
/// Every flow sends from the first second on.
#[derive(Clone, Debug)]
pub(super) struct Steady {
    /// Scenario with only the flows that are present.
    pub scenario: Scenario,
    /// One entry per flow of `scenario`.
    pub flows: Vec<SteadyFlow>,
    /// Share of the measured time that it lasts.
    pub share: f64,
}

/// Properties of a flow for the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct SteadyFlow {
    /// Index of the flow in the original scenario.
    pub index: usize,
    /// Weight among flows.
    pub weight: f64,
    /// Demand, bit/s of application data.
    pub demand: f64,
    /// Guaranteed rate, bit/s of application data.
    pub minimum: f64,
    /// Application bytes of a full packet.
    pub payload: f64,
    /// True if losses are not retransmitted: then more has to be sent than is to be received.
    pub datagrams: bool,
}

/// Maximum delay of flow starts, so that flows do not start in step.
const MAX_START_DELAY: Span = Span::from_secs(1);

/// Returns the stretches of the measured time, each once, with their shares of it.
///
/// `asked`: by flow, the measured demand of its application, where it had to be measured.
pub(super) fn stretches(
    scenario: &Scenario,
    asked: &[Option<f64>],
) -> Result<Vec<Steady>, OptimumError> {
    let end = scenario.duration();
    let mut instants = vec![scenario.warmup()];
    let flows = scenario.flows().iter().flat_map(|f| [Some(f.start), f.stop]).flatten();
    let noise = scenario.interferers().iter().flat_map(|i| [Some(i.start), i.stop]).flatten();
    let rates = scenario.rate_changes().iter().map(|c| c.at);
    let routes = scenario.route_changes().iter().map(|c| c.at);
    let within = |t: &Span| *t > scenario.warmup() && *t < end;
    instants.extend(flows.chain(noise).chain(rates).chain(routes).filter(within));
    instants.sort_unstable();
    instants.dedup();
    let measured = end.saturating_sub(scenario.warmup()).as_secs_f64();
    let mut found: Vec<(String, Steady)> = Vec::new();
    for (k, &from) in instants.iter().enumerate() {
        let to = instants.get(k + 1).copied().unwrap_or(end);
        let share = to.saturating_sub(from).as_secs_f64() / measured;
        let steady = at(scenario, asked, from, share)?;
        // A recurring stretch is solved once.
        let key = format!("{:?}", steady.scenario);
        match found.iter_mut().find(|(k, _)| *k == key) {
            Some((_, same)) => same.share += share,
            None => found.push((key, steady)),
        }
    }
    Ok(found.into_iter().map(|f| f.1).collect())
}

/// Returns the scenario as it is from `from` on.
fn at(
    scenario: &Scenario,
    asked: &[Option<f64>],
    from: Span,
    share: f64,
) -> Result<Steady, OptimumError> {
    let there = |start: Span, stop: Option<Span>| start <= from && stop.is_none_or(|s| from < s);
    let model = CapacityModel::new(scenario);
    let mut flows = Vec::new();
    for (index, flow) in scenario.flows().iter().enumerate() {
        if there(flow.start, flow.stop) {
            let spec = model.flow(index);
            let ceiling = asked.get(index).copied().flatten().unwrap_or(f64::INFINITY);
            flows.push(SteadyFlow {
                index,
                weight: flow.weight,
                demand: spec.demand.limit.min(ceiling),
                minimum: model.minimum(index).min(ceiling),
                payload: f64::from(spec.traffic.payload.max(1)),
                datagrams: matches!(flow.transport, Transport::Udp),
            });
        }
    }
    // Groups belong to the search, so the flows need no subscribers.
    let now = scenario.clone().at_instant(from).only_flows(|_, f| there(f.start, f.stop));
    let scenario = now.map_flows(|_, flow| *flow = lasting(flow))?;
    Ok(Steady { scenario, flows, share })
}

/// Returns a flow that is present all the time.
/// Pages and files become a stream: their demand is a limit.
fn lasting(flow: &Flow) -> Flow {
    let traffic = match flow.traffic {
        TrafficSpec::Files { .. } | TrafficSpec::Http { .. } => TrafficSpec::Bulk,
        other => other,
    };
    Flow {
        traffic,
        start: Span::ZERO,
        start_jitter: MAX_START_DELAY,
        stop: None,
        plan: None,
        guarantee: None,
        ..flow.clone()
    }
}

/// Returns the measured demand of each application of pages and files while present, bit/s.
///
/// The demand is the rate that the application receives when it is alone; `None` for all other
/// flows.
pub(super) fn asked(
    scenario: &Scenario,
    seeds: &[u64],
    meter: &Meter<'_>,
) -> Result<Vec<Option<f64>>, OptimumError> {
    let bursty = |f: &Flow| {
        matches!(f.traffic, TrafficSpec::Files { .. } | TrafficSpec::Http { .. })
            && !matches!(f.transport, Transport::Udp)
    };
    let jobs: Vec<(usize, u64)> = (0..scenario.flows().len())
        .filter(|&i| bursty(&scenario.flows()[i]))
        .flat_map(|i| seeds.iter().map(move |&s| (i, s)))
        .collect();
    let alone = |&(i, seed): &(usize, u64)| -> Result<f64, EngineError> {
        let only = scenario.clone().only_flows(|flow, _| flow == i);
        let only = only.with_control_everywhere(Mechanism::none());
        let options = RunOptions { seed, ..RunOptions::default() };
        let inputs = Inputs { cancel: meter.cancel.clone(), ..Inputs::analytic(&only, None)? };
        let record = Simulation::new(Arc::new(only.clone()), &options, inputs)?.finish()?;
        meter.count(record.totals.events, only.duration().as_secs_f64());
        Ok(record.flows[0].goodput_bps)
    };
    let received: Result<Vec<f64>, EngineError> = jobs.par_iter().map(alone).collect();
    let received = received.map_err(OptimumError::Run)?;
    let mut asked = vec![None; scenario.flows().len()];
    for (rates, jobs) in received.chunks(seeds.len()).zip(jobs.chunks(seeds.len())) {
        let i = jobs[0].0;
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let there = there(scenario, &scenario.flows()[i]);
        asked[i] = Some(if there > 0.0 { (mean / there).round() } else { 0.0 });
    }
    Ok(asked)
}

/// Returns the share of the measured time during which a flow is present.
fn there(scenario: &Scenario, flow: &Flow) -> f64 {
    let from = flow.start.max(scenario.warmup());
    let to = flow.stop.unwrap_or(Span::MAX).min(scenario.duration());
    let measured = scenario.duration().saturating_sub(scenario.warmup());
    to.saturating_sub(from).as_secs_f64() / measured.as_secs_f64()
}
