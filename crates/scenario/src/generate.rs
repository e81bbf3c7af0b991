//! Generated positions of nodes.

use fairmesh_units::{Distance, Stream};

use crate::neighbours::{self, Place};

/// Returns nodes in a line along x.
pub(crate) fn chain(hops: u32, spacing: Distance) -> Vec<Place> {
    (0..=hops).map(|i| (f64::from(i) * spacing.0, 0.0)).collect()
}

/// Returns nodes row by row from the origin.
pub(crate) fn grid(rows: u32, columns: u32, spacing: Distance) -> Vec<Place> {
    let at = |r: u32, c: u32| (f64::from(c) * spacing.0, f64::from(r) * spacing.0);
    (0..rows).flat_map(|r| (0..columns).map(move |c| at(r, c))).collect()
}

/// Maximum number of random placements.
pub(crate) const MAX_PLACEMENTS: u32 = 1000;
/// Maximum number of nodes placed in all attempts.
///
/// A large, sparse network then fails early.
const MAX_PLACED_NODES: u64 = 2_000_000;

/// Returns nodes uniformly over a rectangle.
///
/// If `connected` is a range, draws again until every node reaches every other over links of at
/// most that length. The error is the number of attempts.
pub(crate) fn random(
    nodes: u32,
    (width, height): (Distance, Distance),
    seed: u32,
    connected: Option<Distance>,
) -> Result<Vec<Place>, u32> {
    let mut rng = Stream::new(u64::from(seed), "scenario/random");
    let attempts = MAX_PLACEMENTS.min((MAX_PLACED_NODES / u64::from(nodes.max(1))).max(1) as u32);
    for _ in 0..attempts {
        let places: Vec<Place> =
            (0..nodes).map(|_| (rng.uniform(0.0, width.0), rng.uniform(0.0, height.0))).collect();
        match connected {
            Some(range) if !is_connected(&places, range) => {}
            _ => return Ok(places),
        }
    }
    Err(attempts)
}

fn is_connected(places: &[Place], range: Distance) -> bool {
    let mut reached = vec![false; places.len()];
    let mut todo = vec![0];
    reached[0] = true;
    let cells = neighbours::Cells::new(places, range);
    let mut count = 1;
    while let Some(i) = todo.pop() {
        // In a dense network the first few nodes reach all others.
        if count == places.len() {
            break;
        }
        cells.within(i, |j, _| {
            if !reached[j] {
                reached[j] = true;
                count += 1;
                todo.push(j);
            }
        });
    }
    count == places.len()
}
