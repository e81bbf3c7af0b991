//! Messages for topology, one-way links and undelivered flows, and pauses for others.

use fairmesh_units::{NodeId, Span, Time};

use super::codec::{self, Values};
use super::links::Meter;
use super::message::{self, Content};
use super::{Anomaly, Cna, MIN_FLOW_SHARE, TICK, UPDATE_DELAY, neighbourhood};
use crate::{Actions, Class, Reason, Share, Value};

/// Number of topology messages at the shorter interval.
const INITIAL_MESSAGES: u32 = 3;
/// Time between the first topology messages.
const INITIAL_INTERVAL: Span = Span::from_secs(2);
/// Time between topology messages of a node around which the air is full.
const FULL_AIR_INTERVAL: Span = Span::from_secs(1);
/// Airtime allocated around a node without flows above which its air counts as full.
///
/// Packets of newcomers might not be delivered there.
const FULL_AIRTIME: f64 = 0.8;
/// Time for which a flow counts as new.
const NEW_FLOW_TIME: Span = Span::from_secs(1);
/// Time for which neighbours send nothing after a topology message.
const QUIET_PERIOD: Span = Span::from_millis(12);
/// Minimum time between two such pauses.
const QUIET_INTERVAL: Span = Span::from_millis(200);
/// Number of flows that a neighbour may claim on a link before any of their packets arrives.
const MAX_CLAIMED_FLOWS: f64 = 8.0;

/// Timing of a node's messages and pauses.
#[derive(Debug)]
pub(super) struct Signalling {
    /// Time between topology messages.
    topology: Span,
    /// Time between control packets of a one-way link.
    one_way: Span,
    /// Time of the next topology message.
    pub beacon: Time,
    /// Number of topology messages sent.
    topology_messages: u32,
    /// Time of the latest control packet of a one-way link.
    last_one_way: Option<Time>,
    /// Time of the latest control packet of undelivered flows.
    last_undelivered: Option<Time>,
    /// End of the present pause.
    pub quiet: Option<Time>,
    /// Start of the last pause.
    held: Option<Time>,
}

impl Signalling {
    pub fn new(topology: Span, one_way: Span, first: Time) -> Self {
        Signalling {
            topology,
            one_way,
            beacon: first,
            topology_messages: 0,
            last_one_way: None,
            last_undelivered: None,
            quiet: None,
            held: None,
        }
    }

    /// True if the node pauses.
    pub fn quiet_at(&mut self, now: Time) -> bool {
        self.quiet = self.quiet.filter(|until| *until > now);
        self.quiet.is_some()
    }
}

impl Cna {
    /// Sends topology messages and control packets.
    pub(super) fn speak(&mut self, now: Time, began: Time, actions: &mut Actions) {
        if self.meters.is_empty() {
            return;
        }
        let idle = self.neighbourhood.own.iter().all(|o| o.weight() == 0.0);
        if self.tolerant && idle && self.neighbourhood.two.airtime > FULL_AIRTIME {
            // A newcomer out of range of the nodes that fill the air must be able to announce
            // itself.
            self.signalling.beacon = self.signalling.beacon.min(now + FULL_AIR_INTERVAL);
        }
        if now >= self.signalling.beacon {
            self.send_topology(now, began, actions);
            if self.tolerant {
                self.send_in_quiet_period(now, None, actions);
            }
        }
        if self.tolerant {
            self.report_new_flows(actions);
        }
        self.send_links(now, actions);
    }

    /// Reports a new flow to each of the nodes that fill the air, with retries.
    ///
    /// They may receive none of its first packets.
    fn report_new_flows(&mut self, actions: &mut Actions) {
        let full = self.neighbourhood.two.airtime > FULL_AIRTIME;
        let dither = self.stream.unit();
        for (m, own) in self.meters.iter_mut().zip(&self.neighbourhood.own) {
            if !core::mem::take(&mut m.unreported) || !full || own.weight() == 0.0 {
                continue;
            }
            for far in self.neighbourhood.far.iter().filter(|f| f.id != m.to && f.one.is_some()) {
                actions.because(Reason::new(
                    "cna.newcomer",
                    "node {} is notified of a new flow on the link to node {}",
                    &[Value::Node(far.id), Value::Node(m.to)],
                ));
                send_link(Some(far.id), m, own, &self.neighbourhood, dither, actions);
            }
        }
    }

    fn send_topology(&mut self, now: Time, began: Time, actions: &mut Actions) {
        // A message may be lost, and the next is far: the first ones follow each other sooner.
        let v = &mut self.signalling;
        v.topology_messages = v.topology_messages.saturating_add(1);
        let pause = if v.topology_messages < INITIAL_MESSAGES {
            v.topology.min(INITIAL_INTERVAL)
        } else {
            v.topology
        };
        // Spread by a tenth, so that neighbours do not collide repeatedly.
        let spread = pause.as_secs_f64() * self.stream.uniform(0.9, 1.1);
        v.beacon = now + Span::from_secs_f64(spread).max(UPDATE_DELAY);
        let late = now - began >= v.topology + v.topology;
        let count = Value::Count(self.meters.len() as u64);
        actions.because(Reason::new(
            "cna.topology",
            "periodic message to the {} neighbours",
            &[count],
        ));
        actions.send(None, &message::topology(self.meters.iter().map(|m| m.to)));
        let active = self.neighbourhood.own.iter().filter(|o| o.weight() > 0.0);
        let active: Vec<NodeId> = active.map(|o| o.to).collect();
        for id in active.into_iter().filter(|_| late) {
            if self.neighbourhood.neighbour_mut(id).is_some_and(|f| f.neighbours.is_none()) {
                self.anomaly(Anomaly::NoTopology, id, actions);
            }
        }
    }

