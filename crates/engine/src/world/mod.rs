//! A scenario as a running world, and the loop that advances it.

pub(crate) mod collect;
#[cfg(test)]
mod conformance;
mod curves;

use std::sync::Arc;

use fairmesh_control::{Ability, EventKind, FlowLink, Link, Point};
use fairmesh_queueing::SpecError;
use fairmesh_scenario::Scenario;
use fairmesh_units::{FlowId, NodeId, Span, Stream, Time};

use crate::airs::Airs;
use crate::classes::{ByteClasses, Cost, RadioClasses};
use crate::error::EngineError;
use crate::fair::FairRates;
use crate::host::ControlAt;
use crate::listeners::{Backhaul, Listeners, Subscription};
use crate::net::{
    AckDelays, FlowState, Hop, Interface, Lanes, Net, RadioDescription, Shaping, WireDirection,
};
use crate::observe::Observer;
use crate::record::{DecisionRecord, Series};
pub use collect::subscribers;
use curves::LinkCurves;

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// Seed of every random stream.
    pub seed: u64,
    /// Interval of the curves; `None`: no curves.
    pub sample: Option<Span>,
    /// True to measure [`FlowRecord::acknowledged_delay_s`](crate::record::FlowRecord).
    pub acknowledged: bool,
    /// True if the curves include links and foreign energy.
    ///
    /// See [`Series::links`] and [`Series::foreign`].
    pub links: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { seed: 1, sample: None, acknowledged: false, links: false }
    }
}

/// Components from which a world is assembled.
pub(crate) struct Parts {
    pub fair: Option<FairRates>,
    pub air: Airs,
    pub controls: Vec<ControlAt>,
    pub flows: Vec<FlowState>,
}

pub(crate) struct World<const WATCH: bool, const HOST: bool> {
    pub scenario: Arc<Scenario>,
    pub options: RunOptions,
    pub fair: Option<FairRates>,
    pub air: Airs,
    pub net: Net<WATCH, HOST>,
    pub series: Series,
    curves: Option<LinkCurves>,
    /// Instant of the next sample of the curves; [`Time::NEVER`] without sampling.
    next_sample: Time,
    /// Current instant; all events before it have been processed.
    pub now: Time,
    /// True if the end of the scenario has been reached.
    pub ended: bool,
    pub(crate) controls: Vec<ControlAt>,
    pub decisions: Vec<DecisionRecord>,
    /// Number of changes of the fair rates already reported to the controls.
    pub(crate) allocated: usize,
    /// Number of the scenario's changes of link rates already made.
    rate_changes: usize,
    /// Number of the scenario's path changes already made.
    route_changes: usize,
    /// Bytes delivered of each flow at the last sample.
    sampled: Vec<u64>,
    pub events: u64,
}

