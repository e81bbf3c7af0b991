//! The set of live gateways, and the choice of the leader.

use std::collections::BTreeMap;

use fairmesh_units::{NodeId, Span, Time};

use super::message::Heading;

/// Number of control periods without a message after which a gateway counts as dead.
const DEAD_PERIODS: u32 = 8;
/// Maximum number of gateways; messages of further ones are ignored.
const MAX_GATEWAYS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct GatewayState {
    at: Time,
    leader: NodeId,
    /// Run and sequence number of its last message; `None` after a restart.
    last: Option<(u64, u64)>,
    alive: bool,
}

/// The other gateways.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    own: NodeId,
    patience: Span,
    gateways: BTreeMap<NodeId, GatewayState>,
}

impl Roster {
    pub fn new(own: NodeId, look: Span) -> Self {
        Roster {
            own,
            patience: look.saturating_mul(u64::from(DEAD_PERIODS)),
            gateways: BTreeMap::new(),
        }
    }

    /// Handles a message; returns true if it is newer than all earlier ones of its sender.
    ///
    /// A repeated message, or one overtaken by a later one, is rejected.
    pub fn accept(&mut self, now: Time, heading: &Heading) -> bool {
        let last = (heading.run, heading.sequence);
        let known = self.gateways.contains_key(&heading.from);
        if heading.from == self.own || (!known && self.gateways.len() >= MAX_GATEWAYS) {
            return false;
        }
        let new = GatewayState { at: now, leader: heading.leader, last: Some(last), alive: true };
        match self.gateways.get_mut(&heading.from) {
            Some(state) if state.last.is_some_and(|before| last <= before) => return false,
            Some(state) => *state = new,
            None => {
                self.gateways.insert(heading.from, new);
            }
        }
        true
    }

    /// Records a restart that the host reports: the next message is accepted with any numbers.
    pub fn restarted(&mut self, gateway: NodeId) {
        if let Some(state) = self.gateways.get_mut(&gateway) {
            state.last = None;
        }
    }

    /// Returns the gateways that have timed out since the last call.
    ///
    /// Their last numbers are kept, so that old messages cannot be replayed.
    pub fn age(&mut self, now: Time) -> Vec<NodeId> {
        let patience = self.patience;
        let dead = |h: &GatewayState| h.alive && now.since(h.at) > patience;
        let mut gone = Vec::new();
        for (&id, state) in self.gateways.iter_mut().filter(|h| dead(h.1)) {
            state.alive = false;
            gone.push(id);
        }
        gone
    }

    /// Returns the leader: the smallest number among this gateway and those that claim to lead.
    pub fn leader(&self) -> NodeId {
        let claims = self.gateways.iter().filter(|(id, h)| h.alive && h.leader == **id);
        claims.map(|(id, _)| *id).fold(self.own, NodeId::min)
    }

    /// Returns the number of live gateways.
    pub fn alive(&self) -> usize {
        self.gateways.values().filter(|h| h.alive).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(from: u32, leader: u32, run: u64, sequence: u64) -> Heading {
        let (from, leader) = (NodeId(from), NodeId(leader));
        Heading { from, leader, run, sequence, sampled: 0, version: 0 }
    }

    #[test]
    fn the_smallest_number_leads_until_it_times_out() {
        let at = |s| Time::ZERO + Span::from_secs(s);
        let mut r = Roster::new(NodeId(5), Span::from_secs(1));
        assert_eq!((r.leader(), r.alive()), (NodeId(5), 0));
        assert!(r.accept(at(1), &heading(7, 7, 0, 1)));
        assert_eq!(r.leader(), NodeId(5), "a larger one does not");
        assert!(r.accept(at(1), &heading(3, 1, 0, 1)));
        assert_eq!(r.leader(), NodeId(5), "3 follows one that is not received here");
        assert!(r.accept(at(2), &heading(3, 3, 0, 2)));
        assert_eq!((r.leader(), r.alive()), (NodeId(3), 2));
        assert_eq!(r.age(at(9)), []);
        assert_eq!(r.age(at(10)), [NodeId(7)]);
        assert_eq!(r.age(at(11)), [NodeId(3)]);
        assert_eq!((r.leader(), r.alive()), (NodeId(5), 0));
        assert!(!r.accept(at(11), &heading(3, 3, 0, 2)), "a repeated message");
        assert!(r.accept(at(11), &heading(3, 3, 1, 0)), "started again");
        assert_eq!(r.leader(), NodeId(3));
    }

    #[test]
    fn one_that_its_host_knows_to_be_new_may_count_from_anywhere() {
        let mut r = Roster::new(NodeId(5), Span::from_secs(1));
        assert!(r.accept(Time::ZERO, &heading(3, 3, 9, 9)));
        assert!(!r.accept(Time::ZERO, &heading(3, 3, 1, 0)), "an older run");
        r.restarted(NodeId(3));
        assert!(r.accept(Time::ZERO, &heading(3, 3, 1, 0)));
        assert!(!r.accept(Time::ZERO, &heading(3, 3, 1, 0)), "twice");
        r.restarted(NodeId(8));
        assert_eq!(r.alive(), 1, "one that was never received");
    }

    #[test]
    fn repeated_overtaken_and_own_messages_are_ignored() {
        let mut r = Roster::new(NodeId(0), Span::from_secs(1));
        let mut accepts = |run, sequence| r.accept(Time::ZERO, &heading(4, 4, run, sequence));
        assert_eq!(
            [accepts(2, 7), accepts(2, 7), accepts(2, 6), accepts(1, 9)],
            [true, false, false, false]
        );
        assert_eq!([accepts(2, 8), accepts(3, 0), accepts(2, 9)], [true, true, false]);
        assert!(!r.accept(Time::ZERO, &heading(0, 0, 9, 9)), "own messages are ignored");
        let many = (1..=200).filter(|&n| r.accept(Time::ZERO, &heading(n, n, 9, 9))).count();
        assert_eq!(many, MAX_GATEWAYS, "4 among them");
    }
}
