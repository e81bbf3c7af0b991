//! Statements of a paper's text beyond its numbers, as they are declared.

use serde::Deserialize;

use super::quote::{MAX_QUOTE_CHARS, bears_factor, bears_number};

/// A statement about a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement.
    pub says: String,
    /// Section or figure of the statement.
    pub source: String,
    /// Short quotation of the paper that supports the statement.
    ///
    /// It contains every constant below.
    #[serde(default)]
    pub quote: String,
    /// Row and column of the number.
    pub cell: [String; 2],
    /// Pairs of numbers of which the mean distance is compared instead of the number.
    ///
    /// The distance of a pair is one minus its quotient.
    #[serde(default)]
    pub gaps: Vec<[[String; 2]; 2]>,
    /// Lower bound of the number.
    #[serde(default)]
    pub above: Option<Bound>,
    /// Upper bound of the number.
    #[serde(default)]
    pub below: Option<Bound>,
    /// Expected value of the number, within the tolerance of equality.
    ///
    /// The tolerance is [`EQUALITY_TOLERANCE`](super::verdict::EQUALITY_TOLERANCE).
    #[serde(default)]
    pub about: Option<Bound>,
    /// Rate relative to which the number starves.
    ///
    /// It is below [`STARVATION_FRACTION`](super::verdict::STARVATION_FRACTION) of it.
    #[serde(default)]
    pub starves: Option<Bound>,
    /// Rate relative to which the number does not starve.
    ///
    /// It is above [`STARVATION_FRACTION`](super::verdict::STARVATION_FRACTION) of it.
    #[serde(default)]
    pub fed: Option<Bound>,
    /// Value from which the number differs by more than the tolerance of equality.
    ///
    /// The tolerance is [`EQUALITY_TOLERANCE`](super::verdict::EQUALITY_TOLERANCE).
    #[serde(default)]
    pub unlike: Option<Bound>,
    /// Values for `{}` in the fields above, one statement for each.
    #[serde(default)]
    pub each: Vec<String>,
}

/// A number, or another number of the table times a factor.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Bound {
    /// A plain number.
    Number(f64),
    /// Another number of the table.
    Cell {
        /// Row and column.
        cell: [String; 2],
        /// Factor.
        #[serde(default = "one")]
        times: f64,
        /// Amount that is subtracted.
        #[serde(default)]
        less: f64,
    },
    /// The straight line through two numbers of the table at equal steps, continued by one step.
    Line {
        /// Rows and columns of the two numbers, in the direction of the step.
        line: [[String; 2]; 2],
    },
}

fn one() -> f64 {
    1.0
}

/// Returns true if `less` is zero, or a number that the quotation prints.
fn bears_less(quote: &str, less: f64) -> bool {
    less == 0.0 || bears_number(quote, less)
}

impl Claim {
    /// Returns the single statements that it stands for.
    pub fn each(&self) -> Vec<Claim> {
        if self.each.is_empty() {
            return vec![self.clone()];
        }
        self.each.iter().map(|with| self.filled(with)).collect()
    }

    fn filled(&self, with: &str) -> Claim {
        let text = |t: &String| t.replace("{}", with);
        let cell = |c: &[String; 2]| [text(&c[0]), text(&c[1])];
        let bound = |b: &Option<Bound>| {
            b.as_ref().map(|b| match b {
                Bound::Number(n) => Bound::Number(*n),
                Bound::Cell { cell: c, times, less } => {
                    Bound::Cell { cell: cell(c), times: *times, less: *less }
                }
                Bound::Line { line: [a, b] } => Bound::Line { line: [cell(a), cell(b)] },
            })
        };
        Claim {
            says: text(&self.says),
            source: self.source.clone(),
            quote: self.quote.clone(),
            cell: cell(&self.cell),
            gaps: self.gaps.iter().map(|[a, b]| [cell(a), cell(b)]).collect(),
            above: bound(&self.above),
            below: bound(&self.below),
            about: bound(&self.about),
            starves: bound(&self.starves),
            fed: bound(&self.fed),
            unlike: bound(&self.unlike),
            each: Vec::new(),
        }
    }

    /// Returns its bounds.
    pub fn bounds(&self) -> impl Iterator<Item = &Bound> {
        [&self.above, &self.below, &self.about, &self.starves, &self.fed, &self.unlike]
            .into_iter()
            .flatten()
    }

    /// Returns rows and columns of all numbers that it names.
    pub fn cells(&self) -> impl Iterator<Item = &[String; 2]> {
        let bounds = self.bounds().flat_map(|b| match b {
            Bound::Number(_) => &[][..],
            Bound::Cell { cell, .. } => core::slice::from_ref(cell),
            Bound::Line { line } => line,
        });
        core::iter::once(&self.cell).chain(self.gaps.iter().flatten()).chain(bounds)
    }

