//! The ways through the network where a control listens, writes headers, sends or limits airtime.
//! Without such a control none of this is compiled into the run.

use fairmesh_control::{Class, EventKind, Feedback, QueueLength};
use fairmesh_queueing::{Backlog, Item, Queue, Verdict};
use fairmesh_transport::{Flags, Received, Segment};
use fairmesh_units::{FlowId, NodeId, Time};
use fairmesh_wifi::{Outcome, Outgoing, SendReport};

use super::Net;
use super::forward::refused;
use crate::flow::Hop;
use crate::packet::{Packet, Payload};
use crate::taps::{Fate, InService, MESSAGE_HEADERS, SWEEP};

/// In place of a flow, in packets that belong to none.
const NO_FLOW: u32 = u32::MAX;

impl<const WATCH: bool, const HOST: bool> Net<'_, WATCH, HOST> {
    /// The node a packet goes to from where it is; `None` at its end.
    pub(super) fn next(&self, p: &Packet) -> Option<u32> {
        let (flow, place) = (&self.flows[p.flow as usize], p.place as usize);
        let next = match (flow.has_arrived(place, p.forward), p.forward) {
            (true, _) => return None,
            (false, true) => place + 1,
            (false, false) => place.checked_sub(1)?,
        };
        flow.path.get(next).copied()
    }

    /// A new packet leaves its endpoint, with room for header fields.
    pub(super) fn emit_hosted(&mut self, now: Time, node: u32, mut packet: Packet) {
        let data = packet.is_data();
        packet.bytes += self.taps.header_bytes();
        let echoing = (!data && !packet.forward).then_some(packet.flow as usize);
        let handle = self.packets.insert(packet);
        self.taps.packet(handle, echoing);
        self.transit(now, node, handle, true);
    }

    /// An acknowledgement has been taken in by a flow's source.
    pub(super) fn feedback(&mut self, f: usize, handle: u32, segment: &Segment, r: &Received) {
        let node = self.flows[f].path[0] as usize;
        if !segment.flags.has(Flags::ACK) || !self.taps.wants(node, EventKind::Feedback) {
            return;
        }
        let feedback = Feedback {
            flow: FlowId(f as u32),
            rtt: r.rtt.unwrap_or_default(),
            acked: r.acked as u32,
            lost: 0,
            marked: segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::SYN),
            header: self.taps.rider(handle).echo,
        };
        let resent = self.flows[f].resent();
        self.taps.feedback(node, feedback, resent);
    }

    /// A packet is done with the classes of a node.
    pub(super) fn pass_hosted(&mut self, now: Time, node: u32, handle: u32) {
        let p = self.packets.get(handle);
        let (n, f) = (node as usize, p.flow as usize);
        if let Payload::Tcp(s) = p.payload {
            if p.forward && s.len > 0 {
                let end = s.seq + u64::from(s.len);
                self.taps.time(now, n, f, p.generation, end);
            } else if !p.forward && s.flags.has(Flags::ACK) {
                self.taps.answered(now, n, f, p.generation, s.ack);
            }
        }
        if p.forward && p.is_data() && self.taps.crosses(now, n, FlowId(p.flow)) {
            let slot = self.timers.len() - 1;
            if self.timers.get(slot) == Time::NEVER {
                self.timers.set(slot, now + SWEEP);
            }
        }
    }

    /// Puts a packet into the queue of its next hop, unless chance takes it.
    pub(super) fn forward_hosted(&mut self, now: Time, handle: u32, hop: Hop) {
        let p = self.packets.get(handle);
        let (f, data) = (p.flow, p.forward && p.is_data());
        let node = self.flows[f as usize].path[p.place as usize] as usize;
        let to = self.next(p).unwrap_or(NO_FLOW);
        match self.taps.fate(node, f, data, to, (p.ect, p.ect1)) {
            Fate::Pass => {}
            Fate::Mark => self.packets.get_mut(handle).ce = true,
            Fate::Lose => {
                self.packets.remove(handle);
                self.flows[f as usize].meters.drops.limiter += 1;
                return;
            }
        }
        match hop {
            Hop::Wire { direction } => {
                self.taps.write(node, handle, f, data, to);
                self.forward_wire(now, handle, direction as usize);
            }
            Hop::Radio { .. } | Hop::Broadcast => {
                self.queue_hosted(now, node, handle, data, NodeId(to))
            }
        }
    }

    fn queue_hosted(&mut self, now: Time, node: usize, handle: u32, data: bool, to: NodeId) {
        let p = self.packets.get(handle);
        let (item, flow) = (p.item(handle), data.then_some(FlowId(p.flow)));
        let i = &mut self.interfaces[node];
        i.count(now);
        let class = i.classes.as_ref().and_then(|c| c.classify(flow, to));
        let verdict = match (&mut i.classes, class) {
            (Some(classes), Some(class)) => {
                let before = classes.waiting(class);
                let verdict = classes.enqueue(now, class, item);
                let after = classes.waiting(class);
                i.held.packets = i.held.packets + after.packets - before.packets;
                i.held.bytes = i.held.bytes + after.bytes - before.bytes;
                verdict
            }
            (Some(_), None) => i.queue.enqueue(now, item, Backlog::NONE, &mut i.rng),
            _ => i.queue.enqueue(now, item, i.held, &mut i.rng),
        };
        if verdict == Verdict::Marked {
            self.packets.get_mut(handle).ce = true;
        }
        if let Some(lost) = refused(verdict, handle) {
            let lost = self.packets.remove(lost);
            let drops = &mut self.flows[lost.flow as usize].meters.drops;
            if class.is_some() { drops.limiter += 1 } else { drops.queue += 1 }
        }
        self.queue_changed(node, class);
    }

    /// Tells the new length of a class's queue, or of the whole.
    fn queue_changed(&mut self, node: usize, class: Option<usize>) {
        if !self.taps.wants(node, EventKind::QueueChanges) {
            return;
        }
        let i = &self.interfaces[node];
        let (class, waiting) = match (&i.classes, class) {
            (Some(classes), Some(class)) => (classes.name(class), classes.waiting(class)),
            _ => (Class::All, i.backlog()),
        };
        let length = QueueLength { class, packets: waiting.packets, bytes: waiting.bytes };
        self.taps.queue_changed(node, length);
    }

    /// The next packet for a MAC: messages first.
    pub(super) fn pull_hosted(&mut self, now: Time, node: NodeId) -> Option<Outgoing> {
        let n = node.index();
        self.interfaces[n].count(now);
        if let Some(out) = self.taps.next_message(n) {
            let i = &mut self.interfaces[n];
            i.held.packets += 1;
            i.held.bytes += u64::from(out.bytes);
            if WATCH {
                self.snapshots[n] = None;
            }
            return Some(out);
        }
        let i = &mut self.interfaces[n];
        let taken: Option<(Item, bool)> = match &mut i.classes {
            // What waits in classes is held already.
            Some(c) => c.dequeue(now, &mut i.queue).map(|(item, class)| (item, class.is_none())),
            None => i.queue.dequeue(now).map(|item| (item, true)),
        };
        let Some((item, own)) = taken else {
            let ready = match &mut i.classes {
                Some(c) => c.next_ready(now, &i.queue),
                None => i.queue.next_ready(now),
            };
            let slot = self.interface_slot(n);
            self.timers.set(slot, ready);
            return None;
        };
        // In the MAC it still counts: `waiting` of its class has let go of it, `held` has not.
        if own {
            i.held.add(item);
        }
        let p = *self.packets.get(item.handle);
        let flow = &self.flows[p.flow as usize];
        let place = p.place as usize;
        let hop = if p.forward { flow.forward[place] } else { flow.back[place - 1] };
        let data = p.forward && p.is_data();
        let to = self.next(&p).unwrap_or(NO_FLOW);
        let header = self.taps.write(n, item.handle, p.flow, data, to);
        self.taps.serve(
            n,
            InService {
                to: Some(NodeId(to)),
                flow: Some(FlowId(p.flow)),
                ack: !p.forward && !p.is_data(),
                bytes: item.bytes,
                header,
            },
        );
        if WATCH {
            self.snapshots[n] = self.air_packet(item.handle);
        }
        let Hop::Radio { link } = hop else { return None };
        Some(Outgoing { packet: item.handle, link: Some(link), bytes: item.bytes })
    }

    /// A frame came in; returns whether it was a message, which goes no further.
    pub(super) fn received_hosted(
        &mut self,
        node: NodeId,
        from: NodeId,
        packet: u32,
        broadcast: bool,
    ) -> bool {
        let Payload::Message(body) = self.packets.get(packet).payload else {
            self.taps.received(node, from, None);
            return false;
        };
        self.taps.received(node, from, Some(body));
        if !broadcast {
            self.drop_message(packet, body);
            self.arrived += 1;
        }
        true
    }

    /// The MAC is done with a frame.
    pub(super) fn sent_hosted(&mut self, now: Time, node: NodeId, report: &SendReport) {
        let n = node.index();
        let (handle, broadcast) = (report.packet.packet, report.packet.link.is_none());
        let i = &mut self.interfaces[n];
        i.count(now);
        i.held.packets = i.held.packets.saturating_sub(1);
        i.held.bytes = i.held.bytes.saturating_sub(u64::from(report.packet.bytes));
        let frame = self.taps.sent(node, report);
        let lost = report.outcome == Outcome::Lost;
        if frame.is_some_and(|f| f.flow.is_none()) {
            // What was received is gone already; a broadcast stays until it was sent.
            if (broadcast || lost)
                && let Payload::Message(body) = self.packets.get(handle).payload
            {
                self.drop_message(handle, body);
                self.arrived += u64::from(broadcast);
                self.taps.signalling.lost += u64::from(lost);
            }
            return;
        }
        let class = self.interfaces[n].classes.as_mut().and_then(|c| c.settle(report));
        if lost {
            let p = self.packets.remove(handle);
            self.flows[p.flow as usize].meters.drops.retry_limit += 1;
        }
        self.queue_changed(n, class);
    }

    /// Takes a class out of a radio's queue; what waits there joins the radio's own queue.
    pub fn unclass(&mut self, now: Time, node: NodeId, class: Class) {
        let i = &mut self.interfaces[node.index()];
        let gone = i.classes.as_mut().map_or(Vec::new(), |c| c.remove(class));
        for item in gone {
            i.count(now);
            i.held.sub(item);
            // Whatever its own limit says: nothing is lost with a class.
            if let Some(lost) =
                refused(i.queue.enqueue(now, item, Backlog::NONE, &mut i.rng), item.handle)
            {
                let lost = self.packets.remove(lost);
                self.flows[lost.flow as usize].meters.drops.queue += 1;
            }
        }
        self.kicks.push(node);
    }

    fn drop_message(&mut self, handle: u32, body: u32) {
        self.packets.remove(handle);
        self.taps.forget(body);
    }

    /// A control sends a message, to a neighbour or to all.
    pub fn send_message(
        &mut self,
        now: Time,
        node: NodeId,
        to: Option<(NodeId, fairmesh_wifi::LinkId)>,
        body: &[u8],
    ) {
        let n = node.index();
        if n >= self.interfaces.len() {
            return;
        }
        let bytes = MESSAGE_HEADERS + body.len() as u32;
        let number = self.taps.keep(body);
        let message = Packet::single(Payload::Message(number), now, NO_FLOW, bytes);
        let handle = self.packets.insert(message);
        self.taps.packet(handle, None);
        self.interfaces[n].count(now);
        if self.taps.post(n, handle, to, bytes) {
            self.kicks.push(node);
        } else {
            self.drop_message(handle, number);
        }
    }
}
