//! Collision domains: sets of links that share the air (Jamshaid 2010 §4.1.2).
//!
//! Two links contend if they share a node, or if an endpoint of one is in range of an endpoint of
//! the other. The caller defines the range: transmission range gives the model that a real network
//! can compute ("realistic"), interference range the one that only a simulator can ("omniscient").

use core::fmt;

use fairmesh_units::NodeId;

/// An undirected link between two nodes, the smaller id first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link {
    a: NodeId,
    b: NodeId,
}

impl Link {
    /// Returns the link between two nodes, given in either order.
    pub fn new(a: NodeId, b: NodeId) -> Self {
        Link { a: a.min(b), b: a.max(b) }
    }

    /// Returns its endpoints, the smaller id first.
    pub const fn ends(self) -> [NodeId; 2] {
        [self.a, self.b]
    }
}

/// A node outside the range relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownNode(pub NodeId);

impl fmt::Display for UnknownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} is not part of the network", self.0.0)
    }
}
impl core::error::Error for UnknownNode {}

/// Symmetric range relation: if either node is in range of the other, their links contend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contention {
    in_range: Vec<Vec<NodeId>>,
}

impl Contention {
    /// Builds the relation from the nodes in range of each node, by node id.
    ///
    /// Each node is in range of itself.
    ///
    /// # Errors
    /// Returns an error if a list names a node beyond the last one.
    pub fn new<L: AsRef<[NodeId]>>(in_range: &[L]) -> Result<Self, UnknownNode> {
        let mut sets: Vec<Vec<NodeId>> =
            (0..in_range.len() as u32).map(|i| vec![NodeId(i)]).collect();
        for (i, list) in in_range.iter().enumerate() {
            for &other in list.as_ref() {
                sets.get_mut(other.index()).ok_or(UnknownNode(other))?.push(NodeId(i as u32));
                sets[i].push(other);
            }
        }
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        Ok(Contention { in_range: sets })
    }

    /// Builds the relation from pairs in range of each other, among nodes `0..nodes`.
    ///
    /// # Errors
    /// Returns an error if a pair names a node beyond the last one.
    pub fn from_pairs(nodes: usize, pairs: &[(NodeId, NodeId)]) -> Result<Self, UnknownNode> {
        let mut in_range = vec![Vec::new(); nodes];
        for &(a, b) in pairs {
            in_range.get_mut(a.index()).ok_or(UnknownNode(a))?.push(b);
        }
        Contention::new(&in_range)
    }

    /// Returns the nodes in range of `node`, itself included, in order.
    pub fn in_range_of(&self, node: NodeId) -> &[NodeId] {
        &self.in_range[node.index()]
    }

    /// Returns true if two nodes are in range of each other, or equal.
    pub fn in_range(&self, one: NodeId, other: NodeId) -> bool {
        self.in_range[one.index()].binary_search(&other).is_ok()
    }

    /// Returns true if two links cannot be used at the same time.
    pub fn contend(&self, one: Link, other: Link) -> bool {
        one.ends().into_iter().any(|a| other.ends().into_iter().any(|b| self.in_range(a, b)))
    }
}

/// Sets of links, each of which may use its air for at most the whole time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domains {
    members: Vec<Vec<u32>>,
    /// By link, the domains that contain it.
    of_link: Vec<Vec<u32>>,
}

impl Domains {
    /// Returns the collision domain of every link.
    ///
    /// Domain i is link i and all links that contend with it.
    ///
    /// # Errors
    /// Returns an error if a link ends at a node that `contention` does not contain.
    pub fn collision(contention: &Contention, links: &[Link]) -> Result<Self, UnknownNode> {
        let nodes = contention.in_range.len();
        let mut incident: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for (i, link) in links.iter().enumerate() {
            for end in link.ends() {
                incident.get_mut(end.index()).ok_or(UnknownNode(end))?.push(i as u32);
            }
        }
        let members = links
            .iter()
            .map(|link| {
                let in_range = link.ends().into_iter().flat_map(|e| contention.in_range_of(e));
                let mut set: Vec<u32> =
                    in_range.flat_map(|n| incident[n.index()].iter().copied()).collect();
                set.sort_unstable();
                set.dedup();
                set
            })
            .collect();
        Ok(Domains::from_sets(members, links.len()))
    }

