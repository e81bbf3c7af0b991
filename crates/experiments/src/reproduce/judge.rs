//! How a record comes about: numbers of runs, or those that were kept, judged by a declaration.

use fairmesh_lab::comparison::GENERATOR;

use super::catalogue::Entry;
use super::cells::{Cell, cells};
use super::declare::Host;
use super::emulated::Emulated;
use super::locate;
use super::plan::{Plan, Runs};
use super::record::{ClaimResult, Missing, Number, OrderResult, Record, Row, SCHEMA};
use super::verdict;

/// What a record says beside its numbers and what they came from.
struct Head {
    command: String,
    seeds: u32,
    runs: usize,
    fingerprint: String,
    missing: Vec<Missing>,
    emulated: Vec<Emulated>,
}

impl Record {
    /// Of a plan's runs.
    pub fn of(plan: &Plan, index: usize, runs: &Runs) -> Self {
        let cells = cells(plan, index, runs);
        let mut hash = 0u64;
        let mut n = 0;
        // The kernel's part never comes out the same twice.
        let simulated = |c: &usize| plan.cases[*c].host == Host::Simulator;
        for case in (0..plan.cases.len()).filter(simulated) {
            for r in runs.of_case(plan, index, case) {
                let one = u64::from_str_radix(&r.fingerprint, 16).unwrap_or_default();
                hash = (hash ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                n += 1;
            }
        }
        let mut head = head(plan, n, format!("{hash:016x}"));
        head.emulated = runs.emulated(plan, index);
        let refused = runs.refused(plan, index).into_iter();
        head.missing.extend(refused.map(|(arm, because)| Missing { arm, because }));
        Record::judge(&plan.entry, &cells, head)
    }

    /// Of numbers, however they came about.
    pub fn from_cells(plan: &Plan, cells: &[Cell], runs: usize, fingerprint: String) -> Self {
        Record::judge(&plan.entry, cells, head(plan, runs, fingerprint))
    }

    /// Its numbers as they were when its runs were read.
    pub fn cells(&self, entry: &Entry) -> Vec<Cell> {
        let cell = |row, n| locate::cell(&entry.experiment, row, n);
        self.rows.iter().flat_map(|row| row.cells.iter().map(move |n| cell(row, n))).collect()
    }

    /// Its numbers judged by the declaration as it is now. What has been declared since, and so has
    /// no numbers, is told as not run.
    #[must_use]
    pub fn again(&self, entry: &Entry) -> Self {
        let experiment = &entry.experiment;
        let cells = self.cells(entry);
        let mut missing: Vec<Missing> = Vec::new();
        for arm in experiment.arms.iter().filter(|_| experiment.study.is_none()) {
            let known = self.missing.iter().find(|m| m.arm == arm.label);
            let mut tell = |arm: String, because: &str| {
                missing.push(Missing { arm, because: because.to_owned() });
            };
            if !cells.iter().any(|c| c.arm == arm.label) {
                tell(arm.label.clone(), known.map_or(DECLARED, |m| m.because.as_str()));
                continue;
            }
            let points = experiment.points.iter().map(|p| &p.label);
            for point in points.filter(|p| arm.points.as_ref().is_none_or(|only| only.contains(p)))
            {
                if !cells.iter().any(|c| c.arm == arm.label && c.point == *point) {
                    tell(format!("{}, {point}", arm.label), DECLARED);
                }
            }
        }
        let head = Head {
            command: self.command.clone(),
            seeds: self.seeds,
            runs: self.runs,
            fingerprint: self.fingerprint.clone(),
            missing,
            emulated: self.emulated.clone(),
        };
        Record::judge(entry, &cells, head)
    }

    fn judge(entry: &Entry, cells: &[Cell], head: Head) -> Self {
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
                paper: judged.paper.map(|p| p.value),
                printed: judged.paper.is_some_and(|p| p.printed),
                digits: experiment.measures.get(c.measure).map_or(2, |m| m.digits),
                verdict: judged.verdict,
            });
        }
        let orders = experiment.orders.iter().map(|o| {
            let verdict::Pairs { all, wrong, open } = verdict::order(o, paper, cells);
            OrderResult { column: o.column.clone(), pairs: all, wrong, open }
        });
        let claims = experiment.statements().into_iter().map(|c| {
            let (outcome, ours) = verdict::claim(&c, cells);
            let asked = c.asked();
            ClaimResult { says: c.says, source: c.source, quote: c.quote, asked, ours, outcome }
        });
        Record {
            schema: SCHEMA,
            generator: GENERATOR.to_owned(),
            id: entry.id.clone(),
            title: experiment.title.clone(),
            paper: experiment.paper.clone(),
            place: experiment.place.clone(),
            source: paper.source.clone(),
            command: head.command,
            seeds: head.seeds,
            runs: head.runs,
            fingerprint: head.fingerprint,
            missing: head.missing,
            emulated: head.emulated,
            columns,
            rows,
            orders: orders.collect(),
            claims: claims.collect(),
        }
    }
}

fn head(plan: &Plan, runs: usize, fingerprint: String) -> Head {
    let mut command = format!("fairmesh-experiments reproduce {}", plan.entry.id);
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
    let missing = missing.collect();
    Head { command, seeds: plan.seeds(), runs, fingerprint, missing, emulated: Vec::new() }
}

/// Why what was declared after a record was made has no numbers in it.
const DECLARED: &str = "declared, not run yet";
