//! Fair rates of a scenario, island by island.

use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Time};

use crate::error::EngineError;
use crate::fair::{FairRates, aggregates, of_one};
use crate::islands::islands;

/// Computes the fair rate of each flow.
///
/// # Errors
/// If the capacity model rejects the scenario: a path over a link that never delivers.
pub fn fair_rates(scenario: &Scenario) -> Result<FairRates, EngineError> {
    let islands = islands(scenario).list;
    if islands.iter().filter(|i| !i.flows.is_empty()).count() <= 1 {
        return of_one(scenario);
    }
    // Each island by itself, as in a run of it: rates of the one do not round those of the other.
    let mut whole = FairRates::steady(scenario, Vec::new());
    whole.upper_bound = aggregates(scenario);
    let mut parts = Vec::with_capacity(islands.len());
    for island in islands.iter().filter(|i| !i.flows.is_empty()) {
        let fair = of_one(&island.part(scenario))?;
        for (k, &flow) in island.flows.iter().enumerate() {
            whole.rates_bps[flow] = fair.rates_bps[k];
            let link =
                |(a, b): (NodeId, NodeId)| (island.nodes[a.index()], island.nodes[b.index()]);
            whole.bottleneck[flow] = fair.bottleneck[k].map(link);
        }
        parts.push((island, fair.changes));
    }
    let mut instants: Vec<Time> = parts.iter().flat_map(|p| p.1.iter().map(|c| c.0)).collect();
    instants.sort_unstable();
    instants.dedup();
    let at = |instant: Time| {
        let mut rates = vec![0.0; scenario.flows().len()];
        for (island, changes) in &parts {
            let last = changes.iter().take_while(|c| c.0 <= instant).last();
            let own = last.into_iter().flat_map(|c| &c.1);
            island.flows.iter().zip(own).for_each(|(&flow, &rate)| rates[flow] = rate);
        }
        (instant, rates)
    };
    whole.changes = instants.into_iter().map(at).collect();
    let hops: Vec<u32> = scenario.flows().iter().map(|f| f.wireless_hops).collect();
    whole.utilization = crate::measures::utilization(&whole.rates_bps, &hops);
    Ok(whole)
}
