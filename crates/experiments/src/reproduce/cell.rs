//! A number of an experiment with its place in the table.

use fairmesh_lab::Estimate;

/// One number.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Row of the number.
    pub row: String,
    /// Column of the number.
    pub column: String,
    /// Label of its arm.
    pub arm: String,
    /// Label of its point; empty without points.
    pub point: String,
    /// Label of its line in a picture over points: flow and measure.
    pub line: String,
    /// Index of its measure.
    pub measure: usize,
    /// Our value over topologies and seeds.
    pub value: Estimate,
}
