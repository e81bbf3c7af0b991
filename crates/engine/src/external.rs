//! A world with frames from outside: the engine of the emulator.
//!
//! The radio, the interface queues and the wires are the simulator's own; flows, transports and
//! forwarding are the caller's. A frame enters at a [`Port`], which is one hop: a radio link, a
//! node's broadcast or one direction of a wire. [`ExternalWorld::arrivals`] lists the frames that
//! have reached a node. The caller stores the content; the engine knows only lengths.
//!
//! The caller provides the time, so a run over recorded input is reproducible bit for bit.

use std::sync::Arc;

use fairmesh_scenario::Scenario;
use fairmesh_transport::quic::Ecn;
use fairmesh_units::{NodeId, Time};

use crate::airs::Airs;
use crate::error::EngineError;
use crate::net::{FlowState, Hop};
use crate::record::{Drops, RunRecord};
use crate::world::collect;
use crate::world::{Parts, RunOptions, World};

pub use crate::net::{Arrival, Frame};

/// One hop to which frames can be offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port(u32);

/// Frames that went through one port, over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Frames delivered at the other end.
    pub delivered: u64,
    /// IP bytes of the delivered frames.
    pub bytes: u64,
    /// Frames lost, by cause.
    pub drops: Drops,
}

/// The radio and wires of a scenario, driven from outside.
///
/// The scenario's flows and control are not used.
pub struct ExternalWorld {
    world: World<false, false>,
    /// Sorted by (from, to): the ports of radio links.
    links: Vec<(NodeId, NodeId, Port)>,
    /// First port of broadcasts, one per wireless node; then one per wire direction.
    broadcasts: u32,
    wires: u32,
    now: Time,
}

