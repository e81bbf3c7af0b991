//! Events of frames and packets for controls, and the changes that controls make to packets.
//!
//! The network records events as they happen; the world delivers them to the controls after the
//! event, at the same instant. A frame's content is stored as it was when its transmitter passed it
//! to the MAC, because the packet may have moved on before the exchange is over.

mod backhaul;
mod chance;
mod flows;
mod ideal_exchange;
mod messages;

use std::collections::VecDeque;

use fairmesh_control::{
    Class, EventKind, EventSet, Feedback, FlowLink, Header, Link, Marking, Merge, QueueLength,
    ReceivedFrame, RoundTrip, Sent, Station,
};
use fairmesh_units::{FlowId, NodeId, Span, Stream, Time};
use fairmesh_wifi::{Outcome, SendReport};

use crate::classes::Cost;
use chance::Chance;
use flows::Timed;
use messages::{StoredMessage, Waiting};

pub(crate) use backhaul::Backhaul;
pub(crate) use flows::SWEEP_INTERVAL;
pub(crate) use messages::{INTERNAL_LINK, MESSAGE_HEADERS, Signalling};

/// An event for a control.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    Queue(QueueLength),
    Sent(Sent),
    Received(ReceivedFrame),
    Overheard(ReceivedFrame),
    /// A message's bytes in [`Listeners::bodies`].
    Message {
        from: NodeId,
        start: usize,
        len: usize,
    },
    Feedback(Feedback),
    RoundTrip(RoundTrip),
    FlowSeen(FlowId),
    FlowGone(FlowId),
}

/// Metadata of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketMetadata {
    pub header: Header,
    /// In an acknowledgement: the header of the latest data packet that arrived.
    pub echo: Header,
}

/// A packet in a MAC, as it was passed to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InService {
    pub to: Option<NodeId>,
    /// `None` for a control message.
    pub flow: Option<FlowId>,
    pub ack: bool,
    /// True for a control's echo request and its reply.
    pub echo: bool,
    pub bytes: u32,
    pub header: Header,
    /// True if its receiver has passed it up.
    pub passed_up: bool,
}

impl InService {
    fn received_frame(&self, from: NodeId) -> Option<ReceivedFrame> {
        let (flow, to) = (self.flow?, self.to?);
        let link = Link { from, to };
        Some(ReceivedFrame { link, flow, ack: self.ack, bytes: self.bytes, header: self.header })
    }
}

/// A header field to write.
#[derive(Clone, Copy, Debug)]
struct Field {
    class: Class,
    slot: u8,
    merge: Merge,
    value: u32,
}

/// Random outcome for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketAction {
    Pass,
    Mark,
    Lose,
}

/// One node with a control.
#[derive(Debug)]
pub(crate) struct Listener {
    control: u32,
    events: EventSet,
    fields: Vec<Field>,
    chances: Vec<Chance>,
    rng: Stream,
    /// Per flow: instant at which its data last crossed; `None` if the flow is absent.
    crossing: Vec<Option<Time>>,
    timed: Vec<Timed>,
    /// By neighbour.
    stations: Vec<Station>,
    /// Flows on links out of and into the node; filled if the control requests them.
    flow_links: Vec<FlowLink>,
}

impl Listener {
    /// Counts a packet of a flow on a link of the node.
    fn count(&mut self, link: Link, frame: &InService) {
        let Some(flow) = frame.flow.filter(|_| !frame.echo) else { return };
        if !self.events.has(EventKind::FlowLinks) {
            return;
        }
        let key = (link, flow, frame.ack);
        let at = self.flow_links.iter().position(|f| (f.link, f.flow, f.ack) == key);
        let at = at.unwrap_or_else(|| {
            self.flow_links.push(FlowLink { link, flow, ack: frame.ack, packets: 0, bytes: 0 });
            self.flow_links.len() - 1
        });
        self.flow_links[at].packets += 1;
        self.flow_links[at].bytes += u64::from(frame.bytes);
    }
}

