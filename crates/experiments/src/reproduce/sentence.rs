//! Sentences of a paper: the statements from one quotation, judged together.

use super::record::{ClaimResult, Record};
use super::verdict::Outcome;

/// A sentence of a paper with all its comparisons.
#[derive(Clone, Debug)]
pub struct Sentence<'a> {
    /// The paper's words; for an order of rows, a description.
    pub words: String,
    /// Section or table of the sentence.
    pub source: &'a str,
    /// Experiments that test it, in their order.
    pub experiments: Vec<&'a str>,
    /// Statements about single numbers.
    pub cells: Vec<&'a ClaimResult>,
    /// The outcome: that of the worst cell.
    pub outcome: Outcome,
}

impl<'a> Sentence<'a> {
    /// Returns the number of its cells with an outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.cells.iter().filter(|c| c.outcome == outcome).count()
    }

    /// Returns the first of its worst cells; `None` for an order of rows.
    pub fn worst(&self) -> Option<&'a ClaimResult> {
        self.cells.iter().copied().find(|c| c.outcome == self.outcome)
    }
}

/// Returns the distinct sentences of some records of one paper, in their order.
///
/// A statement without a quotation is a separate sentence.
pub fn sentences<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<Sentence<'a>> {
    let mut all: Vec<Sentence<'a>> = Vec::new();
    for record in records {
        for claim in &record.claims {
            let words = if claim.quote.is_empty() { &claim.asked } else { &claim.quote };
            let at = all.iter().position(|s| s.words == *words).unwrap_or_else(|| {
                all.push(Sentence {
                    words: words.clone(),
                    source: &claim.source,
                    experiments: Vec::new(),
                    cells: Vec::new(),
                    outcome: Outcome::Holds,
                });
                all.len() - 1
            });
            let sentence = &mut all[at];
            if !sentence.experiments.contains(&record.id.as_str()) {
                sentence.experiments.push(&record.id);
            }
            sentence.outcome = sentence.outcome.max(claim.outcome);
            sentence.cells.push(claim);
        }
        for order in &record.orders {
            all.push(Sentence {
                words: format!("the order of the rows by {}", order.column),
                source: record.place.split(',').next().unwrap_or_default(),
                experiments: vec![&record.id],
                cells: Vec::new(),
                outcome: order.outcome(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(claims: &[(&str, &str, &str)], wrong: &str) -> Record {
        let claims: Vec<serde_json::Value> = claims
            .iter()
            .map(|(quote, asked, outcome)| {
                serde_json::json!({ "says": "", "source": "§1", "quote": quote, "asked": asked, "ours": 1.0, "outcome": outcome })
            })
            .collect();
        let orders: serde_json::Value = serde_json::from_str(wrong).unwrap();
        serde_json::from_value(serde_json::json!({
            "schema": 3, "generator": "", "id": "a", "title": "", "paper": "p", "place": "Table 1, §1",
            "source": "", "command": "", "seeds": 1, "runs": 1, "fingerprint": "", "missing": [],
            "columns": [], "rows": [], "orders": orders, "claims": claims,
        }))
        .unwrap()
    }

    #[test]
    fn the_worst_cell_of_a_quotation_decides() {
        let first = record(
            &[("q", "a", "holds"), ("q", "b", "open"), ("r", "c", "holds")],
            "[{\"column\": \"JFI\", \"pairs\": 2, \"wrong\": []}]",
        );
        let second = record(&[("q", "d", "not-run"), ("", "e", "fails"), ("", "f", "holds")], "[]");
        let all = sentences([&first, &second]);
        let found: Vec<(&str, Outcome)> =
            all.iter().map(|s| (s.words.as_str(), s.outcome)).collect();
        use Outcome::{Fails, Holds, NotRun};
        assert_eq!(
            found,
            [
                ("q", NotRun),
                ("r", Holds),
                ("the order of the rows by JFI", Holds),
                ("e", Fails),
                ("f", Holds)
            ]
        );
        assert_eq!((all[0].cells.len(), all[0].worst().unwrap().asked.as_str()), (3, "d"));
        assert_eq!(sentences([&first])[0].outcome, Outcome::Open);
    }
}
