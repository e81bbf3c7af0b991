//! What a mechanism may sense.

use fairmesh_units::{BitRate, FlowId, NodeId, Span};

use crate::{Class, EventKind, FlowHere, Header, Link};

/// Something that happened, or a sample. All counters are cumulative since some fixed moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event<'a> {
    /// The time of [`crate::Control::next_deadline`] has come.
    Deadline,
    /// A class's counters, as `tc -s class show` gives them.
    Counters(Counters),
    /// What a flow has sent through this node, as an `nftables` counter gives it.
    FlowCounters(FlowCounters),
    /// Signs of a flow's path through the mesh, measured at the interface to the mesh.
    PathSigns(PathSigns),
    /// A neighbour's counters, as an nl80211 station dump gives them.
    Station(Station),
    /// The channel's counters, as an nl80211 survey gives them.
    Channel(Channel),
    /// The length of a transmit queue.
    Queue(QueueLength),
    /// A frame is done with, as a driver's transmit status reports it.
    Sent(Sent),
    /// A data packet came in for this node, to keep or to forward.
    Received(Heard),
    /// A data packet for another node was overheard.
    Overheard(Heard),
    /// Another node's [`crate::Action::Send`], [`crate::Action::Route`] or [`crate::Action::Tell`] has
    /// arrived.
    Message(Message<'a>),
    /// Another node has started anew: what it said before counts no more, and its runs and sequences begin
    /// anywhere. From a host that can tell, ahead of the first message.
    Restarted(NodeId),
    /// An acknowledgement came back to the source of a local flow.
    Feedback(Feedback),
    /// The part of a passing flow's round trip that lies beyond this node was measured.
    RoundTrip(RoundTrip),
    /// A flow has begun to cross this node.
    FlowSeen(FlowHere),
    /// A flow has fallen silent or ended.
    FlowGone(FlowId),
    /// The analytic fair rate of a flow, at the start or because the set of flows has changed.
    Allocation(Allocation),
}

impl Event<'_> {
    /// The kind to be declared in [`crate::Needs`]; `None` for a deadline. Queue lengths count as
    /// samples here.
    pub fn kind(&self) -> Option<EventKind> {
        Some(match self {
            Event::Deadline => return None,
            Event::Counters(_) => EventKind::Counters,
            Event::FlowCounters(_) => EventKind::FlowCounters,
            Event::PathSigns(_) => EventKind::PathSigns,
            Event::Station(_) => EventKind::Stations,
            Event::Channel(_) => EventKind::Channel,
            Event::Queue(_) => EventKind::QueueSamples,
            Event::Sent(_) => EventKind::Sent,
            Event::Received(_) => EventKind::Received,
            Event::Overheard(_) => EventKind::Overheard,
            Event::Message(_) | Event::Restarted(_) => EventKind::Messages,
            Event::Feedback(_) => EventKind::Feedback,
            Event::RoundTrip(_) => EventKind::RoundTrips,
            Event::FlowSeen(_) | Event::FlowGone(_) => EventKind::Flows,
            Event::Allocation(_) => EventKind::Allocations,
        })
    }
}

/// Counters of one class of the mechanism's [`crate::Plan`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Which class.
    pub class: Class,
    /// IP bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Times the class had to wait for its limit.
    pub overlimits: u64,
    /// Packets waiting now.
    pub queued_packets: u32,
    /// Bytes waiting now.
    pub queued_bytes: u64,
}

/// Data of one flow that has left the node, in the flow's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCounters {
    /// Which flow.
    pub flow: FlowId,
    /// IP bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// Signs of one flow's path through the mesh, measured at the interface to the mesh: from TCP headers, from QUIC's spin
/// bit, or by echo probes where the flow's own packets give none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PathSigns {
    /// Which flow.
    pub flow: FlowId,
    /// Bytes that have passed and are not acknowledged, the SYN and the FIN as one each, of all TCP connections of the
    /// flow; `None` where TCP headers do not show it, such as for QUIC.
    pub awaited: Option<u64>,
    /// Segments that had nothing beyond the highest seen, since some moment.
    pub repeated: u64,
    /// Round trips through the mesh since the last sample; `None`: there were none.
    pub round_trip: Option<RoundTripSample>,
    /// Age of the oldest packet in the mesh that has not been answered; `None`: there is none.
    pub oldest: Option<Span>,
}

