//! Positions, and the default range of layouts.

use fairmesh_units::Distance;

use super::{Result, fail};
use crate::error::{KeyPath, Problem};
use crate::neighbours::Place;

/// Range of ns-2's radio.
pub(super) const USUAL_DECODE: Distance = Distance(250.0);
/// Maximum coordinate, m, for which differences and squares are exact enough.
pub(super) const MAX_COORDINATE_M: f64 = 1e7;

/// Checks a position.
pub(super) fn place([x, y]: [f64; 2], key: KeyPath) -> Result<Place> {
    for v in [x, y] {
        if !v.is_finite() || v.abs() > MAX_COORDINATE_M {
            return fail(key, Problem::range(v, "coordinates in metres, at most 10000 km"));
        }
    }
    Ok((x, y))
}
