//! The decision procedure on links with loads, without flows: what a node that knows its
//! neighbourhood can ask (Rangwala 2008 §3.2, "Estimating available bandwidth").

use fairmesh_units::NodeId;
use fairmesh_wifi::phy::Phy;

use super::hasten::Hasten;
use super::load::Spans;
use super::sight::Sight;
use super::solve::Fixed;
use super::{PairClass, RegionError, Settings, State, joint, pair};
use crate::domain::{Contention, UnknownNode};
use crate::fair::{FairError, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;

/// Links in use, who hears whom, and which frames cross them.
#[derive(Clone, Copy, Debug)]
pub struct LinkMesh<'a, L> {
    /// The physical layer of all nodes: its MAC constants are the model's.
    pub phy: &'a Phy,
    /// With or without RTS/CTS.
    pub access: Access,
    /// By node id, the nodes it hears: whose frames it senses and which spoil its receptions.
    pub hears: &'a [L],
    /// The links in use, one direction each; `delivery` is the probability that an attempt at a
    /// data frame survives the channel, collisions apart.
    pub links: &'a [LinkSpec],
    /// What crosses them: at least one stream for each link with a load.
    pub streams: &'a [Stream],
    /// What counts as achievable. Losses are not looked at: loads are what arrives.
    pub settings: Settings,
}

/// Frames of one kind that cross one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The index of the link.
    pub link: usize,
    /// The stream (an earlier one) whose frames, once received, are what is sent here: the hop
    /// before, or for acknowledgments the data's last hop. `None` where it is not known, or at a
    /// source.
    pub after: Option<usize>,
}

/// How much a stream carries.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Frames that arrive at the sender's queue, 1/s.
    pub frames: f64,
    /// Mean PSDU of a data frame in bytes, MAC header and FCS included.
    pub psdu: u32,
}

/// A network of links, prepared for asking about many loads. Everything that depends on the graph
/// only is computed once, here.
#[derive(Clone, Debug)]
pub struct LinkRegion {
    pub(super) phy: Phy,
    pub(super) access: Access,
    pub(super) settings: Settings,
    pub(super) links: Vec<LinkSpec>,
    pub(super) streams: Vec<Stream>,
    pub(super) contention: Contention,
    /// By link, the user of the air it belongs to in `joint`: with RTS/CTS both directions of a
    /// link are one.
    pub(super) user: Vec<u32>,
    pub(super) joint: joint::Joint,
    pub(super) spans: Spans,
    /// The links of each user.
    pub(super) members: Vec<Vec<usize>>,
    /// By link.
    pub(super) sights: Vec<Sight>,
    pub(super) hasten: Hasten,
    /// The last answer of [`LinkRegion::busiest`].
    last: Option<Fixed>,
}

