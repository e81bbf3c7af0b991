//! Stored record of a reproduction: numbers, verdicts, and the command that repeats it.

use serde::{Deserialize, Serialize};

use super::verdict::{Outcome, Verdict};

/// Reason of a declared arm that is not in the record.
pub(super) const NOT_RUN_REASON: &str = "declared, not run yet";

/// Version of a record's layout.
pub const SCHEMA: u32 = 3;

/// One reproduction, as printed by `--json` and stored in `records/ID.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the layout.
    pub schema: u32,
    /// Program and version.
    pub generator: String,
    /// The experiment.
    pub id: String,
    /// Subject of the table or figure.
    pub title: String,
    /// Short name of the paper.
    pub paper: String,
    /// Place in the paper.
    pub place: String,
    /// Source from which the paper's numbers were read.
    pub source: String,
    /// The command that reproduces this record.
    pub command: String,
    /// Largest seed; the first is 1.
    pub seeds: u32,
    /// Number of simulations.
    pub runs: usize,
    /// Hash of all their fingerprints, in order.
    pub fingerprint: String,
    /// Arms that could not run.
    pub missing: Vec<Missing>,
    /// Timekeeping of the emulator, for arms that ran in it.
    ///
    /// These runs are neither counted in `runs` nor part of the fingerprint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emulated: Vec<Emulated>,
    /// Columns of the table.
    pub columns: Vec<String>,
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Orders of rows.
    pub orders: Vec<OrderResult>,
    /// Statements.
    pub claims: Vec<ClaimResult>,
    /// The topologies that ran, if the layout has places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topologies: Vec<Network>,
    /// Arms on topologies, if the layout has places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<CaseResult>,
    /// Charts over time, if the declaration has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curves>,
}

/// Timekeeping of the emulator in the runs of an arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Emulated {
    /// Label of the arm.
    pub arm: String,
    /// Label of the point; empty without points.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub point: String,
    /// Every valid run.
    pub runs: Vec<Stalled>,
    /// Runs that did not keep real time and were repeated.
    pub repeated: u32,
}

/// Stalls of one run: real time that passed while radio time did not advance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stalled {
    /// Number of stalls.
    pub number: u64,
    /// Total length, in s.
    pub sum_s: f64,
    /// Longest stall, in s.
    pub longest_s: f64,
    /// Stalls during which a retransmission timer of the kernel fired.
    pub felt: u64,
    /// Fraction of the run's real time that they distorted; above a tenth the run is invalid.
    pub bent: f64,
}

/// A chart over time: curves of the first seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// Subject of the picture.
    pub title: String,
    /// Title of the vertical axis.
    pub y: String,
    /// Curves of the chart.
    pub lines: Vec<Curve>,
}

/// A curve over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the curve.
    pub label: String,
    /// Time, s, and value.
    pub points: Vec<(f64, f64)>,
}

/// A topology of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Name of the topology.
    pub label: String,
    /// Group that it belongs to.
    pub family: String,
    /// Short name of the paper of the topology.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub paper: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of flows.
    pub flows: usize,
    /// Simulated time, in s.
    pub duration_s: f64,
    /// Start of the measured interval, in s.
    pub warmup_s: f64,
}

/// An arm on a topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// Label of the arm.
    pub arm: String,
    /// Label of the topology.
    pub topology: String,
    /// Hash of its runs' fingerprints, seed by seed.
    pub fingerprint: String,
    /// Flows with a mean goodput below a tenth of the mean of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starved: Vec<String>,
}

impl Record {
    /// Returns the record as JSON; with places or curves, an element of each list per line.
    ///
    /// # Errors
    /// Returns the serialiser's error.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        if self.cases.is_empty() && self.curves.is_empty() {
            return Ok(serde_json::to_string_pretty(self)? + "\n");
        }
        let serde_json::Value::Object(parts) = serde_json::to_value(self)? else {
            return Ok(String::new());
        };
        let mut lines = Vec::new();
        for (key, value) in parts {
            let text = match value.as_array() {
                Some(list) if !list.is_empty() => {
                    let elements: Result<Vec<String>, _> = list
                        .iter()
                        .map(|e| Ok(format!("    {}", serde_json::to_string(e)?)))
                        .collect();
                    format!("[\n{}\n  ]", elements?.join(",\n"))
                }
                _ => serde_json::to_string(&value)?,
            };
            lines.push(format!("  \"{key}\": {text}"));
        }
        Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
    }
}

/// Returns the hash of fingerprints, in their order.
pub fn hash<'a>(fingerprints: impl Iterator<Item = &'a str>) -> String {
    let numbers = fingerprints.map(|f| u64::from_str_radix(f, 16).unwrap_or_default());
    let hash = numbers.fold(0u64, |hash, f| (hash ^ f).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    format!("{hash:016x}")
}

/// An arm that could not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Label of the arm.
    pub arm: String,
    /// Reason.
    pub because: String,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Label of the row.
    pub label: String,
    /// The worst verdict of its numbers; `None` if none is judged.
    pub verdict: Option<Verdict>,
    /// Numbers of the row, in the order of the columns.
    pub cells: Vec<Number>,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// Column of the number.
    pub column: String,
    /// Our value.
    pub ours: f64,
    /// Half of its 95 % interval.
    pub ci95: Option<f64>,
    /// The paper's value.
    #[serde(default)]
    pub paper: Option<f64>,
    /// True if the paper prints it.
    ///
    /// Otherwise it was read from the paper's sentences or derived from them.
    #[serde(default)]
    pub printed: bool,
    /// Number of significant digits after the point.
    pub digits: usize,
    /// The verdict.
    #[serde(default)]
    pub verdict: Option<Verdict>,
}

/// Comparison of the order of rows with the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderResult {
    /// The column.
    pub column: String,
    /// Pairs that the paper orders.
    pub pairs: usize,
    /// Pairs in reverse order: first the one that is lower in the paper.
    pub wrong: Vec<[String; 2]>,
    /// Pairs that the intervals leave open.
    #[serde(default)]
    pub open: Vec<[String; 2]>,
}

impl OrderResult {
    /// Returns the outcome of the order as one statement: that of the worst pair.
    pub fn outcome(&self) -> Outcome {
        match (self.pairs, self.wrong.len(), self.open.len()) {
            (0, ..) => Outcome::NotRun,
            (_, 1.., _) => Outcome::Fails,
            (_, 0, 1..) => Outcome::Open,
            (_, 0, 0) => Outcome::Holds,
        }
    }
}

/// The outcome of a statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The statement.
    pub says: String,
    /// Source of the statement.
    pub source: String,
    /// The paper's words; empty if the statement is ours.
    #[serde(default)]
    pub quote: String,
    /// The comparison, in symbols.
    pub asked: String,
    /// The number; `None` if an arm is missing.
    pub ours: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
}
