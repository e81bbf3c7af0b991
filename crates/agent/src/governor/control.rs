//! The control's side: its setting, its events, its actions.

use fairmesh_control::{
    Action, Actions, Class, Counters, Event, FlowCounters, Limit, Neighbour as Link, Reason,
    Setting, StartError, Value,
};
use fairmesh_linux::Slot;
use fairmesh_units::{BitRate, FlowId, NodeId, Stream, Time};

use super::{Governor, Held, Member, Why, direction_name, flow, slot, way};
use crate::config::{Config, Neighbour, Subscriber};
use crate::journal::{Journal, Level};
use crate::site::{OFFERS, SITE};

/// The gateway's own number among the nodes; its neighbours follow.
const SELF: NodeId = NodeId(0);

fn setting(members: &[Member], neighbours: &[Neighbour]) -> Setting {
    let link = |(i, n): (usize, &Neighbour)| Link {
        node: NodeId(i as u32 + 1),
        rate: n.rate,
        capacity: n.capacity,
    };
    Setting {
        node: SELF,
        site: SITE,
        flows: members.iter().flat_map(|m| [Governor::here(m, 0), Governor::here(m, 1)]).collect(),
        neighbours: neighbours.iter().enumerate().map(link).collect(),
        links: Vec::new(),
        // No control for gateways draws from it; a fixed one keeps decisions repeatable.
        model: None,
        stream: Stream::new(0, "gateway"),
    }
}

impl Governor {
    /// Whether the control accepts a configuration.
    ///
    /// # Errors
    /// What it does not accept. Flows are numbered by the order of subscribers: from 2, two each.
    pub fn trial(config: &Config) -> Result<(), StartError> {
        let member = |(i, s): (usize, &Subscriber)| Member {
            subscriber: s.clone(),
            class: fairmesh_linux::ClassId(i as u16 + 1),
            seen: None,
            laid_out: false,
            ways: Default::default(),
        };
        let members: Vec<Member> = config.subscribers.iter().enumerate().map(member).collect();
        let setting = setting(&members, &config.neighbours);
        config.mechanism.start(setting, &OFFERS).map(|_| ())
    }

    /// Starts the control anew with everybody who is here.
    pub(super) fn start_control(&mut self, now: Time, why: &Why) -> Result<(), StartError> {
        let setting = setting(&self.members, &self.neighbours);
        let instance = self.mechanism.start(setting, &OFFERS)?;
        for way in self.members.iter_mut().flat_map(|m| &mut m.ways) {
            way.wanted = None;
            way.why = Some(why.clone());
        }
        self.aggregate.wanted = None;
        self.aggregate.why = Some(why.clone());
        self.control = None;
        let Some(instance) = instance else {
            self.refresh(now);
            return Ok(());
        };
        for class in &instance.plan.classes {
            if let Limit::Rate(rate) = class.limit {
                self.set(class.class, Some(rate), why);
            }
        }
        self.control = Some(instance.control);
        self.refresh(now);
        Ok(())
    }

    /// What the control has found out, to be kept over a restart.
    pub fn learned(&self) -> Option<BitRate> {
        self.control.as_ref()?.learned()
    }

    /// Has the control begin from what an earlier run had found out.
    pub fn recall(&mut self, now: Time, learned: BitRate) {
        let Some(control) = &mut self.control else { return };
        let mut actions = core::mem::take(&mut self.actions);
        control.recall(learned, &mut actions);
        self.carry_out(now, actions);
        self.refresh(now);
    }

    fn set(&mut self, class: Class, rate: Option<BitRate>, why: &Why) {
        match class {
            Class::All => {
                self.aggregate.wanted = rate;
                self.aggregate.why = Some(why.clone());
            }
            Class::Flow(f) => {
                let slot = slot(f);
                if let Ok(i) = self.find(slot.class) {
                    let way = &mut self.members[i].ways[way(slot.direction)];
                    way.wanted = rate;
                    way.why = Some(why.clone());
                }
            }
            // Not offered, so no control that runs here asks for it.
            Class::Link(_) => {}
        }
    }

    /// Hands an event to the control and carries out what it asks for.
    pub(super) fn tell(&mut self, now: Time, event: &Event<'_>) {
        let Some(control) = &mut self.control else { return };
        let mut actions = core::mem::take(&mut self.actions);
        control.on(now, event, &mut actions);
        self.carry_out(now, actions);
    }

