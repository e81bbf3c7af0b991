//! What is kept of a comparison: means with intervals per control and topology, and over groups of
//! topologies.

use std::fmt::Write as _;

use fairmesh_lab::comparison::{GENERATOR, SCHEMA};
use fairmesh_lab::estimate::pair;
use fairmesh_lab::{Estimate, LabError};
use serde::{Deserialize, Serialize};

use super::RECORD;
use super::arms::Arm;
use super::plan::{Outcome, Plan, Reading};
use super::topology::{Group, TopologyInfo};
use crate::reproduce::catalogue::Catalogue;

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
    /// The controls.
    pub controls: Vec<Arm>,
    /// What is left out.
    pub left_out: Vec<LeftOut>,
    /// The topologies.
    pub topologies: Vec<TopologyInfo>,
    /// Over the topologies of a group.
    pub means: Vec<GroupMean>,
    /// One entry per control and topology that was run.
    pub cells: Vec<Cell>,
}

/// A control that is not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub control: String,
    /// Why.
    pub because: String,
}

/// The measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Jain's index of goodput over fair rate.
    #[serde(with = "pair")]
    pub jain: Estimate,
    /// Smallest goodput over fair rate.
    #[serde(with = "pair")]
    pub least: Estimate,
    /// Σ goodput × hops over that of the fair rates.
    #[serde(with = "pair")]
    pub utilization: Estimate,
    /// Mean over flows of their mean one-way delay, ms; `None` where nothing arrived.
    #[serde(with = "pair::option")]
    pub delay_ms: Option<Estimate>,
    /// Bytes of signalling per second, all nodes together.
    #[serde(with = "pair")]
    pub bytes_per_s: Estimate,
    /// Its airtime, ms per second, all nodes together.
    #[serde(with = "pair")]
    pub airtime_ms: Estimate,
}

/// A control over the topologies of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupMean {
    /// The control.
    pub control: String,
    /// The group.
    pub group: Group,
    /// Topologies on which it ran.
    pub ran: usize,
    /// Topologies of the group that were run at all.
    pub of: usize,
    /// Means over those on which it ran, of each seed, then over seeds.
    pub measures: Measures,
}

/// A control on a topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The control.
    pub control: String,
    /// The topology.
    pub topology: String,
    /// What came out; `None` where it did not run.
    pub measures: Option<Measures>,
    /// Why it did not run.
    pub because: Option<String>,
    /// Hash of its runs' fingerprints, seed by seed.
    pub fingerprint: Option<String>,
}

/// Why a control does not run where it has no node.
pub const IDLE: &str = "no node to run at";

impl Record {
    /// Of a plan's outcomes.
    pub fn of(plan: &Plan, outcomes: &[Vec<Option<Outcome>>], command: String) -> Self {
        let (mut cells, mut means) = (Vec::new(), Vec::new());
        for (arm, row) in plan.arms.iter().zip(outcomes) {
            for ((t, _), outcome) in plan.topologies.iter().zip(row) {
                let Some(outcome) = outcome else { continue };
                let mut cell = Cell {
                    control: arm.name.clone(),
                    topology: t.label.clone(),
                    measures: None,
                    because: None,
                    fingerprint: None,
                };
                match outcome {
                    Outcome::Ran(readings) => {
                        cell.fingerprint = Some(hash(readings.iter().map(|r| r.fingerprint)));
                        cell.measures = Some(measures(&[readings]));
                    }
                    Outcome::Idle => cell.because = Some(IDLE.to_owned()),
                    Outcome::Refused(why) => cell.because = Some(why.clone()),
                }
                cells.push(cell);
            }
            for group in Group::ALL {
                let of: Vec<&Outcome> = plan
                    .topologies
                    .iter()
                    .zip(row)
                    .filter(|((t, _), _)| t.group == group)
                    .filter_map(|(_, o)| o.as_ref())
                    .collect();
                let ran: Vec<&Vec<Reading>> = of
                    .iter()
                    .filter_map(|o| if let Outcome::Ran(r) = o { Some(r) } else { None })
                    .collect();
                if !ran.is_empty() {
                    means.push(GroupMean {
                        control: arm.name.clone(),
                        group,
                        ran: ran.len(),
                        of: of.len(),
                        measures: measures(&ran),
                    });
                }
            }
        }
        let left_out = plan.left_out.iter().map(|(control, because)| LeftOut {
            control: control.clone(),
            because: because.clone(),
        });
        Record {
            schema: SCHEMA,
            generator: GENERATOR.to_owned(),
            command,
            seeds: plan.seeds,
            runs: 0,
            fingerprint: String::new(),
            controls: plan.arms.clone(),
            left_out: left_out.collect(),
            topologies: plan.topologies.iter().map(|t| t.0.clone()).collect(),
            means,
            cells,
        }
        .counted()
    }

