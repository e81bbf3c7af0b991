//! Looking at a run while it happens, frame by frame.

use std::any::Any;

use fairmesh_transport::{Segment, quic};
use fairmesh_units::{BitRate, FlowId, NodeId, Time};
pub use fairmesh_wifi::{BlockAck, Subframe};

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

/// The place of an MPDU in an A-MPDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AirAggregate {
    /// Running number of the A-MPDU, the same for all its MPDUs.
    pub reference: u32,
    /// The MPDU's place, from 0.
    pub index: u16,
    /// MPDUs in it.
    pub count: u16,
}

/// A frame as its transmitter put it on the air: one MPDU, alone or of an A-MPDU; of an A-MSDU one packet.
#[derive(Clone, Copy, Debug)]
pub struct AirFrame {
    /// First bit of the preamble, which the MPDUs of an A-MPDU share.
    pub start: Time,
    /// Last bit of the whole.
    pub end: Time,
    /// Kind.
    pub kind: FrameKind,
    /// Transmitter.
    pub from: NodeId,
    /// Receiver; `None` for broadcast.
    pub to: Option<NodeId>,
    /// PHY rate.
    pub rate: BitRate,
    /// Middle of the primary channel, MHz, where the scenario tells it.
    pub channel_mhz: Option<u16>,
    /// MPDU length with header and FCS, bytes.
    pub mpdu_bytes: u32,
    /// Duration/ID field, µs (IEEE 802.11-2020 §9.2.4.2).
    pub duration_us: u16,
    /// Whether the Retry bit is set.
    pub retry: bool,
    /// MAC sequence number, 0..4096.
    pub sequence: u16,
    /// Its place where it is one of several; `None` where it is alone.
    pub aggregate: Option<AirAggregate>,
    /// Which part of an A-MSDU its packet is; `None`: the only one.
    pub subframe: Option<Subframe>,
    /// What a BlockAck says.
    pub block_ack: Option<BlockAck>,
    /// Whether a data frame has a QoS Control field.
    pub qos: bool,
    /// The user priority of data, 0 to 7, which is its TID; of a BlockAck, the TID that it is of. 0 is best effort.
    pub priority: u8,
    /// The IP packet inside a data frame.
    pub packet: Option<AirPacket>,
}

/// The IP packet inside a data frame.
#[derive(Clone, Copy, Debug)]
pub struct AirPacket {
    /// Its flow.
    pub flow: FlowId,
    /// Originating node.
    pub source: NodeId,
    /// Final node.
    pub destination: NodeId,
    /// Length of the IP datagram, bytes.
    pub ip_bytes: u32,
    /// Whether it carries congestion experienced (RFC 3168).
    pub ce: bool,
    /// Whether it is ECN-capable.
    pub ect: bool,
    /// Whether by ECT(1) instead of ECT(0).
    pub ect1: bool,
    /// What it carries.
    pub payload: AirPayload,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum AirPayload {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram with this running number.
    Udp {
        /// Running number within the flow.
        sequence: u64,
    },
    /// A QUIC packet in a UDP datagram; all but its header is encrypted.
    Quic {
        /// Which of a connection's packets it is.
        kind: quic::Kind,
    },
}

/// Receives frames as they start; the default does nothing. A [`Simulation`](crate::Simulation) owns its observer, and
/// returns it at the end.
pub trait Observer: Any + Send {
    /// A frame starts; of an A-MPDU, each MPDU in its order, and of an A-MSDU each packet.
    fn frame(&mut self, _frame: &AirFrame) {}
}
