//! The region of flows: their achievable rates.

use fairmesh_phy::Phy;
use fairmesh_units::NodeId;

use super::fixed_point::Solver;
use super::link_region::{LinkRegion, settled};
use super::pair::PairClass;
use super::types::{LinkMesh, Load, NoState, RegionError, Retries, Settings, State, Stream};
use super::unknowns::FixedPoint;
use crate::fair::{FairError, FlowSpec, LinkSpec};
use crate::graph::Hop;
use crate::link::Access;

/// Network of a [`Region`].
#[derive(Clone, Copy, Debug)]
pub struct Mesh<'a, L> {
    /// The physical layer of all nodes.
    pub phy: &'a Phy,
    /// With or without RTS/CTS.
    pub access: Access,
    /// By node id, the nodes in range: it senses their frames, which destroy its receptions.
    pub in_range: &'a [L],
    /// The links, at least all that flows cross.
    ///
    /// `delivery` is the probability that an attempt at a data frame survives the channel, without
    /// collisions.
    pub links: &'a [LinkSpec],
    /// The flows; reverse frames (TCP acknowledgments) take the same path back.
    pub flows: &'a [FlowSpec<'a>],
    /// Criteria of achievability.
    pub settings: Settings,
}

/// Packets of a flow on a hop: the relation of a [`Stream`] to the rate of its flow.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Share {
    flow: u32,
    hop: u32,
    /// Hops between the packet's source and the start of this one, for losses on the path.
    position: u32,
    psdu: u32,
    /// Frames per data packet of the flow.
    packets: f64,
    /// True if it is a reverse frame.
    reverse: bool,
}

/// A network and its flows, prepared for queries with many rates.
#[derive(Clone, Debug)]
pub struct Region {
    pub(super) links: LinkRegion,
    /// In the order of the flows, then along the path forward, then backward; one stream each.
    shares: Vec<Share>,
    /// Application bits of a packet, by flow.
    pub(super) bits: Vec<f64>,
    pub(super) limits: Vec<f64>,
    pub(super) weights: Vec<f64>,
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
            in_range: mesh.in_range,
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

    /// Returns the links in use, one direction each.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.links.hops()
    }

    /// Returns the class of two links in use, by their indices in [`Region::hops`].
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        self.links.class(one, other)
    }

    /// Returns the network's state if every flow delivers its rate, in bit/s of payload.
    ///
    /// # Errors
    /// The reason for which there is none.
    pub fn state(&mut self, rates: &[f64]) -> Result<State, NoState> {
        let (f, loss) = self.solve(None, rates)?;
        Ok(State { loss, ..self.links.report(&f) })
    }

    /// Returns true if every queue is stable and losses stay below the limit.
    ///
    /// # Errors
    /// Returns an error if the state of these rates is unknown.
    pub fn achievable(&mut self, rates: &[f64]) -> Result<bool, NoState> {
        Ok(self.decide(None, rates)?.is_some())
    }

    /// Returns the fixed point of achievable rates; `from` is that of lower ones.
    pub(super) fn decide(
        &mut self,
        from: Option<&FixedPoint>,
        rates: &[f64],
    ) -> Result<Option<FixedPoint>, NoState> {
        let settings = self.links.settings();
        let Some((f, loss)) = settled(self.solve(from, rates))? else { return Ok(None) };
        let kept =
            settings.retries == Retries::Unlimited || loss.iter().all(|&l| l <= settings.loss);
        Ok((kept && Solver::stable(&f, settings.utilisation)).then_some(f))
    }

    /// Returns the fixed point, and the loss of each flow.
    fn solve(
        &mut self,
        from: Option<&FixedPoint>,
        rates: &[f64],
    ) -> Result<(FixedPoint, Vec<f64>), NoState> {
        let Region { links, shares, bits, .. } = self;
        let mut loss = vec![0.0; bits.len()];
        let f = links.solve(from, &mut |dropped, loads| {
            spread(shares, bits, rates, dropped, &mut loss, loads);
        })?;
        Ok((f, loss))
    }
}

/// Writes the loads that rates put on the links; returns the loss of each flow on its path.
///
/// Each hop drops a share `dropped` of its frames.
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
    // Packets per second at the present hop of the flow's path.
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

/// The links in use, and per hop of a flow's packets its share and its stream.
type Hops = (Vec<LinkSpec>, Vec<Share>, Vec<Stream>);

/// Returns the hops that flows use, and their users.
///
/// Both directions are included if frames go both ways.
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
        if flow.is_empty() {
            return Err(FairError::NoPath(i));
        }
        let t = &flow.traffic;
        let ways = [(false, t.psdu, 1.0), (true, t.reverse_psdu, t.reverse_per_packet)];
        let mut last = None;
        for (reverse, psdu, packets) in ways {
            if packets <= 0.0 {
                continue;
            }
            let mut path: Vec<Hop> = flow.radio_hops().collect();
            if reverse {
                path.reverse();
                path.iter_mut().for_each(|h| *h = Hop { from: h.to, to: h.from });
            }
            for (position, Hop { from, to }) in path.into_iter().enumerate() {
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
