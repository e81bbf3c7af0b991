//! Counts of a paper's numbers and sentences by their outcome.

use std::ops::AddAssign;

use serde::Deserialize;

use super::record::Record;
use super::sentence::sentences;
use super::verdict::{Outcome, Verdict};

/// Counts of numbers by verdict, of sentences by outcome, and of unjudged numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tally {
    /// Printed numbers that agree.
    pub agree: usize,
    /// Printed numbers that the intervals leave open.
    pub open: usize,
    /// Printed numbers that differ.
    pub differ: usize,
    /// Numbers of the paper that are not printed.
    pub not_printed: usize,
    /// Sentences that hold.
    pub hold: usize,
    /// Sentences that the intervals leave open.
    pub sentences_open: usize,
    /// Sentences that fail.
    pub fail: usize,
    /// Sentences without runs.
    pub sentences_not_run: usize,
    /// Declared rows that were not run.
    pub not_run: usize,
}

impl Tally {
    /// Returns the counts of one record.
    pub fn of(record: &Record) -> Self {
        Tally::of_all(&[record])
    }

    /// Returns the counts of the records of one paper; a shared sentence counts once.
    pub fn of_all(records: &[&Record]) -> Self {
        let mut t = Tally::default();
        for record in records {
            t.not_run += record.missing.len();
            for n in record.rows.iter().flat_map(|r| &r.cells) {
                match n.verdict {
                    Some(Verdict::Agrees) => t.agree += 1,
                    Some(Verdict::Open) => t.open += 1,
                    Some(Verdict::Differs) => t.differ += 1,
                    None => t.not_printed += usize::from(n.paper.is_some() && !n.printed),
                }
            }
        }
        for s in sentences(records.iter().copied()) {
            match s.outcome {
                Outcome::Holds => t.hold += 1,
                Outcome::Open => t.sentences_open += 1,
                Outcome::Fails => t.fail += 1,
                Outcome::NotRun => t.sentences_not_run += 1,
            }
        }
        t
    }

    /// Returns the cells of a table's row.
    ///
    /// They are: numbers, agree, open, differ; sentences, hold, open, fail, not run.
    pub fn cells(&self) -> String {
        let cells = [
            self.judged(),
            self.agree,
            self.open,
            self.differ,
            self.sentences(),
            self.hold,
            self.sentences_open,
            self.fail,
            self.sentences_not_run,
        ];
        cells.map(|n| n.to_string()).join(" | ")
    }

    /// Returns the number of printed numbers that are judged.
    pub fn judged(&self) -> usize {
        self.agree + self.open + self.differ
    }

    /// Returns the number of sentences.
    pub fn sentences(&self) -> usize {
        self.hold + self.sentences_open + self.fail + self.sentences_not_run
    }

    /// Returns true if a number does not agree or a sentence does not hold.
    pub fn differs(&self) -> bool {
        self.judged() > self.agree || self.sentences() > self.hold
    }

    /// Returns a summary, such as "3 of 8 numbers agree, 1 open; 2 of 3 sentences hold".
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
            &[(self.open, "open"), (self.differ, "differ")],
        );
        part(
            self.sentences(),
            format!("{} of {} sentences hold", self.hold, self.sentences()),
            &[
                (self.sentences_open, "open"),
                (self.fail, "fail"),
                (self.sentences_not_run, "not run"),
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
        self.open += o.open;
        self.differ += o.differ;
        self.not_printed += o.not_printed;
        self.hold += o.hold;
        self.sentences_open += o.sentences_open;
        self.fail += o.fail;
        self.sentences_not_run += o.sentences_not_run;
        self.not_run += o.not_run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_names_its_counts() {
        assert_eq!(Tally::default().words(), "nothing to compare with");
        let t = Tally {
            agree: 3,
            differ: 1,
            hold: 1,
            sentences_open: 2,
            not_printed: 4,
            ..Tally::default()
        };
        assert_eq!(
            t.words(),
            "3 of 4 numbers agree, 1 differ; 1 of 3 sentences hold, 2 open; 4 not printed by the paper"
        );
        assert!(t.differs() && !Tally { agree: 1, hold: 1, ..Tally::default() }.differs());
    }
}
