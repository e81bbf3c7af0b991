//! `tcp-ap`: TCP with adaptive pacing, and its half at the gateway.
//!
//! Sources: ElRakabawy, Klemm, Lindemann 2005, 2008; Jamshaid 2010 §5.2.1.
//!
//! A segment on a chain of hops collides with its successor until it is out of interference, four
//! hops ahead. So new data leaves no faster than one segment per that delay, which follows from the
//! round trip, and slower the more recent round trips vary, since variation predicts contention:
//! rate = 1 / ((1 + 2 cov) × delay). Wireless senders pace themselves; the gateway paces traffic
//! from the Internet, flow by flow, on the round trip beyond the gateway.

mod estimate;
#[cfg(test)]
mod tests;

use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};

use self::estimate::{Estimate, Path};
use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin,
    Place, Placement, PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `tcp-ap`.
    pub(crate) struct Options {
        variants {}
        parameters {
            reuse: u32 = 4.0, 1.0..=20.0, "hops", "hops after which a packet no longer interferes with the next";
            first: Span = 0.05, 0.0001..=1.0, "s", "spacing before the first round trip is known";
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "buffer of each flow before the gateway's pacing";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "TCP senders and the gateway pace by the delay over four hops and its variation";
    Definition::new(
        "tcp-ap",
        about,
        Origin::published("ElRakabawy, Klemm, Lindemann 2005 and 2008; Jamshaid 2010 §5.2.1"),
    )
    .with_options(|_: &Options| needs(), build)
}

/// Relative difference from which a new spacing is set.
const MIN_CHANGE: f64 = 0.05;

fn needs() -> Vec<Needs> {
    let knowledge = KnowledgeSet::of(&[Knowledge::LinkRates, Knowledge::Hops]);
    vec![
        Needs {
            at: PlacementSet::of(&[Placement::Sources]),
            events: EventSet::of(&[EventKind::Feedback]),
            abilities: AbilitySet::of(&[Ability::Pace]),
            knowledge,
            header_bytes: 0,
            delivery: Delivery::default(),
        },
        Needs {
            at: PlacementSet::of(&[Placement::Gateway]),
            events: EventSet::of(&[EventKind::RoundTrips]),
            abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
            knowledge,
            header_bytes: 0,
            delivery: Delivery::default(),
        },
    ]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let mut control = TcpAp {
        reuse: options.reuse,
        first: options.first,
        gateway: setting.site.gateway,
        sources: setting.site.sources,
        links: setting.neighbours.iter().map(|n| (n.node, n.rate)).collect(),
        flows: Vec::new(),
        waiting: true,
    };
    setting.flows.iter().for_each(|here| control.meet(here));
    let leaf = Leaf::DropTail { packets: options.queue };
    let class = |flow: &Flow| ClassPlan {
        class: Class::Flow(flow.id),
        limit: Limit::Rate(rate(flow.packet, control.first)),
        burst: Bytes(u64::from(flow.packet)),
        leaf,
    };
    let template =
        ClassPlan { class: Class::Flow(FlowId(0)), limit: Limit::None, burst: Bytes(1500), leaf };
    let paced = control.flows.iter().filter(|f| f.half == PacingPoint::Gateway);
    let plan = if control.gateway {
        let classes = paced.map(class).collect();
        Plan { point: Point::Transit, classes, template: Some(template) }
    } else {
        Plan::none()
    };
    Ok(Instance { control: Box::new(control), plan })
}

/// Returns one packet per interval as a rate; at least a bit per second.
fn rate(packet: u32, interval: Span) -> BitRate {
    let bits = 8.0 * f64::from(packet) / interval.as_secs_f64();
    BitRate((bits as u64).max(1))
}

/// Point at which a flow is paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PacingPoint {
    /// In its sender, which is at this node.
    Sender,
    /// At this node, on its path into the mesh.
    Gateway,
}

