//! `rtt`: one rate per weight for all homes, as high as the mesh's round trip allows.
//!
//! Homes with room on their paths get more.
//!
//! A queue that builds in the mesh shows in the round trip after a few seconds, while every home still gets
//! its limit; missing bytes show much later. The method is that of delay-based congestion control (TCP Vegas,
//! CAKE's autorate), applied to the one rate that all homes share. Each home has a fullness: its delay beyond
//! its minimum round trip, over the delay of a mesh without overload ([`home`]). It is 1 at the edge of the
//! mesh's capacity. The level follows the fullest home ([`level`]); homes with paths that stay empty
//! meanwhile have another bottleneck and get more ([`raise`]). Ours; docs/controls/rtt.md derives it and
//! lists where it fails.

mod agents;
mod home;
mod level;
mod objective;
mod raise;
mod tuning;

use fairmesh_units::{BitRate, Bytes, FlowId, Span, Time};

use self::agents::Agents;
use self::home::{Edge, Home};
use self::level::{Level, PeriodState, Step};
use self::objective::Objective;
use self::raise::{Outcome, Raise};
use self::tuning::Tuning;
use crate::gateway::arc::bucket;
use crate::gateway::bounds::Bounds;
use crate::gateway::peers;
use crate::gateway::promise::Promise;
use crate::options;
use crate::sources::agent;
use crate::{
    Ability, AbilitySet, Actions, Channel, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, Fairness, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs,
    Origin, Placement, PlacementSet, Plan, Point, Progress, Reason, Refusal, Setting, Value,
};

/// Bits of a full packet.
const PACKET_BITS: f64 = 12_000.0;

options! {
    /// Options of `rtt`.
    pub(crate) struct Options {
        variants {
            peers: Origin::ours(""), "gateways that share air exchange what theirs send, and are governed as one";
            agents: Origin::ours("Jamshaid 2010 §9.2"), "routers that run our agent limit a flood at its source";
            topology: Origin::ours("Jamshaid 2010 §7.2"), "homes have multiples of the level as the collision-domain model allots them";
            proportional: Origin::ours("Kelly 1998"), "homes that share a bottleneck have equal airtime in place of equal rates: alpha_fairness = 1";
        }
        parameters {
            look: Span = 1.0, 0.25..=10.0, "s", "time between looks";
            delay: Span = 0.3, 0.05..=5.0, "s", "longest delay that a home's packets may have in the mesh beyond its least round trip";
            queue: u32 = 12.0, 1.0..=1000.0, "packets", "buffer of each flow";
            keep: Span = 15.0, 2.0..=600.0, "s", "an agent drops a limit that is not renewed for so long";
            alpha_fairness: f64 = 100.0, 0.5..=100.0, "", "rates go with the number of hops to the power -1/alpha: 1 is proportional fairness, 100 max-min fairness";
            guarantee: f64 = 0.0, 0.0..=1_000_000.0, "kbit/s", "limit below which no home goes, if the mesh carries that for all";
            airtime: f64 = 0.0, 0.0..=1.0, "", "part of the rate with equal airtime below which no home goes";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "the gateway holds all homes at one rate, as high as the round trip through the mesh allows";
    Definition::new("rtt", about, Origin::ours("TCP Vegas, CAKE autorate"))
        .with_options(needs, |options, setting| start(options, &tuning::SHIPPED, setting))
}

/// Returns names and values of the constants of `rtt`.
pub fn rtt_constants() -> Vec<(&'static str, f64)> {
    Tuning::list()
}

/// Returns `rtt` under another name, with other values for some constants.
///
/// It is for studies. `None` if there is no constant of such a name.
pub fn rtt_with(name: String, values: &[(&str, f64)]) -> Option<Definition> {
    // Definitions live as long as the program, and a study has a few hundred.
    let tuning: &'static Tuning = Box::leak(Box::new(Tuning::with(values)?));
    let about = format!("rtt with other constants: {values:?}");
    let build = move |options: &Options, setting| start(options, tuning, setting);
    let revision = format!("{} {values:?}", env!("CARGO_PKG_VERSION"));
    let moved = Definition::new(name, about, Origin::ours("")).with_revision(revision);
    Some(moved.with_options(needs, build))
}

fn needs(options: &Options) -> Vec<Needs> {
    let knowledge = match options.topology {
        false => KnowledgeSet::of(&[Knowledge::LinkRates]),
        true => KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::FairRates]),
    };
    let mut gateway = Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::FlowCounters, EventKind::Counters]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        knowledge,
        header_bytes: 0,
        delivery: Delivery::default(),
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

