//! Tests of the driver, with a scripted mechanism and a node that records every call.

use std::collections::VecDeque;

use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::*;

const FLOW: Class = Class::Flow(FlowId(1));

/// Actions at each event, in order, and the time of the next deadline.
#[derive(Debug, Default)]
struct Script {
    delivered: Vec<Option<EventKind>>,
    turns: VecDeque<fn(&mut Actions)>,
    next: Option<Time>,
    /// Time from a deadline to the next; `None` requests the same time again.
    every: Option<Span>,
}

impl Control for Script {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        self.delivered.push(event.kind());
        if *event == Event::Deadline {
            self.next = self.every.map_or(self.next, |e| Some(now + e));
        }
        if let Some(turn) = self.turns.pop_front() {
            turn(actions);
        }
    }
    fn next_deadline(&self) -> Option<Time> {
        self.next
    }
}

fn plan() -> Plan {
    let class = |class| ClassPlan {
        class,
        limit: Limit::None,
        burst: Bytes(1500),
        leaf: Leaf::DropTail { packets: 5 },
    };
    Plan { point: Point::Transit, classes: vec![class(FLOW)], template: Some(class(FLOW)) }
}

fn driver(script: Script, needs: Needs) -> Driver {
    Driver::of(Instance { control: Box::new(script), plan: plan() }, needs)
}

fn needs(events: &[EventKind], abilities: &[Ability]) -> Needs {
    Needs { events: EventSet::of(events), abilities: AbilitySet::of(abilities), ..Needs::default() }
}

fn doing(turns: &[fn(&mut Actions)]) -> Script {
    Script { turns: turns.iter().copied().collect(), ..Script::default() }
}

/// Records each call, and gives two samples of each kind.
#[derive(Default)]
struct Notes(Vec<String>);

impl Node for Notes {
    fn sample(&mut self, _: Time, kind: EventKind, samples: &mut Samples<'_>) {
        self.0.push(format!("sample {kind:?}"));
        for n in 0..2 {
            samples.give(sample(kind, n));
        }
    }
    fn build(&mut self, _: Time, class: &ClassPlan, why: Option<&Reason>) {
        self.0.push(format!("build {} ({})", class.class, why.map_or("-", |r| r.code)));
    }
    fn carry_out(&mut self, _: Time, action: &Action, body: &[u8], why: Option<&Reason>) {
        let why = why.map_or("-", |r| r.code);
        let what = match *action {
            Action::SetRate { class, rate } => format!("rate {class} {:?}", rate.map(|r| r.0)),
            Action::Remove { class } => format!("remove {class}"),
            Action::Send { .. } | Action::HandOver { .. } => {
                format!("{} {body:?}", action.kind().name())
            }
            _ => action.kind().name().to_owned(),
        };
        self.0.push(format!("{what} ({why})"));
    }
    fn decided(&mut self, _: Time, reason: &Reason) {
        self.0.push(format!("because {}", reason.code));
    }
    fn settled(&mut self, _: Time) {
        self.0.push("settled".into());
    }
}

fn sample(kind: EventKind, n: u32) -> Event<'static> {
    let length = QueueLength { class: Class::All, packets: n, bytes: 0 };
    match kind {
        EventKind::Counters => Event::Counters(Counters {
            class: FLOW,
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            queued_packets: n,
            queued_bytes: 0,
        }),
        EventKind::FlowCounters => {
            Event::FlowCounters(FlowCounters { flow: FlowId(n), bytes: 0, packets: 0 })
        }
        EventKind::Channel => Event::Channel(Channel {
            active: Span::ZERO,
            busy: Span::ZERO,
            receive: Span::ZERO,
            transmit: Span::ZERO,
        }),
        _ => Event::Queue(length),
    }
}

fn because(actions: &mut Actions, code: &'static str) {
    actions.because(Reason::new(code, code, &[]));
}

#[test]
fn samples_come_in_order_and_the_deadline_last() {
    let asked = [EventKind::QueueSamples, EventKind::FlowCounters, EventKind::Counters];
    let script = Script { every: Some(Span::from_secs(1)), ..Script::default() };
    let mut d = driver(script, needs(&[&asked[..], &[EventKind::Sent]].concat(), &[]));
    let mut notes = Notes::default();
    d.deadline(Time::ZERO, &mut notes);
    assert_eq!(notes.0, ["sample Counters", "sample FlowCounters", "sample QueueSamples"]);
    assert_eq!(d.due(), Time::ZERO + Span::from_secs(1));
}

#[test]
fn actions_have_the_reason_before_them_and_each_decision_is_kept_once() {
    let script = doing(&[|a| {
        a.set_rate(FLOW, BitRate(1));
        because(a, "first");
        a.set_rate(FLOW, BitRate(2));
        a.lift_limit(FLOW);
        because(a, "nothing");
        because(a, "given");
        a.send(None, &[7, 8]);
        a.set_rate(FLOW, BitRate(3));
        because(a, "last");
    }]);
    let mut d = driver(script, needs(&[], &[Ability::Send]));
    let mut notes = Notes::default();
    d.begin(Time::ZERO, &mut notes);
    d.deliver_and_act(Time::ZERO, &Event::Deadline, &mut notes);
    assert_eq!(
        notes.0,
        [
            "build flow 1 (-)",
            "rate flow 1 Some(1) (-)",
            "because first",
            "rate flow 1 Some(2) (first)",
            "rate flow 1 None (first)",
            "because nothing",
            "send a message [7, 8] (given)",
            "rate flow 1 Some(3) (given)",
            "because last",
            "settled",
        ]
    );
}

