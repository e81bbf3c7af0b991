//! Record of the events and actions of a mechanism at each node, kept by the suite itself.

use std::collections::BTreeMap;

use fairmesh_units::{FlowId, NodeId, Span, Time};

use super::spy::{CheckedEvent, Note};
use super::{ChanceInForce, Subject};
use crate::{Action, Class, ClassPlan, EventKind, EventSet, Header, Limit, Merge, Plan, Reach};

/// Order of the samples before a deadline.
const SAMPLE_ORDER: [EventKind; 7] = [
    EventKind::Counters,
    EventKind::Stations,
    EventKind::FlowCounters,
    EventKind::FlowLinks,
    EventKind::PathSigns,
    EventKind::Channel,
    EventKind::QueueSamples,
];

/// Number of deadlines after which a host must have delivered every kind of sample.
const SETTLING_DEADLINES: u32 = 3;

/// One node.
#[derive(Debug)]
struct Account {
    events: EventSet,
    template: Option<ClassPlan>,
    /// Existing classes with their limits at present.
    classes: BTreeMap<Class, ClassPlan>,
    /// Classes that have been removed.
    gone: Vec<Class>,
    chances: BTreeMap<Class, ChanceInForce>,
    fields: BTreeMap<(Class, u8), (Merge, u32)>,
    bits: u8,
    /// Decisions by code.
    codes: BTreeMap<&'static str, u64>,
    /// A reason from which no action has followed yet.
    open: Option<&'static str>,
    due: Option<Time>,
    now: Time,
    deadlines: u32,
    /// Samples since the last event of another kind.
    samples: Vec<(EventKind, Option<Class>)>,
    sampled_at: Time,
    /// True if the last event was a sample.
    sampling: bool,
}

impl Account {
    fn new(plan: &Plan, events: EventSet) -> Self {
        Account {
            events,
            template: plan.template,
            classes: plan.classes.iter().map(|c| (c.class, *c)).collect(),
            gone: Vec::new(),
            chances: BTreeMap::new(),
            fields: BTreeMap::new(),
            bits: 0,
            codes: BTreeMap::new(),
            open: None,
            due: None,
            now: Time::ZERO,
            deadlines: 0,
            samples: Vec::new(),
            sampled_at: Time::ZERO,
            sampling: false,
        }
    }

    fn deliver(&mut self, now: Time, what: &CheckedEvent, lateness: Span) -> Result<(), String> {
        if now < self.now {
            return Err(format!("time ran back from {} to {now}", self.now));
        }
        self.now = now;
        match *what {
            CheckedEvent::Sample(kind, class) => {
                if !self.sampling || self.sampled_at != now {
                    self.samples.clear();
                }
                self.sampled_at = now;
                self.samples.push((kind, class));
            }
            CheckedEvent::Deadline => self.deadline(now, lateness)?,
            _ => self.samples.clear(),
        }
        self.sampling = matches!(what, CheckedEvent::Sample(..));
        Ok(())
    }

    fn deadline(&mut self, now: Time, lateness: Span) -> Result<(), String> {
        self.deadlines += 1;
        match self.due {
            None => return Err("a deadline that was not requested".into()),
            Some(due) if now < due => return Err(format!("the deadline of {due} came at {now}")),
            Some(due) if now.since(due) > lateness => {
                return Err(format!("the deadline of {due} came at {now}"));
            }
            Some(_) => {}
        }
        if self.sampled_at != now {
            self.samples.clear();
        }
        let place = |kind| SAMPLE_ORDER.iter().position(|k| *k == kind);
        if !self.samples.is_sorted_by_key(|s| place(s.0)) {
            return Err(format!("samples out of order: {:?}", self.samples));
        }
        if self.deadlines < SETTLING_DEADLINES {
            return Ok(());
        }
        for kind in SAMPLE_ORDER.into_iter().filter(|k| self.events.has(*k)) {
            let mut of = self.samples.iter().filter(|s| s.0 == kind).map(|s| s.1);
            if kind == EventKind::Counters {
                let missing = self.classes.keys().find(|c| !of.clone().any(|of| of == Some(**c)));
                if let Some(class) = missing {
                    return Err(format!("no counters of {class} before the deadline of {now}"));
                }
            } else if of.next().is_none() {
                return Err(format!("no {} before the deadline of {now}", kind.name()));
            }
        }
        Ok(())
    }

