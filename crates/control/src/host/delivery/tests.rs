//! A mechanism behind sums and messages.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{Class, FlowLink, HEADER_FIELDS, Link, Merge, QueueLength};

/// A mechanism that records its events and takes given actions at its deadline.
#[derive(Debug)]
struct Scribe {
    events: Arc<Mutex<Vec<String>>>,
    due: Time,
    sends: usize,
}

impl Control for Scribe {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        let what = match event {
            Event::Deadline => "deadline".into(),
            Event::SentSum(s) => format!("{} sent, {} failed", s.packets, s.failed),
            Event::FlowSum(f) => format!("{} of flow {}", f.packets, f.flow.0),
            Event::Queue(q) => format!("{} wait", q.packets),
            Event::Fields(f) => format!("fields {:?}", &f.header.0[..2]),
            Event::Message(m) => format!("message {:?}", m.body),
            other => panic!("{other:?}"),
        };
        self.events.lock().unwrap().push(what);
        if *event == Event::Deadline {
            self.due = now + Span::from_secs(1);
            actions.because(Reason::new("test.fields", "fields", &[]));
            actions.annotate(Class::All, 0, Merge::Set, 7);
            actions.because(Reason::new("test.message", "message", &[]));
            (0..self.sends).for_each(|_| actions.send(None, &[9; 100]));
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Returns an adapter and the record of what reaches the mechanism.
fn adapter(delivery: Delivery, sends: usize) -> (Box<dyn Control>, Arc<Mutex<Vec<String>>>) {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let control = Box::new(Scribe { events: events.clone(), due: at(1000), sends });
    let instance = Instance { control, plan: crate::Plan::none() };
    let stream = Stream::new(1, "delivery");
    (install(instance, delivery, NodeId(0), stream).control, events)
}

fn station(packets: u64) -> Station {
    Station {
        node: NodeId(1),
        tx_bytes: 0,
        tx_packets: packets,
        tx_retries: 0,
        tx_failed: packets / 10,
        tx_airtime: Span::ZERO,
        tx_rate: BitRate(6_000_000),
        rx_bytes: 0,
        rx_packets: 0,
        rx_airtime: Span::ZERO,
    }
}

#[test]
fn samples_become_sums_and_queues_keep_their_period() {
    let ms = Span::from_millis;
    let delivery = Delivery { sums: Some(ms(100)), queues: Some(ms(20)), messages: None };
    let (mut control, events) = adapter(delivery, 0);
    let mut actions = Actions::new();
    assert_eq!(control.next_deadline(), Some(at(20)));
    let link = Link { from: NodeId(0), to: NodeId(1) };
    for n in 0..=210 {
        let (packets, bytes) = (n, 0);
        control.on(at(n), &Event::Station(station(n)), &mut actions);
        let flow = FlowLink { link, flow: FlowId(3), ack: false, packets, bytes };
        control.on(at(n), &Event::FlowLink(flow), &mut actions);
        let length = QueueLength { class: Class::All, packets: n as u32, bytes };
        control.on(at(n), &Event::Queue(length), &mut actions);
        control.on(at(n), &Event::Deadline, &mut actions);
        assert!(control.next_deadline().unwrap() > at(n));
    }
    let events = events.lock().unwrap();
    let sums: Vec<_> = events.iter().filter(|e| !e.contains("wait")).collect();
    assert_eq!(sums, ["100 sent, 10 failed", "100 of flow 3"]);
    let waits: Vec<_> = events.iter().filter(|e| e.contains("wait")).collect();
    assert_eq!(waits.len(), 10, "{waits:?}");
    assert_eq!(waits[1], "40 wait");
}

/// Returns the bodies of the messages of a second, after the mechanism has set its fields.
fn second(sends: usize) -> (Vec<Vec<u8>>, u64) {
    let delivery = Delivery { messages: Some(Span::from_millis(100)), ..Delivery::default() };
    let (mut control, _) = adapter(delivery, sends);
    let (mut bodies, mut reasons) = (Vec::new(), 0);
    for n in 1000..2000 {
        let mut actions = Actions::new();
        control.on(at(n), &Event::Deadline, &mut actions);
        let sum = crate::SentSum {
            to: NodeId(1),
            period: Span::from_millis(1),
            packets: 1,
            failed: 0,
            attempts: 1,
            bytes: n,
            airtime: Span::ZERO,
            rate: BitRate(1),
        };
        if n < 1500 {
            control.on(at(n), &Event::SentSum(sum), &mut Actions::new());
        }
        for action in actions.iter() {
            match action {
                Action::Send { .. } => bodies.push(actions.body(action).to_vec()),
                Action::Because(r) => reasons += u64::from(r.code == "host.budget"),
                other => panic!("{other:?}"),
            }
        }
    }
    (bodies, reasons)
}

#[test]
fn fields_go_out_as_messages_while_there_are_packets() {
    let (bodies, _) = second(0);
    // One entry of all packets with one field of slot 0 and value 7; unchanged ones each fifth time.
    assert!(bodies.iter().all(|b| *b == [BATCH, 1, 0, 7]), "{bodies:?}");
    assert!((2..=3).contains(&bodies.len()), "{}", bodies.len());
}

#[test]
fn messages_of_a_second_stay_within_the_budget() {
    let (bodies, reasons) = second(100);
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    assert!(bodies.iter().any(|b| b[0] == OWN && b[1..] == [9; 100]));
    // A full bucket, and the refill of a second.
    assert!(bytes as f64 <= 2.0 * MESSAGE_BUDGET && bodies.len() < 30, "{bytes}");
    assert!(reasons > 0, "reported, though not each time");
}

#[test]
fn messages_come_back_and_nonsense_is_ignored() {
    let delivery = Delivery { messages: Some(Span::from_millis(100)), ..Delivery::default() };
    let (mut control, events) = adapter(delivery, 0);
    let mut actions = Actions::new();
    let mut deliver = |body: &[u8]| {
        let message = Message { from: NodeId(1), body };
        control.on(at(1), &Event::Message(message), &mut actions);
    };
    deliver(&[OWN, 5, 6]);
    deliver(&[BATCH, 1, 0, 7]);
    for bad in [&[][..], &[2], &[BATCH, 1, 0], &[OWN; MAX_BODY + 1], &[BATCH; 1000]] {
        deliver(bad);
    }
    assert_eq!(*events.lock().unwrap(), ["message [5, 6]", "fields [7, 0]"]);
    let bad =
        actions.iter().filter(|a| matches!(a, Action::Because(r) if r.code == "host.bad-batch"));
    assert_eq!(bad.count(), 3, "the first, second and fourth");
    assert_eq!(HEADER_FIELDS, 8);
}

#[test]
fn a_mechanism_without_delivery_is_left_as_it_is() {
    let (mut control, events) = adapter(Delivery::default(), 0);
    let mut actions = Actions::new();
    control.on(at(1000), &Event::Deadline, &mut actions);
    assert_eq!(*events.lock().unwrap(), ["deadline"]);
    assert!(actions.iter().any(|a| matches!(a, Action::Annotate { .. })));
}
