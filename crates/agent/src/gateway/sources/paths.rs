//! Paths from nodes to the gateway, as far as the sources show them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fairmesh_linux::{IpNet, MacAddr};
use serde::{Deserialize, Serialize};

use crate::gateway::config::Subscriber;

/// Addresses by which a node is recognised as a home of the configuration.
const ADDRESSES: usize = 4;
/// Factor of a map's costs, which are numbers with a fraction.
const COST_UNIT: f64 = 1e6;

/// Next node of a node towards the gateway.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct NextNode {
    /// Name of the next node; `None`: the gateway itself.
    pub node: Option<String>,
    /// True if no other node is between both.
    pub exact: bool,
}

impl NextNode {
    /// The gateway itself.
    pub const DIRECT: NextNode = NextNode { node: None, exact: true };

    /// Returns the first router of a path from the gateway; `hops`: length of the path, if known.
    pub fn first_hop(node: &str, hops: Option<u32>) -> NextNode {
        NextNode { node: Some(node.to_owned()), exact: hops == Some(2) }
    }
}

/// Paths of all sources.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Paths {
    /// Next nodes by node. Nodes that are homes have their homes' names.
    pub nodes: BTreeMap<String, NextNode>,
    /// Names of the sources that show whole paths, and of those that show first hops.
    pub sources: [Vec<String>; 2],
}

impl Paths {
    /// Adds the paths of a source. A path that an earlier source shows stays.
    pub(super) fn add(&mut self, source: &str, nodes: BTreeMap<String, NextNode>, whole: bool) {
        if nodes.is_empty() {
            return;
        }
        self.sources[usize::from(!whole)].push(source.to_owned());
        for (name, via) in nodes {
            // A first hop has a name of its own even if the source shows no more of it.
            if let Some(next) = via.node.as_ref().filter(|_| !whole) {
                self.nodes.entry(next.clone()).or_insert(NextNode::DIRECT);
            }
            self.nodes.entry(name).or_insert(via);
        }
    }

    /// Replaces nodes' names by names of the homes that have their addresses.
    pub fn name<'a>(&mut self, found: &[Subscriber], homes: impl Iterator<Item = &'a Subscriber>) {
        let (mut nets, mut macs) = (BTreeMap::new(), BTreeMap::new());
        let mut known = std::collections::BTreeSet::new();
        for home in homes {
            known.insert(home.name.as_str());
            nets.extend(home.prefixes.iter().map(|net: &IpNet| (*net, home.name.as_str())));
            macs.extend(home.macs.iter().map(|mac: &MacAddr| (*mac, home.name.as_str())));
        }
        let owner = |node: &Subscriber| -> Option<&str> {
            if known.contains(node.name.as_str()) {
                return None;
            }
            let by_net = node.prefixes.iter().take(ADDRESSES).find_map(|net| nets.get(net));
            let by_mac = || node.macs.iter().take(ADDRESSES).find_map(|mac| macs.get(mac));
            by_net.or_else(by_mac).copied()
        };
        let renamed: BTreeMap<&str, &str> =
            found.iter().filter_map(|node| Some((node.name.as_str(), owner(node)?))).collect();
        let new = |name: String| renamed.get(name.as_str()).map_or(name, |home| (*home).to_owned());
        for (name, via) in core::mem::take(&mut self.nodes) {
            let (name, node) = (new(name), via.node.map(new));
            // Several nodes may be one home.
            if node.as_ref() != Some(&name) {
                self.nodes.entry(name).or_insert(NextNode { node, ..via });
            }
        }
    }
}

/// Links of a map, and the least-cost tree from the gateway.
#[derive(Default, Debug)]
pub(super) struct Links<'a>(BTreeMap<&'a str, BTreeMap<&'a str, u64>>);

impl<'a> Links<'a> {
    /// Adds a link with its cost; an invalid or infinite cost is none.
    pub fn add(&mut self, from: &'a str, to: &'a str, cost: f64) {
        let scaled = cost * COST_UNIT;
        if from == to || !(0.0..1e15).contains(&scaled) {
            return;
        }
        // One whole unit at least, so that every hop counts.
        let cost = (scaled as u64).max(1);
        let known = self.0.entry(from).or_default().entry(to).or_insert(cost);
        *known = cost.min(*known);
        // A map may show each link once.
        self.0.entry(to).or_default().entry(from).or_insert(cost);
    }

    /// Returns the node before each node on the least-cost path from `root`.
    pub fn tree(&self, root: &'a str) -> BTreeMap<&'a str, &'a str> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut least: BTreeMap<&str, u64> = BTreeMap::from([(root, 0)]);
        let mut open = BinaryHeap::from([Reverse((0_u64, root))]);
        while let Some(Reverse((cost, node))) = open.pop() {
            if least.get(node).is_some_and(|c| *c < cost) {
                continue;
            }
            for (next, link) in self.0.get(node).into_iter().flatten() {
                let sum = cost.saturating_add(*link);
                if least.get(next).is_none_or(|known| sum < *known) {
                    least.insert(next, sum);
                    before.insert(next, node);
                    open.push(Reverse((sum, next)));
                }
            }
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(name: &str, net: &str) -> Subscriber {
        Subscriber {
            name: name.into(),
            prefixes: vec![net.parse().unwrap()],
            macs: vec![],
            plan: Default::default(),
            hops: None,
        }
    }

    #[test]
    fn the_tree_has_the_cheapest_paths() {
        let mut links = Links::default();
        for (a, b, cost) in [
            ("gw", "roof", 1.0),
            ("roof", "mill", 1.5),
            ("gw", "mill", 3.0),
            ("mill", "farm", 1.0),
            ("gw", "farm", f64::INFINITY),
            ("gw", "farm", f64::NAN),
            ("gw", "farm", -1.0),
        ] {
            links.add(a, b, cost);
        }
        let tree = links.tree("gw");
        let expected = [("farm", "mill"), ("mill", "roof"), ("roof", "gw")];
        assert_eq!(tree.into_iter().collect::<Vec<_>>(), expected);
        assert!(links.tree("elsewhere").is_empty());
    }

    #[test]
    fn nodes_get_the_names_of_their_homes() {
        let mut paths = Paths::default();
        let far = NextNode::first_hop("10.0.0.2", Some(3));
        paths.add("olsr", BTreeMap::from([("10.0.0.3".to_owned(), far)]), false);
        // A later source does not change the path.
        paths.add("map", BTreeMap::from([("10.0.0.3".to_owned(), NextNode::DIRECT)]), true);
        let found = [home("10.0.0.2", "10.0.0.2/32"), home("10.0.0.3", "10.0.0.3/32")];
        let homes = [home("roof", "10.0.0.2/32"), home("10.0.0.3", "10.0.0.3/32")];
        paths.name(&found, homes.iter());
        let via = NextNode { node: Some("roof".into()), exact: false };
        let expected =
            BTreeMap::from([("10.0.0.3".into(), via), ("roof".into(), NextNode::DIRECT)]);
        assert_eq!(paths.nodes, expected);
        assert_eq!(paths.sources, [vec!["map".to_owned()], vec!["olsr".to_owned()]]);
    }
}
