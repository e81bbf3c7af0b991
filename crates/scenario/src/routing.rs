//! Static shortest paths over wires and links that decode in both directions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fairmesh_units::NodeId;

/// Distance of an unreachable node.
pub(crate) const UNREACHABLE: u64 = u64::MAX;

/// Cost of a perfect link, or of a wire. Integer costs have equal sums in any order.
pub(crate) const UNIT_COST: u64 = 1 << 20;

/// An undirected graph with costs; neighbours in ascending order.
pub(crate) struct Graph {
    start: Vec<u32>,
    edges: Vec<(u32, u64)>,
}

impl Graph {
    /// Builds the graph from `edges` in any order, each once.
    ///
    /// Of parallel edges the cheapest counts.
    pub fn new(nodes: usize, edges: &[(NodeId, NodeId, u64)]) -> Self {
        let mut both: Vec<(u32, u32, u64)> =
            edges.iter().flat_map(|&(a, b, c)| [(a.0, b.0, c), (b.0, a.0, c)]).collect();
        both.sort_unstable();
        both.dedup_by_key(|e| (e.0, e.1));
        let mut start = vec![0u32; nodes + 1];
        for e in &both {
            start[e.0 as usize + 1] += 1;
        }
        for i in 0..nodes {
            start[i + 1] += start[i];
        }
        Graph { start, edges: both.into_iter().map(|(_, to, cost)| (to, cost)).collect() }
    }

    pub fn neighbours(&self, node: u32) -> &[(u32, u64)] {
        &self.edges[self.start[node as usize] as usize..self.start[node as usize + 1] as usize]
    }

    /// Returns true if the two nodes are adjacent.
    pub fn adjacent(&self, a: NodeId, b: NodeId) -> bool {
        self.neighbours(a.0).binary_search_by_key(&b.0, |e| e.0).is_ok()
    }

    /// Returns the distances of all nodes from one; [`UNREACHABLE`] if there is no path.
    pub fn distances(&self, from: u32) -> Vec<u64> {
        let mut distance = vec![UNREACHABLE; self.start.len() - 1];
        distance[from as usize] = 0;
        let mut todo = BinaryHeap::from([Reverse((0u64, from))]);
        while let Some(Reverse((d, u))) = todo.pop() {
            if d > distance[u as usize] {
                continue;
            }
            for &(v, cost) in self.neighbours(u) {
                let through = d.saturating_add(cost);
                if through < distance[v as usize] {
                    distance[v as usize] = through;
                    todo.push(Reverse((through, v)));
                }
            }
        }
        distance
    }
}

/// Path search with a fixed rule.
///
/// It takes, at every node, the lowest-numbered neighbour on a shortest path.
pub(crate) struct Router<'a> {
    graph: &'a Graph,
    /// Distances from the most requested nodes, computed once each.
    known: BTreeMap<u32, Vec<u64>>,
    /// Scratch: nodes on a shortest path, by the number of the search that marked them.
    marked: Vec<u32>,
    searches: u32,
}

impl<'a> Router<'a> {
    pub fn new(graph: &'a Graph) -> Self {
        let nodes = graph.start.len() - 1;
        Router { graph, known: BTreeMap::new(), marked: vec![0; nodes], searches: 0 }
    }

    /// Returns the path between two different nodes, both included.
    ///
    /// Distances are computed from `hub`, one of the two: the end that most flows share costs
    /// least.
    pub fn path(&mut self, from: NodeId, to: NodeId, hub: NodeId) -> Option<Vec<NodeId>> {
        let graph = self.graph;
        let distance = &*self.known.entry(hub.0).or_insert_with(|| graph.distances(hub.0));
        let other = if hub == to { from } else { to };
        if distance[other.index()] == UNREACHABLE {
            return None;
        }
        if hub == to {
            return Some(descend(graph, distance, from, to));
        }
        // From the source: marks all nodes on shortest paths, then follows marked nodes.
        self.searches += 1;
        let mark = self.searches;
        let mut todo = vec![to.0];
        self.marked[to.index()] = mark;
        while let Some(u) = todo.pop() {
            for &(v, cost) in graph.neighbours(u) {
                let on_path = distance[v as usize].checked_add(cost) == Some(distance[u as usize]);
                if on_path && self.marked[v as usize] != mark {
                    self.marked[v as usize] = mark;
                    todo.push(v);
                }
            }
        }
        let mut path = vec![from];
        let mut at = from.0;
        while at != to.0 {
            let next = graph.neighbours(at).iter().find(|&&(v, cost)| {
                self.marked[v as usize] == mark
                    && distance[at as usize].checked_add(cost) == Some(distance[v as usize])
            });
            // Every marked node except `to` has a marked successor.
            at = next?.0;
            path.push(NodeId(at));
        }
        Some(path)
    }
}

