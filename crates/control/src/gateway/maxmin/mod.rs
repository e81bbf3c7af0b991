//! `maxmin`: the gateway finds every flow's max-min share from its own traffic counters.
//!
//! It also raises single flows above the common level if that takes nothing from others.
//!
//! After PFRC (Jamshaid 2010 §8.1), which has one aggregate and judges by epochs. Here
//! - a flow is judged while it sends ([`service`]): missing service time is a debt, a pause is not, and a flow that
//!   goes idle while in debt keeps its place for as long as TCP's timeouts take;
//! - the search is for the level, the rate per weight, and not for the aggregate ([`level`]): it climbs until a flow
//!   is short ([`judge`]), is narrowed down, rests slightly below, and is tried again at growing intervals;
//! - flows that come or go move the level at once, as if the aggregate were fixed;
//! - a flow that stays short whatever the others give up gets its own limit, and the others return ([`search`]);
//! - while the level rests, branches and single flows are given more, and keep it if no flow loses by it ([`sets`]).
//!
//! docs/controls/maxmin.md derives it and states its limitations.

mod agents;
mod judge;
mod level;
mod needs;
mod search;
mod service;
mod sets;
mod subscriber;
mod trade;

use fairmesh_units::{BitRate, Bytes, FlowId, Span, Time};

use self::agents::Agents;
use self::search::Search;
use self::service::{PACKET, Rules};
use self::subscriber::Subscriber;
use crate::gateway::arc::bucket;
use crate::gateway::bounds::Bounds;
use crate::gateway::peers;
use crate::gateway::promise::Promise;
use crate::options;
use crate::sources::agent;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Event, EventKind,
    EventSet, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin, Placement,
    PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `maxmin`.
    pub(crate) struct Options {
        variants {
            peers: Origin::ours(""), "gateways that share air tell each other what theirs send, and are governed as one";
            agents: Origin::ours("Jamshaid 2010 §9.2"), "homes whose router runs our agent limit a flood at its source";
            counters: Origin::ours(""), "goes by counters alone, as where nobody reads TCP's headers";
        }
        parameters {
            look: Span = 1.0, 0.25..=10.0, "s", "time between looks at the counters";
            full: f64 = 0.93, 0.5..=1.0, "", "part of its limit that counts as full service";
            debt: f64 = 2.5, 0.5..=60.0, "s", "missing service from which somebody suffers, beside packets";
            packets: f64 = 5.0, 0.5..=60.0, "packets", "the same in packets at the limit";
            short: f64 = 0.95, 0.5..=1.0, "", "part of its limit below which somebody is short";
            rest: f64 = 0.97, 0.5..=1.0, "", "part of the edge at which the level rests";
            /// The published bounds on what a mesh carries (Jamshaid 2010 §7.5.2).
            reuse: f64 = 3.0, 1.0..=30.0, "", "guarantees may add up to the slowest link's capacity divided by this";
            begin: f64 = 6.0, 1.0..=30.0, "", "the search begins at the same divided by this";
            queue: u32 = 20.0, 1.0..=1000.0, "packets", "buffer of each flow, or 2.4 s at its first limit if that is less, but never below 8";
            keep: Span = 15.0, 2.0..=600.0, "s", "an agent forgets a limit that is not renewed for so long";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "the gateway finds each flow's max-min share by itself, and who can have more";
    Definition::new("maxmin", about, Origin::ours("Jamshaid 2010 §8.1")).with_options(needs, start)
}

/// Time that a full class takes to drain at its first limit, s.
const PATIENT: f64 = 2.4;
/// Minimum capacity of a class, packets.
const SHORTEST: u32 = 8;
/// Number of missed control periods after which counters are not used: a suspended machine, or a clock that was set.
const MISSED: f64 = 8.0;

fn needs(options: &Options) -> Vec<Needs> {
    let mut gateway = Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::FlowCounters, EventKind::Counters]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        header_bytes: 0,
    };
    if options.peers {
        gateway = peers::needs(gateway);
    }
    if !options.agents {
        return vec![gateway];
    }
    gateway.abilities = gateway.abilities.or(AbilitySet::of(&[Ability::Route]));
    let agent = Needs {
        at: PlacementSet::of(&[Placement::Agents]),
        events: EventSet::of(&[EventKind::Messages]),
        abilities: AbilitySet::of(&[Ability::LimitLocal]),
        ..Needs::default()
    };
    vec![gateway, agent]
}

fn start(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if options.peers && options.agents {
        // The gateway that governs cannot reach the sources of another gateway's homes.
        let text = "`maxmin+agents+peers`: a gateway reaches the agents of its own homes only";
        return Err(Refusal::new("maxmin.agents-of-peers", text, &[]));
    }
    if !options.peers {
        return build(options, setting);
    }
    let bounds = Bounds::of(&setting.neighbours, options.reuse, options.begin)?;
    let plain = *options;
    peers::start(peers::codes!("maxmin"), setting, options.look, bounds, move |setting| {
        build(&plain, setting)
    })
}