impl LinkRegion {
    /// Prepares a network.
    ///
    /// # Errors
    /// See [`RegionError`].
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
        let nodes = mesh.hears.len();
        let unknown = |n: &NodeId| n.index() >= nodes;
        if let Some(node) = mesh.links.iter().flat_map(|l| [l.from, l.to]).find(unknown) {
            return Err(UnknownNode(node).into());
        }
        for (i, stream) in mesh.streams.iter().enumerate() {
            if stream.link >= mesh.links.len() || stream.after.is_some_and(|a| a >= i) {
                return Err(RegionError::BadStream(i));
            }
        }
        let contention = Contention::new(mesh.hears)?;
        let links = mesh.links.to_vec();
        let user = users(&links, mesh.access);
        let count = user.iter().max().map_or(0, |&u| u as usize + 1);
        let interfere = |a: usize, b: usize| {
            let of = |u: usize| links.iter().zip(&user).filter(move |m| *m.1 as usize == u);
            of(a)
                .any(|x| of(b).any(|y| pair::exclude(&contention, mesh.access, hop(x.0), hop(y.0))))
        };
        let joint = joint::Joint::new(count, interfere)
            .map_err(|_| RegionError::TooLarge { links: links.len() })?;
        let mut region = LinkRegion {
            phy: mesh.phy.clone(),
            access: mesh.access,
            settings: s,
            streams: mesh.streams.to_vec(),
            sights: Vec::new(),
            contention,
            spans: Spans::of(mesh.phy),
            members: (0..count).map(|u| members(&user, u)).collect(),
            user: user.clone(),
            links,
            joint,
            hasten: Hasten::default(),
            last: None,
        };
        region.survey();
        if region.joint.full() {
            return Err(RegionError::TooLarge { links: region.links.len() });
        }
        Ok(region)
    }

    /// The links in use, one direction each.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.links.iter().map(hop)
    }

    /// How two links relate, by their indices.
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        PairClass::of(&self.contention, self.hop(one), self.hop(other))
    }

    /// The network under these loads, one per stream; `None` where no schedule at all could carry
    /// the frames. `loss` is empty.
    pub fn state(&mut self, loads: &[Load]) -> Option<State> {
        let f = self.solve(None, &mut |_, to| to.copy_from_slice(loads))?;
        Some(self.report(&f))
    }

    /// The largest Σ λ E\[S\] of a node; `None` where no schedule at all could carry the frames. The
    /// same as from [`LinkRegion::state`], to the solver's tolerance, but found from the last answer
    /// on: for one question after another with loads that are near each other.
    pub fn busiest(&mut self, loads: &[Load]) -> Option<f64> {
        let mut given = |_: &dyn Fn(usize) -> f64, to: &mut [Load]| to.copy_from_slice(loads);
        let warm = self.last.take();
        let warm = warm.and_then(|mut f| self.settle(&mut f, &mut given).then_some(f));
        // From elsewhere the way may lead through what cannot be carried.
        let f = match warm {
            Some(f) => f,
            None => self.solve(None, &mut given)?,
        };
        let most = f.links.iter().map(|l| l.used).fold(0.0, f64::max);
        self.last = Some(f);
        Some(most)
    }

    /// Whether Σ λ E\[S\] ≤ U at every node.
    pub fn achievable(&mut self, loads: &[Load]) -> bool {
        self.decide(None, loads).is_some()
    }

    fn decide(&mut self, from: Option<&Fixed>, loads: &[Load]) -> Option<Fixed> {
        let f = self.solve(from, &mut |_, to| to.copy_from_slice(loads))?;
        Self::stable(&f, self.settings.utilisation).then_some(f)
    }

    /// The largest δ in `range` with `base` + δ · `step` frames/s achievable, by bisection to
    /// `accuracy` in the unit of δ: WCPCap's question (Rangwala 2008 Fig 4). No step may be negative.
    /// Loads below zero are none; the range's lower end where nothing in it is achievable.
    pub fn reach(
        &mut self,
        base: &[Load],
        step: &[f64],
        range: core::ops::RangeInclusive<f64>,
        accuracy: f64,
    ) -> f64 {
        let (mut low, mut high) = (*range.start(), *range.end());
        let at = |delta: f64| -> Vec<Load> {
            let load = |(l, s): (&Load, &f64)| {
                let frames = (l.frames + s * delta).max(0.0);
                Load { frames, ..*l }
            };
            base.iter().zip(step).map(load).collect()
        };
        if self.decide(None, &at(high)).is_some() {
            return high;
        }
        let mut inside: Option<Fixed> = None;
        while high - low > accuracy.max(f64::EPSILON * high.abs()) {
            let middle = 0.5 * (low + high);
            match self.decide(inside.as_ref(), &at(middle)) {
                Some(f) => (low, inside) = (middle, Some(f)),
                None => high = middle,
            }
        }
        low
    }

    pub(super) fn hop(&self, link: usize) -> Hop {
        hop(&self.links[link])
    }
}

fn hop(l: &LinkSpec) -> Hop {
    Hop { from: l.from, to: l.to }
}

fn members(user: &[u32], of: usize) -> Vec<usize> {
    (0..user.len()).filter(|&h| user[h] as usize == of).collect()
}

/// With RTS/CTS the two directions of a link silence the same nodes: one user of the air.
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
