//! `static-flow`: each flow limited to its analytic fair rate (Jamshaid 2010 §6.2.3).
//!
//! Fig. 6.1c shows it.
//!
//! `limit = fair × (IP bytes of a full packet / application bytes in it)`. A flow with a fair rate of 0 is
//! not active and keeps its last limit. A configured limit applies to every flow and stays.

use fairmesh_units::{BitRate, Bytes, FlowId, Time};

use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin,
    Placement, PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `static-flow`.
    pub(crate) struct Options {
        variants {}
        parameters {
            /// §6.3.3, Fig. 6.6: 5 packets each.
            queue: u32 = 5.0, 1.0..=1000.0, "packets", "buffer of each flow";
            /// §6.4.2, Fig. 6.9b and d: the mesh carries a given limit.
            limit: u64 = 0.0, 0.0..=1e12, "bit/s", "IP rate of each flow; 0: its fair rate";
        }
    }
}

pub(crate) fn definition() -> Definition {
    let about = "the gateway limits each flow to its analytic fair rate";
    Definition::new("static-flow", about, Origin::published("Jamshaid 2010 §6.2.3"))
        .with_options(|_: &Options| needs(), build)
}

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::Allocations]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        knowledge: KnowledgeSet::of(&[Knowledge::FairRates]),
        header_bytes: 0,
        delivery: Delivery::default(),
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let leaf = Leaf::DropTail { packets: options.queue };
    let given = (options.limit > 0).then_some(BitRate(options.limit));
    let first = |here: &FlowHere| given.or_else(|| limit(here, here.fair?));
    let mut flows: Vec<(FlowHere, Option<BitRate>)> =
        setting.flows.iter().map(|here| (*here, first(here))).collect();
    flows.sort_by_key(|f| f.0.flow);
    let class = |(here, limit): &(FlowHere, Option<BitRate>)| ClassPlan {
        class: Class::Flow(here.flow),
        limit: limit.map_or(Limit::None, Limit::Rate),
        burst: Bytes(u64::from(here.packet.max(1))),
        leaf,
    };
    let classes = flows.iter().map(class).collect();
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: given.map_or(Limit::None, Limit::Rate),
        burst: Bytes(1500),
        leaf,
    };
    Ok(Instance {
        control: Box::new(StaticFlow { flows, given: given.is_some() }),
        plan: Plan { point: Point::Transit, classes, template: Some(template) },
    })
}

fn limit(here: &FlowHere, fair: BitRate) -> Option<BitRate> {
    (fair.0 > 0).then(|| here.ip_rate(fair))
}

/// Limits a flow, with its fair rate as the reason.
pub(crate) fn allow(
    actions: &mut Actions,
    code: &'static str,
    flow: FlowId,
    fair: BitRate,
    rate: BitRate,
) {
    actions.because(Reason::new(
        code,
        "flow {} may send {} of data, {} with headers",
        &[Value::Flow(flow), Value::Rate(fair), Value::Rate(rate)],
    ));
    actions.set_rate(Class::Flow(flow), rate);
}

#[derive(Debug)]
struct StaticFlow {
    /// By id: each flow and the limit in force.
    flows: Vec<(FlowHere, Option<BitRate>)>,
    /// True if all flows have the configured limit, whatever their fair rates.
    given: bool,
}

impl StaticFlow {
    fn allocate(&mut self, flow: FlowId, fair: BitRate, actions: &mut Actions) {
        if self.given {
            return;
        }
        let Ok(place) = self.flows.binary_search_by_key(&flow, |f| f.0.flow) else { return };
        let (here, in_force) = &mut self.flows[place];
        let Some(rate) = limit(here, fair) else { return };
        if in_force.replace(rate) == Some(rate) {
            return;
        }
        allow(actions, "static-flow.allocation", flow, fair, rate);
    }
}

impl Control for StaticFlow {
    fn on(&mut self, _now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Allocation(a) => self.allocate(a.flow, a.rate, actions),
            Event::FlowSeen(here) => {
                match self.flows.binary_search_by_key(&here.flow, |f| f.0.flow) {
                    Ok(known) => self.flows[known].0 = *here,
                    Err(place) => self.flows.insert(place, (*here, None)),
                }
                if let Some(fair) = here.fair {
                    self.allocate(here.flow, fair, actions);
                }
            }
            // As with `source`: an idle class costs nothing, and packets may wait there.
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
    use crate::Allocation;
    use crate::testing::{flow, gateway, limits, start, start_with};

    #[test]
    fn each_flow_has_its_fair_rate_with_headers() {
        let mut setting = gateway(&[1, 2]);
        setting.flows[0].fair = Some(BitRate(146_000));
        let mut i = start("static-flow", setting);
        let planned: Vec<_> = i.plan.classes.iter().map(|c| (c.class, c.limit, c.leaf)).collect();
        let leaf = Leaf::DropTail { packets: 5 };
        let class = |f| Class::Flow(FlowId(f));
        assert_eq!(
            planned,
            [(class(1), Limit::Rate(BitRate(150_000)), leaf), (class(2), Limit::None, leaf)]
        );
        let mut at = |event| limits(&mut i, Time::ZERO, event);
        let allocate =
            |f, rate| Event::Allocation(Allocation { flow: FlowId(f), rate: BitRate(rate) });
        assert_eq!(at(allocate(1, 146_000)), [], "is in the plan");
        assert_eq!(at(allocate(2, 292_000)), [(class(2), 300_000)]);
        assert_eq!(at(allocate(2, 0)), [], "a flow that is not there keeps its limit");
        assert_eq!(at(allocate(9, 1)), [], "does not cross the gateway");
        let late = FlowHere { fair: Some(BitRate(73_000)), ..flow(5) };
        assert_eq!(at(Event::FlowSeen(late)), [(class(5), 75_000)]);
    }

    #[test]
    fn a_given_limit_is_everybodys_and_stays() {
        let mut setting = gateway(&[1, 2]);
        setting.flows[0].fair = Some(BitRate(146_000));
        let mut i = start_with("static-flow", setting, &[("limit", 200_000.0)]).unwrap();
        let all = i.plan.classes.iter().chain(&i.plan.template).map(|c| c.limit);
        assert!(all.eq([Limit::Rate(BitRate(200_000)); 3]));
        let fair = Event::Allocation(Allocation { flow: FlowId(1), rate: BitRate(100_000) });
        assert_eq!(limits(&mut i, Time::ZERO, fair), []);
    }
}
