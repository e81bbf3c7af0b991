//! The validated world.

use fairmesh_control::Mechanism;
use fairmesh_phy::Rate;
use fairmesh_queueing::DisciplineSpec;
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_transport::{TcpConfig, quic};
use fairmesh_units::{BitRate, NodeId, Power, Probability, Span};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{Access, Hearing, MacConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::gateways::Gateways;
use crate::subscriber::crossing;
pub use crate::subscriber::{Share, SharedLeaf, Subscriber, Subscribers};

/// Everything a run needs, checked: ids are in range, every flow has a path, every number is
/// finite. Made by [`Draft::build`](crate::Draft::build) only.
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
    pub(crate) hearing: Vec<Hearing>,
    pub(crate) leaks: Vec<Hearing>,
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
}

/// A wireless node or wired host.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Place in metres, where known.
    pub position: Option<(f64, f64)>,
    /// Kind of node, with or without a radio.
    pub kind: NodeKind,
    /// Queue of its wireless interface, if it differs from the scenario's.
    pub queue: Option<InterfaceQueue>,
    /// Airtime that its neighbours give it, relative to others, if they share airtime.
    pub airtime_weight: f64,
    /// The kind of its radio: 0 is `[radio]`, 1 the first of [`Scenario::further`].
    pub radio: u8,
    /// The node whose further radio this is; `None`: a node.
    pub of: Option<NodeId>,
}

/// A kind of radio beside `[radio]`.
#[derive(Clone, Debug)]
pub struct FurtherRadio {
    /// Unique among radios.
    pub name: String,
    /// The number of its channel.
    pub channel: u32,
    /// Its PHY and MAC.
    pub mac: MacConfig,
    /// Frame errors of its links whose delivery is 1.
    pub errors: FrameErrors,
    /// The first kind of radio with the same settings: channels of one medium may reach into each other. 0 is
    /// `[radio]`.
    pub medium: u8,
}

/// Queue of a wireless interface.
#[derive(Clone, PartialEq, Debug)]
pub struct InterfaceQueue {
    /// The queue that a packet joins.
    pub discipline: DisciplineSpec,
    /// Packets that the card's own queue below it takes; 0 if it has none.
    pub device: u32,
}

impl InterfaceQueue {
    /// Gives a weighted fair queue the weights of the flows, the same in both directions.
    pub(crate) fn weigh(&mut self, flows: &[Flow]) {
        if let DisciplineSpec::Wfq(spec) = &mut self.discipline {
            // Data of flow f are flow 2 f of a queue, its acknowledgements 2 f + 1.
            spec.weights = flows.iter().flat_map(|f| [f.weight; 2]).collect();
            spec.buckets = spec.buckets.max(spec.weights.len() as u32);
        }
    }
}

/// Whether a node has a radio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// One radio, and possibly wires.
    #[default]
    Wireless,
    /// Wires only.
    Wired,
}

/// An ordered pair of wireless nodes of which the second decodes the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Transmitter.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Data rate, where not the MAC's.
    pub rate: Option<Rate>,
    /// Probability that a frame arrives, collisions apart.
    pub delivery: Probability,
}

/// The rate of a link from some time on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateChange {
    /// When.
    pub at: Span,
    /// Transmitter.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// The rate from then on.
    pub rate: Rate,
}

/// The path of a flow from some time on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteChange {
    /// When. Packets under way stay on the path on which they left.
    pub at: Span,
    /// Index of the flow.
    pub flow: usize,
    /// The nodes on the way, both ends included; the way back is the same.
    pub path: Vec<NodeId>,
}

/// A full-duplex wire; each direction has its own drop-tail queue.
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
    /// Packets that wait at each end.
    pub queue_packets: u32,
}

