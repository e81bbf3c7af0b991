//! Assembly of a record: numbers of runs, or stored ones, judged by a declaration.

use fairmesh_lab::comparison::GENERATOR;

use super::catalogue::Entry;
use super::cell::Cell;
use super::cells::cells;
use super::chart;
use super::declare::{Dimension, Host, Topology};
use super::locate;
use super::panel::Panel;
use super::plan::{Case, Plan, Runs};
use super::record::{
    CaseResult, ClaimResult, Curves, Emulated, Missing, NOT_RUN_REASON, Network, Number,
    OrderResult, Record, Row, SCHEMA, hash,
};
use super::verdict;

/// Fraction of the mean of all flows below which a flow starves.
const STARVATION_FRACTION: f64 = 0.1;

/// Metadata of a record, beside its numbers and their sources.
struct Head {
    command: String,
    seeds: u32,
    runs: usize,
    fingerprint: String,
    missing: Vec<Missing>,
    emulated: Vec<Emulated>,
    topologies: Vec<Network>,
    cases: Vec<CaseResult>,
    curves: Vec<Curves>,
}

impl Record {
    /// Builds the record of a plan's runs.
    pub fn of(plan: &Plan, index: usize, runs: &Runs) -> Self {
        let cells = cells(plan, index, runs);
        let mut all = plan.extent.added.as_ref().map_or(0, |a| a.after);
        let mut n = 0;
        // The kernel's part is not reproducible.
        let simulated = |c: &usize| plan.cases[*c].host == Host::Simulator;
        for case in (0..plan.cases.len()).filter(simulated) {
            for r in runs.of_case(plan, index, case) {
                let one = u64::from_str_radix(&r.fingerprint, 16).unwrap_or_default();
                all = (all ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                n += 1;
            }
        }
        let mut head = head(plan, n, format!("{all:016x}"));
        head.emulated = runs.emulated(plan, index);
        if plan.entry.experiment.chart.as_ref().is_some_and(|c| c.kind.is_over_time()) {
            let panels = chart::panels(plan, index, runs, &cells);
            head.curves = panels.iter().map(Panel::curves).collect();
        }
        let refused = runs.refused(plan, index).into_iter();
        head.missing.extend(refused.map(|(arm, because)| Missing { arm, because }));
        if plan.entry.experiment.lays_out(Dimension::Place) {
            (head.topologies, head.cases) = (networks(plan), results(plan, index, runs));
            head.fingerprint = hash(head.cases.iter().map(|c| c.fingerprint.as_str()));
        }
        Record::judge(&plan.entry, &cells, head)
    }

    /// Builds a record from numbers, independent of their origin.
    pub fn from_cells(plan: &Plan, cells: &[Cell], runs: usize, fingerprint: String) -> Self {
        Record::judge(&plan.entry, cells, head(plan, runs, fingerprint))
    }

    /// Combines this record of some arms with the other arms of `kept`.
    ///
    /// The result is in the order of the declaration. `added`: the arms are new, and their
    /// fingerprint continues that of `kept`.
    ///
    /// # Errors
    /// The difference because of which the two are not one comparison.
    pub fn completed(self, kept: &Record, entry: &Entry, added: bool) -> Result<Self, String> {
        let other = |of: &str| {
            format!(
                "the kept record has other {of}; expected the same seeds and topologies as it has, or no --control"
            )
        };
        if kept.seeds != self.seeds {
            return Err(other("seeds"));
        }
        // Arms that need a gateway run on some of the topologies.
        if !self.topologies.iter().all(|t| kept.topologies.contains(t)) {
            return Err(other("topologies"));
        }
        if kept.cases.is_empty() && !added {
            return Err("has a record without topologies, of which --control cannot replace a part; expected --missing, or a whole run".to_owned());
        }
        let arms: Vec<&str> = entry.experiment.arms.iter().map(|a| a.label.as_str()).collect();
        let place = |arm: &str| arms.iter().position(|a| *a == arm);
        let of_missing = |m: &Missing| {
            place(&m.arm).or_else(|| arms.iter().position(|a| m.arm.starts_with(&format!("{a}, "))))
        };
        let (own, theirs) = (self.cells(entry), kept.cells(entry));
        let mine = |arm: Option<usize>| {
            let of = |c: &Cell| place(&c.arm) == arm;
            arm.is_none() || own.iter().any(of) || self.missing.iter().any(|m| of_missing(m) == arm)
        };
        let mut cells: Vec<Cell> = theirs
            .into_iter()
            .filter(|c| !mine(place(&c.arm)))
            .chain(own.iter().cloned())
            .collect();
        cells.sort_by_key(|c| place(&c.arm));
        let mut cases: Vec<CaseResult> = kept
            .cases
            .iter()
            .filter(|c| !mine(place(&c.arm)))
            .chain(&self.cases)
            .cloned()
            .collect();
        cases.sort_by_key(|c| place(&c.arm));
        let others = kept.missing.iter().filter(|m| !mine(of_missing(m)));
        let mut missing: Vec<Missing> = self.missing.iter().chain(others).cloned().collect();
        missing.sort_by_key(of_missing);
        let (runs, fingerprint) = match (kept.cases.is_empty(), self.cases.is_empty()) {
            // Its runs continue the fingerprint of the stored ones.
            (true, true) => (kept.runs + self.runs, self.fingerprint.clone()),
            _ => {
                let all = hash(cases.iter().map(|c| c.fingerprint.as_str()));
                (cases.len() * self.seeds as usize, all)
            }
        };
        let head = Head {
            command: kept.command.clone(),
            seeds: self.seeds,
            runs,
            fingerprint,
            missing,
            emulated: kept.emulated.iter().chain(&self.emulated).cloned().collect(),
            topologies: kept.topologies.clone(),
            cases,
            curves: kept.curves.iter().chain(&self.curves).cloned().collect(),
        };
        Ok(Record::judge(entry, &cells, head))
    }

    /// Returns its numbers as they were when its runs were read.
    pub fn cells(&self, entry: &Entry) -> Vec<Cell> {
        let cell = |row, n| locate::cell(&entry.experiment, row, n);
        self.rows.iter().flat_map(|row| row.cells.iter().map(move |n| cell(row, n))).collect()
    }

    /// Judges its numbers by the current declaration.
    ///
    /// Items declared after the record was made have no numbers and are reported as not run.
    #[must_use]
    pub fn again(&self, entry: &Entry) -> Self {
        let experiment = &entry.experiment;
        let cells = self.cells(entry);
        let places = experiment.lays_out(Dimension::Place);
        let on_place = |m: &&Missing| places && !experiment.arms.iter().any(|a| a.label == m.arm);
        let mut missing: Vec<Missing> = self.missing.iter().filter(on_place).cloned().collect();
        for arm in experiment.arms.iter().filter(|_| experiment.study.is_none()) {
            let known = self.missing.iter().find(|m| m.arm == arm.label);
            let mut report_missing = |arm: String, because: &str| {
                missing.push(Missing { arm, because: because.to_owned() });
            };
            if !cells.iter().any(|c| c.arm == arm.label) {
                let idle = format!("{}, ", arm.label);
                if places && self.missing.iter().any(|m| m.arm.starts_with(&idle)) {
                    continue;
                }
                report_missing(
                    arm.label.clone(),
                    known.map_or(NOT_RUN_REASON, |m| m.because.as_str()),
                );
                continue;
            }
            let points = experiment.points.iter().map(|p| &p.label);
            for point in points.filter(|p| arm.points.as_ref().is_none_or(|only| only.contains(p)))
            {
                if !cells.iter().any(|c| c.arm == arm.label && c.point == *point) {
                    report_missing(format!("{}, {point}", arm.label), NOT_RUN_REASON);
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
            topologies: self.topologies.clone(),
            cases: self.cases.clone(),
            curves: self.curves.clone(),
        };
        // The numbers are from the program that made the record.
        Record { generator: self.generator.clone(), ..Record::judge(entry, &cells, head) }
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
            let verdict::Pairs { all, wrong, open } = verdict::order(experiment, o, paper, cells);
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
            topologies: head.topologies,
            cases: head.cases,
            curves: head.curves,
        }
    }
}

/// Returns the topologies of a plan.
fn networks(plan: &Plan) -> Vec<Network> {
    let of = |(t, topology): (usize, &Topology)| {
        let scenario = plan.cases.iter().find(|c| c.topology == t)?.scenario();
        Some(Network {
            label: topology.label.clone(),
            family: topology.family.clone(),
            paper: topology.paper.clone(),
            nodes: scenario.nodes().len(),
            flows: scenario.flows().len(),
            duration_s: scenario.duration().as_secs_f64(),
            warmup_s: scenario.warmup().as_secs_f64(),
        })
    };
    plan.topologies.iter().enumerate().filter_map(of).collect()
}

/// Returns fingerprints and starved flows by arm and topology.
fn results(plan: &Plan, index: usize, runs: &Runs) -> Vec<CaseResult> {
    let of = |(c, case): (usize, &Case)| {
        let records = runs.of_case(plan, index, c);
        let flows = records.first().map_or(0, |r| r.flows.len());
        let goodput = |f: usize| records.iter().map(|r| r.flows[f].goodput_bps).sum::<f64>();
        let all = (0..flows).map(goodput).sum::<f64>() / flows.max(1) as f64;
        let starved = (0..flows).filter(|&f| goodput(f) < STARVATION_FRACTION * all);
        CaseResult {
            arm: plan.entry.experiment.arms[case.arm].label.clone(),
            topology: plan.topologies[case.topology].label.clone(),
            fingerprint: hash(records.iter().map(|r| r.fingerprint.as_str())),
            starved: starved.map(|f| records[0].flows[f].name.clone()).collect(),
        }
    };
    plan.cases.iter().enumerate().map(of).collect()
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
    for map in &plan.extent.maps {
        // Without the folders of the user's machine.
        command += &format!(" --map {}", map.file_name().unwrap_or_default().display());
    }
    if plan.extent.added.is_some() {
        command += " --missing";
    }
    if !plan.extent.controls.is_empty() {
        command += &format!(" --control {}", plan.extent.controls.join(","));
    }
    let missing = plan.missing.iter();
    let missing =
        missing.map(|(arm, because)| Missing { arm: arm.clone(), because: because.clone() });
    let missing = missing.collect();
    Head {
        command,
        seeds: plan.seeds(),
        runs,
        fingerprint,
        missing,
        emulated: Vec::new(),
        topologies: Vec::new(),
        cases: Vec::new(),
        curves: Vec::new(),
    }
}
