//! The paper's numbers, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quote;

/// `paper.toml`: the numbers with which ours are compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Source of the numbers: the table, or the text that describes a figure.
    #[serde(default)]
    pub source: String,
    /// Names of the columns, as in our table.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Numbers that the paper prints, one list per row; `nan` for a missing number.
    #[serde(default)]
    pub rows: BTreeMap<String, Vec<f64>>,
    /// Line or words of the paper with the numbers of a row, per row of `rows`.
    #[serde(default)]
    pub quotes: BTreeMap<String, String>,
    /// Half-widths of the 95 % intervals that the paper prints, as `rows`.
    #[serde(default)]
    pub intervals: BTreeMap<String, Vec<f64>>,
    /// Numbers that the paper does not print, as `rows`.
    ///
    /// They are read from its sentences or derived from them. They are shown beside ours and not
    /// judged.
    #[serde(default)]
    pub shown: BTreeMap<String, Vec<f64>>,
    /// Rows of `rows` that the paper prints twice, with the experiment that judges them.
    #[serde(default)]
    pub repeats: BTreeMap<String, String>,
}

/// A number of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedNumber {
    /// The number.
    pub value: f64,
    /// Digits after its point, if it is printed.
    pub digits: usize,
    /// Half of its 95 % interval, if one is printed.
    pub half: Option<f64>,
    /// True if the paper prints it.
    pub printed: bool,
    /// True if it is judged in another experiment.
    pub repeated: bool,
}

impl PublishedNumber {
    /// Returns true if our number is compared with the paper's.
    pub fn is_judged(&self) -> bool {
        self.printed && !self.repeated
    }
}

impl Paper {
    /// Returns the paper's number in a row and column.
    pub fn get(&self, row: &str, column: &str) -> Option<PublishedNumber> {
        let at = self.columns.iter().position(|c| c == column)?;
        let of = |rows: &BTreeMap<String, Vec<f64>>| {
            rows.get(row)?.get(at).copied().filter(|v| v.is_finite())
        };
        if let Some(value) = of(&self.rows) {
            let (half, repeated) = (of(&self.intervals), self.repeats.contains_key(row));
            return Some(PublishedNumber {
                value,
                digits: self.digits(row, at),
                half,
                printed: true,
                repeated,
            });
        }
        let value = of(&self.shown)?;
        Some(PublishedNumber { value, digits: 0, half: None, printed: false, repeated: false })
    }

    fn digits(&self, row: &str, at: usize) -> usize {
        let values = self.rows.get(row).map_or(&[][..], Vec::as_slice);
        let before = values[..at].iter().filter(|v| v.is_finite()).count();
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let quote = self.quotes.get(row).map_or("", String::as_str);
        quote::row(quote, &finite).ok().and_then(|d| d.get(before).copied()).unwrap_or(0)
    }

    /// Returns the first inconsistency.
    ///
    /// `quoted`: the paper's words are available, and only printed numbers are rows.
    ///
    /// # Errors
    /// Returns the problem, for the user.
    pub fn check(&self, quoted: bool) -> Result<(), String> {
        let n = self.columns.len();
        let tables = [("rows", &self.rows), ("shown", &self.shown), ("intervals", &self.intervals)];
        for (name, table) in tables {
            if let Some((row, values)) = table.iter().find(|(_, values)| values.len() != n) {
                let found = values.len();
                return Err(format!(
                    "{name}.\"{row}\": found {found} numbers; expected {n}, one per column"
                ));
            }
        }
        if !quoted && !self.rows.is_empty() {
            return Err(
                "rows: the paper's words are not at hand; expected its numbers below shown".into(),
            );
        }
        for (row, values) in &self.rows {
            let Some(words) = self.quotes.get(row) else {
                return Err(format!("quotes.\"{row}\": is missing; expected the paper's line"));
            };
            let long = words.chars().count();
            if long > quote::MAX_QUOTE_CHARS {
                let most = quote::MAX_QUOTE_CHARS;
                return Err(format!(
                    "quotes.\"{row}\": found {long} characters; expected at most {most}"
                ));
            }
            let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
            if let Err(value) = quote::row(words, &values) {
                return Err(format!(
                    "rows.\"{row}\": found {value}; expected what its quote prints"
                ));
            }
        }
        for name in self.quotes.keys().chain(self.repeats.keys()).chain(self.intervals.keys()) {
            if !self.rows.contains_key(name) {
                return Err(format!(
                    "rows.\"{name}\": is missing; expected a row, since its numbers are quoted"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(text: &str) -> Paper {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn numbers_that_the_paper_has_not() {
        let p = paper(
            "columns = [\"a\", \"b\"]\n[rows]\nx = [1, nan]\n[quotes]\nx = \"x 1.00\"\n[shown]\ny = [3, 4]\n",
        );
        let value = |row, column| p.get(row, column).map(|t| (t.value, t.printed, t.digits));
        assert_eq!((value("x", "a"), value("x", "b")), (Some((1.0, true, 2)), None));
        assert_eq!((value("y", "a"), value("z", "a")), (Some((3.0, false, 0)), None));
        p.check(true).unwrap();
        let p = paper("columns = [\"a\"]\n[rows]\nx = [1, 2]\n");
        assert!(p.check(true).unwrap_err().contains("expected 1"));
    }

    #[test]
    fn every_number_stands_in_a_quotation() {
        let of = |rows: &str, quotes: &str| {
            paper(&format!("columns = [\"a\", \"b\"]\n[rows]\n{rows}\n[quotes]\n{quotes}\n"))
        };
        of("x = [0.41, 0.24]", "x = \"FIFO 0.41 0.24\"").check(true).unwrap();
        let check = |rows, quotes| of(rows, quotes).check(true).unwrap_err();
        assert!(check("x = [0.41, 0.25]", "x = \"FIFO 0.41 0.24\"").contains("found 0.25"));
        assert!(check("x = [0.41, 0.24]", "").contains("is missing"));
        assert!(check("x = [0.41, 0.24]", "y = \"0.41 0.24\"").contains("is missing"));
        let none = of("x = [0.41, 0.24]", "x = \"0.41 0.24\"").check(false);
        assert!(none.unwrap_err().contains("not at hand"));
    }

    #[test]
    fn a_repeated_row_is_printed_and_not_judged() {
        let p = paper(
            "columns = [\"a\"]\n[rows]\nx = [1]\n[quotes]\nx = \"1\"\n[repeats]\nx = \"other\"\n[intervals]\nx = [0.5]\n",
        );
        let x = p.get("x", "a").unwrap();
        assert!(x.printed && !x.is_judged() && x.half == Some(0.5));
    }
}
