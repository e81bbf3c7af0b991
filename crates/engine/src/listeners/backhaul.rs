//! Messages between gateways, over the wires behind them.
//!
//! A message takes the delay of the wires on the quickest path, as a minimal datagram would. Rates
//! and queues of wires are ignored: a hundred bytes a second do not load them.

use std::collections::BTreeMap;

use fairmesh_control::EventKind;
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::{NodeId, Span, Time};

use super::{Listeners, Note};

/// Delay assumed between gateways without wires between them.
///
/// Both are connected to the Internet.
const DEFAULT_DELAY: Span = Span::from_millis(10);

/// The gateways, and the messages in transit between them.
#[derive(Debug, Default)]
pub(crate) struct Backhaul {
    delays: BTreeMap<(NodeId, NodeId), Span>,
    /// By arrival, then by order of sending.
    under_way: BTreeMap<(Time, u64), GatewayMessage>,
    sent: u64,
}

#[derive(Debug)]
struct GatewayMessage {
    from: NodeId,
    to: NodeId,
    body: Vec<u8>,
}

impl Backhaul {
    /// Builds the wired network behind the gateways of a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let mut delays = BTreeMap::new();
        for &from in scenario.gateways().list() {
            let times = quickest(scenario, from);
            for &to in scenario.gateways().list().iter().filter(|to| **to != from) {
                delays.insert((from, to), times[to.index()].unwrap_or(DEFAULT_DELAY));
            }
        }
        Backhaul { delays, ..Backhaul::default() }
    }

    fn send(&mut self, now: Time, from: NodeId, body: &[u8]) {
        for (&(_, to), &delay) in self.delays.range((from, NodeId(0))..=(from, NodeId(u32::MAX))) {
            let message = GatewayMessage { from, to, body: body.to_vec() };
            self.under_way.insert((now + delay, self.sent), message);
            self.sent += 1;
        }
    }

    /// Returns the arrival instant of the next message.
    pub fn due(&self) -> Time {
        self.under_way.first_key_value().map_or(Time::NEVER, |(at, _)| at.0)
    }
}

/// Returns the delay over wires from a node to each other.
///
/// Paths cross only hosts without a radio.
fn quickest(scenario: &Scenario, from: NodeId) -> Vec<Option<Span>> {
    let mut times: Vec<Option<Span>> = vec![None; scenario.nodes().len()];
    times[from.index()] = Some(Span::ZERO);
    // At most as many rounds as there are wires: each round settles one of them.
    for _ in 0..scenario.wires().len() {
        let mut better = false;
        for w in scenario.wires() {
            for (a, b) in [(w.a, w.b), (w.b, w.a)] {
                let passes = a == from || scenario.nodes()[a.index()].kind == NodeKind::Wired;
                let Some(at) = times[a.index()].filter(|_| passes) else { continue };
                let through = at + w.delay;
                if times[b.index()].is_none_or(|known| through < known) {
                    times[b.index()] = Some(through);
                    better = true;
                }
            }
        }
        if !better {
            break;
        }
    }
    times
}

impl Listeners {
    /// Sends a message to all other gateways; returns the instant of the next arrival.
    pub fn send_behind(&mut self, now: Time, from: NodeId, body: &[u8]) -> Time {
        self.signalling.outside += 1;
        self.signalling.outside_bytes += body.len() as u64;
        self.backhaul.send(now, from, body);
        self.backhaul.due()
    }

    /// Delivers the messages that have arrived; returns the instant of the next arrival.
    pub fn arrive_behind(&mut self, now: Time) -> Time {
        while let Some(first) = self.backhaul.under_way.first_entry()
            && first.key().0 <= now
        {
            let GatewayMessage { from, to, body } = first.remove();
            let start = self.bodies.len();
            self.bodies.extend_from_slice(&body);
            let note = Note::Message { from, start, len: body.len() };
            self.note(to.index(), EventKind::Messages, note);
        }
        self.backhaul.due()
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_scenario::draft_from_toml;

    use super::*;

    #[test]
    fn messages_take_the_quickest_way_past_hosts() {
        let text = r#"
            duration = "1 s"
            topology = { chain = { hops = 3 }, gateways = [0, 1, 3] }
            flow = [{ from = 2, to = 3 }]
            wire = [
              { from = 0, to = "isp", delay = "7 ms" }, { from = 3, to = "isp", delay = "5 ms" },
              { from = 0, to = "far", delay = "1 ms" }, { from = 3, to = "far", delay = "40 ms" },
              { from = 2, to = 3, delay = "1 us" },
            ]
            node = [{ id = "isp", kind = "wired" }, { id = "far", kind = "wired" }]
        "#;
        let scenario = draft_from_toml("t.toml", text).unwrap().build().unwrap();
        let mut b = Backhaul::new(&scenario);
        let delay = |a, c| b.delays[&(NodeId(a), NodeId(c))];
        assert_eq!(delay(0, 3), Span::from_millis(12));
        assert_eq!(delay(3, 0), Span::from_millis(12));
        assert_eq!(delay(1, 0), DEFAULT_DELAY, "no wire leads there");
        assert_eq!(b.due(), Time::NEVER);
        b.send(Time::ZERO, NodeId(3), b"x");
        assert_eq!((b.under_way.len(), b.due()), (2, Time::ZERO + DEFAULT_DELAY));
    }
}
