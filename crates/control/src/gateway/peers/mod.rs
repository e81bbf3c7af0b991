//! `+peers`: joint control of gateways with subscribers that share airtime.
//!
//! A flow that starves behind one gateway may be starved by traffic behind another, and no gateway's own counters show
//! this. Gateways that share airtime share one bottleneck, so there is one search for it: of the gateways that receive
//! each other's messages over the wire, the one with the smallest number leads ([`roster`]). The others report the
//! traffic of each of their flows, once per control period; the leader runs the mechanism over all flows, its own and
//! theirs, and sends the limits of theirs ([`message`]). The mechanism itself is unaware of this: a flow behind another
//! gateway is a flow like any other.
//!
//! - A follower reports just before the leader's deadline, so that the traffic in the report was sent under the leader's
//!   last limits. Traffic under older limits gives no information, nor does a control period without a report.
//! - Reports and limits are states, not changes: the next one replaces a lost one.
//! - A leader without messages for eight control periods counts as failed: every other gateway starts again from the
//!   rates of its own flows. A follower without messages leaves, and the other flows share its part.
//! - No message lowers a flow below [`PROTECTED_FRACTION`] of the rate that it would have if its gateway started alone.
//!
//! docs/controls/peers.md derives the protocol.

mod codes;
mod follow;
mod lead;
mod message;
mod roster;

use std::collections::BTreeMap;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

pub(crate) use self::codes::{Codes, codes};
use self::follow::Follower;
use self::lead::Leader;
use self::message::{Content, Heading, PeerMessage};
use self::roster::Roster;
use crate::gateway::bounds::Bounds;
use crate::{
    Ability, AbilitySet, Action, Actions, Class, Control, Event, EventKind, EventSet, FlowHere,
    Instance, Needs, PathSigns, Place, Progress, Reach, Reason, Refusal, Setting, Value,
};

/// Fraction of a flow's rate under a lone gateway that no peer's message takes away.
const PROTECTED_FRACTION: f64 = 0.1;
/// Time for which an idle flow is reported.
///
/// It is longer than any mechanism keeps a flow in the active set.
const IDLE_REPORT_TIME: Span = Span::from_secs(120);

/// Builds the mechanism again for the present setting.
struct Builder(Box<dyn Fn(Setting) -> Result<Instance, Refusal> + Send>);

impl core::fmt::Debug for Builder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Builder")
    }
}

/// A flow of this gateway.
#[derive(Clone, Debug)]
struct Own {
    here: FlowHere,
    bytes: u64,
    packets: u64,
    drops: Option<u64>,
    /// Packets in its class, and signs of its path, at the last sample.
    queued: u32,
    signs: Option<PathSigns>,
    /// Time of its last traffic.
    moved: Option<Time>,
    limit: Option<BitRate>,
}

impl Own {
    fn new(here: FlowHere) -> Self {
        let (drops, moved, limit) = (None, None, None);
        Own { here, bytes: 0, packets: 0, drops, queued: 0, signs: None, moved, limit }
    }

    fn active(&self, now: Time) -> bool {
        self.moved.is_some_and(|at| now.since(at) < IDLE_REPORT_TIME)
    }
}

#[derive(Debug)]
enum Role {
    Lead(Leader),
    Follow(Follower),
}

/// A mechanism of one of several gateways that act as one.
#[derive(Debug)]
struct Peers {
    codes: &'static Codes,
    setting: Setting,
    build: Builder,
    look: Span,
    /// Rate of all flows of a gateway that starts alone, in bit/s.
    lowest: f64,
    own: BTreeMap<FlowId, Own>,
    roster: Roster,
    role: Role,
    sequence: u64,
    /// Optional events of the mechanism.
    wants: EventSet,
    now: Time,
}

/// Returns the needs of a mechanism with peers.
pub(crate) fn needs(plain: Needs) -> Needs {
    Needs {
        events: plain.events.or(EventSet::of(&[EventKind::Messages])),
        abilities: plain.abilities.or(AbilitySet::of(&[Ability::Peers])),
        ..plain
    }
}

