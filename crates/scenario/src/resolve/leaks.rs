//! Energy received from other channels.

use std::collections::BTreeSet;

use fairmesh_units::{Distance, NodeId, Power, Span};
use fairmesh_wifi::propagation::{self, Law};
use fairmesh_wifi::{SensedPair, loss::FrameErrors};

use super::kinds::{Kind, Members};
use super::nodes::Nodes;
use super::sensing::Medium;
use super::{MAX_PAIRS, Result, fail};
use crate::draft::Draft;
use crate::error::Problem;
use crate::neighbours::{Cells, Place};

/// Power that one radio of a node receives from another, in dBm.
///
/// It is 20 dBm less 40 dB between their antennas, an assumption of this project.
const WITHIN_NODE_DBM: f64 = -20.0;

/// Returns all pairs of stations on different channels with the second sensing the first.
///
/// `media` and `members` are by kind.
pub(super) fn build(
    draft: &Draft,
    nodes: &Nodes,
    kinds: &[Kind<'_>],
    members: &[Members<'_>],
    media: &[Medium],
) -> Result<Vec<SensedPair>> {
    let mut all = Vec::new();
    for (a, from) in kinds.iter().enumerate() {
        for (b, to) in kinds.iter().enumerate() {
            let Some(db) = from.occupied.leak(&to.occupied).filter(|_| a != b) else { continue };
            let ends = |x: NodeId, y: NodeId| {
                members[a].station[x.index()].zip(members[b].station[y.index()])
            };
            let mut push = |x: NodeId, y: NodeId, power: Power, delay: Span| {
                if let Some((s, t)) = ends(x, y) {
                    all.push(SensedPair { from: s.0, to: t.0, power, decodes: false, delay });
                }
            };
            if let Some(flat) = flat_level(from, &media[a]) {
                // Flat levels do not express strength: energy counts fully or not at all.
                if db >= from.radio.mac.capture.0 {
                    continue;
                }
                for (x, y) in near(draft, nodes, &media[a]) {
                    push(x, y, flat, Span::ZERO);
                }
                continue;
            }
            by_strength(nodes, &media[a], db, &mut push);
            if all.len() > MAX_PAIRS {
                return fail(to.channel_key(), Problem::TooDense { most: MAX_PAIRS });
            }
        }
    }
    all.sort_unstable_by_key(|h| (h.from, h.to));
    Ok(all)
}

/// Returns the power of all sensed frames, if levels are flat.
fn flat_level(kind: &Kind<'_>, medium: &Medium) -> Option<Power> {
    let flat = match &medium.propagation {
        Some(p) => matches!(p.law, Law::Flat),
        None => !matches!(kind.radio.errors, FrameErrors::Snr(_)),
    };
    flat.then(|| propagation::flat(false))
}

/// Returns pairs that would sense each other on one channel, including the radios of a node.
fn near(draft: &Draft, nodes: &Nodes, medium: &Medium) -> BTreeSet<(NodeId, NodeId)> {
    let mut near: BTreeSet<(NodeId, NodeId)> =
        (0..nodes.devices as u32).map(|n| (NodeId(n), NodeId(n))).collect();
    let mut both = |a: NodeId, b: NodeId| near.extend([(a, b), (b, a)]);
    match &medium.propagation {
        Some(propagation) => {
            for (from, to, _) in within(nodes, propagation.sense) {
                both(from, to);
            }
        }
        None => {
            for link in nodes.links.iter().flatten() {
                if let (Some(a), Some(b)) = (nodes.known(&link.from), nodes.known(&link.to)) {
                    both(a, b);
                }
            }
            for [a, b] in &draft.topology.senses {
                if let (Some(a), Some(b)) = (nodes.known(a), nodes.known(b)) {
                    both(a, b);
                }
            }
        }
    }
    near
}

/// Adds the pairs with a power, less `db`, above the carrier-sense threshold.
fn by_strength(
    nodes: &Nodes,
    medium: &Medium,
    db: f64,
    push: &mut impl FnMut(NodeId, NodeId, Power, Span),
) {
    let less = |p: Power| Power((p.0 as f64 * 10f64.powf(-db / 10.0)) as u64);
    let own = less(Power::from_dbm(WITHIN_NODE_DBM));
    let noticed = match &medium.propagation {
        Some(p) => p.received(p.sense).map_or(Power::ZERO, |r| r.0),
        None => Power::from_dbm(propagation::SENSITIVITY_DBM),
    };
    if own >= noticed {
        (0..nodes.devices as u32).map(NodeId).for_each(|n| push(n, n, own, Span::ZERO));
    }
    match &medium.propagation {
        Some(propagation) => {
            for (from, to, distance) in within(nodes, propagation.sense) {
                let Some((power, _)) = propagation.received(distance) else { continue };
                if less(power) >= noticed {
                    push(from, to, less(power), propagation::delay(distance));
                }
            }
        }
        None => {
            for h in medium.sensed_pairs.iter().filter(|h| less(h.power) >= noticed) {
                push(NodeId(h.from), NodeId(h.to), less(h.power), h.delay);
            }
        }
    }
}

fn within(nodes: &Nodes, reach: Distance) -> Vec<(NodeId, NodeId, Distance)> {
    let place = |n: &crate::scenario::Node| n.position.unwrap_or_default();
    let places: Vec<Place> = nodes.list[..nodes.devices].iter().map(place).collect();
    let cells = Cells::new(&places, reach);
    let mut pairs = Vec::new();
    for from in 0..places.len() {
        cells.within(from, |to, distance| {
            pairs.push((NodeId(from as u32), NodeId(to as u32), distance));
        });
    }
    pairs
}