/// Returns the path to `to` along decreasing `distance` from it.
fn descend(graph: &Graph, distance: &[u64], from: NodeId, to: NodeId) -> Vec<NodeId> {
    let mut path = vec![from];
    let mut at = from.0;
    while at != to.0 {
        let here = distance[at as usize];
        let next = graph
            .neighbours(at)
            .iter()
            .find(|&&(v, cost)| distance[v as usize].checked_add(cost) == Some(here));
        let Some(&(v, _)) = next else { break };
        at = v;
        path.push(NodeId(at));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(nodes: usize, edges: &[(u32, u32, u64)], from: u32, to: u32) -> Option<Vec<u32>> {
        let edges: Vec<_> = edges.iter().map(|&(a, b, c)| (NodeId(a), NodeId(b), c)).collect();
        let graph = Graph::new(nodes, &edges);
        let (from, to) = (NodeId(from), NodeId(to));
        let forward = Router::new(&graph).path(from, to, to);
        assert_eq!(forward, Router::new(&graph).path(from, to, from));
        forward.map(|p| p.into_iter().map(|n| n.0).collect())
    }

    #[test]
    fn ties_go_to_the_lowest_number_at_every_node() {
        // 3x3 grid, 0 in the corner: from 8, neighbour 5 is lower than 7; from 5, 2 than 4.
        let grid: Vec<(u32, u32, u64)> = (0..9u32)
            .flat_map(|i| [(i % 3 < 2).then_some((i, i + 1, 1)), (i < 6).then_some((i, i + 3, 1))])
            .flatten()
            .collect();
        assert_eq!(path(9, &grid, 8, 0), Some(vec![8, 5, 2, 1, 0]));
        // The reverse path is not the mirror image.
        assert_eq!(path(9, &grid, 0, 8), Some(vec![0, 1, 2, 5, 8]));
        assert_eq!(path(9, &grid, 6, 2), Some(vec![6, 3, 0, 1, 2]));
    }

    #[test]
    fn costs_outweigh_hops_and_absence_is_noticed() {
        let triangle = [(0, 1, 10), (1, 2, 10), (0, 2, 30)];
        assert_eq!(path(3, &triangle, 0, 2), Some(vec![0, 1, 2]));
        assert_eq!(path(4, &triangle, 0, 3), None);
        // The cheaper of two parallel edges counts.
        assert_eq!(
            path(3, &[(0, 1, 9), (0, 1, 1), (1, 2, 1), (0, 2, 3)], 0, 2),
            Some(vec![0, 1, 2])
        );
    }

    proptest! {
        #[test]
        fn both_hubs_give_one_path_of_least_cost(
            edges in prop::collection::vec((0u32..12, 0u32..12, 1u64..4), 0..40),
            from in 0u32..12, to in 0u32..12,
        ) {
            prop_assume!(from != to);
            let edges: Vec<_> = edges.into_iter().filter(|e| e.0 != e.1).collect();
            // Bellman-Ford as the oracle.
            let mut d = [u64::MAX; 12];
            d[from as usize] = 0;
            for _ in 0..12 {
                for &(a, b, c) in &edges {
                    for (a, b) in [(a, b), (b, a)] {
                        d[b as usize] = d[b as usize].min(d[a as usize].saturating_add(c));
                    }
                }
            }
            match path(12, &edges, from, to) {
                None => prop_assert_eq!(d[to as usize], u64::MAX),
                Some(p) => {
                    let cost = |a: u32, b: u32| {
                        let both = edges.iter().filter(|e| (e.0, e.1) == (a, b) || (e.1, e.0) == (a, b));
                        both.map(|e| e.2).min().unwrap()
                    };
                    let total: u64 = p.windows(2).map(|w| cost(w[0], w[1])).sum();
                    prop_assert_eq!(total, d[to as usize]);
                }
            }
        }
    }
}