/// Traffic from one node to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Unique name.
    pub name: String,
    /// Source of the data (the client, for requests and answers).
    pub from: NodeId,
    /// Destination of the data.
    pub to: NodeId,
    /// The nodes on the way, both ends included; the way back is the same.
    pub path: Vec<NodeId>,
    /// Wireless links on the way.
    pub wireless_hops: u32,
    /// Traffic of the application.
    pub traffic: TrafficSpec,
    /// Stream or datagrams.
    pub transport: Transport,
    /// The access category of its packets at every radio, both ways.
    pub access: Access,
    /// Earliest start.
    pub start: Span,
    /// The start is late by a random time up to this.
    pub start_jitter: Span,
    /// End, where before that of the run.
    pub stop: Option<Span>,
    /// Share relative to other flows; its subscriber's, if it has one.
    pub weight: f64,
    /// The most it may have, in IP bytes; positive. An equal part of its subscriber's, if it has one.
    pub plan: Option<BitRate>,
    /// The least it is promised, in IP bytes; at most its plan. An equal part of its subscriber's, too.
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

/// A transmitter that follows no medium access rules: busy for `duty × period` at the start of every period.
#[derive(Clone, PartialEq, Debug)]
pub struct Interferer {
    /// Unique name among interferers.
    pub name: String,
    /// Place in metres, where known.
    pub position: Option<(f64, f64)>,
    /// Wireless nodes that sense it and the power there, sorted by node. Frames it overlaps are
    /// lost there unless they are stronger by the capture margin.
    pub heard_by: Vec<(NodeId, Power)>,
    /// A burst starts every so often.
    pub period: Span,
    /// Share of each period that is busy.
    pub duty: Probability,
    /// Each period is multiplied by a random factor from 1 − jitter to 1 + jitter.
    pub jitter: f64,
    /// First burst.
    pub start: Span,
    /// No burst starts from then on.
    pub stop: Option<Span>,
}

impl Scenario {
    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Purpose of the scenario, in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Simulated time.
    pub fn duration(&self) -> Span {
        self.duration
    }

    /// Start of the measured interval, which ends with the run.
    pub fn warmup(&self) -> Span {
        self.warmup
    }

    /// PHY and MAC of `[radio]`, which every station has unless its kind is one of `further`.
    pub fn mac(&self) -> &MacConfig {
        &self.mac
    }

    /// The channel of `[radio]`, if the scenario names one.
    pub fn channel(&self) -> Option<u32> {
        self.channel
    }

    /// Further kinds of radio.
    pub fn further(&self) -> &[FurtherRadio] {
        &self.further
    }

    /// Wireless nodes, then their further radios, which are stations of their own ([`Node::of`]), then wired
    /// hosts; a [`NodeId`] is an index.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Ordered wireless pairs at or above the carrier-sense threshold, sorted by (from, to).
    pub fn hearing(&self) -> &[Hearing] {
        &self.hearing
    }

    /// Ordered wireless pairs of different channels of which the second has the first's energy in its own.
    pub fn leaks(&self) -> &[Hearing] {
        &self.leaks
    }

    /// Ordered wireless pairs that decode, sorted by (from, to).
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Wires.
    pub fn wires(&self) -> &[Wire] {
        &self.wires
    }

    /// Flows.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Flows that have one share together at their gateway.
    pub fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Queue of every wireless interface whose node names none.
    pub fn queue(&self) -> &InterfaceQueue {
        &self.queue
    }

    /// Transmitters that are not part of the network.
    pub fn interferers(&self) -> &[Interferer] {
        &self.interferers
    }

    /// Frame errors of every link whose delivery is 1.
    pub fn errors(&self) -> &FrameErrors {
        &self.errors
    }

    /// Links whose rate changes while the run lasts, by time.
    pub fn rate_changes(&self) -> &[RateChange] {
        &self.rate_changes
    }

    /// Flows that take another path while the run lasts, by time.
    pub fn route_changes(&self) -> &[RouteChange] {
        &self.route_changes
    }

    /// The nodes that join the mesh to the wired world.
    pub fn gateways(&self) -> &Gateways {
        &self.gateways
    }

    /// The fairness mechanism.
    pub fn control(&self) -> &Mechanism {
        &self.control
    }

    /// The mechanism of gateways, if it is another.
    pub fn at_gateways(&self) -> Option<&Mechanism> {
        self.at_gateways.as_ref()
    }

