//! `source`: sources limit their flows to analytic fair rates (Jamshaid 2010 §6.3.3).
//!
//! An ideal that no deployed mesh has: every source takes part, and a central instance knows the rates.
//!
//! One token bucket per flow, below the transport and therefore equal for TCP and UDP. The fair rate is one
//! of application data, the bucket counts IP bytes:
//!
//! `limit = fair × (IP bytes of a full packet / application bytes in it) × (1 + room)`
//!
//! With the default room of 0 a lossless flow gets exactly its fair rate, as in Jamshaid's Table
//! 6.3 (largest rate over fair rate 1.00); retransmissions then count against the flow.
//!
//! The burst is one packet, so that a source never adds more than one frame at once to a channel it shares.
//! TCP needs a queue and not a policer before the bucket: its drop-tail buffer holds 10 packets, or a fifth
//! of a second at the fair rate where that is more, so that a halved window still keeps the bucket busy and
//! three duplicate acknowledgements can return after a loss.

use fairmesh_units::{BitRate, Bytes, FlowId, Time};

use crate::gateway::static_flow::allow;
use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin,
    Place, Placement, PlacementSet, Plan, Point, Refusal, Setting,
};

options! {
    /// Options of `source`.
    pub(crate) struct Options {
        variants {}
        parameters {
            room: f64 = 0.0, 0.0..=1.0, "", "part of the fair rate added for retransmissions";
            queue: u32 = 10.0, 1.0..=1000.0, "packets", "smallest buffer before each bucket";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "every source limits its own flows to their analytic fair rates";
    Definition::new("source", about, Origin::published("Jamshaid 2010 §6.3.3"))
        .with_options(|_: &Options| needs(), build)
}

/// Divisor of a second that gives the buffer time.
const BUFFER_PARTS: u64 = 5;
/// Largest buffer by this rule, in packets.
const BUFFER_MAX: u64 = 200;

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::Sources]),
        events: EventSet::of(&[EventKind::Allocations]),
        abilities: AbilitySet::of(&[Ability::LimitLocal, Ability::FlowClasses]),
        knowledge: KnowledgeSet::of(&[Knowledge::FairRates]),
        header_bytes: 0,
        delivery: Delivery::default(),
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let (room, queue) = (options.room, options.queue);
    let mine = |f: &&FlowHere| f.place == Place::Source;
    let flow =
        |here: &FlowHere| Flow { here: *here, limit: here.fair.map(|r| limit(here, r, room)) };
    let flows: Vec<Flow> = setting.flows.iter().filter(mine).map(flow).collect();
    let class = |here: &FlowHere| class_plan(here, room, queue);
    let classes = setting.flows.iter().filter(mine).map(class).collect();
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: queue },
    };
    Ok(Instance {
        control: Box::new(Source { room, flows }),
        plan: Plan { point: Point::Local, classes, template: Some(template) },
    })
}

fn class_plan(here: &FlowHere, room: f64, queue: u32) -> ClassPlan {
    let packet = u64::from(here.packet.max(1));
    let rate = here.fair.map(|fair| limit(here, fair, room));
    let depth = rate.map_or(0, |r| (r.0 / 8 / BUFFER_PARTS).div_ceil(packet).min(BUFFER_MAX));
    ClassPlan {
        class: Class::Flow(here.flow),
        limit: rate.map_or(Limit::None, Limit::Rate),
        burst: Bytes(packet),
        leaf: Leaf::DropTail { packets: queue.max(depth as u32) },
    }
}

/// Returns the limit in IP bytes for a fair rate of application data.
///
/// At least one bit per second, since no bucket has a rate of zero.
fn limit(here: &FlowHere, fair: BitRate, room: f64) -> BitRate {
    let exact = here.ip_rate(fair).0;
    BitRate(exact.saturating_add((exact as f64 * room) as u64).max(1))
}

/// Source rate control at one node.
#[derive(Debug)]
struct Source {
    room: f64,
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    here: FlowHere,
    /// Limit in force.
    limit: Option<BitRate>,
}

impl Source {
    fn allocate(&mut self, flow: FlowId, fair: BitRate, actions: &mut Actions) {
        let Some(entry) = self.flows.iter_mut().find(|f| f.here.flow == flow) else { return };
        let rate = limit(&entry.here, fair, self.room);
        if entry.limit == Some(rate) {
            return;
        }
        entry.limit = Some(rate);
        allow(actions, "source.allocation", flow, fair, rate);
    }
}

