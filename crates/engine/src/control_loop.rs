//! The node interface that a control's driver uses, and the calls of the driver.

use fairmesh_control::host::{Driver, Node, RoundTripLook, Samples};
use fairmesh_control::{
    Action, Allocation, Channel, Class, ClassPlan, Event, EventKind, FlowCounters, Limit, Message,
    PathSigns, QueueLength, Reach, Reason, Value,
};
use fairmesh_queueing::SpecError;
use fairmesh_scenario::Scenario;
use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

use crate::airs::Airs;
use crate::error::EngineError;
use crate::host::{self, ControlAt};
use crate::listeners::{INTERNAL_LINK, Note};
use crate::net::Net;
use crate::record::DecisionRecord;
use crate::shares::Shares;
use crate::world::{World, refused};

/// Maximum number of decisions recorded per run; later ones are left out.
pub(crate) const MAX_DECISIONS: usize = 100_000;

impl<const WATCH: bool, const HOST: bool> World<WATCH, HOST> {
    /// Returns a control and its node.
    fn control(&mut self, c: usize) -> (&mut Driver, NodeOf<'_, WATCH, HOST>) {
        let World { scenario, air, net, controls, decisions, .. } = self;
        let at = &mut controls[c];
        let node = at.node;
        let set = net.classes.iter().position(|s| s.node == node);
        let ControlAt { driver, shares, .. } = at;
        (driver, NodeOf { node, set, shares, scenario, air, net, decisions, refused: None })
    }

    /// Builds a control's plan and arms its first deadline.
    ///
    /// # Errors
    /// Returns an error if a queue cannot be built.
    pub(crate) fn begin_control(&mut self, c: usize) -> Result<(), EngineError> {
        let (driver, mut node) = self.control(c);
        driver.begin(Time::ZERO, &mut node);
        if let Some(e) = node.refused {
            return Err(refused(&node.scenario.nodes()[node.node.index()].name, &e));
        }
        self.rearm_control(c);
        Ok(())
    }

    /// Handles a control's deadline.
    pub(crate) fn control_deadline(&mut self, now: Time, c: usize) {
        let (driver, mut node) = self.control(c);
        driver.deadline(now, &mut node);
        self.rearm_control(c);
    }

    /// Applies a change of the set of active flows, and of the fair rates with it.
    pub(crate) fn allocate(&mut self, now: Time) {
        let Some(rates) = self.fair.as_ref().and_then(|f| f.changes.get(self.allocated)) else {
            return;
        };
        let rates = rates.1.clone();
        self.allocated += 1;
        for c in 0..self.controls.len() {
            let (driver, mut node) = self.control(c);
            if !driver.needs().events.has(EventKind::Allocations) {
                continue;
            }
            for flow in (0..rates.len() as u32).map(FlowId).filter(|f| node.shares.names(*f)) {
                let rate = node.shares.sum(flow, |f| rates.get(f).copied()).unwrap_or(0.0);
                let rate = BitRate(rate as u64);
                driver.deliver(now, &Event::Allocation(Allocation { flow, rate }));
            }
            driver.act(now, &mut node);
            self.rearm_control(c);
        }
    }

    fn rearm_control(&mut self, c: usize) {
        let slot = self.net.control_slot(c);
        self.net.timers.set(slot, self.controls[c].driver.due());
    }

    /// Delivers pending events to the controls of the nodes where they happened.
    pub(crate) fn deliver_events(&mut self, now: Time) {
        let mut next = 0;
        // A control's actions may cause events for other controls at the same instant.
        while let Some(&(c, note)) = self.net.listeners.notes.get(next) {
            next += 1;
            let c = c as usize;
            let event = match note {
                Note::Queue(q) => Event::Queue(q),
                Note::Sent(s) => Event::Sent(s),
                Note::Received(h) => Event::Received(h),
                Note::Overheard(h) => Event::Overheard(h),
                Note::Message { from, start, len } => {
                    let body = &self.net.listeners.bodies[start..start + len];
                    Event::Message(Message { from, body })
                }
                Note::Feedback(f) => Event::Feedback(f),
                Note::RoundTrip(r) => Event::RoundTrip(r),
                Note::FlowSeen(f) => {
                    let (fair, node) = (self.now_fair(f), self.controls[c].node);
                    match host::flow_at(&self.scenario, fair, f, node) {
                        Some(here) => Event::FlowSeen(here),
                        None => continue,
                    }
                }
                Note::FlowGone(f) => Event::FlowGone(f),
            };
            self.controls[c].driver.deliver(now, &event);
            let (driver, mut node) = self.control(c);
            driver.act(now, &mut node);
            self.rearm_control(c);
        }
        self.net.listeners.notes.clear();
        self.net.listeners.bodies.clear();
    }
}

/// A node of the simulator with a control.
struct NodeOf<'w, const WATCH: bool, const HOST: bool> {
    node: NodeId,
    /// Index of the node's forwarding classes, if it has any.
    set: Option<usize>,
    shares: &'w Shares,
    scenario: &'w Scenario,
    air: &'w mut Airs,
    net: &'w mut Net<WATCH, HOST>,
    decisions: &'w mut Vec<DecisionRecord>,
    /// Error of a class that could not be built.
    refused: Option<SpecError>,
}

