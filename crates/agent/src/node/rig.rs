//! The router as the host of one mechanism: its senses, its acts, and its record.

use std::collections::{BTreeMap, VecDeque};

use fairmesh_control::host::{Node, Samples};
use fairmesh_control::{
    Action, Class, ClassPlan, Counters, Event, EventKind, FlowCounters, FlowLink, Leaf, Limit,
    Marking, QueueLength, Reason, Value,
};
use fairmesh_linux::{AirtimeSample, AirtimeShares, Error, LocalPlace, LocalShaper, MacAddr};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Probability, Span, Time};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::machine::{FlowClass, LocalCounters, Machine};
use super::message::Role;
use super::numbers::Numbers;
use super::offers;
use super::passing::{Change, Passing, flow_of};
use crate::daemon::journal::{Journal, Level};
use crate::gateway::config::Mode;

/// Decisions that `why` shows.
const MAX_DECISIONS: usize = 64;
/// Least time between two reads of the same counters.
const MIN_SAMPLE_INTERVAL: Span = Span::from_millis(40);
/// Most bodies that wait for a message.
const MAX_BODIES: usize = 16;

/// A decision of the mechanism.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Decision {
    /// Time since the start of the daemon, in s.
    pub at: f64,
    /// Stable name.
    pub code: String,
    /// Sentence.
    pub text: String,
}

/// State of the limit on local traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalLimit {
    /// Place.
    pub place: LocalPlace,
    /// Rate that the mechanism has decided on.
    pub rate: Option<BitRate>,
    /// True if it is in force.
    pub applied: bool,
}

/// Marks of all packets that leave the router.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Marks {
    /// Chance of each packet.
    pub probability: Probability,
    /// Distribution.
    pub how: Marking,
    /// True if they are in force.
    pub applied: bool,
}

/// Airtime of the packets to each next hop.
#[derive(Clone, Default, Debug)]
pub struct HopShares {
    /// Position of the mesh interface, decided share, and the limit that gives it, by next hop.
    pub hops: BTreeMap<MacAddr, HopShare>,
    estimates: AirtimeShares,
    /// True if the limits are in force.
    pub applied: bool,
}

/// Classes of flows.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowClasses {
    /// Place of their tree.
    pub place: LocalPlace,
    /// The class of each flow.
    pub classes: BTreeMap<FlowId, FlowClass>,
    /// Classes of flows that have ended, without limit until their queues are empty.
    retired: Vec<FlowClass>,
    /// True if the limits are in force.
    pub applied: bool,
}

impl FlowClasses {
    /// Returns a number that no class has.
    fn free(&self) -> Option<u16> {
        let all = self.classes.values().chain(&self.retired);
        let taken: std::collections::BTreeSet<u16> = all.map(|c| c.number).collect();
        (1..=LocalShaper::MAX_FLOWS).find(|n| !taken.contains(n))
    }
}

/// Airtime of the packets to one next hop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HopShare {
    /// Number of the next hop.
    pub node: NodeId,
    /// Position of the mesh interface.
    pub interface: usize,
    /// Share of the airtime that the mechanism has decided on.
    pub share: f64,
    /// Limit that gives it, in Ethernet frames' bytes; `None` until a transfer has been measured.
    pub rate: Option<BitRate>,
}

