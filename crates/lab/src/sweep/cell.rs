//! One run of a sweep, reduced to the data of its summary.

use fairmesh_engine::record::RunRecord;

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Value of every key.
    pub point: Vec<String>,
    /// Control.
    pub control: String,
    /// True if a part of the control is unpublished.
    pub ours: bool,
    /// Seed.
    pub seed: u64,
    /// Goodput per flow, in bit/s.
    pub goodput_bps: Vec<f64>,
    /// Fair rate per flow, bit/s; `None` if the run was given none.
    pub fair_bps: Option<Vec<f64>>,
    /// Wireless hops per flow.
    pub hops: Vec<u32>,
    /// Flow names.
    pub flows: Vec<String>,
    /// Indices of the flows of each subscriber.
    pub subscribers: Vec<Vec<usize>>,
    /// Mean delay per flow, s; `None` if nothing arrived.
    pub delay_s: Vec<Option<f64>>,
}

impl Cell {
    /// Builds the cell from the record of a run at a point.
    pub fn of(point: Vec<String>, control: String, r: &RunRecord) -> Self {
        let mean = |f: &fairmesh_engine::record::FlowRecord| {
            (f.packets_delivered > 0).then_some(f.delay_s.mean)
        };
        Cell {
            point,
            control,
            ours: r.ours,
            seed: r.seed,
            goodput_bps: r.flows.iter().map(|f| f.goodput_bps).collect(),
            fair_bps: r.flows.iter().map(|f| f.fair_bps).collect(),
            hops: r.flows.iter().map(|f| f.hops).collect(),
            flows: r.flows.iter().map(|f| f.name.clone()).collect(),
            subscribers: r.subscribers.iter().map(|s| s.flows.clone()).collect(),
            delay_s: r.flows.iter().map(mean).collect(),
        }
    }

    /// Returns the sums over each subscriber, and the values of flows without a subscriber.
    pub fn shared(&self, values: &[f64]) -> Vec<f64> {
        let value = |i: usize| values.get(i).copied().unwrap_or(0.0);
        let homes = self.subscribers.iter().map(|s| s.iter().map(|&i| value(i)).sum());
        let member = |i: &usize| self.subscribers.iter().any(|s| s.contains(i));
        homes.chain((0..values.len()).filter(|i| !member(i)).map(value)).collect()
    }
}
