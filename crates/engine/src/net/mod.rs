//! The network above the MAC: queues, forwarding, transports, applications.

mod acknowledged;
mod arrival;
mod connection;
mod echoes;
mod endpoints;
mod flow;
mod forward;
mod interface;
mod lanes;
mod links;
mod listening;
mod mac;
mod messages;
mod meters;
mod packet;
mod signs;
mod sources;
mod stamps;
mod wire;

use fairmesh_scenario::Scenario;
use fairmesh_units::{BitRate, NodeId, Time, Tournament};
use fairmesh_wifi::Access;

use crate::classes::ByteClasses;
use crate::listeners::{Listeners, SWEEP_INTERVAL};
use crate::observe::{AirPacket, Observer};
use echoes::Echoes;
use packet::Packets;
use signs::Signs;
use sources::Owners;
use stamps::Stamps;

pub(crate) use acknowledged::AckDelays;
pub use arrival::{Arrival, Frame};
pub(crate) use flow::{Ends, FlowState, Hop};
pub(crate) use interface::Interface;
pub(crate) use lanes::Lanes;
pub(crate) use links::{LinkMeter, LinkMeters};
pub(crate) use meters::Meters;
pub(crate) use wire::WireDirection;

/// The network above the radio.
///
/// `WATCH`: the observer receives every frame. `HOST`: a control or measure needs more than counters and limits, which
/// `listeners`, `signs` and `ack_delays` serve; other runs pay no cost for it.
pub(crate) struct Net<const WATCH: bool, const HOST: bool> {
    pub packets: Packets,
    /// Packets that reached their endpoint, and those with a replaced connection.
    pub arrived: u64,
    pub stale: u64,
    /// Per wireless node.
    pub interfaces: Vec<Interface>,
    /// Per wireless node, queues of the other access categories; empty if there are none.
    pub lanes: Vec<Lanes>,
    pub flows: Vec<FlowState>,
    pub wires: Vec<WireDirection>,
    /// One timer per flow, per wire direction, per interface, in this order.
    pub timers: Tournament,
    /// Flows with a first queue of their own.
    owners: Owners,
    /// Interfaces with a MAC to be notified after the event.
    pub kicks: Vec<NodeId>,
    /// Start of the measured interval.
    pub measure_from: Time,
    /// Classes of controls, and per node the index of its set.
    pub classes: Vec<ByteClasses>,
    classes_at: Vec<Option<u32>>,
    controls: usize,
    /// Per node where a control counts them: data that left it, per flow.
    pub departed: Vec<Vec<Departed>>,
    /// Per node where a control requests them: signs read from TCP's headers, per flow.
    pub signs: Vec<Vec<Signs>>,
    /// Timestamps of TCP, where a control reads headers.
    stamps: Option<Stamps>,
    /// Echo probes of controls, by node.
    pub echoes: Vec<Echoes>,
    /// State of listening controls and of their fields in packets; idle unless `HOST`.
    pub listeners: Listeners,
    /// Frames from outside that reached a node, oldest first.
    pub arrivals: Vec<Arrival>,
    pub observer: Option<Box<dyn Observer>>,
    /// Numbers of flows in queues; empty if these are their indices.
    pub numbers: Vec<u32>,
    /// Per node, if observed: the packets in its MAC as they were passed to it, by handle.
    ///
    /// A receiver may have passed one up, and its handle may belong to another packet, before a
    /// category is notified.
    snapshots: Vec<Vec<((u32, Access), AirPacket)>>,
    /// State of the acknowledgement delay, if a run measures it.
    pub ack_delays: Option<AckDelays>,
    pub links: Option<LinkMeters>,
    /// Aggregates observed.
    aggregates: u32,
    /// Per radio, when observed.
    radio_descriptions: Vec<RadioDescription>,
}

/// Properties of a radio's frames for an observer.
pub(crate) struct RadioDescription {
    /// By number of the PHY's rate.
    rates: Vec<BitRate>,
    /// True if unicast data has a QoS Control field.
    qos: bool,
    /// Centre frequency of its primary channel, MHz, if given.
    channel_mhz: Option<u16>,
}

impl RadioDescription {
    pub fn of(scenario: &Scenario, radio: NodeId) -> Self {
        let phy = &scenario.mac_of(radio).phy;
        let mhz = |n: u32| 5 * n + if n <= 13 { 2407 } else { 5000 };
        RadioDescription {
            rates: phy.rates().map(|r| phy.bit_rate(r)).collect(),
            qos: phy.as_modern().is_some(),
            channel_mhz: scenario.channel_of(radio).map(|n| mhz(n) as u16),
        }
    }
}

/// Data of one flow that left a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departed {
    pub packets: u64,
    pub bytes: u64,
}

/// Requirements of the controls on the network.
pub(crate) struct Shaping {
    /// Nodes, wired hosts included.
    pub nodes: usize,
    /// At most one set per node.
    pub classes: Vec<ByteClasses>,
    /// Nodes that count passing data per flow.
    pub counting: Vec<NodeId>,
    /// Nodes at which TCP's headers are read.
    pub reading: Vec<NodeId>,
    /// Nodes that send echo probes.
    pub probing: Vec<NodeId>,
    /// Number of controls.
    pub controls: usize,
    /// State of the listening controls.
    pub listeners: Listeners,
}