/// Senses, acts and record of a router.
#[derive(Debug)]
pub struct Rig<M> {
    /// The machine.
    pub machine: M,
    /// The configuration in force.
    pub config: Config,
    /// Named events.
    pub journal: Journal,
    /// Numbers of this router and its neighbours.
    pub numbers: Numbers,
    /// Last decisions, the newest last.
    pub decisions: VecDeque<Decision>,
    /// Mesh interface over which the next hop of local traffic is reached.
    pub uplink: usize,
    /// Limit on local traffic, once the mechanism has a class for it.
    pub limit: Option<LocalLimit>,
    /// Marks that the mechanism has decided on.
    pub marking: Option<Marks>,
    /// Shares of the airtime, once the mechanism has classes for next hops.
    pub shares: Option<HopShares>,
    /// Mesh interface of each neighbour that the mechanism knows.
    pub reached: BTreeMap<MacAddr, usize>,
    /// True while packets of homes are counted.
    pub counting: bool,
    /// Time of the last sample of each kind.
    sampled: BTreeMap<EventKind, Time>,
    /// The flows that pass.
    pub passing: Passing,
    /// Classes of flows that enter the mesh here, once the mechanism has some.
    pub flows: Option<FlowClasses>,
    /// Bodies of the mechanism that wait for the next message, with their receivers.
    pub bodies: VecDeque<(Option<MacAddr>, Vec<u8>)>,
    /// Bodies that were left out because too many waited.
    pub dropped_bodies: u64,
    /// Failure of an act; the mechanism is started again.
    pub failed: Option<Error>,
    /// Last use of the channel, for reports: busy time and active time since the sample before.
    pub busy: Option<f64>,
}

impl<M: Machine> Rig<M> {
    /// Returns a router that has done nothing yet.
    pub fn new(machine: M, config: Config) -> Self {
        Rig {
            machine,
            config,
            journal: Journal::default(),
            numbers: Numbers::default(),
            decisions: VecDeque::new(),
            uplink: 0,
            limit: None,
            marking: None,
            shares: None,
            reached: BTreeMap::new(),
            counting: false,
            sampled: BTreeMap::new(),
            passing: Passing::default(),
            flows: None,
            bodies: VecDeque::new(),
            dropped_bodies: 0,
            failed: None,
            busy: None,
        }
    }

    /// True if a class of ours is in the kernel.
    pub fn applied(&self) -> bool {
        self.limit.as_ref().is_some_and(|l| l.applied)
            || self.shares.as_ref().is_some_and(|s| s.applied)
            || self.flows.as_ref().is_some_and(|f| f.applied)
    }

    /// Removes the limit, and forgets the mechanism's decisions.
    pub fn free(&mut self, now: Time) {
        self.failed = None;
        if self.marking.take().is_some_and(|m| m.applied) {
            self.machine.unmark();
        }
        self.bodies.clear();
        (self.passing, self.sampled) = (Passing::default(), BTreeMap::new());
        if std::mem::take(&mut self.counting) {
            let _ = self.machine.count_flows(&[], &[]);
        }
        if self.shares.take().is_some_and(|s| s.applied) {
            for interface in self.config.interfaces.clone() {
                if let Err(e) = self.machine.remove_hops(&interface) {
                    self.journal.note(now, Level::Error, "limit.stays", || {
                        format!("{interface}: {e}; `fairmesh-node reset` removes it")
                    });
                }
            }
        }
        let limit = self.limit.take().filter(|l| l.applied).map(|l| l.place);
        let flows = self.flows.take().filter(|f| f.applied).map(|f| f.place);
        let Some(place) = limit.or(flows) else { return };
        if let Err(e) = self.machine.remove(&place) {
            self.journal.note(now, Level::Error, "limit.stays", || {
                format!("{}: {e}; `fairmesh-node reset` removes it", place.interface)
            });
        }
    }

    /// Sets the decided marks again, since they lapse.
    pub fn renew_marks(&mut self) {
        if let Some(marks) = self.marking.filter(|m| m.applied) {
            let places = self.config.marked();
            let set = self.machine.mark(&places, None, marks.probability, marks.how);
            self.act(set);
        }
    }

    /// Counts packets of homes from now on.
    pub fn count_flows(&mut self) {
        let (interfaces, homes) = (self.config.interfaces.clone(), self.config.homes.clone());
        self.counting = true;
        let counts = self.machine.count_flows(&interfaces, &homes);
        self.act(counts);
    }