    fn did(&mut self, action: &Action) {
        match action {
            Action::Because(reason) => self.decide(Some(reason.code)),
            // Reasons for messages between mechanisms are not recorded.
            Action::Annotate { .. }
            | Action::Send { .. }
            | Action::Route { .. }
            | Action::HandOver { .. } => self.open = None,
            _ => self.decide(None),
        }
        match *action {
            Action::SetRate { class, rate } => {
                self.limit(class, rate.map_or(Limit::None, Limit::Rate));
            }
            Action::SetAirtime { class, share } => self.limit(class, Limit::Airtime(share)),
            Action::Remove { class } if self.classes.remove(&class).is_some() => {
                self.gone.push(class);
            }
            Action::Mark { class, probability, how } => {
                self.chances.entry(class).or_default().mark = (probability.0, how);
            }
            Action::Drop { class, probability } => {
                self.chances.entry(class).or_default().drop = probability.0;
            }
            Action::Annotate { class, slot, merge, value } => {
                self.fields.insert((class, slot), (merge, value));
            }
            Action::AckBits { bits } => self.bits = bits,
            _ => {}
        }
    }

    fn limit(&mut self, class: Class, limit: Limit) {
        let known = self.classes.get(&class).copied();
        if let Some(plan) = known.or(self.template.map(|t| ClassPlan { class, ..t })) {
            self.classes.insert(class, ClassPlan { limit, ..plan });
        }
    }

    /// Counts the pending reason and starts another.
    fn decide(&mut self, next: Option<&'static str>) {
        if let Some(code) = core::mem::replace(&mut self.open, next) {
            *self.codes.entry(code).or_default() += 1;
        }
    }

    /// Compares the record with the host's state.
    fn compare(&self, node: NodeId, host: &impl Subject) -> Result<(), String> {
        for plan in self.classes.values() {
            let class = plan.class;
            let Some(found) = host.class(node, class) else {
                return Err(format!("there is no class for {class}"));
            };
            if found.limit != plan.limit {
                return Err(format!("{class}: {:?} in force, {:?} set", found.limit, plan.limit));
            }
            if found.leaf != plan.leaf {
                return Err(format!("{class}: {:?} stands, {:?} planned", found.leaf, plan.leaf));
            }
            if found.burst < plan.burst {
                return Err(format!("{class}: a burst of {}, {} planned", found.burst, plan.burst));
            }
        }
        for &class in self.gone.iter().filter(|c| !self.classes.contains_key(c)) {
            // A host may continue to count packets of the class.
            if let Some(found) = host.class(node, class)
                && found.limit != Limit::None
            {
                return Err(format!("{class} was removed and has {:?}", found.limit));
            }
        }
        for (class, chance) in &self.chances {
            let found = host.chance(node, *class);
            if found != *chance {
                return Err(format!("{class}: {found:?} in force, {chance:?} set"));
            }
        }
        for ((class, slot), field) in &self.fields {
            let found = host.field(node, *class, *slot);
            if found != Some(*field) {
                return Err(format!("{class}, field {slot}: {found:?} written, {field:?} set"));
            }
        }
        let bits = host.ack_bits(node);
        if bits != self.bits {
            return Err(format!("acknowledgements carry {bits}, {} set", self.bits));
        }
        for (code, times) in &self.codes {
            let found = host.decided(node, code);
            if found != *times {
                return Err(format!("{code} was recorded {found} times, decided {times} times"));
            }
        }
        Ok(())
    }
}

/// A message in transit.
#[derive(Clone, Debug)]
struct Transit {
    from: NodeId,
    body: Vec<u8>,
    /// For a message outside the air: its receivers and the time of sending.
    outside: Option<(Reach, Time)>,
    received: bool,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    nodes: BTreeMap<NodeId, Account>,
    paces: BTreeMap<FlowId, (Option<Span>, bool)>,
    in_transit: Vec<Transit>,
    sent: u64,
    sent_outside: u64,
    /// True if the setting was refused at some node.
    pub refused: bool,
    /// Plans in the order of building.
    pub plans: Vec<Plan>,
    /// Observations of packets: header fields, marks at sources, bits of acknowledgements.
    headers: Vec<Header>,
    pub marked: bool,
    pub ack_bits: Vec<u8>,
}

