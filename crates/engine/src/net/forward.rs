//! Forwarding of packets through a node: classes, queues, wires.

use fairmesh_control::Point;
use fairmesh_control::host::Side;
use fairmesh_queueing::{DeferredVerdict, Verdict};
use fairmesh_transport::quic;
use fairmesh_units::{FlowId, NodeId, Time};

use super::Net;
use super::flow::Hop;
use super::packet::{NO_FLOW, Packet, Payload};
use crate::record::Cause;

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Forwards a packet that has just reached a node, through the control's classes if any.
    pub(super) fn transit(&mut self, now: Time, node: u32, handle: u32, local: bool) {
        if let Some(set) = self.classes_at[node as usize] {
            let p = self.packets.get(handle);
            let set = set as usize;
            let taken = match self.classes[set].point {
                Point::Local => local,
                Point::Transit | Point::Interface => true,
            };
            if taken
                && p.forward
                && p.is_data()
                && let Some(class) = self.classes[set].classify(p.flow, || self.next(p))
            {
                let item = p.item(handle, &self.numbers);
                let verdict = self.classes[set].enqueue(now, class, item);
                self.settle_classes(set);
                if verdict == Verdict::Marked {
                    self.packets.get_mut(handle).ce = true;
                }
                if let Some(lost) = refused(verdict, handle) {
                    self.lose(lost, Cause::Limiter);
                }
                self.drain(now, set);
                return;
            }
        }
        self.pass(now, node, handle);
    }

    /// Forwards the packets that a node's classes release.
    pub fn drain(&mut self, now: Time, set: usize) {
        let node = self.classes[set].node;
        while let Some(item) = self.classes[set].dequeue(now) {
            self.settle_classes(set);
            self.pass(now, node.0, item.handle);
        }
        let slot = self.classes_slot(set);
        self.timers.set(slot, self.classes[set].next_ready(now));
        if node.index() < self.interfaces.len() {
            self.kicks.push(node);
        }
    }

    /// Handles the changes that a class's queue made to packets after accepting them.
    fn settle_classes(&mut self, set: usize) {
        while let Some(late) = self.classes[set].deferred_verdict() {
            match late {
                DeferredVerdict::Dropped(item, _) => self.lose(item.handle, Cause::Limiter),
                DeferredVerdict::Marked(item) => self.packets.get_mut(item.handle).ce = true,
            }
        }
    }

    /// Passes a packet on after the classes of a node: to its endpoint or into the next queue.
    pub fn pass(&mut self, now: Time, node: u32, handle: u32) {
        let p = self.packets.get(handle);
        if let Some(left) = self.departed[node as usize].get_mut(p.flow as usize)
            && p.forward
            && p.is_data()
        {
            left.packets += 1;
            left.bytes += u64::from(p.bytes);
        }
        if HOST {
            self.note_passing(now, node, handle);
        }
        let p = self.packets.get(handle);
        let f = p.flow as usize;
        if self.flows[f].has_arrived(p.place as usize, p.forward) {
            if HOST && self.turn_echo(now, node, handle) {
                return;
            }
            self.deliver(now, handle);
        } else {
            self.forward(now, handle);
        }
    }

    /// Puts a packet into the queue of its next hop.
    pub(super) fn forward(&mut self, now: Time, handle: u32) {
        let p = self.packets.get(handle);
        let (f, place) = (p.flow as usize, p.place as usize);
        let flow = &self.flows[f];
        let hop = if p.forward { flow.forward[place] } else { flow.back[place - 1] };
        let n = flow.path[place] as usize;
        if HOST && self.chance_takes(n, handle) {
            return;
        }
        match hop {
            Hop::Radio { .. } | Hop::Broadcast => {
                if HOST {
                    self.read(now, n, handle, Side::Enters);
                }
                self.enqueue(now, n, handle);
            }
            Hop::Bus { to } => self.cross(now, n, to, handle),
            Hop::Wire { direction } => {
                if HOST {
                    self.write_header(n, handle);
                }
                self.forward_wire(now, handle, direction as usize);
            }
        }
    }

    /// Moves a packet from one radio of a node to another.
    #[inline(never)]
    fn cross(&mut self, now: Time, n: usize, to: u32, handle: u32) {
        if HOST {
            // For a control at the node, this is the entry to the mesh.
            self.read(now, n, handle, Side::Enters);
        }
        self.arrive(now, to, handle);
        self.kicks.push(NodeId(to));
    }

    /// Puts a packet into the queue of a radio.
    fn enqueue(&mut self, now: Time, n: usize, handle: u32) {
        if HOST {
            self.note_queued(now, n, handle);
        }
        let p = self.packets.get(handle);
        let mut item = p.item(handle, &self.numbers);
        let access = self.access_of(p.flow);
        if self.interfaces[n].distinguishes_neighbours() {
            // Broadcasts belong to a separate station, as in mac80211.
            item.station = self.next(p).map_or(u16::MAX, |to| to as u16);
        }
        let class = if HOST {
            let flow = (p.forward && p.is_data()).then_some(FlowId(p.flow));
            let to = NodeId(self.next(p).unwrap_or(NO_FLOW));
            self.interfaces[n].classify::<HOST>(flow, to)
        } else {
            None
        };
        let i = self.lane(n, access);
        i.count(now);
        let verdict = i.enqueue::<HOST>(now, item, class);
        if verdict == Verdict::Marked {
            self.packets.get_mut(handle).ce = true;
        }
        if let Some(lost) = refused(verdict, handle) {
            self.lose(lost, if class.is_some() { Cause::Limiter } else { Cause::Queue });
        }
        let i = self.lane(n, access);
        if i.modern {
            i.fill_device::<HOST>(now);
            self.settle_late(n, access);
        }
        if HOST {
            self.note_queue(n, class);
        }
    }

    fn forward_wire(&mut self, now: Time, handle: u32, d: usize) {
        let p = self.packets.get(handle);
        if self.wires[d].send(now, handle, p.bytes) {
            let slot = self.wire_slot(d);
            self.timers.set(slot, self.wires[d].next_deadline());
        } else {
            self.lose(handle, Cause::Wire);
        }
    }

    /// Reads the headers of a packet at the interface to the mesh, if a control requests it.
    fn read(&mut self, now: Time, n: usize, handle: u32, side: Side) {
        let p = self.packets.get(handle);
        let Some(signs) = self.signs[n].get_mut(p.flow as usize) else { return };
        match &p.payload {
            Payload::Tcp(segment) => {
                let stamps = self.stamps.as_ref().map_or([0; 2], |s| s.of(handle));
                signs.see(now, p.generation, p.forward, side, segment, stamps);
            }
            Payload::Quic { body, .. } => {
                let body = self.packets.body(*body);
                if matches!(body.kind, quic::Kind::OneRtt { .. }) {
                    signs.see_spin(now, p.generation, side, body.spin);
                }
            }
            _ => {}
        }
    }

    /// Returns true if a packet arrived over the air and continues by wire, or ends here.
    fn leaves_the_mesh(&self, handle: u32) -> bool {
        let p = self.packets.get(handle);
        let (flow, place) = (&self.flows[p.flow as usize], p.place as usize);
        let (last, next) = if p.forward {
            (flow.forward.get(place.wrapping_sub(1)), flow.forward.get(place))
        } else {
            (flow.back.get(place), flow.back.get(place.wrapping_sub(1)))
        };
        let air = |hop: Option<&Hop>| {
            matches!(hop, Some(Hop::Radio { .. } | Hop::Bus { .. } | Hop::Broadcast))
        };
        air(last) && (flow.has_arrived(place, p.forward) || !air(next))
    }

    /// Returns the node after the packet's present place; `None` at its end.
    pub(super) fn next(&self, p: &Packet) -> Option<u32> {
        let (flow, place) = (&self.flows[p.flow as usize], p.place as usize);
        let next = match (flow.has_arrived(place, p.forward), p.forward) {
            (true, _) => return None,
            (false, true) => place + 1,
            (false, false) => place.checked_sub(1)?,
        };
        flow.path.get(next).copied()
    }

    /// Handles a packet that has reached the next node on its path.
    pub(super) fn arrive(&mut self, now: Time, node: u32, handle: u32) {
        let p = self.packets.get_mut(handle);
        if p.forward {
            p.place += 1;
        } else {
            p.place -= 1;
            if HOST {
                self.note_answered(now, node, handle);
            }
        }
        if HOST && !self.signs[node as usize].is_empty() && self.leaves_the_mesh(handle) {
            self.read(now, node as usize, handle, Side::Leaves);
        }
        if HOST && self.take_echo(now, node, handle) {
            return;
        }
        self.transit(now, node, handle, false);
    }
}

/// Returns the packet that a verdict rejects, if any.
pub(super) fn refused(verdict: Verdict, offered: u32) -> Option<u32> {
    match verdict {
        Verdict::Queued | Verdict::Marked => None,
        Verdict::Dropped(_) => Some(offered),
        Verdict::Evicted(item, _) => Some(item.handle),
    }
}
