//! The state of a run at one instant, in numbers.

use serde::{Deserialize, Serialize};

use crate::world::World;
use fairmesh_units::Time;

/// Progress and current measures of a [`Simulation`](super::Simulation).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Simulated time, in s.
    pub time_s: f64,
    /// Simulated time at the end of the scenario, in s.
    pub duration_s: f64,
    /// Events so far.
    pub events: u64,
    /// PHY transmissions so far.
    pub transmissions: u64,
    /// One entry per flow, in scenario order.
    pub flows: Vec<FlowSnapshot>,
    /// One entry per wireless node, in scenario order.
    pub queues: Vec<QueueSnapshot>,
}

/// One flow's measures so far.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowSnapshot {
    /// Flow name.
    pub name: String,
    /// Application bytes delivered in order, warm-up included.
    pub delivered_bytes: u64,
    /// Goodput since the warm-up, bit/s; `None` during the warm-up.
    pub goodput_bps: Option<f64>,
}

/// The transmit queue of one node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QueueSnapshot {
    /// Node name.
    pub node: String,
    /// Waiting packets, those of a control's classes included.
    pub packets: u32,
}

impl Snapshot {
    /// Returns the simulated fraction of the duration, in [0, 1].
    pub fn progress(&self) -> f64 {
        self.time_s / self.duration_s
    }
}

/// Reads the meters of a world.
pub(super) fn of<const WATCH: bool, const HOST: bool>(world: &World<WATCH, HOST>) -> Snapshot {
    let scenario = &world.scenario;
    let measured = world.now.since(Time::ZERO + scenario.warmup()).as_secs_f64();
    let flow = |(spec, flow): (&fairmesh_scenario::Flow, &crate::net::FlowState)| FlowSnapshot {
        name: spec.name.clone(),
        delivered_bytes: flow.meters.delivered,
        goodput_bps: (measured > 0.0)
            .then(|| flow.meters.delivered_measured as f64 * 8.0 / measured),
    };
    let queue = |(n, id): (usize, fairmesh_units::NodeId)| QueueSnapshot {
        node: scenario.nodes()[id.index()].name.clone(),
        packets: world.net.waiting(n),
    };
    Snapshot {
        time_s: world.now.as_secs_f64(),
        duration_s: scenario.duration().as_secs_f64(),
        events: world.events,
        transmissions: world.air.transmissions(),
        flows: scenario.flows().iter().zip(&world.net.flows).map(flow).collect(),
        queues: scenario.wireless().enumerate().map(queue).collect(),
    }
}