/// State of all listening controls.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Per node.
    at: Vec<Option<Box<Listener>>>,
    /// Pending events, each with its control.
    pub notes: Vec<(u32, Note)>,
    pub bodies: Vec<u8>,
    metadata: Vec<PacketMetadata>,
    /// Per flow: header of the latest data packet that arrived.
    echoes: Vec<Header>,
    /// Per flow: retransmissions already reported to its source's control.
    reported_losses: Vec<u64>,
    /// Per wireless node.
    service: Vec<Vec<(u32, InService)>>,
    /// Packets of each wireless node in a receiver's reorder buffer.
    ///
    /// They were acknowledged already.
    behind: Vec<Vec<(u32, InService)>>,
    waiting: Vec<VecDeque<Waiting>>,
    /// Bytes of messages by number; free numbers.
    messages: Vec<StoredMessage>,
    free: Vec<u32>,
    /// Per node: bits that its MAC acknowledgements carry; 0: none.
    ack_bits: Vec<u8>,
    header_bytes: u32,
    sweeps: bool,
    pub backhaul: Backhaul,
    /// Per node: nodes with a link from or to it.
    adjacent: Vec<Vec<NodeId>>,
    pub cost: Cost,
    pub signalling: Signalling,
}

/// Events and services that a control at a node requests.
pub(crate) struct Subscription {
    pub node: NodeId,
    pub control: u32,
    pub events: EventSet,
    pub header_bytes: u32,
    pub neighbours: Vec<NodeId>,
    /// Counters of flows on the node's links, if the control requests them.
    pub flow_links: Vec<FlowLink>,
    pub rng: Stream,
}

impl Listeners {
    pub fn new(
        nodes: usize,
        radios: usize,
        flows: usize,
        cost: Cost,
        subscriptions: Vec<Subscription>,
    ) -> Self {
        let header_bytes = subscriptions.iter().map(|w| w.header_bytes).max().unwrap_or(0);
        let asks = |kind| subscriptions.iter().any(|w| w.events.has(kind));
        let sweeps = asks(EventKind::Flows);
        let mut at: Vec<Option<Box<Listener>>> = Vec::new();
        at.resize_with(nodes, || None);
        for w in subscriptions {
            let per_flow = |kind| if w.events.has(kind) { flows } else { 0 };
            let station = |&node: &NodeId| Station {
                node,
                tx_bytes: 0,
                tx_packets: 0,
                tx_retries: 0,
                tx_failed: 0,
                tx_airtime: Span::ZERO,
                tx_rate: fairmesh_units::BitRate(0),
                rx_bytes: 0,
                rx_packets: 0,
                rx_airtime: Span::ZERO,
            };
            at[w.node.index()] = Some(Box::new(Listener {
                control: w.control,
                events: w.events,
                fields: Vec::new(),
                chances: Vec::new(),
                rng: w.rng,
                crossing: vec![None; per_flow(EventKind::Flows)],
                timed: vec![Timed::default(); per_flow(EventKind::RoundTrips)],
                stations: w.neighbours.iter().map(station).collect(),
                flow_links: w.flow_links,
            }));
        }
        Listeners {
            at,
            notes: Vec::new(),
            bodies: Vec::new(),
            metadata: Vec::new(),
            echoes: vec![Header::default(); flows],
            reported_losses: vec![0; flows],
            service: vec![Vec::new(); radios],
            behind: vec![Vec::new(); radios],
            waiting: vec![VecDeque::new(); radios],
            messages: Vec::new(),
            free: Vec::new(),
            ack_bits: vec![0; nodes],
            header_bytes,
            sweeps,
            backhaul: Backhaul::default(),
            adjacent: Vec::new(),
            cost,
            signalling: Signalling::default(),
        }
    }

    /// Sets the links over which messages outside the air count their hops.
    pub fn connect(&mut self, links: impl Iterator<Item = (NodeId, NodeId)>) {
        self.adjacent.resize(self.at.len(), Vec::new());
        for (a, b) in links.flat_map(|(a, b)| [(a, b), (b, a)]) {
            if !self.adjacent[a.index()].contains(&b) {
                self.adjacent[a.index()].push(b);
            }
        }
    }

    /// Returns the control at a node that subscribes to events of this kind.
    fn control_for(&self, node: usize, kind: EventKind) -> Option<u32> {
        self.at[node].as_ref().filter(|t| t.events.has(kind)).map(|t| t.control)
    }

