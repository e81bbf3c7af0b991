//! Connection to the control: its setting, and the gateway as its driver sees it.

use std::net::IpAddr;

use fairmesh_control::host::{Driver, Node, Samples};
use fairmesh_control::{
    Action, Allocation, Class, ClassPlan, Counters, Event, EventKind, FlowCounters, Limit, Message,
    Neighbour as Link, PathSigns, Progress, Reach, Reason, Setting, StartError, Value,
};
use fairmesh_linux::{Direction, Layout, Slot};
use fairmesh_units::{BitRate, FlowId, NodeId, Stream, Time};

use super::{Governor, LimitReason, Member, Suspension, direction_name, flow, slot};
use crate::gateway::config::{Config, Mode, Neighbour, Peers, Subscriber};
use crate::gateway::journal::{Journal, Level};
use crate::gateway::offers::{SITE, offers};

/// Most messages that wait to be sent; a control sends at most as many in one sample.
const MAX_OUTBOX: usize = 4096;

fn setting(members: &[Member], neighbours: &[Neighbour], peers: Option<&Peers>) -> Setting {
    // The gateway's number; the numbers of neighbours count from 1 and are never compared with it.
    let node = NodeId(peers.map_or(0, |p| p.number));
    let gateways = 1 + peers.map_or(0, |p| p.peers.len() as u32);
    let link = |(i, n): (usize, &Neighbour)| Link::new(NodeId(i as u32 + 1), n.rate, n.capacity);
    // No control for gateways draws from the stream; a fixed one keeps decisions repeatable.
    Setting::new(node, SITE, Stream::new(0, "gateway"))
        .with_gateways(gateways)
        .with_flows(members.iter().flat_map(|m| [Governor::here(m, 0), Governor::here(m, 1)]))
        .with_neighbours(neighbours.iter().enumerate().map(link))
}

impl Governor {
    /// Checks that the control accepts a configuration; returns its layout, without subscribers.
    ///
    /// # Errors
    /// The control's refusal. Flows are numbered by the order of subscribers: from 2, two each.
    pub fn trial(config: &Config) -> Result<Layout, StartError> {
        let member = |(i, s): (usize, &Subscriber)| Member {
            subscriber: s.clone(),
            class: fairmesh_linux::ClassId(i as u16 + 1),
            seen: None,
            laid_out: false,
            directions: Default::default(),
        };
        let members: Vec<Member> = config.subscribers.iter().enumerate().map(member).collect();
        let setting = setting(&members, &config.neighbours, config.peers.as_ref());
        let offers = offers(config.peers.is_some(), config.agents.is_some());
        let driver = Driver::start_alone(&config.mechanism, setting, &offers)?;
        Ok(config.layout_for(driver.as_ref().map(Driver::plan)))
    }

    /// Starts the control again with all present subscribers.
    pub(super) fn start_control(&mut self, now: Time, why: &LimitReason) -> Result<(), StartError> {
        // Other gateways distinguish the starts of the control by this count; starts of the program are distinguished
        // otherwise.
        self.starts += 1;
        let peers = self.peers.as_ref();
        let setting = setting(&self.members, &self.links, peers).with_run(self.starts);
        let offers = offers(peers.is_some(), self.agents);
        let driver = Driver::start_alone(&self.mechanism, setting, &offers)?;
        for state in self.members.iter_mut().flat_map(|m| &mut m.directions) {
            (state.wanted, state.planned) = (None, false);
            state.why = Some(why.clone());
        }
        (self.aggregate.wanted, self.aggregate.planned) = (None, false);
        self.aggregate.why = Some(why.clone());
        self.driver = driver;
        self.drive(why, |driver, node| driver.begin(now, node));
        self.mark_initial();
        let flows: Vec<_> = self
            .members
            .iter()
            .flat_map(|m| [Governor::here(m, 0), Governor::here(m, 1)])
            .filter_map(|here| Some((here.flow, here.fair?)))
            .collect();
        self.allocate(now, &flows);
        self.refresh(now);
        Ok(())
    }

