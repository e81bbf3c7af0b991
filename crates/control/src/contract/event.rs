//! Events that a mechanism may receive.

use fairmesh_units::{BitRate, FlowId, NodeId, Span};

use crate::{Class, EventKind, FlowHere, Header, Link, Neighbour};

/// An event or a sample. All counters are cumulative since a fixed moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event<'a> {
    /// The time of [`crate::Control::next_deadline`] has come.
    Deadline,
    /// Counters of a class, as `tc -s class show` reports them.
    Counters(Counters),
    /// Counters of a flow's data through this node, as an `nftables` counter reports them.
    FlowCounters(FlowCounters),
    /// Signs of a flow's path through the mesh, measured at the interface to the mesh.
    PathSigns(PathSigns),
    /// Counters of a neighbour, as an nl80211 station dump reports them.
    Station(Station),
    /// Counters of the channel, as an nl80211 survey reports them.
    Channel(Channel),
    /// Length of a transmit queue.
    Queue(QueueLength),
    /// Counters of a flow on one of the node's links, from connection tracking and routes.
    FlowLink(FlowLink),
    /// Transmit status of a frame, as a driver reports it.
    Sent(Sent),
    /// Transmit statuses of one link over a period, as a sum.
    ///
    /// The host derives it from [`Event::Station`] for a mechanism with [`crate::Delivery::sums`].
    SentSum(SentSum),
    /// Packets of a flow on one of the node's links over a period, as a sum.
    ///
    /// The host derives it from [`Event::FlowLink`] for a mechanism with [`crate::Delivery::sums`].
    FlowSum(FlowSum),
    /// A data packet for this node was received, to keep or to forward.
    Received(ReceivedFrame),
    /// A data packet for another node was overheard.
    Overheard(ReceivedFrame),
    /// Header fields of a neighbour's packets, carried by a message.
    ///
    /// The host delivers it to a mechanism with [`crate::Delivery::messages`], in place of the headers of packets.
    Fields(Fields),
    /// A message of another node has arrived.
    ///
    /// The sender used [`crate::Action::Send`], [`crate::Action::Route`] or [`crate::Action::HandOver`].
    Message(Message<'a>),
    /// Another node has restarted.
    ///
    /// Its earlier messages are no longer valid, and its run numbers and sequence numbers may start at any value. A
    /// host that detects restarts delivers this before the first message.
    Restarted(NodeId),
    /// An acknowledgement came back to the source of a local flow.
    Feedback(Feedback),
    /// The part of a passing flow's round trip that lies beyond this node was measured.
    RoundTrip(RoundTrip),
    /// All neighbours of this node, after one has appeared, disappeared or changed its rate.
    ///
    /// They replace [`crate::Setting::neighbours`]. A mechanism that does not want this event is started again.
    Neighbours(&'a [Neighbour]),
    /// A flow has begun to cross this node.
    FlowSeen(FlowHere),
    /// A flow has become idle or ended.
    FlowGone(FlowId),
    /// Analytic fair rate of a flow, at the start or after a change of the set of flows.
    Allocation(Allocation),
}

impl Event<'_> {
    /// Returns the kind to declare in [`crate::Needs`]; `None` for a deadline.
    ///
    /// Queue lengths count as samples here.
    pub fn kind(&self) -> Option<EventKind> {
        Some(match self {
            Event::Deadline => return None,
            Event::Counters(_) => EventKind::Counters,
            Event::FlowCounters(_) => EventKind::FlowCounters,
            Event::PathSigns(_) => EventKind::PathSigns,
            Event::Station(_) | Event::SentSum(_) => EventKind::Stations,
            Event::Channel(_) => EventKind::Channel,
            Event::Queue(_) => EventKind::QueueSamples,
            Event::FlowLink(_) | Event::FlowSum(_) => EventKind::FlowLinks,
            Event::Sent(_) => EventKind::Sent,
            Event::Received(_) => EventKind::Received,
            Event::Overheard(_) => EventKind::Overheard,
            Event::Message(_) | Event::Restarted(_) | Event::Fields(_) => EventKind::Messages,
            Event::Feedback(_) => EventKind::Feedback,
            Event::RoundTrip(_) => EventKind::RoundTrips,
            Event::Neighbours(_) => EventKind::Neighbours,
            Event::FlowSeen(_) | Event::FlowGone(_) => EventKind::Flows,
            Event::Allocation(_) => EventKind::Allocations,
        })
    }
}

/// Counters of one class of the mechanism's [`crate::Plan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// The class.
    pub class: Class,
    /// IP bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Number of times that the class had to wait for its limit.
    pub overlimits: u64,
    /// Packets in the queue at present.
    pub queued_packets: u32,
    /// Bytes in the queue at present.
    pub queued_bytes: u64,
}

