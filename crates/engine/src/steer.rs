//! Between controls and the world: samples go in, actions come out.

use fairmesh_control::{
    Action, Allocation, Channel, Class, Event, EventKind, FlowCounters, QueueLength,
};
use fairmesh_units::{BitRate, FlowId, Time};

use crate::record::DecisionRecord;
use crate::world::World;

/// Decisions kept of a run; later ones are left out.
const MAX_DECISIONS: usize = 100_000;

impl<const WATCH: bool> World<'_, WATCH> {
    /// A control's deadline: first its samples, then the deadline, then what it decides.
    pub(crate) fn control_deadline(&mut self, now: Time, c: usize) {
        let (node, wants) = (self.controls[c].node, self.controls[c].needs.events);
        let set = self.net.classes.iter().position(|s| s.node == node);
        if wants.has(EventKind::Counters)
            && let Some(set) = set
        {
            for counters in self.net.classes[set].counters() {
                let at = &mut self.controls[c];
                at.control.on(now, &Event::Counters(counters), &mut self.actions);
            }
        }
        if wants.has(EventKind::FlowCounters) {
            for (f, left) in self.net.left[node.index()].iter().enumerate() {
                let counters = FlowCounters {
                    flow: FlowId(f as u32),
                    bytes: left.bytes,
                    packets: left.packets,
                };
                let at = &mut self.controls[c];
                at.control.on(now, &Event::FlowCounters(counters), &mut self.actions);
            }
        }
        let has_radio = node.index() < self.net.interfaces.len();
        if wants.has(EventKind::Channel) && has_radio {
            let t = self.air.channel_time(now, node);
            let channel = Channel {
                active: t.active,
                busy: t.busy + t.transmit,
                receive: t.receive,
                transmit: t.transmit,
            };
            self.controls[c].control.on(now, &Event::Channel(channel), &mut self.actions);
        }
        if wants.has(EventKind::QueueSamples) && has_radio {
            let waiting = self.net.interfaces[node.index()].backlog();
            let length =
                QueueLength { class: Class::All, packets: waiting.packets, bytes: waiting.bytes };
            self.controls[c].control.on(now, &Event::Queue(length), &mut self.actions);
        }
        self.controls[c].control.on(now, &Event::Deadline, &mut self.actions);
        self.act(now, c);
        self.rearm_control(c);
    }

    /// The set of active flows has changed, and with it the fair rates.
    pub(crate) fn allocate(&mut self, now: Time) {
        let rates = self.fair.changes[self.allocated].1.clone();
        self.allocated += 1;
        for c in 0..self.controls.len() {
            if !self.controls[c].needs.events.has(EventKind::Allocations) {
                continue;
            }
            for (f, rate) in rates.iter().enumerate() {
                let (flow, rate) = (FlowId(f as u32), BitRate(*rate as u64));
                let event = Event::Allocation(Allocation { flow, rate });
                self.controls[c].control.on(now, &event, &mut self.actions);
            }
            self.act(now, c);
            self.rearm_control(c);
        }
    }

    pub(crate) fn rearm_control(&mut self, c: usize) {
        let at = self.controls[c].control.next_deadline().unwrap_or(Time::NEVER);
        let slot = self.net.control_slot(c);
        self.net.timers.set(slot, at);
    }

    /// Does what a control decided.
    fn act(&mut self, now: Time, c: usize) {
        let node = self.controls[c].node;
        let set = self.net.classes.iter().position(|s| s.node == node);
        for action in self.actions.iter() {
            match (action, set) {
                (Action::Because(reason), _) if self.decisions.len() < MAX_DECISIONS => {
                    self.decisions.push(DecisionRecord {
                        time_s: now.as_secs_f64(),
                        node: self.scenario.nodes[node.index()].name.clone(),
                        code: reason.code,
                        reason: reason.to_string(),
                    });
                }
                (Action::SetRate { class, rate }, Some(set)) => {
                    // A class that cannot be built stays unlimited: traffic flows.
                    let _ = self.net.classes[set].set_rate(now, *class, *rate);
                }
                (Action::Remove { class }, Some(set)) => {
                    for item in self.net.classes[set].remove(*class) {
                        self.net.pass(now, node.0, item.handle);
                    }
                }
                // What `host::OFFERS` leaves out is never asked for.
                _ => {}
            }
        }
        self.actions.clear();
        if let Some(set) = set {
            self.net.drain(now, set);
        }
    }
}
