//! Messages of controls, which precede data and end at the neighbour.

use fairmesh_scenario::Link;
use fairmesh_units::{NodeId, Time};

use fairmesh_wifi::{LinkId, Outcome, Outgoing, SendReport};

use super::Net;
use super::packet::{NO_FLOW, Packet, Payload};
use crate::listeners::{INTERNAL_LINK, MESSAGE_HEADERS};

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Returns the next message for a MAC.
    pub(super) fn pull_message(&mut self, n: usize) -> Option<Outgoing> {
        let message = self.listeners.next_message(n)?;
        let held = &mut self.interfaces[n].held;
        held.packets += 1;
        held.bytes += u64::from(message.bytes);
        Some(message)
    }

    /// Handles a received frame; returns true if it was a message, which ends here.
    pub(super) fn note_received(
        &mut self,
        now: Time,
        node: NodeId,
        from: NodeId,
        packet: u32,
        broadcast: bool,
    ) -> bool {
        let Payload::Message(body) = self.packets.get(packet).payload else {
            self.listeners.received(node, from, packet, None);
            return false;
        };
        let node = self.listeners.cross(node, body);
        self.listeners.received(node, from, packet, Some(body));
        if let Some(next) = self.listeners.advance(body) {
            self.pass_message(now, node, next, packet, body);
        } else if !broadcast {
            self.drop_message(packet, body);
            self.arrived += 1;
        }
        true
    }

    /// Handles a frame that the MAC has finished.
    ///
    /// Returns true if it was a message, which is then removed.
    pub(super) fn note_sent(&mut self, node: NodeId, report: &SendReport) -> bool {
        let (handle, broadcast) = (report.packet.packet, report.packet.link.is_none());
        let frame = self.listeners.sent(node, report);
        if frame.is_none_or(|f| f.flow.is_some()) {
            return false;
        }
        let lost = report.outcome == Outcome::Lost;
        // A received message is already removed; a broadcast stays until it was sent.
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

    /// Returns the nodes from one to another, without the first.
    ///
    /// This is the path of a flow between them, otherwise that with the fewest links. Empty if there is no
    /// path over the air.
    pub fn way(&self, links: &[Link], from: NodeId, to: NodeId) -> Vec<NodeId> {
        let joins = |path: &[u32]| {
            let a = path.iter().position(|&n| n == from.0)?;
            let b = path.iter().position(|&n| n == to.0)?;
            let range = &path[a.min(b)..=a.max(b)];
            let way: Vec<NodeId> = range.iter().map(|&n| NodeId(n)).collect();
            Some(if a < b { way } else { way.into_iter().rev().collect() })
        };
        if from == to {
            return Vec::new();
        }
        let mut way = self.flows.iter().find_map(|f| joins(f.way())).unwrap_or_else(|| {
            let mut before = vec![None; self.interfaces.len()];
            let mut reached = vec![to];
            let mut at = 0;
            // Searched from the end, so that every node knows the next one.
            while let Some(&n) = reached.get(at) {
                at += 1;
                for l in links.iter().filter(|l| l.to == n && l.from != to) {
                    if before[l.from.index()].is_none() {
                        before[l.from.index()] = Some(n);
                        reached.push(l.from);
                    }
                }
            }
            let next = |n: &NodeId| before.get(n.index()).copied().flatten();
            core::iter::successors(Some(from), next).collect()
        });
        if way.last() != Some(&to) || way.iter().any(|n| n.index() >= self.interfaces.len()) {
            return Vec::new();
        }
        way.remove(0);
        way
    }

    /// Sends a control's message along a path.
    pub fn route_message(
        &mut self,
        now: Time,
        node: NodeId,
        way: &[(NodeId, LinkId)],
        body: &[u8],
    ) {
        self.listeners.signalling.messages += 1;
        let (origin, mut node, mut way) = (node, node, way);
        while let Some((&(radio, INTERNAL_LINK), rest)) = way.split_first() {
            (node, way) = (radio, rest);
        }
        let Some((&next, rest)) = way.split_first() else {
            self.listeners.signalling.refused += 1;
            return;
        };
        let bytes = MESSAGE_HEADERS + body.len() as u32;
        let number = self.listeners.keep(origin, body, rest);
        let message = Packet::single(Payload::Message(number), now, NO_FLOW, bytes);
        let handle = self.packets.insert(message);
        self.listeners.packet(handle, None);
        self.pass_message(now, node, next, handle, number);
    }

    /// Sends a message from a node to the next one on its path.
    fn pass_message(
        &mut self,
        now: Time,
        node: NodeId,
        next: (NodeId, LinkId),
        handle: u32,
        number: u32,
    ) {
        let n = node.index();
        let bytes = self.packets.get(handle).bytes;
        self.interfaces[n].count(now);
        if self.listeners.post(n, handle, Some(next), bytes) {
            self.kicks.push(node);
        } else {
            self.drop_message(handle, number);
        }
    }

    /// Sends a control's message to a neighbour or to all neighbours.
    pub fn send_message(
        &mut self,
        now: Time,
        node: NodeId,
        to: Option<(NodeId, LinkId)>,
        body: &[u8],
    ) {
        let n = node.index();
        if n >= self.interfaces.len() {
            return;
        }
        let bytes = MESSAGE_HEADERS + body.len() as u32;
        self.listeners.signalling.messages += 1;
        let number = self.listeners.keep(node, body, &[]);
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