    /// Adapts the limits of next hops to the airtime that their packets took.
    pub fn renew_shares(&mut self, now: Time) {
        let Some(mut shares) = self.shares.take() else { return };
        for at in 0..self.config.interfaces.len() {
            if !shares.hops.values().any(|h| h.interface == at) {
                continue;
            }
            let interface = self.config.interfaces[at].clone();
            let stations = self.machine.stations(at);
            let sent = match shares.applied {
                true => self.machine.sample_hops(&interface),
                // Without classes, the station's own counter, which has no Ethernet headers.
                false => Ok(stations.iter().map(|s| (s.mac, s.tx_bytes.unwrap_or(0))).collect()),
            };
            let sent = match sent {
                Ok(sent) => sent,
                Err(e) => {
                    self.failed = Some(e);
                    break;
                }
            };
            let sample = |&(next_hop, bytes): &(MacAddr, u64)| {
                let station = stations.iter().find(|s| s.mac == next_hop)?;
                let airtime = station.tx_airtime_us.map(Span::from_micros);
                let frames = (station.tx_packets.unwrap_or(0).into(), station.contention());
                Some(AirtimeSample { next_hop, bytes, frames, airtime })
            };
            let samples: Vec<_> = sent.iter().filter_map(sample).collect();
            let mut changed = Vec::new();
            for (mac, rate) in shares.estimates.renew(now, &samples) {
                let Some(hop) = shares.hops.get_mut(&mac).filter(|h| h.interface == at) else {
                    continue;
                };
                if differs(hop.rate, rate) {
                    hop.rate = rate;
                    changed.push((mac, rate));
                }
            }
            if shares.applied && !changed.is_empty() {
                let set = self.machine.set_hops(&interface, &changed);
                self.act(set);
            }
        }
        self.shares = Some(shares);
    }

    /// Builds a class of a next hop.
    fn build_hop(&mut self, node: NodeId, share: f64, burst: Bytes) {
        let Some(mac) = self.numbers.mac(node) else { return };
        let Some(&at) = self.reached.get(&mac) else { return };
        let applied = self.config.mode == Mode::Apply;
        let shares = self.shares.get_or_insert_default();
        shares.applied = applied;
        let first = !shares.hops.values().any(|h| h.interface == at);
        shares.hops.insert(mac, HopShare { node, interface: at, share, rate: None });
        shares.estimates.set(mac, share);
        if applied {
            let interface = &self.config.interfaces[at];
            let burst = u32::try_from(burst.0).unwrap_or(u32::MAX);
            let installed =
                if first { self.machine.install_hops(interface, burst) } else { Ok(()) };
            let set = installed.and_then(|()| self.machine.set_hops(interface, &[(mac, None)]));
            self.act(set);
        }
    }

    /// Ends the class of a next hop.
    fn end_hop(&mut self, node: NodeId) {
        let Some(shares) = &mut self.shares else { return };
        // Its number may be forgotten already.
        let Some((&mac, _)) = shares.hops.iter().find(|(_, h)| h.node == node) else { return };
        shares.estimates.forget(mac);
        let Some(hop) = shares.hops.remove(&mac).filter(|_| shares.applied) else { return };
        let set = self.machine.set_hops(&self.config.interfaces[hop.interface], &[(mac, None)]);
        self.act(set);
    }

    /// Returns the changes of the flows that pass.
    pub fn look_at_flows(&mut self, now: Time) -> Vec<Change> {
        match self.machine.flows() {
            Ok(counts) => {
                let gateway = self.config.role == Role::Gateway;
                self.passing.look(now, gateway, &counts, &mut self.numbers)
            }
            Err(e) => {
                self.failed = Some(e);
                Vec::new()
            }
        }
    }

    /// Renews the marks of flows, and removes classes of ended flows that are empty.
    pub fn renew_flows(&mut self) {
        let Some(mut flows) = self.flows.take().filter(|f| f.applied) else { return };
        let marked = flows.classes.values().filter(|c| c.marks.0 > 0.0);
        let mut done = marked.map(|c| self.machine.set_flow(c)).fold(Ok(()), Result::and);
        if !flows.retired.is_empty() {
            match self.machine.sample_flows() {
                Ok(counters) => {
                    let waits = |c: &FlowClass| {
                        counters.iter().any(|(n, l)| *n == c.number && l.queued_packets > 0)
                    };
                    for class in flows.retired.extract_if(.., |c| !waits(c)) {
                        done = done.and(self.machine.remove_flow(&class));
                    }
                }
                Err(e) => done = done.and(Err(e)),
            }
        }
        self.flows = Some(flows);
        self.act(done);
    }

