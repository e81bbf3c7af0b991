//! The papers: results with and without experiments, and causes of failing sentences.

use fairmesh_lab::LabError;
use serde::Deserialize;

use super::catalogue::Catalogue;
use super::declare::Experiment;
use super::sentence::Sentence;
use super::tally::Tally;
use super::verdict::Outcome;

/// File in the folder of the experiments that lists the papers.
const PAPERS_FILE: &str = "papers.toml";

/// One paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Short name, as used by experiments.
    pub name: String,
    /// Full title.
    pub title: String,
    /// Name of its page, without an extension.
    pub page: String,
    /// Name of the file with its text, for the comparison of quotations.
    #[serde(default)]
    pub text: Option<String>,
    /// Summary for the first screen of its page, in one or two sentences.
    #[serde(default)]
    pub open: String,
    /// Tables and figures of the paper with results, in the order of the paper.
    #[serde(default)]
    pub results: Vec<String>,
    /// Tables and figures without an experiment.
    #[serde(default)]
    pub absent: Vec<OmittedFigure>,
    /// Causes of the sentences that fail.
    #[serde(default)]
    pub cause: Vec<Cause>,
    /// Experiments with pictures on its screen.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Counts of its records when arms of unpublished mechanisms were judged too.
    #[serde(default)]
    pub earlier: Option<Tally>,
}

/// A table or figure without an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OmittedFigure {
    /// The table or figure.
    pub what: String,
    /// Reason why it has no experiment.
    pub because: String,
}

/// Cause of a failing sentence: shown by an experiment, or unknown.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// Words of the sentence.
    pub sentence: String,
    /// Source of the sentence, if several sentences have the same words.
    #[serde(default)]
    pub source: Option<String>,
    /// The cause; empty if it is unknown.
    #[serde(default)]
    pub because: String,
    /// Experiments that show the cause, and rows of references, such as `validation/ns2: fig85`.
    #[serde(default)]
    pub shown: Vec<String>,
    /// If the cause is unknown, the attempts to find it.
    #[serde(default)]
    pub unknown: Option<String>,
}

impl Cause {
    /// Returns true if it is the cause of this sentence.
    pub fn is_of(&self, sentence: &Sentence<'_>) -> bool {
        self.sentence == sentence.words && self.source.as_ref().is_none_or(|s| s == sentence.source)
    }

    /// Returns the text for a page.
    pub fn words(&self) -> String {
        match &self.unknown {
            Some(tried) if tried.is_empty() => "cause unknown".to_owned(),
            Some(tried) => format!("cause unknown; {tried}"),
            None => {
                let shown: Vec<String> = self.shown.iter().map(|id| format!("`{id}`")).collect();
                format!("{} ({})", self.because, shown.join(", "))
            }
        }
    }

    /// Returns the first inconsistency. `ids`: all experiments.
    fn check(&self, ids: &[String]) -> Result<(), String> {
        let at = |problem: &str| Err(format!("cause of \"{}\": {problem}", self.sentence));
        match (&self.unknown, self.because.trim().is_empty(), self.shown.is_empty()) {
            (None, false, false) | (Some(_), true, true) => {}
            _ => return at("expected because and shown, or unknown alone"),
        }
        let known = |id: &&String| ids.contains(id) || reference_row(id).is_some();
        match self.shown.iter().find(|id| !known(id)) {
            Some(id) => at(&format!("shown: there is no experiment \"{id}\"")),
            None => Ok(()),
        }
    }
}

/// Splits the name of a reference's row into folder and row.
///
/// An example of a name is `validation/ns2: fig85`.
pub fn reference_row(name: &str) -> Option<(&str, &str)> {
    let (folder, row) = name.split_once(": ")?;
    folder.starts_with("validation/").then_some((folder, row))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    #[serde(default)]
    paper: Vec<Known>,
}

/// Returns every paper of a catalogue; empty if it does not list them.
///
/// # Errors
/// Returns the problem with the list.
pub fn papers(catalogue: &Catalogue) -> Result<Vec<Known>, LabError> {
    let Some(text) = catalogue.file(PAPERS_FILE)? else { return Ok(Vec::new()) };
    let papers: Papers = catalogue.toml(PAPERS_FILE, &text)?;
    for p in &papers.paper {
        let wrong = |problem: String| Err(LabError::file(catalogue.shown(PAPERS_FILE), problem));
        for a in &p.absent {
            if !p.results.contains(&a.what) {
                return wrong(format!("absent: there is no result \"{}\" of {}", a.what, p.name));
            }
            if a.because.trim().is_empty() {
                return wrong(format!(
                    "absent \"{}\": because is empty; expected the reason",
                    a.what
                ));
            }
        }
        let ids = catalogue.ids()?;
        if let Err(problem) = p.cause.iter().try_for_each(|c| c.check(&ids)) {
            return wrong(problem);
        }
    }
    Ok(papers.paper)
}

