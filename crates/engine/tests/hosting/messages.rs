//! Messages of controls: real frames on the air.

use fairmesh_control::*;
use fairmesh_units::{NodeId, Span, Time};

use crate::probe::{Probe, everywhere, probe, scenario};

const STAR: &str = r#"
name = "star"
duration = "10 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
links = [[0, 1], [0, 2], [2, 3]]
[[flow]]
from = 3
to = 2
traffic = { kind = "cbr", rate = "8 kbit/s", packet = "100 B" }
transport = "udp"
"#;

type Log = std::rc::Rc<std::cell::RefCell<Vec<(u32, u32, Vec<u8>)>>>;

/// Every node that `talks` sends 22 bytes every 100 ms.
///
/// Returns receivers, content and senders.
fn run_messages(
    toml: &str,
    talks: fn(NodeId) -> bool,
    to: Option<NodeId>,
) -> (fairmesh_engine::record::RunRecord, Vec<(u32, u32, Vec<u8>)>) {
    let log = Log::default();
    let kept = log.clone();
    let act = move |node: NodeId, now: Time, e: &Event<'_>, a: &mut Actions| match e {
        Event::Deadline if talks(node) => {
            let mut body = [node.0 as u8; 22];
            body[1] = (now.as_nanos() / 100_000_000) as u8;
            a.because(Reason::new("probe.talk", "time", &[]));
            a.send(to, &body);
        }
        Event::Message(m) => kept.borrow_mut().push((node.0, m.from.0, m.body.to_vec())),
        _ => {}
    };
    let record = probe(
        &scenario(toml),
        Probe {
            needs: everywhere(&[EventKind::Messages], &[Ability::Send]),
            plan: |_| Plan::none(),
            every: Some(Span::from_millis(100)),
            act: Box::new(act),
        },
    );
    (record, log.take())
}

#[test]
fn a_broadcast_reaches_nodes_that_decode_it_at_basic_rate_airtime() {
    let (record, received) = run_messages(STAR, |n| n == NodeId(0), None);
    let from: Vec<_> = received.iter().map(|h| (h.0, h.1)).collect();
    assert!(from.iter().all(|h| [(1, 0), (2, 0)].contains(h)), "{from:?}");
    let at = |n| received.iter().filter(|h| h.0 == n).count();
    // 3 sends to 2 occasionally and does not sense 0: no message to 1 is lost.
    assert_eq!(at(1), 100);
    assert!(at(2) > 60 && at(2) <= 100, "{}", at(2));
    assert!(received.iter().all(|h| h.2.len() == 22 && h.2[0] == 0));
    let s = record.totals.signalling;
    assert_eq!((s.messages, s.message_frames, s.messages_lost), (100, 100, 0));
    assert_eq!(record.nodes[0].mac.broadcast, 100);
    // 22 bytes of body, 28 of UDP and IP; 36 of LLC and MAC; 1 Mbit/s with the long preamble.
    assert_eq!(s.message_bytes, 100 * 50);
    let one = 50e-6 + 310e-6 + 192e-6 + 8e-6 * 86.0;
    assert!((s.airtime_s - 100.0 * one).abs() < 1e-9, "{}", s.airtime_s);
    assert!((s.bytes_per_s - 500.0).abs() < 1e-9);
    assert!((s.airtime_share - 10.0 * one).abs() < 1e-9);
}

#[test]
fn messages_collide_like_any_frame() {
    // 1 and 2 do not sense each other and send to 0 at the same instants.
    let (_, received) = run_messages(STAR, |n| n == NodeId(1) || n == NodeId(2), None);
    let at_hub = received.iter().filter(|h| h.0 == 0).count();
    assert!(at_hub < 120, "{at_hub} of 200 survived");
    // With an acknowledgement and retries most arrive.
    let (record, received) =
        run_messages(STAR, |n| n == NodeId(1) || n == NodeId(2), Some(NodeId(0)));
    let at_hub = received.iter().filter(|h| h.0 == 0).count();
    assert!(at_hub > 170, "{at_hub} of 200");
    let s = record.totals.signalling;
    assert!(s.message_frames > 230, "{}", s.message_frames);
    assert!(200 - at_hub as u64 <= s.messages_lost + 2, "{s:?}");
    assert!(received.iter().all(|h| h.0 == 0), "a unicast is for its receiver");
}