impl<const WATCH: bool, const HOST: bool> World<WATCH, HOST> {
    pub fn new(
        scenario: Arc<Scenario>,
        options: &RunOptions,
        fair: Option<FairRates>,
        controls: Vec<ControlAt>,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<Self, EngineError> {
        let air = Airs::new(&scenario, options.seed);
        let mut flows = Vec::with_capacity(scenario.flows().len());
        for flow in scenario.flows() {
            let hop = |from: NodeId, to: NodeId| {
                find_hop(&scenario, &air, from, to).ok_or_else(|| EngineError::BrokenPath {
                    flow: flow.name.clone(),
                    from: scenario.nodes()[from.index()].name.clone(),
                    to: scenario.nodes()[to.index()].name.clone(),
                })
            };
            let steps = |path: &[NodeId]| {
                let both = |w: &[NodeId]| Ok([hop(w[0], w[1])?, hop(w[1], w[0])?]);
                path.windows(2).map(both).collect::<Result<Vec<_>, EngineError>>()
            };
            flows.push(FlowState::new(flow, options.seed, &steps(&flow.path)?));
            let index = flows.len() - 1;
            for change in scenario.route_changes().iter().filter(|c| c.flow == index) {
                flows[index].also(&change.path, &steps(&change.path)?);
            }
        }
        Self::assemble(scenario, options, observer, Parts { fair, air, controls, flows })
    }

    /// Assembles the world of a scenario with given traffic and controls.
    pub fn assemble(
        scenario: Arc<Scenario>,
        options: &RunOptions,
        observer: Option<Box<dyn Observer>>,
        parts: Parts,
    ) -> Result<Self, EngineError> {
        let shared = Arc::clone(&scenario);
        let scenario = &*shared;
        let Parts { fair, air, controls, flows } = parts;
        let seed = options.seed;
        let mut interfaces = Vec::new();
        let mut lanes = Vec::new();
        // Both directions of each flow, as queues number them.
        let ends = scenario.flows().iter().map(|f| (f.from.0 as u16, f.to.0 as u16));
        let hosts = hosts(scenario.flow_numbers(), ends);
        for id in scenario.wireless() {
            let node = &scenario.nodes()[id.index()];
            let spec = node.queue.as_ref().unwrap_or(scenario.queue());
            let make = || {
                let mut queue = spec.discipline.build().map_err(|e| refused(&node.name, &e))?;
                if let Some(stations) = queue.as_stations_mut() {
                    let weights = scenario.nodes().iter().map(|n| n.airtime_weight);
                    weights
                        .zip(0..)
                        .filter(|w| w.0 != 1.0)
                        .for_each(|(w, s)| stations.set_weight(s, w));
                }
                if let Some(cake) = queue.as_cake_mut() {
                    cake.set_hosts(hosts.clone());
                }
                Ok::<_, EngineError>(queue)
            };
            let queue = make()?;
            if scenario.has_access_categories() {
                lanes.push(Lanes::new(|access| {
                    let rng = Stream::new(seed, &format!("queue/{}/{access}", node.name));
                    Ok::<_, EngineError>(Interface::new(make()?, spec.device, None, rng))
                })?);
            }
            let classes = controls.iter().find(|c| c.node == id && c.in_queue()).map(|_| {
                let rng = Stream::new(seed, &format!("classes/{}", node.name));
                let mac = scenario.mac_of(id);
                RadioClasses::new(flows.len(), Cost::new(mac), mac.rate, rng)
            });
            let rng = Stream::new(seed, &format!("queue/{}", node.name));
            interfaces.push(Interface::new(queue, spec.device, classes, rng));
        }
        let mut wires = Vec::with_capacity(2 * scenario.wires().len());
        for w in scenario.wires() {
            for to in [w.b, w.a] {
                wires.push(WireDirection::new(to.0, w.rate, w.delay, w.queue_packets));
            }
        }
        let mut classes = Vec::new();
        let weights: Vec<f64> = scenario.flows().iter().map(|f| f.weight).collect();
        for c in &controls {
            let plan = c.driver.plan();
            if !plan.is_none() && plan.point != Point::Interface {
                let name = &scenario.nodes()[c.node.index()].name;
                let rng = Stream::new(seed, &format!("classes/{name}"));
                let shares = c.shares.clone();
                classes.push(ByteClasses::new(c.node, plan.point, &weights, shares, rng));
            }
        }
        let probes = |c: &&ControlAt| c.driver.needs().events.has(EventKind::Probes);
        let counts =
            |c: &&ControlAt| c.driver.needs().events.has(EventKind::FlowCounters) || probes(c);
        let reads = |c: &&ControlAt| c.driver.needs().events.has(EventKind::PathSigns) || probes(c);
        let shaping = Shaping {
            nodes: scenario.nodes().len(),
            classes,
            counting: controls.iter().filter(counts).map(|c| c.node).collect(),
            reading: controls.iter().filter(reads).map(|c| c.node).collect(),
            probing: controls.iter().filter(probes).map(|c| c.node).collect(),
            controls: controls.len(),
            listeners: build_listeners(scenario, &controls, interfaces.len(), seed),
        };
        let measure_from = Time::ZERO + scenario.warmup();
        let sampled = vec![0; flows.len()];
        let radio_descriptions = match WATCH {
            true => scenario.wireless().map(|n| RadioDescription::of(scenario, n)).collect(),
            false => Vec::new(),
        };
        let mut net =
            Net::new(interfaces, flows, wires, shaping, measure_from, observer, radio_descriptions);
        net.lanes = lanes;
        net.numbers = scenario.flow_numbers().to_vec();
        net.find_owners();
        if options.acknowledged {
            net.ack_delays = Some(AckDelays::of(&net.flows));
        }
        let mut series = Series::default();
        if options.sample.is_some() {
            series.goodput_bps = vec![Vec::new(); net.flows.len()];
            series.cwnd_bytes = vec![Vec::new(); net.flows.len()];
            series.limit_bps = vec![Vec::new(); net.flows.len()];
            series.queue_packets = vec![Vec::new(); net.interfaces.len()];
        }
        let link_interval = options.sample.filter(|_| options.links);
        let curves =
            link_interval.map(|_| LinkCurves::begin(scenario, &air, &mut net, &mut series));
        let mut world = World {
            scenario: Arc::clone(&shared),
            options: *options,
            fair,
            air,
            net,
            controls,
            decisions: Vec::new(),
            allocated: 0,
            rate_changes: 0,
            route_changes: 0,
            series,
            curves,
            next_sample: Time::ZERO + options.sample.unwrap_or(Span::MAX),
            now: Time::ZERO,
            ended: false,
            sampled,
            events: 0,
        };
        for i in 0..world.controls.len() {
            world.begin_control(i)?;
        }
        Ok(world)
    }

    /// Advances to `until`, or to the end of the scenario if that is earlier.
    ///
    /// Every event before that instant has then been processed. Any sequence of steps to an instant has the same
    /// outcome.
    pub fn advance(&mut self, until: Time) {
        while !self.ended {
            let barrier = self.next_barrier();
            self.run_until(until.min(barrier));
            if until < barrier {
                self.now = self.now.max(until);
                return;
            }
            self.cross(barrier);
        }
    }

    /// Processes one event, or one batch of datagrams that a source sends ahead of the radio.
    pub fn step(&mut self) {
        while !self.ended {
            let barrier = self.next_barrier();
            if let Some(at) = self.next_event(barrier) {
                self.now = self.now.max(at);
                return;
            }
            self.cross(barrier);
        }
    }

    /// Runs to the end of the scenario and returns that instant.
    #[cfg(test)]
    pub fn run(&mut self) -> Time {
        self.advance(Time::NEVER);
        self.now
    }

    /// Returns the instant of the last event of the run.
    pub fn end(&self) -> Time {
        Time::ZERO + self.scenario.duration()
    }

    /// Returns the next instant with an action between events.
    ///
    /// That is a change of fair rates, link rates or routes, a sample, or the end.
    fn next_barrier(&self) -> Time {
        self.next_allocation().min(self.next_sample).min(self.end()).min(self.next_change())
    }

    /// Returns the instant of the next change of the fair rates.
    ///
    /// [`Time::NEVER`] if there is none.
    fn next_allocation(&self) -> Time {
        let changes = self.fair.as_ref().map_or(&[][..], |f| &f.changes);
        changes.get(self.allocated).map_or(Time::NEVER, |c| c.0)
    }

    /// Performs the actions due at a barrier, before which every event has been processed.
    fn cross(&mut self, barrier: Time) {
        self.change(barrier);
        if barrier == self.next_allocation() {
            self.allocate(barrier);
        }
        self.now = barrier;
        self.ended = barrier == self.end();
        if barrier == self.next_sample || (self.ended && self.options.sample.is_some()) {
            self.sample(barrier);
            self.next_sample += self.options.sample.unwrap_or(Span::MAX);
        }
    }

    /// Returns the instant of the scenario's next change of a link's rate or a flow's path.
    ///
    /// [`Time::NEVER`] if there is none.
    pub(crate) fn next_change(&self) -> Time {
        let rate = self.scenario.rate_changes().get(self.rate_changes).map(|c| c.at);
        let route = self.scenario.route_changes().get(self.route_changes).map(|c| c.at);
        let next = rate.into_iter().chain(route).min();
        next.map_or(Time::NEVER, |at| Time::ZERO + at)
    }

    /// Makes the changes that are due.
    ///
    /// Frames in the air keep their rate, and packets in transit keep their path.
    pub(crate) fn change(&mut self, now: Time) {
        let due = |at: Span| Time::ZERO + at <= now;
        while let Some(change) = self.scenario.route_changes().get(self.route_changes)
            && due(change.at)
        {
            self.net.flows[change.flow].reroute(change.path.len());
            self.route_changes += 1;
        }
        while let Some(change) = self.scenario.rate_changes().get(self.rate_changes)
            && due(change.at)
        {
            if let Some(link) = self.air.link(change.from, change.to) {
                self.air.set_rate(change.from, link, change.rate);
            }
            self.rate_changes += 1;
        }
    }

    /// Processes every event before `end`.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.next_event(end).is_some() {}
    }