/// Starts a mechanism that `build` makes, at a gateway with peers.
///
/// `bounds` limit the reduction by peers; `look` is its control period.
pub(crate) fn start(
    codes: &'static Codes,
    setting: Setting,
    look: Span,
    bounds: Bounds,
    build: impl Fn(Setting) -> Result<Instance, Refusal> + Send + 'static,
) -> Result<Instance, Refusal> {
    let Instance { control, plan } = build(setting.clone())?;
    let mut own = BTreeMap::new();
    for here in &setting.flows {
        own.insert(here.flow, Own::new(*here));
    }
    for class in &plan.classes {
        if let (Class::Flow(flow), crate::Limit::Rate(rate)) = (class.class, class.limit)
            && let Some(own) = own.get_mut(&flow)
        {
            own.limit = Some(rate);
        }
    }
    let peers = Peers {
        codes,
        wants: control.wants(),
        roster: Roster::new(setting.node, look),
        role: Role::Lead(Leader::new(Some(control))),
        build: Builder(Box::new(build)),
        lowest: bounds.lowest,
        sequence: 0,
        now: Time::ZERO,
        setting,
        look,
        own,
    };
    Ok(Instance { control: Box::new(peers), plan })
}

impl Peers {
    fn own(&mut self, flow: FlowId) -> &mut Own {
        let unknown = || Own::new(FlowHere::new(flow, Place::Forwarder, 1448, 1500));
        self.own.entry(flow).or_insert_with(unknown)
    }

    /// Returns the rate of a flow that no peer takes away, in bit/s.
    ///
    /// It is its weight's part of this gateway's minimum.
    fn floor(&self, flow: FlowId) -> BitRate {
        let weight = |own: &Own| own.here.weight;
        let all: f64 = self.own.values().map(weight).sum();
        let part = self.own.get(&flow).map_or(0.0, weight) / all.max(f64::MIN_POSITIVE);
        BitRate(((PROTECTED_FRACTION * self.lowest * part) as u64).max(1))
    }

    /// Returns the sum of the limits of the active flows, from which the next governor starts.
    fn had(&self) -> BitRate {
        let active = self.own.values().filter(|o| o.active(self.now));
        BitRate(active.filter_map(|o| o.limit).fold(0, |sum, r| sum.saturating_add(r.0)))
    }

    /// Sets a flow's limit, decided here or received.
    fn limit(&mut self, flow: FlowId, rate: BitRate, actions: &mut Actions) {
        let rate = match self.roster.alive() {
            0 => rate,
            _ => rate.max(self.floor(flow)),
        };
        self.own(flow).limit = Some(rate);
        actions.set_rate(Class::Flow(flow), rate);
    }

    /// Passes on the mechanism's decisions, and keeps those on other gateways' flows.
    fn pass_on(&mut self, decided: &Actions, actions: &mut Actions) {
        let Role::Lead(leader) = &mut self.role else { return };
        let mut own = Vec::new();
        for action in decided.iter() {
            match *action {
                Action::Because(reason) => own.push(Action::Because(leader.in_words(reason))),
                Action::SetRate { class: Class::Flow(flow), rate } if lead::is_elsewhere(flow) => {
                    leader.decide(flow, rate);
                }
                Action::Remove { class: Class::Flow(flow) } if lead::is_elsewhere(flow) => {
                    leader.decide(flow, None);
                }
                other => own.push(other),
            }
        }
        for action in own {
            match action {
                Action::SetRate { class: Class::Flow(flow), rate: Some(rate) } => {
                    self.limit(flow, rate, actions);
                }
                other => actions.push(other),
            }
        }
    }

    /// Passes an event to the mechanism, if it runs here.
    fn give(&mut self, event: &Event<'_>, actions: &mut Actions) {
        let Role::Lead(leader) = &mut self.role else { return };
        let decided = leader.deliver(self.now, event);
        self.pass_on(&decided, actions);
    }

    fn send(&mut self, content: &Content, sampled: Time, version: u64, actions: &mut Actions) {
        let leader = match &self.role {
            Role::Lead(_) => self.setting.node,
            Role::Follow(follower) => follower.leader,
        };
        let heading = Heading {
            from: self.setting.node,
            leader,
            run: self.setting.run,
            sequence: self.sequence,
            sampled: sampled.as_nanos() / 1_000_000,
            version,
        };
        let text = "shares its measurements with the other gateways";
        actions.because(Reason::new(self.codes.shares, text, &[]));
        self.sequence =
            PeerMessage::pack(heading, content, |body| actions.hand_over(Reach::Gateways, body));
    }