    /// With the number and the hash of its runs.
    fn counted(mut self) -> Self {
        let ran = self.cells.iter().filter_map(|c| c.fingerprint.as_deref());
        self.runs = ran.clone().count() * self.seeds as usize;
        self.fingerprint = hash(ran.map(|f| u64::from_str_radix(f, 16).unwrap_or_default()));
        self
    }

    /// Whether a plan's outcomes can be put into this record.
    ///
    /// # Errors
    /// As for [`Record::updated`].
    pub fn fits(&self, plan: &Plan) -> Result<(), &'static str> {
        self.same(plan.seeds, plan.topologies.iter().map(|t| &t.0))
    }

    fn same<'a>(
        &self,
        seeds: u32,
        topologies: impl Iterator<Item = &'a TopologyInfo>,
    ) -> Result<(), &'static str> {
        if self.seeds != seeds {
            return Err("other seeds");
        }
        if !self.topologies.iter().eq(topologies) {
            return Err("other topologies");
        }
        Ok(())
    }

    /// This record with what `new` has of some controls in the place of what it had of them;
    /// controls in the order of `names`, and none besides.
    ///
    /// # Errors
    /// Which of seeds, topologies differs: then the two are no one comparison.
    pub fn updated(self, new: Record, names: &[String]) -> Result<Self, &'static str> {
        self.same(new.seeds, new.topologies.iter())?;
        let of = |name: &String| match new.controls.iter().any(|a| a.name == *name) {
            true => &new,
            false => &self,
        };
        let all = |name| {
            let from = of(name);
            let arm = from.controls.iter().find(|a| a.name == *name)?;
            let means = from.means.iter().filter(|m| m.control == *name).cloned();
            let cells = from.cells.iter().filter(|c| c.control == *name).cloned();
            Some((arm.clone(), means.collect::<Vec<_>>(), cells.collect::<Vec<_>>()))
        };
        let (mut controls, mut means, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for (arm, m, c) in names.iter().filter_map(all) {
            controls.push(arm);
            means.extend(m);
            cells.extend(c);
        }
        let left_out = new.left_out.clone();
        Ok(Record { left_out, controls, means, cells, ..self }.counted())
    }

    /// The kept record.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn kept(catalogue: &Catalogue) -> Result<Self, LabError> {
        let wanted = "expected a record, as fairmesh-experiments side-by-side --record writes it";
        let path = catalogue.shown(RECORD);
        let text = catalogue
            .file(RECORD)?
            .ok_or_else(|| LabError::file(&path, format!("there is no such file; {wanted}")))?;
        serde_json::from_str(&text).map_err(|e| LabError::file(&path, format!("{e}; {wanted}")))
    }

    /// The means of a group, fairest first.
    pub fn group(&self, group: Group) -> Vec<(&Arm, &GroupMean)> {
        let arm = |m: &GroupMean| self.controls.iter().find(|a| a.name == m.control);
        let mut rows: Vec<(&Arm, &GroupMean)> = self
            .means
            .iter()
            .filter(|m| m.group == group)
            .filter_map(|m| Some((arm(m)?, m)))
            .collect();
        rows.sort_by(|a, b| b.1.measures.jain.mean.total_cmp(&a.1.measures.jain.mean));
        rows
    }

    /// As JSON, an element of a list per line.
    ///
    /// # Errors
    /// What the serialiser says.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        by_lines(self)
    }
}

/// As JSON, an element of each list per line.
pub(crate) fn by_lines(record: &impl Serialize) -> Result<String, serde_json::Error> {
    let value = serde_json::to_value(record)?;
    let mut parts = Vec::new();
    for (key, v) in value.as_object().into_iter().flatten() {
        let mut part = format!("  {}: ", serde_json::to_string(key)?);
        match v.as_array() {
            Some(list) if !list.is_empty() => {
                part += "[\n";
                for (i, element) in list.iter().enumerate() {
                    let comma = if i + 1 < list.len() { "," } else { "" };
                    let _ = writeln!(part, "    {}{comma}", serde_json::to_string(element)?);
                }
                part += "  ]";
            }
            _ => part += &serde_json::to_string(v)?,
        }
        parts.push(part);
    }
    Ok(format!("{{\n{}\n}}\n", parts.join(",\n")))
}