    /// Processes the next event before `end` and returns its instant.
    ///
    /// At one instant the radio's events precede the network's; the radio's are ordered by station,
    /// the network's by flow, wire and interface.
    #[inline(always)]
    fn next_event(&mut self, end: Time) -> Option<Time> {
        loop {
            let (radio, (timer, slot)) = (self.air.next_deadline(), self.net.timers.earliest());
            let at = radio.min(timer);
            if at >= end {
                return None;
            }
            // A source with its own queue and a busy MAC need not stop before the radio's next
            // event.
            if timer < radio
                && let Some(node) = self.net.owner(slot)
                && self.air.is_busy(node)
            {
                let sent = self.net.send_ahead(slot, radio.min(end));
                self.events += sent;
                if sent > 0 {
                    continue;
                }
            }
            self.happen(radio, timer, slot);
            return Some(at);
        }
    }

    /// Processes the next event: the radio's at `radio`, or that of a timer.
    #[inline(always)]
    pub(crate) fn happen(&mut self, radio: Time, timer: Time, slot: usize) {
        self.events += 1;
        if radio <= timer {
            self.air.step(&mut self.net);
        } else if let Some(control) = self.net.fire(timer, slot) {
            self.control_deadline(timer, control);
        }
        let now = radio.min(timer);
        if HOST && !self.net.listeners.notes.is_empty() {
            self.deliver_events(now);
        }
        self.kick(now);
    }