    /// Builds the class of a flow.
    fn build_flow(&mut self, flow: FlowId, plan: &ClassPlan) {
        let Some(home) = self.passing.home(flow) else { return };
        let place = self.config.place(self.uplink);
        let applied = self.config.mode == Mode::Apply;
        if self.flows.is_none() {
            let burst = u32::try_from(plan.burst.0).unwrap_or(u32::MAX);
            let packets = plan.leaf.packets();
            // Local traffic of no flow waits in a queue of its own, without limit.
            let installed = if applied {
                self.machine.install(&place, Leaf::DropTail { packets: packets.max(100) }, burst)
            } else {
                Ok(())
            };
            if installed.is_err() {
                return self.act(installed);
            }
            let (classes, retired) = (BTreeMap::new(), Vec::new());
            self.flows = Some(FlowClasses { place, classes, retired, applied });
        }
        let Some(flows) = &mut self.flows else { return };
        let Some(number) = flows.free() else { return };
        let rate = if let Limit::Rate(rate) = plan.limit { Some(rate) } else { None };
        let (packets, marks) = (plan.leaf.packets(), Probability(0.0));
        flows.classes.insert(flow, FlowClass { number, home, rate, packets, marks });
        self.set_flow(flow, |_| ());
    }

    /// Changes the class of a flow.
    fn set_flow(&mut self, flow: FlowId, change: impl FnOnce(&mut FlowClass)) {
        let Some(flows) = &mut self.flows else { return };
        let Some(class) = flows.classes.get_mut(&flow) else { return };
        change(class);
        if flows.applied {
            let set = self.machine.set_flow(class);
            self.act(set);
        }
    }

    /// Ends the class of a flow; packets that wait in it leave without limit.
    fn end_flow(&mut self, flow: FlowId) {
        self.set_flow(flow, |class| (class.rate, class.marks) = (None, Probability(0.0)));
        if let Some(flows) = &mut self.flows {
            flows.retired.extend(flows.classes.remove(&flow).filter(|_| flows.applied));
        }
    }

    fn sample_classes(&mut self, samples: &mut Samples<'_>) {
        let Some(flows) = self.flows.as_ref().filter(|f| f.applied) else { return };
        let numbers: BTreeMap<u16, FlowId> =
            flows.classes.iter().map(|(flow, class)| (class.number, *flow)).collect();
        match self.machine.sample_flows() {
            Ok(counters) => {
                for (number, c) in counters {
                    let Some(flow) = numbers.get(&number) else { continue };
                    samples.give(Event::Counters(counters_of(Class::Flow(*flow), &c)));
                }
            }
            Err(e) => self.act(Err(e)),
        }
    }

    fn sample_flows(&mut self, samples: &mut Samples<'_>) {
        let flows = match self.machine.flows() {
            Ok(flows) => flows,
            Err(e) => return self.act(Err(e)),
        };
        let own = self.numbers.own();
        for f in flows {
            let Some(other) = self.numbers.of(f.neighbour) else { continue };
            let (from, to) = if f.out { (own, other) } else { (other, own) };
            samples.give(Event::FlowLink(FlowLink {
                link: fairmesh_control::Link { from, to },
                flow: flow_of(f.home, f.download),
                ack: f.ack,
                packets: f.packets,
                bytes: f.bytes,
            }));
        }
    }

    fn act(&mut self, result: Result<(), Error>) {
        if let Err(e) = result {
            self.failed = Some(e);
        }
    }

    fn local(&mut self) -> Option<LocalCounters> {
        let counted = match &self.limit {
            Some(limit) if limit.applied => self.machine.sample(),
            Some(limit) => self.machine.sent(&limit.place.interface),
            None => return None,
        };
        match counted {
            Ok(counters) => Some(counters),
            Err(e) => {
                self.failed = Some(e);
                None
            }
        }
    }