#[test]
fn classes_are_built_when_first_named_and_once() {
    let script = doing(&[
        |a| a.set_rate(Class::Flow(FlowId(9)), BitRate(5)),
        |a| a.set_rate(Class::Flow(FlowId(9)), BitRate(6)),
        |a| a.remove(Class::Flow(FlowId(9))),
        |a| a.remove(Class::Flow(FlowId(9))),
        |a| a.lift_limit(Class::Flow(FlowId(9))),
        |a| a.set_rate(Class::All, BitRate(5)),
        |a| a.set_rate(Class::All, BitRate(5)),
    ]);
    let mut d = driver(script, needs(&[], &[]));
    let mut notes = Notes::default();
    d.begin(Time::ZERO, &mut notes);
    for _ in 0..7 {
        d.deliver_and_act(Time::ZERO, &Event::Deadline, &mut notes);
    }
    notes.0.retain(|n| n != "settled");
    assert_eq!(
        notes.0,
        [
            "build flow 1 (-)",
            "build flow 9 (-)",
            "rate flow 9 Some(5) (-)",
            "rate flow 9 Some(6) (-)",
            "remove flow 9 (-)",
            "build flow 9 (-)",
            "rate flow 9 None (-)",
            "because contract.class",
        ]
    );
}

#[test]
fn undeclared_and_stopping_actions_are_ignored() {
    let script = doing(&[
        |a| a.mark(Class::All, 0.5),
        |a| a.set_rate(FLOW, BitRate(0)),
        |a| a.set_airtime(FLOW, Share::new(0.5)),
        |a| a.ack_bits(3),
    ]);
    let mut d = driver(script, needs(&[], &[Ability::AckBits]));
    let mut notes = Notes::default();
    d.begin(Time::ZERO, &mut notes);
    for _ in 0..4 {
        d.deliver_and_act(Time::ZERO, &Event::Deadline, &mut notes);
    }
    notes.0.retain(|n| n != "settled");
    assert_eq!(
        notes.0,
        [
            "build flow 1 (-)",
            "because contract.ability",
            "because contract.rate",
            "set bits of acknowledgements (-)"
        ]
    );
}

/// A mechanism that always requests an immediate deadline is called with pauses.
///
/// Nothing is lost.
#[test]
fn a_hurried_mechanism_is_contained() {
    let script = Script { next: Some(Time::ZERO), ..Script::default() };
    let mut d = driver(script, needs(&[], &[]));
    let mut notes = Notes::default();
    let end = Time::ZERO + Span::from_secs(1);
    let mut calls = 0;
    while d.due() <= end {
        let now = d.due();
        d.deadline(now, &mut notes);
        assert!(d.due() > now);
        calls += 1;
    }
    assert_eq!(calls, 1001);
    assert_eq!(notes.0, ["because contract.deadline", "settled"]);
    // An event in between moves its deadline to now, and no earlier.
    let late = end + Span::from_secs(1);
    d.deliver_and_act(late, &Event::FlowGone(FlowId(0)), &mut notes);
    assert_eq!(d.due(), late);
}

#[test]
fn time_never_runs_backwards_for_a_mechanism() {
    #[derive(Debug)]
    struct Watch(Time);
    impl Control for Watch {
        fn on(&mut self, now: Time, _: &Event<'_>, _: &mut Actions) {
            assert!(now >= self.0);
            self.0 = now;
        }
        fn next_deadline(&self) -> Option<Time> {
            None
        }
    }
    let instance = Instance { control: Box::new(Watch(Time::ZERO)), plan: Plan::none() };
    let mut d = Driver::of(instance, needs(&[], &[]));
    for s in [3, 1, 4] {
        d.deliver(Time::ZERO + Span::from_secs(s), &Event::FlowGone(FlowId(0)));
    }
}

