//! Exchange outside the air, as for WCPCap in the simulations of Rangwala 2008 §4.1.
//!
//! It shows WCP with every report of L(i→j) known at once, everywhere, and at no cost.

use fairmesh_units::{NodeId, Time};

use super::link_state::LinkState;
use super::neighbourhood::OwnLink;
use crate::Link;

/// Maximum distance in hops of a transmitter of L(i→j).
///
/// It is in range of j's neighbour, which is in range of j.
pub(super) const MAX_HOPS: u32 = 3;
/// Maximum number of other nodes' links.
const MAX_LINKS: usize = 1024;
/// Bytes of an entry: receiver and word.
const ENTRY_BYTES: usize = 8;

/// Reports of other nodes on their links.
#[derive(Debug)]
pub(super) struct IdealExchange {
    /// Per own link: i, j, and the neighbours of either.
    inside: Vec<(NodeId, Vec<NodeId>)>,
    known: Vec<(Link, LinkState, Time)>,
}

impl IdealExchange {
    /// `links`: all links within two hops.
    pub fn new(node: NodeId, neighbours: &[NodeId], links: &[Link]) -> Self {
        let inside = |to: NodeId| {
            let ends = [node, to];
            let beside =
                links.iter().filter_map(|l| match (ends.contains(&l.from), ends.contains(&l.to)) {
                    (true, _) => Some(l.to),
                    (_, true) => Some(l.from),
                    _ => None,
                });
            let mut all: Vec<NodeId> = ends.into_iter().chain(neighbours.iter().copied()).collect();
            all.extend(beside);
            all.sort_unstable();
            all.dedup();
            (to, all)
        };
        IdealExchange { inside: neighbours.iter().map(|n| inside(*n)).collect(), known: Vec::new() }
    }

    /// Returns this node's report on its own links.
    pub fn body(own: &[OwnLink], threshold: f64) -> Vec<u8> {
        let entry = |o: &OwnLink| [o.to.0.to_le_bytes(), o.state(threshold).encode().to_le_bytes()];
        own.iter().flat_map(entry).flatten().collect()
    }

    /// Handles another node's report; returns true if a link's congestion has changed.
    pub fn take_message(&mut self, now: Time, from: NodeId, body: &[u8]) -> bool {
        let mut changed = false;
        for entry in body.chunks_exact(ENTRY_BYTES) {
            let (to, word) = entry.split_at(ENTRY_BYTES / 2);
            let number = |b: &[u8]| b.iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b));
            let link = Link { from, to: NodeId(number(to)) };
            let word = LinkState::decode(number(word));
            match self.known.iter().position(|k| k.0 == link) {
                Some(known) => {
                    changed |= self.known[known].1.congested() != word.congested();
                    self.known[known] = (link, word, now);
                }
                None if self.known.len() < MAX_LINKS => {
                    changed |= word.congested();
                    self.known.push((link, word, now));
                }
                None => {}
            }
        }
        changed
    }

    /// Removes reports that were not repeated after `since`.
    pub fn forget(&mut self, since: Time) {
        self.known.retain(|k| k.2 >= since);
    }

    /// Returns the joint state of all links that share the channel with an own link.
    ///
    /// These are links with an end inside.
    pub fn shared(&self, to: NodeId, own: LinkState) -> LinkState {
        let Some((_, inside)) = self.inside.iter().find(|i| i.0 == to) else { return own };
        let near = |l: &Link| inside.contains(&l.from) || inside.contains(&l.to);
        let near = self.known.iter().filter(|k| near(&k.0));
        near.fold(own, |all, k| all.join(k.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_links_count_for_nodes_that_share_their_airtime() {
        let node = NodeId;
        let link = |from, to| Link { from: node(from), to: node(to) };
        // 1 is in range of 2, which is in range of 3; 8 and 9 are far away.
        let mut at_1 = IdealExchange::new(node(1), &[node(2)], &[link(1, 2), link(2, 3)]);
        let mut congested = OwnLink::new(node(3));
        congested.queue = 5.0;
        let body = IdealExchange::body(&[congested, OwnLink::new(node(2))], 4.0);
        assert_eq!(body.len(), 2 * ENTRY_BYTES);
        assert!(!at_1.take_message(Time::ZERO, node(8), &IdealExchange::body(&[], 4.0)));
        let quiet = LinkState::default();
        assert!(
            at_1.take_message(Time::ZERO, node(2), &body),
            "that link is congested, which is new"
        );
        assert!(at_1.shared(node(2), quiet).congested());
        assert!(!at_1.take_message(Time::ZERO, node(2), &body), "nothing new");
        let mut far = IdealExchange::new(node(8), &[node(9)], &[link(8, 9)]);
        far.take_message(Time::ZERO, node(2), &body);
        assert!(!far.shared(node(9), quiet).congested());
    }
}
