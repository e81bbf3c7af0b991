//! The neighbourhood: its nodes, and the reports of its links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fairmesh_units::{NodeId, Span, Time};

use super::link_report::LinkReport;
use crate::Link;

/// Maximum number of hops from i to transmitters of L(i→j).
///
/// These are i, j, a neighbour of j, and a sender to that one.
pub(super) const MAX_HOPS: u32 = 3;

/// Hops from one node to the others.
type Hops = BTreeMap<NodeId, u32>;

/// Topology as routing reports it. A node with a link is in range of its other end.
#[derive(Debug)]
pub(super) struct Topology {
    node: NodeId,
    links: BTreeSet<Link>,
    near: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// Hops from this node.
    hops: Hops,
    /// Hops from each neighbour.
    theirs: BTreeMap<NodeId, Hops>,
}

impl Topology {
    pub fn new(node: NodeId, links: impl Iterator<Item = Link>) -> Self {
        let links: BTreeSet<Link> = links.collect();
        let mut near: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for l in &links {
            near.entry(l.from).or_default().insert(l.to);
            near.entry(l.to).or_default().insert(l.from);
        }
        let hops = walk(&near, node);
        let theirs = near.get(&node).into_iter().flatten();
        let theirs = theirs.map(|n| (*n, walk(&near, *n))).collect();
        Topology { node, links, near, hops, theirs }
    }

    fn near(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.near.get(&node).into_iter().flatten().copied()
    }

    /// Returns the nodes with all of their links in L(i→j): i, j, and the neighbours of either.
    pub fn middle(&self, to: NodeId) -> BTreeSet<NodeId> {
        let ends = [self.node, to];
        ends.into_iter().chain(ends.into_iter().flat_map(|n| self.near(n))).collect()
    }

    /// Returns pairs of these nodes that are in range of each other.
    pub fn in_range(&self, nodes: &BTreeSet<NodeId>) -> Vec<(NodeId, NodeId)> {
        let of = |a: &NodeId| {
            let a = *a;
            self.near(a).filter(move |b| a < *b && nodes.contains(b)).map(move |b| (a, b))
        };
        nodes.iter().flat_map(of).collect()
    }

    /// True if this neighbour may forward the report of a link.
    ///
    /// It is its transmitter or nearer to it, so that reports do not circulate.
    fn comes_from(&self, link: Link, sender: NodeId) -> bool {
        let far = self.hops.get(&link.from);
        let there = self.theirs.get(&sender).and_then(|h| h.get(&link.from));
        there.zip(far).is_some_and(|(there, here)| there < here)
    }
}

/// Returns the hops from a node to all within [`MAX_HOPS`].
fn walk(near: &BTreeMap<NodeId, BTreeSet<NodeId>>, from: NodeId) -> Hops {
    let mut hops = Hops::from([(from, 0)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        let next = hops[&at] + 1;
        if next > MAX_HOPS {
            break;
        }
        for n in near.get(&at).into_iter().flatten() {
            if !hops.contains_key(n) {
                hops.insert(*n, next);
                queue.push_back(*n);
            }
        }
    }
    hops
}

/// Reason for which a report is rejected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rejected {
    /// The report cannot be correct.
    Implausible,
    /// The report is of a link that routing does not know.
    Unknown,
}

/// Reports received.
#[derive(Debug)]
pub(super) struct Reports {
    pub topology: Topology,
    reports: BTreeMap<Link, (LinkReport, Time)>,
    /// Links with fewer flows than reported before.
    fewer: Vec<Link>,
}

impl Reports {
    pub fn new(topology: Topology) -> Self {
        Reports { topology, reports: BTreeMap::new(), fewer: Vec::new() }
    }

    /// Handles a report from a neighbour or, outside the air, from any node.
    pub fn take(
        &mut self,
        now: Time,
        sender: Option<NodeId>,
        report: LinkReport,
    ) -> Result<(), Rejected> {
        if report.link.from == self.topology.node {
            // The node's own reports come back from its neighbours; its own data are better.
            return Ok(());
        }
        if !self.topology.links.contains(&report.link) {
            return Err(Rejected::Unknown);
        }
        let far = self.topology.hops.get(&report.link.from);
        let trusted = sender.is_none_or(|t| self.topology.comes_from(report.link, t));
        if far.is_some() && trusted {
            let before = self.reports.insert(report.link, (report, now));
            let left =
                |b: &LinkReport| b.flows > report.flows || (report.is_empty() && !b.is_empty());
            if before.is_some_and(|b| left(&b.0)) {
                self.fewer.push(report.link);
            }
        }
        Ok(())
    }

    /// Returns links with fewer flows than reported before; each is returned once.
    pub fn fewer(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.fewer)
    }

    /// Returns pairs of the ends of these links that are in range of each other.
    pub fn in_range(&self, around: &[LinkReport]) -> Vec<(NodeId, NodeId)> {
        self.topology.in_range(&around.iter().flat_map(|n| [n.link.from, n.link.to]).collect())
    }

    /// Removes reports that were not repeated since then.
    pub fn forget(&mut self, now: Time, hold: Span) {
        self.reports.retain(|_, t| now.since(t.1) < hold);
    }

    /// Returns reports of links with an end among these nodes.
    pub fn among<'a>(
        &'a self,
        nodes: &'a BTreeSet<NodeId>,
    ) -> impl Iterator<Item = &'a LinkReport> {
        let inside = |l: &Link| nodes.contains(&l.from) || nodes.contains(&l.to);
        self.reports.values().map(|t| &t.0).filter(move |n| inside(&n.link))
    }

    /// Returns the reports to forward: those that a node beyond this one needs.
    pub fn beyond(&self) -> impl Iterator<Item = &LinkReport> {
        let passes = |l: &Link| self.topology.hops.get(&l.from).is_some_and(|h| *h < MAX_HOPS);
        self.reports.values().map(|t| &t.0).filter(move |n| passes(&n.link))
    }

    /// Returns the number of reports to forward.
    pub fn passed(&self) -> usize {
        self.beyond().count()
    }

    /// Returns one of the reports to forward.
    pub fn pass(&self, at: usize) -> Option<LinkReport> {
        self.beyond().nth(at).copied()
    }
}
