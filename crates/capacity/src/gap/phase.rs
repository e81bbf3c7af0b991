//! Direction field of GAP's fluid model, for phase plots.

use super::trajectory::{Slope, State};
use super::{Gap, Load};

/// One arrow of a phase plot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arrow {
    /// Position of the arrow: R_S in bit/s, q_M in bit.
    pub at: State,
    /// Direction of the arrow.
    pub slope: Slope,
}

/// Returns arrows over R_S from the guarantee to U* and q_M from 0 to `backlog` bits.
///
/// There are `columns` × `rows` of them, row by row from an empty queue up. The neighbours' buffer
/// is full if their demand exceeds the limit, otherwise empty.
pub fn field(gap: &Gap, load: Load, backlog: f64, columns: u32, rows: u32) -> Vec<Arrow> {
    let part = |i: u32, n: u32| if n > 1 { f64::from(i) / f64::from(n - 1) } else { 0.0 };
    let mut arrows = Vec::with_capacity(columns as usize * rows as usize);
    for row in 0..rows {
        for column in 0..columns {
            let limit = gap.guarantee() + part(column, columns) * gap.multi_share();
            let waiting = if load.single > limit { 1.0 } else { 0.0 };
            let at = State { limit, waiting, backlog: part(row, rows) * backlog };
            arrows.push(Arrow { at, slope: gap.slope(at, load) });
        }
    }
    arrows
}
