//! Messages for values without packets to carry them.
//!
//! They come from nodes that receive and have nothing to send, from nodes with undelivered packets, and
//! concern flows without acknowledgements.

use fairmesh_units::{Span, Time};

use super::anomaly::Anomaly;
use super::codec::{self, Values};
use super::message::{self, Content};
use super::node::{Node, Out};
use super::region::Neighbour;
use super::{
    FAILURE_REPORT_INTERVAL, FAILURE_TIMEOUT, IDLE_TIMEOUT, RECEIVER_INTERVAL, RELAY_INTERVAL,
    UNDELIVERED_INTERVAL, UNREACHABLE_TIMEOUT,
};
use crate::{Actions, Message, Reason, Value};

impl Node {
    /// Sends messages with the values that no packet carries.
    pub(super) fn speak(&mut self, now: Time, actions: &mut Actions) {
        let quiet = now.since(self.spoke);
        let since = |at: Option<Time>| at.map_or(Span::MAX, |at| now.since(at));
        // A discarded packet is in no queue; TCP retransmits it after seconds.
        let fails =
            |o: &&Out| !o.gone(now) && o.failing.is_some_and(|at| now.since(at) >= FAILURE_TIMEOUT);
        let failing = self.out.iter().find(fails);
        // It may be long before a transport tries again.
        let long =
            failing.and_then(|o| o.failing).is_some_and(|at| now.since(at) >= UNREACHABLE_TIMEOUT);
        let pause = if long { RECEIVER_INTERVAL } else { UNDELIVERED_INTERVAL };
        let failing = failing.map(|o| o.to);
        // A node without traffic for long does not count as unreachable.
        let waited = self.backlog.since().map(|began| now.since(began.max(self.through)));
        let waits = waited.is_some_and(|w| w >= UNDELIVERED_INTERVAL);
        let undelivered = failing.is_some() || waits;
        let receives = |n: &Neighbour| since(n.came) < IDLE_TIMEOUT;
        let sends = |n: &Neighbour| since(n.went) < IDLE_TIMEOUT;
        let neighbours = &self.region.neighbours;
        let one_way = neighbours.iter().any(receives) && !neighbours.iter().any(sends);
        // Between nodes that disturb each other out of range there may be no sender.
        let relays = self.air.wide && neighbours.iter().any(Neighbour::has_sent);
        let relays = relays && !neighbours.iter().any(sends);
        let why = match () {
            () if undelivered && quiet >= pause => (
                "mesh-maxmin.unheard",
                "packets of node {} do not get through: it sends their content as a message",
            ),
            () if one_way && quiet >= RECEIVER_INTERVAL => (
                "mesh-maxmin.one-way",
                "node {} receives and has nothing to send: it sends a message instead",
            ),
            () if relays && quiet >= RELAY_INTERVAL => (
                "mesh-maxmin.relay",
                "node {} has nothing to send: it forwards what it receives to nodes beyond its range",
            ),
            () => ("", ""),
        };
        if !why.0.is_empty() {
            self.spoke = now;
            actions.because(Reason::new(why.0, why.1, &[Value::Node(self.id)]));
            match failing {
                // This message is sent with retries.
                Some(to) => {
                    let body = message::undelivered_body(self.levels, self.rates, self.outer, to);
                    actions.send(Some(to), &body);
                }
                None => actions.send(None, &message::circles(self.levels, self.rates, self.outer)),
            }
        }
        // Nodes that collide with a node with undelivered packets are notified one by one, with retries: they
        // send all the time, and may receive no broadcast.
        if let Some((_, node)) = self.undelivered_from.filter(|c| since(Some(c.0)) < self.hold)
            && now.since(self.passed_on) >= FAILURE_REPORT_INTERVAL
        {
            self.passed_on = now;
            for n in self.region.neighbours.iter().filter(|n| n.id != node && n.has_sent()) {
                let values = [Value::Node(n.id), Value::Node(node)];
                let sentence = "node {} is notified that packets of node {} do not arrive";
                actions.because(Reason::new("mesh-maxmin.cried", sentence, &values));
                let body = message::circles(self.levels, self.rates, self.outer);
                actions.send(Some(n.id), &body);
            }
        }
        let around = self.around;
        for f in &mut self.flows {
            // Its data arrives and no acknowledgement goes back.
            let lacks =
                since(f.seen) < IDLE_TIMEOUT && since(f.answered) >= IDLE_TIMEOUT && !f.enters;
            let Some(from) = f.from.filter(|_| lacks && since(f.reported) >= RECEIVER_INTERVAL)
            else {
                continue;
            };
            let way = f.way.map_or(0, |w| codec::code(w.1));
            let least = codec::least(around, way);
            if least > 0 {
                f.reported = Some(now);
                let values = [Value::Flow(f.flow()), Value::Node(from)];
                let sentence = "flow {} has no acknowledgements: node {} receives its level";
                actions.because(Reason::new("mesh-maxmin.way", sentence, &values));
                actions.send(Some(from), &message::way(f.flow(), least));
            }
        }
    }

    pub(super) fn message(&mut self, now: Time, m: &Message<'_>, actions: &mut Actions) {
        if self.region.find(m.from).is_none() {
            return self.anomaly(Anomaly::Stranger, m.from, actions);
        }
        match message::read(m.body) {
            Ok(Content::Circles { levels, rates, outer, undelivered }) => {
                self.region.take_values(now, m.from, Values::Outer(outer));
                self.region.take_values(now, m.from, Values::Levels(levels));
                self.region.take_values(now, m.from, Values::Rates(rates));
                if undelivered == Some(self.id)
                    && let Some(n) = self.region.find(m.from)
                {
                    // Counts as an arrival: the nodes around must be notified of the flow.
                    n.came = Some(now);
                    self.busy = Some(now);
                    self.undelivered_from = Some((now, m.from));
                }
            }
            Ok(Content::Way { flow, level }) => {
                if let Some(f) = self.flow(flow)
                    && f.here.next_hop == Some(m.from)
                {
                    f.way = codec::rate(level).map(|l| (now, l));
                }
            }
            Err(codec::Malformed) => self.anomaly(Anomaly::Message, m.from, actions),
        }
    }
}