    fn sample_stations(&mut self, flows: bool, samples: &mut Samples<'_>) {
        for interface in 0..self.config.interfaces.len() {
            for station in self.machine.stations(interface) {
                let Some(node) = self.numbers.of(station.mac) else { continue };
                if flows {
                    samples.give(Event::FlowCounters(FlowCounters {
                        flow: FlowId(node.0),
                        bytes: station.rx_bytes.unwrap_or(0),
                        packets: station.rx_packets.unwrap_or(0).into(),
                    }));
                    continue;
                }
                samples.give(Event::Station(fairmesh_control::Station {
                    node,
                    tx_bytes: station.tx_bytes.unwrap_or(0),
                    tx_packets: station.tx_packets.unwrap_or(0).into(),
                    tx_retries: station.tx_retries.unwrap_or(0).into(),
                    tx_failed: station.tx_failed.unwrap_or(0).into(),
                    tx_airtime: Span::from_micros(station.tx_airtime_us.unwrap_or(0)),
                    tx_rate: station.tx_rate.unwrap_or(BitRate(0)),
                    rx_bytes: station.rx_bytes.unwrap_or(0),
                    rx_packets: station.rx_packets.unwrap_or(0).into(),
                    rx_airtime: Span::from_micros(station.rx_airtime_us.unwrap_or(0)),
                }));
            }
        }
    }
}

impl<M: Machine> Node for Rig<M> {
    fn sample(&mut self, now: Time, kind: EventKind, samples: &mut Samples<'_>) {
        // A mechanism that samples queues every few milliseconds needs counters less often, and they cost more.
        if kind != EventKind::QueueSamples {
            if self.sampled.get(&kind).is_some_and(|at| now.since(*at) < MIN_SAMPLE_INTERVAL) {
                return;
            }
            self.sampled.insert(kind, now);
        }
        match kind {
            EventKind::Counters => {
                if let Some(c) = self.local() {
                    samples.give(Event::Counters(counters_of(Class::All, &c)));
                }
                self.sample_classes(samples);
            }
            EventKind::Stations => self.sample_stations(false, samples),
            EventKind::QueueSamples => {
                let mut all = QueueLength { class: Class::All, packets: 0, bytes: 0 };
                for interface in 0..self.config.interfaces.len() {
                    let stations = self.machine.stations(interface);
                    for queue in stations.iter().filter_map(|s| s.queue) {
                        all.packets = all.packets.saturating_add(queue.backlog_packets);
                        all.bytes += queue.backlog_bytes;
                    }
                }
                samples.give(Event::Queue(all));
            }
            EventKind::FlowCounters => self.sample_stations(true, samples),
            EventKind::FlowLinks => self.sample_flows(samples),
            EventKind::Channel => {
                if let Some(channel) = self.machine.channel(self.uplink) {
                    samples.give(Event::Channel(channel));
                }
            }
            _ => {}
        }
    }

    fn build(&mut self, now: Time, class: &ClassPlan, _: Option<&Reason>) {
        if let (Class::Link(node), Limit::Airtime(share)) = (class.class, class.limit) {
            return self.build_hop(node, share.get(), class.burst);
        }
        if let Class::Flow(flow) = class.class {
            return self.build_flow(flow, class);
        }
        let place = self.config.place(self.uplink);
        let applied = self.config.mode == Mode::Apply;
        if applied {
            let Bytes(burst) = class.burst;
            let burst = u32::try_from(burst).unwrap_or(u32::MAX);
            let installed = self.machine.install(&place, class.leaf, burst);
            if installed.is_err() {
                return self.act(installed);
            }
        }
        self.limit = Some(LocalLimit { place, rate: None, applied });
        if let Limit::Rate(rate) = class.limit {
            self.limit_to(now, Some(rate));
        }
    }

