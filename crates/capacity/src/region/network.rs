//! The checked network of a region: all that is constant between queries.

use fairmesh_phy::Phy;
use fairmesh_units::NodeId;

use super::independent_sets::IndependentSets;
use super::pair;
use super::timing::Spans;
use super::types::{LinkMesh, RegionError, Settings, Stream};
use crate::domain::{Contention, UnknownNode};
use crate::fair::{FairError, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;

/// Links in use and the range relation.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub phy: Phy,
    pub access: Access,
    pub settings: Settings,
    pub links: Vec<LinkSpec>,
    pub streams: Vec<Stream>,
    pub contention: Contention,
    /// By link, its user of the air: with RTS/CTS both directions of a link are one user.
    pub user: Vec<u32>,
    /// The links of each user.
    pub members: Vec<Vec<usize>>,
    pub spans: Spans,
}

impl Network {
    /// Checks a network.
    pub fn new<L: AsRef<[NodeId]>>(mesh: &LinkMesh<'_, L>) -> Result<Self, RegionError> {
        let s = mesh.settings;
        if !(s.utilisation > 0.0 && s.utilisation <= 1.0 && (0.0..1.0).contains(&s.loss)) {
            return Err(RegionError::BadSettings);
        }
        let bad =
            |l: &LinkSpec| !(l.delivery > 0.0 && l.delivery <= 1.0) || l.rate > mesh.phy.highest();
        if let Some(l) = mesh.links.iter().find(|l| bad(l)) {
            return Err(FairError::BadLink { from: l.from, to: l.to }.into());
        }
        let nodes = mesh.in_range.len();
        let unknown = |n: &NodeId| n.index() >= nodes;
        if let Some(node) = mesh.links.iter().flat_map(|l| [l.from, l.to]).find(unknown) {
            return Err(UnknownNode(node).into());
        }
        for (i, stream) in mesh.streams.iter().enumerate() {
            if stream.link >= mesh.links.len() || stream.after.is_some_and(|a| a >= i) {
                return Err(RegionError::BadStream(i));
            }
        }
        let links = mesh.links.to_vec();
        let user = users(&links, mesh.access);
        let count = user.iter().max().map_or(0, |&u| u as usize + 1);
        Ok(Network {
            phy: mesh.phy.clone(),
            access: mesh.access,
            settings: s,
            streams: mesh.streams.to_vec(),
            contention: Contention::new(mesh.in_range)?,
            spans: Spans::of(mesh.phy),
            members: (0..count).map(|u| members(&user, u)).collect(),
            user,
            links,
        })
    }

    /// Returns the sets of users of the air that can be active together.
    pub fn independent_sets(&self) -> Result<IndependentSets, RegionError> {
        let exclude = |a: &usize, b: &usize| {
            pair::exclude(&self.contention, self.access, self.hop(*a), self.hop(*b))
        };
        let interfere = |a: usize, b: usize| {
            self.members[a].iter().any(|x| self.members[b].iter().any(|y| exclude(x, y)))
        };
        IndependentSets::new(self.members.len(), interfere).map_err(|_| self.too_large())
    }

    /// Returns the error of too many sets.
    pub fn too_large(&self) -> RegionError {
        RegionError::TooLarge { links: self.links.len() }
    }

    pub fn hop(&self, link: usize) -> Hop {
        Hop { from: self.links[link].from, to: self.links[link].to }
    }
}

fn members(user: &[u32], of: usize) -> Vec<usize> {
    (0..user.len()).filter(|&h| user[h] as usize == of).collect()
}

/// Returns the users of the air.
///
/// With RTS/CTS the two directions of a link defer the same nodes, so they are one user.
fn users(links: &[LinkSpec], access: Access) -> Vec<u32> {
    let mut keys: Vec<(NodeId, NodeId)> = Vec::new();
    let key = |l: &LinkSpec| match access {
        Access::RtsCts => (l.from.min(l.to), l.from.max(l.to)),
        Access::Basic => (l.from, l.to),
    };
    links
        .iter()
        .map(|l| {
            let key = key(l);
            keys.iter().position(|k| *k == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            }) as u32
        })
        .collect()
}
