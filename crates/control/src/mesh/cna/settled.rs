//! Final state of nodes that exchange the quantities of Table 2 exactly.
//!
//! There are no headers, no time and no losses. It gives the worked numbers of Jang 2010, and limits before
//! quantisation.

use std::collections::BTreeMap;

use fairmesh_units::{NodeId, Time};

use super::neighbourhood::{Neighbourhood, OwnLink};

/// Rounds of exchange.
///
/// A mesh settles in one round per hop, and redistribution somewhat later.
const EXCHANGE_ROUNDS: usize = 400;

/// Packets of a flow on one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Transmitter.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// True if they are acknowledgements.
    pub ack: bool,
}

/// One direction of a link, settled (Jang 2010 §3).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Transmitter.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// NW: flows in the neighbourhood of the link.
    pub around: f64,
    /// A = W / D, share of the air.
    pub share: f64,
    /// A′: after redistribution.
    pub redistributed: f64,
    /// A″: scaled to the airtime that foreign energy leaves.
    pub scaled: f64,
}

/// A mesh that has settled.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// Every direction in use, by its ends.
    pub links: Vec<Limits>,
    /// W′ of every node: flows within two hops.
    pub gathered: BTreeMap<u32, f64>,
}

impl Settled {
    /// Returns one direction of a link; `None` if nothing passes there.
    pub fn link(&self, from: u32, to: u32) -> Option<&Limits> {
        self.links.iter().find(|l| (l.from, l.to) == (from, to))
    }
}

/// Lets the nodes of `links` (pairs in range of each other) settle.
///
/// `hops` are the packets of flows on links. `used` is the fraction of A that acknowledgements use;
/// data uses its whole limit. `available` is the ACA of a node. Redistribution is as published:
/// unused airtime of a link is given away once.
pub fn settle(
    links: &[(u32, u32)],
    hops: &[Hop],
    used: f64,
    available: impl Fn(u32) -> f64,
) -> Settled {
    let neighbourhoods = neighbourhoods(links, hops, used, available);
    let limits = |n: u32, o: &OwnLink| Limits {
        from: n,
        to: o.to.0,
        around: o.around,
        share: o.share(),
        redistributed: o.limit,
        scaled: o.limit * o.scaling,
    };
    let links = neighbourhoods
        .iter()
        .flat_map(|(n, b)| b.own.iter().filter(|o| o.out > 0.0).map(move |o| limits(*n, o)));
    Settled {
        links: links.collect(),
        gathered: neighbourhoods.iter().map(|(n, b)| (*n, b.two.weight)).collect(),
    }
}

/// Returns the nodes in range of a node.
fn neighbours(links: &[(u32, u32)], n: u32) -> Vec<u32> {
    let other = |&(a, b): &(u32, u32)| match n {
        _ if a == n => Some(b),
        _ if b == n => Some(a),
        _ => None,
    };
    links.iter().filter_map(other).collect()
}

/// Returns the final knowledge of every node.
pub(super) fn neighbourhoods(
    links: &[(u32, u32)],
    hops: &[Hop],
    used: f64,
    available: impl Fn(u32) -> f64,
) -> BTreeMap<u32, Neighbourhood> {
    let near = |n: u32| neighbours(links, n).into_iter().map(NodeId);
    let neighbourhood = |n: u32| {
        let mut b = Neighbourhood::new(NodeId(n), near(n));
        b.available = available(n);
        for far in &mut b.far {
            far.neighbours = Some(near(far.id.0).collect());
        }
        for own in &mut b.own {
            let count = |from, to| hops.iter().filter(|h| (h.from, h.to) == (from, to)).count();
            (own.out, own.back) = (count(n, own.to.0) as f64, count(own.to.0, n) as f64);
        }
        (n, b)
    };
    let mut neighbourhoods: BTreeMap<u32, Neighbourhood> =
        links.iter().flat_map(|l| [l.0, l.1]).map(neighbourhood).collect();
    for _ in 0..EXCHANGE_ROUNDS {
        neighbourhoods.values_mut().for_each(Neighbourhood::work_out);
        for hop in hops {
            deliver(&mut neighbourhoods, links, hop, used);
        }
    }
    neighbourhoods.values_mut().for_each(Neighbourhood::work_out);
    neighbourhoods
}

/// Passes a packet; the nodes in range receive its values.
fn deliver(
    neighbourhoods: &mut BTreeMap<u32, Neighbourhood>,
    links: &[(u32, u32)],
    hop: &Hop,
    used: f64,
) {
    let Some(from) = neighbourhoods.get_mut(&hop.from) else { return };
    let Some(own) = from.own.iter_mut().find(|o| o.to.0 == hop.to) else { return };
    // The paper's U is relative to A; here it is relative to the entitlement.
    own.used = if hop.ack { used * own.share() / own.most() } else { 1.0 };
    let own = *own;
    let (one, two) = (from.one(&own), from.two());
    for n in neighbours(links, hop.from) {
        if let Some(neighbourhood) = neighbourhoods.get_mut(&n) {
            neighbourhood.take_one_hop(Time::ZERO, NodeId(hop.from), NodeId(hop.to), one);
            neighbourhood.take_two_hop(Time::ZERO, NodeId(hop.from), two);
        }
    }
}
