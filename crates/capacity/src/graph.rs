//! Conflict graphs: links, or directed transmissions, that cannot be on the air together.

use std::collections::BTreeSet;

use fairmesh_units::NodeId;

use crate::domain::{Contention, Domains, Link, UnknownNode};

/// One direction of a link: the sender of its data frames and their receiver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hop {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
}

/// Rule of mutual exclusion between two transmissions, from lenient to strict.
///
/// Under each, transmissions that share a node exclude each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Exclusion {
    /// A schedule without carrier sense and without ACKs.
    ///
    /// The sender of one is in range of the receiver of the other (Jamshaid 2010 §7.5.2, "with perfect
    /// scheduling").
    Scheduled,
    /// Data and ACK after carrier sense.
    ///
    /// The sender of one is in range of either end of the other. Its data would destroy the other's data at
    /// the receiver or its ACK at the sender, and it defers to the sender anyway. Two receivers may be
    /// neighbours: they send only an ACK.
    #[default]
    Basic,
    /// RTS and CTS: an end of one is in range of an end of the other.
    ///
    /// Each end defers its neighbours for the whole exchange. The rule of [`Contention::contend`].
    RtsCts,
}

impl Exclusion {
    /// Returns true if two transmissions exclude each other, given the range relation.
    pub fn excludes(self, contention: &Contention, one: Hop, other: Hop) -> bool {
        let in_range = |a, b| contention.in_range(a, b);
        let sender_at_receiver = in_range(one.from, other.to) || in_range(other.from, one.to);
        let senders = in_range(one.from, other.from);
        let receivers = in_range(one.to, other.to);
        match self {
            Exclusion::Scheduled => {
                sender_at_receiver || one.from == other.from || one.to == other.to
            }
            Exclusion::Basic => sender_at_receiver || senders || one.to == other.to,
            Exclusion::RtsCts => sender_at_receiver || senders || receivers,
        }
    }
}

/// Users of the air, numbered from 0, and the pairs that exclude each other.
///
/// This is the "link-contention graph" of Jamshaid 2010 §4.1.2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConflictGraph {
    /// By vertex, its neighbours in order, without itself.
    neighbours: Vec<Vec<u32>>,
}

impl ConflictGraph {
    /// Builds the graph from pairs that exclude each other; loops and repetitions are ignored.
    ///
    /// # Panics
    /// If a pair names a vertex that is not below `vertices`.
    pub fn from_edges(vertices: usize, edges: &[(u32, u32)]) -> Self {
        let mut neighbours = vec![Vec::new(); vertices];
        for &(a, b) in edges {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        ConflictGraph::tidied(neighbours)
    }

    /// Builds the graph of undirected links, which exclude each other if they contend.
    ///
    /// # Errors
    /// Returns an error if a link ends at a node that `contention` does not contain.
    pub fn of_links(contention: &Contention, links: &[Link]) -> Result<Self, UnknownNode> {
        let domains = Domains::collision(contention, links)?;
        let near = (0..links.len()).map(|i| domains.links(i).to_vec()).collect();
        Ok(ConflictGraph::tidied(near))
    }

    /// Builds the graph of directed transmissions under a rule.
    ///
    /// # Errors
    /// Returns an error if a transmission ends at a node that `contention` does not contain.
    pub fn of_hops(
        contention: &Contention,
        hops: &[Hop],
        exclusion: Exclusion,
    ) -> Result<Self, UnknownNode> {
        // Every rule implies the undirected one, so its graph has all candidates.
        let links: Vec<Link> = hops.iter().map(|h| Link::new(h.from, h.to)).collect();
        let mut graph = ConflictGraph::of_links(contention, &links)?;
        for (&hop, near) in hops.iter().zip(&mut graph.neighbours) {
            near.retain(|&other| exclusion.excludes(contention, hop, hops[other as usize]));
        }
        Ok(graph)
    }

    fn tidied(mut neighbours: Vec<Vec<u32>>) -> Self {
        for (v, near) in neighbours.iter_mut().enumerate() {
            near.sort_unstable();
            near.dedup();
            near.retain(|&other| other as usize != v);
        }
        ConflictGraph { neighbours }
    }

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.neighbours.len()
    }
    /// Returns true if there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.neighbours.is_empty()
    }
    /// Returns the vertices that exclude `vertex`, in order, without itself.
    pub fn neighbours(&self, vertex: u32) -> &[u32] {
        &self.neighbours[vertex as usize]
    }
    /// Returns true if two different vertices exclude each other.
    pub fn conflict(&self, one: u32, other: u32) -> bool {
        self.neighbours(one).binary_search(&other).is_ok()
    }
    /// Returns every excluding pair once, the smaller number first, in order.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.len() as u32).flat_map(|a| {
            let near = self.neighbours(a).iter();
            near.filter(move |&&b| a < b).map(move |&b| (a, b))
        })
    }

    /// Returns the collision-domain model.
    ///
    /// Domain i is vertex i and every vertex that excludes it.
    pub fn neighbourhoods(&self) -> Domains {
        let closed = |v: usize| {
            let mut set = self.neighbours[v].clone();
            set.insert(set.partition_point(|&other| (other as usize) < v), v as u32);
            set
        };
        Domains::from_sets((0..self.len()).map(closed).collect(), self.len())
    }

    /// Returns the vertices in degeneracy order.
    ///
    /// Each next one has the fewest remaining neighbours, the lowest number first among equals.
    pub(crate) fn degeneracy_order(&self) -> Vec<u32> {
        let mut degree: Vec<usize> = self.neighbours.iter().map(Vec::len).collect();
        let mut left: BTreeSet<(usize, u32)> =
            degree.iter().enumerate().map(|(v, &d)| (d, v as u32)).collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some((_, v)) = left.pop_first() {
            order.push(v);
            for &near in self.neighbours(v) {
                let d = &mut degree[near as usize];
                if left.remove(&(*d, near)) {
                    *d -= 1;
                    left.insert((*d, near));
                }
            }
        }
        order
    }
}
