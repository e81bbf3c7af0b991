//! Between controls and the world: samples go in, actions come out.

use fairmesh_control::{
    Action, Allocation, Channel, Class, Event, EventKind, FlowCounters, Limit, Message, Point,
    QueueLength, Reason,
};
use fairmesh_units::{BitRate, FlowId, NodeId, Time};

use crate::host;
use crate::record::DecisionRecord;
use crate::taps::Note;
use crate::world::World;

/// Decisions kept of a run; later ones are left out.
const MAX_DECISIONS: usize = 100_000;

impl<const WATCH: bool, const HOST: bool> World<'_, WATCH, HOST> {
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
        if wants.has(EventKind::Counters)
            && let Some(classes) =
                self.net.interfaces.get(node.index()).and_then(|i| i.classes.as_ref())
        {
            for counters in classes.counters() {
                let at = &mut self.controls[c];
                at.control.on(now, &Event::Counters(counters), &mut self.actions);
            }
        }
        if HOST && wants.has(EventKind::Stations) {
            for station in self.net.taps.stations(node) {
                let at = &mut self.controls[c];
                at.control.on(now, &Event::Station(*station), &mut self.actions);
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
            let interface = &self.net.interfaces[node.index()];
            for (class, waiting) in interface.classes.iter().flat_map(|c| c.lengths()) {
                let (packets, bytes) = (waiting.packets, waiting.bytes);
                let event = Event::Queue(QueueLength { class, packets, bytes });
                self.controls[c].control.on(now, &event, &mut self.actions);
            }
            let waiting = interface.backlog();
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

    /// Tells controls what has happened at their nodes since the last time.
    pub(crate) fn tell(&mut self, now: Time) {
        let mut next = 0;
        // What controls do may give others something to hear, at the same instant.
        while let Some(&(c, note)) = self.net.taps.notes.get(next) {
            next += 1;
            let c = c as usize;
            let node = self.controls[c].node;
            let event = match note {
                Note::Queue(q) => Event::Queue(q),
                Note::Sent(s) => Event::Sent(s),
                Note::Received(h) => Event::Received(h),
                Note::Overheard(h) => Event::Overheard(h),
                Note::Message { from, start, len } => {
                    let body = &self.net.taps.bodies[start..start + len];
                    Event::Message(Message { from, body })
                }
                Note::Feedback(f) => Event::Feedback(f),
                Note::RoundTrip(r) => Event::RoundTrip(r),
                Note::FlowSeen(f) => {
                    match host::flow_at(self.scenario, self.now_fair(f), f, node) {
                        Some(here) => Event::FlowSeen(here),
                        None => continue,
                    }
                }
                Note::FlowGone(f) => Event::FlowGone(f),
            };
            self.controls[c].control.on(now, &event, &mut self.actions);
            self.act(now, c);
            self.rearm_control(c);
        }
        self.net.taps.notes.clear();
        self.net.taps.bodies.clear();
    }

    /// Does what a control decided.
    fn act(&mut self, now: Time, c: usize) {
        if self.actions.is_empty() {
            return;
        }
        let node = self.controls[c].node;
        let set = self.net.classes.iter().position(|s| s.node == node);
        let actions = std::mem::take(&mut self.actions);
        let mut why = None;
        for action in actions.iter() {
            match action {
                Action::Because(reason) => {
                    let before = why.replace(*reason);
                    self.decided(now, node, before);
                    continue;
                }
                // What controls tell each other, packet by packet, decides nothing yet.
                Action::Annotate { .. } | Action::Send { .. } | Action::Tell { .. } => why = None,
                _ => self.decided(now, node, why.take()),
            }
            match *action {
                Action::Because(_) => {}
                Action::SetRate { class, rate } => match set {
                    // A class that cannot be built stays unlimited: traffic flows.
                    Some(set) => drop(self.net.classes[set].set_rate(now, class, rate)),
                    None => self.limit(now, node, class, rate.map_or(Limit::None, Limit::Rate)),
                },
                Action::SetAirtime { class, share } => {
                    self.limit(now, node, class, Limit::Airtime(share));
                }
                Action::Remove { class } => self.remove(now, node, set, class),
                Action::Mark { class, probability, how } => {
                    self.net.taps.mark(node, class, probability.0, how);
                }
                Action::Drop { class, probability } => {
                    self.net.taps.lose(node, class, probability.0);
                }
                Action::Annotate { class, slot, merge, value } => {
                    self.net.taps.annotate(node, class, slot, merge, value);
                }
                Action::Pace { flow, interval, window } => {
                    if let Some(flow) = self.net.flows.get_mut(flow.index()) {
                        flow.pace(interval, window);
                    }
                }
                Action::AckBits { bits } => self.net.taps.set_ack_bits(node, bits),
                Action::Tell { reach, .. } => {
                    self.net.taps.hand_over(node, reach, actions.body(action));
                }
                Action::Send { to, .. } => {
                    let link = |n| self.air.link(node, n).map(|link| (n, link));
                    match to.map(link) {
                        // A neighbour that is none hears nothing.
                        Some(None) => {}
                        None => self.net.send_message(now, node, None, actions.body(action)),
                        Some(to) => self.net.send_message(now, node, to, actions.body(action)),
                    }
                }
            }
        }
        self.decided(now, node, why);
        self.actions = actions;
        self.actions.clear();
        if let Some(set) = set {
            self.net.drain(now, set);
        }
    }

    /// Records a decision.
    fn decided(&mut self, now: Time, node: NodeId, why: Option<Reason>) {
        if let Some(reason) = why
            && self.decisions.len() < MAX_DECISIONS
        {
            self.decisions.push(DecisionRecord {
                time_s: now.as_secs_f64(),
                node: self.scenario.nodes[node.index()].name.clone(),
                code: reason.code.into(),
                reason: reason.to_string(),
            });
        }
    }

    /// Sets the limit of a class in a radio's queue.
    fn limit(&mut self, now: Time, node: NodeId, class: Class, limit: Limit) {
        let interface = self.net.interfaces.get_mut(node.index());
        if let Some(classes) = interface.and_then(|i| i.classes.as_mut()) {
            classes.set(now, class, limit);
            self.net.kicks.push(node);
        }
    }

    /// Takes a class away; what waits there goes on.
    fn remove(&mut self, now: Time, node: NodeId, set: Option<usize>, class: Class) {
        if let Some(set) = set {
            for item in self.net.classes[set].remove(class) {
                self.net.pass(now, node.0, item.handle);
            }
        } else if self.controls.iter().any(|c| c.node == node && c.plan.point == Point::Interface) {
            self.net.unclass(now, node, class);
        }
    }
}
