//! The simplex method (Dantzig; Chvátal, Linear Programming, ch. 2 and 3), for sums.
//!
//! It ends on a vertex, exact except for rounding, at the cost of a dense table.

/// Magnitude that counts as zero in a table with entries of about 1.
const ZERO_TOLERANCE: f64 = 1e-11;

/// A dictionary: basic variables in terms of the others.
///
/// Variables are those of the problem, then one slack per row.
struct Dictionary {
    /// One row per basic variable and one for the objective; the last column is the constant.
    table: Vec<Vec<f64>>,
    basic: Vec<usize>,
    free: Vec<usize>,
}

/// Maximises values · x with rows · x ≤ room and x ≥ 0, where room is not negative.
///
/// Returns x and the price of each row; `None` if x is unbounded.
pub(super) fn maximise(
    values: &[f64],
    rows: &[Vec<(usize, f64)>],
    room: &[f64],
) -> Option<(Vec<f64>, Vec<f64>)> {
    let (n, m) = (values.len(), rows.len());
    let mut table: Vec<Vec<f64>> = Vec::with_capacity(m + 1);
    for (row, room) in rows.iter().zip(room) {
        let mut line = vec![0.0; n + 1];
        row.iter().for_each(|&(i, share)| line[i] = share);
        line[n] = *room;
        table.push(line);
    }
    table.push(values.iter().map(|v| -v).chain([0.0]).collect());
    let mut d = Dictionary { table, basic: (n..n + m).collect(), free: (0..n).collect() };
    for pivots in 0.. {
        // The steepest ascent is usually short; the smallest index never cycles (Bland).
        let Some(column) = d.enters(pivots > 4 * (n + m)) else { break };
        let row = d.leaves(column)?;
        d.pivot(row, column);
    }
    let (mut x, mut prices) = (vec![0.0; n], vec![0.0; m]);
    for (row, &variable) in d.basic.iter().enumerate() {
        if variable < n {
            x[variable] = d.table[row][n].max(0.0);
        }
    }
    for (column, &variable) in d.free.iter().enumerate() {
        if variable >= n {
            prices[variable - n] = d.table[m][column].max(0.0);
        }
    }
    Some((x, prices))
}

impl Dictionary {
    /// Returns the column of a variable that raises the objective.
    fn enters(&self, smallest: bool) -> Option<usize> {
        let objective = &self.table[self.basic.len()];
        let worth = (0..self.free.len()).filter(|&c| objective[c] < -ZERO_TOLERANCE);
        if smallest {
            return worth.min_by_key(|&c| self.free[c]);
        }
        worth.min_by(|&a, &b| objective[a].total_cmp(&objective[b]))
    }

    /// Returns the row of the variable that is the first to reach zero.
    fn leaves(&self, column: usize) -> Option<usize> {
        let constant = self.free.len();
        let ratio = |r: usize| self.table[r][constant].max(0.0) / self.table[r][column];
        let falls = (0..self.basic.len()).filter(|&r| self.table[r][column] > ZERO_TOLERANCE);
        falls.min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)).then(self.basic[a].cmp(&self.basic[b])))
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let inverse = 1.0 / self.table[row][column];
        let mut pivot = core::mem::take(&mut self.table[row]);
        pivot.iter_mut().for_each(|x| *x *= inverse);
        pivot[column] = inverse;
        for line in self.table.iter_mut().filter(|line| !line.is_empty()) {
            let factor = core::mem::take(&mut line[column]);
            if factor != 0.0 {
                line.iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            }
        }
        self.table[row] = pivot;
        core::mem::swap(&mut self.basic[row], &mut self.free[column]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worked_example() {
        // Chvátal ch. 2: 5 x + 4 y + 3 z; optimum 13 at (2, 0, 1), prices (1, 0, 1).
        let rows = [
            vec![(0, 2.0), (1, 3.0), (2, 1.0)],
            vec![(0, 4.0), (1, 1.0), (2, 2.0)],
            vec![(0, 3.0), (1, 4.0), (2, 2.0)],
        ];
        let (x, prices) = maximise(&[5.0, 4.0, 3.0], &rows, &[5.0, 11.0, 8.0]).unwrap();
        for (found, expected) in x.iter().chain(&prices).zip([2.0, 0.0, 1.0, 1.0, 0.0, 1.0]) {
            assert!((found - expected).abs() < 1e-12, "{x:?} {prices:?}");
        }
    }

    /// The steepest ascent cycles here without end (Chvátal ch. 3).
    #[test]
    fn cycles_are_left() {
        let rows = [
            vec![(0, 0.5), (1, -5.5), (2, -2.5), (3, 9.0)],
            vec![(0, 0.5), (1, -1.5), (2, -0.5), (3, 1.0)],
            vec![(0, 1.0)],
        ];
        let values = [10.0, -57.0, -9.0, -24.0];
        let (x, prices) = maximise(&values, &rows, &[0.0, 0.0, 1.0]).unwrap();
        assert!((x[0] - 1.0).abs() < 1e-12 && (x[2] - 1.0).abs() < 1e-12, "{x:?}");
        assert!(
            (prices.iter().zip([0.0, 0.0, 1.0]).map(|(p, r)| p * r).sum::<f64>() - 1.0).abs()
                < 1e-12
        );
    }

    #[test]
    fn unbounded_demands_are_refused() {
        assert_eq!(maximise(&[1.0, 1.0], &[vec![(0, 1.0)]], &[1.0]), None);
    }
}
