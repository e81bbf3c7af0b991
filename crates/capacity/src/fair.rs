//! Fair rates of flows, from a network and its flows.

use core::fmt;

use fairmesh_phy::{Phy, Rate};
use fairmesh_units::NodeId;

use crate::domain::{Contention, Domains, Link, UnknownNode};
use crate::graph::Hop;
use crate::link::{Access, LinkModel, Traffic};
use crate::maxmin::{self, Demand, Limit, MaxMinError};

/// One direction of a link; applies to both directions if the other is not listed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkSpec {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The rate of data frames.
    pub rate: Rate,
    /// Probability that one attempt at a data frame succeeds.
    pub delivery: f64,
}

/// A flow's use of one direction of a wire, which takes no air.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WireUse {
    /// Index of the wire's hop on the flow's path, from 0.
    ///
    /// `None` if its ends are not on the path, as for the wire of a host behind a gateway.
    pub hop: Option<usize>,
    /// Direction of the wire: a number chosen by the caller, from 0 without gaps.
    pub wire: u32,
    /// The fraction of it that one bit/s of payload takes.
    pub share: f64,
}

/// One flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowSpec<'a> {
    /// The nodes from source to destination, both included.
    ///
    /// Reverse frames take the same path back.
    pub path: &'a [NodeId],
    /// Wires on its path, each direction at most once. These hops of the path take no air.
    pub wires: &'a [WireUse],
    /// Traffic that each packet puts on the air.
    pub traffic: Traffic,
    /// Weight, and the maximum offered load in bit/s of payload.
    pub demand: Demand,
}

impl FlowSpec<'_> {
    /// Returns the radio hops of the path, in order.
    pub(crate) fn radio_hops(&self) -> impl DoubleEndedIterator<Item = Hop> + '_ {
        let wired = |k: usize| self.wires.iter().any(|w| w.hop == Some(k));
        let hops = self.path.windows(2).map(|h| Hop { from: h[0], to: h[1] });
        let hops: Vec<Hop> =
            hops.enumerate().filter(|(k, _)| !wired(*k)).map(|(_, hop)| hop).collect();
        hops.into_iter()
    }

    /// Returns true if it has no hop.
    pub(crate) fn is_empty(&self) -> bool {
        self.path.len() < 2 && self.wires.is_empty()
    }

    /// Returns the number of radio hops.
    pub(crate) fn length(&self) -> f64 {
        self.radio_hops().count() as f64
    }
}

/// Adds the flows' use of wires to their use of domains; returns the number of all resources.
///
/// Wire w becomes resource `domains + w`.
///
/// A wire that its flows can never fill is left empty: `most` is the maximum rate of each flow, in
/// bit/s of payload.
pub(crate) fn add_wires(
    flows: &[FlowSpec<'_>],
    most: &[f64],
    usage: &mut [Vec<(u32, f64)>],
    domains: usize,
) -> usize {
    let uses = flows.iter().flat_map(|f| f.wires);
    let wires = uses.map(|w| w.wire as usize + 1).max().unwrap_or(0);
    let mut load = vec![0.0; wires];
    for (flow, most) in flows.iter().zip(most) {
        flow.wires.iter().for_each(|w| load[w.wire as usize] += w.share * most);
    }
    for (flow, usage) in flows.iter().zip(usage) {
        let fillable = flow.wires.iter().filter(|w| load[w.wire as usize] > 1.0);
        usage.extend(fillable.map(|w| (domains as u32 + w.wire, w.share)));
    }
    if load.iter().any(|l| *l > 1.0) { domains + wires } else { domains }
}

/// Maps a limit to a domain or to a wire, which follow the `domains` domains.
pub(crate) fn limit(found: Limit, domains: usize) -> Limit {
    match found {
        Limit::Domain(d) if d >= domains => Limit::Wire(d - domains),
        other => other,
    }
}

/// The fair rates of a network's flows.
#[derive(Clone, PartialEq, Debug)]
pub struct FairAllocation {
    /// Goodput per flow, bit/s of payload delivered at the destination.
    pub rates: Vec<f64>,
    /// Limit of each flow; a domain's index is that of its link in `links`.
    pub limits: Vec<Limit>,
    /// The links that flows use, in order of their ids: one collision domain each.
    pub links: Vec<Link>,
    /// Used fraction of each link's collision domain.
    pub load: Vec<f64>,
    /// Σ rate × hops, bit/s: the effective network utilisation of this allocation.
    pub utilisation: f64,
}

impl FairAllocation {
    /// Returns the sum of the rates: Jamshaid 2010's fair-aggregate capacity.
    pub fn aggregate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

/// Reason for the absence of a fair allocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FairError {
    /// A path has fewer than two nodes; the flow's index.
    NoPath(usize),
    /// A flow's path crosses a link that is not listed in either direction.
    NoLink {
        /// The flow's index.
        flow: usize,
        /// The link's sender.
        from: NodeId,
        /// The link's receiver.
        to: NodeId,
    },
    /// A listed link has a delivery probability outside (0, 1] or a rate the PHY does not have.
    BadLink {
        /// The link's sender.
        from: NodeId,
        /// The link's receiver.
        to: NodeId,
    },
    /// A node outside the network.
    UnknownNode(UnknownNode),
    /// Demands or packets out of range.
    MaxMin(MaxMinError),
}

impl fmt::Display for FairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FairError::NoPath(i) => write!(f, "flow {i} has no path"),
            FairError::NoLink { flow, from, to } => {
                write!(f, "flow {flow} crosses {} - {}, which is not a link", from.0, to.0)
            }
            FairError::BadLink { from, to } => {
                write!(f, "link {} - {}: rate or delivery probability out of range", from.0, to.0)
            }
            FairError::UnknownNode(e) => e.fmt(f),
            FairError::MaxMin(e) => e.fmt(f),
        }
    }
}
impl core::error::Error for FairError {}