impl Accounts {
    /// Handles notes of the spy.
    pub fn take(&mut self, notes: Vec<Note>, lateness: Span) -> Result<(), String> {
        for note in notes {
            match note {
                Note::Built { node, plan, events } => {
                    self.nodes.insert(node, Account::new(&plan, events));
                    self.plans.push(plan);
                }
                Note::Refused => self.refused = true,
                Note::ReceivedFrame { node, now, what } => {
                    self.overhear(node, now, &what);
                    let delivered = self.at(node).deliver(now, &what, lateness);
                    delivered.map_err(|e| format!("node {}: {e}", node.0))?;
                }
                Note::Did { node, action, body } => self.did(node, &action, body),
                Note::Due { node, due } => {
                    let account = self.at(node);
                    // A deadline is this one if its samples have begun to arrive.
                    if !account.sampling {
                        account.due = due;
                        account.decide(None);
                    }
                }
            }
        }
        Ok(())
    }

    fn at(&mut self, node: NodeId) -> &mut Account {
        self.nodes.get_mut(&node).expect("a node at which it was built")
    }

    fn overhear(&mut self, node: NodeId, now: Time, what: &CheckedEvent) {
        match what {
            CheckedEvent::Message(from, body) => {
                for message in
                    self.in_transit.iter_mut().filter(|s| s.from == *from && s.body == *body)
                {
                    message.received |= match message.outside {
                        None => true,
                        Some((Reach::Node(to), at)) => at == now && node == to,
                        Some((Reach::Within(_), at)) => at == now,
                        Some((Reach::Gateways, _)) => true,
                    };
                }
            }
            CheckedEvent::Received(header)
                if header != &Header::default() && self.headers.len() < 10_000 =>
            {
                self.headers.push(*header);
            }
            CheckedEvent::Feedback { marked } => self.marked |= marked,
            CheckedEvent::Sent { ack_bits: Some(bits) } if self.ack_bits.last() != Some(bits) => {
                self.ack_bits.push(*bits);
            }
            _ => {}
        }
    }

    fn did(&mut self, node: NodeId, action: &Action, body: Vec<u8>) {
        let now = self.at(node).now;
        match *action {
            Action::Send { .. } | Action::Route { .. } => self.sent += 1,
            Action::HandOver { .. } => self.sent_outside += 1,
            Action::Pace { flow, interval, window } => {
                self.paces.insert(flow, (interval, window));
            }
            _ => {}
        }
        let outside = match *action {
            // The suite's meshes have one gateway, so these messages have no receiver.
            Action::HandOver { reach: Reach::Gateways, .. } => None,
            // Routers with an agent are other machines where the host is one node.
            Action::Route { .. } if self.nodes.len() == 1 => None,
            Action::HandOver { reach, .. } => Some(Some((reach, now))),
            Action::Send { .. } | Action::Route { .. } => Some(None),
            _ => None,
        };
        if let Some(outside) = outside
            && self.in_transit.len() < 10_000
        {
            self.in_transit.push(Transit { from: node, body, outside, received: false });
        }
        self.at(node).did(action);
    }

    /// Compares the record with the host's state.
    pub fn compare(&self, host: &impl Subject, end: Time) -> Result<(), String> {
        for (node, account) in &self.nodes {
            account.compare(*node, host).map_err(|e| format!("node {}: {e}", node.0))?;
            if let Some(due) = account.due
                && due + host.lateness() < end
            {
                return Err(format!("node {}: the deadline of {due} never came", node.0));
            }
        }
        for (flow, pace) in &self.paces {
            let found = host.pace(*flow);
            if found != Some(*pace) {
                return Err(format!("flow {}: paced by {found:?}, {pace:?} set", flow.0));
            }
        }
        let messages = host.messages();
        if messages != (self.sent, self.sent_outside) {
            let wanted = (self.sent, self.sent_outside);
            return Err(format!("messages in the air and outside: {messages:?}, sent {wanted:?}"));
        }
        Ok(())
    }

    /// Returns the first message without a receiver.
    ///
    /// In the air delivery is uncertain; outside it is certain.
    pub fn undelivered(&self, in_the_air: bool) -> Option<String> {
        let undelivered = |s: &&Transit| !s.received && (in_the_air || s.outside.is_some());
        let message = self.in_transit.iter().find(undelivered)?;
        Some(format!("no node received {:?} of node {}", message.body, message.from.0))
    }

    /// True if a received packet has this value in the field.
    pub fn carried(&self, slot: u8, value: u32) -> bool {
        self.headers.iter().any(|h| h.0[usize::from(slot)] == value)
    }

    /// Returns the number of deadlines, over all nodes.
    pub fn deadlines(&self) -> u32 {
        self.nodes.values().map(|a| a.deadlines).sum()
    }

    /// Returns the nodes at which the mechanism was built.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.keys().copied()
    }
}