#[test]
fn messages_go_before_data() {
    // A backlogged sender: data waits for seconds, messages for a frame or two.
    let busy = r#"
name = "busy"
duration = "5 s"
[radio]
phy = "802.11b"
rate = "1 Mbit/s"
[topology]
links = [[0, 1]]
[[flow]]
from = 0
to = 1
traffic = { kind = "cbr", rate = "2 Mbit/s", packet = "1000 B" }
transport = "udp"
"#;
    let delays = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let kept = delays.clone();
    let act = move |node: NodeId, now: Time, e: &Event<'_>, a: &mut Actions| match e {
        Event::Deadline if node == NodeId(0) => {
            a.because(Reason::new("probe.talk", "time", &[]));
            a.send(None, &now.as_nanos().to_le_bytes());
        }
        Event::Message(m) => {
            let sent = u64::from_le_bytes(m.body.try_into().unwrap());
            kept.borrow_mut().push((now.as_nanos() - sent) as f64 * 1e-6);
        }
        _ => {}
    };
    let record = probe(
        &scenario(busy),
        Probe {
            needs: everywhere(&[EventKind::Messages], &[Ability::Send]),
            plan: |_| Plan::none(),
            every: Some(Span::from_millis(100)),
            act: Box::new(act),
        },
    );
    let delays = delays.take();
    assert!(delays.len() >= 49 && delays.iter().all(|d| *d < 25.0), "{delays:?}");
    assert!(record.flows[0].delay_s.mean > 0.2);
}

#[test]
fn a_full_queue_refuses_messages() {
    let act = |_: NodeId, _: Time, e: &Event<'_>, a: &mut Actions| {
        if *e == Event::Deadline {
            a.because(Reason::new("probe.talk", "time", &[]));
            for _ in 0..30 {
                a.send(None, b"x");
            }
        }
    };
    let record = probe(
        &scenario(STAR),
        Probe {
            needs: everywhere(&[], &[Ability::Send]),
            plan: |_| Plan::none(),
            every: Some(Span::from_secs(6)),
            act: Box::new(act),
        },
    );
    let s = record.totals.signalling;
    // Four nodes, two times: 16 wait, one may be in the MAC by then.
    assert_eq!(s.messages, 240);
    assert!((8 * 13..=8 * 14).contains(&s.messages_lost), "{s:?}");
    assert_eq!(s.message_frames + s.messages_lost, 240);
}

/// A line of four and an island.
///
/// Returns the receivers of the messages that node 0 sends every 100 ms with `reach`, and their
/// delays.
fn run_reach(reach: Reach) -> (fairmesh_engine::record::RunRecord, Vec<(u32, u32, Span)>) {
    let line = r#"
name = "line"
duration = "1 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
links = [[0, 1], [1, 2], [2, 3], [4, 5]]
[[flow]]
from = 4
to = 5
traffic = { kind = "cbr", rate = "8 kbit/s", packet = "100 B" }
transport = "udp"
"#;
    let log = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let kept = log.clone();
    let act = move |node: NodeId, now: Time, e: &Event<'_>, a: &mut Actions| match e {
        Event::Deadline if node == NodeId(0) => {
            a.because(Reason::new("probe.hand-over", "time", &[]));
            a.hand_over(reach, &now.as_nanos().to_le_bytes());
        }
        Event::Message(m) => {
            let sent = u64::from_le_bytes(m.body.try_into().unwrap());
            kept.borrow_mut().push((node.0, m.from.0, now - Time::from_nanos(sent)));
        }
        _ => {}
    };
    let record = probe(
        &scenario(line),
        Probe {
            needs: everywhere(&[EventKind::Messages], &[Ability::IdealExchange]),
            plan: |_| Plan::none(),
            every: Some(Span::from_millis(100)),
            act: Box::new(act),
        },
    );
    (record, log.take())
}

#[test]
fn an_ideal_exchange_is_at_once_and_costs_no_air() {
    for (reach, receivers) in [
        (Reach::Within(0), &[][..]),
        (Reach::Within(1), &[1]),
        (Reach::Within(2), &[1, 2]),
        (Reach::Within(9), &[1, 2, 3]),
        (Reach::Node(NodeId(5)), &[5]),
        (Reach::Node(NodeId(0)), &[]),
        (Reach::Node(NodeId(99)), &[]),
    ] {
        let (record, received) = run_reach(reach);
        let expected: Vec<_> =
            (0..10).flat_map(|_| receivers).map(|n| (*n, 0, Span::ZERO)).collect();
        assert_eq!(received, expected, "{reach:?}");
        let s = record.totals.signalling;
        assert_eq!((s.outside_messages, s.outside_bytes), (10, 80));
        assert_eq!((s.messages, s.bytes_per_s, s.airtime_s), (0, 0.0, 0.0));
    }
}
