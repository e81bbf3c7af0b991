//! Wrapper of another mechanism that records every event and action.

use std::cell::RefCell;

use fairmesh_units::{NodeId, Time};

use crate::{
    Action, Actions, Chosen, Class, Control, Definition, Delivery, Event, EventKind, EventSet,
    Header, Instance, Mechanism, Needs, Origin, Plan, Refusal, Runs, Setting,
};

/// An occurrence at a mechanism of a node.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// The mechanism was built at this node.
    Built { node: NodeId, plan: Plan, events: EventSet },
    /// The mechanism refused its setting.
    Refused,
    /// The mechanism received an event.
    ReceivedFrame { node: NodeId, now: Time, what: CheckedEvent },
    /// The mechanism took an action.
    Did { node: NodeId, action: Action, body: Vec<u8> },
    /// The mechanism requested its next deadline for this time.
    Due { node: NodeId, due: Option<Time> },
}

/// The part of an event that the suite checks.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum CheckedEvent {
    Deadline,
    /// A sample, with its class if it is of one.
    Sample(EventKind, Option<Class>),
    Message(NodeId, Vec<u8>),
    Received(Header),
    Feedback {
        marked: bool,
    },
    Sent {
        ack_bits: Option<u8>,
    },
    Other,
}

impl CheckedEvent {
    fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Deadline => CheckedEvent::Deadline,
            Event::Counters(c) => CheckedEvent::Sample(EventKind::Counters, Some(c.class)),
            Event::FlowCounters(_) => CheckedEvent::Sample(EventKind::FlowCounters, None),
            Event::FlowLink(_) => CheckedEvent::Sample(EventKind::FlowLinks, None),
            Event::PathSigns(_) => CheckedEvent::Sample(EventKind::PathSigns, None),
            Event::Station(_) => CheckedEvent::Sample(EventKind::Stations, None),
            Event::Channel(_) => CheckedEvent::Sample(EventKind::Channel, None),
            Event::Queue(q) => CheckedEvent::Sample(EventKind::QueueSamples, Some(q.class)),
            Event::Message(m) => CheckedEvent::Message(m.from, m.body.to_vec()),
            Event::Received(h) => CheckedEvent::Received(h.header),
            Event::Feedback(f) => CheckedEvent::Feedback { marked: f.marked },
            Event::Sent(s) => CheckedEvent::Sent { ack_bits: s.ack_bits },
            _ => CheckedEvent::Other,
        }
    }
}

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// Wraps a mechanism; the record is empty.
pub(super) fn disguise(mechanism: &Mechanism) -> Mechanism {
    NOTES.take();
    let about = "records the events and actions of another mechanism";
    let (inner, to_build) = (mechanism.clone(), mechanism.clone());
    // The inner mechanism has its sums and messages already.
    let plain = |n: Needs| Needs { delivery: Delivery::default(), ..n };
    let needs = move |_: &Chosen| inner.all_needs().into_iter().map(plain).collect();
    let runs = Runs::at(needs, move |_, s| build(&to_build, s));
    Mechanism::of(Definition::new("disguised", about, Origin::ours("")).with_runs(runs))
}

/// Returns the notes since the last call.
pub(super) fn notes() -> Vec<Note> {
    NOTES.take()
}

fn note(note: Note) {
    NOTES.with_borrow_mut(|notes| notes.push(note));
}

fn build(inner: &Mechanism, setting: Setting) -> Result<Instance, Refusal> {
    let (node, events) = (setting.node, inner.needs(&setting.site).unwrap_or_default().events);
    let Instance { control, plan } = inner.build(setting).inspect_err(|_| note(Note::Refused))?;
    note(Note::Built { node, plan: plan.clone(), events });
    note(Note::Due { node, due: control.next_deadline() });
    Ok(Instance { control: Box::new(Spy { node, control }), plan })
}

#[derive(Debug)]
struct Spy {
    node: NodeId,
    control: Box<dyn Control>,
}

impl Control for Spy {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        let (node, before) = (self.node, actions.iter().count());
        note(Note::ReceivedFrame { node, now, what: CheckedEvent::of(event) });
        self.control.on(now, event, actions);
        for action in actions.iter().skip(before) {
            note(Note::Did { node, action: *action, body: actions.body(action).to_vec() });
        }
        note(Note::Due { node, due: self.control.next_deadline() });
    }
    fn next_deadline(&self) -> Option<Time> {
        self.control.next_deadline()
    }
}
