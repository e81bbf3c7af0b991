//! `mesh-maxmin`: every node derives a level from the queue of its radio.
//!
//! The routers at which flows enter the mesh limit each flow to the lowest level around its path. Developed in this
//! project.
//!
//! A *level* is the rate of each flow around a node, in application bits per second and unit of weight. It rises while
//! almost no packets wait and falls while packets do ([`level`]), so it includes the cost of a rate, a retry or a
//! hidden sender without counting them. Levels travel two hops in unused bits of IP headers and are overheard
//! ([`codec`], [`region`]); hosts and their TCP are unchanged ([`source`]). docs/controls/mesh-maxmin.md has the
//! derivation.

mod air;
mod anomaly;
#[cfg(test)]
mod bad_input_tests;
mod codec;
mod level;
mod message;
mod node;
mod outsiders;
mod region;
mod signalling;
mod source;
#[cfg(test)]
mod tests;

use fairmesh_units::{BitRate, Bytes, FlowId, Span};

use self::level::Rule;
use self::node::Node;
use crate::options;
use crate::{
    Ability, AbilitySet, Class, ClassPlan, Definition, Delivery, EventKind, EventSet, Instance,
    Knowledge, KnowledgeSet, Leaf, Limit, Needs, Neighbour, Origin, Placement, PlacementSet, Plan,
    Point, Refusal, Setting,
};

