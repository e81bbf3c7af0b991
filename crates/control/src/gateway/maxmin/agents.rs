//! Floods: their reports, the limits because of them, and the messages to agents at homes.

use fairmesh_units::{BitRate, NodeId, Span};

use super::subscriber::Subscriber;
use crate::gateway::arc::bucket;
use crate::gateway::floods::News;
use crate::sources::agent::codec::Order;
use crate::{Actions, Reason, Value};

/// Time between messages until the source keeps its limit, s.
const SOON: f64 = 1.0;
/// Time between messages while the source keeps its limit, s.
const RENEWED: f64 = 4.0;
/// Time between messages after they had no effect, s.
const SELDOM: f64 = 10.0;
/// Time for which the source must keep its limit to count as limited, s.
const BELIEVED: f64 = 2.0;
/// Time for which it must exceed its limit to count as unlimited again, s.
const LOST: f64 = 5.0;
/// Time without effect after which no agent is assumed there, s.
const DEAF: f64 = 20.0;
/// Time that the others need to recover once a flood is limited at its source, s: TCP's timeouts have grown.
const CALM: f64 = 10.0;

/// Returns the reason for a flow's limit if the flow, or its home's flood, does not respond to it.
pub(super) fn reason(s: &Subscriber, limit: BitRate) -> Option<Reason> {
    let (flow, limit) = (Value::Flow(s.flow), Value::Rate(limit));
    let rate = |bps: f64| Value::Rate(bucket(bps));
    Some(match s.news {
        Some(News::Suspect(brings)) => Reason::new(
            "maxmin.suspect",
            "flow {} brings {} whatever is dropped: does it answer to {}?",
            &[flow, rate(brings), limit],
        ),
        Some(News::Answers) => {
            Reason::new("maxmin.answers", "flow {} answers to its limit: {}", &[flow, limit])
        }
        Some(News::Flood(brings)) => Reason::new(
            "maxmin.flood",
            "flow {} is a flood: it brings {} whatever its limit is; {} pass, and it has no say",
            &[flow, rate(brings), limit],
        ),
        Some(News::Over) => {
            Reason::new("maxmin.calm", "flow {} is no flood any more: {}", &[flow, limit])
        }
        None if s.watch.is_flood() => {
            Reason::new("maxmin.flood-limit", "of the flood of flow {} {} pass", &[flow, limit])
        }
        None if s.beside => {
            Reason::new("maxmin.beside", "flow {} has {}, because its home floods", &[flow, limit])
        }
        None => return None,
    })
}

/// A home with a flood.
#[derive(Clone, Debug)]
struct Home {
    node: NodeId,
    /// Time since it was first asked to keep its limit, s.
    asked: f64,
    /// Time until the next message, s.
    next: f64,
    /// Time for which it has kept its limit, s; negative: time for which it has not.
    kept: f64,
    held: bool,
    deaf: bool,
}

#[derive(Debug)]
pub(super) struct Agents {
    /// True if homes may have agents.
    on: bool,
    keep: Span,
    /// Number of the last message.
    number: u32,
    homes: Vec<Home>,
    /// Time until the service of the others is judged again, s.
    calm: f64,
}

impl Agents {
    pub fn new(on: bool, keep: Span) -> Self {
        Agents { on, keep, number: 0, homes: Vec::new(), calm: 0.0 }
    }

    pub fn present(&self) -> bool {
        self.on
    }

    /// Updates the floods; returns true if the search must wait.
    ///
    /// Service that the others miss in the meantime is due to the flood, and returns once its source is limited.
    pub fn look(&mut self, elapsed: f64, all: &mut [Subscriber], actions: &mut Actions) -> bool {
        if all.iter().any(|s| s.news.is_some()) {
            self.meet(all, actions);
        }
        self.calm -= elapsed;
        let mut changed = false;
        for home in &mut self.homes {
            home.asked += elapsed;
            let mut own = all.iter().filter(|s| s.home == Some(home.node) && s.watch.is_flood());
            home.kept = match own.all(|s| s.watch.keeps(s.limit)) {
                true => home.kept.max(0.0) + elapsed,
                false => home.kept.min(0.0) - elapsed,
            };
            let before = home.held;
            // The rate of traffic over the air varies.
            home.held = self.on && home.kept >= if before { -LOST } else { BELIEVED };
            changed |= home.held != before;
            let node = Value::Node(home.node);
            if home.held && !before {
                (home.deaf, self.calm) = (false, CALM);
                let text = "the source of the flood, node {}, keeps its limit";
                actions.because(Reason::new("maxmin.held", text, &[node]));
            } else if before && !home.held {
                home.asked = 0.0;
            } else if !home.held && self.on && !home.deaf && home.asked > DEAF {
                home.deaf = true;
                let text =
                    "nothing limits the flood at its source, node {}: no agent answers there";
                actions.because(Reason::new("maxmin.deaf", text, &[node]));
            }
        }
        if changed {
            self.beside(all);
        }
        let hopes = self.on && self.homes.iter().any(|h| !h.held && !h.deaf);
        hopes || self.calm > 0.0 || all.iter().any(|s| s.watch.is_tried())
    }

    /// Updates the list of homes after floods began or ended.
    fn meet(&mut self, all: &mut [Subscriber], actions: &mut Actions) {
        let floods = |node: NodeId| all.iter().any(|s| s.home == Some(node) && s.watch.is_flood());
        let ended: Vec<NodeId> =
            self.homes.iter().map(|h| h.node).filter(|&n| !floods(n)).collect();
        self.homes.retain(|h| !ended.contains(&h.node));
        for &node in ended.iter().filter(|_| self.on) {
            self.number = self.number.wrapping_add(1);
            actions.route(node, &Order { number: self.number, limit: None }.encode());
        }
        for node in all.iter().filter(|s| s.watch.is_flood()).filter_map(|s| s.home) {
            if !self.homes.iter().any(|h| h.node == node) {
                self.homes.push(Home {
                    node,
                    asked: 0.0,
                    next: 0.0,
                    kept: 0.0,
                    held: false,
                    deaf: false,
                });
            }
        }
        self.beside(all);
    }

    /// Marks the other traffic of homes whose flood is not limited at its source.
    fn beside(&self, all: &mut [Subscriber]) {
        for s in all {
            let home = self.homes.iter().find(|h| Some(h.node) == s.home);
            s.beside = home.is_some_and(|h| !h.held) && !s.watch.is_flood();
        }
    }

    /// Sends the total limit of a home's traffic to each home with a flood.
    pub fn tell(&mut self, elapsed: f64, all: &[Subscriber], actions: &mut Actions) {
        if !self.on {
            return;
        }
        for home in &mut self.homes {
            home.next -= elapsed;
            if home.next > 0.0 {
                continue;
            }
            home.next = match (home.held, home.deaf) {
                (true, _) => RENEWED,
                (false, false) => SOON,
                (false, true) => SELDOM,
            };
            self.number = self.number.wrapping_add(1);
            let own = all.iter().filter(|s| s.home == Some(home.node) && s.upstream != Some(false));
            let rate = bucket(own.map(|s| s.limit).sum());
            let order = Order { number: self.number, limit: Some((rate, self.keep)) };
            let values = [Value::Node(home.node), Value::Rate(rate)];
            let text = "node {} is told to send no more than {}";
            actions.because(Reason::new("maxmin.tell", text, &values));
            actions.route(home.node, &order.encode());
        }
    }
}
