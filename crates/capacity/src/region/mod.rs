//! Which rates an 802.11 mesh can carry: the achievable rate region (Rangwala 2008 §3.2, after
//! Jindal and Psounis).
//!
//! Domains and cliques assume a scheduler. Here the DCF itself is the scheduler: a link's expected
//! service time grows with the collisions at its receiver and the share of time in which its
//! sender finds the medium busy, and those grow with the rates of the links around it. Rates are
//! achievable if every node's queue is stable: Σ λ E\[S\] ≤ U over its outgoing links.
//!
//! docs/models/region.md has the equations, every assumption, and what the simulator says.

mod boundary;
mod chain;
mod joint;
mod pair;
mod solve;

use core::fmt;

use fairmesh_units::NodeId;
use fairmesh_wifi::phy::{Phy, Rate};

use crate::domain::{Contention, UnknownNode};
use crate::fair::{FairError, FlowSpec, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;
pub use boundary::{GAIN, Point, Section, YIELD};
pub use pair::PairClass;
pub use solve::{LinkState, NodeState, State};

/// How often a frame is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Retries {
    /// Until it arrives, as the region of the paper has it (Rangwala 2008 §4.3): nothing is lost,
    /// and the boundary is where queues grow without end.
    #[default]
    Unlimited,
    /// As the MAC's limits have it: packets are given up, so queues last longer and less arrives.
    Mac,
}

/// What counts as achievable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The largest share of time that a node's queue may be busy: the paper's U.
    pub utilisation: f64,
    /// Attempts per frame.
    pub retries: Retries,
    /// The largest share of a flow's packets that may be given up on the way.
    pub loss: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { utilisation: 1.0, retries: Retries::Unlimited, loss: 0.05 }
    }
}

/// The network whose region is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Mesh<'a, L> {
    /// The physical layer of all nodes.
    pub phy: &'a Phy,
    /// With or without RTS/CTS.
    pub access: Access,
    /// By node id, the nodes it hears: whose frames it senses and which spoil its receptions.
    pub hears: &'a [L],
    /// The links, at least all that flows cross; `delivery` is the probability that an attempt at
    /// a data frame survives the channel, collisions apart.
    pub links: &'a [LinkSpec],
    /// The flows; reverse frames (TCP acknowledgments) take the same path back.
    pub flows: &'a [FlowSpec<'a>],
    /// What counts as achievable.
    pub settings: Settings,
}

/// Why there is no region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RegionError {
    /// The network or a flow is wrong.
    Fair(FairError),
    /// U outside (0, 1], or a loss outside [0, 1).
    BadSettings,
    /// So many links, or sets of links that can be on the air together, are too many.
    TooLarge {
        /// Links that flows use.
        links: usize,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionError::Fair(e) => e.fmt(f),
            RegionError::BadSettings => {
                f.write_str("the region needs a utilisation above 0, at most 1, and a loss below 1")
            }
            RegionError::TooLarge { links } => write!(
                f,
                "gave up on the achievable rate region: {links} links, or the sets of them that \
                 can be on the air together, are too many (at most {} links, {} sets); collision \
                 domains and cliques remain",
                joint::MOST_LINKS,
                joint::MOST_SETS
            ),
        }
    }
}
impl core::error::Error for RegionError {}

impl From<FairError> for RegionError {
    fn from(e: FairError) -> Self {
        RegionError::Fair(e)
    }
}
impl From<UnknownNode> for RegionError {
    fn from(e: UnknownNode) -> Self {
        RegionError::Fair(e.into())
    }
}

/// Packets that a flow puts on a hop.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Share {
    flow: u32,
    hop: u32,
    /// Hops between the packet's source and this one's end, for losses on the way.
    position: u32,
    psdu: u32,
    /// Per data packet of the flow.
    packets: f64,
    /// Whether it is a reverse frame.
    reverse: bool,
    /// The hop over which what causes it arrives: the one before on the path, or for the first of
    /// a reverse frame, the last of the data's; none at a source of data.
    cause: Option<u32>,
}

/// One direction of a link in use.
#[derive(Clone, Copy, PartialEq, Debug)]
struct HopSpec {
    hop: Hop,
    rate: Rate,
    delivery: f64,
}

/// A network, prepared for asking about many rates.
#[derive(Clone, Debug)]
pub struct Region {
    phy: Phy,
    access: Access,
    settings: Settings,
    hops: Vec<HopSpec>,
    /// In the order of the flows, then along the path there, then back.
    shares: Vec<Share>,
    /// Application bits of a packet, by flow.
    bits: Vec<f64>,
    limits: Vec<f64>,
    weights: Vec<f64>,
    contention: Contention,
    /// By hop, the user of the air it belongs to in `joint`: with RTS/CTS both directions of a
    /// link are one.
    user: Vec<u32>,
    joint: joint::Joint,
    /// By ordered pair of hops, how the second troubles the first.
    troubles: Vec<Vec<(u32, pair::Trouble)>>,
    /// By hop, the users of the air that its sender is aware of, and those that only its receiver
    /// is.
    view: Vec<u128>,
    hidden: Vec<u128>,
}

