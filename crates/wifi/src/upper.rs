//! What lies above the MAC: queues and packets, seen through one trait.

use fairmesh_units::{NodeId, Span, Time};

use crate::aggregate::Batch;
use crate::phy::Rate;

/// A link of the medium: an index handed out by [`Air::link`](crate::Air::link).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// A packet on its way into the MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The upper layer's handle.
    pub packet: u32,
    /// Where to; `None` broadcasts at the lowest basic rate, once and unacknowledged.
    pub link: Option<LinkId>,
    /// Length of the IP datagram.
    pub bytes: u32,
}

/// How the MAC got rid of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The receiver acknowledged it, or it was a broadcast.
    Sent,
    /// The retry limit was reached, and the receiver never had it.
    Lost,
    /// The retry limit was reached because acknowledgements were lost: the receiver has it.
    Unconfirmed,
}

/// What a driver's transmit status tells: one per packet, when the MAC is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendReport {
    /// The packet.
    pub packet: Outgoing,
    /// How it ended.
    pub outcome: Outcome,
    /// Data frames put on the air that carried it.
    pub data_attempts: u32,
    /// RTS frames put on the air for it.
    pub rts_attempts: u32,
    /// Rate of the last data frame.
    pub rate: Rate,
    /// Medium time of all its frames (RTS, data) and of the answers they got (CTS, ACK); its part by
    /// length of those that it shared.
    pub airtime: Span,
    /// From the moment the MAC took it.
    pub service: Span,
}

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
    /// An interferer's energy; not a frame.
    Noise,
}

/// A frame as its transmitter puts it on the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnAir {
    /// First bit of the preamble.
    pub start: Time,
    /// Last bit.
    pub end: Time,
    /// Kind.
    pub kind: FrameKind,
    /// Transmitter.
    pub from: NodeId,
    /// Receiver; `None` for broadcast and noise.
    pub to: Option<NodeId>,
    /// Rate.
    pub rate: Rate,
    /// Length of the PSDU: of the MPDU, header and FCS included, where the frame carries one.
    pub bytes: u32,
    /// Duration field.
    pub nav: Span,
    /// What a BlockAck says; `None` in every other frame.
    pub block_ack: Option<BlockAck>,
}

/// The content of a BlockAck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockAck {
    /// The sequence number that the first bit is of.
    pub first: u16,
    /// A bit for each MPDU that the receiver has, from the least significant one on.
    pub bitmap: [u64; 4],
}

/// An MPDU inside a data frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnAirMpdu {
    /// The upper layer's packet.
    pub packet: u32,
    /// Length, header and FCS included.
    pub bytes: u32,
    /// Sequence number, 0..4096.
    pub sequence: u16,
    /// The Retry bit.
    pub retry: bool,
}

/// The layer above the MAC of every station.
///
/// Calls come synchronously while the medium works; the implementation may queue packets for the
/// station named in the call (the MAC looks for them when the call returns), and for any other
/// only by calling [`Air::kick`](crate::Air::kick) later.
pub trait Upper {
    /// Whether [`Upper::on_air`] is wanted.
    const OBSERVE: bool = false;
    /// Whether [`Upper::overheard`] and [`Upper::arriving`] are wanted.
    const OVERHEAR: bool = false;
    /// Whether frames are aggregated: what the medium tells itself, so that other networks carry
    /// nothing of it. Leave it alone.
    #[doc(hidden)]
    const TODAY: bool = false;

    /// The MAC of `node` is free: its next packet, if it has one.
    fn pull(&mut self, now: Time, node: NodeId) -> Option<Outgoing>;

    /// The frame that `node` is about to send over `link` has room: packets that wait for the same
    /// link, in their order, as long as they fit. Asked where frames are aggregated only.
    fn pull_more(&mut self, now: Time, node: NodeId, link: LinkId, batch: &mut Batch<'_>) {
        let _ = (now, node, link, batch);
    }

    /// `node` received a packet addressed to it (or broadcast) from its neighbour `from`. Each
    /// unicast packet arrives at most once.
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool);

    /// The MAC of `node` is done with a packet.
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport);

    /// `node` decoded a data frame from `from` that was meant for it, or for all, and occupied the
    /// air this long; comes before [`Upper::received`], for duplicates too. Only where
    /// [`Upper::OVERHEAR`].
    fn arriving(&mut self, now: Time, node: NodeId, from: NodeId, airtime: Span) {
        let _ = (now, node, from, airtime);
    }

    /// `node` decoded a data frame meant for another. The packet is in service at `from`, but may
    /// have moved on to its receiver already. Only where [`Upper::OVERHEAR`].
    fn overheard(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32) {
        let _ = (now, node, from, packet);
    }

    /// A frame starts, and carries these MPDUs; none where it is not data.
    fn on_air(&mut self, frame: &OnAir, mpdus: &[OnAirMpdu]) {
        let _ = (frame, mpdus);
    }
}

/// The layer above stations of 802.11n, ac and ax.
pub(crate) struct Today<'a, U>(pub &'a mut U);

impl<U: Upper> Upper for Today<'_, U> {
    const OBSERVE: bool = U::OBSERVE;
    const OVERHEAR: bool = U::OVERHEAR;
    const TODAY: bool = true;

    #[inline]
    fn pull(&mut self, now: Time, node: NodeId) -> Option<Outgoing> {
        self.0.pull(now, node)
    }
    #[inline]
    fn pull_more(&mut self, now: Time, node: NodeId, link: LinkId, batch: &mut Batch<'_>) {
        self.0.pull_more(now, node, link, batch);
    }
    #[inline]
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool) {
        self.0.received(now, node, from, packet, broadcast);
    }
    #[inline]
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport) {
        self.0.sent(now, node, report);
    }
    #[inline]
    fn arriving(&mut self, now: Time, node: NodeId, from: NodeId, airtime: Span) {
        self.0.arriving(now, node, from, airtime);
    }
    #[inline]
    fn overheard(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32) {
        self.0.overheard(now, node, from, packet);
    }
    #[inline]
    fn on_air(&mut self, frame: &OnAir, mpdus: &[OnAirMpdu]) {
        self.0.on_air(frame, mpdus);
    }
}
