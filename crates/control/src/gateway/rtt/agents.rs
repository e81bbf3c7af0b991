//! Agents at homes: a flood is limited at its source, where the home's router runs our agent.
//!
//! Packets that the gateway drops have used the air before it (Jamshaid 2010 §6.3), so the limit of a flood
//! has to hold where the flood starts (§9.2). Without an agent there, the cost falls on the home's other
//! traffic and on no other home.

use fairmesh_units::{NodeId, Span};

use super::home::Home;
use super::tuning::Tuning;
use crate::gateway::arc::bucket;
use crate::sources::agent::codec::Order;
use crate::{Actions, Reason, Value};

/// A node with a flood.
#[derive(Clone, Default, Debug)]
struct Source {
    node: NodeId,
    /// Time since it was first asked to keep its limit, in s.
    asked: f64,
    /// Time until the next message, in s.
    next: f64,
    /// Time for which it has kept its limit, s; negative: time for which it has not.
    kept: f64,
    limited: bool,
    deaf: bool,
}

#[derive(Debug)]
pub(super) struct Agents {
    /// True if homes may have agents.
    on: bool,
    /// Time after which an agent drops a limit that is not renewed.
    keep: Span,
    /// Number of the last message.
    number: u32,
    tuning: &'static Tuning,
    sources: Vec<Source>,
}

impl Agents {
    pub fn new(on: bool, keep: Span, tuning: &'static Tuning) -> Self {
        Agents { on, keep, number: 0, tuning, sources: Vec::new() }
    }

    /// Follows the floods, and marks the affected homes.
    ///
    /// These are homes with a source that is limited, and traffic beside a flood without a limit.
    pub fn look(&mut self, elapsed: f64, homes: &mut [Home], actions: &mut Actions) {
        self.meet(homes, actions);
        for source in &mut self.sources {
            source.asked += elapsed;
            let mut own = homes.iter().filter(|h| h.node == Some(source.node) && h.is_flood());
            source.kept = match own.all(Home::keeps) {
                true => source.kept.max(0.0) + elapsed,
                false => source.kept.min(0.0) - elapsed,
            };
            let before = source.limited;
            let enough = match before {
                true => -self.tuning.flood_time,
                false => 0.25 * self.tuning.flood_time,
            };
            source.limited = self.on && source.kept >= enough;
            let node = Value::Node(source.node);
            if source.limited && !before {
                source.deaf = false;
                let text = "the source of the flood, node {}, keeps its limit";
                actions.because(Reason::new("rtt.held", text, &[node]));
            } else if before && !source.limited {
                source.asked = 0.0;
            } else if !source.limited
                && self.on
                && !source.deaf
                && source.asked > self.tuning.long()
            {
                source.deaf = true;
                let text = "node {} does not limit its flood: no agent responds there";
                actions.because(Reason::new("rtt.deaf", text, &[node]));
            }
        }
        for home in homes {
            let source = self.sources.iter().find(|s| Some(s.node) == home.node);
            home.limited = source.is_some_and(|s| s.limited) && home.is_flood();
            home.beside = self.on && source.is_some_and(|s| !s.limited) && !home.is_flood();
        }
    }

    /// Updates the list of sources after floods began or ended.
    fn meet(&mut self, homes: &[Home], actions: &mut Actions) {
        let floods = |node: NodeId| homes.iter().any(|h| h.node == Some(node) && h.is_flood());
        for source in self.sources.extract_if(.., |s| !floods(s.node)).filter(|_| self.on) {
            self.number = self.number.wrapping_add(1);
            let text = "node {} has no limit any more";
            actions.because(Reason::new("rtt.source-free", text, &[Value::Node(source.node)]));
            actions.route(source.node, &Order { number: self.number, limit: None }.encode());
        }
        for node in homes.iter().filter(|h| h.is_flood()).filter_map(|h| h.node) {
            if !self.sources.iter().any(|s| s.node == node) {
                self.sources.push(Source { node, ..Source::default() });
            }
        }
    }

    /// Sends each source of a flood the total limit of the traffic that starts there.
    pub fn send(&mut self, elapsed: f64, homes: &[Home], actions: &mut Actions) {
        for source in self.sources.iter_mut().filter(|_| self.on) {
            source.next -= elapsed;
            if source.next > 0.0 {
                continue;
            }
            source.next = match (source.limited, source.deaf) {
                (true, _) => 0.25 * self.keep.as_secs_f64(),
                (false, false) => 0.0,
                (false, true) => self.tuning.memory,
            };
            self.number = self.number.wrapping_add(1);
            let own = |h: &&Home| h.node == Some(source.node) && h.upstream != Some(false);
            let rate = bucket(homes.iter().filter(own).map(|h| h.limit).sum());
            let order = Order { number: self.number, limit: Some((rate, self.keep)) };
            let values = [Value::Node(source.node), Value::Rate(rate)];
            let text = "node {} may send at most {}";
            actions.because(Reason::new("rtt.source-limit", text, &values));
            actions.route(source.node, &order.encode());
        }
    }
}
