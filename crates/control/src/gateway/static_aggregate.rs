//! `static`, `static-fq`: one limit for all data through the gateway.
//!
//! The limit is the sum of the analytic fair rates (Jamshaid 2010 §6.2.3, Fig. 6.1a and b).
//!
//! Fair rates are of application data, the bucket counts IP bytes: each flow adds its fair rate with the
//! headers of its own packets. A flow with a fair rate of 0 is not active and adds nothing; while no flow is
//! active the last limit stays.

use fairmesh_units::{BitRate, Bytes, FlowId, Time};

use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Delivery, Event,
    EventKind, EventSet, FlowHere, Instance, Knowledge, KnowledgeSet, Leaf, Limit, Needs, Origin,
    Placement, PlacementSet, Plan, Point, Reason, Refusal, Setting, Value,
};

options! {
    /// Options of `static`.
    pub(crate) struct Options {
        variants {}
        parameters {
            /// §6.3.3: 25 packets where flows share a buffer, 5 where each flow has its own.
            queue: u32 = 25.0, 1.0..=1000.0, "packets", "buffer shared by all flows";
            /// §7.3: the mesh shares a given aggregate.
            limit: u64 = 0.0, 0.0..=1e12, "bit/s", "IP rate of all flows together; 0: the sum of their fair rates";
        }
    }
}

pub(crate) fn shared() -> Definition {
    let about = "the gateway limits all data to the sum of the fair rates, one queue";
    Definition::new("static", about, Origin::published("Jamshaid 2010 §6.2.3")).with_options(
        |_: &Options| needs(),
        |o, setting| build(o, setting, "static", Leaf::DropTail { packets: o.queue }),
    )
}

pub(crate) fn fair() -> Definition {
    let about = "the gateway limits all data to the sum of the fair rates, a queue per flow";
    Definition::new("static-fq", about, Origin::published("Jamshaid 2010 §6.2.3"))
        .with_options(
            |_: &Options| needs(),
            |o, setting| build(o, setting, "static-fq", Leaf::Fair { packets: o.queue }),
        )
        .with_default("queue", "buffer of each flow", 5.0)
}

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::Allocations]),
        abilities: AbilitySet::of(&[Ability::LimitTransit]),
        knowledge: KnowledgeSet::of(&[Knowledge::FairRates]),
        header_bytes: 0,
        delivery: Delivery::default(),
    }]
}

fn build(
    options: &Options,
    setting: Setting,
    name: &'static str,
    leaf: Leaf,
) -> Result<Instance, Refusal> {
    let given = options.limit;
    let mut control = StaticAggregate {
        name,
        given: (given > 0).then_some(BitRate(given)),
        flows: Vec::with_capacity(setting.flows.len()),
        sum: 0,
        limit: None,
    };
    for here in &setting.flows {
        control.put(here);
    }
    control.limit = control.wanted();
    let class = ClassPlan {
        class: Class::All,
        limit: control.limit.map_or(Limit::None, Limit::Rate),
        burst: Bytes(setting.flows.iter().map(|f| u64::from(f.packet)).max().unwrap_or(1500)),
        leaf,
    };
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Transit, classes: vec![class], template: None },
    })
}

#[derive(Debug)]
struct StaticAggregate {
    name: &'static str,
    /// Configured limit, if there is one.
    given: Option<BitRate>,
    /// By id: the flow and its contribution to the sum.
    flows: Vec<(FlowHere, u64)>,
    /// Sum of the rates of IP bytes, bit/s; 128 bits hold any sum.
    sum: u128,
    limit: Option<BitRate>,
}

impl StaticAggregate {
    /// Adds or replaces a flow.
    fn put(&mut self, here: &FlowHere) {
        let place = match self.flows.binary_search_by_key(&here.flow, |f| f.0.flow) {
            Ok(known) => {
                self.flows[known].0 = *here;
                known
            }
            Err(place) => {
                self.flows.insert(place, (*here, 0));
                place
            }
        };
        if let Some(fair) = here.fair {
            self.allow(place, fair);
        }
    }

    fn allow(&mut self, place: usize, fair: BitRate) {
        let (here, share) = &mut self.flows[place];
        let new = here.ip_rate(fair).0;
        self.sum = self.sum - u128::from(*share) + u128::from(new);
        *share = new;
    }