    /// Notifies the MACs of packets that were queued.
    #[inline(always)]
    pub(crate) fn kick(&mut self, now: Time) {
        while let Some(node) = self.net.kicks.pop() {
            self.air.kick(now, node, &mut self.net);
        }
    }

    /// Returns the current fair rate of a flow.
    pub(crate) fn now_fair(&self, flow: FlowId) -> Option<f64> {
        let now = self.allocated.checked_sub(1)?;
        self.fair.as_ref()?.changes.get(now)?.1.get(flow.index()).copied()
    }

    fn sample(&mut self, at: Time) {
        let before = self.series.time_s.last().copied().unwrap_or(0.0);
        let interval = at.as_secs_f64() - before;
        if interval <= 0.0 {
            return;
        }
        let s = &mut self.series;
        s.time_s.push(at.as_secs_f64());
        for (f, flow) in self.net.flows.iter().enumerate() {
            let total = flow.meters.delivered;
            let before = std::mem::replace(&mut self.sampled[f], total);
            s.goodput_bps[f].push((total - before) as f64 * 8.0 / interval);
            if let Some(cwnd) = flow.cwnd() {
                s.cwnd_bytes[f].push(cwnd as f64);
            }
            let id = FlowId(f as u32);
            let limit = self.net.classes.iter().find_map(|c| c.limit_of(id));
            if let Some(limit) = limit.map(|l| l.0 as f64).or_else(|| flow.spaced()) {
                s.limit_bps[f].push(limit);
            }
        }
        for n in 0..self.net.interfaces.len() {
            s.queue_packets[n].push(f64::from(self.net.waiting(n)));
        }
        if let Some(curves) = &mut self.curves {
            curves.sample(at, &self.air, &self.net, s);
        }
    }
}