impl From<UnknownNode> for FairError {
    fn from(e: UnknownNode) -> Self {
        FairError::UnknownNode(e)
    }
}
impl From<MaxMinError> for FairError {
    fn from(e: MaxMinError) -> Self {
        FairError::MaxMin(e)
    }
}

/// The physical layers of a network.
#[derive(Clone, Copy, Debug)]
pub enum Radios<'a> {
    /// One for all stations.
    Same(&'a Phy),
    /// By station, with its access to the medium.
    Each(&'a [(&'a Phy, Access)]),
}

impl<'a> Radios<'a> {
    /// Returns the radios of each station, or one for all if `each` is empty.
    pub fn of(same: &'a Phy, each: &'a [(&'a Phy, Access)]) -> Self {
        if each.is_empty() { Radios::Same(same) } else { Radios::Each(each) }
    }

    fn at(&self, station: NodeId, access: Access) -> Option<(&'a Phy, Access)> {
        match self {
            Radios::Same(phy) => Some((*phy, access)),
            Radios::Each(all) => all.get(station.index()).copied(),
        }
    }
}

impl<'a> From<&'a Phy> for Radios<'a> {
    fn from(phy: &'a Phy) -> Self {
        Radios::Same(phy)
    }
}

/// Links sorted for lookup by direction.
pub(crate) struct Directory<'a> {
    radios: Radios<'a>,
    access: Access,
    links: Vec<LinkSpec>,
}

impl<'a> Directory<'a> {
    pub(crate) fn new(
        radios: impl Into<Radios<'a>>,
        access: Access,
        links: &[LinkSpec],
    ) -> Result<Self, FairError> {
        let radios = radios.into();
        for l in links {
            let has = radios.at(l.from, access).is_some_and(|r| l.rate <= r.0.highest());
            if !(l.delivery > 0.0 && l.delivery <= 1.0 && has) {
                return Err(FairError::BadLink { from: l.from, to: l.to });
            }
        }
        let mut links = links.to_vec();
        links.sort_by_key(|l| (l.from, l.to));
        Ok(Directory { radios, access, links })
    }

