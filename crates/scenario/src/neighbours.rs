//! Pairs of nodes within a range, in time proportional to their number.

use fairmesh_units::Distance;

/// A position in metres.
pub(crate) type Place = (f64, f64);

/// Nodes sorted into square cells as wide as the range.
///
/// Nodes in range are in one of nine cells.
pub(crate) struct Cells<'a> {
    places: &'a [Place],
    range: f64,
    /// (column, row, node), sorted.
    members: Vec<(i64, i64, usize)>,
}

/// Slack on range comparisons, as in `fairmesh_wifi::propagation`.
const RANGE_SLACK: f64 = 1e-6;

impl<'a> Cells<'a> {
    pub fn new(places: &'a [Place], range: Distance) -> Self {
        let range = range.0 + RANGE_SLACK;
        let mut cells = Cells { places, range, members: Vec::with_capacity(places.len()) };
        for i in 0..places.len() {
            let (column, row) = cells.cell(i);
            cells.members.push((column, row, i));
        }
        cells.members.sort_unstable();
        cells
    }

    fn cell(&self, node: usize) -> (i64, i64) {
        let (x, y) = self.places[node];
        // `as` saturates; coordinates are bounded far below.
        let index = |v: f64| libm::floor(v / self.range) as i64;
        (index(x), index(y))
    }

    /// Calls `found` with every other node within range of `node` and its distance.
    ///
    /// The order is not specified.
    pub fn within(&self, node: usize, mut found: impl FnMut(usize, Distance)) {
        let (column, row) = self.cell(node);
        let here = self.places[node];
        for c in column - 1..=column + 1 {
            let first = self.members.partition_point(|m| (m.0, m.1) < (c, row - 1));
            let members = self.members[first..].iter();
            for &(_, _, other) in members.take_while(|m| (m.0, m.1) <= (c, row + 1)) {
                let distance = distance(here, self.places[other]);
                if other != node && distance.0 <= self.range {
                    found(other, distance);
                }
            }
        }
    }
}

/// Returns the straight-line distance.
pub(crate) fn distance(a: Place, b: Place) -> Distance {
    Distance(libm::hypot(a.0 - b.0, a.1 - b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_exactly_the_pairs_in_range(
            places in prop::collection::vec((-2e3..2e3f64, -2e3..2e3f64), 1..60),
            range in 0.5..1500.0f64,
        ) {
            let cells = Cells::new(&places, Distance(range));
            for i in 0..places.len() {
                let mut found = Vec::new();
                cells.within(i, |j, _| found.push(j));
                found.sort_unstable();
                let expected: Vec<usize> = (0..places.len())
                    .filter(|&j| j != i && distance(places[i], places[j]).0 <= range + RANGE_SLACK)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
