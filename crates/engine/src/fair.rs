//! The analytic max-min allocation of a scenario, for comparison with measurements.

use fairmesh_capacity::fair::{FairError, FlowSpec, Radios, fair_allocation_above};
use fairmesh_capacity::maxmin::Limit;
use fairmesh_scenario::{Flow, Scenario};
use fairmesh_units::{NodeId, Span, Time};
use fairmesh_wifi::MacConfig;

use crate::error::EngineError;
use crate::model::CapacityModel;

/// Fair rates by the collision-domain model over transmission ranges.
///
/// Jamshaid 2010 §4.1, §7.2.
///
/// Flows that start late or stop early have a share only while they are present, so the allocation
/// changes with them.
#[derive(Clone, Debug)]
pub struct FairRates {
    /// Per flow: application goodput averaged over the measured interval, in bit/s.
    pub rates_bps: Vec<f64>,
    /// Σ rate × wireless hops of these rates, in bit/s.
    pub utilization: f64,
    /// Bottleneck link of each flow while all flows are present.
    ///
    /// It is a link in the middle of the collision domain that limits the flow; `None` if the flow is limited
    /// by its demand or by a wire.
    pub bottleneck: Vec<Option<(NodeId, NodeId)>>,
    /// True if radios aggregate frames.
    ///
    /// The model assumes aggregates of full size, so the rates are upper bounds.
    pub upper_bound: bool,
    /// Allocations with the instants from which they apply, earliest first.
    pub changes: Vec<(Time, Vec<f64>)>,
}

impl FairRates {
    /// Returns rates from another source that apply to the whole run.
    ///
    /// They are bit/s of application data per flow, 0 where `rates_bps` ends early.
    pub fn steady(scenario: &Scenario, mut rates_bps: Vec<f64>) -> Self {
        rates_bps.resize(scenario.flows().len(), 0.0);
        let hops: Vec<u32> = scenario.flows().iter().map(|f| f.wireless_hops).collect();
        FairRates {
            utilization: crate::measures::utilization(&rates_bps, &hops),
            bottleneck: vec![None; rates_bps.len()],
            upper_bound: false,
            changes: vec![(Time::ZERO, rates_bps.clone())],
            rates_bps,
        }
    }

    /// Returns the initial rates.
    pub fn at_start(&self) -> &[f64] {
        self.changes.first().map_or(&[], |c| &c.1)
    }
}

/// A rate and a limiting link per flow.
type Rates = Vec<(f64, Option<(NodeId, NodeId)>)>;

fn solve(model: &CapacityModel<'_>, active: impl Fn(usize) -> bool) -> Result<Rates, FairError> {
    let scenario = model.scenario;
    let there: Vec<usize> =
        (0..scenario.flows().len()).filter(|&i| active(i) && !model.dead(i)).collect();
    let mut flows: Vec<FlowSpec<'_>> = there.iter().map(|&i| model.flow(i)).collect();
    let minimum: Vec<f64> = there.iter().map(|&i| model.minimum(i)).collect();
    let each = model.radios();
    let radios = Radios::of(&scenario.mac().phy, &each);
    let in_range = &model.decodes;
    let allocate = |flows: &[FlowSpec<'_>]| {
        fair_allocation_above(radios, model.access, in_range, &model.links, flows, &minimum)
    };
    let groups = groups(scenario, &there);
    for group in &groups {
        for &k in &group.flows {
            flows[k].demand.weight = group.weight / group.flows.len() as f64;
        }
    }
    let mut found = allocate(&flows)?;
    for _ in 0..REDISTRIBUTION_ROUNDS {
        let satisfied = |k: usize| matches!(found.limits[k], Limit::Demand);
        let changes: Vec<bool> =
            groups.iter().map(|g| leave(g, &mut flows, &found.rates, satisfied)).collect();
        if !changes.contains(&true) {
            break;
        }
        found = allocate(&flows)?;
    }
    let mut rates = vec![(0.0, None); scenario.flows().len()];
    for (k, &i) in there.iter().enumerate() {
        rates[i].0 = found.rates[k];
        rates[i].1 = match found.limits[k] {
            Limit::Demand | Limit::Wire(_) => None,
            Limit::Domain(d) => found.links.get(d).map(|l| l.ends().into()),
        };
    }
    Ok(rates)
}

