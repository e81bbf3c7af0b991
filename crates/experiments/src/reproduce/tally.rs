//! What became of a paper's numbers and statements, counted.

use std::ops::AddAssign;

use super::record::Record;
use super::verdict::{Outcome, Verdict};

/// Counts of judged numbers by verdict, of statements by outcome, and of what is shown only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Printed numbers that agree.
    pub agree: usize,
    /// Printed numbers of the same direction.
    pub same_direction: usize,
    /// Printed numbers that the intervals leave open.
    pub open: usize,
    /// Printed numbers that differ.
    pub differ: usize,
    /// Numbers of the paper that it does not print.
    pub not_printed: usize,
    /// Statements that hold.
    pub hold: usize,
    /// Statements that the intervals leave open.
    pub claims_open: usize,
    /// Statements that fail.
    pub fail: usize,
    /// Statements whose runs are missing.
    pub claims_not_run: usize,
    /// Rows that are declared and were not run.
    pub not_run: usize,
}

impl Tally {
    /// Of a record.
    pub fn of(record: &Record) -> Self {
        let mut t = Tally { not_run: record.missing.len(), ..Tally::default() };
        for n in record.rows.iter().flat_map(|r| &r.cells) {
            match n.verdict {
                Some(Verdict::Agrees) => t.agree += 1,
                Some(Verdict::SameDirection) => t.same_direction += 1,
                Some(Verdict::NotDecided) => t.open += 1,
                Some(Verdict::Differs) => t.differ += 1,
                None => t.not_printed += usize::from(n.paper.is_some() && !n.printed),
            }
        }
        for c in &record.claims {
            match c.outcome {
                Outcome::Holds => t.hold += 1,
                Outcome::NotDecided => t.claims_open += 1,
                Outcome::Fails => t.fail += 1,
                Outcome::NotRun => t.claims_not_run += 1,
            }
        }
        t
    }

    /// Printed numbers that are judged.
    pub fn judged(&self) -> usize {
        self.agree + self.same_direction + self.open + self.differ
    }

    /// Statements.
    pub fn statements(&self) -> usize {
        self.hold + self.claims_open + self.fail + self.claims_not_run
    }

    /// Whether something is not as in the paper.
    pub fn differs(&self) -> bool {
        self.judged() > self.agree || self.statements() > self.hold
    }

    /// "3 of 8 numbers agree, 1 same direction; 2 of 3 statements hold".
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        let mut part = |all: usize, first: String, rest: &[(usize, &str)]| {
            if all > 0 {
                let rest =
                    rest.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}"));
                parts.push(first + &rest.collect::<String>());
            }
        };
        part(
            self.judged(),
            format!("{} of {} numbers agree", self.agree, self.judged()),
            &[
                (self.same_direction, "same direction"),
                (self.open, "not decided"),
                (self.differ, "differ"),
            ],
        );
        part(
            self.statements(),
            format!("{} of {} statements hold", self.hold, self.statements()),
            &[
                (self.claims_open, "not decided"),
                (self.fail, "fail"),
                (self.claims_not_run, "not run"),
            ],
        );
        part(self.not_printed, format!("{} not printed by the paper", self.not_printed), &[]);
        part(self.not_run, format!("{} rows not run", self.not_run), &[]);
        if parts.is_empty() { "nothing to compare with".to_owned() } else { parts.join("; ") }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, o: Self) {
        self.agree += o.agree;
        self.same_direction += o.same_direction;
        self.open += o.open;
        self.differ += o.differ;
        self.not_printed += o.not_printed;
        self.hold += o.hold;
        self.claims_open += o.claims_open;
        self.fail += o.fail;
        self.claims_not_run += o.claims_not_run;
        self.not_run += o.not_run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_what_there_is() {
        assert_eq!(Tally::default().words(), "nothing to compare with");
        let t = Tally {
            agree: 3,
            differ: 1,
            hold: 1,
            claims_open: 2,
            not_printed: 4,
            ..Tally::default()
        };
        assert_eq!(
            t.words(),
            "3 of 4 numbers agree, 1 differ; 1 of 3 statements hold, 2 not decided; 4 not printed by the paper"
        );
        assert!(t.differs() && !Tally { agree: 1, hold: 1, ..Tally::default() }.differs());
    }
}
