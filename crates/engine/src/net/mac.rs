//! The interface of the network to the MAC.

use fairmesh_queueing::{DeferredVerdict, Item, Queue};
use fairmesh_units::{NodeId, Span, Time};
use fairmesh_wifi::{
    Access, AttemptOutcome, Batch, LinkId, OnAir, OnAirMpdu, Outcome, Outgoing, SendReport, Upper,
};

use super::Net;
use super::arrival::{Arrival, Frame};
use super::flow::Hop;
use super::packet::Payload;
use crate::observe::{AirAggregate, AirFrame, AirPacket, AirPayload, FrameKind};
use crate::record::Cause;

impl<const WATCH: bool, const HOST: bool> Upper for Net<WATCH, HOST> {
    const OBSERVE: bool = WATCH;
    const OVERHEAR: bool = HOST;

    // Always inlined: the medium is compiled several times, and each instance is hot.
    #[inline(always)]
    fn pull(&mut self, now: Time, node: NodeId, access: Access) -> Option<Outgoing> {
        let taken = self.take(now, node, access);
        if taken.is_some() {
            self.waits_no_more(node.index(), access);
        }
        taken
    }

    fn pull_more(
        &mut self,
        now: Time,
        node: NodeId,
        link: LinkId,
        access: Access,
        batch: &mut Batch<'_>,
    ) {
        self.fill(now, node, link, access, batch);
    }

