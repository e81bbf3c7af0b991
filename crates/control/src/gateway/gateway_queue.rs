//! `fq`, `red`, `fred`: another queue in place of the gateway's transmit queue (Jamshaid 2010
//! §6.2.1, §6.2.2).
//!
//! All three keep the radio busy while there is anything to send, which is why they fail: what
//! decides in a mesh is not the order of packets at the gateway but how much is let in.

use fairmesh_units::{Bytes, Time};

use crate::Origin::Published;
use crate::contract::parameter::{options, own_buffers};
use crate::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Entry, Event, Instance, Leaf, Limit,
    Needs, Parameter, Placement, PlacementSet, Plan, Point, Refusal, Runs,
};

options! {
    variants {
        ecn: Published("Floyd 1994; RFC 3168"), "marks ECN-capable packets instead of dropping";
    }
    parameters {
        /// §6.3.2: a queue of 50 packets.
        queue: u32 = 50.0, 1.0..=1000.0, "packets", "hard limit";
    }
}

/// §6.3.3: per-flow buffers of 5 packets.
const PER_FLOW: [Parameter; Options::PARAMETERS.len()] =
    own_buffers(Options::PARAMETERS, "buffer of each flow", 5.0);

pub(crate) static FQ: Entry = Entry {
    name: "fq",
    about: "fair queueing in the gateway's transmit queue",
    origin: Published("Jamshaid 2010 §6.2.1"),
    variants: &[],
    parameters: &PER_FLOW,
    runs: Runs::At {
        needs: |_| needs(),
        build: |c, _| build(Leaf::Fair { packets: Options::of(c).queue }),
    },
};

pub(crate) static RED: Entry = Entry {
    name: "red",
    about: "random early detection in the gateway's transmit queue",
    origin: Published("Jamshaid 2010 §6.2.2"),
    variants: Options::VARIANTS,
    parameters: Options::PARAMETERS,
    runs: Runs::At {
        needs: |_| needs(),
        build: |c, _| {
            let Options { queue: packets, ecn } = Options::of(c);
            build(Leaf::Red { packets, ecn })
        },
    },
};

pub(crate) static FRED: Entry = Entry {
    name: "fred",
    about: "flow random early drop in the gateway's transmit queue",
    origin: Published("Jamshaid 2010 §6.2.2"),
    variants: &[],
    parameters: Options::PARAMETERS,
    runs: Runs::At {
        needs: |_| needs(),
        build: |c, _| build(Leaf::Fred { packets: Options::of(c).queue }),
    },
};

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

/// The plan is all there is to it.
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
