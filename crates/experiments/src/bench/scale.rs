//! Meshes of any size at one density, which show the cost of an additional node.

use fairmesh_scenario::{Draft, FlowDraft, Name, Profile, RadioDraft, TopologyDraft, TrafficDraft};
use fairmesh_units::{BitRate, Distance, Span, Stream};

/// Numbers of nodes of the curve.
pub const NODE_COUNTS: [usize; 6] = [10, 30, 100, 300, 1000, 3000];

/// Distance between neighbours before they are shifted, m; a mesh at a range of 250 m.
const SPACING_M: f64 = 200.0;
/// Maximum shift of each node along both axes, m; neighbours stay in range.
const MAX_SHIFT_M: f64 = 20.0;

/// Returns a mesh of `nodes` nodes on a grid, each slightly shifted from its place.
///
/// There is a flow for every three nodes to a node about three hops away, so that the density of
/// traffic follows that of the nodes.
pub fn draft(nodes: usize, seconds: f64) -> Draft {
    let columns = (nodes as f64).sqrt().ceil() as usize;
    let mut random = Stream::new(1, "scale");
    let mut shifted = |v: usize| v as f64 * SPACING_M + random.uniform(-MAX_SHIFT_M, MAX_SHIFT_M);
    let positions: Vec<[f64; 2]> =
        (0..nodes).map(|i| [shifted(i % columns), shifted(i / columns)]).collect();
    let flows = (0..nodes)
        .step_by(3)
        .map(|i| (i, destination(i, nodes, columns)))
        .filter(|(from, to)| from != to)
        .map(|(from, to)| FlowDraft {
            traffic: Some(TrafficDraft::bulk()),
            ..FlowDraft::new(Name::from(from), Name::from(to))
        })
        .collect();
    let duration = Span::from_secs_f64(seconds);
    Draft {
        name: Some(format!("scale-{nodes}")),
        duration,
        warmup: Some(Span::from_secs_f64(seconds / 10.0)),
        radio: RadioDraft {
            rate: Some(BitRate(11_000_000)),
            profile: Some(Profile::Ns2),
            decode: Some(Distance(250.0)),
            sense: Some(Distance(550.0)),
            ..RadioDraft::default()
        },
        topology: TopologyDraft { positions: Some(positions), ..TopologyDraft::default() },
        flow: flows,
        ..Draft::default()
    }
}

/// Returns the node two columns and one row further, reflected at the edges.
fn destination(i: usize, nodes: usize, columns: usize) -> usize {
    let (x, y) = (i % columns, i / columns);
    let rows = nodes.div_ceil(columns);
    let turn =
        |v: usize, by: usize, n: usize| if v + by < n { v + by } else { v.saturating_sub(by) };
    let to = turn(y, 1, rows) * columns + turn(x, 2, columns);
    if to < nodes { to } else { i.saturating_sub(columns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_do_not_grow_with_the_network() {
        let density = |n: usize| {
            let s = draft(n, 1.0).build().unwrap();
            assert_eq!(s.nodes().len(), n);
            assert!(s.flows().iter().all(|f| (1..=4).contains(&f.wireless_hops)), "{n}");
            (s.sensed_pairs().len() as f64 / n as f64, s.flows().len() as f64 / n as f64)
        };
        let (small, large) = (density(100), density(900));
        assert!(large.0 < small.0 * 1.25, "{small:?} {large:?}");
        assert!((small.1 - large.1).abs() < 0.02);
    }

    #[test]
    fn every_size_builds() {
        for n in [7, 10, 30, 300] {
            assert!(draft(n, 1.0).build().is_ok(), "{n}");
        }
    }
}