#[derive(Debug)]
struct Flow {
    id: FlowId,
    half: PacingPoint,
    packet: u32,
    estimate: Estimate,
    /// Spacing in force.
    interval: Span,
}

/// TCP-AP at one node.
#[derive(Debug)]
struct TcpAp {
    reuse: u32,
    first: Span,
    gateway: bool,
    sources: bool,
    /// Neighbours and the rates of the links to them.
    links: Vec<(NodeId, BitRate)>,
    flows: Vec<Flow>,
    /// True until the senders' first spacing is set.
    waiting: bool,
}

impl TcpAp {
    /// Adds a flow that enters the air here, if the sender's or the gateway's half paces it.
    fn meet(&mut self, here: &FlowHere) {
        let half = match here.place {
            Place::Source if self.sources => PacingPoint::Sender,
            Place::Forwarder if self.gateway => PacingPoint::Gateway,
            _ => return,
        };
        let Some(next) = here.next_hop else { return };
        // The next hop is a wire: the flow is not paced here.
        let Some(&(_, rate)) = self.links.iter().find(|l| l.0 == next) else { return };
        if self.flows.iter().any(|f| f.id == here.flow) {
            return;
        }
        let path =
            Path { hops: here.hops.unwrap_or(1), rate, packet: here.packet, reuse: self.reuse };
        self.flows.push(Flow {
            id: here.flow,
            half,
            packet: here.packet.max(1),
            estimate: Estimate::new(path),
            interval: self.first,
        });
    }

    fn start(&mut self, actions: &mut Actions) {
        self.waiting = false;
        for f in self.flows.iter().filter(|f| f.half == PacingPoint::Sender) {
            begin(f, actions);
        }
    }

    fn round_trip(&mut self, flow: FlowId, half: PacingPoint, rtt: Span, actions: &mut Actions) {
        let Some(f) = self.flows.iter_mut().find(|f| f.id == flow && f.half == half) else {
            return;
        };
        if rtt == Span::ZERO {
            return;
        }
        let Some(interval) = f.estimate.sample(rtt) else { return };
        let change = interval.as_secs_f64() / f.interval.as_secs_f64();
        if (1.0 - MIN_CHANGE..=1.0 + MIN_CHANGE).contains(&change) {
            return;
        }
        f.interval = interval;
        actions.because(Reason::new(
            "tcp-ap.spacing",
            "flow {}: out of interference after {}, which varies by {}: a packet every {}",
            &[
                Value::Flow(flow),
                Value::Span(f.estimate.delay()),
                Value::Percent(f.estimate.variation()),
                Value::Span(interval),
            ],
        ));
        apply(f, actions);
    }
}

/// Sets a flow's spacing.
fn apply(f: &Flow, actions: &mut Actions) {
    match f.half {
        PacingPoint::Sender => actions.pace(f.id, f.interval),
        PacingPoint::Gateway => actions.set_rate(Class::Flow(f.id), rate(f.packet, f.interval)),
    }
}

fn begin(f: &Flow, actions: &mut Actions) {
    actions.because(Reason::new(
        "tcp-ap.first",
        "flow {}: no round trip is known: a packet every {}",
        &[Value::Flow(f.id), Value::Span(f.interval)],
    ));
    apply(f, actions);
}

impl Control for TcpAp {
    fn on(&mut self, _now: Time, event: &Event<'_>, actions: &mut Actions) {
        if self.waiting {
            self.start(actions);
        }
        match event {
            Event::Feedback(f) => self.round_trip(f.flow, PacingPoint::Sender, f.rtt, actions),
            Event::RoundTrip(r) => self.round_trip(r.flow, PacingPoint::Gateway, r.rtt, actions),
            Event::FlowSeen(here) => {
                let before = self.flows.len();
                self.meet(here);
                self.flows[before..].iter().for_each(|f| begin(f, actions));
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.waiting.then_some(Time::ZERO)
    }
}
