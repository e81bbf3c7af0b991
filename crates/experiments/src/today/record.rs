//! What is kept: per case and topology who has what, with intervals over seeds.

use fairmesh_lab::comparison::{GENERATOR, SCHEMA};
use fairmesh_lab::estimate::pair;
use fairmesh_lab::{Estimate, LabError};
use serde::{Deserialize, Serialize};

use super::plan::{Outcome, Plan, Reading, flows};
use super::{RECORD, STARVED};
use crate::reproduce::catalogue::Catalogue;
use crate::side_by_side::arms::Arm;
use crate::side_by_side::record::{by_lines, hash};

/// The record, as `--json` prints it and `record.json` keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this shape.
    pub schema: u32,
    /// Program and version.
    pub generator: String,
    /// The command that gives this record again.
    pub command: String,
    /// Seeds 1 to this.
    pub seeds: u32,
    /// Number of simulations.
    pub runs: usize,
    /// Hash of the cells' fingerprints, in order.
    pub fingerprint: String,
    /// Names and what they mean: radios, then queues.
    pub terms: Vec<Term>,
    /// The topologies.
    pub topologies: Vec<TopologyInfo>,
    /// The questions.
    pub sections: Vec<SectionInfo>,
    /// The cases, in order.
    pub cases: Vec<CaseInfo>,
    /// One entry per case and topology.
    pub cells: Vec<Cell>,
}

/// A name and what it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The name.
    pub name: String,
    /// What it means.
    pub about: String,
}

/// A topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyInfo {
    /// Its name.
    pub label: String,
    /// What it is.
    pub about: String,
    /// Its flows.
    pub flows: Vec<String>,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SectionInfo {
    /// Heading.
    pub title: String,
    /// What its cases share.
    pub about: String,
}

/// A case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseInfo {
    /// Index of its section.
    pub section: usize,
    /// Its name.
    pub label: String,
    /// Name of its radio.
    pub radio: String,
    /// Whether frames carry A-MPDUs.
    pub aggregated: bool,
    /// Name of its queue.
    pub queue: String,
    /// Name of its congestion control.
    pub tcp: String,
    /// Its control.
    pub control: Arm,
}

/// A case on a topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index of the case.
    pub case: usize,
    /// The topology.
    pub topology: String,
    /// What came out; `None` where the control has no node to run at.
    pub measures: Option<Measures>,
    /// Hash of its runs' fingerprints, seed by seed.
    pub fingerprint: Option<String>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Goodput of the worst flow over the mean of all, per run.
    #[serde(with = "pair")]
    pub worst: Estimate,
    /// Goodput of the worst flow, Mbit/s.
    #[serde(with = "pair")]
    pub worst_mbit: Estimate,
    /// Goodput of all flows, Mbit/s.
    #[serde(with = "pair")]
    pub sum_mbit: Estimate,
    /// Mean one-way delay, ms.
    #[serde(with = "pair::option")]
    pub delay_ms: Option<Estimate>,
    /// MPDUs per data frame, over all nodes.
    #[serde(with = "pair")]
    pub per_frame: Estimate,
    /// Flows whose mean goodput over the seeds is below a tenth of the mean of all.
    pub starved: Vec<String>,
}

impl Record {
    /// Of a plan's outcomes.
    ///
    /// # Errors
    /// A case that cannot be; the plan was checked.
    pub fn of(
        plan: &Plan,
        outcomes: &[Vec<Vec<Outcome>>],
        command: String,
    ) -> Result<Self, LabError> {
        let d = &plan.declaration;
        let bad = |e: String| LabError::file(super::DECLARATION, e);
        let names: Vec<Vec<String>> = (0..plan.topologies.len()).map(|t| flows(plan, t)).collect();
        let (mut cases, mut cells) = (Vec::new(), Vec::new());
        for (s, (section, of_section)) in d.sections.iter().zip(outcomes).enumerate() {
            for (case, row) in section.cases.iter().zip(of_section) {
                let parts = d.of(case).map_err(bad)?;
                let control = Arm::named(&parts.control).map_err(bad)?;
                for (t, outcome) in row.iter().enumerate() {
                    let of = |r: &Vec<Reading>| {
                        (measures(r, &names[t]), hash(r.iter().map(|r| r.fingerprint)))
                    };
                    let (measures, fingerprint) = outcome.as_ref().map(of).unzip();
                    let topology = plan.topologies[t].label.clone();
                    cells.push(Cell { case: cases.len(), topology, measures, fingerprint });
                }
                cases.push(CaseInfo {
                    section: s,
                    label: case.label.clone(),
                    radio: parts.radio.label.clone(),
                    aggregated: parts.aggregated && parts.radio.name != "g",
                    queue: parts.queue.name.clone(),
                    tcp: parts.tcp.name.clone(),
                    control,
                });
            }
        }
        let ran: Vec<&str> = cells.iter().filter_map(|c: &Cell| c.fingerprint.as_deref()).collect();
        let runs = ran.len() * plan.seeds as usize;
        let numbers = ran.iter().map(|f| u64::from_str_radix(f, 16).unwrap_or_default());
        let fingerprint = hash(numbers);
        let radios = d.radios.iter().map(|r| (&r.label, &r.about));
        let terms = radios.chain(d.queues.iter().map(|q| (&q.name, &q.about)));
        let terms = terms.map(|(n, a)| Term { name: n.clone(), about: a.clone() });
        let topologies = plan.topologies.iter().zip(names).map(|(t, flows)| TopologyInfo {
            label: t.label.clone(),
            about: t.about.clone(),
            flows,
        });
        let sections = d
            .sections
            .iter()
            .map(|s| SectionInfo { title: s.title.clone(), about: s.about.clone() });
        Ok(Record {
            schema: SCHEMA,
            generator: GENERATOR.to_owned(),
            command,
            seeds: plan.seeds,
            runs,
            fingerprint,
            terms: terms.collect(),
            topologies: topologies.collect(),
            sections: sections.collect(),
            cases,
            cells,
        })
    }