    fn note(&mut self, node: usize, kind: EventKind, note: Note) {
        if let Some(control) = self.control_for(node, kind) {
            self.notes.push((control, note));
        }
    }

    /// Returns true if the control at a node subscribes to events of this kind.
    pub fn wants(&self, node: usize, kind: EventKind) -> bool {
        self.control_for(node, kind).is_some()
    }

    // ---- packets

    /// Returns the bytes of header fields in a new packet.
    pub fn header_bytes(&self) -> u32 {
        self.header_bytes
    }

    /// Registers a new packet; `echoing`: the flow of the data that it acknowledges.
    pub fn packet(&mut self, handle: u32, echoing: Option<usize>) {
        let h = handle as usize;
        if self.metadata.len() <= h {
            self.metadata.resize(h + 1, PacketMetadata::default());
        }
        let echo = echoing.map_or(Header::default(), |f| self.echoes[f]);
        self.metadata[h] = PacketMetadata { header: Header::default(), echo };
    }

    pub fn metadata(&self, handle: u32) -> PacketMetadata {
        self.metadata[handle as usize]
    }

    /// Records that data of a flow has reached its sink.
    pub fn landed(&mut self, flow: usize, handle: u32) {
        self.echoes[flow] = self.metadata[handle as usize].header;
    }

    /// Records that a flow's source has processed an acknowledgement.
    pub fn feedback(&mut self, node: usize, feedback: Feedback, resent: u64) {
        let reported_losses = &mut self.reported_losses[feedback.flow.index()];
        // A new connection counts from zero.
        let lost = resent.checked_sub(*reported_losses).unwrap_or(resent) as u32;
        *reported_losses = resent;
        let feedback = Feedback { lost, ..feedback };
        if feedback.acked > 0 || feedback.rtt > Span::ZERO || feedback.marked || lost > 0 {
            self.note(node, EventKind::Feedback, Note::Feedback(feedback));
        }
    }

    // ---- actions

    /// Writes a field into packets of a class from now on.
    pub fn annotate(&mut self, node: NodeId, class: Class, slot: u8, merge: Merge, value: u32) {
        let Some(listener) = &mut self.at[node.index()] else { return };
        let field = Field { class, slot, merge, value };
        match listener.fields.iter_mut().find(|f| f.class == class && f.slot == slot) {
            Some(known) => *known = field,
            None => listener.fields.push(field),
        }
    }

    /// Marks packets of a class at random from now on; those with ECT(1) only if requested.
    pub fn mark(&mut self, node: NodeId, class: Class, probability: f64, how: Marking) {
        if let Some(c) = self.chance(node, class) {
            (c.mark, c.how) = (probability, how);
        }
    }

    /// Drops packets of a class at random from now on.
    pub fn lose(&mut self, node: NodeId, class: Class, probability: f64) {
        if let Some(c) = self.chance(node, class) {
            c.lose = probability;
        }
    }

    /// Returns the mark and loss settings of a class.
    #[cfg(test)]
    pub fn chance_of(
        &self,
        node: NodeId,
        class: Class,
    ) -> fairmesh_control::host::conformance::ChanceInForce {
        let listener = self.at[node.index()].as_ref();
        let chance = listener.and_then(|l| l.chances.iter().find(|c| c.class == class));
        let in_force = |c: &Chance| fairmesh_control::host::conformance::ChanceInForce {
            mark: (c.mark, c.how),
            drop: c.lose,
        };
        chance.map_or_else(Default::default, in_force)
    }

    /// Returns the value written into a field of packets of a class.
    #[cfg(test)]
    pub fn field_of(&self, node: NodeId, class: Class, slot: u8) -> Option<(Merge, u32)> {
        let fields = &self.at[node.index()].as_ref()?.fields;
        let field = fields.iter().find(|f| f.class == class && f.slot == slot)?;
        Some((field.merge, field.value))
    }

    /// Returns the bits in a node's acknowledgements.
    #[cfg(test)]
    pub fn ack_bits_of(&self, node: NodeId) -> u8 {
        self.ack_bits[node.index()]
    }