impl ExternalWorld {
    /// Builds the world of a scenario, idle at time zero.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(scenario: Arc<Scenario>, seed: u64) -> Result<Self, EngineError> {
        let air = Airs::new(&scenario, seed);
        let mut flows = Vec::new();
        let mut links = Vec::new();
        for l in scenario.links() {
            if let Some(link) = air.link(l.from, l.to) {
                links.push((l.from, l.to, Port(flows.len() as u32)));
                flows.push(FlowState::external(l.from.0, l.to.0, Hop::Radio { link }));
            }
        }
        let broadcasts = flows.len() as u32;
        for node in scenario.wireless() {
            flows.push(FlowState::external(node.0, node.0, Hop::Broadcast));
        }
        let wires = flows.len() as u32;
        for (i, wire) in scenario.wires().iter().enumerate() {
            for (k, (from, to)) in [(wire.a, wire.b), (wire.b, wire.a)].into_iter().enumerate() {
                let direction = (2 * i + k) as u32;
                flows.push(FlowState::external(from.0, to.0, Hop::Wire { direction }));
            }
        }
        let options = RunOptions { seed, ..RunOptions::default() };
        let parts = Parts { fair: None, air, controls: Vec::new(), flows };
        let mut world = World::assemble(scenario, &options, None, parts)?;
        // Ports count the whole run.
        world.net.measure_from = Time::ZERO;
        Ok(ExternalWorld { world, links, broadcasts, wires, now: Time::ZERO })
    }

    /// Returns the port of a radio link, if the second node decodes the first.
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<Port> {
        let at = self.links.binary_search_by_key(&(from, to), |l| (l.0, l.1)).ok()?;
        Some(self.links[at].2)
    }

    /// Returns the port of a wireless node's broadcasts.
    ///
    /// Broadcasts are sent once at the lowest basic rate.
    pub fn broadcast(&self, from: NodeId) -> Port {
        Port(self.broadcasts + from.0)
    }

    /// Returns the port of a wire by its number in the scenario, from end `a` or from end `b`.
    pub fn wire(&self, wire: usize, from_b: bool) -> Port {
        Port(self.wires + 2 * wire as u32 + u32::from(from_b))
    }

    /// Returns the number of packets that wait for a node's MAC, without the one in service.
    pub fn waiting(&self, node: NodeId) -> u32 {
        use fairmesh_queueing::Queue;
        self.world.net.interfaces[node.index()].queue.backlog().packets
    }

    /// Returns the number of packets at a node's radio, the one in service included.
    pub fn queued(&self, node: NodeId) -> u32 {
        self.world.net.interfaces[node.index()].length()
    }

    /// Returns the time of the latest event or offer.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the instant of the next event; [`Time::NEVER`] if there is none.
    pub fn next_deadline(&mut self) -> Time {
        let event = self.world.air.next_deadline().min(self.world.net.timers.earliest().0);
        event.min(self.world.next_change())
    }

    /// Processes the next event and returns its instant.
    pub fn step(&mut self) -> Time {
        let radio = self.world.air.next_deadline();
        let change = self.world.next_change();
        if change <= radio.min(self.world.net.timers.earliest().0) {
            if change != Time::NEVER {
                self.world.change(change);
                self.now = self.now.max(change);
            }
            return change;
        }
        let (timer, slot) = self.world.net.timers.earliest();
        let at = radio.min(timer);
        if at != Time::NEVER {
            self.world.happen(radio, timer, slot);
            self.now = self.now.max(at);
        }
        at
    }

    /// Offers a frame that carries `bytes` of IP datagram with the header field `ecn`.
    ///
    /// A full queue may refuse it, which is counted. `at` must be neither before the last event nor
    /// after the next.
    pub fn offer(&mut self, at: Time, port: Port, bytes: u32, ecn: Ecn) -> Frame {
        self.now = self.now.max(at);
        let handle = self.world.net.inject(at, port.0 as usize, bytes, ecn);
        self.world.kick(at);
        Frame(handle)
    }

    /// Returns the frames that have reached a node since this was last emptied, oldest first.
    pub fn arrivals(&mut self) -> &mut Vec<Arrival> {
        &mut self.world.net.arrivals
    }

    /// Returns the counters of a port.
    pub fn counters(&self, port: Port) -> PortCounters {
        let m = &self.world.net.flows[port.0 as usize].meters;
        PortCounters { delivered: m.packets_delivered, bytes: m.delivered, drops: m.drops }
    }

    /// Returns the number of transmissions so far.
    pub fn transmissions(&self) -> u64 {
        self.world.air.transmissions()
    }

    /// Returns a hash of every transmission so far.
    pub fn air_fingerprint(&self) -> u64 {
        self.world.air.fingerprint()
    }

    /// Returns the radio's results at `end`.
    ///
    /// They are node records, totals and a fingerprint over the transmissions and `delivered` (bytes and packets per
    /// flow). The caller adds flows and curves.
    pub fn finish(mut self, end: Time, delivered: &[(u64, u64)]) -> RunRecord {
        let scenario = Arc::clone(&self.world.scenario);
        let mut totals = collect::totals(&self.world);
        for flow in &self.world.net.flows {
            totals.drops.add(&flow.meters.drops);
        }
        let nodes = collect::nodes(&mut self.world, end, &mut totals);
        let air = self.world.air.fingerprint();
        let fingerprint = delivered.iter().fold(air, |f, d| collect::mix(f, d.0, d.1));
        RunRecord {
            scenario: scenario.name().to_owned(),
            control: scenario.control().to_string(),
            ours: scenario.controls_are_ours(),
            seed: self.world.options.seed,
            fingerprint: format!("{fingerprint:016x}"),
            duration_s: scenario.duration().as_secs_f64(),
            warmup_s: scenario.warmup().as_secs_f64(),
            flows: Vec::new(),
            subscribers: Vec::new(),
            links: collect::links(&scenario, &self.world.air),
            fair_is_upper_bound: false,
            nodes,
            totals,
            series: self.world.series,
            decisions: Vec::new(),
            emulation: None,
        }
    }
}