    fn forget(&mut self, flow: FlowId) {
        if let Ok(place) = self.flows.binary_search_by_key(&flow, |f| f.0.flow) {
            self.sum -= u128::from(self.flows.remove(place).1);
        }
    }

    fn wanted(&self) -> Option<BitRate> {
        if self.given.is_some() {
            return self.given;
        }
        let sum = BitRate(u64::try_from(self.sum).unwrap_or(u64::MAX));
        if sum.0 > 0 { Some(sum) } else { self.limit }
    }

    fn decide(&mut self, actions: &mut Actions) {
        let wanted = self.wanted();
        let (true, Some(rate)) = (wanted != self.limit, wanted) else { return };
        self.limit = wanted;
        let there = self.flows.iter().filter(|f| f.1 > 0).count() as u64;
        let code = if self.name == "static" { "static.allocation" } else { "static-fq.allocation" };
        actions.because(Reason::new(
            code,
            "the fair rates of {} flows add up to {} with headers",
            &[Value::Count(there), Value::Rate(rate)],
        ));
        actions.set_rate(Class::All, rate);
    }
}

impl Control for StaticAggregate {
    fn on(&mut self, _now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Allocation(a) => {
                let place = self.flows.binary_search_by_key(&a.flow, |f| f.0.flow);
                let Ok(place) = place else { return };
                self.allow(place, a.rate);
            }
            Event::FlowSeen(here) => self.put(here),
            Event::FlowGone(flow) => self.forget(*flow),
            _ => return,
        }
        self.decide(actions);
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

    const PACKET: u64 = 1500;

    /// The test flow's packets carry 1460 of 1500 bytes.
    fn ip(goodput: u64) -> u64 {
        (goodput * PACKET).div_ceil(1460)
    }

    #[test]
    fn the_limit_is_the_sum_of_fair_rates_with_headers() {
        let mut setting = gateway(&[1, 2]);
        setting.flows[0].fair = Some(BitRate(146_000));
        setting.flows[1].fair = Some(BitRate(292_000));
        let i = start("static", setting.clone());
        assert_eq!(i.plan.point, Point::Transit);
        let [class] = i.plan.classes[..] else { panic!() };
        assert_eq!(class.limit, Limit::Rate(BitRate(450_000)));
        assert_eq!(class.leaf, Leaf::DropTail { packets: 25 });
        let i = start_with("static-fq", setting, &[("queue", 7.0)]).unwrap();
        assert_eq!(i.plan.classes[0].leaf, Leaf::Fair { packets: 7 });
    }

    #[test]
    fn a_limit_that_is_given_stays() {
        let mut i = start_with("static", gateway(&[1, 2]), &[("limit", 350e3)]).unwrap();
        assert_eq!(i.plan.classes[0].limit, Limit::Rate(BitRate(350_000)));
        let allocation = Allocation { flow: FlowId(1), rate: BitRate(1_000_000) };
        assert_eq!(limits(&mut i, Time::ZERO, Event::Allocation(allocation)), []);
    }

    #[test]
    fn the_limit_follows_allocations_and_flows() {
        let mut i = start("static-fq", gateway(&[1, 2]));
        assert_eq!(i.plan.classes[0].limit, Limit::None, "no fair rate yet");
        let mut at = |event| limits(&mut i, Time::ZERO, event);
        let allocate =
            |f, rate| Event::Allocation(Allocation { flow: FlowId(f), rate: BitRate(rate) });
        let all = |rate| vec![(Class::All, rate)];
        assert_eq!(at(allocate(1, 100_000)), all(ip(100_000)));
        assert_eq!(at(allocate(1, 100_000)), [], "nothing new");
        assert_eq!(at(allocate(2, 50_000)), all(ip(100_000) + ip(50_000)));
        assert_eq!(at(allocate(9, 50_000)), [], "does not cross the gateway");
        assert_eq!(at(allocate(1, 0)), all(ip(50_000)), "not there any more");
        assert_eq!(at(allocate(2, 0)), [], "nobody there: no limit of 0");
        let late = FlowHere { fair: Some(BitRate(70_000)), ..flow(5) };
        assert_eq!(at(Event::FlowSeen(late)), all(ip(70_000)));
        assert_eq!(at(allocate(2, 50_000)), all(ip(70_000) + ip(50_000)));
        assert_eq!(at(Event::FlowGone(FlowId(5))), all(ip(50_000)));
    }
}
