//! What lies above the MAC: queues and packets, seen through one trait.

use fairmesh_units::{NodeId, Span, Time};

use crate::access::Access;
use crate::batch::Batch;
use crate::frame::{OnAir, OnAirMpdu};
use crate::packet::{LinkId, Outgoing, SendReport};

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
    /// Whether stations have several access categories: set by the medium like [`Upper::TODAY`].
    #[doc(hidden)]
    const EDCA: bool = false;

    /// The MAC of `node` is free: its next packet of an access category, if it has one.
    ///
    /// The category is always [`Access::BestEffort`] unless stations have several
    /// ([`MacConfig::edca`](crate::MacConfig::edca)); each has a queue of its own then.
    fn pull(&mut self, now: Time, node: NodeId, access: Access) -> Option<Outgoing>;

    /// The frame that `node` is about to send over `link` has room: packets of the category that wait
    /// for the same link, in their order, as long as they fit. Called where frames are aggregated only.
    fn pull_more(
        &mut self,
        now: Time,
        node: NodeId,
        link: LinkId,
        access: Access,
        batch: &mut Batch<'_>,
    ) {
        let _ = (now, node, link, access, batch);
    }

    /// `node` received a packet addressed to it (or broadcast) from its neighbour `from`. Each
    /// unicast packet arrives at most once.
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool);

    /// The MAC of `node` is done with a packet of a category.
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport, access: Access);

    /// `node` decoded a data frame of a category from `from` that was meant for it, or for all, and
    /// occupied the air this long; comes before [`Upper::received`], for duplicates too. Only where
    /// [`Upper::OVERHEAR`].
    fn arriving(&mut self, now: Time, node: NodeId, from: NodeId, airtime: Span, access: Access) {
        let _ = (now, node, from, airtime, access);
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

/// The layer above stations that aggregate frames, with or without several access categories.
pub(crate) struct Aggregating<'a, U, const EDCA: bool>(pub &'a mut U);

impl<U: Upper, const EDCA: bool> Upper for Aggregating<'_, U, EDCA> {
    const OBSERVE: bool = U::OBSERVE;
    const OVERHEAR: bool = U::OVERHEAR;
    const TODAY: bool = true;
    const EDCA: bool = EDCA;

    #[inline]
    fn pull(&mut self, now: Time, node: NodeId, access: Access) -> Option<Outgoing> {
        self.0.pull(now, node, access)
    }
    #[inline]
    fn pull_more(
        &mut self,
        now: Time,
        node: NodeId,
        link: LinkId,
        access: Access,
        batch: &mut Batch<'_>,
    ) {
        self.0.pull_more(now, node, link, access, batch);
    }
    #[inline]
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool) {
        self.0.received(now, node, from, packet, broadcast);
    }
    #[inline]
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport, access: Access) {
        self.0.sent(now, node, report, access);
    }
    #[inline]
    fn arriving(&mut self, now: Time, node: NodeId, from: NodeId, airtime: Span, access: Access) {
        self.0.arriving(now, node, from, airtime, access);
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