options! {
    /// Options of `mesh-maxmin`.
    pub(crate) struct Options {
        variants {
            sampled: Origin::ours(""), "counts sums per period and samples of the queue instead of every frame and change";
            messages: Origin::ours(""), "levels travel in one-hop messages instead of headers";
        }
        parameters {
            backlog: f64 = 2.0, 0.2..=50.0, "packets", "target mean queue of a radio, with the packet in service";
            rise: f64 = 0.06, 0.001..=5.0, "1/s", "growth rate of a level while the queue is empty";
            fall: f64 = 0.06, 0.001..=5.0, "1/s", "fall rate of a level while the queue is twice its target";
            damping: f64 = 0.1, 0.0..=2.0, "", "part by which a node reports a lower level at once while its queue is twice the target";
            headroom: f64 = 0.5, 0.01..=10.0, "", "largest excess of a level over the fastest flow in range, relative to that flow";
            loss: f64 = 15.0, 0.0..=200.0, "", "queue length that counts as much as a loss of all packets by the MAC";
            aside: f64 = 1.7, 1.0..=20.0, "", "pressure up to which a node keeps its level while a lower level in range limits its flows";
            brisk: f64 = 3.0, 1.0..=20.0, "", "factor of the rates of change of its level then";
            hold: Span = 3.0, 0.5..=60.0, "s", "lifetime of received values";
            burst: f64 = 2.0, 1.0..=1000.0, "packets", "burst of a flow after a pause";
            lack: f64 = 4.0, 0.0..=100.0, "packets", "queue length that counts as much as a flow without a delivery since the MAC gave up one of its packets";
            queue: u32 = 6.0, 2.0..=1000.0, "packets", "buffer of each flow where it enters the mesh";
            marks: f64 = 1.0, 0.0..=1000.0, "packets", "queue of a flow above which packets are marked, if it supports ECN";
            patience: Span = 0.1, 0.001..=60.0, "s", "queueing time beyond `marks` at which each packet is marked; proportionally fewer below";
            sums: Span = 0.1, 0.02..=10.0, "s", "+sampled: period of the sums";
            samples: Span = 0.02, 0.001..=1.0, "s", "+sampled: period of the queue samples";
            batch: Span = 0.1, 0.02..=10.0, "s", "+messages: time between messages";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "nodes learn the max-min rate of each flow around them and limit flows where they enter the mesh";
    Definition::new("mesh-maxmin", about, Origin::ours("Jang 2010; Rangwala 2008"))
        .with_options(needs, build)
}

/// Time between updates of the levels.
const TICK: Span = Span::from_millis(100);
/// Initial level as a fraction of the fastest link's capacity.
const INITIAL_LEVEL: f64 = 1.0 / 40.0;
/// Smallest level as a fraction of the fastest link's capacity.
const MIN_LEVEL: f64 = 0.0005;
/// Difference from which a new limit (relative) or fraction of marked packets is set.
const MIN_CHANGE: f64 = 0.01;
/// Time between messages of a node that receives but has nothing to send.
const RECEIVER_INTERVAL: Span = Span::from_millis(500);
/// Time between messages of a node with undelivered packets.
const UNDELIVERED_INTERVAL: Span = Span::from_millis(100);
/// Time between messages of a node between others that disturb each other out of range.
const RELAY_INTERVAL: Span = Span::from_secs(2);
/// Time without any success after which a neighbour is notified.
///
/// The message reports that packets to it are not delivered.
const FAILURE_TIMEOUT: Span = Span::from_millis(200);
/// Time between messages about such a node.
///
/// Two may be lost before their content is forgotten.
const FAILURE_REPORT_INTERVAL: Span = Span::from_secs(1);
/// Idle time of a link or flow in one direction before a message replaces its packets.
const IDLE_TIMEOUT: Span = Span::from_secs(1);
/// Time with a backlog and no transmission after which a queue's counter counts as stuck.
const STUCK_COUNTER_TIMEOUT: Span = Span::from_secs(2);
/// Time constant of the average of discarded packets, in s.
const DISCARD_TIME_CONSTANT: f64 = 2.0;
/// Packets added to a denominator, so that fractions of few packets stay small.
const SMOOTHING_PACKETS: f64 = 10.0;
/// Time without any success after which a neighbour counts as gone.
const UNREACHABLE_TIMEOUT: Span = Span::from_secs(8);
/// Time after which it counts as back.
const RETURN_TIME: Span = Span::from_secs(60);
/// Time after which a neighbour that is received counts as gone.
///
/// Timeouts of 1, 2, 4, 8 and 16 s have passed by then (RFC 6298 §5.5).
const RECEIVED_UNREACHABLE_TIMEOUT: Span = Span::from_secs(32);

fn needs(options: &Options) -> Vec<Needs> {
    let (sampled, messages) = (options.sampled, options.messages);
    let mut events = EventSet::of(&[
        EventKind::Counters,
        EventKind::Channel,
        EventKind::Messages,
        EventKind::Flows,
    ]);
    events = events.or(match sampled {
        true => EventSet::of(&[EventKind::QueueSamples, EventKind::Stations, EventKind::FlowLinks]),
        false => EventSet::of(&[EventKind::QueueChanges, EventKind::Sent, EventKind::Received]),
    });
    let mut common = AbilitySet::of(&[Ability::FlowClasses, Ability::Mark, Ability::Send]);
    if !messages {
        // The headers of all packets carry the levels.
        events = events.or(EventSet::of(&[EventKind::Received, EventKind::Overheard]));
        common = common.or(AbilitySet::of(&[Ability::Annotate]));
    }
    let limits = |at, limit| Needs {
        at: PlacementSet::of(&[at]),
        events,
        abilities: common.or(AbilitySet::of(&[limit])),
        knowledge: KnowledgeSet::of(&[Knowledge::LinkRates]),
        // No bytes are added: the fields exist already.
        header_bytes: 0,
        delivery: Delivery {
            sums: sampled.then_some(options.sums),
            queues: sampled.then_some(options.samples),
            messages: messages.then_some(options.batch),
        },
    };
    vec![
        limits(Placement::EveryNode, Ability::LimitLocal),
        limits(Placement::Gateway, Ability::LimitTransit),
    ]
}

/// Rates that follow from the links of a node, in application bits per second and weight.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Rates {
    /// Initial level.
    start: f64,
    /// Smallest and largest level.
    bounds: (f64, f64),
}

impl Rates {
    /// Rates of a node with these neighbours.
    fn of(neighbours: &[Neighbour]) -> Self {
        let capacity = neighbours.iter().map(|n| n.capacity.0).max().unwrap_or(0) as f64;
        let bounds = ((MIN_LEVEL * capacity).max(codec::MIN_RATE), capacity.max(codec::MIN_RATE));
        Rates { start: (INITIAL_LEVEL * capacity).max(bounds.0), bounds }
    }
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    if let Some(bad) = setting.flows.iter().find(|f| !(f.weight.is_finite() && f.weight > 0.0)) {
        return Err(Refusal::weight(bad.flow, bad.weight));
    }
    let rates = Rates::of(&setting.neighbours);
    let packet = setting.flows.iter().map(|f| u64::from(f.packet)).max().unwrap_or(1500).max(1);
    let gateway = setting.site.gateway;
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::Rate(BitRate(rates.start as u64)),
        burst: Bytes((options.burst * packet as f64) as u64),
        leaf: Leaf::DropTail { packets: options.queue },
    };
    let rule = Rule {
        backlog: options.backlog,
        rise: options.rise,
        fall: options.fall,
        damping: options.damping,
        headroom: options.headroom,
        loss: options.loss,
        aside: options.aside,
        brisk: options.brisk,
    };
    let mut node = Node::new(options, rule, &setting, rates);
    setting.flows.iter().for_each(|f| node.meet(f));
    let class = |flow| ClassPlan { class: Class::Flow(flow), ..template };
    let classes = node.entering().map(class).collect();
    let point = if gateway { Point::Transit } else { Point::Local };
    let plan = Plan { point, classes, template: Some(template) };
    Ok(Instance { control: Box::new(node), plan })
}