fn start(
    options: &Options,
    tuning: &'static Tuning,
    setting: Setting,
) -> Result<Instance, Refusal> {
    if !options.peers {
        return build(options, tuning, setting);
    }
    if options.agents {
        let text = "`rtt+agents+peers`: a gateway reaches the agents of its own homes only";
        return Err(Refusal::new("rtt.agents-of-peers", text, &[]));
    }
    if options.topology {
        let text = "`rtt+topology+peers`: gateways do not exchange fair rates";
        return Err(Refusal::new("rtt.topology-of-peers", text, &[]));
    }
    let plain = *options;
    let bounds = Bounds::of(&setting.neighbours, 1.0, 2.0 * tuning.initial_divisor)?;
    peers::start(peers::codes!("rtt"), setting, options.look, bounds, move |setting| {
        build(&plain, tuning, setting)
    })
}

/// Returns the objective, or refuses two at once.
fn objective(options: &Options) -> Result<Objective, Refusal> {
    let alpha = match options.proportional {
        true if options.alpha_fairness < Fairness::MAX_MIN => {
            let text =
                "`rtt+proportional` has an objective; leave `fairness` out, or `+proportional`";
            return Err(Refusal::new("rtt.two-objectives", text, &[]));
        }
        true => 1.0,
        false => options.alpha_fairness,
    };
    let (guarantee, airtime) = (1e3 * options.guarantee, options.airtime);
    let objective = Objective { alpha, guarantee, airtime };
    if options.topology && !objective.is_max_min() {
        let text = "`rtt+topology` begins with max-min fair rates; leave `fairness` and `+proportional` out";
        return Err(Refusal::new("rtt.topology-objective", text, &[]));
    }
    Ok(objective)
}

fn build(
    options: &Options,
    tuning: &'static Tuning,
    setting: Setting,
) -> Result<Instance, Refusal> {
    if options.agents && setting.site.agent {
        return Ok(agent::build());
    }
    let bounds = Bounds::of(&setting.neighbours, 1.0, tuning.initial_divisor.powi(2))?;
    let packet = PACKET_BITS / bounds.lower;
    let edge = Edge { packet, longest: options.delay.as_secs_f64(), tuning };
    let mut control = Rtt {
        look: options.look,
        bounds,
        edge,
        topology: options.topology,
        objective: objective(options)?,
        homes: Vec::new(),
        promised: 0,
        level: Level::new(bounds, tuning),
        raise: Raise::new(tuning),
        agents: Agents::new(options.agents, options.keep, tuning),
        blind: false,
        air: Air::default(),
        looked: None,
        due: Time::ZERO,
        progress: None,
    };
    for here in &setting.flows {
        control.admit(here)?;
        let home = control.home(here.flow);
        // Until its use is known.
        (home.class, home.active) = (true, 1.0);
    }
    control.divide();
    let level = control.level.rate(&control.homes);
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: options.queue },
    };
    let most = bounds.upper;
    let class = |here: &FlowHere| {
        let home = control.home(here.flow);
        home.allow(level, most);
        ClassPlan {
            class: Class::Flow(here.flow),
            limit: Limit::Rate(bucket(home.limit)),
            burst: Bytes(u64::from(here.packet.max(1))),
            ..template
        }
    };
    let classes = setting.flows.iter().map(class).collect();
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Transit, classes, template: Some(template) },
    })
}

/// The gateway's air between two samples, by a survey of its radio.
#[derive(Clone, Copy, Default, Debug)]
struct Air {
    last: Option<Channel>,
    /// Part of the time in which the channel was idle; `None` where the host has no survey.
    idle: Option<f64>,
}

impl Air {
    fn sample(&mut self, channel: &Channel) {
        if let Some(last) = self.last.replace(*channel) {
            let active = channel.active.saturating_sub(last.active).as_secs_f64();
            let busy = channel.busy.saturating_sub(last.busy).as_secs_f64();
            self.idle = (active > 0.0).then(|| (1.0 - busy / active).clamp(0.0, 1.0));
        }
    }
}

#[derive(Debug)]
struct Rtt {
    look: Span,
    bounds: Bounds,
    edge: Edge,
    /// True if homes have multiples of the level by their analytic fair rates.
    topology: bool,
    objective: Objective,
    /// By flow.
    homes: Vec<Home>,
    /// Sum of all guarantees, in bit/s.
    promised: u64,
    level: Level,
    raise: Raise,
    agents: Agents,
    /// No round trip is known, and the journal has it.
    blind: bool,
    air: Air,
    looked: Option<Time>,
    due: Time,
    progress: Option<Progress>,
}