    /// Wireless nodes that run this project's agent; `None`: all but the gateway.
    pub fn agents(&self) -> Option<&[NodeId]> {
        self.agents.as_deref()
    }

    /// The nodes at which the mechanism may run; `None`: wherever it has something to do.
    pub fn taking_part(&self) -> Option<&[NodeId]> {
        self.taking_part.as_deref()
    }

    /// Changes and omissions made while reading, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The names of the controls as records have them: of the nodes, and of gateways if it is another.
    pub fn controls(&self) -> String {
        match &self.at_gateways {
            None => self.control.to_string(),
            Some(theirs) => format!("{}, gateways {theirs}", self.control),
        }
    }

    /// True if anything in its controls is not published, or not as it is here.
    pub fn controls_are_ours(&self) -> bool {
        self.control.is_ours() || self.at_gateways.as_ref().is_some_and(Mechanism::is_ours)
    }

    /// The frame errors of one link: its own delivery where below 1, else the scenario's.
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

    /// PHY and MAC of a station.
    pub fn mac_of(&self, station: NodeId) -> &MacConfig {
        self.further_of(station).map_or(&self.mac, |r| &r.mac)
    }

    /// Returns the channel number of a station, if given.
    pub fn channel_of(&self, station: NodeId) -> Option<u32> {
        self.further_of(station).map_or(self.channel, |r| Some(r.channel))
    }

    /// The medium of a station: stations of different media have nothing to do with each other.
    pub fn medium_of(&self, station: NodeId) -> u8 {
        self.further_of(station).map_or(0, |r| r.medium)
    }

    /// True if radios have a queue and a backoff for each access category.
    pub fn has_access_categories(&self) -> bool {
        self.mac.edca.is_some()
    }

    /// The node of a station: itself, or the one whose further radio it is.
    pub fn device(&self, station: NodeId) -> NodeId {
        self.nodes.get(station.index()).and_then(|n| n.of).unwrap_or(station)
    }

    /// True if two stations are different radios of one node.
    pub fn same_device(&self, a: NodeId, b: NodeId) -> bool {
        a != b && self.device(a) == self.device(b)
    }

    /// True if some node has several radios, or some radios another channel or other settings.
    pub fn has_several_radios(&self) -> bool {
        !self.further.is_empty()
    }

    /// Returns the mean power of one link at its receiver; zero if it is not received.
    pub fn signal_of(&self, link: &Link) -> Power {
        let key = (link.from.0, link.to.0);
        let at = self.hearing.binary_search_by_key(&key, |h| (h.from, h.to));
        at.map_or(Power::ZERO, |at| self.hearing[at].power)
    }

    /// The link between two nodes, if the second decodes the first.
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<&Link> {
        let at = self.links.binary_search_by_key(&(from, to), |l| (l.from, l.to)).ok()?;
        self.links.get(at)
    }

    /// The wire from one node to the other, by its place in [`Scenario::wires`], and whether it is
    /// the wire's way back, from its end `b`. Where two nodes share a wire and a link, the wire is
    /// used.
    pub fn wire(&self, from: NodeId, to: NodeId) -> Option<(usize, bool)> {
        let joins = |w: &Wire| (w.a, w.b) == (from, to) || (w.b, w.a) == (from, to);
        let at = self.wires.iter().position(joins)?;
        Some((at, self.wires[at].a != from))
    }

    /// The gateway at which a flow passes between the mesh and what is behind it; `None` where it does so at
    /// none. A flow between two gateways is the first one's.
    pub fn gateway_of(&self, flow: &Flow) -> Option<NodeId> {
        let wired = |a, b| self.wire(a, b).is_some();
        let here = |g: &NodeId| self.gateways.has(*g) && crossing(&flow.path, *g, wired).is_some();
        flow.path.iter().copied().find(here)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u32))
    }

    /// The wireless nodes, which come first.
    pub fn wireless(&self) -> impl Iterator<Item = NodeId> + '_ {
        let ids = 0..self.nodes.len() as u32;
        ids.map(NodeId).take_while(|n| self.nodes[n.index()].kind == NodeKind::Wireless)
    }
}