impl<const WATCH: bool, const HOST: bool> Node for NodeOf<'_, WATCH, HOST> {
    fn sample(&mut self, now: Time, kind: EventKind, samples: &mut Samples<'_>) {
        let node = self.node;
        let interface = self.net.interfaces.get(node.index());
        match kind {
            EventKind::Counters => {
                let sets = &self.net.classes;
                let set = self.set.into_iter().flat_map(|set| sets[set].counters());
                let radio = interface.and_then(|i| i.classes.as_ref());
                let radio = radio.into_iter().flat_map(|c| c.counters());
                set.chain(radio).for_each(|c| samples.give(Event::Counters(c)));
            }
            EventKind::Stations if HOST => {
                for station in self.net.listeners.stations(node) {
                    samples.give(Event::Station(*station));
                }
            }
            EventKind::FlowCounters => {
                let left = &self.net.departed[node.index()];
                let all = (0..left.len() as u32).map(FlowId);
                for flow in all.filter(|f| self.shares.names(*f)) {
                    let own = self.shares.members(flow).map(|f| left[f.index()]);
                    let (bytes, packets) =
                        own.fold((0, 0), |(b, p), left| (b + left.bytes, p + left.packets));
                    samples.give(Event::FlowCounters(FlowCounters { flow, bytes, packets }));
                }
            }
            EventKind::FlowLinks if HOST => {
                for flow in self.net.listeners.flow_links(node) {
                    samples.give(Event::FlowLink(*flow));
                }
            }
            EventKind::PathSigns => self.sample_signs(now, samples),
            EventKind::Channel if interface.is_some() => {
                let t = self.air.channel_time(now, node);
                samples.give(Event::Channel(Channel {
                    active: t.active,
                    busy: t.busy + t.transmit,
                    receive: t.receive,
                    transmit: t.transmit,
                }));
            }
            EventKind::QueueSamples => {
                let Some(interface) = interface else { return };
                let classes = interface.classes.iter().flat_map(|c| c.lengths());
                for (class, waiting) in classes.chain([(Class::All, interface.backlog())]) {
                    let (packets, bytes) = (waiting.packets, waiting.bytes);
                    samples.give(Event::Queue(QueueLength { class, packets, bytes }));
                }
            }
            _ => {}
        }
    }

    fn build(&mut self, _: Time, class: &ClassPlan, _: Option<&Reason>) {
        if let Err(e) = self.build_class(class) {
            // While the control runs, traffic of a class that cannot be built is not limited.
            self.refused = Some(e);
        }
    }

    fn carry_out(&mut self, now: Time, action: &Action, body: &[u8], _: Option<&Reason>) {
        let node = self.node;
        match *action {
            Action::SetRate { class, rate } => match self.set {
                Some(set) => self.net.classes[set].set_rate(now, class, rate),
                None => self.limit(now, class, rate.map_or(Limit::None, Limit::Rate)),
            },
            Action::SetAirtime { class, share } => self.limit(now, class, Limit::Airtime(share)),
            Action::Remove { class } => self.remove(now, class),
            Action::Mark { class, probability, how } => {
                self.net.listeners.mark(node, class, probability.0, how);
            }
            Action::Drop { class, probability } => {
                self.net.listeners.lose(node, class, probability.0);
            }
            Action::Annotate { class, slot, merge, value } => {
                self.net.listeners.annotate(node, class, slot, merge, value);
            }
            Action::Pace { flow, interval, window } => {
                if let Some(flow) = self.net.flows.get_mut(flow.index()) {
                    flow.pace(interval, window);
                }
            }
            Action::AckBits { bits } => self.net.listeners.set_ack_bits(node, bits),
            Action::HandOver { reach: Reach::Gateways, .. } => {
                self.net.send_behind(now, node, body)
            }
            Action::HandOver { reach, .. } => self.net.listeners.hand_over(node, reach, body),
            Action::Route { to, .. } => {
                let nodes = self.net.way(self.scenario.links(), node, to);
                let hops = core::iter::once(node).chain(nodes.iter().copied()).zip(&nodes);
                let link = |a, b| match self.scenario.same_device(a, b) {
                    true => Some(INTERNAL_LINK),
                    false => self.air.link(a, b),
                };
                let links = hops.map_while(|(a, &b)| Some((b, link(a, b)?)));
                let way: Vec<_> = links.collect();
                // An interrupted path is not usable.
                let way = if way.len() == nodes.len() { way } else { Vec::new() };
                self.net.route_message(now, node, &way, body);
            }
            Action::Send { to: None, .. } => self.net.send_message(now, node, None, body),
            // The driver records reasons as decisions.
            Action::Because(_) => {}
            Action::Send { to: Some(to), .. } => {
                // A node that is not a neighbour receives no message.
                if let Some(link) = self.air.link(node, to) {
                    self.net.send_message(now, node, Some((to, link)), body);
                }
            }
        }
    }

    fn decided(&mut self, now: Time, reason: &Reason) {
        if self.decisions.len() < MAX_DECISIONS {
            let about = reason.values.iter().find_map(|v| match v {
                Value::Flow(f) | Value::Class(Class::Flow(f)) => Some(*f),
                _ => None,
            });
            let rate = reason.values.iter().find_map(|v| match v {
                Value::Rate(rate) => Some(rate.0 as f64),
                _ => None,
            });
            self.decisions.push(DecisionRecord {
                time_s: now.as_secs_f64(),
                node: self.scenario.nodes()[self.node.index()].name.clone(),
                code: reason.code.into(),
                reason: reason.with_names(|value| self.name(value)),
                flow: about.and_then(|f| self.shares.name(self.scenario, f)),
                rate_bps: rate,
            });
        }
    }

    fn settled(&mut self, now: Time) {
        if let Some(set) = self.set {
            self.net.drain(now, set);
        }
    }
}

