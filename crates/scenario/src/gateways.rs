//! Gateways between the mesh and the wired world, and the gateway that each node uses.

use fairmesh_units::NodeId;

/// The gateways of a scenario: none, one, or several that lead to the same wired world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gateways {
    /// In the order of the file.
    list: Vec<NodeId>,
    /// Gateway of each node; empty if there is one for all, or none.
    of: Vec<Option<NodeId>>,
}

impl Gateways {
    /// Returns gateways with one for all nodes.
    pub fn one(gateway: NodeId) -> Self {
        Gateways { list: vec![gateway], of: Vec::new() }
    }

    /// Returns several gateways.
    ///
    /// `of` has, by node, the gateway through which it reaches the wired world; `None` if it reaches none. Every one
    /// of them is in `list`.
    pub(crate) fn several(list: Vec<NodeId>, of: Vec<Option<NodeId>>) -> Self {
        Gateways { list, of }
    }

    /// True if there is no gateway.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if there is more than one gateway.
    pub fn are_several(&self) -> bool {
        self.list.len() > 1
    }

    /// All, in the order of the file.
    pub fn list(&self) -> &[NodeId] {
        &self.list
    }

    /// Returns the first gateway; the only one if there is one.
    pub fn first(&self) -> Option<NodeId> {
        self.list.first().copied()
    }

    /// True if the node is a gateway.
    pub fn has(&self, node: NodeId) -> bool {
        self.list.contains(&node)
    }

    /// Returns the gateway that a node uses, itself if it is one; `None` if it reaches none.
    pub fn of(&self, node: NodeId) -> Option<NodeId> {
        match self.of.get(node.index()) {
            Some(of) => *of,
            None => self.first(),
        }
    }
}
