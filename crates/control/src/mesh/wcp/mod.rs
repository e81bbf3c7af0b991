//! `wcp`: sources halve their rates if a link that shares their channel is congested.
//!
//! The source is Rangwala 2008 §3.1.
//!
//! A link is congested when the moving average of its queue is above a threshold. Every link shares this
//! state, and the round trips of its flows, with the links in its neighbourhood, two hops around: in header
//! fields of all packets, which neighbours overhear. So all sources of a neighbourhood are notified of
//! congestion equally, and raise and lower their rates at the pace of its longest round trip.

mod aimd;
mod ideal_exchange;
mod link_state;
mod neighbourhood;
mod rate;
mod relay;
mod sharing;
#[cfg(test)]
mod tests;

use fairmesh_units::{Bytes, FlowId, NodeId, Span, Time};

use self::aimd::Aimd;
use self::ideal_exchange::IdealExchange;
use self::link_state::{LinkState, field_rate};
use self::neighbourhood::Neighbourhood;
use self::rate::Rate;
use self::relay::Relay;
use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, Feedback, FlowHere, Header, Instance, Knowledge, KnowledgeSet, Leaf,
    Limit, Message, Needs, Neighbour, Origin, Place, Placement, PlacementSet, Plan, Point, Reason,
    ReceivedFrame, Refusal, Setting, Value,
};