    /// Marks the control's present rates as initial ones, if it uses counters.
    pub(super) fn mark_initial(&mut self) {
        let counts = |d: &Driver| {
            let events = d.needs().events;
            events.has(EventKind::FlowCounters) || events.has(EventKind::Counters)
        };
        let initial = self.defer_initial && self.driver.as_ref().is_some_and(counts);
        for state in self.members.iter_mut().flat_map(|m| &mut m.directions) {
            state.initial = initial && state.wanted.is_some();
        }
    }

    /// Lets the driver work on this gateway. `why` is the reason of changes without one.
    fn drive(&mut self, why: &LimitReason, work: impl FnOnce(&mut Driver, &mut Gateway<'_>)) {
        let Some(mut driver) = self.driver.take() else { return };
        work(&mut driver, &mut Gateway { governor: self, why, sane: true, decided: false });
        self.driver = Some(driver);
    }

    /// Returns the rate that the control has learned, for storing it.
    pub fn learned(&self) -> Option<BitRate> {
        self.driver.as_ref()?.learned()
    }

    /// Returns the progress of the control's search for a level, and the bound of the level.
    ///
    /// Learning restarts with the mode: without limits, no measurement shows the capacity of the mesh under
    /// them.
    pub fn progress(&self) -> Option<(Progress, Option<String>)> {
        let mut progress = self.driver.as_ref()?.progress()?;
        if progress.learning {
            progress.since = progress.since.max(self.mode_since);
        }
        Some((progress, progress.bound.map(|bound| sentence(&self.members, &bound))))
    }

    /// True if the control has marked a subscriber's traffic in a direction as a flood.
    pub fn floods(&self, member: &Member, d: usize) -> bool {
        let slot = Slot { class: member.class, direction: Direction::BOTH[d] };
        self.driver.as_ref().is_some_and(|driver| driver.floods(flow(slot)))
    }

    /// Returns the control's objective in words.
    pub fn objective(&self) -> Option<String> {
        let objective = self.driver.as_ref()?.progress()?.objective?;
        Some(sentence(&self.members, &objective))
    }

    /// Returns the rate that the control guarantees a subscriber in a direction at present.
    pub fn guaranteed(&self, member: &Member, d: usize) -> Option<BitRate> {
        let slot = Slot { class: member.class, direction: Direction::BOTH[d] };
        self.driver.as_ref()?.guaranteed(flow(slot))
    }

    /// Starts the control from a rate that an earlier run had learned.
    pub fn recall(&mut self, now: Time, learned: BitRate) {
        self.drive(&LimitReason::Start, |driver, node| driver.recall(now, learned, node));
        self.mark_initial();
        self.refresh(now);
    }

    /// Reports fair rates of flows to the control, as configured; 0 for a flow that is gone.
    pub(super) fn allocate(&mut self, now: Time, flows: &[(FlowId, BitRate)]) {
        let asks = |d: &Driver| d.needs().events.has(EventKind::Allocations);
        if !self.driver.as_ref().is_some_and(asks) {
            return;
        }
        self.drive(&LimitReason::Reload, |driver, node| {
            for &(flow, rate) in flows {
                driver.deliver(now, &Event::Allocation(Allocation { flow, rate }));
            }
            driver.act(now, node);
        });
    }

    /// Records that the control has a class now, or no longer.
    fn plan(&mut self, class: Class, planned: bool) {
        match class {
            Class::All => self.aggregate.planned = planned,
            Class::Flow(f) => {
                let slot = slot(f);
                if let Ok(i) = self.find(slot.class) {
                    let d = slot.direction.index();
                    self.members[i].directions[d].planned = planned;
                }
            }
            // Not offered, so no control that runs here uses it.
            Class::Link(_) => {}
        }
    }

    fn set(&mut self, class: Class, rate: Option<BitRate>, why: &LimitReason) {
        match class {
            Class::All => {
                self.aggregate.wanted = rate;
                self.aggregate.why = Some(why.clone());
            }
            Class::Flow(f) => {
                let slot = slot(f);
                if let Ok(i) = self.find(slot.class) {
                    let state = &mut self.members[i].directions[slot.direction.index()];
                    state.wanted = rate;
                    state.initial = false;
                    state.why = Some(why.clone());
                }
            }
            // Not offered, so no control that runs here uses it.
            Class::Link(_) => {}
        }
    }

    /// Passes an event to the control and carries out its actions.
    pub(super) fn handle_event(&mut self, now: Time, event: &Event<'_>) {
        self.drive(&LimitReason::Start, |driver, node| driver.deliver_and_act(now, event, node));
    }

    /// True if this gateway exchanges messages with the others.
    ///
    /// False while it only observes, and while a fault lifts its limits: its counters would mislead the
    /// others, since the traffic was not sent under its limits.
    pub fn exchanges(&self) -> bool {
        self.peers.is_some() && self.sets_limits()
    }

    /// True if this gateway sets limits: it does not only observe, and no fault lifts them.
    fn sets_limits(&self) -> bool {
        self.mode == Mode::Apply && self.suspension == Suspension::None
    }

    /// Returns the control's orders to the routers of homes since the last call.
    pub fn take_orders(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        core::mem::take(&mut self.orders)
    }

    /// Returns the address at which the router of a home takes orders.
    pub fn router_of(&self, home: NodeId) -> Option<IpAddr> {
        let class = u16::try_from(home.0).ok().map(fairmesh_linux::ClassId)?;
        self.members[self.find(class).ok()?].subscriber.single_address()
    }

    /// Handles a message of another gateway; `restarted` since its last message.
    pub fn receive(&mut self, now: Time, from: u32, restarted: bool, body: Option<&[u8]>) {
        if self.peers.is_none() {
            return;
        }
        let from = NodeId(from);
        if restarted {
            self.handle_event(now, &Event::Restarted(from));
        }
        if let Some(body) = body.filter(|_| self.exchanges()) {
            self.handle_event(now, &Event::Message(Message { from, body }));
        }
    }

    /// Returns the control's messages to the others since the last call.
    pub fn take_messages(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.outbox)
    }

