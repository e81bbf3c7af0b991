//! Messages outside the air.
//!
//! They are an ideal exchange that no router has, to measure the cost of real signalling.

use fairmesh_control::{EventKind, Reach};
use fairmesh_units::NodeId;

use super::{Listeners, Note};

impl Listeners {
    /// Delivers a message immediately to every node that it reaches, without airtime or loss.
    pub fn hand_over(&mut self, from: NodeId, reach: Reach, body: &[u8]) {
        self.signalling.outside += 1;
        self.signalling.outside_bytes += body.len() as u64;
        let reached = match reach {
            Reach::Node(node) if node != from => vec![node],
            // Delivered elsewhere.
            Reach::Node(_) | Reach::Gateways => Vec::new(),
            Reach::Within(hops) => self.within(from, hops),
        };
        let start = self.bodies.len();
        self.bodies.extend_from_slice(body);
        let note = Note::Message { from, start, len: body.len() };
        for node in reached {
            if node.index() < self.at.len() {
                self.note(node.index(), EventKind::Messages, note);
            }
        }
    }

    /// Returns all other nodes within a number of hops, nearest first.
    fn within(&self, from: NodeId, hops: u32) -> Vec<NodeId> {
        let mut found = vec![from];
        let (mut ring, mut left) = (0, hops);
        while left > 0 && ring < found.len() {
            let end = found.len();
            for at in ring..end {
                for &next in self.adjacent.get(found[at].index()).into_iter().flatten() {
                    if !found.contains(&next) {
                        found.push(next);
                    }
                }
            }
            (ring, left) = (end, left - 1);
        }
        found.remove(0);
        found
    }
}