/// Of numbers in their order.
pub(crate) fn hash(of: impl Iterator<Item = u64>) -> String {
    let hash = of.fold(0u64, |hash, f| (hash ^ f).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    format!("{hash:016x}")
}

/// Of readings by topology and seed: per seed the mean over topologies, then over seeds.
fn measures(of: &[&Vec<Reading>]) -> Measures {
    let seeds = of.iter().map(|r| r.len()).min().unwrap_or(0);
    let over = |value: &dyn Fn(&Reading) -> Option<f64>| -> Option<Estimate> {
        let means: Vec<f64> = (0..seeds)
            .filter_map(|s| {
                let v: Vec<f64> = of.iter().filter_map(|r| value(&r[s])).collect();
                (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64)
            })
            .collect();
        (!means.is_empty()).then(|| Estimate::of(&means).rounded())
    };
    let all =
        |value: &dyn Fn(&Reading) -> f64| over(&|r| Some(value(r))).unwrap_or(Estimate::exact(0.0));
    Measures {
        jain: all(&|r| r.jain),
        least: all(&|r| r.least),
        utilization: all(&|r| r.utilization),
        delay_ms: over(&|r| r.delay_ms),
        bytes_per_s: all(&|r| r.bytes_per_s),
        airtime_ms: all(&|r| r.airtime_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(jain: f64, delay_ms: Option<f64>) -> Reading {
        Reading {
            jain,
            least: 0.5,
            utilization: 1.0,
            delay_ms,
            bytes_per_s: 100.0,
            airtime_ms: 1.0,
            fingerprint: 1,
        }
    }

    #[test]
    fn groups_are_averaged_per_seed_first() {
        let a = vec![reading(1.0, Some(10.0)), reading(0.8, None)];
        let b = vec![reading(0.6, Some(30.0)), reading(0.8, None)];
        let m = measures(&[&a, &b]);
        // 0.8 with both seeds: the topologies' distance is no uncertainty.
        assert_eq!(m.jain, Estimate { mean: 0.8, ci95: Some(0.0) });
        assert_eq!(m.delay_ms, Some(Estimate::exact(20.0)), "the second seed delivered nothing");
        assert_eq!(measures(&[&vec![reading(0.5, None)]]).delay_ms, None);
    }

    fn record(controls: &[&str], jain: f64) -> Record {
        let arm = |name: &&str| Arm {
            name: (*name).to_owned(),
            about: String::new(),
            deployment: super::super::arms::Deployment::Gateway,
            at: "gateway".to_owned(),
            told: false,
        };
        let cell = |name: &&str| Cell {
            control: (*name).to_owned(),
            topology: "stack".to_owned(),
            measures: Some(measures(&[&vec![reading(jain, None)]])),
            because: None,
            fingerprint: Some(hash([name.len() as u64].into_iter())),
        };
        let mean = |name: &&str| GroupMean {
            control: (*name).to_owned(),
            group: Group::ALL[0],
            ran: 1,
            of: 1,
            measures: measures(&[&vec![reading(jain, None)]]),
        };
        Record {
            schema: SCHEMA,
            generator: GENERATOR.to_owned(),
            command: format!("of {jain}"),
            seeds: 1,
            runs: 0,
            fingerprint: String::new(),
            controls: controls.iter().map(arm).collect(),
            left_out: Vec::new(),
            topologies: Vec::new(),
            means: controls.iter().map(mean).collect(),
            cells: controls.iter().map(cell).collect(),
        }
        .counted()
    }

    #[test]
    fn some_controls_are_recorded_anew() {
        let names = ["fifo", "arc", "pfrc"].map(str::to_owned);
        let kept = record(&["fifo", "pfrc", "gone"], 0.5);
        let all = kept.clone().updated(record(&["arc", "pfrc"], 0.9), &names).unwrap();
        let jain = |r: &Record| -> Vec<(String, f64)> {
            let of = |c: &Cell| (c.control.clone(), c.measures.as_ref().unwrap().jain.mean);
            r.cells.iter().map(of).collect()
        };
        let expected = [("fifo", 0.5), ("arc", 0.9), ("pfrc", 0.9)];
        assert_eq!(jain(&all), expected.map(|(name, j)| (name.to_owned(), j)));
        assert_eq!((all.runs, all.controls.len(), all.means.len()), (3, 3, 3));
        assert_eq!(all.command, "of 0.5", "the command of all of it");
        // Whatever the order in which it came to be.
        assert_eq!(all.fingerprint, record(&["fifo", "arc", "pfrc"], 0.0).fingerprint);
        assert_ne!(all.fingerprint, kept.fingerprint);
        let more = Record { seeds: 2, ..record(&["arc"], 0.9) };
        assert_eq!(kept.updated(more, &names), Err("other seeds"));
    }
}