    #[inline(always)]
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool) {
        if HOST && self.note_received(now, node, from, packet, broadcast) {
            return;
        }
        if broadcast {
            // The sender keeps the packet for further receivers.
            let ce = self.packets.get(packet).ce;
            self.arrivals.push(Arrival { at: now, node, frame: Frame(packet), ce });
            return;
        }
        self.arrive(now, node.0, packet);
    }

    #[inline(always)]
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport, access: Access) {
        self.done(now, node, report, access);
    }

    fn arriving(&mut self, _: Time, node: NodeId, from: NodeId, airtime: Span, access: Access) {
        self.coming(node, from, airtime, access);
    }

    fn overheard(&mut self, _: Time, node: NodeId, from: NodeId, packet: u32) {
        self.listeners.overheard(node, from, packet);
    }

    fn attempted(&mut self, now: Time, from: NodeId, to: NodeId, outcome: &AttemptOutcome) {
        if let Some(observer) = &mut self.observer {
            observer.attempted(now, from, to, outcome);
        }
    }

    #[inline]
    fn on_air(&mut self, f: &OnAir, mpdus: &[OnAirMpdu]) {
        let Some(observer) = &mut self.observer else { return };
        let kind = match f.kind {
            fairmesh_wifi::FrameKind::Data => FrameKind::Data,
            fairmesh_wifi::FrameKind::Ack => FrameKind::Ack,
            fairmesh_wifi::FrameKind::Rts => FrameKind::Rts,
            fairmesh_wifi::FrameKind::Cts => FrameKind::Cts,
            fairmesh_wifi::FrameKind::BlockAck => FrameKind::BlockAck,
            fairmesh_wifi::FrameKind::Noise => return,
        };
        let radio = &self.radio_descriptions[f.from.index()];
        let frame = AirFrame {
            start: f.start,
            end: f.end,
            kind,
            from: f.from,
            to: f.to,
            rate: radio.rates[f.rate.index()],
            channel_mhz: radio.channel_mhz,
            mpdu_bytes: f.bytes,
            duration_us: f.nav.as_nanos().div_ceil(1000) as u16,
            retry: false,
            sequence: 0,
            aggregate: None,
            subframe: None,
            block_ack: f.block_ack,
            qos: radio.qos && f.to.is_some(),
            priority: f.access.user_priority(),
            packet: None,
        };
        if mpdus.is_empty() {
            observer.frame(&frame);
            return;
        }
        let begins = |m: &OnAirMpdu| m.subframe.is_none_or(|s| s.index == 0);
        let count = mpdus.iter().filter(|m| begins(m)).count() as u16;
        self.aggregates += u32::from(count > 1);
        let reference = self.aggregates;
        let snapshots = &self.snapshots[f.from.index()];
        let mut before = 0;
        for m in mpdus {
            before += u16::from(begins(m));
            let packet = snapshots.iter().find(|s| s.0 == (m.packet, f.access)).map(|s| s.1);
            let place = AirAggregate { reference, index: before - 1, count };
            observer.frame(&AirFrame {
                mpdu_bytes: m.bytes,
                retry: m.retry,
                sequence: m.sequence,
                aggregate: (count > 1).then_some(place),
                subframe: m.subframe,
                packet,
                ..frame
            });
        }
    }
}

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Returns the hop over which a packet leaves the node where it waits.
    #[inline(always)]
    fn hop(&self, item: Item) -> Hop {
        let p = self.packets.get(item.handle);
        let flow = &self.flows[p.flow as usize];
        let place = p.place as usize;
        if p.forward { flow.forward[place] } else { flow.back[place - 1] }
    }

    /// Returns the next packet of a category for the MAC.
    ///
    /// Always inlined: the medium is compiled several times, and each instance is hot.
    #[inline(always)]
    fn take(&mut self, now: Time, node: NodeId, access: Access) -> Option<Outgoing> {
        let n = node.index();
        self.lane(n, access).count(now);
        // Controls' messages are best effort.
        if HOST
            && access == Access::BestEffort
            && let Some(message) = self.pull_message(n)
        {
            return Some(message);
        }
        let i = self.lane(n, access);
        if i.modern {
            i.fill_device::<HOST>(now);
        }
        let taken = i.dequeue::<HOST>(now);
        self.settle_late(n, access);
        let Some(item) = taken else {
            let ready = self.lane(n, access).next_ready::<HOST>(now);
            self.wait_until(n, access, ready);
            return None;
        };
        let hop = self.hop(item);
        self.hand_over(n, item, access);
        let link = match hop {
            Hop::Radio { link } => Some(link),
            Hop::Broadcast => None,
            Hop::Wire { .. } | Hop::Bus { .. } => return None,
        };
        Some(Outgoing { packet: item.handle, link, bytes: item.bytes })
    }

    /// Fills a frame with packets that wait for the same neighbour in the same category.
    #[inline(always)]
    fn fill(
        &mut self,
        now: Time,
        node: NodeId,
        link: LinkId,
        access: Access,
        batch: &mut Batch<'_>,
    ) {
        let n = node.index();
        self.lane(n, access).count(now);
        let wanted = Hop::Radio { link };
        let i = self.lane(n, access);
        if i.modern && i.stations().is_some() {
            self.fill_from_station(now, n, link, access, batch);
            return;
        }
        let mut k = 0;
        loop {
            if k >= self.lane(n, access).aside.len() {
                if self.lane(n, access).device == 0 {
                    break;
                }
                self.lane(n, access).fill_device::<HOST>(now);
                self.settle_late(n, access);
                if k >= self.lane(n, access).aside.len() {
                    break;
                }
            }
            let item = self.lane(n, access).aside[k];
            if self.hop(item) != wanted {
                k += 1;
                continue;
            }
            if !batch.fits(item.bytes) {
                return;
            }
            self.lane(n, access).aside.remove(k);
            self.hand_over(n, item, access);
            batch.take(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes });
        }
        if self.lane(n, access).device > 0 {
            return;
        }
        if !HOST && self.lane(n, access).is_plain() {
            self.fill_plain(n, link, access, batch);
            return;
        }
        // A packet that was taken and does not fit is the next one.
        while batch.fits(0) {
            let drawn = self.lane(n, access).draw::<HOST>(now);
            self.settle_late(n, access);
            let Some(item) = drawn else { break };
            let other = self.hop(item) != wanted;
            if other || !batch.fits(item.bytes) {
                let i = self.lane(n, access);
                i.aside.push_back(item);
                if !other || !i.is_fifo() {
                    return;
                }
                continue;
            }
            self.hand_over(n, item, access);
            batch.take(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes });
        }
    }

    /// Fills a frame from a drop-tail queue.
    ///
    /// Packets for others are skipped until one does not fit.
    #[inline(always)]
    fn fill_plain(&mut self, n: usize, link: LinkId, access: Access, batch: &mut Batch<'_>) {
        let wanted = Hop::Radio { link };
        while batch.fits(0) {
            let Some(item) = self.lane(n, access).draw_plain() else { return };
            let here = self.hop(item) == wanted;
            if !here || !batch.fits(item.bytes) {
                self.lane(n, access).aside.push_back(item);
                if here {
                    return;
                }
                continue;
            }
            self.hand_over(n, item, access);
            batch.take(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes });
        }
    }

    /// Records that the MAC has finished a packet of a category.
    #[inline(always)]
    fn done(&mut self, now: Time, node: NodeId, report: &SendReport, access: Access) {
        let n = node.index();
        let i = self.lane(n, access);
        i.count(now);
        i.release(report.packet.bytes);
        if WATCH {
            let handle = (report.packet.packet, access);
            self.snapshots[n].retain(|s| s.0 != handle);
        }
        if HOST && self.note_sent(node, report) {
            return;
        }
        if HOST && let Some(links) = &mut self.links {
            links.done(node, report);
        }
        let i = self.lane(n, access);
        if i.modern
            && let Some(stations) = i.queue.as_stations_mut()
        {
            stations.settle(i.serving, report.packet.bytes, report.airtime);
        }
        let class = if HOST { self.interfaces[n].settle(report) } else { None };
        if report.outcome == Outcome::Lost {
            self.lose(report.packet.packet, Cause::RetryLimit);
        } else if report.packet.link.is_none() {
            // A broadcast has been received by every node that could decode it.
            self.packets.remove(report.packet.packet);
            self.arrived += 1;
        }
        if HOST {
            self.note_queue(n, class);
        }
    }

    /// Records that a neighbour's frame of a category has arrived.
    #[inline(always)]
    fn coming(&mut self, node: NodeId, from: NodeId, airtime: Span, access: Access) {
        // Frames received from a station are charged like those sent to it: Ending the Anomaly
        // §3.2.
        let here = self.lane(node.index(), access);
        if here.modern
            && let Some(stations) = here.queue.as_stations_mut()
        {
            stations.charge(from.0 as u16, airtime);
        }
        self.listeners.arriving(node, from, airtime);
    }

    /// Handles the changes that a queue made to packets after accepting them.
    #[inline(always)]
    pub(super) fn settle_late(&mut self, n: usize, access: Access) {
        if self.lane(n, access).modern {
            self.take_late(n, access);
        }
    }

    #[cold]
    fn take_late(&mut self, n: usize, access: Access) {
        while let Some(late) = self.lane(n, access).queue.deferred_verdict() {
            match late {
                DeferredVerdict::Dropped(item, _) => {
                    self.lose(item.handle, Cause::Queue);
                }
                DeferredVerdict::Marked(item) => self.packets.get_mut(item.handle).ce = true,
            }
        }
    }

    /// Fills a frame with packets for its own station only.
    ///
    /// A packet that does not fit stays next there.
    fn fill_from_station(
        &mut self,
        now: Time,
        n: usize,
        link: LinkId,
        access: Access,
        batch: &mut Batch<'_>,
    ) {
        let station = self.lane(n, access).serving;
        while batch.fits(0) {
            let Some(stations) = self.lane(n, access).stations() else { return };
            let taken = stations.dequeue_for(now, station);
            let back = taken.filter(|item| !batch.fits(item.bytes));
            if let Some(item) = back {
                stations.put_back(item);
            }
            self.settle_late(n, access);
            let (Some(item), None) = (taken, back) else { return };
            self.lane(n, access).held.add(item);
            self.hand_over(n, item, access);
            batch.take(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes });
        }
    }

    /// Passes a packet to the MAC of a node.
    #[inline(always)]
    fn hand_over(&mut self, n: usize, item: Item, access: Access) {
        if HOST {
            self.note_service(n, item);
        }
        if WATCH && let Some(seen) = self.air_packet(item.handle) {
            self.snapshots[n].push(((item.handle, access), seen));
        }
    }

    pub(super) fn air_packet(&self, handle: u32) -> Option<AirPacket> {
        let p = self.packets.get(handle);
        let payload = match p.payload {
            Payload::Tcp(s) => AirPayload::Tcp(s),
            Payload::Udp(d) => AirPayload::Udp { sequence: d.seq },
            Payload::Quic { body, .. } => AirPayload::Quic { kind: self.packets.body(body).kind },
            Payload::Message(_) | Payload::Echo { .. } | Payload::External => return None,
        };
        let path = &self.flows[p.flow as usize].path;
        let (first, last) = (NodeId(path[0]), NodeId(path[path.len() - 1]));
        let (source, destination) = if p.forward { (first, last) } else { (last, first) };
        Some(AirPacket {
            flow: fairmesh_units::FlowId(p.flow),
            source,
            destination,
            ip_bytes: p.bytes,
            ce: p.ce,
            ect: p.ect,
            ect1: p.ect1,
            payload,
        })
    }
}
