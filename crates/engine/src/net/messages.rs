//! Messages of controls: they wait before data and end at the neighbour.

use fairmesh_units::{NodeId, Time};
use fairmesh_wifi::{Outcome, Outgoing, SendReport};

use super::Net;
use super::packet::{NO_FLOW, Packet, Payload};
use crate::listeners::MESSAGE_HEADERS;

impl<const WATCH: bool, const HOST: bool> Net<'_, WATCH, HOST> {
    /// The next message for a MAC.
    pub(super) fn pull_message(&mut self, n: usize) -> Option<Outgoing> {
        let message = self.listeners.next_message(n)?;
        let held = &mut self.interfaces[n].held;
        held.packets += 1;
        held.bytes += u64::from(message.bytes);
        Some(message)
    }

    /// A frame came in; returns whether it was a message, which goes no further.
    pub(super) fn note_received(
        &mut self,
        node: NodeId,
        from: NodeId,
        packet: u32,
        broadcast: bool,
    ) -> bool {
        let Payload::Message(body) = self.packets.get(packet).payload else {
            self.listeners.received(node, from, packet, None);
            return false;
        };
        self.listeners.received(node, from, packet, Some(body));
        if !broadcast {
            self.drop_message(packet, body);
            self.arrived += 1;
        }
        true
    }

    /// The MAC is done with a frame; returns whether it was a message, which is then gone.
    pub(super) fn note_sent(&mut self, node: NodeId, report: &SendReport) -> bool {
        let (handle, broadcast) = (report.packet.packet, report.packet.link.is_none());
        let frame = self.listeners.sent(node, report);
        if frame.is_none_or(|f| f.flow.is_some()) {
            return false;
        }
        let lost = report.outcome == Outcome::Lost;
        // What was received is gone already; a broadcast stays until it was sent.
        if (broadcast || lost)
            && let Payload::Message(body) = self.packets.get(handle).payload
        {
            self.drop_message(handle, body);
            self.arrived += u64::from(broadcast);
            self.listeners.signalling.lost += u64::from(lost);
        }
        true
    }

    fn drop_message(&mut self, handle: u32, body: u32) {
        self.packets.remove(handle);
        self.listeners.forget(body);
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
        let number = self.listeners.keep(body);
        let message = Packet::single(Payload::Message(number), now, NO_FLOW, bytes);
        let handle = self.packets.insert(message);
        self.listeners.packet(handle, None);
        self.interfaces[n].count(now);
        if self.listeners.post(n, handle, to, bytes) {
            self.kicks.push(node);
        } else {
            self.drop_message(handle, number);
        }
    }
}