impl Rtt {
    fn find(&mut self, flow: FlowId) -> Option<&mut Home> {
        let at = self.homes.binary_search_by_key(&flow, |h| h.flow).ok()?;
        Some(&mut self.homes[at])
    }

    /// The home of a flow; made if it is unknown.
    fn home(&mut self, flow: FlowId) -> &mut Home {
        let at = match self.homes.binary_search_by_key(&flow, |h| h.flow) {
            Ok(at) => at,
            Err(at) => {
                self.homes.insert(at, Home::new(flow, self.edge.tuning));
                at
            }
        };
        &mut self.homes[at]
    }

    /// Takes a flow's weight and plan over, or leaves them as they are.
    fn admit(&mut self, here: &FlowHere) -> Result<(), Refusal> {
        let others = self.promised - self.home(here.flow).guarantee as u64;
        let lower = Bounds { lower: self.bounds.lower / 3.0, ..self.bounds };
        let promise = Promise::of(here, others, &lower, "rtt.ceiling")?;
        self.promised = promise.sum;
        let home = self.home(here.flow);
        (home.weight, home.guarantee) = (promise.weight, promise.guarantee);
        (home.ceiling, home.hops) = (promise.ceiling, here.hops);
        (home.node, home.upstream) = (here.home(), here.upstream);
        home.fair = here.fair.map(|fair| fair.0 as f64 / promise.weight);
        Ok(())
    }

    /// Sets the shares of all homes by the objective and the topology.
    fn divide(&mut self) {
        self.objective.apply(self.level.capacity(), &mut self.homes);
        let fair = |h: &Home| h.fair.filter(|f| *f > 0.0);
        let least = self.homes.iter().filter_map(fair).reduce(f64::min);
        for home in self.homes.iter_mut().filter(|_| self.topology) {
            home.allotted = fair(home).zip(least).map_or(1.0, |(own, least)| own / least);
        }
    }

    /// A flow is announced: it gets a class, if it has none, at the level.
    fn seen(&mut self, here: &FlowHere, actions: &mut Actions) {
        if let Err(refusal) = self.admit(here) {
            actions.because(refusal.reason("rtt.refused"));
        }
        self.divide();
        let (level, most) = (self.level.rate(&self.homes), self.bounds.upper);
        let home = self.home(here.flow);
        if !core::mem::replace(&mut home.class, true) {
            home.allow(level, most);
            let limit = bucket(home.limit);
            let values = [Value::Flow(here.flow), Value::Rate(limit)];
            actions.because(Reason::new("rtt.newcomer", "flow {} may start at {}", &values));
            actions.set_rate(Class::Flow(here.flow), limit);
        }
    }

    fn gone(&mut self, flow: FlowId, actions: &mut Actions) {
        let Some(home) = self.find(flow) else { return };
        home.leave();
        (home.held, home.round_trips) = (false, 0);
        if core::mem::replace(&mut home.class, false) {
            actions.because(Reason::new("rtt.gone", "flow {} is gone", &[Value::Flow(flow)]));
            actions.remove(Class::Flow(flow));
        }
    }