    /// Returns the gateway that decides for this one, too.
    pub fn governed_by(&self) -> Option<u32> {
        self.driver.as_ref()?.follows().map(|node| node.0)
    }

    /// Passes the samples and then the deadline to the control, if the deadline is due.
    pub(super) fn decide(&mut self, now: Time, sane: bool) {
        if self.driver.as_ref().is_none_or(|d| d.due() > now) {
            return;
        }
        self.members.iter_mut().for_each(show);
        self.drive(&LimitReason::Start, |driver, node| {
            node.sane = sane;
            driver.deadline(now, node);
            if node.decided {
                // A decision also confirms the initial rates that it leaves unchanged, for directions with traffic.
                let states = node.governor.members.iter_mut().flat_map(|m| &mut m.directions);
                states.filter(|s| s.meter.bytes > 0).for_each(|s| s.initial = false);
            }
        });
    }

    /// Returns a reason's text with the names of subscribers in place of numbers.
    pub fn explain(&self, reason: &Reason) -> String {
        sentence(&self.members, reason)
    }
}

/// Largest mean packet of pure acknowledgements, in bytes.
///
/// 40 to 72 bytes in IPv4, and 20 more in IPv6 (RFC 9293 §3.1, RFC 2018 §3, RFC 7323 §3.2).
const MAX_ACK_BYTES: u64 = 100;
/// Smallest mean packet of a transfer that is acknowledged, in bytes.
const MIN_DATA_BYTES: u64 = 300;

