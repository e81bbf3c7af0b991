//! The validated world.

use fairmesh_control::Mechanism;
use fairmesh_phy::Rate;
use fairmesh_queueing::DisciplineSpec;
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_transport::{TcpConfig, quic};
use fairmesh_units::{BitRate, NodeId, Power, Probability, Span};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{Access, MacConfig, SensedPair};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::gateways::Gateways;
use crate::subscriber::crossing;
pub use crate::subscriber::{Share, SharedLeaf, Subscriber, Subscribers};

/// All inputs of a run, checked.
///
/// Ids are in range, every flow has a path, every number is finite. Built only by
/// [`Draft::build`](crate::Draft::build).
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) duration: Span,
    pub(crate) warmup: Span,
    pub(crate) mac: MacConfig,
    pub(crate) channel: Option<u32>,
    pub(crate) further: Vec<FurtherRadio>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) sensed_pairs: Vec<SensedPair>,
    pub(crate) leaks: Vec<SensedPair>,
    pub(crate) links: Vec<Link>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) subscribers: Subscribers,
    pub(crate) queue: InterfaceQueue,
    pub(crate) interferers: Vec<Interferer>,
    pub(crate) errors: FrameErrors,
    pub(crate) rate_changes: Vec<RateChange>,
    pub(crate) route_changes: Vec<RouteChange>,
    pub(crate) gateways: Gateways,
    pub(crate) control: Mechanism,
    pub(crate) at_gateways: Option<Mechanism>,
    pub(crate) agents: Option<Vec<NodeId>>,
    pub(crate) taking_part: Option<Vec<NodeId>>,
    pub(crate) warnings: Vec<String>,
    /// Of a part of another world: the numbers of its flows there; empty for a whole world.
    pub(crate) flow_numbers: Vec<u32>,
}

/// A wireless node or wired host.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Position in metres, if known.
    pub position: Option<(f64, f64)>,
    /// Kind of node.
    pub kind: NodeKind,
    /// Queue of its wireless interface, if it differs from the scenario's.
    pub queue: Option<InterfaceQueue>,
    /// Airtime weight at its neighbours, if they share airtime.
    pub airtime_weight: f64,
    /// Kind of its radio: 0 is `[radio]`, 1 the first of [`Scenario::further`].
    pub radio: u8,
    /// Node of this further radio; `None` for a node.
    pub of: Option<NodeId>,
}

/// A further kind of radio.
#[derive(Clone, Debug)]
pub struct FurtherRadio {
    /// Unique name among radios.
    pub name: String,
    /// Channel number.
    pub channel: u32,
    /// PHY and MAC of the radio.
    pub mac: MacConfig,
    /// Frame errors of its links with a delivery of 1.
    pub errors: FrameErrors,
    /// The first kind of radio with the same settings: channels of one medium may overlap.
    ///
    /// 0 is `[radio]`.
    pub medium: u8,
}

/// Queue of a wireless interface.
#[derive(Clone, PartialEq, Debug)]
pub struct InterfaceQueue {
    /// Queue that a packet joins.
    pub discipline: DisciplineSpec,
    /// Length of the device queue below, packets; 0 without one.
    pub device: u32,
}

impl InterfaceQueue {
    /// Gives a weighted fair queue the weights of the flows, equal in both directions.
    pub(crate) fn weigh(&mut self, flows: &[Flow]) {
        if let DisciplineSpec::Wfq(spec) = &mut self.discipline {
            // Data of flow f are flow 2 f of a queue, its acknowledgements 2 f + 1.
            spec.weights = flows.iter().flat_map(|f| [f.weight; 2]).collect();
            spec.buckets = spec.buckets.max(spec.weights.len() as u32);
        }
    }
}

/// Kind of a node: with or without a radio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// One radio, and possibly wires.
    #[default]
    Wireless,
    /// Wires only.
    Wired,
}

/// An ordered pair of wireless nodes with the second decoding the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Transmitter.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Data rate, if it differs from the MAC's.
    pub rate: Option<Rate>,
    /// Probability that a frame arrives, without collisions.
    pub delivery: Probability,
}

/// A change of a link's rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateChange {
    /// Time of the change.
    pub at: Span,
    /// Transmitter.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// New rate.
    pub rate: Rate,
}

/// A change of a flow's path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteChange {
    /// Time of the change. Packets in transit stay on the path on which they left.
    pub at: Span,
    /// Index of the flow.
    pub flow: usize,
    /// Nodes of the path, both ends included; the reverse path is the same.
    pub path: Vec<NodeId>,
}

/// A full-duplex wire with a drop-tail queue in each direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wire {
    /// One end.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// Rate in each direction.
    pub rate: BitRate,
    /// One-way delay.
    pub delay: Span,
    /// Queue length at each end, packets.
    pub queue_packets: u32,
}

