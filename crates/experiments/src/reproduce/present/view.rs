//! A record with its declaration: numbers by arm, place and measure, and their tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fairmesh_control::Registry;
use fairmesh_lab::Estimate;
use serde::Deserialize;

use crate::reproduce::catalogue::Entry;
use crate::reproduce::declare::{Arm, Measure, Statistic};
use crate::reproduce::kind::Kind;
use crate::reproduce::record::{Network, Record};
use crate::reproduce::registry::Facts;

/// A table of arms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Family of the means.
    family: String,
    /// Section to which the arms are restricted.
    section: Option<String>,
    /// Measure by which rows are sorted, largest first; as declared by default.
    sort: Option<String>,
    /// Heading of the first column.
    first: String,
}

/// A table of arms and topologies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Matrix {
    /// Paper to which the topologies are restricted.
    paper: Option<String>,
    /// Section to which the arms are restricted.
    section: Option<String>,
    /// Measures of a cell.
    measures: Vec<String>,
    /// Heading of the first column.
    first: String,
}

/// A record with its declaration.
pub(super) struct View<'a> {
    pub entry: &'a Entry,
    pub record: &'a Record,
    numbers: BTreeMap<(&'a str, &'a str), Estimate>,
    missing: BTreeMap<&'a str, &'a str>,
    /// Topologies of each arm.
    ran: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> View<'a> {
    /// Returns the mechanisms that the experiment may name.
    pub fn registry(&self) -> &'a Registry {
        self.entry.registry()
    }

    pub fn of(entry: &'a Entry, record: &'a Record) -> Self {
        let mut numbers = BTreeMap::new();
        for row in &record.rows {
            for n in &row.cells {
                let value = Estimate { mean: n.ours, ci95: n.ci95 };
                numbers.insert((row.label.as_str(), n.column.as_str()), value);
            }
        }
        let missing = record.missing.iter().map(|m| (m.arm.as_str(), m.because.as_str())).collect();
        let mut ran: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for case in &record.cases {
            ran.entry(&case.arm).or_default().insert(&case.topology);
        }
        View { entry, record, numbers, missing, ran }
    }

    /// Returns a number; `None` if the arm did not run.
    pub fn value(&self, arm: &str, place: &str, measure: &str) -> Option<Estimate> {
        self.numbers.get(&(format!("{arm}, {place}").as_str(), measure)).copied()
    }

    /// Returns the number of the first measure of this kind.
    pub fn of_kind(&self, arm: &str, place: &str, kind: Kind) -> Option<Estimate> {
        let measure = self.entry.experiment.measures.iter().find(|m| m.of == kind)?;
        self.value(arm, place, &measure.label)
    }

    /// Returns families, in the order of their first topology.
    pub fn families(&self) -> Vec<&'a str> {
        let mut families: Vec<&str> = Vec::new();
        for t in &self.record.topologies {
            if !families.contains(&t.family.as_str()) {
                families.push(&t.family);
            }
        }
        families
    }

    pub fn topologies(&self, family: &str) -> Vec<&'a Network> {
        self.record.topologies.iter().filter(|t| t.family == family).collect()
    }

    /// Returns arms that ran in a family.
    pub fn arms(&self, family: &str) -> impl Iterator<Item = &'a Arm> {
        let first = self.entry.experiment.measures.first().map_or("", |m| m.label.as_str());
        let ran = move |a: &&Arm| self.value(&a.label, family, first).is_some();
        self.entry.experiment.arms.iter().filter(ran)
    }

    /// Returns the number of topologies of a family on which an arm ran.
    pub fn ran(&self, arm: &str, family: &str) -> usize {
        let ran = self.ran.get(arm);
        let on = |t: &&Network| ran.is_some_and(|r| r.contains(t.label.as_str()));
        self.topologies(family).into_iter().filter(on).count()
    }

    fn measure(&self, label: &str) -> Result<&'a Measure, String> {
        let found = self.entry.experiment.measures.iter().find(|m| m.label == label);
        found.ok_or_else(|| format!("there is no [[measure]] \"{label}\""))
    }

    /// Returns a number as shown on pages.
    pub fn shown(&self, arm: &str, place: &str, measure: &str) -> Result<String, String> {
        let m = self.measure(measure)?;
        if !self.entry.experiment.arms.iter().any(|a| a.label == arm) {
            return Err(format!("there is no [[arm]] \"{arm}\""));
        }
        let Some(value) = self.value(arm, place, measure) else { return Ok("–".to_owned()) };
        Ok(match m.statistic {
            Statistic::BelowTenth => format!("{:.0} of {}", value.mean, self.ran(arm, place)),
            _ if value.mean == 0.0 && value.half_width() == 0.0 => "0".to_owned(),
            _ => value.show(1.0, m.digits),
        })
    }

    /// Describes the origin of the record.
    pub fn origin(&self) -> String {
        let r = self.record;
        let arms = self.ran.len();
        let mut out = format!(
            "{arms} cases, {} networks, seeds 1 to {}, {} simulations, fingerprint `{}`. The command:\n\n```sh\n{}\n```\n",
            r.topologies.len(),
            r.seeds,
            r.runs,
            r.fingerprint,
            r.command
        );
        let maps = self.entry.experiment.topologies.iter().filter(|t| t.map.is_some());
        let missing: Vec<&str> = maps
            .map(|t| t.label.as_str())
            .filter(|l| !r.topologies.iter().any(|t| t.label == *l))
            .collect();
        if !missing.is_empty() {
            let _ = write!(
                out,
                "\nNot run: {}. Maps are not part of the project; `--map FILE` gives them.\n",
                missing.join(", ")
            );
        }
        out
    }

    /// Returns an arm's name: its control, marked if unpublished, or its label.
    fn named(&self, arm: &Arm) -> String {
        if self.entry.experiment.registry.is_none() {
            return safe(&arm.label);
        }
        let ours = self.registry().lookup(&arm.label).is_ok_and(|m| m.is_ours());
        let mark = if ours { " \\*" } else { "" };
        format!("`{}`{mark}", safe(&arm.label))
    }

    pub fn table(&self, t: &Table) -> Result<String, String> {
        let experiment = &self.entry.experiment;
        let facts = experiment.registry.is_some();
        let mut arms: Vec<&Arm> = self.arms(&t.family).collect();
        arms.retain(|a| t.section.as_ref().is_none_or(|s| a.section == *s));
        if let Some(sort) = &t.sort {
            self.measure(sort)?;
            let of = |a: &Arm| self.value(&a.label, &t.family, sort).map_or(f64::MIN, |v| v.mean);
            arms.sort_by(|a, b| of(b).total_cmp(&of(a)));
        }
        let mut head = vec![t.first.as_str()];
        if facts {
            head.extend(["deployed at", "given"]);
        }
        head.extend(experiment.measures.iter().map(|m| m.label.as_str()));
        let mut out = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
        let of = self.topologies(&t.family).len();
        for arm in arms {
            let ran = self.ran(&arm.label, &t.family);
            let part = match facts && ran < of {
                true => format!(" ({ran} of {of} topologies)"),
                false => String::new(),
            };
            let _ = write!(out, "| {}{part} |", self.named(arm));
            if facts && let Some(f) = Facts::of(&arm.label, self.registry()) {
                let input = if f.knows_fair_rates { "fair rates" } else { "nothing" };
                let _ = write!(out, " {} | {input} |", f.at);
            }
            for m in &experiment.measures {
                let _ = write!(out, " {} |", self.shown(&arm.label, &t.family, &m.label)?);
            }
            out.push('\n');
        }
        Ok(out.trim_end().to_owned())
    }

    pub fn matrix(&self, m: &Matrix) -> Result<String, String> {
        for measure in &m.measures {
            self.measure(measure)?;
        }
        let taken = |t: &&Network| m.paper.as_ref().is_none_or(|p| t.paper == *p);
        let topologies: Vec<&Network> = self.record.topologies.iter().filter(taken).collect();
        let labels: Vec<&str> = topologies.iter().map(|t| t.label.as_str()).collect();
        let mut out = format!(
            "| {} | {} |\n|---|{}",
            m.first,
            labels.join(" | "),
            "---|".repeat(labels.len())
        );
        out += "\n| nodes, flows; measured |";
        for t in &topologies {
            let (from, to) = (t.warmup_s, t.duration_s);
            let _ = match m.section {
                // Sections have different times.
                Some(_) => write!(out, " {}, {} |", t.nodes, t.flows),
                None => write!(out, " {}, {}; {from}–{to} s |", t.nodes, t.flows),
            };
        }
        let arms = self.entry.experiment.arms.iter();
        for arm in arms.filter(|a| m.section.as_ref().is_none_or(|s| a.section == *s)) {
            let cells: Vec<String> = topologies.iter().map(|t| self.cell(m, arm, t)).collect();
            if cells.iter().any(|c| !c.is_empty()) {
                let _ = write!(out, "\n| {} | {} |", self.named(arm), cells.join(" | "));
            }
        }
        Ok(out)
    }

    /// Returns numbers of an arm on a topology and its starved flows, or why it did not run.
    fn cell(&self, m: &Matrix, arm: &Arm, t: &Network) -> String {
        let of = |label: &String| self.value(&arm.label, &t.label, label).map(|v| v.show(1.0, 2));
        let numbers: Vec<String> = m.measures.iter().filter_map(of).collect();
        if numbers.is_empty() {
            let why = self.missing.get(format!("{}, {}", arm.label, t.label).as_str());
            return why.map_or(String::new(), |w| safe(w));
        }
        let case = self.record.cases.iter().find(|c| c.arm == arm.label && c.topology == t.label);
        let starved = case.map_or(&[][..], |c| &c.starved);
        let names = match starved.len() {
            _ if m.section.is_none() => String::new(),
            0 => String::new(),
            1 | 2 => format!(" **{}**", starved.join(", ").replace("->", "→")),
            n => format!(" **{n} of {}**", t.flows),
        };
        numbers.join(" · ") + &names
    }

    /// Returns reasons with their controls.
    pub fn left_out(&self) -> String {
        let left = self.entry.experiment.registry.iter().flat_map(|r| &r.leave_out);
        let lines = left.filter(|l| l.on.is_empty()).map(|l| {
            let controls: Vec<String> = l.controls.iter().map(|c| format!("`{c}`")).collect();
            format!("- {}: {}.", controls.join(", "), l.because)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn safe(text: &str) -> String {
    text.replace('|', "\\|")
}