impl Control for Source {
    fn on(&mut self, _now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Allocation(a) => self.allocate(a.flow, a.rate, actions),
            Event::FlowSeen(here) if here.place == Place::Source => {
                match self.flows.iter_mut().find(|f| f.here.flow == here.flow) {
                    Some(known) => known.here = *here,
                    None => self.flows.push(Flow { here: *here, limit: None }),
                }
                if let Some(fair) = here.fair {
                    self.allocate(here.flow, fair, actions);
                }
            }
            // A flow that is gone keeps its class: an idle class costs nothing, and packets may wait there.
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lookup;
    use crate::{Action, Allocation, Offers, Site};
    use fairmesh_units::{NodeId, Stream};

    const MBIT: u64 = 1_000_000;

    fn here(flow: u32, place: Place, fair: Option<u64>) -> FlowHere {
        FlowHere::new(FlowId(flow), place, 1460, 1500)
            .with_next_hop(Some(NodeId(1)))
            .with_fair(fair.map(BitRate))
    }

    fn start(flows: Vec<FlowHere>, parameters: &[(&str, f64)]) -> Instance {
        let site = Site::new().with_sources(true);
        let setting = Setting::new(NodeId(0), site, Stream::new(1, "control/n0")).with_flows(flows);
        let offers = Offers::everything("test");
        let mut mechanism = lookup("source").unwrap();
        for (parameter, value) in parameters {
            mechanism.set(parameter, *value).unwrap();
        }
        mechanism.start(setting, &offers).unwrap().unwrap()
    }

    fn rates(instance: &mut Instance, event: Event<'_>) -> Vec<(Class, Option<BitRate>)> {
        let mut actions = Actions::new();
        instance.control.on(Time::ZERO, &event, &mut actions);
        let rate = |a: &Action| match a {
            Action::SetRate { class, rate } => Some((*class, *rate)),
            _ => None,
        };
        actions.iter().filter_map(rate).collect()
    }

    #[test]
    fn only_local_flows_get_a_class() {
        let i = start(
            vec![
                here(0, Place::Source, Some(MBIT)),
                here(1, Place::Forwarder, Some(MBIT)),
                here(2, Place::Sink, Some(MBIT)),
                here(3, Place::Source, None),
            ],
            &[],
        );
        assert_eq!(i.plan.point, Point::Local);
        let classes: Vec<_> = i.plan.classes.iter().map(|c| (c.class, c.limit)).collect();
        // 1 Mbit/s of data in packets of 1500 bytes that carry 1460
        let limit = Limit::Rate(BitRate((MBIT * 1500).div_ceil(1460)));
        assert_eq!(
            classes,
            [(Class::Flow(FlowId(0)), limit), (Class::Flow(FlowId(3)), Limit::None)]
        );
    }

    #[test]
    fn a_packet_of_burst_and_a_buffer_for_tcp() {
        let fair = |rate| vec![here(0, Place::Source, Some(rate))];
        let leaf = |i: &Instance| i.plan.classes[0].leaf;
        let slow = start(fair(65_000), &[]);
        assert_eq!(slow.plan.classes[0].burst, Bytes(1500));
        assert_eq!(leaf(&slow), Leaf::DropTail { packets: 10 });
        // A fifth of a second of 10.27 Mbit/s with headers is 256 kB, 172 packets.
        assert_eq!(leaf(&start(fair(10 * MBIT), &[])), Leaf::DropTail { packets: 172 });
        assert_eq!(leaf(&start(fair(65_000), &[("queue", 25.0)])), Leaf::DropTail { packets: 25 });
    }

    #[test]
    fn the_plan_has_the_first_allocation_already() {
        let mut i = start(vec![here(0, Place::Source, Some(MBIT))], &[]);
        let same = Allocation { flow: FlowId(0), rate: BitRate(MBIT) };
        assert_eq!(rates(&mut i, Event::Allocation(same)), []);
    }

    #[test]
    fn follows_new_allocations() {
        let mut i = start(vec![here(4, Place::Source, None)], &[("room", 0.5)]);
        let allocate =
            |flow, rate| Event::Allocation(Allocation { flow: FlowId(flow), rate: BitRate(rate) });
        let class = Class::Flow(FlowId(4));
        assert_eq!(rates(&mut i, allocate(4, 146_000)), [(class, Some(BitRate(225_000)))]);
        assert_eq!(rates(&mut i, allocate(4, 146_000)), [], "nothing new, nothing done");
        assert_eq!(rates(&mut i, allocate(9, 146_000)), [], "not a flow of this node");
        assert_eq!(rates(&mut i, allocate(4, 0)), [(class, Some(BitRate(1)))]);
        // A later flow arrives with its rate or gets it by an allocation.
        assert_eq!(
            rates(&mut i, Event::FlowSeen(here(5, Place::Source, Some(146_000)))),
            [(Class::Flow(FlowId(5)), Some(BitRate(225_000)))]
        );
        assert_eq!(rates(&mut i, Event::FlowSeen(here(6, Place::Forwarder, Some(1)))), []);
        assert_eq!(rates(&mut i, Event::FlowSeen(here(7, Place::Source, None))), []);
        assert_eq!(rates(&mut i, allocate(7, 146_000)).len(), 1);
    }

    #[test]
    fn the_reason_names_flow_and_rate() {
        let mut i = start(vec![here(4, Place::Source, None)], &[]);
        let mut actions = Actions::new();
        let event = Event::Allocation(Allocation { flow: FlowId(4), rate: BitRate(146_000) });
        i.control.on(Time::ZERO, &event, &mut actions);
        let Some(Action::Because(reason)) = actions.iter().next() else { panic!() };
        assert_eq!(reason.code, "source.allocation");
        assert_eq!(
            reason.to_string(),
            "flow 4 may send 146 kbit/s of data, 150 kbit/s with headers"
        );
    }
}