/// Returns the capacity of a class, full packets, for a first limit in bit/s.
///
/// With more packets a TCP takes half a minute to start; with fewer it loses every thirtieth packet at its limit.
fn longest(limit: f64) -> u32 {
    ((PATIENT * limit / PACKET) as u32).max(SHORTEST)
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if options.agents && setting.site.agent {
        return Ok(agent::build());
    }
    let bounds = Bounds::of(&setting.neighbours, options.reuse, options.begin)?;
    let rules = Rules { full: options.full, debt: options.debt, packets: options.packets };
    let mut control = MaxMin {
        look: options.look,
        bounds,
        rules,
        subscribers: Vec::new(),
        order: Vec::new(),
        cursor: 0,
        promised: 0,
        search: Search::new(bounds, options.rest, options.short),
        agents: Agents::new(options.agents, options.keep),
        blind: options.counters,
        waits: false,
        looked: None,
        due: Time::ZERO,
    };
    for here in &setting.flows {
        control.admit(here)?;
    }
    control.search.begin(&control.subscribers);
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: longest(control.search.level()).min(options.queue) },
    };
    let mut classes = Vec::with_capacity(setting.flows.len());
    for here in &setting.flows {
        let level = control.search.level();
        let subscriber = control.subscriber(here.flow);
        subscriber.allow(level);
        subscriber.class = true;
        classes.push(ClassPlan {
            class: Class::Flow(here.flow),
            limit: Limit::Rate(bucket(subscriber.limit)),
            burst: Bytes(u64::from(here.packet.max(1))),
            ..template
        });
    }
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Transit, classes, template: Some(template) },
    })
}

#[derive(Debug)]
struct MaxMin {
    look: Span,
    bounds: Bounds,
    rules: Rules,
    /// Subscribers in order of appearance; efforts under way refer to places in it.
    subscribers: Vec<Subscriber>,
    /// Places of subscribers by flow.
    order: Vec<(FlowId, usize)>,
    /// Probable place of the next sample in `order`: hosts sample in order.
    cursor: usize,
    /// Sum of all guarantees, bit/s.
    promised: u64,
    search: Search,
    agents: Agents,
    /// True if TCP headers are not used.
    blind: bool,
    /// True if the search waits for a trial of a flow or for a flood to be limited at its source.
    waits: bool,
    looked: Option<Time>,
    due: Time,
}

impl MaxMin {
    fn place(&self, flow: FlowId) -> Result<usize, usize> {
        self.order.binary_search_by_key(&flow, |o| o.0)
    }

    /// Returns a flow's state, and creates it if the flow is unknown.
    fn subscriber(&mut self, flow: FlowId) -> &mut Subscriber {
        let here = self.order.get(self.cursor).is_some_and(|o| o.0 == flow);
        let at = match if here { Ok(self.cursor) } else { self.place(flow) } {
            Ok(at) => at,
            Err(at) => {
                self.order.insert(at, (flow, self.subscribers.len()));
                self.subscribers.push(Subscriber::new(flow));
                at
            }
        };
        self.cursor = at + 1;
        &mut self.subscribers[self.order[at].1]
    }

    /// Takes over a flow's weight and plan, or leaves them unchanged on a refusal.
    fn admit(&mut self, here: &FlowHere) -> Result<(), Refusal> {
        let others = self.promised - self.subscriber(here.flow).guarantee as u64;
        let promise = Promise::of(here, others, &self.bounds, "maxmin.ceiling")?;
        self.promised = promise.sum;
        let subscriber = self.subscriber(here.flow);
        subscriber.weight = promise.weight;
        subscriber.guarantee = promise.guarantee;
        subscriber.ceiling = promise.ceiling;
        subscriber.hops = here.hops;
        subscriber.branch = here.branch;
        subscriber.home = here.home();
        subscriber.upstream = here.upstream;
        Ok(())
    }

    /// Handles the announcement of a flow; without a class it gets one at a newcomer's rate.
    fn seen(&mut self, here: &FlowHere, actions: &mut Actions) {
        if let Err(refusal) = self.admit(here) {
            actions.because(refusal.reason("maxmin.refused"));
        }
        let level = self.search.level();
        let subscriber = self.subscriber(here.flow);
        if !core::mem::replace(&mut subscriber.class, true) {
            subscriber.allow(level);
            let limit = bucket(subscriber.limit);
            actions.because(newcomer(here.flow, limit));
            actions.set_rate(Class::Flow(here.flow), limit);
        }
    }