/// Returns sender and receiver of both directions of each flow, by its number in queues.
fn hosts(numbers: &[u32], ends: impl Iterator<Item = (u16, u16)>) -> Vec<(u16, u16)> {
    let mut hosts = Vec::new();
    for (i, (a, b)) in ends.enumerate() {
        let at = 2 * numbers.get(i).map_or(i, |n| *n as usize);
        hosts.resize(at + 2, (0, 0));
        (hosts[at], hosts[at + 1]) = ((a, b), (b, a));
    }
    hosts
}

/// Returns the error of a queue that cannot be built.
pub(crate) fn refused(node: &str, e: &SpecError) -> EngineError {
    EngineError::Queue { node: node.to_owned(), invalid: e.clone() }
}

/// Returns empty counters of the flows on a node's links over the air, in both directions.
fn flow_links(scenario: &Scenario, node: NodeId) -> Vec<FlowLink> {
    let mut counters = Vec::new();
    for (flow, id) in scenario.flows().iter().zip(0..) {
        for hop in flow.path.windows(2).filter(|hop| hop.contains(&node)) {
            let (from, to) = (hop[0], hop[1]);
            let on_air = scenario.links().iter().any(|l| (l.from, l.to) == (from, to));
            let (there, back) = (Link { from, to }, Link { from: to, to: from });
            for (link, ack) in [(there, false), (back, true)].into_iter().filter(|_| on_air) {
                counters.push(FlowLink { link, flow: FlowId(id), ack, packets: 0, bytes: 0 });
            }
        }
    }
    counters
}

/// Builds the listeners of a world's controls.
fn build_listeners(
    scenario: &Scenario,
    controls: &[ControlAt],
    radios: usize,
    seed: u64,
) -> Listeners {
    let subscription = |(i, c): (usize, &ControlAt)| Subscription {
        node: c.node,
        control: i as u32,
        events: c.driver.needs().events,
        header_bytes: c.driver.needs().header_bytes,
        neighbours: scenario.links().iter().filter(|l| l.from == c.node).map(|l| l.to).collect(),
        flow_links: match c.driver.needs().events.has(EventKind::FlowLinks) {
            true => flow_links(scenario, c.node),
            false => Vec::new(),
        },
        rng: Stream::new(seed, &format!("marks/{}", scenario.nodes()[c.node.index()].name)),
    };
    let subscriptions = controls.iter().enumerate().map(subscription).collect();
    let (nodes, flows) = (scenario.nodes().len(), scenario.flows().len());
    let mut listeners =
        Listeners::new(nodes, radios, flows, Cost::new(scenario.mac()), subscriptions);
    if controls.iter().any(|c| c.driver.needs().abilities.has(Ability::IdealExchange)) {
        listeners.connect(scenario.links().iter().map(|l| (l.from, l.to)));
    }
    if controls.iter().any(|c| c.driver.needs().abilities.has(Ability::Peers)) {
        listeners.backhaul = Backhaul::new(scenario);
    }
    listeners
}

fn find_hop(scenario: &Scenario, air: &Airs, from: NodeId, to: NodeId) -> Option<Hop> {
    if scenario.same_device(from, to) {
        return Some(Hop::Bus { to: to.0 });
    }
    if let Some((wire, back)) = scenario.wire(from, to) {
        return Some(Hop::Wire { direction: 2 * wire as u32 + u32::from(back) });
    }
    air.link(from, to).map(|link| Hop::Radio { link })
}