/// Updates the counters that the control sees: all traffic but pure acknowledgements.
///
/// Acknowledgements of transfers in the other direction do not form a flow. They would take a few per cent of
/// an allocation, and the control would lower all rates as if they starved.
fn show(member: &mut Member) {
    let moved = member.directions.each_ref().map(|w| {
        let seen = w.seen.unwrap_or([w.meter.bytes, w.meter.packets]);
        [w.meter.bytes - seen[0], w.meter.packets - seen[1]]
    });
    for d in 0..2 {
        let ([bytes, packets], [data, segments]) = (moved[d], moved[1 - d]);
        let answers = bytes < packets.saturating_mul(MAX_ACK_BYTES)
            && data > segments.saturating_mul(MIN_DATA_BYTES);
        let state = &mut member.directions[d];
        let shown = state.shown.get_or_insert([0, 0]);
        if !answers {
            *shown = [shown[0].saturating_add(bytes), shown[1].saturating_add(packets)];
        }
        state.seen = Some([state.meter.bytes, state.meter.packets]);
    }
}

/// This gateway as its control's driver sees it: one flow per subscriber and direction.
pub(super) struct Gateway<'a> {
    pub governor: &'a mut Governor,
    /// Reason of a change for which the control gives none.
    pub why: &'a LimitReason,
    /// True if the last reading of the counters is plausible.
    pub sane: bool,
    /// True once the control has decided something and given its reason.
    pub decided: bool,
}

impl Gateway<'_> {
    /// Returns the reason of a change: the control's, or else the gateway's own.
    fn because(&self, reason: Option<&Reason>) -> LimitReason {
        reason.map_or_else(|| self.why.clone(), |reason| LimitReason::Decision(*reason))
    }

    /// Returns the plausible counters by subscriber and direction; true if they have a class.
    fn counters(&self) -> impl Iterator<Item = (Counters, bool)> + '_ {
        // While a fault lifts limits, the traffic does not depend on them.
        let believed = self.sane && self.governor.suspension == Suspension::None;
        let members = self.governor.members.iter().filter(move |_| believed);
        let both = members.flat_map(|m| Direction::BOTH.map(|d| (m, d)));
        both.filter_map(|(member, direction)| {
            let state = &member.directions[direction.index()];
            let meter = &state.meter;
            let [bytes, packets] = state.shown.unwrap_or([meter.bytes, meter.packets]);
            let counters = Counters {
                class: Class::Flow(flow(Slot { class: member.class, direction })),
                bytes,
                packets,
                drops: meter.drops,
                overlimits: meter.overlimits,
                queued_packets: meter.backlog_packets,
                queued_bytes: meter.backlog,
            };
            meter.known().then_some((counters, state.planned))
        })
    }

    /// Returns the known signs of paths.
    fn signs(&self) -> impl Iterator<Item = PathSigns> + '_ {
        let believed = self.sane && self.governor.suspension == Suspension::None;
        let members = self.governor.members.iter().filter(move |_| believed);
        let both = members.flat_map(|m| Direction::BOTH.map(|d| (m, d)));
        both.filter_map(|(member, direction)| {
            let signs = &member.directions[direction.index()].signs;
            let flow = flow(Slot { class: member.class, direction });
            let of = PathSigns::new(flow).with_repeated(signs.repeated);
            let of = of.with_trips(signs.round_trip, signs.oldest);
            let of = signs.awaited.map_or(of, |awaited| of.with_awaited(awaited));
            let known = of.awaited.is_some() || of.round_trip.is_some() || of.oldest.is_some();
            known.then_some(of)
        })
    }

    /// Returns the sum of all subscribers' counters.
    pub fn sum(&self) -> Counters {
        let none = Counters {
            class: Class::All,
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            queued_packets: 0,
            queued_bytes: 0,
        };
        self.counters().fold(none, |a, (c, _)| Counters {
            class: Class::All,
            bytes: a.bytes.saturating_add(c.bytes),
            packets: a.packets.saturating_add(c.packets),
            drops: a.drops.saturating_add(c.drops),
            overlimits: a.overlimits.saturating_add(c.overlimits),
            queued_packets: a.queued_packets.saturating_add(c.queued_packets),
            queued_bytes: a.queued_bytes.saturating_add(c.queued_bytes),
        })
    }
}