/// Round trips through the mesh between two samples, measured where the flow enters or leaves it: without the time
/// that its packets wait for a limit there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTripSample {
    /// Their median.
    pub median: Span,
    /// Least of the last one to two minutes from the same source: the mesh without queues.
    pub base: Span,
    /// Number of round trips.
    pub count: u32,
    /// Method by which all of them were measured.
    pub source: RoundTripSource,
}

/// Method by which a round trip through the mesh is measured, the preferred one first.
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
    /// All methods, the preferred one first.
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

    /// With the number of bytes that are not acknowledged.
    #[must_use]
    pub const fn with_awaited(self, awaited: u64) -> Self {
        PathSigns { awaited: Some(awaited), ..self }
    }

    /// So many segments brought nothing new.
    #[must_use]
    pub const fn with_repeated(self, repeated: u64) -> Self {
        PathSigns { repeated, ..self }
    }

    /// With its round trips, and the age of the oldest packet that has not been answered.
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
    /// Bytes sent to it.
    pub tx_bytes: u64,
    /// Frames sent to it, retries not counted.
    pub tx_packets: u64,
    /// Retries.
    pub tx_retries: u64,
    /// Frames given up.
    pub tx_failed: u64,
    /// Airtime used to send to it.
    pub tx_airtime: Span,
    /// Rate of the last frame to it.
    pub tx_rate: BitRate,
    /// Bytes received from it.
    pub rx_bytes: u64,
    /// Frames received from it.
    pub rx_packets: u64,
    /// Airtime of what was received from it.
    pub rx_airtime: Span,
}

/// How the channel was used.
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
    /// What waits there: [`Class::Link`] where there is a queue per neighbour, [`Class::All`]
    /// where one queue serves all.
    pub class: Class,
    /// Packets waiting, the frame in service included.
    pub packets: u32,
    /// Their IP bytes.
    pub bytes: u64,
}

/// What became of a transmitted frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Receiver; `None` for a broadcast.
    pub to: Option<NodeId>,
    /// Flow of the packet in it, of an acknowledgement the flow it acknowledges; `None` for
    /// control messages.
    pub flow: Option<FlowId>,
    /// Whether it is a pure acknowledgement on its way back.
    pub ack: bool,
    /// Size of the IP packet.
    pub bytes: u32,
    /// Airtime of all attempts, with their overhead (control frames, gaps, backoff).
    pub airtime: Span,
    /// How much of that is the mean initial backoff: idle time that all who wait count down at once.
    pub backoff: Span,
    /// Number of attempts, the first included.
    pub attempts: u8,
    /// Rate of the last attempt.
    pub rate: BitRate,
    /// Whether it was acknowledged (a broadcast: sent).
    pub delivered: bool,
    /// What the receiver carries in its acknowledgements ([`crate::Action::AckBits`]); `None`
    /// without an acknowledgement, or where nothing is carried.
    pub ack_bits: Option<u8>,
}

/// A data packet in the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// The hop on which it was heard.
    pub link: Link,
    /// Its flow; of an acknowledgement, the flow it acknowledges.
    pub flow: FlowId,
    /// Whether it is a pure acknowledgement on its way back.
    pub ack: bool,
    /// Size of the IP packet.
    pub bytes: u32,
    /// The mechanism's header fields in it.
    pub header: Header,
}

/// A control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Who sent it: a neighbour, or, of a message that was routed or told outside the air, any node.
    pub from: NodeId,
    /// What it said: the mechanism's own encoding, not to be trusted.
    pub body: &'a [u8],
}

/// What an acknowledgement told the source of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// Which flow.
    pub flow: FlowId,
    /// Round-trip time measured with it, by what it acknowledges cumulatively or selectively; zero
    /// if it measured none (it answers a retransmission, or nothing new).
    pub rtt: Span,
    /// Application bytes newly acknowledged.
    pub acked: u32,
    /// Packets newly found lost.
    pub lost: u32,
    /// Whether it echoes a congestion mark.
    pub marked: bool,
    /// The header fields that the data packet carried when it reached the receiver.
    pub header: Header,
}

/// From data that left this node to the acknowledgement that answers it and passes here: what a
/// passive observer of TCP headers measures, without segments that were sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrip {
    /// Which flow.
    pub flow: FlowId,
    /// From this node to the flow's sink and back.
    pub rtt: Span,
}

/// A flow's share according to a capacity model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Which flow.
    pub flow: FlowId,
    /// Rate of application data.
    pub rate: BitRate,
}
