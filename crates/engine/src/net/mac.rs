//! The network as the MAC sees it.

use fairmesh_queueing::Item;
use fairmesh_units::{NodeId, Span, Time};
use fairmesh_wifi::{Batch, LinkId, OnAir, OnAirMpdu, Outcome, Outgoing, SendReport, Upper};

use super::Net;
use super::arrival::{Arrival, Frame};
use super::flow::Hop;
use super::packet::Payload;
use crate::observe::{AirAggregate, AirFrame, AirPacket, AirPayload, FrameKind};

impl<const WATCH: bool, const HOST: bool> Upper for Net<'_, WATCH, HOST> {
    const OBSERVE: bool = WATCH;
    const OVERHEAR: bool = HOST;

    // Always: the medium is compiled twice, with aggregates and without, and each is hot.
    #[inline(always)]
    fn pull(&mut self, now: Time, node: NodeId) -> Option<Outgoing> {
        let n = node.index();
        self.interfaces[n].count(now);
        if HOST && let Some(message) = self.pull_message(n) {
            return Some(message);
        }
        let i = &mut self.interfaces[n];
        let Some(item) = i.dequeue::<HOST>(now) else {
            let ready = i.next_ready::<HOST>(now);
            let slot = self.interface_slot(n);
            self.timers.set(slot, ready);
            return None;
        };
        let hop = self.hop(item);
        self.hand_over(n, item);
        let link = match hop {
            Hop::Radio { link } => Some(link),
            Hop::Broadcast => None,
            Hop::Wire { .. } => return None,
        };
        Some(Outgoing { packet: item.handle, link, bytes: item.bytes })
    }

    fn pull_more(&mut self, now: Time, node: NodeId, link: LinkId, batch: &mut Batch<'_>) {
        let n = node.index();
        self.interfaces[n].count(now);
        let wanted = Hop::Radio { link };
        let mut k = 0;
        while k < self.interfaces[n].aside.len() {
            let item = self.interfaces[n].aside[k];
            if self.hop(item) != wanted {
                k += 1;
                continue;
            }
            if !batch.fits(item.bytes) {
                return;
            }
            self.interfaces[n].aside.remove(k);
            self.hand_over(n, item);
            batch.take(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes });
        }
        // What is drawn and does not go stays next in turn.
        while batch.fits(0) {
            let Some(item) = self.interfaces[n].draw::<HOST>(now) else { break };
            let other = self.hop(item) != wanted;
            if other || !batch.fits(item.bytes) {
                self.interfaces[n].aside.push_back(item);
                if !other || !self.interfaces[n].is_fifo() {
                    return;
                }
                continue;
            }
            self.hand_over(n, item);
            batch.take(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes });
        }
    }

    #[inline(always)]
    fn received(&mut self, now: Time, node: NodeId, from: NodeId, packet: u32, broadcast: bool) {
        if HOST && self.note_received(node, from, packet, broadcast) {
            return;
        }
        if broadcast {
            // The packet stays with its sender, for the next receiver.
            self.arrivals.push(Arrival { at: now, node, frame: Frame(packet) });
            return;
        }
        self.arrive(now, node.0, packet);
    }

    #[inline(always)]
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport) {
        let n = node.index();
        let i = &mut self.interfaces[n];
        i.count(now);
        i.release(report.packet.bytes);
        if WATCH {
            self.snapshots[n].retain(|s| s.0 != report.packet.packet);
        }
        if HOST && self.note_sent(node, report) {
            return;
        }
        let class = if HOST { self.interfaces[n].settle(report) } else { None };
        if report.outcome == Outcome::Lost {
            let p = self.packets.remove(report.packet.packet);
            self.flows[p.flow as usize].meters.drops.retry_limit += 1;
        } else if report.packet.link.is_none() {
            // A broadcast has been heard by whoever could.
            self.packets.remove(report.packet.packet);
            self.arrived += 1;
        }
        if HOST {
            self.note_queue(n, class);
        }
    }

    fn arriving(&mut self, _: Time, node: NodeId, from: NodeId, airtime: Span) {
        self.listeners.arriving(node, from, airtime);
    }

    fn overheard(&mut self, _: Time, node: NodeId, from: NodeId, packet: u32) {
        self.listeners.overheard(node, from, packet);
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
        let frame = AirFrame {
            start: f.start,
            end: f.end,
            kind,
            from: f.from,
            to: f.to,
            rate: self.rates[f.rate.index()],
            mpdu_bytes: f.bytes,
            duration_us: f.nav.as_nanos().div_ceil(1000) as u16,
            retry: false,
            sequence: 0,
            aggregate: None,
            block_ack: f.block_ack,
            qos: self.qos && f.to.is_some(),
            packet: None,
        };
        if mpdus.is_empty() {
            observer.frame(&frame);
            return;
        }
        let count = mpdus.len() as u16;
        self.aggregates += u32::from(count > 1);
        let reference = self.aggregates;
        let snapshots = &self.snapshots[f.from.index()];
        for (index, m) in mpdus.iter().enumerate() {
            let packet = snapshots.iter().find(|s| s.0 == m.packet).map(|s| s.1);
            let place = AirAggregate { reference, index: index as u16, count };
            observer.frame(&AirFrame {
                mpdu_bytes: m.bytes,
                retry: m.retry,
                sequence: m.sequence,
                aggregate: (count > 1).then_some(place),
                packet,
                ..frame
            });
        }
    }
}

impl<const WATCH: bool, const HOST: bool> Net<'_, WATCH, HOST> {
    /// Over which hop a packet leaves the node where it waits.
    #[inline(always)]
    fn hop(&self, item: Item) -> Hop {
        let p = self.packets.get(item.handle);
        let flow = &self.flows[p.flow as usize];
        let place = p.place as usize;
        if p.forward { flow.forward[place] } else { flow.back[place - 1] }
    }

    /// The MAC of a node takes a packet.
    #[inline(always)]
    fn hand_over(&mut self, n: usize, item: Item) {
        if HOST {
            self.note_service(n, item);
        }
        if WATCH && let Some(seen) = self.air_packet(item.handle) {
            self.snapshots[n].push((item.handle, seen));
        }
    }

    pub(super) fn air_packet(&self, handle: u32) -> Option<AirPacket> {
        let p = self.packets.get(handle);
        let payload = match p.payload {
            Payload::Tcp(s) => AirPayload::Tcp(s),
            Payload::Udp(d) => AirPayload::Udp { sequence: d.seq },
            Payload::Message(_) | Payload::External => return None,
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
