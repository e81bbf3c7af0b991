//! The paper's numbers, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `paper.toml`: the numbers that ours are held against.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Where they were read: the table, or the text that speaks of a drawing.
    #[serde(default)]
    pub source: String,
    /// Names of the columns, as in our table.
    #[serde(default)]
    pub columns: Vec<String>,
    /// One list of numbers per row; `nan` where the paper has none.
    #[serde(default)]
    pub rows: BTreeMap<String, Vec<f64>>,
}

impl Paper {
    /// The paper's number in a row and column.
    pub fn get(&self, row: &str, column: &str) -> Option<f64> {
        let at = self.columns.iter().position(|c| c == column)?;
        self.rows.get(row)?.get(at).copied().filter(|v| v.is_finite())
    }

    /// The first thing that does not fit together.
    ///
    /// # Errors
    /// What, for the user.
    pub fn check(&self) -> Result<(), String> {
        let n = self.columns.len();
        match self.rows.iter().find(|(_, values)| values.len() != n) {
            None => Ok(()),
            Some((row, values)) => {
                let found = values.len();
                Err(format!("rows.\"{row}\": found {found} numbers; expected {n}, one per column"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_the_paper_has_not() {
        let p: Paper = toml::from_str("columns = [\"a\", \"b\"]\n[rows]\nx = [1, nan]\n").unwrap();
        assert_eq!((p.get("x", "a"), p.get("x", "b"), p.get("y", "a")), (Some(1.0), None, None));
        p.check().unwrap();
        let p: Paper = toml::from_str("columns = [\"a\"]\n[rows]\nx = [1, 2]\n").unwrap();
        assert!(p.check().unwrap_err().contains("expected 1"));
    }
}
