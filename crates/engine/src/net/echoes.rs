//! Echo probes of a control through the mesh.
//!
//! A probe is a small packet along a flow's path to its end in the mesh and back, which bypasses
//! the classes of the control. It uses air like any packet, and is counted as signalling.

use fairmesh_control::host::Probes;
use fairmesh_units::{FlowId, NodeId, Time};

use super::packet::{Packet, Payload};
use super::{Ends, Hop, Net};
use crate::shares::Shares;

/// Length of an echo request and of its reply, IP bytes.
///
/// 20 of IPv4, 8 of ICMP (RFC 792) and 56 of data, as `ping` sends.
const ECHO_BYTES: u32 = 84;

/// The probes of the control at one node.
#[derive(Clone, Debug)]
pub(crate) struct Echoes {
    node: NodeId,
    probes: Probes,
    /// Packets of each flow at the last check.
    seen: Vec<u64>,
}

impl Echoes {
    /// Returns the state of a node that has sent no probe.
    pub fn at(node: NodeId) -> Self {
        Echoes { node, probes: Probes::default(), seen: Vec::new() }
    }

    /// Returns the age of a flow's oldest unanswered probe.
    pub fn oldest(&self, now: Time, flow: FlowId) -> Option<fairmesh_units::Span> {
        self.probes.oldest(now, flow.0)
    }
}

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Returns the index of a node's probes; `None` if its control sends none.
    pub fn echoes_at(&self, node: NodeId) -> Option<usize> {
        self.echoes.iter().position(|e| e.node == node)
    }

    fn echo_slot(&self, at: usize) -> usize {
        self.control_slot(self.controls + 2 + at)
    }

    /// Requests probes for homes with packets but without a round trip since the last check.
    ///
    /// Flows are as the control groups them.
    pub fn want_echoes(&mut self, now: Time, at: usize, shares: &Shares) {
        let Echoes { node, probes, seen } = &mut self.echoes[at];
        let (left, signs) = (&self.departed[node.index()], &self.signs[node.index()]);
        seen.resize(left.len(), 0);
        let mut moved = Vec::with_capacity(left.len());
        for (seen, left) in seen.iter_mut().zip(left) {
            moved.push(left.packets - core::mem::replace(seen, left.packets));
        }
        for flow in (0..left.len() as u32).map(FlowId).filter(|f| shares.names(*f)) {
            let packets: u64 = shares.members(flow).map(|f| moved[f.index()]).sum();
            let lack = |f: FlowId| signs.get(f.index()).is_none_or(|s| s.round_trips.lack(now));
            if packets > 0 && shares.members(flow).all(lack) {
                probes.want(now, flow.0, packets);
            }
        }
        let (slot, due) = (self.echo_slot(at), self.echoes[at].probes.next_deadline());
        self.timers.set(slot, due.max(now));
    }

    /// Sends the probes that are due.
    pub(super) fn send_echoes(&mut self, now: Time, at: usize) {
        while let Some(probe) = self.echoes[at].probes.poll(now) {
            let node = self.echoes[at].node;
            if let Some((place, forward)) = self.way_in(probe.home as usize, node) {
                let payload = Payload::Echo { sequence: probe.sequence, answer: false };
                let packet = Packet::single(payload, now, probe.home, ECHO_BYTES);
                let handle = self.packets.insert(Packet { place, forward, ..packet });
                self.listeners.packet(handle, None);
                self.listeners.signalling.probes += 1;
                self.forward(now, handle);
                self.kick(node.0);
            }
        }
        let (slot, due) = (self.echo_slot(at), self.echoes[at].probes.next_deadline());
        self.timers.set(slot, due);
    }

    /// Returns a node's place on a flow's path, and the direction into the mesh there.
    fn way_in(&self, flow: usize, node: NodeId) -> Option<(u16, bool)> {
        let flow = &self.flows[flow];
        let ends = [flow.place_of(0), flow.place_of(1)];
        let place = (ends[0]..=ends[1]).find(|p| flow.path[*p] == node.0)?;
        let air = |hop: Option<&Hop>| matches!(hop, Some(Hop::Radio { .. } | Hop::Bus { .. }));
        let outside = matches!(flow.ends, Ends::External);
        let ahead = place < ends[1] && air(flow.forward.get(place));
        let behind = place > ends[0] && air(flow.back.get(place - 1));
        (!outside && (ahead || behind)).then_some((place as u16, ahead))
    }

    /// Sends back an echo request that has reached its end.
    ///
    /// Returns true if the packet was a probe.
    pub(super) fn turn_echo(&mut self, now: Time, node: u32, handle: u32) -> bool {
        let p = self.packets.get_mut(handle);
        let Payload::Echo { answer, .. } = &mut p.payload else { return false };
        // A reply that does not reach its node ends with the path.
        if core::mem::replace(answer, true) {
            self.packets.remove(handle);
            self.arrived += 1;
            return true;
        }
        p.forward = !p.forward;
        self.forward(now, handle);
        self.kick(node);
        true
    }

    /// Takes a reply at the node that sent the request; returns true if the packet was one.
    pub(super) fn take_echo(&mut self, now: Time, node: u32, handle: u32) -> bool {
        let Payload::Echo { sequence, answer: true } = self.packets.get(handle).payload else {
            return false;
        };
        let Some(at) = self.echoes_at(NodeId(node)) else { return false };
        self.packets.remove(handle);
        self.arrived += 1;
        if let Some((flow, trip)) = self.echoes[at].probes.answer(now, sequence)
            && let Some(signs) = self.signs[node as usize].get_mut(flow as usize)
        {
            signs.round_trips.add(now, trip);
        }
        true
    }
}