    fn receive(&mut self, from: NodeId, body: &[u8], actions: &mut Actions) {
        let Some(PeerMessage { heading, content }) = PeerMessage::decode(body) else { return };
        if heading.from != from || !self.roster.accept(self.now, &heading) {
            return;
        }
        self.settle(actions);
        let now = self.now;
        match (&mut self.role, content) {
            (Role::Lead(leader), Content::Report(reports))
                if heading.leader == self.setting.node =>
            {
                let new = leader.report(now, &heading, &reports);
                if new.joined {
                    let values = [Value::Node(from)];
                    actions.because(Reason::new(
                        self.codes.joined,
                        "governs gateway {} too",
                        &values,
                    ));
                }
                for here in new.flows {
                    self.give(&Event::FlowSeen(here), actions);
                }
            }
            (Role::Follow(follower), Content::Limits(limits)) if from == follower.leader => {
                follower.period_started(now, heading.version, self.look);
                let own: Vec<(FlowId, BitRate)> = limits
                    .iter()
                    .filter(|l| l.gateway == self.setting.node)
                    .map(|l| (l.flow, l.rate))
                    .collect();
                self.apply_limits(from, &own, actions);
            }
            _ => {}
        }
    }

    /// Applies the leader's limits.
    fn apply_limits(
        &mut self,
        leader: NodeId,
        limits: &[(FlowId, BitRate)],
        actions: &mut Actions,
    ) {
        let mut explained = false;
        for &(flow, rate) in limits {
            let Some(own) = self.own.get(&flow) else { continue };
            let wanted = rate.max(self.floor(flow));
            if own.limit == Some(wanted) {
                continue;
            }
            if !core::mem::replace(&mut explained, true) {
                let values = [Value::Node(leader), Value::Flow(flow), Value::Rate(wanted)];
                let text = "gateway {} governs: flow {} {}";
                actions.because(Reason::new(self.codes.limit, text, &values));
            }
            self.limit(flow, rate, actions);
        }
    }

    /// Handles a restart of a gateway: flow numbers may have changed, and it has no limits yet.
    fn restarted(&mut self, gateway: NodeId, actions: &mut Actions) {
        self.roster.restarted(gateway);
        match &mut self.role {
            Role::Lead(leader) => {
                for flow in leader.forget(gateway) {
                    self.give(&Event::FlowGone(flow), actions);
                }
            }
            Role::Follow(follower) if follower.leader == gateway => follower.version = 0,
            Role::Follow(_) => {}
        }
    }

    /// Updates the role: leader or follower.
    fn settle(&mut self, actions: &mut Actions) {
        for gone in self.roster.age(self.now) {
            let values = [Value::Node(gone)];
            let text = "gateway {} has not answered and is left out";
            actions.because(Reason::new(self.codes.silent, text, &values));
            let Role::Lead(leader) = &mut self.role else { continue };
            for flow in leader.forget(gone) {
                self.give(&Event::FlowGone(flow), actions);
            }
        }
        let leader = self.roster.leader();
        let own = self.setting.node;
        match &self.role {
            Role::Lead(_) if leader != own => {
                self.role = Role::Follow(Follower::new(leader, self.now));
                let values = [Value::Node(leader)];
                actions.because(Reason::new(self.codes.follows, "gateway {} governs now", &values));
            }
            Role::Follow(follower) if leader == own => {
                let values = [Value::Node(follower.leader)];
                let text = "gateway {} governs no more: begins with what its own had";
                actions.because(Reason::new(self.codes.leads, text, &values));
                self.rebuild_control(actions);
            }
            Role::Follow(follower) if follower.leader != leader => {
                self.role = Role::Follow(Follower::new(leader, self.now));
                let values = [Value::Node(leader)];
                actions.because(Reason::new(self.codes.follows, "gateway {} governs now", &values));
            }
            _ => {}
        }
    }

    fn rebuild_control(&mut self, actions: &mut Actions) {
        let flows: Vec<FlowHere> = self.own.values().map(|o| o.here).collect();
        let had = self.had();
        let built = (self.build.0)(self.setting.clone().with_flows(flows));
        let mut control = built.map(|i| i.control);
        let mut decided = Actions::new();
        if let Ok(control) = &mut control
            && had.0 > 0
        {
            control.recall(had, &mut decided);
        }
        if let Err(refusal) = &control {
            // Every flow keeps its limit.
            actions.because(refusal.reason(self.codes.refused));
        }
        self.role = Role::Lead(Leader::new(control.ok()));
        self.pass_on(&decided, actions);
    }