    /// Returns the first inconsistency.
    ///
    /// `quoted`: a quotation of the paper must support the statement.
    ///
    /// # Errors
    /// Returns the problem, for the user.
    pub fn check(&self, quoted: bool) -> Result<(), String> {
        let at = |problem: String| Err(format!("claim \"{}\": {problem}", self.says));
        if self.bounds().next().is_none() {
            return at(
                "states nothing; expected above, below, about, unlike, starves or fed".to_owned()
            );
        }
        if !quoted {
            return Ok(());
        }
        if self.quote.is_empty() || self.quote.chars().count() > MAX_QUOTE_CHARS {
            return at(format!(
                "quote: found {} characters; expected 1 to {MAX_QUOTE_CHARS} of the paper",
                self.quote.chars().count()
            ));
        }
        for bound in self.bounds() {
            let (constant, borne) = match bound {
                // The point at which the number is read, such as an offered load, needs no support.
                Bound::Number(n) => {
                    (n, bears_number(&self.quote, *n) || self.is_at(*n) || self.is_at(n / 1e3))
                }
                Bound::Cell { less, .. } if !bears_less(&self.quote, *less) => (less, false),
                Bound::Cell { times, .. } => (times, bears_factor(&self.quote, *times)),
                Bound::Line { .. } => (&1.0, true),
            };
            if !borne {
                return at(format!("found {constant}; expected a constant that its quote prints"));
            }
        }
        Ok(())
    }

    /// Returns true if the row of its number is named after `value`.
    fn is_at(&self, value: f64) -> bool {
        let words = self.cell[0].split([' ', ',']);
        words.filter_map(|w| w.parse::<f64>().ok()).any(|w| w == value)
    }

    /// Returns the comparison in symbols: "TCP, 4→6 < a tenth of TCP, 1→3".
    pub fn asked(&self) -> String {
        let name = |cell: &[String; 2]| {
            let parts = cell.iter().map(String::as_str).filter(|p| !p.is_empty());
            parts.collect::<Vec<_>>().join(", ")
        };
        let bound = |b: &Bound| match b {
            Bound::Number(n) => n.to_string(),
            Bound::Cell { cell, times, less } => {
                let times = if *times == 1.0 { String::new() } else { format!("{times} × ") };
                let less = if *less == 0.0 { String::new() } else { format!(" − {less}") };
                format!("{times}{}{less}", name(cell))
            }
            Bound::Line { line: [a, b] } => format!("the line through {} and {}", name(a), name(b)),
        };
        let mut text = match self.gaps.as_slice() {
            [] => name(&self.cell),
            [[a, b], ..] => {
                format!("1 − ({} / {}), mean of {}", name(a), name(b), self.gaps.len())
            }
        };
        for (sign, b) in [
            (" > ", &self.above),
            (" < ", &self.below),
            (" ≈ ", &self.about),
            (" < a tenth of ", &self.starves),
            (" > a tenth of ", &self.fed),
            (" ≉ ", &self.unlike),
        ] {
            if let Some(b) = b {
                text += &format!("{sign}{}", bound(b));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(text: &str) -> Claim {
        toml::from_str(&format!("source = \"§1\"\n{text}")).unwrap()
    }

    #[test]
    fn a_statement_for_each_of_several() {
        let c = claim(
            "says = \"{}: more\"\nquote = \"more\"\neach = [\"a\", \"b\"]\ncell = [\"x\", \"{}\"]\nabove = { cell = [\"y\", \"{}\"] }\n",
        );
        let each = c.each();
        assert_eq!(
            each.iter().map(Claim::asked).collect::<Vec<_>>(),
            ["x, a > y, a", "x, b > y, b"]
        );
        assert_eq!(each[1].says, "b: more");
    }

    #[test]
    fn no_constant_without_a_quotation() {
        let with =
            |more: &str| claim(&format!("says = \"s\"\ncell = [\"x\", \"y\"]\n{more}")).check(true);
        let of = |times: &str| {
            with(&format!(
                "quote = \"within 20%\"\nabove = {{ cell = [\"x\", \"z\"], times = {times} }}\n"
            ))
        };
        assert!(of("0.8").is_ok() && of("1").is_ok());
        assert!(of("0.85").unwrap_err().contains("0.85"));
        assert!(with("above = 3\n").unwrap_err().contains("quote"));
        assert!(with("quote = \"q\"\n").unwrap_err().contains("states nothing"));
        assert!(with("quote = \"over 425\"\nabove = 425\n").is_ok());
        assert!(with("quote = \"over 425\"\nabove = 424\n").is_err());
        let load = |about: f64| {
            claim(&format!(
                "says = \"s\"\nquote = \"its demands\"\ncell = [\"TCP, 2560\", \"y\"]\nabout = {about}\n"
            ))
            .check(true)
        };
        assert!(load(2560.0).is_ok() && load(2559.0).is_err());
        let less = |less: u32| {
            with(&format!(
                "quote = \"which is 256 Kbps\"\nbelow = {{ cell = [\"x\", \"z\"], less = {less} }}\n"
            ))
        };
        assert!(less(256).is_ok() && less(255).unwrap_err().contains("255"));
    }

    #[test]
    fn constants_and_pairs_stand_in_the_comparison() {
        let c = claim(
            "says = \"s\"\ncell = [\"x\", \"y\"]\ngaps = [[[\"x\", \"y\"], [\"o\", \"y\"]]]\nbelow = { cell = [\"z\", \"y\"], times = 2, less = 3 }\n",
        );
        assert_eq!(c.asked(), "1 − (x, y / o, y), mean of 1 < 2 × z, y − 3");
        assert_eq!(c.cells().count(), 4);
    }
}