options! {
    /// Options of `wcp`.
    pub(crate) struct Options {
        variants {
            alone: Origin::published("Rangwala 2008 §4.2, Fig. 8"), "congestion is not shared: a link marks its own packets";
            own_rtt as "own-rtt": Origin::published("Rangwala 2008 §4.2, Fig. 8"), "round trips are not shared: each flow uses its own";
            uncorrected: Origin::published("Rangwala 2008 §4.2, Fig. 14"), "no goodput correction: retransmissions count against the rate";
            in_network as "in-network": Origin::published("Rangwala 2008 §4.3"), "routers keep a rate per flow, and exempt flows slower than on the congested link";
            ideal: Origin::published("Rangwala 2008 §4.1"), "nodes exchange state outside the air, as in the paper's simulation";
            doubling: Origin::ours("Rangwala 2008 §3.1"), "the rate of a new flow doubles until its first congestion notification";
            two_trips as "two-trips": Origin::ours("Rangwala 2008 §3.1"), "waits for two shared round trips after a halving instead of one";
            three_trips as "three-trips": Origin::ours("Rangwala 2008 §3.1"), "waits for three shared round trips after a halving instead of one";
        }
        parameters {
            alpha: f64 = 0.1, 0.001..=100.0, "packets/s", "additive increase per interval";
            threshold: f64 = 4.0, 0.1..=1e3, "packets", "average queue above which a link is congested";
            weight: f64 = 0.02, 0.0001..=1.0, "", "weight of a change in the average queue";
            deaf: f64 = 1.0, 0.1..=100.0, "", "least time between two halvings, in shared instantaneous round trips; +two-trips and +three-trips multiply it";
            start: f64 = 10.0, 0.1..=1e5, "packets/s", "rate of a new flow";
            least: f64 = 1.0, 0.05..=1e4, "packets/s", "least rate of a flow";
            hold: Span = 1.0, 0.05..=60.0, "s", "lifetime of received state";
            queue: u32 = 64.0, 1.0..=1000.0, "packets", "buffer of each link";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "sources halve their rates when a link around theirs is congested";
    Definition::new("wcp", about, Origin::published("Rangwala 2008 §3.1"))
        .with_options(needs, build)
}

/// Time between updates of averages, shared states and rates.
const TICK: Span = Span::from_millis(20);
/// Relative difference from which a new spacing, or a router's new rate, is set.
const MIN_CHANGE: f64 = 0.01;

/// Field of the flow's own round trips and rate, from its source.
const FLOW_FIELD: u8 = 0;
/// Field of the largest shared average round trip on the path.
const AVERAGE_FIELD: u8 = 1;
/// Field of the largest shared instantaneous round trip on the path.
const INSTANT_FIELD: u8 = 2;
/// Field of the congestion bit.
const CONGESTION_FIELD: u8 = 3;
/// Field of the state of the link that the packet is on.
const LINK_FIELD: u8 = 4;
/// Field of the state of the links into its transmitter.
const INBOUND_FIELD: u8 = 5;
/// Field of the state of all links with the transmitter in their neighbourhood.
const NEIGHBOURHOOD_FIELD: u8 = 6;
/// Field of a flow's slowest rate at a router on its path, with rates in the network.
const RATE_FIELD: u8 = 7;
/// Bytes of four words of 32 bits, two round trips of 12 bits and a bit.
const HEADER_BYTES: u32 = 20;
/// Bytes in the paper's own packets: the flow's round trips, the path's, and a bit.
const PUBLISHED_HEADER_BYTES: u32 = 7;

/// Returns the bytes of the fields in every packet.
fn header_bytes(options: &Options) -> u32 {
    let rate = 2 * u32::from(options.in_network);
    rate + match (options.alone && options.own_rtt, options.ideal) {
        (true, _) => 1,
        (false, true) => PUBLISHED_HEADER_BYTES,
        (false, false) => HEADER_BYTES,
    }
}

fn needs(options: &Options) -> Vec<Needs> {
    let mut events =
        vec![EventKind::QueueChanges, EventKind::Received, EventKind::Feedback, EventKind::Flows];
    let mut abilities =
        vec![Ability::ReplaceQueue, Ability::LinkClasses, Ability::Annotate, Ability::Pace];
    let mut knowledge = vec![Knowledge::LinkRates];
    if options.ideal {
        events.push(EventKind::Messages);
        abilities.push(Ability::IdealExchange);
        knowledge.push(Knowledge::Topology);
    } else {
        events.push(EventKind::Overheard);
    }
    vec![Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(&events),
        abilities: AbilitySet::of(&abilities),
        knowledge: KnowledgeSet::of(&knowledge),
        header_bytes: header_bytes(options),
        delivery: Delivery::default(),
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let neighbours: Vec<NodeId> = setting.neighbours.iter().map(|n| n.node).collect();
    let class = |node: &NodeId| ClassPlan {
        class: Class::Link(*node),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: options.queue },
    };
    let classes = neighbours.iter().map(class).collect();
    let plan = Plan { point: Point::Interface, classes, template: None };
    let ideal = || IdealExchange::new(setting.node, &neighbours, &setting.links);
    let trips = match (options.two_trips, options.three_trips) {
        (_, true) => 3.0,
        (true, false) => 2.0,
        (false, false) => 1.0,
    };
    let mut control = Wcp {
        ideal: options.ideal.then(ideal),
        neighbourhood: Neighbourhood::new(setting.node, neighbours.iter().copied()),
        links: setting.neighbours.clone(),
        routes: Vec::new(),
        rates: Vec::new(),
        relays: Vec::new(),
        share_bits: !options.alone,
        share_rtts: !options.own_rtt,
        corrected: !options.uncorrected,
        in_network: options.in_network,
        alpha: options.alpha,
        threshold: options.threshold,
        weight: options.weight,
        deaf: options.deaf * trips,
        doubling: options.doubling,
        start: options.start,
        least: options.least,
        hold: options.hold,
        ticked: Time::ZERO,
        due: (!setting.neighbours.is_empty()).then_some(Time::ZERO),
    };
    setting.flows.iter().for_each(|here| control.meet(here));
    Ok(Instance { control: Box::new(control), plan })
}

/// WCP at one node.
#[derive(Debug)]
struct Wcp {
    neighbourhood: Neighbourhood,
    /// Ideal exchange in place of overheard packets.
    ideal: Option<IdealExchange>,
    links: Vec<Neighbour>,
    /// Next hop of each flow's data.
    routes: Vec<(FlowId, NodeId)>,
    /// Rates of this node's own flows.
    rates: Vec<Rate>,
    /// Other nodes' flows, with rates in the network.
    relays: Vec<Relay>,
    share_bits: bool,
    share_rtts: bool,
    corrected: bool,
    in_network: bool,
    alpha: f64,
    threshold: f64,
    weight: f64,
    deaf: f64,
    doubling: bool,
    start: f64,
    least: f64,
    hold: Span,
    ticked: Time,
    due: Option<Time>,
}

impl Wcp {
    fn meet(&mut self, here: &FlowHere) {
        self.routes.retain(|r| r.0 != here.flow);
        self.relays.retain(|r| r.flow != here.flow);
        let Some(next) = here.next_hop else { return };
        // The next hop is a wire: there is no airtime to share.
        let Some(link) = self.links.iter().find(|l| l.node == next) else { return };
        self.routes.push((here.flow, next));
        let most = link.capacity.0 as f64 / (8.0 * f64::from(here.packet.max(1)));
        let aimd = Aimd::new(self.start, self.least, most, self.doubling);
        if here.place != Place::Source {
            self.relays.push(Relay { flow: here.flow, aimd, sent_rate: 0.0 });
        } else if !self.rates.iter().any(|r| r.flow == here.flow) {
            self.rates.push(Rate::new(here.flow, here.payload, aimd));
        }
    }

    /// Handles a packet's values of its transmitter's surroundings.
    fn take_header(&mut self, now: Time, frame: &ReceivedFrame, actions: &mut Actions) {
        if self.ideal.is_some() {
            return;
        }
        let Some(far) = self.neighbourhood.far.iter_mut().find(|f| f.node == frame.link.from)
        else {
            return;
        };
        let word = |slot: u8| LinkState::decode(frame.header.0[usize::from(slot)]);
        if far.take_report(
            now,
            frame.link.to,
            word(LINK_FIELD),
            word(INBOUND_FIELD),
            word(NEIGHBOURHOOD_FIELD),
        ) {
            self.spread(now, actions);
        }
    }

    /// Handles a packet's values of its flow.
    fn received(&mut self, now: Time, frame: &ReceivedFrame) {
        let route = self.routes.iter().find(|r| r.0 == frame.flow).map(|r| r.1);
        if let Some(next) = route
            && !frame.ack
            && let Some(link) = self.neighbourhood.own_mut(next)
        {
            let word = LinkState::decode(frame.header.0[usize::from(FLOW_FIELD)]);
            link.carries(now, frame.flow, word);
        }
    }

    fn message(&mut self, now: Time, message: &Message<'_>, actions: &mut Actions) {
        let Some(ideal) = &mut self.ideal else { return };
        if ideal.take_message(now, message.from, message.body) {
            self.spread(now, actions);
        }
    }

    fn queue(&mut self, now: Time, to: NodeId, packets: u32, actions: &mut Actions) {
        let (weight, threshold) = (self.weight, self.threshold);
        let Some(link) = self.neighbourhood.own_mut(to) else { return };
        let before = link.queue > threshold;
        link.changed(packets, weight);
        if before != (link.queue > threshold) {
            self.notify_neighbours(actions);
            self.spread(now, actions);
        }
    }

    fn feedback(&mut self, now: Time, feedback: &Feedback, actions: &mut Actions) {
        let share_rtts = self.share_rtts;
        let Some(rate) = self.rates.iter_mut().find(|r| r.flow == feedback.flow) else { return };
        rate.measure(feedback.rtt, feedback.acked, feedback.lost);
        let field = |slot: u8| feedback.header.0[usize::from(slot)];
        if self.in_network {
            rate.path_rate = field_rate(field(RATE_FIELD));
            let spacing = rate.space(self.corrected);
            if spacing.as_secs_f64() > rate.spacing.as_secs_f64() * (1.0 + MIN_CHANGE) {
                actions.because(Reason::new(
                    "wcp.router-rate",
                    "flow {}: a router on its path has a lower rate",
                    &[Value::Flow(feedback.flow)],
                ));
                rate.spacing = spacing;
                actions.clock(rate.flow, rate.spacing);
            }
            return;
        }
        let word = rate.word();
        let shared = |slot: u8| if share_rtts { field(slot) } else { 0 };
        rate.aimd.interval = Aimd::interval_of(shared(AVERAGE_FIELD), word.average);
        self.notified(now, feedback.flow, &feedback.header, actions);
    }

    /// Handles a packet at a flow's source.
    ///
    /// It is an acknowledgement, with the fields of the acknowledged data or its own from the way
    /// back. If it is marked the rate is halved, unless the last halving was less than t_md ago,
    /// one shared instantaneous round trip. Packets sent before a halving pass the queue within one
    /// round trip, and those sent after it report it within another: hence `+two-trips`.
    fn notified(&mut self, now: Time, flow: FlowId, header: &Header, actions: &mut Actions) {
        let Some(rate) = self.rates.iter_mut().find(|r| r.flow == flow) else { return };
        if header.0[usize::from(CONGESTION_FIELD)] & 1 == 0 {
            return;
        }
        let instant = if self.share_rtts { header.0[usize::from(INSTANT_FIELD)] } else { 0 };
        // The interval in the packet with the notification.
        let wait = times(Aimd::interval_of(instant, rate.word().instant), self.deaf);
        if rate.fall(now, wait) {
            actions.because(Reason::new(
                "wcp.decrease",
                "flow {}: congestion on its way: half the rate, then deaf for {}",
                &[Value::Flow(flow), Value::Span(wait)],
            ));
            rate.spacing = rate.space(self.corrected);
            actions.clock(flow, rate.spacing);
        }
    }

    fn tick(&mut self, now: Time, actions: &mut Actions) {
        let passed = now.since(self.ticked);
        self.ticked = now;
        let since = Time::from_nanos(now.as_nanos().saturating_sub(self.hold.as_nanos()));
        self.neighbourhood.forget(since);
        if let Some(ideal) = &mut self.ideal {
            ideal.forget(since);
        }
        self.neighbourhood.own.iter_mut().for_each(|o| o.idle(passed, self.weight));
        self.raise(now, actions);
        self.notify_neighbours(actions);
        self.spread(now, actions);
        self.due = Some(now + TICK);
    }

    /// Applies the additive increase of this node's flows, and updates values in their packets.
    fn raise(&mut self, now: Time, actions: &mut Actions) {
        for rate in &mut self.rates {
            let first = rate.spacing == Span::ZERO;
            rate.rise(now, self.alpha);
            let spacing = rate.space(self.corrected);
            let change = spacing.as_secs_f64() / rate.spacing.as_secs_f64();
            if first || !(1.0 - MIN_CHANGE..=1.0 + MIN_CHANGE).contains(&change) {
                rate.spacing = spacing;
                actions.because(Reason::new(
                    "wcp.increase",
                    "flow {}: up every {}: a packet every {}",
                    &[
                        Value::Flow(rate.flow),
                        Value::Span(rate.aimd.interval),
                        Value::Span(spacing),
                    ],
                ));
                actions.clock(rate.flow, spacing);
            }
            let Some(next) = self.routes.iter().find(|r| r.0 == rate.flow).map(|r| r.1) else {
                continue;
            };
            let word = rate.word();
            let Some(own) = self.neighbourhood.own.iter_mut().find(|o| o.to == next) else {
                continue;
            };
            own.carries(now, rate.flow, word);
            if self.share_bits || self.share_rtts {
                actions.because(Reason::new(
                    "wcp.flow",
                    "flow {} tells its round trips",
                    &[Value::Flow(rate.flow)],
                ));
                actions.annotate(
                    Class::Flow(rate.flow),
                    FLOW_FIELD,
                    crate::Merge::Set,
                    word.encode(),
                );
            }
        }
    }
}

fn times(span: Span, factor: f64) -> Span {
    Span::from_secs_f64(span.as_secs_f64() * factor)
}

impl Control for Wcp {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Deadline => self.tick(now, actions),
            Event::Queue(q) => {
                if let Class::Link(to) = q.class {
                    self.queue(now, to, q.packets, actions);
                }
            }
            Event::Received(h) => {
                self.received(now, h);
                self.take_header(now, h, actions);
                if h.ack && !self.in_network {
                    self.notified(now, h.flow, &h.header, actions);
                }
            }
            Event::Overheard(h) => self.take_header(now, h, actions),
            Event::Message(m) => self.message(now, m, actions),
            Event::Feedback(f) => self.feedback(now, f, actions),
            Event::FlowSeen(here) => self.meet(here),
            _ => {}
        }
        // A late host must not find a deadline in the past.
        self.due = self.due.map(|d| d.max(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }
}
