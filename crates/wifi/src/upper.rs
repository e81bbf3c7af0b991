//! The layer above the MAC: queues and packets, behind one trait.

use fairmesh_units::{NodeId, Span, Time};

use crate::access::Access;
use crate::batch::Batch;
use crate::frame::{OnAir, OnAirMpdu};
use crate::losses::AttemptOutcome;
use crate::packet::{AttemptRate, LinkId, Outgoing, SendReport};

/// The layer above the MAC of every station.
///
/// Calls are synchronous, during a step of the medium. The implementation may queue packets for the
/// station named in the call: the MAC polls for them when the call returns. For any other station
/// it must call [`Air::kick`](crate::Air::kick) later.
pub trait Upper {
    /// True if [`Upper::on_air`] and [`Upper::attempted`] are to be called.
    const OBSERVE: bool = false;
    /// True if [`Upper::overheard`] and [`Upper::arriving`] are to be called.
    const OVERHEAR: bool = false;
    /// True if the upper layer decides rates and attempts.
    ///
    /// [`Upper::attempt_rate`] then replaces rate adaptation and the retry limits.
    const RATE_SERIES: bool = false;
    /// True if frames are aggregated.
    ///
    /// Set by the medium, so that networks without aggregation have no cost; implementations do not set it.
    #[doc(hidden)]
    const AGGREGATION: bool = false;
    /// True if stations have several access categories.
    ///
    /// Set by the medium like [`Upper::AGGREGATION`].
    #[doc(hidden)]
    const EDCA: bool = false;
    /// True if the rules of ns-2 are in force; set by the medium like [`Upper::AGGREGATION`].
    #[doc(hidden)]
    const NS2: bool = false;

    /// Returns the next packet of an access category for the idle MAC of `node`, if any.
    ///
    /// The category is always [`Access::BestEffort`] unless stations have several
    /// ([`MacConfig::edca`](crate::MacConfig::edca)); each then has a separate queue.
    fn pull(&mut self, now: Time, node: NodeId, access: Access) -> Option<Outgoing>;

    /// Fills the frame that `node` is about to send over `link`.
    ///
    /// Takes packets of the category for the same link, in queue order, while they fit. Called only
    /// if frames are aggregated.
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

    /// Returns the rate of an attempt at a packet, counted from 0, and if it is the last one.
    ///
    /// A driver's rate series gives both. For the rate, all attempts at the packet count, so that numbers
    /// beyond the series occur; for the end, only consecutive ones without any response. Called only with
    /// [`Upper::RATE_SERIES`].
    fn attempt_rate(&mut self, packet: u32, attempt: u32) -> AttemptRate {
        let _ = (packet, attempt);
        AttemptRate::default()
    }

    /// Handles a packet that `node` received from its neighbour `from`, or as a broadcast.
    ///
    /// Each unicast packet arrives at most once.
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool);

    /// Handles the report of the MAC of `node` on a finished packet of a category.
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport, access: Access);

    /// Handles a data frame of a category from `from` that `node` decoded.
    ///
    /// The frame is for `node` or for all, and occupied the air for `airtime`. Called before
    /// [`Upper::received`], for duplicates too, and only with [`Upper::OVERHEAR`].
    fn arriving(&mut self, now: Time, node: NodeId, from: NodeId, airtime: Span, access: Access) {
        let _ = (now, node, from, airtime, access);
    }

    /// Handles a data frame for another station that `node` decoded.
    ///
    /// The packet is in service at `from`, but may have moved on to its receiver already. Called only with
    /// [`Upper::OVERHEAR`].
    fn overheard(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32) {
        let _ = (now, node, from, packet);
    }

    /// Handles the start of a frame and the MPDUs that it carries.
    ///
    /// None unless it is a data frame.
    fn on_air(&mut self, frame: &OnAir, mpdus: &[OnAirMpdu]) {
        let _ = (frame, mpdus);
    }

    /// Handles the outcome of the last RTS or data frame of `from` to `to`, known at `now`.
    ///
    /// Called only with [`Upper::OBSERVE`].
    fn attempted(&mut self, now: Time, from: NodeId, to: NodeId, outcome: &AttemptOutcome) {
        let _ = (now, from, to, outcome);
    }
}

/// Upper layer of stations with aggregation, EDCA or ns-2 rules; monomorphised separately.
pub(crate) struct Special<'a, U, const AGGREGATION: bool, const EDCA: bool, const NS2: bool>(
    &'a mut U,
);

/// Upper layer of stations with aggregation and one access category.
pub(crate) type Aggregating<'a, U> = Special<'a, U, true, false, false>;
/// Upper layer of stations with aggregation and several access categories.
pub(crate) type ByCategory<'a, U> = Special<'a, U, true, true, false>;
/// Upper layer of stations with the rules of ns-2.
pub(crate) type Ns2<'a, U> = Special<'a, U, false, false, true>;

impl<'a, U, const AGGREGATION: bool, const EDCA: bool, const NS2: bool>
    Special<'a, U, AGGREGATION, EDCA, NS2>
{
    /// Wraps the layer above.
    #[inline]
    pub fn new(upper: &'a mut U) -> Self {
        Special(upper)
    }
}

impl<U: Upper, const AGGREGATION: bool, const EDCA: bool, const NS2: bool> Upper
    for Special<'_, U, AGGREGATION, EDCA, NS2>
{
    const OBSERVE: bool = U::OBSERVE;
    const OVERHEAR: bool = U::OVERHEAR;
    const RATE_SERIES: bool = U::RATE_SERIES;
    const AGGREGATION: bool = AGGREGATION;
    const EDCA: bool = EDCA;
    const NS2: bool = NS2;

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
    fn attempt_rate(&mut self, packet: u32, attempt: u32) -> AttemptRate {
        self.0.attempt_rate(packet, attempt)
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
    #[inline]
    fn attempted(&mut self, now: Time, from: NodeId, to: NodeId, outcome: &AttemptOutcome) {
        self.0.attempted(now, from, to, outcome);
    }
}