    fn carry_out(&mut self, now: Time, mut actions: Actions) {
        let mut why = Why::Start;
        for action in actions.iter() {
            match action {
                Action::Because(reason) => {
                    let Governor { journal, members, .. } = self;
                    note(journal, members, now, reason);
                    why = Why::Decision(*reason);
                }
                Action::SetRate { class, rate } => self.set(*class, *rate, &why),
                Action::Remove { class } => self.set(*class, None, &why),
                // None of these abilities is offered.
                _ => {}
            }
        }
        actions.clear();
        self.actions = actions;
    }

    /// If the control's deadline is due: its samples, then the deadline.
    pub(super) fn decide(&mut self, now: Time, sane: bool) {
        let due = self.control.as_ref().and_then(|c| c.next_deadline()).is_some_and(|d| d <= now);
        if !due {
            return;
        }
        let classes = self
            .mechanism
            .needs(&SITE)
            .is_some_and(|n| n.events.has(fairmesh_control::EventKind::Counters));
        self.members.iter_mut().for_each(show);
        // While limits are lifted by a fault, what passes says nothing about them.
        for i in 0..self.members.len() * usize::from(sane && self.held == Held::No) {
            for (d, direction) in fairmesh_linux::Direction::BOTH.into_iter().enumerate() {
                let member = &self.members[i];
                let meter = &member.ways[d].meter;
                if !meter.known() {
                    continue;
                }
                let flow = flow(Slot { class: member.class, direction });
                let [bytes, packets] = member.ways[d].shown.unwrap_or([meter.bytes, meter.packets]);
                let counters = Counters {
                    class: Class::Flow(flow),
                    bytes,
                    packets,
                    drops: meter.drops,
                    overlimits: meter.overlimits,
                    queued_packets: 0,
                    queued_bytes: meter.backlog,
                };
                if classes {
                    self.tell(now, &Event::Counters(counters));
                }
                self.tell(now, &Event::FlowCounters(FlowCounters { flow, bytes, packets }));
            }
        }
        self.tell(now, &Event::Deadline);
    }

    /// A reason's sentence with the names of subscribers in place of numbers.
    pub fn explain(&self, reason: &Reason) -> String {
        sentence(&self.members, reason)
    }
}

/// The largest mean packet of pure acknowledgements: 40 to 72 bytes in IPv4, and 20 more in IPv6
/// (RFC 9293 §3.1, RFC 2018 §3, RFC 7323 §3.2).
const ACKNOWLEDGEMENT: u64 = 100;
/// The smallest mean packet of a transfer that is acknowledged.
const DATA: u64 = 300;

/// What the control gets to see of a subscriber: all that passed, but the acknowledgements of its
/// transfers the other way. They are no flow: they would take a few per cent of an allocation, and
/// the control would lower everybody's as if they starved.
fn show(member: &mut Member) {
    let moved = member.ways.each_ref().map(|w| {
        let seen = w.seen.unwrap_or([w.meter.bytes, w.meter.packets]);
        [w.meter.bytes - seen[0], w.meter.packets - seen[1]]
    });
    for d in 0..2 {
        let ([bytes, packets], [data, segments]) = (moved[d], moved[1 - d]);
        let answers = bytes < packets * ACKNOWLEDGEMENT && data > segments * DATA;
        let way = &mut member.ways[d];
        let shown = way.shown.get_or_insert([0, 0]);
        if !answers {
            *shown = [shown[0] + bytes, shown[1] + packets];
        }
        way.seen = Some([way.meter.bytes, way.meter.packets]);
    }
}

fn note(journal: &mut Journal, members: &[Member], now: Time, reason: &Reason) {
    journal.note(now, Level::Info, reason.code, || sentence(members, reason));
}

fn sentence(members: &[Member], reason: &Reason) -> String {
    let mut out = String::new();
    let mut values = reason.values.iter();
    let mut rest = reason.sentence;
    while let Some(at) = rest.find("{}") {
        out += &rest[..at];
        match values.next() {
            Some(Value::Flow(f) | Value::Class(Class::Flow(f))) => out += &name(members, *f),
            Some(value) => out += &value.to_string(),
            None => {}
        }
        rest = &rest[at + 2..];
    }
    out + rest
}

fn name(members: &[Member], flow: FlowId) -> String {
    let slot = slot(flow);
    match members.binary_search_by_key(&slot.class, |m| m.class) {
        Ok(i) => {
            let d = direction_name(way(slot.direction));
            format!("\"{}\" ({d})", members[i].subscriber.name)
        }
        Err(_) => flow.0.to_string(),
    }
}