    fn deadline(&mut self, actions: &mut Actions) {
        let now = self.now;
        self.settle(actions);
        match &mut self.role {
            // Not due: neither its own deadline nor the message to the others.
            Role::Lead(leader) if leader.due() > now => {}
            Role::Lead(leader) => {
                let alone = self.roster.alive() == 0;
                let decided = if leader.is_due(now) { Some(leader.look(now)) } else { None };
                let mut own = Actions::new();
                if let Some(decided) = decided {
                    self.pass_on(&decided, &mut own);
                }
                let Role::Lead(leader) = &mut self.role else { return };
                let limits = leader.limits();
                let version = leader.version();
                leader.beaten(now, self.look);
                // A reason before a message would be taken as the message's.
                let content = Content::Limits(if alone { Vec::new() } else { limits });
                self.send(&content, now, version, actions);
                own.iter().for_each(|action| actions.push(*action));
            }
            Role::Follow(follower) if follower.due <= now => {
                follower.due = now + self.look;
                let version = follower.version;
                let reports = self.own.values().filter(|o| o.active(now)).map(follow::report);
                let content = Content::Report(reports.collect());
                self.send(&content, now, version, actions);
            }
            Role::Follow(_) => {}
        }
    }
}

impl Control for Peers {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        self.now = self.now.max(now);
        match event {
            Event::FlowCounters(c) => {
                let own = self.own(c.flow);
                if c.bytes != own.bytes {
                    own.moved = Some(now);
                }
                (own.bytes, own.packets) = (c.bytes, c.packets);
            }
            Event::Counters(c) => {
                if let Class::Flow(flow) = c.class {
                    let own = self.own(flow);
                    (own.drops, own.queued) = (Some(c.drops), c.queued_packets);
                }
            }
            Event::PathSigns(s) => self.own(s.flow).signs = Some(*s),
            // The air of one gateway is not that of the others' homes.
            Event::Channel(_) => return,
            Event::FlowSeen(here) => self.own(here.flow).here = *here,
            Event::FlowGone(flow) => {
                self.own.remove(flow);
                if matches!(self.role, Role::Follow(_)) {
                    actions.remove(Class::Flow(*flow));
                }
            }
            Event::Message(m) => return self.receive(m.from, m.body, actions),
            Event::Restarted(gateway) => return self.restarted(*gateway, actions),
            Event::Deadline => return self.deadline(actions),
            _ => {}
        }
        self.give(event, actions);
    }

    fn next_deadline(&self) -> Option<Time> {
        let due = match &self.role {
            Role::Lead(leader) => leader.due(),
            Role::Follow(follower) => follower.due,
        };
        Some(due.max(self.now))
    }

    fn wants(&self) -> EventSet {
        self.wants
    }

    fn progress(&self) -> Option<Progress> {
        match &self.role {
            Role::Lead(leader) => leader.progress(),
            Role::Follow(_) => None,
        }
    }

    fn learned(&self) -> Option<BitRate> {
        match &self.role {
            Role::Lead(leader) if self.roster.alive() == 0 => leader.learned(),
            _ => Some(self.had()).filter(|had| had.0 > 0),
        }
    }

    fn floods(&self, flow: FlowId) -> bool {
        matches!(&self.role, Role::Lead(leader) if leader.floods(flow))
    }

    fn guaranteed(&self, flow: FlowId) -> Option<BitRate> {
        match &self.role {
            Role::Lead(leader) => leader.guaranteed(flow),
            Role::Follow(_) => None,
        }
    }

    fn follows(&self) -> Option<NodeId> {
        match &self.role {
            Role::Lead(_) => None,
            Role::Follow(follower) => Some(follower.leader),
        }
    }

    fn recall(&mut self, learned: BitRate, actions: &mut Actions) {
        let Role::Lead(leader) = &mut self.role else { return };
        let decided = leader.recall(learned);
        self.pass_on(&decided, actions);
    }
}

#[cfg(test)]
mod tests;
