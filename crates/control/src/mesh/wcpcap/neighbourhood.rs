//! The neighbourhood: who is around, and what was told of the links there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fairmesh_units::{NodeId, Span, Time};

use super::link_report::LinkReport;
use crate::Link;

/// Transmitters of L(i→j) are at most so many hops from i: i, j, a neighbour of j, and who sends to
/// that.
pub(super) const FAR: u32 = 3;

/// Hops from one node to the others.
type Hops = BTreeMap<NodeId, u32>;

/// The topology as routing reports it. Whoever has a link hears its other end.
#[derive(Debug)]
pub(super) struct Topology {
    node: NodeId,
    links: BTreeSet<Link>,
    near: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// From this node, and from each neighbour.
    hops: Hops,
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

    /// The nodes of which every link is in L(i→j): i, j, and the neighbours of either.
    pub fn middle(&self, to: NodeId) -> BTreeSet<NodeId> {
        let ends = [self.node, to];
        ends.into_iter().chain(ends.into_iter().flat_map(|n| self.near(n))).collect()
    }

    /// Pairs of these nodes that hear each other.
    pub fn hears(&self, nodes: &BTreeSet<NodeId>) -> Vec<(NodeId, NodeId)> {
        let of = |a: &NodeId| {
            let a = *a;
            self.near(a).filter(move |b| a < *b && nodes.contains(b)).map(move |b| (a, b))
        };
        nodes.iter().flat_map(of).collect()
    }

    /// Whether the report of a link may come from this neighbour: from its transmitter, or from one that
    /// is nearer to it, so that nothing goes in circles.
    fn comes_from(&self, link: Link, teller: NodeId) -> bool {
        let far = self.hops.get(&link.from);
        let there = self.theirs.get(&teller).and_then(|h| h.get(&link.from));
        there.zip(far).is_some_and(|(there, here)| there < here)
    }
}

/// Hops from a node to all within [`FAR`].
fn walk(near: &BTreeMap<NodeId, BTreeSet<NodeId>>, from: NodeId) -> Hops {
    let mut hops = Hops::from([(from, 0)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        let next = hops[&at] + 1;
        if next > FAR {
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

/// Why reports are not believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rejected {
    /// It cannot be true.
    Implausible,
    /// Of a link that routing knows nothing of.
    Unknown,
}

/// What was told.
#[derive(Debug)]
pub(super) struct Reports {
    pub topology: Topology,
    told: BTreeMap<Link, (LinkReport, Time)>,
    /// Links that have fewer flows than was told before.
    fewer: Vec<Link>,
}

impl Reports {
    pub fn new(topology: Topology) -> Self {
        Reports { topology, told: BTreeMap::new(), fewer: Vec::new() }
    }

    /// Takes in a report from a neighbour; outside the air, from anybody.
    pub fn take(
        &mut self,
        now: Time,
        teller: Option<NodeId>,
        report: LinkReport,
    ) -> Result<(), Rejected> {
        if report.link.from == self.topology.node {
            // What it said itself comes back from its neighbours; it knows better.
            return Ok(());
        }
        if !self.topology.links.contains(&report.link) {
            return Err(Rejected::Unknown);
        }
        let far = self.topology.hops.get(&report.link.from);
        let trusted = teller.is_none_or(|t| self.topology.comes_from(report.link, t));
        if far.is_some() && trusted {
            let before = self.told.insert(report.link, (report, now));
            let left =
                |b: &LinkReport| b.flows > report.flows || (report.is_empty() && !b.is_empty());
            if before.is_some_and(|b| left(&b.0)) {
                self.fewer.push(report.link);
            }
        }
        Ok(())
    }

    /// Links that have fewer flows than was told before; each is told once.
    pub fn fewer(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.fewer)
    }

    /// Pairs of the ends of these links that hear each other.
    pub fn hears(&self, around: &[LinkReport]) -> Vec<(NodeId, NodeId)> {
        self.topology.hears(&around.iter().flat_map(|n| [n.link.from, n.link.to]).collect())
    }

    /// What was not told again since then is forgotten.
    pub fn forget(&mut self, now: Time, hold: Span) {
        self.told.retain(|_, t| now.since(t.1) < hold);
    }

    /// Reports of links with an end among these nodes.
    pub fn among<'a>(
        &'a self,
        nodes: &'a BTreeSet<NodeId>,
    ) -> impl Iterator<Item = &'a LinkReport> {
        let inside = |l: &Link| nodes.contains(&l.from) || nodes.contains(&l.to);
        self.told.values().map(|t| &t.0).filter(move |n| inside(&n.link))
    }

    /// The reports to pass on: those that somebody beyond this node needs.
    pub fn beyond(&self) -> impl Iterator<Item = &LinkReport> {
        let passes = |l: &Link| self.topology.hops.get(&l.from).is_some_and(|h| *h < FAR);
        self.told.values().map(|t| &t.0).filter(move |n| passes(&n.link))
    }

    /// How many there are to pass on.
    pub fn passed(&self) -> usize {
        self.beyond().count()
    }

    /// One of them.
    pub fn pass(&self, at: usize) -> Option<LinkReport> {
        self.beyond().nth(at).copied()
    }
}