    /// Returns one domain per link, as for wired links.
    pub fn isolated(links: usize) -> Self {
        Domains::from_sets((0..links as u32).map(|i| vec![i]).collect(), links)
    }

    /// Returns domains with the given sets of links, each in order, such as cliques.
    ///
    /// # Panics
    /// If a set names a link that is not below `links`.
    pub fn from_sets(members: Vec<Vec<u32>>, links: usize) -> Self {
        let mut of_link = vec![Vec::new(); links];
        for (domain, set) in members.iter().enumerate() {
            for &link in set {
                of_link[link as usize].push(domain as u32);
            }
        }
        Domains { members, of_link }
    }

    /// Returns the number of domains.
    pub fn len(&self) -> usize {
        self.members.len()
    }
    /// Returns true if there is no domain.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
    /// Returns the links in a domain, in order.
    pub fn links(&self, domain: usize) -> &[u32] {
        &self.members[domain]
    }

    /// Returns the share of each domain's time that one bit/s of a flow takes.
    ///
    /// `flow` gives the links that the flow uses and the seconds per bit that it spends on each. A link may occur
    /// several times.
    pub fn usage(&self, flow: &[(u32, f64)]) -> Vec<(u32, f64)> {
        let each = |&(link, cost): &(u32, f64)| {
            self.of_link[link as usize].iter().map(move |&domain| (domain, cost))
        };
        let mut shares: Vec<(u32, f64)> = flow.iter().flat_map(each).collect();
        // Stable sort: the order of addition, and so the rounding, follows the path.
        shares.sort_by_key(|&(domain, _)| domain);
        shares.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(i: u32) -> NodeId {
        NodeId(i)
    }

    fn chain(nodes: u32) -> (Contention, Vec<Link>) {
        let pairs: Vec<_> = (1..nodes).map(|i| (n(i - 1), n(i))).collect();
        let links = pairs.iter().map(|&(a, b)| Link::new(b, a)).collect();
        (Contention::from_pairs(nodes as usize, &pairs).unwrap(), links)
    }

    #[test]
    fn a_chain_link_contends_two_links_away() {
        let (contention, links) = chain(8);
        let domains = Domains::collision(&contention, &links).unwrap();
        assert_eq!(domains.links(0), [0, 1, 2]);
        assert_eq!(domains.links(3), [1, 2, 3, 4, 5]);
        assert_eq!(domains.links(6), [4, 5, 6]);
        for (i, &one) in links.iter().enumerate() {
            for (j, &other) in links.iter().enumerate() {
                let listed = domains.links(i).contains(&(j as u32));
                assert_eq!(contention.contend(one, other), listed);
            }
        }
    }

    #[test]
    fn one_way_range_is_enough() {
        let one_way = Contention::new(&[vec![n(1)], vec![], vec![]]).unwrap();
        assert_eq!(one_way.in_range_of(n(1)), [n(0), n(1)]);
        assert_eq!(one_way.in_range_of(n(2)), [n(2)]);
    }

    #[test]
    fn usage_adds_up_per_domain() {
        let (contention, links) = chain(4);
        let domains = Domains::collision(&contention, &links).unwrap();
        // All three links contend with all three.
        assert_eq!(domains.usage(&[(0, 1.0), (2, 3.0), (0, 0.5)]), [(0, 4.5), (1, 4.5), (2, 4.5)]);
        assert_eq!(Domains::isolated(3).usage(&[(2, 1.0)]), [(2, 1.0)]);
    }

    #[test]
    fn unknown_nodes_are_refused() {
        assert_eq!(Contention::new(&[vec![n(1)]]), Err(UnknownNode(n(1))));
        assert_eq!(Contention::from_pairs(2, &[(n(5), n(0))]), Err(UnknownNode(n(5))));
        let (contention, _) = chain(2);
        let link = Link::new(n(1), n(2));
        assert_eq!(Domains::collision(&contention, &[link]), Err(UnknownNode(n(2))));
    }
}
