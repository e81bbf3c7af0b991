//! Messages: topology, one-way links, flows that do not get through, and holding still so that
//! others can be heard.

use fairmesh_units::{NodeId, Span, Time};

use super::codec::{self, Said};
use super::links::Meter;
use super::message::{self, Content};
use super::{Anomaly, Cna, LEAST, SOON, TICK, neighbourhood};
use crate::{Actions, Class, Reason, Share, Value};

/// The first topology messages, and the time between them.
const FIRST: u32 = 3;
const SOONER: Span = Span::from_secs(2);
/// Time between those of a node around which the air is full.
const ASK: Span = Span::from_secs(1);
/// Airtime given out around a node that has no flow itself, from which on newcomers there might not
/// be heard.
const FULL: f64 = 0.8;
/// How long a flow is new.
const NEW: Span = Span::from_secs(1);
/// How long neighbours send nothing after a topology message, and how often at most.
const QUIET: Span = Span::from_millis(12);
const APART: Span = Span::from_millis(200);
/// Flows that a neighbour may claim on a link before any of their packets has come.
const CLAIMS: f64 = 8.0;

/// When a node speaks, and when it holds still.
#[derive(Debug)]
pub(super) struct Signalling {
    /// Time between topology messages, and between control packets of a one-way link.
    topology: Span,
    one_way: Span,
    /// Next topology message, and how many there were.
    pub beacon: Time,
    told: u32,
    /// The latest control packet of a one-way link, and of flows that do not get through.
    spoke: Option<Time>,
    cried: Option<Time>,
    /// Nothing is sent until then.
    pub quiet: Option<Time>,
    held: Option<Time>,
}

impl Signalling {
    pub fn new(topology: Span, one_way: Span, first: Time) -> Self {
        Signalling {
            topology,
            one_way,
            beacon: first,
            told: 0,
            spoke: None,
            cried: None,
            quiet: None,
            held: None,
        }
    }

    /// Whether the node holds still.
    pub fn quiet_at(&mut self, now: Time) -> bool {
        self.quiet = self.quiet.filter(|until| *until > now);
        self.quiet.is_some()
    }
}

impl Cna {
    /// Topology messages and control packets.
    pub(super) fn speak(&mut self, now: Time, began: Time, actions: &mut Actions) {
        if self.meters.is_empty() {
            return;
        }
        let idle = self.neighbourhood.own.iter().all(|o| o.weight() == 0.0);
        if self.tolerant && idle && self.neighbourhood.two.airtime > FULL {
            // Who is new here, and out of range of those who fill the air, must be able to say so.
            self.signalling.beacon = self.signalling.beacon.min(now + ASK);
        }
        if now >= self.signalling.beacon {
            self.tell_topology(now, began, actions);
            if self.tolerant {
                self.hold_still(now, None, actions);
            }
        }
        if self.tolerant {
            self.tell_newcomers(actions);
        }
        self.tell_links(now, actions);
    }

    /// Where the air is full, those who fill it are told of a new flow one by one, with retries:
    /// they may hear none of its first packets.
    fn tell_newcomers(&mut self, actions: &mut Actions) {
        let full = self.neighbourhood.two.airtime > FULL;
        let dither = self.stream.unit();
        for (m, own) in self.meters.iter_mut().zip(&self.neighbourhood.own) {
            if !core::mem::take(&mut m.untold) || !full || own.weight() == 0.0 {
                continue;
            }
            for far in self.neighbourhood.far.iter().filter(|f| f.id != m.to && f.one.is_some()) {
                actions.because(Reason::new(
                    "cna.newcomer",
                    "node {} is told of a new flow on the link to node {}",
                    &[Value::Node(far.id), Value::Node(m.to)],
                ));
                say(Some(far.id), m, own, &self.neighbourhood, dither, actions);
            }
        }
    }

    fn tell_topology(&mut self, now: Time, began: Time, actions: &mut Actions) {
        // A message may be lost, and the next is far: the first ones follow each other sooner.
        let v = &mut self.signalling;
        v.told = v.told.saturating_add(1);
        let pause = if v.told < FIRST { v.topology.min(SOONER) } else { v.topology };
        // Spread by a tenth, so that neighbours do not keep colliding.
        let spread = pause.as_secs_f64() * self.stream.uniform(0.9, 1.1);
        v.beacon = now + Span::from_secs_f64(spread).max(SOON);
        let late = now - began >= v.topology + v.topology;
        let count = Value::Count(self.meters.len() as u64);
        actions.because(Reason::new("cna.topology", "time to tell the {} neighbours", &[count]));
        actions.send(None, &message::topology(self.meters.iter().map(|m| m.to)));
        let active = self.neighbourhood.own.iter().filter(|o| o.weight() > 0.0);
        let active: Vec<NodeId> = active.map(|o| o.to).collect();
        for id in active.into_iter().filter(|_| late) {
            if self.neighbourhood.neighbour_mut(id).is_some_and(|f| f.neighbours.is_none()) {
                self.anomaly(Anomaly::NoTopology, id, actions);
            }
        }
    }

