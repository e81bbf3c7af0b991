//! What a search leaves behind.

use fairmesh_engine::measures;
use fairmesh_scenario::Scenario;
use serde::{Deserialize, Serialize};

use super::groups::Stop;
use super::meter::Meter;
use super::search::Found;
use super::settings::{Group, Settings};
use super::steady::Steady;

/// One flow while the same flows are there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StretchFlow {
    /// Index of the flow.
    pub flow: usize,
    /// Its max-min rate, bit/s of application data.
    pub optimum_bps: f64,
    /// What it receives when all are limited, mean over the seeds of the check: within the tolerance
    /// of the optimum.
    pub received_bps: f64,
    /// The limit of its application under which it does, bit/s of application data: the optimum, or
    /// more for datagrams that are lost on the way.
    pub limit_bps: f64,
    /// Why it has no more.
    pub stop: Stop,
}

/// A part of the measured time in which the same flows are there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stretch {
    /// Share of the measured time.
    pub share: f64,
    /// The flows that are there.
    pub flows: Vec<StretchFlow>,
    /// Whether the search ended at its bound of effort: flows may be able to have more.
    #[serde(default)]
    pub bounded: bool,
}

/// One flow over the measured time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowOptimum {
    /// Its name.
    pub name: String,
    /// Its max-min rate, bit/s of application data averaged over the measured time.
    pub optimum_bps: f64,
    /// What an application of pages and files asks for while it is there, bit/s, as measured; absent
    /// where the traffic says it.
    #[serde(default)]
    pub demand_bps: Option<f64>,
}

/// The max-min rates that the simulator carries.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Optimum {
    /// One entry per flow, in scenario order.
    pub flows: Vec<FlowOptimum>,
    /// Who counted as one.
    pub groups: Vec<Group>,
    /// Parts of the measured time with the same flows, each once.
    pub stretches: Vec<Stretch>,
    /// How it was measured.
    pub settings: Settings,
    /// Simulations that the search took.
    pub runs: u64,
    /// Events that they handled.
    pub events: u64,
}

impl Optimum {
    /// The rates, in scenario order, bit/s.
    pub fn rates_bps(&self) -> Vec<f64> {
        self.flows.iter().map(|f| f.optimum_bps).collect()
    }

    /// Smallest rate of a group over its optimum; groups whose optimum is 0 do not count, and 0 if
    /// none does.
    pub fn min_over(&self, goodput_bps: &[f64]) -> f64 {
        measures::min_over_fair(&self.by_group(goodput_bps), &self.by_group(&self.rates_bps()))
    }

    /// Sum of the rates over the sum of the optimum; 0 if that is 0.
    pub fn sum_over(&self, goodput_bps: &[f64]) -> f64 {
        let optimum: f64 = self.rates_bps().iter().sum();
        if optimum > 0.0 { goodput_bps.iter().sum::<f64>() / optimum } else { 0.0 }
    }

    /// Jain's index of the groups' rates over their optima.
    pub fn jain(&self, goodput_bps: &[f64]) -> f64 {
        measures::jain_normalized(&self.by_group(goodput_bps), &self.by_group(&self.rates_bps()))
    }

    fn by_group(&self, rates: &[f64]) -> Vec<f64> {
        let rate = |i: &usize| rates.get(*i).copied().unwrap_or(0.0);
        self.groups.iter().map(|g| g.flows.iter().map(rate).sum()).collect()
    }
}

/// Whole bits per second: what is kept reads back as it was, and no seed knows more.
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
