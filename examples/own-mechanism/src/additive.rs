//! `additive`: the gateway raises all limits by a step in every epoch.
//!
//! It halves them if a flow gets much less than its limit.

use fairmesh_control::units::{BitRate, Bytes, FlowId, Span, Time};
use fairmesh_control::{
    Ability, AbilitySet, Actions, Class, ClassPlan, Control, Definition, Event, EventKind,
    EventSet, FlowHere, Instance, Leaf, Limit, Needs, Origin, Placement, PlacementSet, Plan, Point,
    Reason, Refusal, Setting, Value,
};

fairmesh_control::options! {
    /// Options of `additive`.
    struct Options {
        variants {}
        parameters {
            step: f64 = 10.0, 0.1..=1e5, "kbit/s", "increase of each limit per epoch";
            epoch: Span = 2.0, 0.5..=600.0, "s", "time between decisions";
        }
    }
}

/// Limit of a flow before the first decision.
const FIRST: BitRate = BitRate(50_000);
/// Fraction of its limit below which a backlogged flow counts as starved.
const STARVED: f64 = 0.5;
/// Fraction of its limit below which a flow counts as idle, and is not judged.
const IDLE: f64 = 0.02;

/// Returns the definition of the mechanism for a registry.
pub fn definition() -> Definition {
    let about = "all limits rise by a step per epoch and are halved when a flow starves";
    Definition::new("additive", about, Origin::ours(""))
        .with_revision(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")))
        .with_options(|_: &Options| needs(), build)
}

/// Returns its needs: it runs at the gateway, reads flow counters, and sets flow limits.
fn needs() -> Vec<Needs> {
    vec![Needs {
        at: PlacementSet::of(&[Placement::Gateway]),
        events: EventSet::of(&[EventKind::FlowCounters]),
        abilities: AbilitySet::of(&[Ability::LimitTransit, Ability::FlowClasses]),
        ..Needs::default()
    }]
}

fn build(options: &Options, setting: Setting) -> Result<Instance, Refusal> {
    let template = ClassPlan {
        class: Class::Flow(FlowId(0)),
        limit: Limit::Rate(FIRST),
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: 10 },
    };
    let class = |here: &FlowHere| ClassPlan {
        class: Class::Flow(here.flow),
        burst: Bytes(u64::from(here.packet.max(1))),
        ..template
    };
    let flow = |here: &FlowHere| Flow { id: here.flow, bytes: 0, before: 0 };
    let classes = setting.flows.iter().map(class).collect();
    let control = Additive {
        step: options.step * 1e3,
        epoch: options.epoch,
        limit: FIRST.0 as f64,
        flows: setting.flows.iter().map(flow).collect(),
        began: None,
        due: Time::ZERO,
    };
    Ok(Instance {
        control: Box::new(control),
        plan: Plan { point: Point::Transit, classes, template: Some(template) },
    })
}

/// Bytes of a flow at the latest sample and at the start of the epoch.
#[derive(Debug)]
struct Flow {
    id: FlowId,
    bytes: u64,
    before: u64,
}

#[derive(Debug)]
struct Additive {
    /// Increase per epoch, bit/s.
    step: f64,
    epoch: Span,
    /// Limit of every flow, bit/s.
    limit: f64,
    flows: Vec<Flow>,
    began: Option<Time>,
    due: Time,
}

impl Additive {
    fn decide(&mut self, seconds: f64, actions: &mut Actions) {
        let limit = self.limit;
        let part = |f: &Flow| (f.bytes - f.before.min(f.bytes)) as f64 * 8.0 / seconds / limit;
        let starved = self.flows.iter().find(|f| (IDLE..STARVED).contains(&part(f)));
        let change = match starved {
            Some(_) => self.limit / 2.0,
            None => self.limit + self.step,
        };
        self.limit = change.max(self.step.min(FIRST.0 as f64));
        let rate = BitRate(self.limit as u64);
        actions.because(match starved {
            Some(flow) => Reason::new(
                "additive.decrease",
                "flow {} gets less than half of its limit: {} each",
                &[Value::Flow(flow.id), Value::Rate(rate)],
            ),
            None => {
                Reason::new("additive.increase", "no flow starves: {} each", &[Value::Rate(rate)])
            }
        });
        for flow in &self.flows {
            actions.set_rate(Class::Flow(flow.id), rate);
        }
    }
}

impl Control for Additive {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::FlowCounters(c) => match self.flows.iter_mut().find(|f| f.id == c.flow) {
                Some(flow) => flow.bytes = c.bytes,
                None => self.flows.push(Flow { id: c.flow, bytes: c.bytes, before: c.bytes }),
            },
            Event::FlowGone(gone) => self.flows.retain(|f| f.id != *gone),
            Event::Deadline if now >= self.due => {
                if let Some(began) = self.began.filter(|began| *began < now) {
                    self.decide(now.since(began).as_secs_f64(), actions);
                }
                self.flows.iter_mut().for_each(|f| f.before = f.bytes);
                self.began = Some(now);
                self.due = now + self.epoch;
            }
            _ => {}
        }
        // On a late host the next deadline must not be in the past.
        self.due = self.due.max(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }
}