/// Counters and a new limit of all traffic, over and over.
#[test]
fn nothing_is_allocated_once_it_runs() {
    #[derive(Debug)]
    struct Busy(u64);
    impl Control for Busy {
        fn on(&mut self, _: Time, event: &Event<'_>, actions: &mut Actions) {
            if *event == Event::Deadline {
                self.0 += 1;
                because(actions, "busy");
                for f in 0..100 {
                    actions.set_rate(Class::Flow(FlowId(f)), BitRate(1 + self.0));
                }
                actions.send(Some(NodeId(1)), &[1; 40]);
            }
        }
        fn next_deadline(&self) -> Option<Time> {
            Some(Time::from_nanos(self.0))
        }
    }
    #[derive(Default)]
    struct Count(u64);
    impl Node for Count {
        fn sample(&mut self, _: Time, kind: EventKind, samples: &mut Samples<'_>) {
            samples.give(sample(kind, 0));
        }
        fn build(&mut self, _: Time, _: &ClassPlan, _: Option<&Reason>) {
            self.0 += 1;
        }
        fn carry_out(&mut self, _: Time, _: &Action, _: &[u8], _: Option<&Reason>) {
            self.0 += 1;
        }
        fn decided(&mut self, _: Time, _: &Reason) {
            self.0 += 1;
        }
    }
    let instance = Instance { control: Box::new(Busy(0)), plan: plan() };
    let mut d = Driver::of(instance, needs(&[EventKind::Counters], &[Ability::Send]));
    let mut node = Count::default();
    d.begin(Time::ZERO, &mut node);
    d.deadline(d.due(), &mut node);
    let before = node.0;
    let info = allocation_counter::measure(|| {
        for _ in 0..1000 {
            d.deadline(d.due(), &mut node);
        }
    });
    assert_eq!(node.0 - before, 1000 * 102);
    assert_eq!(info.count_total, 0);
}

fn actions() -> impl Strategy<Value = Action> {
    let class = || {
        prop_oneof![
            Just(Class::All),
            (0u32..4).prop_map(|f| Class::Flow(FlowId(f))),
            (0u32..3).prop_map(|n| Class::Link(NodeId(n))),
        ]
    };
    prop_oneof![
        (class(), proptest::option::of(0u64..3))
            .prop_map(|(class, rate)| Action::SetRate { class, rate: rate.map(BitRate) }),
        class().prop_map(|class| Action::Remove { class }),
        (0u8..4).prop_map(|bits| Action::AckBits { bits }),
        Just(Action::Because(Reason::new("why", "why", &[]))),
    ]
}

/// Takes the given actions in each turn.
#[derive(Debug)]
struct ScriptedActions(VecDeque<Vec<Action>>);

impl Control for ScriptedActions {
    fn on(&mut self, _: Time, _: &Event<'_>, actions: &mut Actions) {
        for action in self.0.pop_front().into_iter().flatten() {
            match action {
                Action::SetRate { class, rate: Some(rate) } => actions.set_rate(class, rate),
                Action::SetRate { class, rate: None } => actions.lift_limit(class),
                Action::Remove { class } => actions.remove(class),
                Action::AckBits { bits } => actions.ack_bits(bits),
                Action::Because(reason) => actions.because(reason),
                _ => {}
            }
        }
    }
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// A host that trusts its driver.
///
/// A limit is set only on a class that exists, and a class is built only if it does not exist.
#[derive(Default)]
struct Trusting {
    limits: std::collections::BTreeMap<Class, Option<BitRate>>,
    bits: u8,
    reasons: usize,
}

impl Node for Trusting {
    fn sample(&mut self, _: Time, _: EventKind, _: &mut Samples<'_>) {}
    fn build(&mut self, _: Time, class: &ClassPlan, _: Option<&Reason>) {
        assert_eq!(self.limits.insert(class.class, None), None);
    }
    fn carry_out(&mut self, _: Time, action: &Action, _: &[u8], _: Option<&Reason>) {
        match *action {
            Action::SetRate { class, rate } => {
                assert_ne!(rate, Some(BitRate(0)));
                *self.limits.get_mut(&class).expect("a class that stands") = rate;
            }
            Action::Remove { class } => assert!(self.limits.remove(&class).is_some()),
            Action::AckBits { bits } => self.bits = bits,
            other => panic!("{other:?}"),
        }
    }
    fn decided(&mut self, _: Time, reason: &Reason) {
        self.reasons += usize::from(reason.code == "why");
    }
}

proptest! {
    /// For any actions and turns, a host that trusts its driver ends in the state that they set.
    ///
    /// The actions are applied in order.
    #[test]
    fn a_host_has_the_state_that_the_actions_set(turns in proptest::collection::vec(
        proptest::collection::vec(actions(), 0..10), 0..10)
    ) {
        let mut expected = Trusting::default();
        expected.limits.insert(FLOW, None);
        for action in turns.iter().flatten() {
            match *action {
                Action::SetRate { class, rate } if rate != Some(BitRate(0))
                    && (matches!(class, Class::Flow(_)) || expected.limits.contains_key(&class)) => {
                        expected.limits.insert(class, rate);
                    }
                Action::Remove { class } => drop(expected.limits.remove(&class)),
                Action::AckBits { bits } => expected.bits = bits,
                Action::Because(_) => expected.reasons += 1,
                _ => {}
            }
        }
        let n = turns.len();
        let instance = Instance { control: Box::new(ScriptedActions(turns.into())), plan: plan() };
        let mut d = Driver::of(instance, needs(&[], &[Ability::AckBits]));
        let mut node = Trusting::default();
        d.begin(Time::ZERO, &mut node);
        for _ in 0..n {
            d.deliver_and_act(Time::ZERO, &Event::FlowGone(FlowId(0)), &mut node);
        }
        prop_assert_eq!(node.limits, expected.limits);
        prop_assert_eq!((node.bits, node.reasons), (expected.bits, expected.reasons));
    }
}