    fn look(&mut self, now: Time, actions: &mut Actions) {
        let elapsed = self.looked.map_or(0.0, |last| now.since(last).as_secs_f64());
        self.looked = Some(now);
        let progress = *self.progress.get_or_insert(Progress::learning(now));
        let credible =
            elapsed > 0.0 && elapsed <= self.edge.tuning.memory + self.look.as_secs_f64();
        let mut look =
            PeriodState { elapsed, idle: self.air.idle.unwrap_or(0.0), ..PeriodState::default() };
        for home in &mut self.homes {
            // Without counters nothing is known: another gateway's report is missing.
            if credible && home.is_sampled() {
                home.look(elapsed, &self.edge);
                home.watch(elapsed);
            }
            home.settle();
        }
        if !credible {
            return;
        }
        self.agents.look(elapsed, &mut self.homes, actions);
        self.homes.iter().for_each(|home| look.add(home));
        let step = self.level.step(&look, self.level.rate(&self.homes));
        self.objective.apply(self.level.capacity(), &mut self.homes);
        let rate = self.level.rate(&self.homes);
        let outcome = match look.flooded {
            false => self.raise.look(elapsed, rate, &mut self.homes),
            true => None,
        };
        let level = self.level.rate(&self.homes);
        let found = look.fullest >= self.edge.tuning.half_full && !look.unlimited;
        let objective = self.objective.reason(level, &self.homes);
        let bounded = progress.bounded(now, found, step.reason(level, &look));
        self.progress = Some(bounded.with_objective(objective));
        if let Some(outcome) = outcome {
            let most = self.homes.iter().map(|h| h.raised).fold(1.0, f64::max);
            let values = [Value::Ratio(most), Value::Rate(bucket(level))];
            actions.because(match outcome {
                Outcome::Raised => Reason::new(
                    "rtt.raised",
                    "homes on paths with free capacity have up to {} times the level: {}",
                    &values,
                ),
                Outcome::Undone => Reason::new(
                    "rtt.lowered",
                    "the others had less for it, so homes have at most {} times the level: {}",
                    &values,
                ),
            });
        }
        let mut given = outcome.is_some();
        let was_blind = core::mem::replace(&mut self.blind, step == Step::Blind);
        if self.blind && !was_blind {
            actions.because(step.reason(level, &look));
            given = true;
        }
        let most = self.bounds.upper;
        for home in self.homes.iter_mut().filter(|h| h.class) {
            let changed = home.allow(level, most);
            if core::mem::take(&mut home.renamed) || (changed && home.beside) {
                actions.because(of(home));
                actions.set_rate(Class::Flow(home.flow), bucket(home.limit));
                given = false;
                continue;
            }
            if !changed {
                continue;
            }
            if !core::mem::replace(&mut given, true) {
                actions.because(step.reason(level, &look));
            }
            actions.set_rate(Class::Flow(home.flow), bucket(home.limit));
        }
        self.agents.send(elapsed, &self.homes, actions);
    }
}

/// Reason for a limit of a home's own: its flood begins or ends, or its other traffic floods.
fn of(home: &Home) -> Reason {
    let flow = [Value::Flow(home.flow)];
    if home.beside {
        let text = "flow {} has a quarter of its share, because its home floods";
        return Reason::new("rtt.beside", text, &flow);
    }
    match home.is_flood() {
        true => Reason::new(
            "rtt.flood",
            "flow {} is a flood: it brings twice its limit whatever is dropped; no other is lowered for it",
            &flow,
        ),
        false => Reason::new("rtt.calm", "flow {} is not a flood any more", &flow),
    }
}

impl Control for Rtt {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::FlowCounters(c) => {
                if let Some(home) = self.find(c.flow) {
                    home.bytes.now = Some(c.bytes);
                    home.packets.now = Some(c.packets);
                }
            }
            Event::PathSigns(s) => {
                if let Some(home) = self.find(s.flow) {
                    home.signs = Some(*s);
                }
            }
            Event::Counters(c) => {
                if let Class::Flow(flow) = c.class
                    && let Some(home) = self.find(flow)
                {
                    home.queued = c.queued_packets;
                    home.drops.now = Some(c.drops);
                }
            }
            Event::Channel(c) => self.air.sample(c),
            Event::Allocation(a) => {
                if let Some(home) = self.find(a.flow) {
                    home.fair = Some(a.rate.0 as f64 / home.weight);
                }
                self.divide();
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
        EventSet::of(&[
            EventKind::PathSigns,
            EventKind::Probes,
            EventKind::Channel,
            EventKind::Allocations,
        ])
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn progress(&self) -> Option<Progress> {
        self.progress
    }

    fn learned(&self) -> Option<BitRate> {
        Some(bucket(self.level.capacity()))
    }

    fn guaranteed(&self, flow: FlowId) -> Option<BitRate> {
        let at = self.homes.binary_search_by_key(&flow, |h| h.flow).ok()?;
        let home = &self.homes[at];
        let floor = home.floor.max(home.guarantee).min(home.ceiling);
        (home.class && floor > 0.0).then_some(BitRate(floor as u64))
    }

    fn floods(&self, flow: FlowId) -> bool {
        self.homes.binary_search_by_key(&flow, |h| h.flow).is_ok_and(|at| self.homes[at].is_flood())
    }

    fn recall(&mut self, learned: BitRate, actions: &mut Actions) {
        self.level.recall(learned.0 as f64);
        let level = self.level.rate(&self.homes);
        let values = [Value::Rate(bucket(level))];
        let text = "begins with {} each, which an earlier run had found";
        actions.because(Reason::new("rtt.recalled", text, &values));
        let most = self.bounds.upper;
        for home in self.homes.iter_mut().filter(|h| h.class) {
            if home.allow(level, most) {
                actions.set_rate(Class::Flow(home.flow), bucket(home.limit));
            }
        }
    }
}

#[cfg(test)]
mod agents_tests;
#[cfg(test)]
mod tests;
