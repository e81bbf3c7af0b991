//! Conversion of a path of nodes to a path of stations: the radio of each hop.

use std::collections::BTreeMap;

use fairmesh_units::NodeId;

use super::nodes::Nodes;
use super::{Result, fail};
use crate::error::{KeyPath, Problem};
use crate::name::Name;
use crate::routing::Graph;

/// Cost of passing a packet between radios of a node, which decides between equal paths.
pub(super) const BUS_COST: u64 = 1;

impl Nodes {
    /// Returns the node of `node` or `node/radio`, and that radio's station.
    pub fn find_on(&self, name: &Name, key: KeyPath) -> Result<(NodeId, Option<NodeId>)> {
        let found = self.find(name, key.clone());
        if found.is_ok() {
            return Ok((found?, None));
        }
        let Some((node, _)) = name.as_str().rsplit_once('/') else { return Ok((found?, None)) };
        let node = self.find(&Name::from(node), key.clone())?;
        let named = |s: &NodeId| self.name(*s) == name.as_str();
        match self.stations(node).find(named) {
            Some(station) => Ok((node, Some(station))),
            None => fail(key, Problem::UnknownNode(name.to_string())),
        }
    }

    /// Returns true if two nodes are adjacent over any radio, or over the one given.
    pub fn joined(&self, graph: &Graph, a: NodeId, b: NodeId, on: Option<NodeId>) -> bool {
        let ends = self.stations(b).filter(|s| on.is_none_or(|on| on == *s));
        ends.into_iter().any(|t| self.stations(a).any(|s| graph.adjacent(s, t)))
    }
}

/// Returns the stations of a path of nodes at the least cost; on a tie, the first radios.
///
/// Consecutive nodes must be adjacent; if the path cannot end as required, the caller detects a
/// missing link.
pub(super) fn cheapest(
    path: &[(NodeId, Option<NodeId>)],
    nodes: &Nodes,
    graph: &Graph,
) -> Vec<NodeId> {
    let cost = |a: NodeId, b: NodeId| {
        let to = graph.neighbours(a.0);
        to.binary_search_by_key(&b.0, |e| e.0).ok().map(|at| to[at].1)
    };
    let bus = |a: NodeId, b: NodeId| if a == b { 0 } else { BUS_COST };
    // By hop, the possible stations at arrival: cost, stations so far.
    let mut ways: Vec<(u64, Vec<NodeId>)> = vec![(0, vec![path[0].0])];
    for &(node, on) in &path[1..] {
        let mut next: Vec<(u64, Vec<NodeId>)> = Vec::new();
        for to in nodes.stations(node).filter(|s| on.is_none_or(|on| on == *s)) {
            let mut best: Option<(u64, Vec<NodeId>)> = None;
            for (so_far, way) in &ways {
                let at = way[way.len() - 1];
                let Some(device) = nodes.device(at) else { continue };
                for leave in nodes.stations(device) {
                    let Some(hop) = cost(leave, to) else { continue };
                    let all = so_far.saturating_add(bus(at, leave)).saturating_add(hop);
                    if best.as_ref().is_none_or(|b| all < b.0) {
                        let mut way = way.clone();
                        if leave != at {
                            way.push(leave);
                        }
                        way.push(to);
                        best = Some((all, way));
                    }
                }
            }
            next.extend(best);
        }
        ways = next;
    }
    let end = path[path.len() - 1].0;
    let last = |way: &[NodeId]| way[way.len() - 1];
    let best = ways.into_iter().min_by_key(|(cost, way)| cost + bus(last(way), end));
    let mut way = best.map_or_else(|| path.iter().map(|n| n.0).collect(), |b| b.1);
    if way.last().is_some_and(|l| *l != end) {
        way.push(end);
    }
    way
}

/// Keeps, of links on several radios, those next in turn.
///
/// These are the first at the gateway, the second one hop away, and so on. Without a gateway, hops count from
/// the first node.
pub(super) fn take_turns(nodes: &Nodes, edges: &mut Vec<(NodeId, NodeId, u64)>) {
    let device = |n: NodeId| nodes.device(n).unwrap_or(n);
    let mut around: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.devices];
    for &(a, b, _) in edges.iter() {
        let (a, b) = (device(a), device(b));
        around[a.index()].push(b);
        around[b.index()].push(a);
    }
    let mut depth = vec![usize::MAX; nodes.devices];
    let mut wave = nodes.gateways.clone();
    if wave.is_empty() {
        wave.push(NodeId(0));
    }
    wave.iter().for_each(|n| depth[n.index()] = 0);
    for hops in 1.. {
        let mut next = Vec::new();
        for n in wave {
            for &m in &around[n.index()] {
                if depth[m.index()] == usize::MAX {
                    depth[m.index()] = hops;
                    next.push(m);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        wave = next;
    }
    // The kinds of radio that link each pair of nodes.
    let mut linked: BTreeMap<(NodeId, NodeId), Vec<u8>> = BTreeMap::new();
    let pair = |a: NodeId, b: NodeId| {
        let (a, b) = (device(a), device(b));
        (a.min(b), a.max(b))
    };
    let kind = |n: NodeId| nodes.list[n.index()].radio;
    for &(a, b, _) in edges.iter() {
        linked.entry(pair(a, b)).or_default().push(kind(a));
    }
    linked.values_mut().for_each(|kinds| kinds.sort_unstable());
    edges.retain(|&(a, b, _)| {
        let (x, y) = pair(a, b);
        let Some(kinds) = linked.get(&(x, y)) else { return true };
        let turn = depth[x.index()].min(depth[y.index()]) % kinds.len();
        kinds[turn] == kind(a)
    });
}
