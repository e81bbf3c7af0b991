//! A random mesh of realistic size.

// Each test file uses a part of this module.
#![allow(dead_code)]

use std::collections::VecDeque;

use fairmesh_capacity::fair::LinkSpec;
use fairmesh_phy::Rate;
use fairmesh_units::{NodeId, Stream};

pub struct Mesh {
    pub in_range: Vec<Vec<NodeId>>,
    pub links: Vec<LinkSpec>,
    /// Shortest paths to the node in the middle.
    pub paths: Vec<Vec<NodeId>>,
}

/// Nodes on a unit square, in range of each other within `range`.
///
/// The links have all four 802.11b rates. The first `flows` nodes that can reach node 0, in the middle,
/// upload to it.
pub fn mesh(nodes: usize, range: f64, flows: usize) -> Mesh {
    let mut rng = Stream::new(1, "test");
    let mut place: Vec<(f64, f64)> = (0..nodes).map(|_| (rng.unit(), rng.unit())).collect();
    place[0] = (0.5, 0.5);
    let near = |a: usize, b: usize| {
        let (dx, dy) = (place[a].0 - place[b].0, place[a].1 - place[b].1);
        a != b && dx * dx + dy * dy < range * range
    };
    let in_range: Vec<Vec<NodeId>> = (0..nodes)
        .map(|a| (0..nodes).filter(|&b| near(a, b)).map(|b| NodeId(b as u32)).collect())
        .collect();
    let mut parent = vec![None; nodes];
    let mut queue = VecDeque::from([0usize]);
    while let Some(a) = queue.pop_front() {
        for b in &in_range[a] {
            if b.index() != 0 && parent[b.index()].is_none() {
                parent[b.index()] = Some(a);
                queue.push_back(b.index());
            }
        }
    }
    let paths: Vec<Vec<NodeId>> = (1..nodes)
        .filter(|&i| parent[i].is_some())
        .take(flows)
        .map(|i| {
            let up = std::iter::successors(Some(i), |&i| parent[i]);
            up.map(|i| NodeId(i as u32)).collect()
        })
        .collect();
    assert_eq!(paths.len(), flows);
    let links: Vec<LinkSpec> = (0..nodes)
        .flat_map(|a| in_range[a].iter().map(move |&b| (NodeId(a as u32), b)))
        .map(|(from, to)| LinkSpec {
            from,
            to,
            rate: Rate(((from.0 + to.0) % 4) as u8),
            delivery: 0.9,
        })
        .collect();
    Mesh { in_range, links, paths }
}
