//! Switch between interfaces and the engine.
//!
//! Frames enter by their destination and leave at a node.
//!
//! Uses neither clock nor files: the same code runs in real time and over recorded input.

use std::sync::Arc;

use fairmesh_engine::EngineError;
use fairmesh_engine::external::{ExternalWorld, Port};
use fairmesh_scenario::Scenario;
use fairmesh_transport::quic::Ecn;
use fairmesh_units::{NodeId, Time};

use crate::frame::{self, Frames};
use crate::plan::{InterfacePlan, Plan, Side};

/// A frame that entered the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// Engine events before it.
    pub after: u64,
    /// Time of entry.
    pub at: Time,
    /// Port at which it entered.
    pub port: Port,
    /// IP bytes.
    pub bytes: u32,
    /// The ECN field of their header.
    pub ecn: Ecn,
}

/// Counters of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames from its namespace.
    pub accepted: u64,
    /// Frames to its namespace.
    pub delivered: u64,
    /// Frames without a recipient.
    pub unreachable: u64,
}

/// The engine and the interfaces of its nodes.
pub struct Switch {
    world: ExternalWorld,
    interfaces: Vec<InterfacePlan>,
    /// Per interface of a wire, the one at its other end.
    opposite: Vec<Option<usize>>,
    /// Per wireless node, its radio.
    radios: Vec<Option<usize>>,
    frames: Frames,
    /// Per frame number: the interface at the end of its wire, `None` for the radio.
    ends: Vec<Option<usize>>,
    counters: Vec<SwitchCounters>,
    events: u64,
    log: Option<Vec<Input>>,
}

impl Switch {
    /// Creates an idle engine at time zero. With `log`, records every frame that enters.
    ///
    /// # Errors
    /// Returns an error if the engine rejects the scenario.
    pub fn new(
        scenario: &Scenario,
        plan: &Plan,
        seed: u64,
        log: bool,
    ) -> Result<Self, EngineError> {
        let interfaces = plan.interfaces.clone();
        let opposite = |i: &InterfacePlan| match i.side {
            Side::Radio => None,
            Side::Wire { wire, b } => {
                interfaces.iter().position(|o| o.side == Side::Wire { wire, b: !b })
            }
        };
        let mut radios = vec![None; scenario.nodes().len()];
        for (i, interface) in interfaces.iter().enumerate() {
            if interface.side == Side::Radio {
                radios[interface.node.index()] = Some(i);
            }
        }
        Ok(Switch {
            world: ExternalWorld::new(Arc::new(scenario.clone()), seed)?,
            opposite: interfaces.iter().map(opposite).collect(),
            radios,
            counters: vec![SwitchCounters::default(); interfaces.len()],
            interfaces,
            frames: Frames::default(),
            ends: Vec::new(),
            events: 0,
            log: log.then(Vec::new),
        })
    }

    /// Returns true if the engine takes a frame of this interface now.
    ///
    /// A node's kernel keeps its frames while the MAC's queue holds as many as the engine takes
    /// ahead.
    pub fn has_room(&self, interface: usize) -> bool {
        let i = &self.interfaces[interface];
        i.ahead.is_none_or(|ahead| self.world.waiting(i.node) < ahead)
    }

    /// Passes a frame that a namespace sent through an interface to the engine.
    pub fn accept(&mut self, at: Time, interface: usize, content: &[u8]) {
        let Some((to, bytes)) = frame::parse(content) else { return };
        let i = &self.interfaces[interface];
        let port = match i.side {
            Side::Wire { wire, b } => Some(self.world.wire(wire, b)),
            Side::Radio if to.is_group() => Some(self.world.broadcast(i.node)),
            Side::Radio => to.node().and_then(|n| self.world.link(i.node, NodeId(u32::from(n)))),
        };
        let counters = &mut self.counters[interface];
        let Some(port) = port else {
            counters.unreachable += 1;
            return;
        };
        counters.accepted += 1;
        let number = self.offer(at, port, bytes, frame::ecn(content));
        self.frames.put(number, content);
        let i = number as usize;
        if self.ends.len() <= i {
            self.ends.resize(i + 1, None);
        }
        self.ends[i] = self.opposite[interface];
    }

    fn offer(&mut self, at: Time, port: Port, bytes: u32, ecn: Ecn) -> u32 {
        if let Some(log) = &mut self.log {
            log.push(Input { after: self.events, at, port, bytes, ecn });
        }
        self.world.offer(at, port, bytes, ecn).0
    }

    /// Returns the time of the engine's next event.
    pub fn next_deadline(&mut self) -> Time {
        self.world.next_deadline()
    }

    /// Processes the engine's next event.
    ///
    /// `deliver` gets each arrival: interface, instant and content.
    pub fn step(&mut self, mut deliver: impl FnMut(usize, Time, &[u8])) {
        self.world.step();
        self.events += 1;
        for arrival in self.world.arrivals().drain(..) {
            let number = arrival.frame.0;
            let end = self.ends[number as usize].or(self.radios[arrival.node.index()]);
            if let Some(interface) = end {
                self.counters[interface].delivered += 1;
                if arrival.ce {
                    self.frames.mark(number);
                }
                deliver(interface, arrival.at, self.frames.get(number));
            }
        }
    }

    /// Returns the time of the latest event or frame.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// Returns the engine.
    pub fn world(&self) -> &ExternalWorld {
        &self.world
    }

    /// Returns the counters of an interface.
    pub fn counters(&self, interface: usize) -> SwitchCounters {
        self.counters[interface]
    }

    /// Returns the engine, and the recorded input.
    pub fn into_parts(self) -> (ExternalWorld, Vec<Input>) {
        (self.world, self.log.unwrap_or_default())
    }
}

/// Runs recorded input under a virtual clock until `end`; returns the engine.
///
/// # Errors
/// Returns an error if the engine rejects the scenario.
pub fn replay(
    scenario: &Scenario,
    seed: u64,
    inputs: &[Input],
    end: Time,
) -> Result<ExternalWorld, EngineError> {
    let mut world = ExternalWorld::new(Arc::new(scenario.clone()), seed)?;
    let mut events = 0;
    for input in inputs {
        while events < input.after {
            world.step();
            world.arrivals().clear();
            events += 1;
        }
        world.offer(input.at, input.port, input.bytes, input.ecn);
    }
    while world.next_deadline() < end {
        world.step();
        world.arrivals().clear();
    }
    Ok(world)
}