    fn chance(&mut self, node: NodeId, class: Class) -> Option<&mut Chance> {
        let chances = &mut self.at[node.index()].as_mut()?.chances;
        let known = chances.iter().position(|c| c.class == class);
        let i = known.unwrap_or_else(|| {
            chances.push(Chance::new(class));
            chances.len() - 1
        });
        Some(&mut chances[i])
    }

    /// Decides the outcome for a packet that is about to leave a node towards `to`.
    ///
    /// `ect`: true if it is ECN-capable, and true if by ECT(1).
    pub fn action(
        &mut self,
        node: usize,
        flow: u32,
        data: bool,
        to: u32,
        ect: (bool, bool),
    ) -> PacketAction {
        let Some(listener) = &mut self.at[node] else { return PacketAction::Pass };
        let mut action = PacketAction::Pass;
        for c in &mut listener.chances {
            if !belongs(c.class, flow, data, to) {
                continue;
            }
            if c.lose > 0.0 && listener.rng.chance(c.lose) {
                return PacketAction::Lose;
            }
            let may = ect.0 && !ect.1;
            if may && c.mark > 0.0 && c.falls(&mut listener.rng) {
                action = PacketAction::Mark;
            }
        }
        action
    }

    /// Writes the fields of a packet that goes to the MAC of a node or into a wire.
    pub fn write(&mut self, node: usize, handle: u32, flow: u32, data: bool, to: u32) -> Header {
        let header = &mut self.metadata[handle as usize].header;
        if let Some(listener) = &self.at[node] {
            for f in listener.fields.iter().filter(|f| belongs(f.class, flow, data, to)) {
                header.write(f.slot, f.merge, f.value);
            }
        }
        *header
    }

    // ---- frames

    /// Remembers a packet in the MAC of a node, by handle.
    pub fn serve(&mut self, node: usize, packet: u32, frame: InService) {
        self.service[node].push((packet, frame));
    }

    fn serviced(&self, node: NodeId, packet: u32) -> Option<InService> {
        self.service[node.index()].iter().find(|s| s.0 == packet).map(|s| s.1)
    }

    /// Records that a packet of the MAC of a node has arrived and is passed up.
    fn passed_up(&mut self, node: NodeId, packet: u32) -> Option<InService> {
        let n = node.index();
        if let Some(s) = self.service[n].iter_mut().find(|s| s.0 == packet) {
            s.1.passed_up = true;
            return Some(s.1);
        }
        let at = self.behind[n].iter().position(|s| s.0 == packet)?;
        Some(self.behind[n].swap_remove(at).1)
    }

    /// Records that the length of a node's queue has changed.
    pub fn queue_changed(&mut self, node: usize, length: QueueLength) {
        self.note(node, EventKind::QueueChanges, Note::Queue(length));
    }

    /// Records a frame that was received by its destination node.
    ///
    /// Returns true if it is a control message.
    pub fn received(&mut self, node: NodeId, from: NodeId, packet: u32, message: Option<u32>) {
        let Some(frame) = self.passed_up(from, packet) else { return };
        let n = node.index();
        if let Some(s) = self.station(n, from) {
            s.rx_packets += 1;
            s.rx_bytes += u64::from(frame.bytes);
        }
        if let Some(listener) = &mut self.at[n] {
            listener.count(Link { from, to: node }, &frame);
        }
        match message {
            // A message in transit is for another node.
            Some(body) if !self.messages[body as usize].way.is_empty() => {}
            Some(body) => {
                if let Some(control) = self.control_for(n, EventKind::Messages) {
                    let start = self.bodies.len();
                    let StoredMessage { origin, body, .. } = &self.messages[body as usize];
                    self.bodies.extend_from_slice(body);
                    let (from, len) = (*origin, body.len());
                    self.notes.push((control, Note::Message { from, start, len }));
                }
            }
            None => {
                if let Some(received_frame) = frame.received_frame(from) {
                    self.note(n, EventKind::Received, Note::Received(received_frame));
                }
            }
        }
    }

    /// Records that a data frame occupied the air at a receiver.
    pub fn arriving(&mut self, node: NodeId, from: NodeId, airtime: Span) {
        if let Some(s) = self.station(node.index(), from) {
            s.rx_airtime += airtime;
        }
    }

