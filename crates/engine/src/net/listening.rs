//! Packet events for controls, and the changes that controls make to passing packets.
//!
//! Unless a control requests this, none of it is compiled into the run.

use fairmesh_control::{Class, EventKind, Feedback, Header, QueueLength};
use fairmesh_queueing::{Backlog, Item, Queue};
use fairmesh_transport::{Flags, Received, Segment};
use fairmesh_units::{FlowId, NodeId, Time};

use super::Net;
use super::forward::refused;
use super::packet::{NO_FLOW, Payload};
use crate::listeners::{InService, PacketAction, SWEEP_INTERVAL};
use crate::record::Cause;

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Records that a flow's source has processed an acknowledgement.
    pub(super) fn feedback(&mut self, f: usize, handle: u32, segment: &Segment, r: &Received) {
        let node = self.flows[f].path[0] as usize;
        if !segment.flags.has(Flags::ACK) || !self.listeners.wants(node, EventKind::Feedback) {
            return;
        }
        let feedback = Feedback {
            flow: FlowId(f as u32),
            rtt: r.rtt.unwrap_or_default(),
            acked: r.acked as u32,
            lost: 0,
            marked: segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::SYN),
            header: self.listeners.metadata(handle).echo,
        };
        let resent = self.flows[f].resent();
        self.listeners.feedback(node, feedback, resent);
    }

    /// Records that a QUIC flow's source has processed an ACK frame.
    pub(super) fn quic_feedback(&mut self, f: usize, handle: u32, r: &Received) {
        let node = self.flows[f].path[0] as usize;
        if !self.listeners.wants(node, EventKind::Feedback) {
            return;
        }
        let feedback = Feedback {
            flow: FlowId(f as u32),
            rtt: r.rtt.unwrap_or_default(),
            acked: r.acked as u32,
            lost: 0,
            marked: r.marks > 0,
            header: self.listeners.metadata(handle).echo,
        };
        let lost = self.flows[f].resent();
        self.listeners.feedback(node, feedback, lost);
    }

    /// Records that a packet has left a node's classes, for round-trip timing and flow counting.
    pub(super) fn note_passing(&mut self, now: Time, node: u32, handle: u32) {
        let p = self.packets.get(handle);
        let (n, f) = (node as usize, p.flow as usize);
        if let Payload::Tcp(s) = p.payload {
            if p.forward && s.len > 0 {
                let end = s.seq + u64::from(s.len);
                self.listeners.time(now, n, f, p.generation, end);
            } else if !p.forward && s.flags.has(Flags::ACK) {
                self.listeners.answered(now, n, f, p.generation, s.ack);
            }
        }
        if p.forward && p.is_data() && self.listeners.crosses(now, n, FlowId(p.flow)) {
            let slot = self.control_slot(self.controls);
            if self.timers.get(slot) == Time::NEVER {
                self.timers.set(slot, now + SWEEP_INTERVAL);
            }
        }
    }

    /// Decides at random the outcome for a packet that is about to leave a node.
    ///
    /// Returns true if it is lost.
    pub(super) fn chance_takes(&mut self, node: usize, handle: u32) -> bool {
        let p = self.packets.get(handle);
        let (f, data) = (p.flow, p.forward && p.is_data());
        let to = self.next(p).unwrap_or(NO_FLOW);
        match self.listeners.action(node, f, data, to, (p.ect, p.ect1)) {
            PacketAction::Pass => {}
            PacketAction::Mark => self.packets.get_mut(handle).ce = true,
            PacketAction::Lose => {
                self.lose(handle, Cause::Limiter);
                return true;
            }
        }
        false
    }

    /// Writes a control's fields into a packet that leaves a node; returns the packet's header.
    pub(super) fn write_header(&mut self, node: usize, handle: u32) -> Header {
        let p = self.packets.get(handle);
        let (f, data) = (p.flow, p.forward && p.is_data());
        let to = self.next(p).unwrap_or(NO_FLOW);
        self.listeners.write(node, handle, f, data, to)
    }

    /// Records that a MAC has taken a packet.
    pub(super) fn note_service(&mut self, node: usize, item: Item) {
        let header = self.write_header(node, item.handle);
        let p = self.packets.get(item.handle);
        let frame = InService {
            to: Some(NodeId(self.next(p).unwrap_or(NO_FLOW))),
            flow: Some(FlowId(p.flow)),
            ack: !p.forward && !p.is_data(),
            echo: matches!(p.payload, Payload::Echo { .. }),
            bytes: item.bytes,
            header,
            passed_up: false,
        };
        self.listeners.serve(node, item.handle, frame);
    }

    /// Reports the new length of a class's queue, or of the whole.
    pub(super) fn note_queue(&mut self, node: usize, class: Option<usize>) {
        if !self.listeners.wants(node, EventKind::QueueChanges) {
            return;
        }
        let i = &self.interfaces[node];
        let (class, waiting) = match (&i.classes, class) {
            (Some(classes), Some(class)) => (classes.name(class), classes.waiting(class)),
            _ => (Class::All, i.backlog()),
        };
        let length = QueueLength { class, packets: waiting.packets, bytes: waiting.bytes };
        self.listeners.queue_changed(node, length);
    }

    /// Removes a class from a radio's queue; its packets join the radio's own queue.
    pub fn unclass(&mut self, now: Time, node: NodeId, class: Class) {
        let i = &mut self.interfaces[node.index()];
        let gone = i.classes.as_mut().map_or(Vec::new(), |c| c.remove(class));
        for item in gone {
            let i = &mut self.interfaces[node.index()];
            i.count(now);
            i.held.sub(item);
            // Regardless of the queue's own limit, because no packet is lost with a class.
            if let Some(lost) =
                refused(i.queue.enqueue(now, item, Backlog::NONE, &mut i.rng), item.handle)
            {
                self.lose(lost, Cause::Queue);
            }
        }
        self.kicks.push(node);
    }
}
