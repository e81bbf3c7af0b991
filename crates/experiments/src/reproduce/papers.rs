//! The papers: their tables and figures with results, and why some have no experiment.

use fairmesh_lab::LabError;
use serde::Deserialize;

use super::catalogue::Catalogue;
use super::declare::Experiment;
use super::tally::Tally;

/// File in the folder of the experiments that lists the papers.
const FILE: &str = "papers.toml";

/// One paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Short name, as experiments have it.
    pub name: String,
    /// Full title.
    pub title: String,
    /// Name of its page, without an extension.
    pub page: String,
    /// Name of the file with its text, among those that quotations are compared with.
    #[serde(default)]
    pub text: Option<String>,
    /// Summary for the first screen of its page, in a sentence or two.
    #[serde(default)]
    pub open: String,
    /// Its tables and figures with results, in its order.
    #[serde(default)]
    pub results: Vec<String>,
    /// Those without an experiment.
    #[serde(default)]
    pub absent: Vec<Absent>,
    /// Experiments whose pictures are on its screen.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Counts of its records before only published mechanisms were judged.
    #[serde(default)]
    pub earlier: Option<Tally>,
}

/// A table or figure without an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// The table or figure.
    pub what: String,
    /// Reason why it has no experiment.
    pub because: String,
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
    let Some(text) = catalogue.file(FILE)? else { return Ok(Vec::new()) };
    let papers: Papers = catalogue.toml(FILE, &text)?;
    for p in &papers.paper {
        let wrong = |problem: String| Err(LabError::file(catalogue.shown(FILE), problem));
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
    }
    Ok(papers.paper)
}

impl Known {
    /// Results that neither an experiment of `all` nor a reason stands for, and experiments' places
    /// that are no results of the paper.
    pub fn gaps(&self, all: &[Experiment]) -> Vec<String> {
        let covered: Vec<&str> =
            all.iter().filter(|e| e.paper == self.name).flat_map(Experiment::covered).collect();
        let is_absent = |what: &str| self.absent.iter().any(|a| a.what == what);
        let lost = self.results.iter().filter(|r| !covered.contains(&r.as_str()) && !is_absent(r));
        let both = self.results.iter().filter(|r| covered.contains(&r.as_str()) && is_absent(r));
        let unknown = covered.iter().filter(|c| !self.results.iter().any(|r| r == *c));
        lost.map(|r| format!("{r} has neither an experiment nor a reason"))
            .chain(both.map(|r| format!("{r} has an experiment and a reason for having none")))
            .chain(unknown.map(|c| format!("{c} is no result of the paper")))
            .collect()
    }
}