    /// Sends control packets of one-way links and of flows with undelivered packets.
    fn send_links(&mut self, now: Time, actions: &mut Actions) {
        let v = &mut self.signalling;
        // A node with undelivered packets sends one at every tick: few of these are delivered either.
        let due = v.last_undelivered.is_none_or(|at| now - at >= TICK);
        let dither = self.stream.unit();
        let full = self.neighbourhood.two.airtime > FULL_AIRTIME;
        for (m, own) in self.meters.iter().zip(&self.neighbourhood.own) {
            let undelivered = m.failed.is_some() && own.out > 0.0;
            // The same holds for a node that reports such a neighbour, and in full air for a newcomer: its
            // first packets may reach no other node.
            let newcomer =
                self.tolerant && full && m.newcomer.is_some_and(|at| now - at < NEW_FLOW_TIME);
            let pause = if newcomer || m.claimed.is_some() { TICK } else { v.one_way };
            let ago = |at: Option<Time>| at.is_none_or(|at| now - at >= pause);
            let (code, sentence) = if undelivered && due {
                v.last_undelivered = Some(now);
                ("cna.unheard", "packets to node {} do not get through: sent as a message")
            } else if (newcomer || own.back > 0.0) && ago(v.last_one_way) && ago(m.last_sent) {
                v.last_one_way = Some(now);
                ("cna.one-way", "node {} sends here and receives nothing back: sent as a message")
            } else {
                continue;
            };
            actions.because(Reason::new(code, sentence, &[Value::Node(m.to)]));
            send_link(None, m, own, &self.neighbourhood, dither, actions);
        }
    }

    /// Sends nothing for a moment, in favour of packets that otherwise collide with data.
    ///
    /// `after` is the sender of the message before the pause; `None` for an own message. A link with
    /// undelivered packets there uses the moment.
    fn send_in_quiet_period(&mut self, now: Time, after: Option<NodeId>, actions: &mut Actions) {
        let dither = self.stream.unit();
        for (m, own) in self.meters.iter().zip(&self.neighbourhood.own) {
            if after == Some(m.to) && m.failed.is_some() && own.out > 0.0 {
                actions.because(Reason::new(
                    "cna.unheard",
                    "packets to node {} do not get through: sent while other nodes pause",
                    &[Value::Node(m.to)],
                ));
                send_link(after, m, own, &self.neighbourhood, dither, actions);
            }
        }
        // Whatever the number of messages, most of the time belongs to data.
        if self.signalling.held.is_some_and(|at| now - at < QUIET_INTERVAL) {
            return;
        }
        self.signalling.held = Some(now);
        let mut still = false;
        for (m, own) in self.meters.iter_mut().zip(&self.neighbourhood.own) {
            if own.out > 0.0 && m.bucket > MIN_FLOW_SHARE {
                still = true;
                m.bucket = MIN_FLOW_SHARE;
                actions.because(Reason::new(
                    "cna.still",
                    "node {} has to wait while others may speak",
                    &[Value::Node(m.to)],
                ));
                actions.set_airtime(Class::Link(m.to), Share::new(MIN_FLOW_SHARE));
            }
        }
        if still {
            self.signalling.quiet = Some(now + QUIET_PERIOD);
        }
    }

    pub(super) fn message(&mut self, now: Time, from: NodeId, body: &[u8], actions: &mut Actions) {
        match message::read(body) {
            Ok(Content::Neighbours(list)) => {
                let Some(far) = self.neighbourhood.neighbour_mut(from) else { return };
                if far.neighbours.as_ref() != Some(&list) {
                    far.neighbours = Some(list);
                    self.soon(now);
                }
                if self.tolerant {
                    self.send_in_quiet_period(now, Some(from), actions);
                }
            }
            Ok(Content::Link { to, undelivered, one, two }) => {
                if self.tolerant
                    && undelivered
                    && to == self.neighbourhood.node
                    && let Some(m) = self.meters.iter_mut().find(|m| m.to == from)
                {
                    // Its packets may not get here. No node has more flows than can be
                    // distinguished.
                    m.claimed = Some((now, one.weight.min(MAX_CLAIMED_FLOWS)));
                    self.soon(now);
                }
                self.learn(now, from, to, Values::OneHop(one));
                self.learn(now, from, to, Values::TwoHop(two));
            }
            Err(codec::Malformed) => self.anomaly(Anomaly::Message, from, actions),
        }
    }
}

/// Sends the control packet of a link.
fn send_link(
    to: Option<NodeId>,
    m: &Meter,
    own: &neighbourhood::OwnLink,
    neighbourhood: &neighbourhood::Neighbourhood,
    dither: f64,
    actions: &mut Actions,
) {
    let undelivered = m.failed.is_some() && own.out > 0.0;
    actions.send(
        to,
        &message::link(m.to, undelivered, &neighbourhood.one(own), &neighbourhood.two(), dither),
    );
}
