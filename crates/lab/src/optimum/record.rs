//! Results of a search.

use fairmesh_engine::measures;
use fairmesh_scenario::Scenario;
use serde::{Deserialize, Serialize};

use super::groups::Stop;
use super::meter::Meter;
use super::search::Found;
use super::settings::{Group, Settings};
use super::steady::Steady;

/// One flow during a stretch with constant flows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StretchFlow {
    /// Index of the flow.
    pub flow: usize,
    /// Max-min rate of the flow, bit/s of application data.
    pub optimum_bps: f64,
    /// Received rate when all flows are limited, bit/s, mean over the seeds of the check.
    /// It is within the tolerance of the optimum.
    pub received_bps: f64,
    /// Limit of its application for that, bit/s of application data.
    /// It is the optimum, or more for datagrams that are lost on the path.
    pub limit_bps: f64,
    /// Reason why the flow has no higher rate.
    pub stop: Stop,
}

/// A part of the measured time with constant flows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stretch {
    /// Share of the measured time.
    pub share: f64,
    /// The flows that are present.
    pub flows: Vec<StretchFlow>,
    /// True if the search ended at its effort limit: flows may be able to have more.
    #[serde(default)]
    pub bounded: bool,
}

/// One flow over the measured time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowOptimum {
    /// Name of the flow.
    pub name: String,
    /// Max-min rate of the flow, bit/s of application data averaged over the measured time.
    pub optimum_bps: f64,
    /// Measured demand of an application of pages and files while it is present, in bit/s.
    /// Absent if the traffic specifies it.
    #[serde(default)]
    pub demand_bps: Option<f64>,
}

/// The max-min rates that the simulator carries.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Optimum {
    /// One entry per flow, in scenario order.
    pub flows: Vec<FlowOptimum>,
    /// Groups of flows that share.
    pub groups: Vec<Group>,
    /// Parts of the measured time with constant flows, each once.
    pub stretches: Vec<Stretch>,
    /// Settings of the measurement.
    pub settings: Settings,
    /// Number of simulations of the search.
    pub runs: u64,
    /// Number of their events.
    pub events: u64,
}

impl Optimum {
    /// Returns the rates, in scenario order, bit/s.
    pub fn rates_bps(&self) -> Vec<f64> {
        self.flows.iter().map(|f| f.optimum_bps).collect()
    }

    /// Returns the smallest rate of a group over its optimum.
    ///
    /// Groups with an optimum of 0 do not count; 0 if none counts.
    pub fn min_over(&self, goodput_bps: &[f64]) -> f64 {
        measures::min_over_fair(&self.by_group(goodput_bps), &self.by_group(&self.rates_bps()))
    }

    /// Returns the sum of the rates over the sum of the optimum; 0 if that is 0.
    pub fn sum_over(&self, goodput_bps: &[f64]) -> f64 {
        let optimum: f64 = self.rates_bps().iter().sum();
        if optimum > 0.0 { goodput_bps.iter().sum::<f64>() / optimum } else { 0.0 }
    }

    /// Returns Jain's index of the groups' rates over their optima.
    pub fn jain(&self, goodput_bps: &[f64]) -> f64 {
        measures::jain_normalized(&self.by_group(goodput_bps), &self.by_group(&self.rates_bps()))
    }

    fn by_group(&self, rates: &[f64]) -> Vec<f64> {
        let rate = |i: &usize| rates.get(*i).copied().unwrap_or(0.0);
        self.groups.iter().map(|g| g.flows.iter().map(rate).sum()).collect()
    }
}

/// Rounds to whole bits per second, which read back exactly; no seed is more precise.
fn whole(rate: f64) -> f64 {
    rate.round()
}

pub(super) fn stretch(steady: &Steady, found: &Found) -> Stretch {
    let flow = |(i, f): (usize, &super::steady::SteadyFlow)| StretchFlow {
        flow: f.index,
        optimum_bps: whole(found.targets[i]),
        received_bps: whole(found.received[i]),
        limit_bps: whole(found.limits[i]),
        stop: found.stops[i],
    };
    let flows = steady.flows.iter().enumerate().map(flow).collect();
    Stretch { share: steady.share, flows, bounded: found.bounded }
}

pub(super) fn optimum(
    scenario: &Scenario,
    groups: &[Group],
    settings: &Settings,
    asked: &[Option<f64>],
    stretches: Vec<Stretch>,
    meter: &Meter<'_>,
) -> Optimum {
    let mut rates = vec![0.0; scenario.flows().len()];
    for stretch in &stretches {
        for f in &stretch.flows {
            rates[f.flow] += stretch.share * f.optimum_bps;
        }
    }
    let flow = |(i, rate): (usize, &f64)| FlowOptimum {
        name: scenario.flows()[i].name.clone(),
        optimum_bps: whole(*rate),
        demand_bps: asked[i],
    };
    let (runs, events) = meter.spent();
    Optimum {
        flows: rates.iter().enumerate().map(flow).collect(),
        groups: groups.to_vec(),
        stretches,
        settings: settings.clone(),
        runs,
        events,
    }
}
