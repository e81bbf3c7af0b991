//! What is kept of a reproduction: the numbers, the verdicts, and how to get them again.

use serde::{Deserialize, Serialize};

use super::emulated::Emulated;
use super::verdict::{Outcome, Verdict};

/// Version of a record's shape.
pub const SCHEMA: u32 = 2;

/// One reproduction, as `--json` prints it and `records/ID.json` keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this shape.
    pub schema: u32,
    /// Program and version.
    pub generator: String,
    /// The experiment.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Short name of the paper.
    pub paper: String,
    /// Where in the paper.
    pub place: String,
    /// Where the paper's numbers were read.
    pub source: String,
    /// The command that gives this record again.
    pub command: String,
    /// Seeds 1 to this.
    pub seeds: u32,
    /// Number of simulations.
    pub runs: usize,
    /// Hash of all their fingerprints, in order.
    pub fingerprint: String,
    /// Arms that could not run.
    pub missing: Vec<Missing>,
    /// How the emulator kept its time, where arms ran in it. Neither counted in `runs` nor part of the
    /// fingerprint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emulated: Vec<Emulated>,
    /// Columns of the table.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Orders of rows.
    pub orders: Vec<OrderResult>,
    /// Statements.
    pub claims: Vec<ClaimResult>,
}

/// An arm that could not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Its label.
    pub arm: String,
    /// Why.
    pub because: String,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// The worst verdict of its numbers; `None` where none is judged.
    pub verdict: Option<Verdict>,
    /// Its numbers, in the order of the columns.
    pub cells: Vec<Number>,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// Its column.
    pub column: String,
    /// Ours.
    pub ours: f64,
    /// Half of its 95 % interval.
    pub ci95: Option<f64>,
    /// The paper's.
    pub paper: Option<f64>,
    /// Whether the paper prints it; otherwise it was read out of its sentences or worked out from them.
    #[serde(default)]
    pub printed: bool,
    /// Digits after the point worth showing.
    pub digits: usize,
    /// The verdict.
    pub verdict: Option<Verdict>,
}

/// Whether rows are ordered as in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderResult {
    /// The column.
    pub column: String,
    /// Pairs that the paper orders.
    pub pairs: usize,
    /// Pairs that are the other way round here: first the one that the paper has lower.
    pub wrong: Vec<[String; 2]>,
    /// Pairs that the intervals leave open.
    #[serde(default)]
    pub open: Vec<[String; 2]>,
}

/// What became of a statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The statement.
    pub says: String,
    /// Where it comes from.
    pub source: String,
    /// The paper's words; empty where the statement is ours.
    #[serde(default)]
    pub quote: String,
    /// What was asked of which number.
    pub asked: String,
    /// The number; `None` where an arm is missing.
    pub ours: Option<f64>,
    /// What became of it.
    pub outcome: Outcome,
}
