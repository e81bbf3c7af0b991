//! Tables of results: named columns of equal length, for files, data frames and figures.

pub mod measures;
mod results;
mod runs;
mod world;

pub use measures::{MEASURES, Measure};
pub use results::{bounds, estimates, optimum, region};
pub use runs::{decisions, flows, nodes, runs, series};
pub use world::{controls, flows_of, nodes_of};

/// A table. Every column has the same number of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The columns, in order.
    pub columns: Vec<Column>,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name: that of a [`Measure`], or the key of a scenario in the table of a sweep.
    pub name: String,
    /// The values.
    pub values: Values,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Text.
    Text(Vec<String>),
    /// Counts and identifiers.
    Int(Vec<i64>),
    /// Quantities.
    Float(Vec<f64>),
    /// Quantities that may be absent.
    Maybe(Vec<Option<f64>>),
}

impl Values {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(v) => v.len(),
            Values::Int(v) => v.len(),
            Values::Float(v) => v.len(),
            Values::Maybe(v) => v.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Column {
    /// Returns the unit of the values, such as `bit/s` or `s`.
    ///
    /// It is empty for text, ratios and counts without a unit.
    pub fn unit(&self) -> &'static str {
        measures::find(&self.name).map_or("", |m| m.unit)
    }

    /// Returns the definition of its values; empty for a key of a scenario.
    pub fn definition(&self) -> &'static str {
        measures::find(&self.name).map_or("", |m| m.definition)
    }
}

impl Frame {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.values.len())
    }

    /// Returns the column of a name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Adds a column of text.
    pub(crate) fn text(
        &mut self,
        name: &str,
        values: impl Iterator<Item = impl Into<String>>,
    ) -> &mut Self {
        self.push(name, Values::Text(values.map(Into::into).collect()))
    }

    /// Adds a column of counts.
    pub(crate) fn int(&mut self, name: &str, values: impl Iterator<Item = u64>) -> &mut Self {
        self.push(name, Values::Int(values.map(|v| v as i64).collect()))
    }

    /// Adds a column of quantities.
    pub(crate) fn float(&mut self, name: &str, values: impl Iterator<Item = f64>) -> &mut Self {
        self.push(name, Values::Float(values.collect()))
    }

    /// Adds a column of quantities that may be absent.
    pub(crate) fn maybe(
        &mut self,
        name: &str,
        values: impl Iterator<Item = Option<f64>>,
    ) -> &mut Self {
        self.push(name, Values::Maybe(values.collect()))
    }

    fn push(&mut self, name: &str, values: Values) -> &mut Self {
        debug_assert!(self.columns.is_empty() || self.rows() == values.len(), "{name}");
        self.columns.push(Column { name: name.to_owned(), values });
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Comparison;
    use crate::testing::record;

    fn all() -> Vec<Frame> {
        let mut r = record("fifo", 3, &[(1e5, 2e5, 1), (0.0, 2e5, 2)]);
        r.flows[1].packets_delivered = 0;
        let comparison = Comparison::of(&[vec![r.clone()]]);
        let records = [vec![r]];
        vec![
            flows(&records),
            runs(&records),
            nodes(&records),
            series(&records),
            decisions(&records),
            estimates(&comparison),
        ]
    }

    #[test]
    fn every_column_has_a_unit_and_a_definition() {
        for frame in all() {
            for column in &frame.columns {
                assert!(measures::find(&column.name).is_some(), "{} is not defined", column.name);
                assert_eq!(column.values.len(), frame.rows(), "{}", column.name);
            }
        }
    }

    #[test]
    fn measures_have_distinct_names_and_one_sentence_each() {
        let names: BTreeSet<_> = MEASURES.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), MEASURES.len());
        for m in MEASURES {
            assert!(m.definition.ends_with('.') && !m.definition.contains('\n'), "{}", m.name);
            for (suffix, unit) in [("_bps", "bit/s"), ("_s", "s"), ("_bytes", "B"), ("_m", "m")] {
                let named = m.name.ends_with(suffix) && !m.name.ends_with("_per_s");
                assert!(!named || m.unit == unit, "{}: {}", m.name, m.unit);
            }
        }
    }

    #[test]
    fn runs_have_the_measures_of_a_summary_of_one_seed() {
        let records =
            [vec![record("fifo", 1, &[(3e5, 2e5, 1), (1e5, 2e5, 2)]), record("fifo", 2, &[])]];
        let frame = runs(&records);
        let Values::Float(jain) = &frame.column("jain").unwrap().values else { panic!() };
        assert!((jain[0] - 0.8).abs() < 1e-12 && jain.len() == 2, "{jain:?}");
        assert_eq!(frame.column("sum_goodput_bps").unwrap().unit(), "bit/s");
    }
}
