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
mod hasten;
mod joint;
mod links;
mod load;
mod odds;
mod pair;
mod sight;
mod solve;

use core::fmt;

use fairmesh_units::NodeId;
use fairmesh_wifi::phy::Phy;

use crate::domain::UnknownNode;
use crate::fair::{FairError, FlowSpec, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;
pub use boundary::{GAIN, Point, Section, YIELD};
pub use links::{LinkMesh, LinkRegion, Load, Stream};
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
    /// A stream names a link that there is not, or follows one that comes later.
    BadStream(usize),
    /// So many links, or the steps that sum over those that can be on together, are too many.
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
            RegionError::BadStream(i) => write!(
                f,
                "stream {i} has to be on one of the links, and after an earlier stream if any"
            ),
            RegionError::TooLarge { links } => write!(
                f,
                "gave up on the achievable rate region: {links} links, or the steps that sum over \
                 those that can be on together, are too many (at most {} links, {} steps); \
                 collision domains and cliques remain",
                joint::MOST_LINKS,
                joint::MOST_STEPS
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

/// Packets that a flow puts on a hop: how a [`Stream`] follows from the rate of its flow.
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
}

/// A network and its flows, prepared for asking about many rates.
#[derive(Clone, Debug)]
pub struct Region {
    links: LinkRegion,
    /// In the order of the flows, then along the path there, then back; one stream each.
    shares: Vec<Share>,
    /// Application bits of a packet, by flow.
    bits: Vec<f64>,
    limits: Vec<f64>,
    weights: Vec<f64>,
}

impl Region {
    /// Prepares a network.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn new<L: AsRef<[NodeId]>>(mesh: &Mesh<'_, L>) -> Result<Self, RegionError> {
        let (links, shares, streams) = hops_of(mesh)?;
        let links = LinkRegion::new(&LinkMesh {
            phy: mesh.phy,
            access: mesh.access,
            hears: mesh.hears,
            links: &links,
            streams: &streams,
            settings: mesh.settings,
        })?;
        Ok(Region {
            links,
            shares,
            bits: mesh.flows.iter().map(|f| f64::from(8 * f.traffic.payload)).collect(),
            limits: mesh.flows.iter().map(|f| f.demand.limit).collect(),
            weights: mesh.flows.iter().map(|f| f.demand.weight).collect(),
        })
    }

    /// The links in use, one direction each.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.links.hops()
    }

    /// How two links in use relate, by their indices in [`Region::hops`].
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        self.links.class(one, other)
    }

    /// The network when every flow delivers its rate, in bit/s of payload; `None` where no
    /// schedule at all could carry the frames.
    pub fn state(&mut self, rates: &[f64]) -> Option<State> {
        let (f, loss) = self.solve(None, rates)?;
        Some(State { loss, ..self.links.report(&f) })
    }

    /// Whether every queue is stable and losses stay below the limit.
    pub fn achievable(&mut self, rates: &[f64]) -> bool {
        self.decide(None, rates).is_some()
    }

    /// The fixed point of rates that are achievable; `from` is that of lower ones.
    fn decide(&mut self, from: Option<&solve::Fixed>, rates: &[f64]) -> Option<solve::Fixed> {
        let settings = self.links.settings;
        let (f, loss) = self.solve(from, rates)?;
        let kept =
            settings.retries == Retries::Unlimited || loss.iter().all(|&l| l <= settings.loss);
        (kept && LinkRegion::stable(&f, settings.utilisation)).then_some(f)
    }

    /// The fixed point, and the loss of each flow.
    fn solve(
        &mut self,
        from: Option<&solve::Fixed>,
        rates: &[f64],
    ) -> Option<(solve::Fixed, Vec<f64>)> {
        let Region { links, shares, bits, .. } = self;
        let mut loss = vec![0.0; bits.len()];
        let f = links.solve(from, &mut |dropped, loads| {
            spread(shares, bits, rates, dropped, &mut loss, loads);
        })?;
        Some((f, loss))
    }
}

/// The loads that rates put on the links, where each hop gives up a share `dropped` of its frames,
/// and what each flow loses on the way there.
fn spread(
    shares: &[Share],
    bits: &[f64],
    rates: &[f64],
    dropped: &dyn Fn(usize) -> f64,
    loss: &mut [f64],
    loads: &mut [Load],
) {
    let mut arrive = vec![1.0; bits.len()];
    for s in shares.iter().filter(|s| !s.reverse) {
        arrive[s.flow as usize] *= 1.0 - dropped(s.hop as usize);
    }
    // Packets per second where the flow's walk stands.
    let mut flowing = 0.0;
    for (s, load) in shares.iter().zip(loads) {
        let flow = s.flow as usize;
        if s.position == 0 {
            let delivered = rates[flow] / bits[flow];
            flowing =
                if s.reverse { delivered * s.packets } else { delivered / arrive[flow].max(1e-3) };
        }
        *load = Load { frames: flowing, psdu: s.psdu };
        flowing *= 1.0 - dropped(s.hop as usize);
    }
    loss.iter_mut().zip(arrive).for_each(|(l, a)| *l = 1.0 - a);
}

/// The links in use, and for every hop of a flow's packets how its load follows from the rate, and
/// what it follows.
type Hops = (Vec<LinkSpec>, Vec<Share>, Vec<Stream>);

/// The hops that flows use, in both directions where frames go both ways, and who uses them.
fn hops_of<L>(mesh: &Mesh<'_, L>) -> Result<Hops, FairError> {
    let mut hops: Vec<LinkSpec> = Vec::new();
    let (mut shares, mut streams) = (Vec::new(), Vec::new());
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
            for (position, step) in path.windows(2).enumerate() {
                let (from, to) = (step[0], step[1]);
                let at = match hops.iter().position(|h| (h.from, h.to) == (from, to)) {
                    Some(at) => at,
                    None => {
                        let l = find(from, to).ok_or(FairError::NoLink { flow: i, from, to })?;
                        hops.push(LinkSpec { from, to, ..*l });
                        hops.len() - 1
                    }
                };
                let (flow, position) = (i as u32, position as u32);
                shares.push(Share { flow, hop: at as u32, position, psdu, packets, reverse });
                streams.push(Stream { link: at, after: last });
                last = Some(streams.len() - 1);
            }
        }
    }
    Ok((hops, shares, streams))
}
