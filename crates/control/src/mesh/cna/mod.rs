//! `cna`: cooperative neighbourhood airtime limiting (Jang 2010).
//!
//! Every node limits the airtime of each of its links to the link's flows over the flows of the
//! busiest neighbourhood that it belongs to: A = W / D. The part that a link leaves unused goes to
//! its neighbours by weight, and if foreign energy takes a part of the air, all links there are
//! scaled down. Nodes exchange the values in unused bits of the IP headers of their packets, which
//! are overheard (`codec`, `neighbourhood`); TCP and the MAC are untouched.

#[cfg(test)]
mod bad_input_tests;
mod codec;
mod limit;
mod links;
mod message;
mod neighbourhood;
pub mod settled;
mod signalling;
#[cfg(test)]
mod tests;

use fairmesh_units::{Bytes, FlowId, NodeId, Span, Stream, Time};

use self::codec::Values;
use self::links::{ForeignEnergy, Meter};
use self::neighbourhood::Neighbourhood;
use self::signalling::Signalling;
use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Channel, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, Header, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Link, Needs,
    Neighbour, Origin, Placement, PlacementSet, Plan, Point, Reason, Refusal, SentSum, Setting,
    Share, Value,
};

options! {
    /// Options of `cna`.
    pub(crate) struct Options {
        variants {
            tolerant: Origin::ours("Jang 2010"), "margins for rounded codes and lost frames; messages announce flows with undelivered packets";
            pass_on as "pass-on": Origin::ours("Jang 2010"), "links pass on unused airtime, initial backoffs do not count, and lossy links have room";
            overlap: Origin::ours("Jang 2010"), "distributes 1.1 of the airtime, since links out of range of each other overlap";
            sampled: Origin::ours("Jang 2010"), "counts sums per period of each link and flow instead of every frame";
            messages: Origin::ours("Jang 2010"), "quantities travel in one-hop messages instead of headers";
        }
        parameters {
            window: Span = 2.0, 0.1..=60.0, "s", "time after its last packet for which a flow counts";
            gain: f64 = 0.1, 0.01..=1.0, "", "weight of each 100 ms in the averages of use and interference";
            topology: Span = 20.0, 0.5..=3600.0, "s", "time between topology messages";
            one_way as "one-way": Span = 0.5, 0.05..=60.0, "s", "time between control packets of a one-way link";
            budget: f64 = 1.0, 0.1..=2.0, "", "airtime to distribute in a neighbourhood; above 1 if transmissions overlap";
            backoff: f64 = 0.0, 0.0..=1.0, "", "+pass-on: part of a packet's mean initial backoff that counts";
            pass: f64 = 0.97, 0.0..=0.99, "", "+pass-on: part of a link's unused airtime that it passes on";
            room: f64 = 12.0, 0.0..=100.0, "", "+pass-on: airtime that neighbours leave to a link with losses, per lost part";
            reserve: f64 = 0.01, 0.0..=0.5, "", "airtime kept free for broadcasts";
            floor: f64 = 0.1, 0.0..=1.0, "", "+tolerant: largest share of foreign energy that is attributed to lost frames";
            queue: u32 = 20.0, 1.0..=1000.0, "packets", "buffer of each flow before each link";
            burst: u64 = 0.0, 0.0..=1e6, "bytes", "depth of each bucket at the link's rate; 0: the largest packet";
            sums: Span = 0.1, 0.02..=10.0, "s", "+sampled: period of the sums";
            batch: Span = 0.1, 0.02..=10.0, "s", "+messages: time between messages";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "the airtime of each link is limited to the share of its flows in the busiest neighbourhood";
    Definition::new("cna", about, Origin::published("Jang 2010 §3, §4")).with_options(needs, build)
}

/// Airtime that `overlap` allocates.
const OVERLAP_AIRTIME: f64 = 1.1;
/// Time between updates of the averages and of all limits.
const TICK: Span = Span::from_millis(100);
/// Time from a change to an update.
const UPDATE_DELAY: Span = Span::from_millis(10);
/// Time for which flows with undelivered packets count: TCP's pauses grow.
const UNDELIVERED_TIMEOUT: Span = Span::from_secs(30);
/// Share of a link without flows: enough for the first packets of one.
const IDLE_SHARE: f64 = 0.1;
/// Number of flows on a link that may be known only to its other end.
const MAX_ONE_SIDED_FLOWS: f64 = 8.0;
/// Smallest room that a link with losses requests.
const MIN_LOSS_HEADROOM: f64 = 0.15;
/// Largest room that a link with losses gets.
const MAX_LOSS_HEADROOM: f64 = 0.6;
/// Minimum of the air that foreign energy and room together leave.
const MIN_REMAINING_AIRTIME: f64 = 0.1;
/// Minimum share of a link per flow, whatever neighbours claim.
const MIN_FLOW_SHARE: f64 = 0.002;

/// True if a link's other end may count `reported` flows on it where this end counts `own`.
fn plausible(reported: f64, own: f64) -> bool {
    reported <= 2.0 * own + MAX_ONE_SIDED_FLOWS
}

fn needs(options: &Options) -> Vec<Needs> {
    let (sampled, messages) = (options.sampled, options.messages);
    let mut events = EventSet::of(&[EventKind::Messages, EventKind::Channel]);
    events = events.or(match sampled {
        true => EventSet::of(&[EventKind::Stations, EventKind::FlowLinks]),
        false => EventSet::of(&[EventKind::Sent, EventKind::Received]),
    });
    let mut abilities = AbilitySet::of(&[
        Ability::ReplaceQueue,
        Ability::LinkClasses,
        Ability::Airtime,
        Ability::Send,
    ]);
    if !messages {
        // The headers of all packets carry the quantities.
        events = events.or(EventSet::of(&[EventKind::Received, EventKind::Overheard]));
        abilities = abilities.or(AbilitySet::of(&[Ability::Annotate]));
    }
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events,
        abilities,
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        // Nothing is added: the bits are there already.
        header_bytes: 0,
        delivery: Delivery {
            sums: sampled.then_some(options.sums),
            queues: None,
            messages: messages.then_some(options.batch),
        },
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let neighbours = || setting.neighbours.iter().map(|n| n.node);
    let packet = setting.flows.iter().map(|f| u64::from(f.packet)).max();
    let burst = match options.burst {
        0 => packet.unwrap_or(1500).max(40),
        bytes => bytes,
    };
    let class = |node| ClassPlan {
        class: Class::Link(node),
        limit: Limit::Airtime(Share::new(IDLE_SHARE)),
        burst: Bytes(burst),
        leaf: Leaf::Fair { packets: options.queue },
    };
    let plan = Plan {
        point: Point::Interface,
        classes: neighbours().map(class).collect(),
        // Of neighbours that appear later.
        template: Some(class(setting.node)),
    };
    let mut stream = setting.stream;
    // Spread over time, so that first messages do not all collide.
    let first = Span::from_secs_f64(stream.unit());
    let Options { tolerant, pass_on, overlap, .. } = *options;
    let mut neighbourhood = Neighbourhood::new(setting.node, neighbours());
    neighbourhood.tolerant = tolerant;
    neighbourhood.pass = if pass_on { options.pass } else { 0.0 };
    let control = Cna {
        tolerant,
        sampled: options.sampled,
        neighbourhood,
        meters: neighbours().map(|n| Meter::new(n, IDLE_SHARE)).collect(),
        window: options.window,
        gain: options.gain,
        budget: options.budget * if overlap { OVERLAP_AIRTIME } else { 1.0 },
        room: if pass_on { options.room } else { 0.0 },
        backoff: if pass_on { options.backoff } else { 1.0 },
        reserve: options.reserve,
        floor: if tolerant { options.floor } else { 0.0 },
        foreign: ForeignEnergy::default(),
        broadcast: Span::ZERO,
        broadcasts: 0.0,
        began: None,
        ticked: Time::ZERO,
        worked: Time::ZERO,
        due: Some(Time::ZERO),
        signalling: Signalling::new(options.topology, options.one_way, Time::ZERO + first),
        anomalies: [AnomalyCount::default(); 5],
        stream,
    };
    Ok(Instance { control: Box::new(control), plan })
}

/// Events that must not happen; they are counted and reported by name.
#[derive(Clone, Copy, Debug)]
enum Anomaly {
    Header,
    Message,
    Contradiction,
    Counters,
    NoTopology,
}

#[derive(Clone, Copy, Default, Debug)]
struct AnomalyCount {
    count: u64,
}

impl AnomalyCount {
    /// Counts one more; returns true if it is to be reported: the first, second, fourth, … time.
    fn again(&mut self) -> bool {
        self.count += 1;
        self.count.is_power_of_two()
    }
}

/// CNA at one node.
#[derive(Debug)]
struct Cna {
    tolerant: bool,
    /// True if sums take the place of every frame.
    sampled: bool,
    neighbourhood: Neighbourhood,
    meters: Vec<Meter>,
    window: Span,
    gain: f64,
    budget: f64,
    room: f64,
    backoff: f64,
    reserve: f64,
    floor: f64,
    foreign: ForeignEnergy,
    /// Airtime of broadcasts since the last tick.
    broadcast: Span,
    /// Moving average of the share of broadcasts.
    broadcasts: f64,
    began: Option<Time>,
    ticked: Time,
    /// Time of the last update of all values.
    worked: Time,
    due: Option<Time>,
    /// Timing of its messages, and of pauses for packets of other nodes.
    signalling: Signalling,
    anomalies: [AnomalyCount; 5],
    stream: Stream,
}

impl Cna {
    fn anomaly(&mut self, what: Anomaly, node: NodeId, actions: &mut Actions) {
        let anomaly = &mut self.anomalies[what as usize];
        if !anomaly.again() {
            return;
        }
        let count = Value::Count(anomaly.count);
        let (code, sentence) = match what {
            Anomaly::Header => {
                ("cna.bad-header", "header bits of neighbour {} make no sense, {} so far: ignored")
            }
            Anomaly::Message => {
                ("cna.bad-message", "a message of neighbour {} makes no sense, {} so far: ignored")
            }
            Anomaly::Contradiction => (
                "cna.contradiction",
                "neighbour {} counts flows on the link to here that do not exist, {} so far: ignored",
            ),
            Anomaly::Counters => (
                "cna.bad-counters",
                "channel counters of node {} jumped or stood still, {} so far: what was measured before holds",
            ),
            Anomaly::NoTopology => (
                "cna.no-topology",
                "neighbour {} has not reported its neighbours, {} so far: its neighbourhood counts as separate",
            ),
        };
        actions.because(Reason::new(code, sentence, &[Value::Node(node), count]));
    }

    /// Takes over a changed set of neighbours; rates do not enter the rule.
    fn renew(&mut self, now: Time, neighbours: &[Neighbour], actions: &mut Actions) {
        let there = |id: NodeId| neighbours.iter().any(|n| n.node == id);
        for m in self.meters.iter().filter(|m| !there(m.to)) {
            let gone = [Value::Node(m.to)];
            actions.because(Reason::new("cna.gone", "node {} is no longer a neighbour", &gone));
            actions.remove(Class::Link(m.to));
        }
        self.meters.retain(|m| there(m.to));
        self.neighbourhood.retain(there);
        for to in neighbours.iter().map(|n| n.node) {
            if self.meters.iter().any(|m| m.to == to) {
                continue;
            }
            self.meters.push(Meter::new(to, IDLE_SHARE));
            self.neighbourhood.add(to);
            actions.because(Reason::new("cna.idle", "no flow goes to node {}", &[Value::Node(to)]));
            actions.set_airtime(Class::Link(to), Share::new(IDLE_SHARE));
        }
        self.soon(now);
    }

    /// Schedules an early update after a change.
    fn soon(&mut self, now: Time) {
        let at = (self.worked + UPDATE_DELAY).max(now);
        self.due = Some(self.due.map_or(at, |d| d.min(at)));
    }

    fn take_header(&mut self, now: Time, link: Link, header: &Header, actions: &mut Actions) {
        let (from, to) = (link.from, link.to);
        let participates = self.neighbourhood.neighbour_mut(from).is_some_and(|f| f.one.is_some());
        match codec::read(header, participates) {
            Ok(None) => {}
            Ok(Some(values)) if self.contradicts(from, to, &values) => {
                self.anomaly(Anomaly::Contradiction, from, actions);
            }
            Ok(Some(values)) => self.learn(now, from, to, values),
            Err(codec::Malformed) => self.anomaly(Anomaly::Header, from, actions),
        }
    }

    /// True if a neighbour reports far more flows on a link to here than have passed.
    fn contradicts(&self, from: NodeId, to: NodeId, values: &Values) -> bool {
        let Values::OneHop(one) = values else { return false };
        let own =
            self.neighbourhood.own.iter().find(|o| o.to == from && to == self.neighbourhood.node);
        own.is_some_and(|o| !plausible(one.weight, o.weight()))
    }

    fn learn(&mut self, now: Time, from: NodeId, to: NodeId, values: Values) {
        let changed = match values {
            Values::OneHop(one) => self.neighbourhood.take_one_hop(now, from, to, one),
            Values::TwoHop(two) => self.neighbourhood.take_two_hop(now, from, two),
            Values::Weight(weight) => {
                match self.neighbourhood.neighbour_mut(from).and_then(|f| f.one) {
                    Some((_, one)) => {
                        let one = codec::OneHop { weight, largest: one.largest.max(weight), ..one };
                        self.neighbourhood.take_one_hop(now, from, to, one)
                    }
                    None => false,
                }
            }
        };
        if changed {
            self.soon(now);
        }
    }

    /// Records a packet that went out or came in on an own link.
    fn passed(&mut self, now: Time, link: usize, out: bool, what: (FlowId, bool)) {
        let m = &mut self.meters[link];
        let flows = if out { &mut m.out } else { &mut m.back };
        if flows.saw(now, what.0, what.1) {
            m.newcomer = Some(now);
            m.unreported = true;
            self.count(now);
            self.soon(now);
        }
    }

    /// Records that a packet has gone out: the next one carries the other quantities.
    fn sent(&mut self, now: Time, link: usize, what: (FlowId, bool), actions: &mut Actions) {
        let m = &mut self.meters[link];
        m.last_sent = Some(now);
        m.two_next = !m.two_next;
        self.passed(now, link, true, what);
        self.write(link, actions);
    }

    /// Records the frames of a period on an own link.
    fn sent_sum(&mut self, now: Time, link: usize, sum: &SentSum, actions: &mut Actions) {
        let m = &mut self.meters[link];
        m.spent_sum(sum);
        if self.tolerant {
            m.failed = (sum.delivered() == 0).then_some(now);
            m.got_through_sum(sum);
        }
        m.last_sent = Some(now);
        m.two_next = !m.two_next;
        self.write(link, actions);
    }

    /// Handles channel counters; those between ticks come too soon for a measurement.
    fn survey(&mut self, now: Time, channel: &Channel, actions: &mut Actions) {
        if now - self.ticked >= TICK && self.foreign.survey(channel, self.gain).is_err() {
            self.anomaly(Anomaly::Counters, self.neighbourhood.node, actions);
        }
    }

    /// Updates the weights of own links.
    fn count(&mut self, now: Time) {
        for (m, own) in self.meters.iter_mut().zip(&mut self.neighbourhood.own) {
            let patience = if self.tolerant { UNDELIVERED_TIMEOUT } else { self.window };
            let counts = m.count(now, self.window, patience.max(self.window));
            if counts.0 > 0.0 && own.out == 0.0 {
                // Its use is unknown, so nothing of it is given away.
                own.used = 1.0;
                m.begin();
            }
            if counts.1 > 0.0 && own.back == 0.0 {
                own.used_back = 1.0;
            }
            (own.out, own.back) = counts;
        }
    }

    /// Returns the share of the air that neighbours have to leave for an own link with losses.
    ///
    /// Senders out of each other's range need more room than their shares.
    fn loss_headroom(&self) -> f64 {
        let active = self.meters.iter().zip(&self.neighbourhood.own).filter(|(_, o)| o.out > 0.0);
        let worst = active.map(|(m, _)| self.room * m.lost).fold(0.0, f64::max);
        if worst < MIN_LOSS_HEADROOM { 0.0 } else { worst.min(MAX_LOSS_HEADROOM) }
    }

    /// Updates the averages by the time since the last tick.
    fn average(&mut self, now: Time) {
        let passed = (now - self.ticked).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        for (m, own) in self.meters.iter_mut().zip(&mut self.neighbourhood.own) {
            m.average(passed, self.gain);
            if own.out > 0.0 {
                // A link with undelivered packets needs all of its airtime.
                let undelivered = self.tolerant && (m.failed.is_some() || m.loses());
                let entitled = own.most() * self.budget;
                own.used = match self.tolerant {
                    _ if undelivered => 1.0,
                    true => m.part_or_held(entitled),
                    false => m.part(entitled),
                };
            }
        }
        let share = core::mem::take(&mut self.broadcast).as_secs_f64() / passed;
        self.broadcasts += self.gain * (share - self.broadcasts);
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        let began = *self.began.get_or_insert(now);
        // A deadline that only follows a change comes too soon for a measurement.
        if now - self.ticked >= TICK {
            self.average(now);
            self.ticked = now;
        }
        self.worked = now;
        self.count(now);
        let since = Time::from_nanos(now.as_nanos().saturating_sub(self.window.as_nanos()));
        self.neighbourhood.forget(since);
        self.neighbourhood.available = self.foreign.available(self.floor);
        self.neighbourhood.available =
            (self.neighbourhood.available - self.loss_headroom()).max(MIN_REMAINING_AIRTIME);
        self.neighbourhood.work_out();
        self.limit(now, actions);
        for link in 0..self.meters.len() {
            self.write(link, actions);
        }
        self.speak(now, began, actions);
        let next = self.signalling.beacon.min(self.ticked + TICK).max(now + UPDATE_DELAY);
        self.due = (!self.meters.is_empty()).then_some(next);
    }
}

impl Control for Cna {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        let link = |meters: &[Meter], n: NodeId| meters.iter().position(|m| m.to == n);
        match event {
            Event::Deadline => self.tick(now, actions),
            Event::Sent(s) => match s.to.map(|to| link(&self.meters, to)) {
                _ if s.flow.is_none() => self.broadcast += s.airtime,
                None => self.broadcast += s.airtime,
                Some(Some(i)) => {
                    let uncounted = s.backoff.as_secs_f64() * (1.0 - self.backoff);
                    self.meters[i].spent(s.airtime, Span::from_secs_f64(uncounted));
                    if let Some(flow) = s.flow {
                        let failed = self.tolerant && !s.delivered;
                        self.meters[i].failed = failed.then_some(now);
                        self.meters[i].got_through(s.delivered);
                        self.sent(now, i, (flow, s.ack), actions);
                    }
                }
                Some(None) => {}
            },
            Event::SentSum(s) => {
                if let Some(i) = link(&self.meters, s.to) {
                    self.sent_sum(now, i, s, actions);
                }
            }
            Event::FlowSum(f) => {
                let out = f.link.from == self.neighbourhood.node;
                let far = if out { f.link.to } else { f.link.from };
                if let Some(i) = link(&self.meters, far) {
                    self.passed(now, i, out, (f.flow, f.ack));
                }
            }
            Event::Received(h) => {
                if let Some(i) = link(&self.meters, h.link.from)
                    && !self.sampled
                {
                    self.passed(now, i, false, (h.flow, h.ack));
                }
                self.take_header(now, h.link, &h.header, actions);
            }
            Event::Overheard(h) => self.take_header(now, h.link, &h.header, actions),
            Event::Fields(f) => {
                if let Some(to) = f.to {
                    let link = Link { from: f.from, to };
                    self.take_header(now, link, &f.header, actions);
                }
            }
            Event::Message(m) => self.message(now, m.from, m.body, actions),
            Event::Channel(c) => self.survey(now, c, actions),
            Event::Neighbours(all) => self.renew(now, all, actions),
            _ => {}
        }
        // A late host must not find a deadline in the past.
        self.due = self.due.map(|d| self.signalling.quiet.map_or(d, |q| d.min(q)).max(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    fn wants(&self) -> EventSet {
        EventSet::of(&[EventKind::Neighbours])
    }
}