/// Flows of one subscriber, as indices among the flows that are present.
struct SubscriberFlows {
    weight: f64,
    flows: Vec<usize>,
}

/// Returns the subscribers that have flows present.
fn groups(scenario: &Scenario, there: &[usize]) -> Vec<SubscriberFlows> {
    let place = |f: usize| there.binary_search(&f).ok();
    let of = |s: &fairmesh_scenario::Subscriber| SubscriberFlows {
        weight: s.weight,
        flows: s.flows().filter_map(place).collect(),
    };
    scenario.subscribers().list.iter().map(of).filter(|g| !g.flows.is_empty()).collect()
}

/// Number of rounds in which a subscriber's unused share is given to its other flows.
const REDISTRIBUTION_ROUNDS: usize = 12;

/// Sets the weights of a subscriber's unsatisfied flows.
///
/// Together they then have its weight at their level.
/// The result is max-min among subscribers. Returns true if a weight changed.
fn leave(
    group: &SubscriberFlows,
    flows: &mut [FlowSpec<'_>],
    rates: &[f64],
    satisfied: impl Fn(usize) -> bool,
) -> bool {
    let level = |k: usize| rates[k] / flows[k].demand.weight;
    let open: Vec<usize> = group.flows.iter().copied().filter(|&k| !satisfied(k)).collect();
    let Some(level) = open.iter().map(|&k| level(k)).reduce(f64::min).filter(|l| *l > 0.0) else {
        return false;
    };
    let taken: f64 =
        group.flows.iter().filter(|k| satisfied(**k)).map(|&k| rates[k]).sum::<f64>() / level;
    let least = group.weight / group.flows.len() as f64;
    let weight = ((group.weight - taken) / open.len() as f64).max(least);
    let mut changed = false;
    for k in open {
        let own = &mut flows[k].demand.weight;
        changed |= (*own - weight).abs() > 1e-6 * weight;
        *own = weight;
    }
    changed
}

/// Returns true if any radio may send several packets in one frame.
pub(crate) fn aggregates(scenario: &Scenario) -> bool {
    let several = |mac: &MacConfig| mac.phy.as_modern().is_some_and(|m| m.ampdu > 0 || m.amsdu > 0);
    core::iter::once(scenario.mac()).chain(scenario.further().iter().map(|r| &r.mac)).any(several)
}

/// Computes the fair rates of a world of one island.
pub(crate) fn of_one(scenario: &Scenario) -> Result<FairRates, EngineError> {
    let model = CapacityModel::new(scenario);
    let until = |f: &Flow| f.stop.unwrap_or(Span::MAX);
    let mut instants: Vec<Span> = vec![Span::ZERO];
    for f in scenario.flows() {
        instants.extend([f.start, until(f)].into_iter().filter(|&t| t < scenario.duration()));
    }
    instants.sort_unstable();
    instants.dedup();

    let mut rates_bps = vec![0.0; scenario.flows().len()];
    let mut changes = Vec::with_capacity(instants.len());
    let measured = scenario.duration().saturating_sub(scenario.warmup()).as_secs_f64();
    for (k, &from) in instants.iter().enumerate() {
        let active = |i: usize| {
            let f = &scenario.flows()[i];
            f.start <= from && from < until(f)
        };
        let rates = solve(&model, active)?;
        let to = instants.get(k + 1).copied().unwrap_or(scenario.duration());
        let share = to.saturating_sub(from.max(scenario.warmup())).as_secs_f64() / measured;
        for (mean, (rate, _)) in rates_bps.iter_mut().zip(&rates) {
            *mean += rate * share;
        }
        changes.push((Time::ZERO + from, rates.into_iter().map(|r| r.0).collect()));
    }
    let hops: Vec<u32> = scenario.flows().iter().map(|f| f.wireless_hops).collect();
    Ok(FairRates {
        utilization: crate::measures::utilization(&rates_bps, &hops),
        rates_bps,
        upper_bound: aggregates(scenario),
        bottleneck: solve(&model, |_| true)?.into_iter().map(|r| r.1).collect(),
        changes,
    })
}
