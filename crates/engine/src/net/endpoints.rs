//! Applications and transports: packets that leave or reach an endpoint.

use fairmesh_transport::quic;
use fairmesh_transport::traffic::{Action, Side};
use fairmesh_units::{NodeId, Time};

use super::Net;
use super::arrival::{Arrival, Frame};
use super::connection::Endpoint;
use super::flow::{Ends, Hop, connection};
use super::packet::{Packet, Payload};
use crate::record::Cause;

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    pub(super) fn flow_deadline(&mut self, now: Time, f: usize) {
        if self.flows[f].source.next_deadline() <= now {
            match self.flows[f].source.datagram(now) {
                Some(bytes) => self.send_datagram(now, f, bytes),
                None => self.application(now, f, |source, out| source.on_deadline(now, out)),
            }
        }
        let flow = &mut self.flows[f];
        if connection!(&mut flow.ends, pair => { pair.on_deadline(now); true }, false) {
            for end in 0..2 {
                let node = self.flush(now, f, end);
                self.kick(node);
            }
        } else {
            let node = flow.path[flow.place_of(0)];
            self.kick(node);
        }
        self.rearm_flow(f);
    }

    /// Notifies the MAC of a node, if it has one, of queued packets.
    pub(super) fn kick(&mut self, node: u32) {
        if (node as usize) < self.interfaces.len() {
            self.kicks.push(NodeId(node));
        }
    }

    /// Polls the application and executes its actions.
    fn application(
        &mut self,
        now: Time,
        f: usize,
        speak: impl FnOnce(&mut fairmesh_transport::traffic::Source, &mut dyn FnMut(Action)),
    ) {
        // At most Connect, Write and Close together.
        let mut actions = [None; 4];
        let mut n = 0;
        speak(&mut self.flows[f].source, &mut |what| {
            actions[n] = Some(what);
            n += 1;
        });
        let flow = &mut self.flows[f];
        if flow.has_transfers {
            flow.meters.note_activity(now, flow.source.is_active(), self.measure_from);
        }
        for what in actions.into_iter().flatten() {
            match what {
                Action::Connect => self.flows[f].reconnect(now),
                Action::Write { side, bytes } => {
                    let flow = &mut self.flows[f];
                    let end = flow.end_of(side);
                    connection!(&mut flow.ends, pair => pair.ends[end].write(bytes), ());
                }
                Action::Datagram { bytes } => self.send_datagram(now, f, bytes),
                Action::Close => {
                    let flow = &mut self.flows[f];
                    let client = flow.client;
                    connection!(&mut flow.ends, pair => pair.ends[client].close(), ());
                }
            }
        }
    }

    fn send_datagram(&mut self, now: Time, f: usize, bytes: u32) {
        let flow = &mut self.flows[f];
        if let Some(datagram) = flow.number(now, bytes, self.measure_from) {
            let packet = flow.packet(f, datagram);
            self.emit(now, f, packet);
        }
    }

    /// Sends the pending packets of an endpoint; returns the endpoint's node.
    fn flush(&mut self, now: Time, f: usize, end: usize) -> u32 {
        let place = self.flows[f].place_of(end);
        let node = self.flows[f].path[place];
        loop {
            let flow = &mut self.flows[f];
            let packets = &mut self.packets;
            let next =
                connection!(&mut flow.ends, pair => pair.ends[end].transmit(now, packets), None);
            let Some(next) = next else { break };
            if next.data && end == 0 && now >= self.measure_from {
                flow.meters.packets_sent += 1;
            }
            let packet = Packet {
                payload: next.payload,
                born: now.as_nanos(),
                flow: f as u32,
                generation: flow.generation,
                bytes: next.bytes,
                place: place as u16,
                forward: end == 0,
                ect: next.ect,
                ect1: next.ect1,
                ce: false,
            };
            self.emit(now, f, packet);
        }
        node
    }

    fn rearm_flow(&mut self, f: usize) {
        let at = self.flows[f].next_deadline();
        self.timers.set(f, at);
    }

    /// Sends a new packet from its endpoint.
    fn emit(&mut self, now: Time, f: usize, mut packet: Packet) {
        let node = self.flows[f].path[packet.place as usize];
        if HOST {
            packet.bytes += self.listeners.header_bytes();
        }
        let handle = self.packets.insert(packet);
        if HOST && let Some(stamps) = &mut self.stamps {
            stamps.send(now, handle, f, packet.generation, usize::from(!packet.forward));
        }
        if HOST {
            let echoing = !packet.is_data() && !packet.forward;
            self.listeners.packet(handle, echoing.then_some(f));
        }
        if HOST && !packet.forward {
            self.note_answer(f, handle);
        }
        self.transit(now, node, handle, true);
    }

    /// Takes a frame from outside into one of the external flows; returns its handle.
    pub fn inject(&mut self, now: Time, f: usize, bytes: u32, ecn: quic::Ecn) -> u32 {
        let mut packet = Packet::single(Payload::External, now, f as u32, bytes);
        packet.ect = ecn != quic::Ecn::NotEct;
        packet.ect1 = ecn == quic::Ecn::Ect1;
        packet.ce = ecn == quic::Ecn::Ce;
        let flow = &mut self.flows[f];
        flow.meters.packets_sent += 1;
        let node = flow.path[0];
        if !matches!(flow.forward[0], Hop::Wire { .. }) {
            self.kicks.push(NodeId(node));
        }
        let handle = self.packets.insert(packet);
        self.transit(now, node, handle, true);
        handle
    }

    /// Handles a packet that has reached its destination.
    pub(super) fn deliver(&mut self, now: Time, handle: u32) {
        let p = self.packets.remove(handle);
        let f = p.flow as usize;
        let end = usize::from(p.forward);
        if HOST && p.forward && p.is_data() {
            self.note_landed(f, handle);
        }
        if HOST && p.forward && p.is_data() {
            self.listeners.landed(f, handle);
        }
        let measuring = now >= self.measure_from;
        let flow = &mut self.flows[f];
        if p.forward && p.is_data() && measuring {
            flow.meters.packets_delivered += 1;
            flow.meters.delay.record(now.as_nanos() - p.born);
        }
        let delivered = match (&mut flow.ends, &p.payload) {
            (Ends::Tcp(_), Payload::Tcp(_)) | (Ends::Quic(_), Payload::Quic { .. })
                if p.generation != flow.generation =>
            {
                self.stale += 1;
                return;
            }
            (Ends::Tcp(pair), Payload::Tcp(segment)) => {
                if HOST && let Some(stamps) = &mut self.stamps {
                    stamps.receive(handle, f, end);
                }
                let received = pair.ends[end].on_segment(now, segment, p.ce);
                if HOST && end == 0 {
                    self.feedback(f, handle, segment, &received);
                }
                received.delivered
            }
            (Ends::Quic(pair), Payload::Quic { body, .. }) => {
                let body = self.packets.body(*body);
                let ecn = if p.ce { quic::Ecn::Ce } else { body.ecn };
                let acknowledges = body.ack.is_some();
                let received = pair.ends[end].on_packet(now, body, ecn);
                if HOST && end == 0 && acknowledges {
                    self.quic_feedback(f, handle, &received);
                }
                received.delivered
            }
            (Ends::Udp { sink, .. }, Payload::Udp(datagram)) => {
                sink.on_datagram(now, datagram);
                u64::from(datagram.len)
            }
            (Ends::External, Payload::External) => {
                let node = NodeId(flow.path[1]);
                self.arrivals.push(Arrival { at: now, node, frame: Frame(handle), ce: p.ce });
                u64::from(p.bytes)
            }
            _ => 0,
        };
        self.arrived += 1;
        if delivered > 0 {
            self.delivered(now, f, end, delivered, measuring);
        }
        if connection!(&self.flows[f].ends, _pair => true, false) {
            self.flush(now, f, end);
            self.rearm_flow(f);
        }
    }

    /// Handles the loss of a packet.
    pub(super) fn lose(&mut self, handle: u32, cause: Cause) {
        let p = self.packets.remove(handle);
        let data = p.forward && p.is_data();
        let echo = matches!(p.payload, Payload::Echo { .. });
        let measured = p.born >= self.measure_from.as_nanos() && !echo;
        let data = measured.then_some(data);
        self.flows[p.flow as usize].meters.lost(cause, data);
    }

    /// Handles application bytes that have arrived in order at one end.
    fn delivered(&mut self, now: Time, f: usize, end: usize, bytes: u64, measuring: bool) {
        let flow = &mut self.flows[f];
        if end == 1 {
            let m = &mut flow.meters;
            m.delivered += bytes;
            if measuring {
                m.delivered_measured += bytes;
            }
        }
        if flow.has_transfers {
            let side = if end == flow.client { Side::Client } else { Side::Server };
            self.application(now, f, |source, out| source.on_delivered(now, side, bytes, out));
            let flow = &mut self.flows[f];
            while let Some(since) = flow.source.completed() {
                if measuring {
                    flow.meters.completed += 1;
                    flow.meters.transfers.record((now - since).as_nanos());
                }
            }
        }
    }
}
