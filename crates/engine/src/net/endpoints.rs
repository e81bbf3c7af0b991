//! Applications and transports: what leaves an endpoint and what reaches one.

use fairmesh_transport::traffic::{Do, Side};
use fairmesh_transport::{Flags, quic};
use fairmesh_units::{NodeId, Time};

use super::Net;
use super::arrival::{Arrival, Frame};
use super::flow::{Ends, Hop};
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
        match &mut flow.ends {
            Ends::Tcp(ends, _) => {
                for end in ends.iter_mut() {
                    if end.next_deadline() <= now {
                        end.on_deadline(now);
                    }
                }
                for end in 0..2 {
                    let node = self.flush(now, f, end);
                    self.kick(node);
                }
            }
            Ends::Quic(ends, _) => {
                for end in ends.iter_mut() {
                    if end.next_deadline() <= now {
                        end.on_deadline(now);
                    }
                }
                for end in 0..2 {
                    let node = self.flush_quic(now, f, end);
                    self.kick(node);
                }
            }
            Ends::Udp { .. } | Ends::External => {
                let node = flow.path[flow.place_of(0)];
                self.kick(node);
            }
        }
        self.rearm_flow(f);
    }

    /// The MAC of a node, if it has one, is to look for packets.
    fn kick(&mut self, node: u32) {
        if (node as usize) < self.interfaces.len() {
            self.kicks.push(NodeId(node));
        }
    }

    /// Lets the application speak, and does what it says.
    fn application(
        &mut self,
        now: Time,
        f: usize,
        speak: impl FnOnce(&mut fairmesh_transport::traffic::Source, &mut dyn FnMut(Do)),
    ) {
        // At most Connect, Write, Close at once.
        let mut said = [None; 4];
        let mut n = 0;
        speak(&mut self.flows[f].source, &mut |what| {
            said[n] = Some(what);
            n += 1;
        });
        let flow = &mut self.flows[f];
        if flow.has_transfers {
            flow.meters.note_activity(now, flow.source.is_active(), self.measure_from);
        }
        for what in said.into_iter().flatten() {
            match what {
                Do::Connect => self.flows[f].reconnect(now),
                Do::Write { side, bytes } => {
                    let flow = &mut self.flows[f];
                    let end = flow.end_of(side);
                    match &mut flow.ends {
                        Ends::Tcp(ends, _) => ends[end].write(bytes),
                        Ends::Quic(ends, _) => ends[end].write(bytes),
                        Ends::Udp { .. } | Ends::External => {}
                    }
                }
                Do::Datagram { bytes } => self.send_datagram(now, f, bytes),
                Do::Close => {
                    let flow = &mut self.flows[f];
                    let client = flow.client;
                    match &mut flow.ends {
                        Ends::Tcp(ends, _) => ends[client].close(),
                        Ends::Quic(ends, _) => ends[client].close(),
                        Ends::Udp { .. } | Ends::External => {}
                    }
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

    /// Sends what an endpoint wants to send; returns the endpoint's node.
    fn flush(&mut self, now: Time, f: usize, end: usize) -> u32 {
        let place = self.flows[f].place_of(end);
        let node = self.flows[f].path[place];
        loop {
            let flow = &mut self.flows[f];
            let Ends::Tcp(ends, _) = &mut flow.ends else { break };
            let Some(segment) = ends[end].poll_transmit(now) else { break };
            let data = segment.len > 0;
            let ect = segment.flags.has(Flags::ECT);
            let ect1 = segment.flags.has(Flags::ECT1);
            if data && end == 0 && now >= self.measure_from {
                flow.meters.packets_sent += 1;
            }
            let packet = Packet {
                payload: Payload::Tcp(segment),
                born: now.as_nanos(),
                flow: f as u32,
                generation: flow.generation,
                bytes: segment.ip_bytes(),
                place: place as u16,
                forward: end == 0,
                ect,
                ect1,
                ce: false,
            };
            self.emit(now, f, packet);
        }
        node
    }

    /// The same of a QUIC endpoint.
    #[cold]
    fn flush_quic(&mut self, now: Time, f: usize, end: usize) -> u32 {
        let place = self.flows[f].place_of(end);
        let node = self.flows[f].path[place];
        loop {
            let flow = &mut self.flows[f];
            let Ends::Quic(ends, _) = &mut flow.ends else { break };
            let Some(body) = ends[end].poll_transmit(now) else { break };
            if body.data() > 0 && end == 0 && now >= self.measure_from {
                flow.meters.packets_sent += 1;
            }
            let packet = Packet {
                born: now.as_nanos(),
                flow: f as u32,
                generation: flow.generation,
                bytes: body.ip_bytes(),
                place: place as u16,
                forward: end == 0,
                ect: body.ecn != quic::Ecn::NotEct,
                ect1: body.ecn == quic::Ecn::Ect1,
                ce: false,
                payload: self.packets.keep(body),
            };
            self.emit(now, f, packet);
        }
        node
    }

    fn rearm_flow(&mut self, f: usize) {
        let at = self.flows[f].next_deadline();
        self.timers.set(f, at);
    }

    /// A new packet leaves its endpoint.
    fn emit(&mut self, now: Time, f: usize, mut packet: Packet) {
        let node = self.flows[f].path[packet.place as usize];
        if HOST {
            packet.bytes += self.listeners.header_bytes();
        }
        let handle = self.packets.insert(packet);
        if HOST {
            let echoing = !packet.is_data() && !packet.forward;
            self.listeners.packet(handle, echoing.then_some(f));
        }
        if HOST && !packet.forward {
            self.note_answer(f, handle);
        }
        self.transit(now, node, handle, true);
    }

    /// A frame comes from outside into one of the external flows; returns its handle.
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

    /// A packet has reached its destination.
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
            (Ends::Tcp(ends, _), Payload::Tcp(segment)) => {
                if p.generation != flow.generation {
                    self.stale += 1;
                    return;
                }
                let received = ends[end].on_segment(now, segment, p.ce);
                if HOST && end == 0 {
                    self.feedback(f, handle, segment, &received);
                }
                received.delivered
            }
            (Ends::Quic(ends, _), Payload::Quic { body, .. }) => {
                if p.generation != flow.generation {
                    self.stale += 1;
                    return;
                }
                let body = self.packets.body(*body);
                let ecn = if p.ce { quic::Ecn::Ce } else { body.ecn };
                let acknowledges = body.ack.is_some();
                let received = ends[end].on_packet(now, body, ecn);
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
        match self.flows[f].ends {
            Ends::Tcp(..) => {
                self.flush(now, f, end);
                self.rearm_flow(f);
            }
            Ends::Quic(..) => {
                self.flush_quic(now, f, end);
                self.rearm_flow(f);
            }
            Ends::Udp { .. } | Ends::External => {}
        }
    }

    /// A packet is lost.
    pub(super) fn lose(&mut self, handle: u32, cause: Cause) {
        let p = self.packets.remove(handle);
        let data = p.forward && p.is_data();
        let data = (p.born >= self.measure_from.as_nanos()).then_some(data);
        self.flows[p.flow as usize].meters.lost(cause, data);
    }

    /// Application bytes have arrived in order at one end.
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
