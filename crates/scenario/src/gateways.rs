//! Gateways between the mesh and the wired world, and the gateway that each node uses.

use fairmesh_units::NodeId;

/// The gateways of a scenario: none, one, or several connected to the same wired world.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Gateways {
    /// Gateways, in the order of the file.
    list: Vec<NodeId>,
    /// Gateway of each node; empty if there is at most one.
    of: Vec<Option<NodeId>>,
    /// Number of gateways of the whole world, of which this may be a part.
    total: usize,
}

/// Without the total, so that keys of results do not depend on it.
impl core::fmt::Debug for Gateways {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gateways").field("list", &self.list).field("of", &self.of).finish()
    }
}

impl Gateways {
    /// Returns a single gateway for all nodes.
    pub fn one(gateway: NodeId) -> Self {
        Gateways { list: vec![gateway], of: Vec::new(), total: 1 }
    }

    /// Returns several gateways.
    ///
    /// `of` has, by node, the gateway through which it reaches the wired world; `None` if it
    /// reaches none. Each of them is in `list`.
    pub(crate) fn several(list: Vec<NodeId>, of: Vec<Option<NodeId>>) -> Self {
        let total = list.len();
        Gateways { list, of, total }
    }

    /// Returns the gateways of a part of a world that has `total` of them.
    pub(crate) fn several_of(total: usize, list: Vec<NodeId>, of: Vec<Option<NodeId>>) -> Self {
        Gateways { list, of, total }
    }

    /// Returns the number of gateways of the world, of which this may be a part.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns true if there is no gateway.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if there is more than one gateway.
    pub fn are_several(&self) -> bool {
        self.total > 1
    }

    /// Returns all gateways, in the order of the file.
    pub fn list(&self) -> &[NodeId] {
        &self.list
    }

    /// Returns the first gateway, if any.
    pub fn first(&self) -> Option<NodeId> {
        self.list.first().copied()
    }

    /// Returns true if the node is a gateway.
    pub fn has(&self, node: NodeId) -> bool {
        self.list.contains(&node)
    }

    /// Returns the gateway that a node uses, itself for a gateway; `None` if it reaches none.
    pub fn of(&self, node: NodeId) -> Option<NodeId> {
        match self.of.get(node.index()) {
            Some(of) => *of,
            None => self.first(),
        }
    }
}
