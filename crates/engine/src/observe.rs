//! Observation of frames and stations during a run.

use std::any::Any;

use fairmesh_transport::{Segment, quic};
use fairmesh_units::{BitRate, FlowId, NodeId, Time};
pub use fairmesh_wifi::{AttemptOutcome, Backoff, BlockAck, MacState, Subframe};

/// Kinds of frame on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Data, unicast or broadcast.
    Data,
    /// Acknowledgement.
    Ack,
    /// Request to send.
    Rts,
    /// Clear to send.
    Cts,
    /// Block acknowledgement.
    BlockAck,
}

/// The position of an MPDU in an A-MPDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AirAggregate {
    /// Running number of the A-MPDU, the same for all its MPDUs.
    pub reference: u32,
    /// Index of the MPDU, from 0.
    pub index: u16,
    /// Number of MPDUs in the A-MPDU.
    pub count: u16,
}

/// A frame as its transmitter sent it.
///
/// It is one MPDU, which may be part of an A-MPDU, or one packet of an A-MSDU.
#[derive(Clone, Copy, Debug)]
pub struct AirFrame {
    /// First bit of the preamble, which the MPDUs of an A-MPDU share.
    pub start: Time,
    /// Last bit of the frame.
    pub end: Time,
    /// Kind.
    pub kind: FrameKind,
    /// Transmitter.
    pub from: NodeId,
    /// Receiver; `None` for broadcast.
    pub to: Option<NodeId>,
    /// PHY rate.
    pub rate: BitRate,
    /// Centre frequency of the primary channel, MHz, if the scenario gives it.
    pub channel_mhz: Option<u16>,
    /// MPDU length with header and FCS, in bytes.
    pub mpdu_bytes: u32,
    /// Duration/ID field, µs (IEEE 802.11-2020 §9.2.4.2).
    pub duration_us: u16,
    /// True if the Retry bit is set.
    pub retry: bool,
    /// MAC sequence number, 0..4096.
    pub sequence: u16,
    /// Position in an A-MPDU; `None` if the MPDU is alone.
    pub aggregate: Option<AirAggregate>,
    /// Position of its packet in an A-MSDU; `None` if the packet is alone.
    pub subframe: Option<Subframe>,
    /// Content of a BlockAck.
    pub block_ack: Option<BlockAck>,
    /// True if a data frame has a QoS Control field.
    pub qos: bool,
    /// User priority of data, 0 to 7, which is its TID; for a BlockAck, its TID.
    ///
    /// 0 is best effort.
    pub priority: u8,
    /// The IP packet inside a data frame.
    pub packet: Option<AirPacket>,
}

/// The IP packet inside a data frame.
#[derive(Clone, Copy, Debug)]
pub struct AirPacket {
    /// Flow of the packet.
    pub flow: FlowId,
    /// Originating node.
    pub source: NodeId,
    /// Final node.
    pub destination: NodeId,
    /// Length of the IP datagram, in bytes.
    pub ip_bytes: u32,
    /// True if it carries congestion experienced (RFC 3168).
    pub ce: bool,
    /// True if it is ECN-capable.
    pub ect: bool,
    /// True if it is ECN-capable by ECT(1) instead of ECT(0).
    pub ect1: bool,
    /// Payload.
    pub payload: AirPayload,
}

/// Payload of an IP packet.
#[derive(Clone, Copy, Debug)]
pub enum AirPayload {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram with this running number.
    Udp {
        /// Running number within the flow.
        sequence: u64,
    },
    /// A QUIC packet in a UDP datagram, encrypted except for its header.
    Quic {
        /// Packet type within the connection.
        kind: quic::Kind,
    },
}

/// Receiver of frames as they start; the default ignores them.
///
/// A [`Simulation`](crate::Simulation) owns its observer, and returns it at the end.
pub trait Observer: Any + Send {
    /// Receives a frame at its start.
    ///
    /// Called for each MPDU of an A-MPDU in order, and each packet of an A-MSDU.
    fn frame(&mut self, _frame: &AirFrame) {}

    /// Receives the outcome of the last RTS or data frame of `from` to `to`.
    ///
    /// Called when the sender knows it.
    fn attempted(&mut self, _now: Time, _from: NodeId, _to: NodeId, _outcome: &AttemptOutcome) {}
}

/// State of one wireless node between two events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeState {
    /// The node.
    pub node: NodeId,
    /// State of its MAC.
    pub mac: MacState,
    /// Packets that wait for the MAC, those of a control's classes included.
    pub queue_packets: u32,
}