/// Meaning of a timer slot.
enum Timer {
    Flow(usize),
    Wire(usize),
    Interface(usize),
    Classes(usize),
    Control(usize),
    /// Instant of the next sweep for idle flows.
    Sweep,
    /// A message arrives over the wires behind the gateways.
    Backhaul,
    /// An echo probe is due.
    Echo(usize),
}

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    pub fn new(
        interfaces: Vec<Interface>,
        flows: Vec<FlowState>,
        wires: Vec<WireDirection>,
        shaping: Shaping,
        measure_from: Time,
        observer: Option<Box<dyn Observer>>,
        radio_descriptions: Vec<RadioDescription>,
    ) -> Self {
        let Shaping { nodes, classes, counting, reading, probing, controls, listeners } = shaping;
        let slots = flows.len() + wires.len() + interfaces.len() + classes.len() + controls + 1;
        let slots = slots + usize::from(HOST) + probing.len();
        let mut timers = Tournament::new(slots);
        let mut classes_at = vec![None; nodes];
        for (i, set) in classes.iter().enumerate() {
            classes_at[set.node.index()] = Some(i as u32);
        }
        let mut departed = vec![Vec::new(); nodes];
        for node in counting {
            departed[node.index()] = vec![Departed::default(); flows.len()];
        }
        let mut signs = vec![Vec::new(); nodes];
        let stamps = (!reading.is_empty()).then(|| Stamps::new(flows.len()));
        for node in reading {
            signs[node.index()] = vec![Signs::default(); flows.len()];
        }
        for (i, flow) in flows.iter().enumerate() {
            timers.set(i, flow.next_deadline());
        }
        Net {
            packets: Packets::default(),
            arrived: 0,
            stale: 0,
            snapshots: vec![Vec::new(); interfaces.len()],
            ack_delays: None,
            links: None,
            aggregates: 0,
            interfaces,
            lanes: Vec::new(),
            flows,
            wires,
            timers,
            owners: Owners::default(),
            kicks: Vec::new(),
            measure_from,
            classes,
            classes_at,
            controls,
            departed,
            signs,
            stamps,
            echoes: probing.into_iter().map(Echoes::at).collect(),
            listeners,
            arrivals: Vec::new(),
            observer,
            radio_descriptions,
            numbers: Vec::new(),
        }
    }

    fn timer(&self, slot: usize) -> Timer {
        let (f, w, i) = (self.flows.len(), self.wires.len(), self.interfaces.len());
        if slot < f {
            Timer::Flow(slot)
        } else if slot < f + w {
            Timer::Wire(slot - f)
        } else if slot < f + w + i {
            Timer::Interface(slot - f - w)
        } else {
            let c = slot - f - w - i;
            let sets = self.classes.len();
            match c {
                c if c < sets => Timer::Classes(c),
                c if c < sets + self.controls => Timer::Control(c - sets),
                c if c == sets + self.controls => Timer::Sweep,
                c if c == sets + self.controls + 1 => Timer::Backhaul,
                c => Timer::Echo(c - sets - self.controls - 2),
            }
        }
    }

    pub(crate) fn wire_slot(&self, direction: usize) -> usize {
        self.flows.len() + direction
    }
    pub(crate) fn interface_slot(&self, node: usize) -> usize {
        self.flows.len() + self.wires.len() + node
    }
    pub(crate) fn classes_slot(&self, set: usize) -> usize {
        self.flows.len() + self.wires.len() + self.interfaces.len() + set
    }
    /// Returns the timer slot of a control.
    pub fn control_slot(&self, control: usize) -> usize {
        self.classes_slot(self.classes.len()) + control
    }

    /// Sends a gateway's message to the other gateways.
    pub fn send_behind(&mut self, now: Time, from: NodeId, body: &[u8]) {
        let slot = self.control_slot(self.controls + 1);
        let due = self.listeners.send_behind(now, from, body);
        if HOST {
            self.timers.set(slot, due);
        }
    }

    /// Handles a timer that is due.
    ///
    /// For a control's timer, returns its number and leaves the rest to the caller.
    pub fn fire(&mut self, now: Time, slot: usize) -> Option<usize> {
        match self.timer(slot) {
            Timer::Flow(f) => self.flow_deadline(now, f),
            Timer::Wire(d) => {
                while let Some(packet) = self.wires[d].take(now) {
                    let to = self.wires[d].to;
                    self.arrive(now, to, packet);
                    if (to as usize) < self.interfaces.len() {
                        self.kicks.push(NodeId(to));
                    }
                }
                self.timers.set(slot, self.wires[d].next_deadline());
            }
            Timer::Interface(n) => {
                self.timers.set(slot, Time::NEVER);
                self.kicks.push(NodeId(n as u32));
            }
            Timer::Classes(set) => self.drain(now, set),
            Timer::Control(control) => return Some(control),
            Timer::Sweep => {
                let again = self.listeners.sweep(now);
                self.timers.set(slot, if again { now + SWEEP_INTERVAL } else { Time::NEVER });
            }
            Timer::Backhaul => {
                let next = self.listeners.arrive_behind(now);
                self.timers.set(slot, next);
            }
            // Only with controls: a second caller of `forward` would cost every packet a call.
            Timer::Echo(at) if HOST => self.send_echoes(now, at),
            Timer::Echo(_) => {}
        }
        None
    }
}