/// Data of one flow that has left the node, in the flow's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCounters {
    /// The flow.
    pub flow: FlowId,
    /// IP bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// Signs of one flow's path through the mesh, measured at the interface to the mesh.
///
/// The sources are TCP headers, QUIC's spin bit, or echo probes if the flow's own packets give no round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathSigns {
    /// The flow.
    pub flow: FlowId,
    /// Bytes that have passed and are not acknowledged, over all TCP connections of the flow.
    ///
    /// The SYN and the FIN count as one byte each. `None` if TCP headers do not show the number, such as for QUIC.
    pub awaited: Option<u64>,
    /// Cumulative number of segments without data beyond the highest seen.
    pub repeated: u64,
    /// Round trips through the mesh since the last sample; `None` if there were none.
    pub round_trip: Option<RoundTripSample>,
    /// Age of the oldest unanswered packet in the mesh; `None` if there is none.
    pub oldest: Option<Span>,
}

/// Round trips through the mesh between two samples.
///
/// They are measured where the flow enters or leaves the mesh, without the time that its packets wait for a limit
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTripSample {
    /// Median of the round trips.
    pub median: Span,
    /// Minimum of the last one to two minutes from the same source: the mesh without queues.
    pub base: Span,
    /// Number of round trips.
    pub count: u32,
    /// Method by which all round trips were measured.
    pub source: RoundTripSource,
}

/// Method by which a round trip through the mesh is measured, in order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum RoundTripSource {
    /// TCP headers: data to acknowledgement, or timestamp to its echo (RFC 7323).
    #[default]
    Tcp,
    /// The spin bit of QUIC (RFC 9000 §17.4).
    Spin,
    /// An echo request to the home (RFC 792, RFC 4443 §4).
    Probe,
}

impl RoundTripSource {
    /// All methods, in order of preference.
    pub const ALL: [RoundTripSource; 3] =
        [RoundTripSource::Tcp, RoundTripSource::Spin, RoundTripSource::Probe];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            RoundTripSource::Tcp => "tcp",
            RoundTripSource::Spin => "spin",
            RoundTripSource::Probe => "probe",
        }
    }
}

impl PathSigns {
    /// Signs of a flow of which nothing is known.
    pub const fn new(flow: FlowId) -> Self {
        PathSigns { flow, awaited: None, repeated: 0, round_trip: None, oldest: None }
    }

    /// Sets the number of bytes that are not acknowledged.
    #[must_use]
    pub const fn with_awaited(self, awaited: u64) -> Self {
        PathSigns { awaited: Some(awaited), ..self }
    }

    /// Sets the number of segments without new data.
    #[must_use]
    pub const fn with_repeated(self, repeated: u64) -> Self {
        PathSigns { repeated, ..self }
    }

    /// Sets the round trips and the age of the oldest unanswered packet.
    #[must_use]
    pub const fn with_trips(
        self,
        round_trip: Option<RoundTripSample>,
        oldest: Option<Span>,
    ) -> Self {
        PathSigns { round_trip, oldest, ..self }
    }
}

/// Counters of the traffic with one neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Station {
    /// The neighbour.
    pub node: NodeId,
    /// Bytes sent to the neighbour.
    pub tx_bytes: u64,
    /// Frames sent to the neighbour, retries not counted.
    pub tx_packets: u64,
    /// Retries.
    pub tx_retries: u64,
    /// Discarded frames.
    pub tx_failed: u64,
    /// Airtime used to send to the neighbour.
    pub tx_airtime: Span,
    /// Rate of the last frame to the neighbour.
    pub tx_rate: BitRate,
    /// Bytes received from the neighbour.
    pub rx_bytes: u64,
    /// Frames received from the neighbour.
    pub rx_packets: u64,
    /// Airtime of the frames received from the neighbour.
    pub rx_airtime: Span,
}

/// Use of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Time the radio was on the channel.
    pub active: Span,
    /// Time the channel was sensed busy, own frames included.
    pub busy: Span,
    /// Time spent receiving frames.
    pub receive: Span,
    /// Time spent transmitting.
    pub transmit: Span,
}

/// The length of one transmit queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLength {
    /// Traffic in the queue.
    ///
    /// It is [`Class::Link`] for a queue per neighbour, and [`Class::All`] for a single queue.
    pub class: Class,
    /// Packets waiting, the frame in service included.
    pub packets: u32,
    /// IP bytes of these packets.
    pub bytes: u64,
}