    /// The kept record.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn kept(catalogue: &Catalogue) -> Result<Self, LabError> {
        let wanted =
            "expected a record, as fairmesh-experiments side-by-side --today --record writes it";
        let path = catalogue.shown(RECORD);
        let text = catalogue
            .file(RECORD)?
            .ok_or_else(|| LabError::file(&path, format!("there is no such file; {wanted}")))?;
        serde_json::from_str(&text).map_err(|e| LabError::file(&path, format!("{e}; {wanted}")))
    }

    /// As JSON, an element of a list per line.
    ///
    /// # Errors
    /// What the serialiser says.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        by_lines(self)
    }

    /// What a case gave on the topologies where it ran.
    pub fn row(&self, case: usize) -> Vec<(&Cell, &Measures)> {
        let of = self.cells.iter().filter(|c| c.case == case);
        of.filter_map(|c| Some((c, c.measures.as_ref()?))).collect()
    }

    /// The cases of a section, with their places.
    pub fn of_section(&self, section: usize) -> impl Iterator<Item = (usize, &CaseInfo)> {
        self.cases.iter().enumerate().filter(move |(_, c)| c.section == section)
    }
}

fn measures(readings: &[Reading], names: &[String]) -> Measures {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let least = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
    let each = |of: &dyn Fn(&Reading) -> f64| {
        Estimate::of(&readings.iter().map(of).collect::<Vec<_>>()).rounded()
    };
    let delays: Vec<f64> = readings.iter().filter_map(|r| r.delay_ms).collect();
    let per_flow: Vec<f64> = (0..names.len())
        .map(|f| mean(&readings.iter().map(|r| r.goodput[f]).collect::<Vec<_>>()))
        .collect();
    let all = mean(&per_flow);
    let starved = names.iter().zip(&per_flow).filter(|(_, g)| **g < STARVED * all);
    Measures {
        worst: each(&|r| {
            let all = mean(&r.goodput);
            if all > 0.0 { least(&r.goodput) / all } else { 0.0 }
        }),
        worst_mbit: each(&|r| least(&r.goodput) / 1e6),
        sum_mbit: each(&|r| r.goodput.iter().sum::<f64>() / 1e6),
        delay_ms: (!delays.is_empty()).then(|| Estimate::of(&delays).rounded()),
        per_frame: each(&|r| r.per_frame),
        starved: starved.map(|(n, _)| n.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_less_than_a_tenth_of_the_mean_starves() {
        let reading = |goodput: &[f64]| Reading {
            goodput: goodput.to_vec(),
            delay_ms: Some(10.0),
            per_frame: 1.0,
            fingerprint: 1,
        };
        let names = ["a", "b", "c"].map(str::to_owned);
        // Means 6, 2.8 and 0.2 of 3: the third starves in both runs together.
        let m = measures(&[reading(&[6e6, 3e6, 0.0]), reading(&[6e6, 2.6e6, 0.4e6])], &names);
        assert_eq!(m.starved, ["c"]);
        assert_eq!(m.sum_mbit.mean, 9.0);
        assert!((m.worst.mean - 0.5 * 0.4 / 3.0).abs() < 1e-6, "{:?}", m.worst);
        assert_eq!(m.worst_mbit.mean, 0.2);
        assert_eq!(m.delay_ms, Some(Estimate { mean: 10.0, ci95: Some(0.0) }));
        let none = measures(&[reading(&[0.0, 0.0, 0.0])], &names);
        assert_eq!((none.worst.mean, none.starved.len()), (0.0, 0));
    }
}