    fn model(&self, from: NodeId, to: NodeId) -> Option<LinkModel<'a>> {
        let find = |a, b| self.links.binary_search_by_key(&(a, b), |l| (l.from, l.to)).ok();
        let (there, back) = (find(from, to), find(to, from));
        let l = self.links[there.or(back)?];
        let answer = self.links[back.or(there)?].delivery;
        let (phy, access) = self.radios.at(l.from, self.access)?;
        Some(LinkModel { phy, rate: l.rate, access, delivery: l.delivery, answer })
    }

    /// Returns the nominal capacity of each hop of a flow's path without other traffic.
    pub(crate) fn capacities(&self, flow: &FlowSpec) -> Vec<f64> {
        let capacity = |h: Hop| Some(self.model(h.from, h.to)?.capacity(&flow.traffic));
        flow.radio_hops().filter_map(capacity).collect()
    }

    /// Returns the maximum rate of each flow, bit/s of payload.
    ///
    /// It is its demand, or the nominal capacity of its slowest hop.
    pub(crate) fn most(&self, flows: &[FlowSpec<'_>]) -> Vec<f64> {
        let slowest =
            |f: &FlowSpec<'_>| self.capacities(f).into_iter().fold(f.demand.limit, f64::min);
        flows.iter().map(slowest).collect()
    }

    /// Returns the seconds of air per hop and delivered payload bit, of every flow.
    pub(crate) fn costs(&self, flows: &[FlowSpec]) -> Result<Vec<Vec<(Hop, f64)>>, FairError> {
        let cost = |(flow, spec): (usize, &FlowSpec)| {
            if spec.is_empty() {
                return Err(FairError::NoPath(flow));
            }
            self.cost(spec).map_err(|(from, to)| FairError::NoLink { flow, from, to })
        };
        flows.iter().enumerate().map(cost).collect()
    }

    /// Returns the seconds of air per hop and delivered payload bit.
    ///
    /// Losses at a hop reduce the load of the later ones.
    fn cost(&self, flow: &FlowSpec) -> Result<Vec<(Hop, f64)>, (NodeId, NodeId)> {
        let t = &flow.traffic;
        let mut costs = Vec::with_capacity(2 * flow.path.len());
        let mut replies = Vec::with_capacity(flow.path.len());
        let mut arriving = 1.0;
        for Hop { from, to } in flow.radio_hops() {
            let there = self.model(from, to).ok_or((from, to))?;
            let back = self.model(to, from).ok_or((to, from))?;
            let (data, reply) = there.both_ways(t, &back);
            costs.push((Hop { from, to }, arriving * data.seconds));
            arriving *= data.delivered;
            replies.push((Hop { from: to, to: from }, reply));
        }
        let delivered_bits = f64::from(8 * t.payload) * arriving;
        if t.reverse_per_packet > 0.0 {
            let (sent, mut coming) = (arriving * t.reverse_per_packet, 1.0);
            for (hop, reply) in replies.into_iter().rev() {
                costs.push((hop, sent * (coming * reply.seconds)));
                coming *= reply.delivered;
            }
        }
        costs.iter_mut().for_each(|c| c.1 /= delivered_bits);
        Ok(costs)
    }
}

/// Returns the max-min fair rates of `flows` under the collision-domain model.
///
/// `in_range` lists by node id the nodes in range of each node: its decode neighbours for the model
/// that a real network can compute, its interference neighbours for the omniscient one. A link's
/// airtime is nominal ([`LinkModel::frame`]): frames do not collide, and no backoffs overlap.
///
/// # Errors
/// See [`FairError`].
pub fn fair_allocation<L: AsRef<[NodeId]>>(
    phy: &Phy,
    access: Access,
    in_range: &[L],
    links: &[LinkSpec],
    flows: &[FlowSpec<'_>],
) -> Result<FairAllocation, FairError> {
    fair_allocation_above(phy, access, in_range, links, flows, &[])
}

/// Returns the rates of [`fair_allocation`] with a guaranteed minimum for each flow.
///
/// `minimum` is in bit/s of payload; none if it is empty.
///
/// # Errors
/// See [`FairError`].
pub fn fair_allocation_above<'a, L: AsRef<[NodeId]>>(
    radios: impl Into<Radios<'a>>,
    access: Access,
    in_range: &[L],
    links: &[LinkSpec],
    flows: &[FlowSpec<'_>],
    minimum: &[f64],
) -> Result<FairAllocation, FairError> {
    let contention = Contention::new(in_range)?;
    let directory = Directory::new(radios, access, links)?;
    let costs = directory.costs(flows)?;
    let link = |hop: &Hop| Link::new(hop.from, hop.to);
    let mut links: Vec<Link> = costs.iter().flatten().map(|c| link(&c.0)).collect();
    links.sort_unstable();
    links.dedup();
    let domains = Domains::collision(&contention, &links)?;
    let mut usage: Vec<Vec<(u32, f64)>> = costs
        .iter()
        .map(|cost| {
            let index = |hop: &Hop| links.binary_search(&link(hop)).map_or(0, |i| i as u32);
            let by_index: Vec<(u32, f64)> = cost.iter().map(|(h, s)| (index(h), *s)).collect();
            domains.usage(&by_index)
        })
        .collect();
    let demands: Vec<Demand> = flows.iter().map(|f| f.demand).collect();
    let resources = add_wires(flows, &directory.most(flows), &mut usage, domains.len());
    let mut allocation = maxmin::max_min_above(&demands, minimum, &usage, resources)?;
    allocation.load.truncate(domains.len());
    let hops = flows.iter().map(FlowSpec::length);
    let utilisation = allocation.rates.iter().zip(hops).map(|(rate, hops)| rate * hops).sum();
    Ok(FairAllocation {
        rates: allocation.rates,
        limits: allocation.limits.into_iter().map(|l| limit(l, domains.len())).collect(),
        links,
        load: allocation.load,
        utilisation,
    })
}