/// Traffic from one node to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Unique name.
    pub name: String,
    /// Source of the data (the client, for requests and responses).
    pub from: NodeId,
    /// Destination of the data.
    pub to: NodeId,
    /// Nodes of the path, both ends included; the reverse path is the same.
    pub path: Vec<NodeId>,
    /// Number of wireless links on the path.
    pub wireless_hops: u32,
    /// Traffic of the application.
    pub traffic: TrafficSpec,
    /// Stream or datagrams.
    pub transport: Transport,
    /// Access category of its packets at every radio, in both directions.
    pub access: Access,
    /// Earliest start.
    pub start: Span,
    /// Maximum random delay of the start.
    pub start_jitter: Span,
    /// End, if before that of the run.
    pub stop: Option<Span>,
    /// Weight relative to other flows; that of its subscriber, if it has one.
    pub weight: f64,
    /// Maximum rate, in IP bytes; positive. An equal part of its subscriber's, if it has one.
    pub plan: Option<BitRate>,
    /// Guaranteed rate, in IP bytes; at most its plan.
    ///
    /// An equal part of its subscriber's, if it has one.
    pub guarantee: Option<BitRate>,
}

/// A flow's transport.
#[derive(Clone, PartialEq, Debug)]
pub enum Transport {
    /// A stream.
    Tcp(TcpConfig),
    /// A stream over datagrams.
    Quic(quic::Config),
    /// Datagrams.
    Udp,
}

/// A transmitter without medium access rules.
///
/// It is busy for `duty × period` at the start of every period.
#[derive(Clone, PartialEq, Debug)]
pub struct Interferer {
    /// Unique name among interferers.
    pub name: String,
    /// Position in metres, if known.
    pub position: Option<(f64, f64)>,
    /// Wireless nodes that sense it and its power there, sorted by node.
    ///
    /// Frames that it overlaps are lost there unless they are stronger by the capture margin.
    pub sensed_by: Vec<(NodeId, Power)>,
    /// Period of bursts.
    pub period: Span,
    /// Busy share of each period.
    pub duty: Probability,
    /// Jitter: each period is multiplied by a random factor from 1 − jitter to 1 + jitter.
    pub jitter: f64,
    /// Start of the first burst.
    pub start: Span,
    /// Time from which no burst starts.
    pub stop: Option<Span>,
}

impl Scenario {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the purpose of the scenario, in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the simulated time.
    pub fn duration(&self) -> Span {
        self.duration
    }

    /// Returns the start of the measured interval, which ends with the run.
    pub fn warmup(&self) -> Span {
        self.warmup
    }

    /// Returns PHY and MAC of `[radio]`, which apply to all stations not of a `further` kind.
    pub fn mac(&self) -> &MacConfig {
        &self.mac
    }

    /// Returns the channel of `[radio]`, if the scenario names one.
    pub fn channel(&self) -> Option<u32> {
        self.channel
    }

    /// Returns the further kinds of radio.
    pub fn further(&self) -> &[FurtherRadio] {
        &self.further
    }

    /// Returns wireless nodes, their further radios, then wired hosts; [`NodeId`] is an index.
    ///
    /// Further radios are separate stations ([`Node::of`]).
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the ordered wireless pairs at or above the carrier-sense threshold.
    ///
    /// They are sorted by (from, to).
    pub fn sensed_pairs(&self) -> &[SensedPair] {
        &self.sensed_pairs
    }

    /// Returns the ordered wireless pairs on different channels with leakage.
    ///
    /// Energy of the first is in the second's channel.
    pub fn leaks(&self) -> &[SensedPair] {
        &self.leaks
    }

    /// Returns the ordered wireless pairs that decode, sorted by (from, to).
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the wires.
    pub fn wires(&self) -> &[Wire] {
        &self.wires
    }

    /// Returns the flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the groups of flows with a common share at their gateway.
    pub fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Returns the queue of every wireless interface without its own.
    pub fn queue(&self) -> &InterfaceQueue {
        &self.queue
    }

    /// Returns transmitters that are not part of the network.
    pub fn interferers(&self) -> &[Interferer] {
        &self.interferers
    }

    /// Returns the frame errors of every link with a delivery of 1.
    pub fn errors(&self) -> &FrameErrors {
        &self.errors
    }

    /// Returns changes of link rates during the run, by time.
    pub fn rate_changes(&self) -> &[RateChange] {
        &self.rate_changes
    }

    /// Returns changes of flow paths during the run, by time.
    pub fn route_changes(&self) -> &[RouteChange] {
        &self.route_changes
    }

    /// Returns the nodes that connect the mesh to the wired world.
    pub fn gateways(&self) -> &Gateways {
        &self.gateways
    }

    /// Returns the fairness mechanism.
    pub fn control(&self) -> &Mechanism {
        &self.control
    }

    /// Returns the mechanism of gateways, if it is another.
    pub fn at_gateways(&self) -> Option<&Mechanism> {
        self.at_gateways.as_ref()
    }

    /// Returns the wireless nodes that run this project's agent; `None`: all except the gateway.
    pub fn agents(&self) -> Option<&[NodeId]> {
        self.agents.as_deref()
    }