impl<const WATCH: bool, const HOST: bool> NodeOf<'_, WATCH, HOST> {
    /// Samples the TCP signs of each flow's path, and requests probes.
    ///
    /// Probes are for flows without a round trip. The signs of a share's flows are merged.
    fn sample_signs(&mut self, now: Time, samples: &mut Samples<'_>) {
        let echoes = self.net.echoes_at(self.node);
        if let Some(at) = echoes {
            self.net.want_echoes(now, at, self.shares);
        }
        let Net { signs, echoes: all_echoes, .. } = &mut *self.net;
        let echoes = echoes.map(|at| &all_echoes[at]);
        let all = &mut signs[self.node.index()];
        for flow in (0..all.len() as u32).map(FlowId).filter(|f| self.shares.names(*f)) {
            let members = || self.shares.members(flow);
            let mut sum: Option<(u64, u64, Option<Span>)> = None;
            for f in members() {
                let Some(signs) = all.get_mut(f.index()).filter(|s| s.is_tcp()) else { continue };
                let (awaited, repeated, oldest) = sum.unwrap_or_default();
                let oldest = oldest.max(signs.stalled(now));
                sum = Some((awaited + signs.awaited(), repeated + signs.repeated(), oldest));
            }
            let probed = echoes.and_then(|e| e.oldest(now, flow));
            let oldest = sum.and_then(|s| s.2).max(probed);
            let mut look = RoundTripLook::default();
            for f in members() {
                if let Some(signs) = all.get_mut(f.index()) {
                    look.take(&mut signs.round_trips);
                }
            }
            let trip = look.sample();
            if sum.is_none() && trip.is_none() && oldest.is_none() {
                continue;
            }
            let mut signs = PathSigns::new(flow);
            if let Some((awaited, repeated, _)) = sum {
                signs = signs.with_awaited(awaited).with_repeated(repeated);
            }
            samples.give(Event::PathSigns(signs.with_trips(trip, oldest)));
        }
    }

    /// Returns the scenario's name of a flow or node in a decision.
    fn name(&self, value: &Value) -> Option<String> {
        let node = |id: NodeId| self.scenario.nodes().get(id.index()).map(|n| &n.name);
        let flow = |id: FlowId| self.shares.name(self.scenario, id);
        match value {
            Value::Flow(f) => flow(*f),
            Value::Node(n) => node(*n).cloned(),
            Value::Elsewhere(gateway, f) => {
                Some(format!("{} of gateway {}", flow(*f)?, node(*gateway)?))
            }
            Value::Class(Class::Flow(f)) => Some(format!("flow {}", flow(*f)?)),
            Value::Class(Class::Link(to)) => Some(format!("traffic to node {}", node(*to)?)),
            _ => None,
        }
    }

    /// Builds a class, or the queue that replaces a radio's own.
    ///
    /// A node without a radio has no such queue.
    fn build_class(&mut self, plan: &ClassPlan) -> Result<(), SpecError> {
        if let Some(set) = self.set {
            return self.net.classes[set].build(plan);
        }
        let Some(interface) = self.net.interfaces.get_mut(self.node.index()) else { return Ok(()) };
        match &mut interface.classes {
            Some(classes) => classes.build(plan)?,
            None => interface.queue = crate::classes::leaf(plan).build()?,
        }
        Ok(())
    }

    /// Sets the limit of a class in a radio's queue.
    fn limit(&mut self, now: Time, class: Class, limit: Limit) {
        let interface = self.net.interfaces.get_mut(self.node.index());
        if let Some(classes) = interface.and_then(|i| i.classes.as_mut()) {
            classes.set(now, class, limit);
            self.net.kicks.push(self.node);
        }
    }

    /// Removes a class; packets that wait in it are still sent.
    fn remove(&mut self, now: Time, class: Class) {
        if let Some(set) = self.set {
            let at = self.net.classes[set].node;
            for item in self.net.classes[set].remove(class) {
                self.net.pass(now, at.0, item.handle);
            }
        } else if self.net.interfaces.get(self.node.index()).is_some_and(|i| i.classes.is_some()) {
            self.net.unclass(now, self.node, class);
        }
    }
}