    /// Control packets of one-way links and of flows that do not get through.
    fn tell_links(&mut self, now: Time, actions: &mut Actions) {
        let v = &mut self.signalling;
        // Who is not heard cries at every tick: few of these get through either.
        let cries = v.cried.is_none_or(|at| now - at >= TICK);
        let dither = self.stream.unit();
        let full = self.neighbourhood.two.airtime > FULL;
        for (m, own) in self.meters.iter().zip(&self.neighbourhood.own) {
            let unheard = m.failed.is_some() && own.out > 0.0;
            // So does who speaks for such a neighbour, and, where the air is full, for a newcomer:
            // of its first packets nobody may hear.
            let newcomer = self.tolerant && full && m.newcomer.is_some_and(|at| now - at < NEW);
            let pause = if newcomer || m.claimed.is_some() { TICK } else { v.one_way };
            let ago = |at: Option<Time>| at.is_none_or(|at| now - at >= pause);
            let (code, sentence) = if unheard && cries {
                v.cried = Some(now);
                ("cna.unheard", "packets to node {} do not get through: told by a message")
            } else if (newcomer || own.back > 0.0) && ago(v.spoke) && ago(m.spoke) {
                v.spoke = Some(now);
                ("cna.one-way", "node {} sends here and hears nothing back: told by a message")
            } else {
                continue;
            };
            actions.because(Reason::new(code, sentence, &[Value::Node(m.to)]));
            say(None, m, own, &self.neighbourhood, dither, actions);
        }
    }

    /// Sends nothing for a moment, so that those can be heard whom data does not let through;
    /// `after` the message of that node, or an own one. A link that does not get through there
    /// uses the moment.
    fn hold_still(&mut self, now: Time, after: Option<NodeId>, actions: &mut Actions) {
        let dither = self.stream.unit();
        for (m, own) in self.meters.iter().zip(&self.neighbourhood.own) {
            if after == Some(m.to) && m.failed.is_some() && own.out > 0.0 {
                actions.because(Reason::new(
                    "cna.unheard",
                    "packets to node {} do not get through: told while others hold still",
                    &[Value::Node(m.to)],
                ));
                say(after, m, own, &self.neighbourhood, dither, actions);
            }
        }
        // However many messages come, most of the time belongs to data.
        if self.signalling.held.is_some_and(|at| now - at < APART) {
            return;
        }
        self.signalling.held = Some(now);
        let mut still = false;
        for (m, own) in self.meters.iter_mut().zip(&self.neighbourhood.own) {
            if own.out > 0.0 && m.bucket > LEAST {
                still = true;
                m.bucket = LEAST;
                actions.because(Reason::new(
                    "cna.still",
                    "node {} has to wait while others may speak",
                    &[Value::Node(m.to)],
                ));
                actions.set_airtime(Class::Link(m.to), Share::new(LEAST));
            }
        }
        if still {
            self.signalling.quiet = Some(now + QUIET);
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
                    self.hold_still(now, Some(from), actions);
                }
            }
            Ok(Content::Link { to, unheard, one, two }) => {
                if self.tolerant
                    && unheard
                    && to == self.neighbourhood.node
                    && let Some(m) = self.meters.iter_mut().find(|m| m.to == from)
                {
                    // Its packets may not get here. Nobody has more flows than can be told apart.
                    m.claimed = Some((now, one.weight.min(CLAIMS)));
                    self.soon(now);
                }
                self.learn(now, from, to, Said::OneHop(one));
                self.learn(now, from, to, Said::TwoHop(two));
            }
            Err(codec::Malformed) => self.anomaly(Anomaly::Message, from, actions),
        }
    }
}

/// The control packet of a link.
fn say(
    to: Option<NodeId>,
    m: &Meter,
    own: &neighbourhood::OwnLink,
    neighbourhood: &neighbourhood::Neighbourhood,
    dither: f64,
    actions: &mut Actions,
) {
    let unheard = m.failed.is_some() && own.out > 0.0;
    actions.send(
        to,
        &message::link(m.to, unheard, &neighbourhood.one(own), &neighbourhood.two(), dither),
    );
}