    /// Returns the participating nodes; `None`: the mechanism runs wherever it applies.
    pub fn taking_part(&self) -> Option<&[NodeId]> {
        self.taking_part.as_deref()
    }

    /// Numbers of flows in queues; empty if these are their indices.
    ///
    /// A part of a world keeps those of the whole.
    pub fn flow_numbers(&self) -> &[u32] {
        &self.flow_numbers
    }

    /// Returns changes and omissions made while reading, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the names of the controls as in records.
    ///
    /// They are those of the nodes, and of gateways if it is another.
    pub fn controls(&self) -> String {
        match &self.at_gateways {
            None => self.control.to_string(),
            Some(theirs) => format!("{}, gateways {theirs}", self.control),
        }
    }

    /// Returns true if part of its controls is unpublished, or differs from the publication.
    pub fn controls_are_ours(&self) -> bool {
        self.control.is_ours() || self.at_gateways.as_ref().is_some_and(Mechanism::is_ours)
    }

    /// Returns the frame errors of a link: its own delivery if below 1, otherwise the scenario's.
    pub fn errors_of(&self, link: &Link) -> FrameErrors {
        match FrameErrors::per_frame(1.0 - link.delivery.0) {
            Ok(FrameErrors::None) | Err(_) => match self.usual_errors(link.from) {
                FrameErrors::Snr(snr) => FrameErrors::Snr(snr.with_signal(self.signal_of(link))),
                other => other.clone(),
            },
            Ok(own) => own,
        }
    }

    fn usual_errors(&self, station: NodeId) -> &FrameErrors {
        self.further_of(station).map_or(&self.errors, |r| &r.errors)
    }

    fn further_of(&self, station: NodeId) -> Option<&FurtherRadio> {
        let kind = self.nodes.get(station.index())?.radio;
        self.further.get(usize::from(kind).checked_sub(1)?)
    }

    /// Returns PHY and MAC of a station.
    pub fn mac_of(&self, station: NodeId) -> &MacConfig {
        self.further_of(station).map_or(&self.mac, |r| &r.mac)
    }

    /// Returns the channel number of a station, if given.
    pub fn channel_of(&self, station: NodeId) -> Option<u32> {
        self.further_of(station).map_or(self.channel, |r| Some(r.channel))
    }

    /// Returns the medium of a station; stations of different media do not affect each other.
    pub fn medium_of(&self, station: NodeId) -> u8 {
        self.further_of(station).map_or(0, |r| r.medium)
    }

    /// Returns true if radios have a queue and a backoff for each access category.
    pub fn has_access_categories(&self) -> bool {
        self.mac.edca.is_some()
    }

    /// Returns the node of a station: itself, or the owner of a further radio.
    pub fn device(&self, station: NodeId) -> NodeId {
        self.nodes.get(station.index()).and_then(|n| n.of).unwrap_or(station)
    }

    /// Returns true if two stations are different radios of one node.
    pub fn same_device(&self, a: NodeId, b: NodeId) -> bool {
        a != b && self.device(a) == self.device(b)
    }

    /// Returns true if a node has several radios, or radios differ in channel or settings.
    pub fn has_several_radios(&self) -> bool {
        !self.further.is_empty()
    }

    /// Returns the mean power of one link at its receiver; zero if it is not received.
    pub fn signal_of(&self, link: &Link) -> Power {
        let key = (link.from.0, link.to.0);
        let at = self.sensed_pairs.binary_search_by_key(&key, |h| (h.from, h.to));
        at.map_or(Power::ZERO, |at| self.sensed_pairs[at].power)
    }

    /// Returns the link between two nodes, if the second decodes the first.
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<&Link> {
        let at = self.links.binary_search_by_key(&(from, to), |l| (l.from, l.to)).ok()?;
        self.links.get(at)
    }

    /// Returns the wire from one node to the other, by its index in [`Scenario::wires`].
    ///
    /// The flag is true in the direction from its end `b`. If two nodes share a wire and a link, the wire is
    /// used.
    pub fn wire(&self, from: NodeId, to: NodeId) -> Option<(usize, bool)> {
        let joins = |w: &Wire| (w.a, w.b) == (from, to) || (w.b, w.a) == (from, to);
        let at = self.wires.iter().position(joins)?;
        Some((at, self.wires[at].a != from))
    }

    /// Returns the gateway at which a flow enters or leaves the mesh; `None` if it does neither.
    ///
    /// A flow between two gateways belongs to the first.
    pub fn gateway_of(&self, flow: &Flow) -> Option<NodeId> {
        let wired = |a, b| self.wire(a, b).is_some();
        let here = |g: &NodeId| self.gateways.has(*g) && crossing(&flow.path, *g, wired).is_some();
        flow.path.iter().copied().find(here)
    }

    /// Returns the node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u32))
    }

    /// Returns the wireless nodes, which come first.
    pub fn wireless(&self) -> impl Iterator<Item = NodeId> + '_ {
        let ids = 0..self.nodes.len() as u32;
        ids.map(NodeId).take_while(|n| self.nodes[n.index()].kind == NodeKind::Wireless)
    }
}