/// Outcome of a transmitted frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Receiver; `None` for a broadcast.
    pub to: Option<NodeId>,
    /// Flow of the packet in the frame; `None` for control messages.
    ///
    /// For an acknowledgement, it is the acknowledged flow.
    pub flow: Option<FlowId>,
    /// True if it is a pure acknowledgement in the reverse direction.
    pub ack: bool,
    /// Size of the IP packet.
    pub bytes: u32,
    /// Airtime of all attempts, with their overhead (control frames, gaps, backoff).
    pub airtime: Span,
    /// Part of the airtime that is the mean initial backoff.
    ///
    /// It is idle time that all contending nodes count down at once.
    pub backoff: Span,
    /// Number of attempts, the first included.
    pub attempts: u8,
    /// Rate of the last attempt.
    pub rate: BitRate,
    /// True if it was acknowledged (for a broadcast: sent).
    pub delivered: bool,
    /// Bits that the receiver carries in its acknowledgements ([`crate::Action::AckBits`]).
    ///
    /// `None` without an acknowledgement, or if the receiver carries no bits.
    pub ack_bits: Option<u8>,
}

/// Counters of one flow on one link out of or into the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowLink {
    /// The link; this node is one of its ends.
    pub link: Link,
    /// The flow; for acknowledgements, the flow that they acknowledge.
    pub flow: FlowId,
    /// True for acknowledgements in the reverse direction.
    pub ack: bool,
    /// Packets, discarded ones included.
    pub packets: u64,
    /// IP bytes of these packets.
    pub bytes: u64,
}

/// Sum of the transmit statuses of one link over a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentSum {
    /// Receiver.
    pub to: NodeId,
    /// Length of the period.
    pub period: Span,
    /// Frames, retries not counted; at least one.
    pub packets: u32,
    /// Discarded frames among them.
    pub failed: u32,
    /// Attempts, the first of each frame included.
    pub attempts: u32,
    /// IP bytes.
    pub bytes: u64,
    /// Airtime of all attempts and their responses, without gaps and backoff.
    pub airtime: Span,
    /// Rate of the last frame.
    pub rate: BitRate,
}

impl SentSum {
    /// Returns the number of acknowledged frames.
    pub const fn delivered(&self) -> u32 {
        self.packets.saturating_sub(self.failed)
    }
}

/// Sum of a flow's packets on one link over a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSum {
    /// The link; this node is one of its ends.
    pub link: Link,
    /// The flow; for acknowledgements, the flow that they acknowledge.
    pub flow: FlowId,
    /// True for acknowledgements in the reverse direction.
    pub ack: bool,
    /// Packets; at least one.
    pub packets: u32,
    /// IP bytes of these packets.
    pub bytes: u64,
}

/// Header fields that packets would carry, from a message of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    /// Transmitter of the packets.
    pub from: NodeId,
    /// Receiver of the packets; `None` if the fields are in packets to all neighbours.
    pub to: Option<NodeId>,
    /// Flow of the packets, if the fields have met other nodes of its path; `None` otherwise.
    pub flow: Option<FlowId>,
    /// True if these packets are acknowledgements.
    pub ack: bool,
    /// The fields.
    pub header: Header,
}

/// A data packet in the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedFrame {
    /// Hop on which the packet was sent.
    pub link: Link,
    /// Flow of the packet; for an acknowledgement, the flow that it acknowledges.
    pub flow: FlowId,
    /// True if it is a pure acknowledgement in the reverse direction.
    pub ack: bool,
    /// Size of the IP packet.
    pub bytes: u32,
    /// Header fields of the mechanism in the packet.
    pub header: Header,
}

/// A control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Sender: a neighbour, or any node if the message was routed or delivered outside the air.
    pub from: NodeId,
    /// Body in the mechanism's own encoding; untrusted.
    pub body: &'a [u8],
}

/// Contents of an acknowledgement at the source of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The flow.
    pub flow: FlowId,
    /// Round-trip time of the data that it acknowledges cumulatively or selectively.
    ///
    /// Zero if it gives no measurement: it acknowledges a retransmission or no new data.
    pub rtt: Span,
    /// Application bytes newly acknowledged.
    pub acked: u32,
    /// Packets newly detected as lost.
    pub lost: u32,
    /// True if it echoes a congestion mark.
    pub marked: bool,
    /// The header fields that the data packet carried when it reached the receiver.
    pub header: Header,
}

/// Time from data that left this node to the acknowledgement that passes here in return.
///
/// A passive observer of TCP headers measures this; retransmitted segments are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrip {
    /// The flow.
    pub flow: FlowId,
    /// Time from this node to the flow's sink and back.
    pub rtt: Span,
}

/// A flow's share according to a capacity model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The flow.
    pub flow: FlowId,
    /// Rate of application data.
    pub rate: BitRate,
}
