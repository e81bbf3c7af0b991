//! What is kept of a reproduction: the numbers, the verdicts, and how to get them again.

use fairmesh_lab::comparison::{GENERATOR, SCHEMA};
use serde::{Deserialize, Serialize};

use super::cells::{Cell, cells};
use super::declare::{Bound, Claim};
use super::plan::{Plan, Runs};
use super::verdict::{self, Verdict};

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
}

/// Whether a statement holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The statement.
    pub says: String,
    /// Where it comes from.
    pub source: String,
    /// What was asked of which number.
    pub asked: String,
    /// The number; `None` where an arm is missing.
    pub ours: Option<f64>,
    /// Whether it holds; `None` where an arm is missing.
    pub holds: Option<bool>,
}

/// Rows by verdict, and everything else by whether it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows that agree.
    pub agree: usize,
    /// Rows of the same direction.
    pub same_direction: usize,
    /// Rows that differ.
    pub differ: usize,
    /// Orders that come out.
    pub orders: usize,
    /// Orders that do not.
    pub orders_wrong: usize,
    /// Statements that hold.
    pub claims: usize,
    /// Statements that do not.
    pub claims_wrong: usize,
}

impl Record {
    /// Of a plan's runs.
    pub fn of(plan: &Plan, index: usize, runs: &Runs) -> Self {
        let cells = cells(plan, index, runs);
        let mut hash = 0u64;
        let mut n = 0;
        for case in 0..plan.cases.len() {
            for r in runs.of_case(index, case, plan.seeds()) {
                let one = u64::from_str_radix(&r.fingerprint, 16).unwrap_or_default();
                hash = (hash ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                n += 1;
            }
        }
        Record::from_cells(plan, &cells, n, format!("{hash:016x}"))
    }

    /// Of numbers, however they came about.
    pub fn from_cells(plan: &Plan, cells: &[Cell], runs: usize, fingerprint: String) -> Self {
        let entry = &plan.entry;
        let (experiment, paper) = (&entry.experiment, &entry.paper);
        let mut columns: Vec<String> = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        for judged in verdict::numbers(experiment, paper, cells) {
            let c = judged.cell;
            if !columns.contains(&c.column) {
                columns.push(c.column.clone());
            }
            let at = rows.iter().position(|r| r.label == c.row).unwrap_or_else(|| {
                rows.push(Row { label: c.row.clone(), verdict: None, cells: Vec::new() });
                rows.len() - 1
            });
            rows[at].verdict = rows[at].verdict.max(judged.verdict);
            rows[at].cells.push(Number {
                column: c.column.clone(),
                ours: c.value.mean,
                ci95: c.value.ci95,
                paper: judged.paper,
                digits: experiment.measures[c.measure].digits,
                verdict: judged.verdict,
            });
        }
        let orders = experiment.orders.iter().map(|o| {
            let (wrong, pairs) = verdict::order(o, paper, cells);
            OrderResult { column: o.column.clone(), pairs, wrong }
        });
        let claims = experiment.claims.iter().map(|c| {
            let outcome = verdict::claim(c, cells);
            ClaimResult {
                says: c.says.clone(),
                source: c.source.clone(),
                asked: asked(c),
                ours: outcome.map(|o| o.1),
                holds: outcome.map(|o| o.0),
            }
        });
        let mut command = format!("fairmesh reproduce {}", entry.id);
        if plan.extent.full {
            command += " --full";
        }
        if let Some(seeds) = plan.extent.seeds {
            command += &format!(" --seeds {seeds}");
        }
        if let Some(networks) = plan.extent.networks {
            command += &format!(" --networks {networks}");
        }
        let missing = plan.missing.iter();
        let missing =
            missing.map(|(arm, because)| Missing { arm: arm.clone(), because: because.clone() });
        Record {
            schema: SCHEMA,
            generator: GENERATOR.to_owned(),
            id: entry.id.clone(),
            title: experiment.title.clone(),
            paper: experiment.paper.clone(),
            place: experiment.place.clone(),
            source: paper.source.clone(),
            command,
            seeds: plan.seeds(),
            runs,
            fingerprint,
            missing: missing.collect(),
            columns,
            rows,
            orders: orders.collect(),
            claims: claims.collect(),
        }
    }

    /// Counts verdicts.
    pub fn tally(&self) -> Tally {
        let rows = |v| self.rows.iter().filter(|r| r.verdict == Some(v)).count();
        let claims = |holds| self.claims.iter().filter(|c| c.holds == Some(holds)).count();
        Tally {
            agree: rows(Verdict::Agrees),
            same_direction: rows(Verdict::SameDirection),
            differ: rows(Verdict::Differs),
            orders: self.orders.iter().filter(|o| o.wrong.is_empty()).count(),
            orders_wrong: self.orders.iter().filter(|o| !o.wrong.is_empty()).count(),
            claims: claims(true),
            claims_wrong: claims(false),
        }
    }

    /// Whether something is not as in the paper.
    pub fn differs(&self) -> bool {
        let t = self.tally();
        t.differ + t.same_direction + t.orders_wrong + t.claims_wrong > 0
    }
}

impl Tally {
    /// "3 rows agree, 1 same direction; order as in the paper; 2 of 3 statements hold".
    pub fn words(&self) -> String {
        let rows = self.agree + self.same_direction + self.differ;
        let mut parts = Vec::new();
        if rows > 0 {
            let mut text = format!("{} of {rows} rows agree", self.agree);
            if self.same_direction > 0 {
                text += &format!(", {} same direction", self.same_direction);
            }
            if self.differ > 0 {
                text += &format!(", {} differ", self.differ);
            }
            parts.push(text);
        }
        let orders = self.orders + self.orders_wrong;
        if orders > 0 {
            parts.push(format!("{} of {orders} orders as in the paper", self.orders));
        }
        let claims = self.claims + self.claims_wrong;
        if claims > 0 {
            parts.push(format!("{} of {claims} statements hold", self.claims));
        }
        if parts.is_empty() { "nothing to compare with".to_owned() } else { parts.join("; ") }
    }
}

fn asked(c: &Claim) -> String {
    let name = |cell: &[String; 2]| {
        let parts: Vec<&str> = cell.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        parts.join(", ")
    };
    let bound = |b: &Bound| match b {
        Bound::Number(n) => n.to_string(),
        Bound::Cell { cell, times: 1.0 } => name(cell),
        Bound::Cell { cell, times } => format!("{times} × {}", name(cell)),
    };
    let mut text = name(&c.cell);
    if let Some(b) = &c.above {
        text += &format!(" > {}", bound(b));
    }
    if let Some(b) = &c.below {
        text += &format!(" < {}", bound(b));
    }
    text
}