    /// Records that a frame for another node was decoded.
    pub fn overheard(&mut self, node: NodeId, from: NodeId, packet: u32) {
        let frame = self.serviced(from, packet);
        if let Some(received_frame) = frame.and_then(|f| f.received_frame(from)) {
            self.note(node.index(), EventKind::Overheard, Note::Overheard(received_frame));
        }
    }

    /// Records that the MAC of a node has finished a frame.
    pub fn sent(&mut self, node: NodeId, report: &SendReport) -> Option<InService> {
        let n = node.index();
        let at = self.service[n].iter().position(|s| s.0 == report.packet.packet)?;
        let (packet, frame) = self.service[n].remove(at);
        let passed_up = frame.passed_up;
        if report.outcome == Outcome::Sent && report.packet.link.is_some() && !passed_up {
            // The receiver's reorder buffer holds it.
            self.behind[n].push((packet, frame));
        }
        let actual = self.cost.actual(report);
        let rate = self.cost.bit_rate(report.rate);
        let tries = report.data_attempts.max(report.rts_attempts);
        let delivered = report.outcome != Outcome::Lost;
        let signalling = frame.flow.is_none() || frame.echo;
        let own = if signalling { 0 } else { self.header_bytes };
        let m = &mut self.signalling;
        if signalling {
            m.message_frames += u64::from(report.data_attempts);
            m.message_bytes += u64::from(frame.bytes) * u64::from(report.data_attempts);
            m.message_airtime += actual;
        } else if own > 0 {
            m.header_bytes += u64::from(own) * u64::from(report.data_attempts);
            m.header_airtime +=
                self.cost.extra(frame.bytes, own, report.rate, report.data_attempts);
        }
        if let Some(to) = frame.to
            && let Some(s) = self.station(n, to)
        {
            s.tx_packets += 1;
            s.tx_bytes += u64::from(frame.bytes);
            s.tx_retries += u64::from(tries.saturating_sub(1));
            s.tx_failed += u64::from(!delivered);
            s.tx_airtime += report.airtime;
            s.tx_rate = rate;
        }
        if let Some(to) = frame.to
            && let Some(listener) = &mut self.at[n]
        {
            listener.count(Link { from: node, to }, &frame);
        }
        let sent = Sent {
            to: frame.to,
            flow: frame.flow,
            ack: frame.ack,
            bytes: frame.bytes,
            airtime: actual,
            backoff: self.cost.backoff(),
            attempts: u8::try_from(tries).unwrap_or(u8::MAX),
            rate,
            delivered,
            ack_bits: self.acknowledged_with(frame.to.filter(|_| delivered)),
        };
        self.note(n, EventKind::Sent, Note::Sent(sent));
        Some(frame)
    }

    /// Sets the bits that a node's MAC acknowledgements carry from now on.
    pub fn set_ack_bits(&mut self, node: NodeId, bits: u8) {
        self.ack_bits[node.index()] = bits;
    }

    /// Returns the bits carried by an acknowledgement that has just arrived from a node.
    fn acknowledged_with(&self, by: Option<NodeId>) -> Option<u8> {
        self.ack_bits.get(by?.index()).copied().filter(|b| *b != 0)
    }

    fn station(&mut self, node: usize, of: NodeId) -> Option<&mut Station> {
        self.at[node].as_mut()?.stations.iter_mut().find(|s| s.node == of)
    }

    /// Returns the counters of flows on a node's links.
    pub fn flow_links(&self, node: NodeId) -> &[FlowLink] {
        self.at[node.index()].as_ref().map_or(&[], |t| &t.flow_links)
    }

    /// Returns the counters of a node's neighbours.
    pub fn stations(&self, node: NodeId) -> &[Station] {
        self.at[node.index()].as_ref().map_or(&[], |t| &t.stations)
    }
}

/// Returns true if a packet belongs to a class.
fn belongs(class: Class, flow: u32, data: bool, to: u32) -> bool {
    match class {
        Class::All => true,
        Class::Flow(f) => data && f.0 == flow,
        Class::Link(n) => n.0 == to,
    }
}