    /// Handles a flow that the host reports as gone. Its counter is kept because it may return.
    fn gone(&mut self, flow: FlowId, actions: &mut Actions) {
        let Ok(at) = self.place(flow) else { return };
        let subscriber = &mut self.subscribers[self.order[at].1];
        subscriber.leave();
        if core::mem::replace(&mut subscriber.class, false) {
            actions.because(Reason::new("maxmin.gone", "flow {} is gone", &[Value::Flow(flow)]));
            actions.remove(Class::Flow(flow));
        }
    }

    fn look(&mut self, now: Time, actions: &mut Actions) {
        let elapsed = self.looked.map_or(0.0, |last| now.since(last).as_secs_f64());
        self.looked = Some(now);
        self.cursor = 0;
        let credible = elapsed <= MISSED * self.look.as_secs_f64();
        let level = self.search.highest(self.bounds.upper);
        let slack = self.search.slack();
        let rules = Rules { full: self.rules.full - slack, ..self.rules.clone() };
        for subscriber in &mut self.subscribers {
            subscriber.look(
                if credible { elapsed } else { 0.0 },
                (2.0 * self.bounds.upper, level),
                self.agents.present(),
                &rules,
            );
        }
        if elapsed <= 0.0 || !credible {
            return;
        }
        let waited = self.waits;
        self.waits = self.agents.look(elapsed, &mut self.subscribers, actions);
        if waited && !self.waits {
            self.search.resume(&mut self.subscribers);
        }
        let before = actions.iter().count();
        if !self.waits {
            self.search.step(elapsed, &mut self.subscribers, actions);
        }
        let mut said = actions.iter().count() > before;
        let level = self.search.level();
        for subscriber in self.subscribers.iter_mut().filter(|s| s.class || s.sends()) {
            let flow = subscriber.flow;
            let changed = subscriber.allow(level);
            let limit = bucket(subscriber.limit);
            if let Some(reason) = agents::reason(subscriber, limit)
                && (changed || subscriber.news.is_some())
            {
                actions.because(reason);
                actions.set_rate(Class::Flow(flow), limit);
                (subscriber.class, said) = (true, false);
                continue;
            }
            if !core::mem::replace(&mut subscriber.class, true) {
                actions.because(newcomer(flow, limit));
                said = false;
            } else if !changed {
                continue;
            } else if !said {
                let text = "{} each, by weight and plan";
                actions.because(Reason::new("maxmin.level", text, &[Value::Rate(bucket(level))]));
                said = true;
            }
            actions.set_rate(Class::Flow(flow), limit);
        }
        self.agents.tell(elapsed, &self.subscribers, actions);
    }
}

fn newcomer(flow: FlowId, limit: BitRate) -> Reason {
    let values = [Value::Flow(flow), Value::Rate(limit)];
    Reason::new("maxmin.newcomer", "flow {} may start at {}", &values)
}

impl Control for MaxMin {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::FlowCounters(c) => self.subscriber(c.flow).sample(c.bytes, c.packets),
            Event::PathSigns(s) if !self.blind => {
                if let Ok(at) = self.place(s.flow) {
                    self.subscribers[self.order[at].1].read(s);
                }
            }
            Event::Counters(c) => {
                if let Class::Flow(flow) = c.class
                    && let Ok(at) = self.place(flow)
                {
                    self.subscribers[self.order[at].1].counted(c);
                }
            }
            Event::FlowSeen(here) => self.seen(here, actions),
            Event::FlowGone(flow) => self.gone(*flow, actions),
            Event::Deadline if now >= self.due => {
                self.look(now, actions);
                self.due = now + self.look;
            }
            _ => {}
        }
        self.due = self.due.max(now);
    }

    fn wants(&self) -> EventSet {
        if self.blind { EventSet::NONE } else { EventSet::of(&[EventKind::PathSigns]) }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn learned(&self) -> Option<BitRate> {
        Some(bucket(self.search.learned().round()))
    }

    fn floods(&self, flow: FlowId) -> bool {
        self.place(flow).is_ok_and(|at| self.subscribers[self.order[at].1].watch.is_flood())
    }

    fn recall(&mut self, learned: BitRate, actions: &mut Actions) {
        self.search.recall(learned.0 as f64, &self.subscribers);
        let level = self.search.level();
        let values = [Value::Rate(bucket(level))];
        let text = "begins with {} each, which an earlier run had found";
        actions.because(Reason::new("maxmin.recalled", text, &values));
        for subscriber in self.subscribers.iter_mut().filter(|s| s.class) {
            if subscriber.allow(level) {
                actions.set_rate(Class::Flow(subscriber.flow), bucket(subscriber.limit));
            }
        }
    }
}

#[cfg(test)]
mod agents_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod tests;
