//! `fq`, `red`, `fred`: another queue at the gateway (Jamshaid 2010 §6.2.1, §6.2.2).
//!
//! All three keep the radio busy while packets wait, which is the reason that they fail: fairness in a mesh
//! does not depend on the order of packets at the gateway but on the amount of traffic admitted.

use fairmesh_units::{Bytes, Time};

use crate::options;
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Event, Instance, Leaf,
    Limit, Needs, Origin, Placement, PlacementSet, Plan, Point, Refusal,
};

options! {
    /// Options of `fred`, and of `fq` with another default.
    struct Buffer {
        variants {}
        parameters {
            /// §6.3.2: a queue of 50 packets.
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "largest queue";
        }
    }
}

options! {
    /// Options of `red`.
    struct Early {
        variants {
            ecn: Origin::published("Floyd 1994; RFC 3168"), "marks ECN-capable packets instead of dropping";
        }
        parameters {
            /// §6.3.2: a queue of 50 packets.
            queue: u32 = 50.0, 1.0..=1000.0, "packets", "largest queue";
        }
    }
}

pub(crate) fn fq() -> Definition {
    let about = "fair queueing in the gateway's transmit queue";
    Definition::new("fq", about, Origin::published("Jamshaid 2010 §6.2.1"))
        .with_options(|_: &Buffer| needs(), |o, _| build(Leaf::Fair { packets: o.queue }))
        // §6.3.3: per-flow buffers of 5 packets.
        .with_default("queue", "buffer of each flow", 5.0)
}

pub(crate) fn red() -> Definition {
    let about = "random early detection in the gateway's transmit queue";
    Definition::new("red", about, Origin::published("Jamshaid 2010 §6.2.2"))
        .with_options(|_: &Early| needs(), |o, _| build(Leaf::Red { packets: o.queue, ecn: o.ecn }))
}

pub(crate) fn fred() -> Definition {
    let about = "flow random early drop in the gateway's transmit queue";
    Definition::new("fred", about, Origin::published("Jamshaid 2010 §6.2.2"))
        .with_options(|_: &Buffer| needs(), |o, _| build(Leaf::Fred { packets: o.queue }))
}

fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        abilities: AbilitySet::of(&[Ability::ReplaceQueue]),
        ..Needs::default()
    }]
}

fn build(leaf: Leaf) -> Result<Instance, Refusal> {
    let class = ClassPlan { class: Class::All, limit: Limit::None, burst: Bytes(1500), leaf };
    Ok(Instance {
        control: Box::new(Untouched),
        plan: Plan { point: Point::Interface, classes: vec![class], template: None },
    })
}

/// A control without actions: the plan is sufficient.
#[derive(Debug)]
struct Untouched;

impl Control for Untouched {
    fn on(&mut self, _now: Time, _event: &Event<'_>, _actions: &mut Actions) {}
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gateway, start_with};

    #[test]
    fn each_replaces_the_transmit_queue_by_its_own() {
        let leaf = |name: &str, parameters: &[(&str, f64)]| {
            let i = start_with(name, gateway(&[1, 2]), parameters).unwrap();
            assert_eq!(i.plan.point, Point::Interface);
            assert_eq!(i.control.next_deadline(), None);
            let [class] = i.plan.classes[..] else { panic!("{name}: one class") };
            assert_eq!((class.class, class.limit), (Class::All, Limit::None));
            class.leaf
        };
        assert_eq!(leaf("fq", &[]), Leaf::Fair { packets: 5 });
        assert_eq!(leaf("fq", &[("queue", 20.0)]), Leaf::Fair { packets: 20 });
        assert_eq!(leaf("red", &[]), Leaf::Red { packets: 50, ecn: false });
        assert_eq!(leaf("red+ecn", &[]), Leaf::Red { packets: 50, ecn: true });
        assert_eq!(leaf("fred", &[]), Leaf::Fred { packets: 50 });
    }
}