    fn carry_out(&mut self, now: Time, action: &Action, body: &[u8], _: Option<&Reason>) {
        match *action {
            Action::SetRate { class: Class::All, rate } => self.limit_to(now, rate),
            Action::Remove { class: Class::All } => self.lift(now),
            Action::SetRate { class: Class::Flow(flow), rate } => {
                self.set_flow(flow, |class| class.rate = rate);
            }
            Action::Mark { class: Class::Flow(flow), probability, .. } => {
                self.set_flow(flow, |class| class.marks = probability);
            }
            Action::Remove { class: Class::Flow(flow) } => self.end_flow(flow),
            Action::Remove { class: Class::Link(node) } => self.end_hop(node),
            Action::SetAirtime { class: Class::Link(node), share } => {
                let mac = self.numbers.mac(node);
                let Some((shares, mac)) = self.shares.as_mut().zip(mac) else { return };
                if let Some(hop) = shares.hops.get_mut(&mac) {
                    hop.share = share.get();
                    shares.estimates.set(mac, share.get());
                }
            }
            Action::Mark { class: Class::All, probability, how } => {
                let applied = self.config.mode == Mode::Apply;
                self.marking = Some(Marks { probability, how, applied });
                self.renew_marks();
            }
            Action::Send { to, .. } => {
                let to = match to {
                    None => None,
                    Some(node) => match self.numbers.mac(node) {
                        Some(mac) => Some(mac),
                        None => return,
                    },
                };
                if self.bodies.len() >= MAX_BODIES {
                    // The newest values count.
                    self.bodies.pop_front();
                    self.dropped_bodies += 1;
                }
                self.bodies.push_back((to, body.to_vec()));
            }
            // Of undeclared abilities the driver lets none through, and there are no other classes.
            _ => {}
        }
    }

    fn decided(&mut self, now: Time, reason: &Reason) {
        let text = reason.with_names(|value| match value {
            Value::Node(node) => self.numbers.mac(*node).map(|mac| mac.to_string()),
            Value::Flow(flow) => self.numbers.mac(NodeId(flow.0)).map(|mac| mac.to_string()),
            _ => None,
        });
        if self.decisions.len() >= MAX_DECISIONS {
            self.decisions.pop_front();
        }
        let (at, code) = (now.as_secs_f64(), reason.code.to_owned());
        self.decisions.push_back(Decision { at, code, text: text.clone() });
        self.journal.note(now, Level::Info, reason.code, || text);
    }
}

fn counters_of(class: Class, c: &LocalCounters) -> Counters {
    Counters {
        class,
        bytes: c.bytes,
        packets: c.packets,
        drops: c.drops,
        overlimits: c.overlimits,
        queued_packets: c.queued_packets,
        queued_bytes: c.queued_bytes,
    }
}

/// True if a limit changes by more than a hundredth.
fn differs(old: Option<BitRate>, new: Option<BitRate>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.0.abs_diff(new.0) > old.0 / 100,
        (old, new) => old != new,
    }
}

impl<M: Machine> Rig<M> {
    /// Removes the class of local traffic.
    fn lift(&mut self, now: Time) {
        let Some(limit) = self.limit.take().filter(|l| l.applied) else { return };
        if let Err(e) = self.machine.remove(&limit.place) {
            self.journal.note(now, Level::Error, "limit.stays", || {
                format!("{}: {e}; `fairmesh-node reset` removes it", limit.place.interface)
            });
        }
    }

    fn limit_to(&mut self, now: Time, rate: Option<BitRate>) {
        let floor = self.config.floor;
        let low = offers::takes_orders(&self.config) && rate.is_some_and(|r| r < floor);
        if low {
            self.journal.note(now, Level::Warning, "order.floor", || {
                format!("the gateway's limit is below the floor; {floor} is in force")
            });
        }
        let rate = if low { Some(floor) } else { rate };
        let Some(limit) = &mut self.limit else { return };
        limit.rate = rate;
        if limit.applied {
            let set = self.machine.set_rate(rate);
            self.act(set);
        }
    }
}
