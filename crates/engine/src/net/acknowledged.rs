//! Delay from the queue of a packet's first radio until the acknowledgement returns there.
//!
//! It is the delay of Triantafyllidou 2005 §3.3.3 and §4.5.2.

use fairmesh_units::Time;

use super::Net;
use super::flow::{FlowState, Hop};
use crate::measures::Delays;

/// State of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledged {
    /// The node with the first radio on the path; `None` if there is none.
    node: Option<u32>,
    /// Queueing instant of the first packet that the receiver has not acknowledged.
    unanswered: Option<Time>,
    /// Delays of acknowledgements that returned in the measured interval.
    pub delays: Delays,
}

impl Acknowledged {
    pub fn of(flow: &FlowState) -> Self {
        let first =
            flow.forward.iter().position(|hop| !matches!(hop, Hop::Wire { .. } | Hop::Bus { .. }));
        let node = first.map(|place| flow.path[place]);
        Acknowledged { node, unanswered: None, delays: Delays::new() }
    }
}

/// State of all flows, if a run measures it.
#[derive(Clone, Debug)]
pub(crate) struct AckDelays {
    pub flows: Vec<Acknowledged>,
    /// Queueing instant of a packet, or of the packet that it acknowledges, by handle.
    queued: Vec<Option<Time>>,
}

impl AckDelays {
    pub fn of(flows: &[FlowState]) -> Self {
        AckDelays { flows: flows.iter().map(Acknowledged::of).collect(), queued: Vec::new() }
    }

    fn at(&mut self, handle: u32) -> &mut Option<Time> {
        let i = handle as usize;
        if i >= self.queued.len() {
            self.queued.resize(i + 1, None);
        }
        &mut self.queued[i]
    }
}

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Records that a packet is put into a radio's queue.
    pub(super) fn note_queued(&mut self, now: Time, node: usize, handle: u32) {
        let Some(ack_delays) = &mut self.ack_delays else { return };
        let p = self.packets.get(handle);
        if p.forward
            && p.is_data()
            && ack_delays.flows.get(p.flow as usize).is_some_and(|f| f.node == Some(node as u32))
        {
            *ack_delays.at(handle) = Some(now);
        }
    }

    /// Records that data has reached its end; `handle` is not free for another packet yet.
    pub(super) fn note_landed(&mut self, flow: usize, handle: u32) {
        let Some(ack_delays) = &mut self.ack_delays else { return };
        let queued = ack_delays.at(handle).take();
        let unanswered = &mut ack_delays.flows[flow].unanswered;
        *unanswered = unanswered.or(queued);
    }

    /// Records that a receiver sends a new packet with a fresh handle.
    pub(super) fn note_answer(&mut self, flow: usize, handle: u32) {
        let Some(ack_delays) = &mut self.ack_delays else { return };
        *ack_delays.at(handle) = ack_delays.flows[flow].unanswered.take();
    }

    /// Records that a receiver's packet has reached a node.
    pub(super) fn note_answered(&mut self, now: Time, node: u32, handle: u32) {
        let Some(ack_delays) = &mut self.ack_delays else { return };
        let flow = self.packets.get(handle).flow as usize;
        if ack_delays.flows.get(flow).is_some_and(|f| f.node == Some(node))
            && let Some(at) = ack_delays.at(handle).take()
            && now >= self.measure_from
        {
            ack_delays.flows[flow].delays.record((now - at).as_nanos());
        }
    }
}