impl Node for Gateway<'_> {
    fn sample(&mut self, _: Time, kind: EventKind, samples: &mut Samples<'_>) {
        match kind {
            EventKind::Counters => {
                let planned = self.counters().filter(|c| c.1);
                planned.for_each(|c| samples.give(Event::Counters(c.0)));
                if self.governor.aggregate.planned {
                    samples.give(Event::Counters(self.sum()));
                }
            }
            EventKind::FlowCounters => self.counters().for_each(|(c, _)| {
                let Class::Flow(flow) = c.class else { return };
                let (bytes, packets) = (c.bytes, c.packets);
                samples.give(Event::FlowCounters(FlowCounters { flow, bytes, packets }));
            }),
            EventKind::PathSigns => self.signs().for_each(|s| samples.give(Event::PathSigns(s))),
            // Not offered.
            _ => {}
        }
    }

    fn build(&mut self, _: Time, class: &ClassPlan, why: Option<&Reason>) {
        self.governor.plan(class.class, true);
        if let Limit::Rate(rate) = class.limit {
            let why = self.because(why);
            self.governor.set(class.class, Some(rate), &why);
        }
    }

    fn carry_out(&mut self, _: Time, action: &Action, body: &[u8], why: Option<&Reason>) {
        let why = self.because(why);
        match *action {
            Action::SetRate { class, rate } => self.governor.set(class, rate, &why),
            // The subscriber's class stays in the kernel for its counters, without a limit.
            Action::Remove { class } => {
                self.governor.plan(class, false);
                self.governor.set(class, None, &why);
            }
            Action::HandOver { reach: Reach::Gateways, .. } => {
                if self.governor.exchanges() && self.governor.outbox.len() < MAX_OUTBOX {
                    self.governor.outbox.push(body.to_vec());
                }
            }
            Action::Route { to, .. } => {
                if self.governor.sets_limits() && self.governor.orders.len() < MAX_OUTBOX {
                    self.governor.orders.push((to, body.to_vec()));
                }
            }
            // Not offered, so the driver uses none of these.
            Action::SetAirtime { .. }
            | Action::Mark { .. }
            | Action::Drop { .. }
            | Action::Annotate { .. }
            | Action::Send { .. }
            | Action::HandOver { .. }
            | Action::AckBits { .. }
            | Action::Pace { .. }
            | Action::Because(_) => {}
        }
    }

    fn decided(&mut self, now: Time, reason: &Reason) {
        self.decided = true;
        let Governor { journal, members, .. } = &mut *self.governor;
        note(journal, members, now, reason);
    }
}

fn note(journal: &mut Journal, members: &[Member], now: Time, reason: &Reason) {
    // The driver's own code: the control broke the contract. And the flood, which only the subscriber can end.
    let wrong = reason.code.starts_with("contract.") || reason.code.ends_with(".flood");
    let level = if wrong { Level::Warning } else { Level::Info };
    journal.note(now, level, reason.code, || sentence(members, reason));
}

fn sentence(members: &[Member], reason: &Reason) -> String {
    reason.with_names(|value| match value {
        Value::Flow(f) | Value::Class(Class::Flow(f)) => Some(name(members, *f)),
        _ => None,
    })
}

fn name(members: &[Member], flow: FlowId) -> String {
    let slot = slot(flow);
    match members.binary_search_by_key(&slot.class, |m| m.class) {
        Ok(i) => {
            let d = direction_name(slot.direction.index());
            format!("\"{}\" ({d})", members[i].subscriber.name)
        }
        Err(_) => flow.0.to_string(),
    }
}
