//! A mechanism for tests: its needs, its plan, and its actions on each event.

use std::cell::RefCell;

use fairmesh_control::*;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run_under};
use fairmesh_scenario::{Scenario, draft_from_toml};
use fairmesh_units::{NodeId, Span, Time};

type Act = Box<dyn FnMut(NodeId, Time, &Event<'_>, &mut Actions)>;

/// Configuration of the test mechanism.
pub struct Probe {
    pub needs: Needs,
    pub plan: fn(&Setting) -> Plan,
    /// Interval of its deadlines.
    pub every: Option<Span>,
    pub act: Act,
}

thread_local! {
    static NEEDS: RefCell<Needs> = RefCell::default();
    static PLAN: RefCell<fn(&Setting) -> Plan> = RefCell::new(|_| Plan::none());
    static EVERY: RefCell<Option<Span>> = const { RefCell::new(None) };
    static ACT: RefCell<Option<Act>> = const { RefCell::new(None) };
}

/// Returns a mechanism that acts as the test specifies.
fn definition() -> Definition {
    Definition::new("probe", "does the actions of a test", Origin::ours(""))
        .with_runs(Runs::at(|_| vec![NEEDS.with_borrow(|n| *n)], |_, setting| Ok(build(&setting))))
}

fn build(setting: &Setting) -> Instance {
    let plan = PLAN.with_borrow(|p| *p)(setting);
    let every = EVERY.with_borrow(|e| *e);
    let next = every.map(|_| Time::ZERO);
    Instance { control: Box::new(At { node: setting.node, every, next }), plan }
}

#[derive(Debug)]
struct At {
    node: NodeId,
    every: Option<Span>,
    next: Option<Time>,
}

impl Control for At {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        if *event == Event::Deadline {
            self.next = self.every.map(|e| now + e);
        }
        ACT.with_borrow_mut(|act| act.as_mut().unwrap()(self.node, now, event, actions));
    }
    fn next_deadline(&self) -> Option<Time> {
        self.next
    }
}

/// Needs of a mechanism at every node.
pub fn everywhere(events: &[EventKind], abilities: &[Ability]) -> Needs {
    Needs {
        at: PlacementSet::of(&[Placement::EveryNode]),
        events: EventSet::of(events),
        abilities: AbilitySet::of(abilities),
        ..Needs::default()
    }
}

pub fn scenario(toml: &str) -> Scenario {
    draft_from_toml("test.toml", toml).unwrap().build().unwrap()
}

/// Runs a scenario under a probe.
pub fn probe(scenario: &Scenario, p: Probe) -> RunRecord {
    NEEDS.set(p.needs);
    PLAN.set(p.plan);
    EVERY.set(p.every);
    ACT.set(Some(p.act));
    let mechanism = Mechanism::of(definition());
    let record = run_under(scenario, &RunOptions::default(), &mechanism);
    let record = record.unwrap_or_else(|e| panic!("{e}"));
    ACT.set(None);
    let t = &record.totals;
    assert_eq!(t.packets, t.delivered + t.stale + t.in_flight + t.drops.total(), "{t:?}");
    record
}

/// Runs a scenario under a probe that only listens; returns its result for each event.
pub fn listen<T: 'static>(
    scenario: &Scenario,
    needs: Needs,
    every: Option<Span>,
    mut keep: impl FnMut(NodeId, Time, &Event<'_>) -> Option<T> + 'static,
) -> (RunRecord, Vec<T>) {
    let kept = std::rc::Rc::new(RefCell::new(Vec::new()));
    let log = kept.clone();
    let act = move |node: NodeId, now: Time, event: &Event<'_>, _: &mut Actions| {
        log.borrow_mut().extend(keep(node, now, event));
    };
    let record =
        probe(scenario, Probe { needs, plan: |_| Plan::none(), every, act: Box::new(act) });
    (record, kept.take())
}