impl Region {
    /// Prepares a network.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn new<L: AsRef<[NodeId]>>(mesh: &Mesh<'_, L>) -> Result<Self, RegionError> {
        let s = mesh.settings;
        if !(s.utilisation > 0.0 && s.utilisation <= 1.0 && (0.0..1.0).contains(&s.loss)) {
            return Err(RegionError::BadSettings);
        }
        let contention = Contention::new(mesh.hears)?;
        let (hops, shares) = hops_of(mesh)?;
        let user = users(&hops, mesh.access);
        let links = user.iter().max().map_or(0, |&u| u as usize + 1);
        let too_large = RegionError::TooLarge { links: hops.len() };
        let interfere = |a: usize, b: usize| {
            let of = |u: usize| hops.iter().zip(&user).filter(move |m| *m.1 as usize == u);
            of(a).any(|x| of(b).any(|y| pair::exclude(&contention, mesh.access, x.0.hop, y.0.hop)))
        };
        let joint = joint::Joint::new(links, interfere).map_err(|_| too_large)?;
        let mut region = Region {
            phy: mesh.phy.clone(),
            access: mesh.access,
            settings: s,
            bits: mesh.flows.iter().map(|f| f64::from(8 * f.traffic.payload)).collect(),
            limits: mesh.flows.iter().map(|f| f.demand.limit).collect(),
            weights: mesh.flows.iter().map(|f| f.demand.weight).collect(),
            troubles: Vec::new(),
            view: Vec::new(),
            hidden: Vec::new(),
            contention,
            user: user.clone(),
            hops,
            shares,
            joint,
        };
        region.relate();
        Ok(region)
    }

    /// The links in use, one direction each.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.hops.iter().map(|h| h.hop)
    }

    /// How two links in use relate, by their indices in [`Region::hops`].
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        PairClass::of(&self.contention, self.hops[one].hop, self.hops[other].hop)
    }

    fn relate(&mut self) {
        let n = self.hops.len();
        for e in 0..n {
            let mut view = 1u128 << self.user[e];
            let mut hidden = 0u128;
            let mut troubles = Vec::new();
            for f in (0..n).filter(|&f| f != e) {
                let bit = 1u128 << self.user[f];
                let (one, other) = (self.hops[e].hop, self.hops[f].hop);
                let t = pair::trouble(&self.contention, self.access, one, other);
                if t.seen {
                    view |= bit;
                } else if t.hidden {
                    hidden |= bit;
                }
                if t.collides() {
                    troubles.push((f as u32, t));
                }
            }
            self.troubles.push(troubles);
            self.view.push(view);
            self.hidden.push(hidden & !view);
        }
    }
}

/// With RTS/CTS the two directions of a link silence the same nodes: one user of the air.
fn users(hops: &[HopSpec], access: Access) -> Vec<u32> {
    let mut keys: Vec<Hop> = Vec::new();
    let key = |h: Hop| match access {
        Access::RtsCts => Hop { from: h.from.min(h.to), to: h.from.max(h.to) },
        Access::Basic => h,
    };
    hops.iter()
        .map(|h| {
            let key = key(h.hop);
            keys.iter().position(|k| *k == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            }) as u32
        })
        .collect()
}

/// The hops that flows use, in both directions where frames go both ways, and who uses them.
fn hops_of<L>(mesh: &Mesh<'_, L>) -> Result<(Vec<HopSpec>, Vec<Share>), FairError> {
    let mut hops: Vec<HopSpec> = Vec::new();
    let mut shares = Vec::new();
    for l in mesh.links {
        if !(l.delivery > 0.0 && l.delivery <= 1.0) || l.rate > mesh.phy.highest() {
            return Err(FairError::BadLink { from: l.from, to: l.to });
        }
    }
    let find = |from: NodeId, to: NodeId| {
        let is = |a: NodeId, b: NodeId| move |l: &&LinkSpec| (l.from, l.to) == (a, b);
        mesh.links.iter().find(is(from, to)).or_else(|| mesh.links.iter().find(is(to, from)))
    };
    for (i, flow) in mesh.flows.iter().enumerate() {
        if flow.path.len() < 2 {
            return Err(FairError::NoPath(i));
        }
        let t = &flow.traffic;
        let ways = [(false, t.psdu, 1.0), (true, t.reverse_psdu, t.reverse_per_packet)];
        let mut last = None;
        for (reverse, psdu, packets) in ways {
            if packets <= 0.0 {
                continue;
            }
            let mut path = flow.path.to_vec();
            if reverse {
                path.reverse();
            }
            let mut cause = if reverse { last } else { None };
            for (position, step) in path.windows(2).enumerate() {
                let (from, to) = (step[0], step[1]);
                let hop = Hop { from, to };
                let at = match hops.iter().position(|h| h.hop == hop) {
                    Some(at) => at,
                    None => {
                        let l = find(from, to).ok_or(FairError::NoLink { flow: i, from, to })?;
                        hops.push(HopSpec { hop, rate: l.rate, delivery: l.delivery });
                        hops.len() - 1
                    }
                };
                let (flow, hop, position) = (i as u32, at as u32, position as u32);
                shares.push(Share { flow, hop, position, psdu, packets, reverse, cause });
                cause = Some(hop);
                last = cause;
            }
        }
    }
    Ok((hops, shares))
}