impl Known {
    /// Returns failing sentences without a cause, and causes of sentences that do not fail.
    pub fn unexplained(&self, all: &[Sentence<'_>]) -> Vec<String> {
        let failing: Vec<_> = all.iter().filter(|s| s.outcome == Outcome::Fails).collect();
        let explained = |s: &Sentence<'_>| self.cause.iter().filter(|c| c.is_of(s)).count() == 1;
        let stray = self.cause.iter().filter(|c| !failing.iter().any(|s| c.is_of(s)));
        failing
            .iter()
            .filter(|s| !explained(s))
            .map(|s| format!("\"{}\" ({}) fails without one cause", s.words, s.source))
            .chain(
                stray.map(|c| format!("cause of \"{}\": that sentence does not fail", c.sentence)),
            )
            .collect()
    }

    /// Returns results without an experiment of `all` or a reason.
    ///
    /// It also returns places of experiments that are not results of the paper.
    pub fn gaps(&self, all: &[Experiment]) -> Vec<String> {
        let covered: Vec<&str> =
            all.iter().filter(|e| e.paper == self.name).flat_map(Experiment::covered).collect();
        let is_absent = |what: &str| self.absent.iter().any(|a| a.what == what);
        let lost = self.results.iter().filter(|r| !covered.contains(&r.as_str()) && !is_absent(r));
        let both = self.results.iter().filter(|r| covered.contains(&r.as_str()) && is_absent(r));
        let unknown = covered.iter().filter(|c| !self.results.iter().any(|r| r == *c));
        lost.map(|r| format!("{r} has neither an experiment nor a reason"))
            .chain(both.map(|r| format!("{r} has an experiment and a reason for having none")))
            .chain(unknown.map(|c| format!("{c} is not a result of the paper")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(text: &str) -> Cause {
        toml::from_str(&format!("sentence = \"q\"\n{text}")).unwrap()
    }

    fn sentence(words: &str, outcome: Outcome) -> Sentence<'static> {
        Sentence {
            words: words.to_owned(),
            source: "§1",
            experiments: Vec::new(),
            cells: Vec::new(),
            outcome,
        }
    }

    #[test]
    fn a_cause_is_shown_by_an_experiment_or_unknown() {
        let ids = ["a".to_owned()];
        let shown = cause("because = \"the radio\"\nshown = [\"a\"]\n");
        assert_eq!(shown.check(&ids), Ok(()));
        assert_eq!(shown.words(), "the radio (`a`)");
        let reference = cause("because = \"x\"\nshown = [\"validation/ns2: fig85\"]\n");
        assert_eq!(reference.check(&ids), Ok(()));
        assert_eq!(reference_row("validation/ns2: fig85"), Some(("validation/ns2", "fig85")));
        let unknown = cause("unknown = \"tried: files\"\n");
        assert_eq!(unknown.check(&ids), Ok(()));
        assert_eq!(unknown.words(), "cause unknown; tried: files");
        for bad in [
            "",
            "because = \"x\"\n",
            "shown = [\"a\"]\n",
            "because = \"x\"\nshown = [\"a\"]\nunknown = \"\"\n",
        ] {
            assert!(
                cause(bad).check(&ids).unwrap_err().contains("expected because and shown"),
                "{bad}"
            );
        }
        let other = cause("because = \"x\"\nshown = [\"b\"]\n").check(&ids);
        assert_eq!(other.unwrap_err(), "cause of \"q\": shown: there is no experiment \"b\"");
    }

    #[test]
    fn every_failing_sentence_and_no_other_has_a_cause() {
        let mut known: Known =
            toml::from_str("name = \"n\"\ntitle = \"t\"\npage = \"p\"\n").unwrap();
        let fails = [sentence("q", Outcome::Fails), sentence("r", Outcome::Holds)];
        assert_eq!(known.unexplained(&fails), ["\"q\" (§1) fails without one cause"]);
        known.cause = vec![cause("unknown = \"\"\n")];
        assert!(known.unexplained(&fails).is_empty());
        assert_eq!(known.unexplained(&fails[1..]), ["cause of \"q\": that sentence does not fail"]);
        known.cause[0].source = Some("§2".to_owned());
        assert_eq!(known.unexplained(&fails).len(), 2);
    }
}
