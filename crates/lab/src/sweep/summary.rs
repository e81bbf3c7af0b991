//! A finished sweep: one row per point and control, and the first figure.

use std::io::{BufWriter, Write};
use std::path::Path;

use fairmesh_engine::measures;
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::axes::Axis;
use super::cell::Cell;
use super::plan::SCENARIO_COLUMN;
use super::runs::Sweep;
use crate::files::folder::PendingFile;
use crate::files::parquet;
use crate::frame::{Column, Frame, Values};
use crate::layout::{GENERATOR, SCHEMA};
use crate::store::Store;
use crate::{BoxedError, Estimate, FileProblem, LabError, Pool};

/// Rows of a summary that are kept in memory, for a terminal; the file has all.
pub const MAX_ROWS_IN_MEMORY: usize = 100;
/// Values of a key that a figure shows one by one; of more it shows their distribution.
const MOST_VALUES: usize = 40;
/// Lines of a figure.
const MOST_LINES: usize = 8;
/// Rows of the table of runs in memory.
const ROWS_PER_BLOCK: usize = 20_000;

/// Results of a sweep. Rates in bit/s.
#[derive(Debug)]
pub struct Summary {
    /// Scenario name, or names.
    pub scenario: String,
    /// Largest number of seeds of a point.
    pub seeds: usize,
    /// True if a rule decided the number of seeds of each point.
    pub adaptive: bool,
    /// The varied keys.
    pub keys: Vec<String>,
    /// The first [`MAX_ROWS_IN_MEMORY`] entries, one per point and control.
    pub results: Vec<Row>,
    /// Number of all entries.
    pub rows: usize,
    /// The first figure; `None` if nothing varies.
    pub figure: Option<Figure>,
}

/// One point under one control, over its seeds.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Value of every key, as written.
    pub point: Map<String, Value>,
    /// Control.
    pub control: String,
    /// Number of seeds.
    pub seeds: usize,
    /// True if a part of the control is unpublished.
    pub ours: bool,
    /// Jain's index of the goodputs.
    pub jain: Estimate,
    /// Jain's index of goodput over fair rate.
    pub jain_normalized: Option<Estimate>,
    /// Smallest goodput over fair rate.
    pub min_over_fair: Option<Estimate>,
    /// Largest goodput over fair rate.
    pub max_over_fair: Option<Estimate>,
    /// Σ goodput × hops over that sum at the analytic rates.
    pub utilization_ratio: Option<Estimate>,
    /// Sum of the goodputs.
    pub sum_goodput_bps: Estimate,
    /// Each flow.
    pub flows: Vec<FlowRow>,
}

/// One flow of a row.
#[derive(Debug, Serialize)]
pub struct FlowRow {
    /// Flow name.
    pub name: String,
    /// Goodput.
    pub goodput_bps: Estimate,
    /// Max-min rate, bit/s; `None` if the runs were given no fair rates.
    pub fair_bps: Option<f64>,
}

/// Lines of a measure over the values of a key, or its distribution over all points.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the measure, as in [`crate::frame::MEASURES`].
    pub measure: &'static str,
    /// Varied key of the horizontal axis; `None` for a distribution.
    pub key: Option<String>,
    /// Values of the key.
    pub labels: Vec<String>,
    /// One line per control, and per scenario of several.
    pub lines: Vec<Line>,
}

/// A line of a [`Figure`].
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Control, with the scenario if there are several.
    pub name: String,
    /// With a key, the estimate by its value; of several points a mean without an interval.
    /// Without: the values of all points, in ascending order.
    pub values: Vec<Option<Estimate>>,
}

/// The whole summary as it is written, row by row from the store.
struct SummaryWriter<'a> {
    sweep: &'a Sweep,
    store: &'a Store,
    command: &'a str,
    out: std::cell::RefCell<Out>,
}

/// Receivers of the rows beside the summary's file.
struct Out {
    rows: Rows,
    table: parquet::Writer<BufWriter<std::fs::File>>,
    first: Vec<Row>,
    count: usize,
    drawing: Option<Drawing>,
    failed: Option<LabError>,
}

impl Serialize for SummaryWriter<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut object = s.serialize_struct("Summary", 7)?;
        object.serialize_field("schema", &SCHEMA)?;
        object.serialize_field("generator", GENERATOR)?;
        object.serialize_field("command", self.command)?;
        object.serialize_field("scenario", &self.sweep.title())?;
        object.serialize_field("seeds", &self.sweep.seeds())?;
        object.serialize_field("keys", &self.sweep.keys())?;
        object.serialize_field("results", &Results(self))?;
        object.end()
    }
}

struct Results<'a>(&'a SummaryWriter<'a>);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let SummaryWriter { sweep, store, out, .. } = self.0;
        let (mut seq, keys, mut broken) = (s.serialize_seq(None)?, sweep.keys(), None);
        let done = sweep.each(store, |cells| {
            let out = &mut *out.borrow_mut();
            for cell in cells {
                out.rows.push(cell);
            }
            if out.rows.len() >= ROWS_PER_BLOCK {
                out.flush()?;
            }
            let row = Row::of(&keys, cells);
            if let Err(e) = seq.serialize_element(&row) {
                broken = Some(e);
                return Err(LabError::setting("summary", "cannot be written"));
            }
            if let Some(drawing) = &mut out.drawing {
                drawing.add(&row);
            }
            out.count += 1;
            if out.first.len() < MAX_ROWS_IN_MEMORY {
                out.first.push(row);
            }
            Ok(())
        });
        if let Some(e) = broken {
            return Err(e);
        }
        if let Err(e) = done {
            let text = e.to_string();
            out.borrow_mut().failed = Some(e);
            return Err(S::Error::custom(text));
        }
        seq.end()
    }
}

impl Out {
    fn flush(&mut self) -> Result<(), LabError> {
        let written = self.table.write(&self.rows.take());
        written.map_err(|e| LabError::setting("sweep.parquet", BoxedError::from(e)))
    }
}

impl Sweep {
    /// Runs the jobs missing from the store, and writes the results of all to `folder`.
    /// `command` is the command line to record.
    ///
    /// # Errors
    /// If a store has other results of this revision, the engine rejects a scenario, or files cannot be written.
    /// All completed runs stay in the store.
    pub fn run(
        &self,
        store: &Store,
        folder: &Path,
        command: &str,
        pool: &Pool<'_>,
    ) -> Result<Summary, LabError> {
        self.fill(store, pool)?;
        write(self, store, folder, command)
    }

    /// Returns the table of the stored runs: one row per run and flow, one column per varied key.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub fn frame(&self, store: &Store) -> Result<Frame, LabError> {
        let mut rows = Rows::new(self.keys());
        self.each(store, |cells| {
            cells.iter().for_each(|cell| rows.push(cell));
            Ok(())
        })?;
        Ok(rows.take())
    }
}

/// Writes `sweep.json` and `sweep.parquet` row by row, in constant memory.
fn write(sweep: &Sweep, store: &Store, folder: &Path, command: &str) -> Result<Summary, LabError> {
    let (json, parquet) = (folder.join("sweep.json"), folder.join("sweep.parquet"));
    let unwritable =
        |file: &Path, e: std::io::Error| LabError::at(file, FileProblem::Unwritable(e));
    let (pending_json, file) = PendingFile::beside(&json)?;
    let mut text = BufWriter::new(file);
    let (pending_parquet, file) = PendingFile::beside(&parquet)?;
    let mut rows = Rows::new(sweep.keys());
    let encode = |e| LabError::at(&parquet, FileProblem::Encode(BoxedError::from(e)));
    let table = parquet::Writer::new(BufWriter::new(file), &rows.take()).map_err(encode)?;
    let drawing = Drawing::of(sweep);
    let out = Out { rows, table, first: Vec::new(), count: 0, drawing, failed: None };
    let whole = SummaryWriter { sweep, store, command, out: out.into() };
    let written = serde_json::to_writer_pretty(&mut text, &whole);
    let mut out = whole.out.into_inner();
    if let Some(e) = out.failed {
        return Err(e);
    }
    written.map_err(|e| unwritable(&json, e.into()))?;
    out.table.write(&out.rows.take()).map_err(encode)?;
    let mut bytes = out.table.finish().map_err(encode)?;
    text.flush().map_err(|e| unwritable(&json, e))?;
    bytes.flush().map_err(|e| unwritable(&parquet, e))?;
    drop((text, bytes));
    pending_json.finish()?;
    pending_parquet.finish()?;
    Ok(Summary {
        scenario: sweep.title(),
        seeds: sweep.seeds(),
        adaptive: sweep.until().is_some(),
        keys: sweep.keys(),
        results: out.first,
        rows: out.count,
        figure: out.drawing.and_then(Drawing::figure),
    })
}

/// Sum and number of means, and the last estimate.
type Sum = (f64, usize, Option<Estimate>);

/// The first figure, drawn while the rows pass.
struct Drawing {
    wanted: Option<String>,
    axis: Option<Axis>,
    several: bool,
    /// Lines by name, each with a sum by value of the key, or with all values.
    lines: Vec<(String, Vec<Sum>)>,
    measure: Option<&'static str>,
}

impl Drawing {
    fn of(sweep: &Sweep) -> Option<Self> {
        let several = sweep.axes().first().is_some_and(|a| a.keys == [SCENARIO_COLUMN]);
        let varied =
            || sweep.axes().iter().filter(|a| a.rows.len() > 1 && a.keys != [SCENARIO_COLUMN]);
        varied().next()?;
        let shown = varied().filter(|a| a.rows.len() <= MOST_VALUES);
        // Of axes with equally many values the first.
        let axis = shown.rev().max_by_key(|a| a.rows.len()).cloned();
        let wanted = sweep.until().map(str::to_owned);
        Some(Drawing { wanted, axis, several, lines: Vec::new(), measure: None })
    }

    fn add(&mut self, row: &Row) {
        let measure = *self.measure.get_or_insert_with(|| {
            let usual =
                if row.min_over_fair.is_some() { "min_over_fair" } else { "sum_goodput_bps" };
            let wanted = ROW_MEASURES.iter().find(|m| Some(**m) == self.wanted.as_deref());
            wanted.copied().unwrap_or(usual)
        });
        let Some(value) = row.measure(measure) else { return };
        let name = match row.point.get(SCENARIO_COLUMN).and_then(Value::as_str) {
            Some(scenario) if self.several => format!("{}, {scenario}", row.control),
            _ => row.control.clone(),
        };
        let line = match self.lines.iter().position(|l| l.0 == name) {
            Some(line) => line,
            None if self.lines.len() == MOST_LINES => return,
            None => {
                let values = self.axis.as_ref().map_or(0, |a| a.rows.len());
                self.lines.push((name, vec![(0.0, 0, None); values]));
                self.lines.len() - 1
            }
        };
        let values = &mut self.lines[line].1;
        match &self.axis {
            None => values.push((value.mean, 1, None)),
            Some(axis) => {
                let found = row.point.get(&axis.keys[0]).and_then(Value::as_str);
                let at = axis.rows.iter().position(|r| Some(r[0].as_str()) == found);
                if let Some((sum, count, last)) = at.map(|at| &mut values[at]) {
                    (*sum, *count, *last) = (*sum + value.mean, *count + 1, Some(value));
                }
            }
        }
    }

    fn figure(self) -> Option<Figure> {
        let one = |&(sum, count, last): &Sum| match count {
            0 => None,
            1 => last.or(Some(Estimate::exact(sum))),
            n => Some(Estimate::exact(sum / n as f64)),
        };
        let mut lines: Vec<Line> = self
            .lines
            .iter()
            .map(|(name, values)| Line {
                name: name.clone(),
                values: values.iter().map(one).collect(),
            })
            .collect();
        if self.axis.is_none() {
            let mean = |e: &Option<Estimate>| e.map_or(f64::NAN, |e| e.mean);
            for line in &mut lines {
                line.values.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
            }
        }
        let key = self.axis.as_ref().map(|a| a.keys.join(", "));
        let labels = self.axis.iter().flat_map(|a| &a.rows).map(|r| r.join(", ")).collect();
        Some(Figure { measure: self.measure?, key, labels, lines })
    }
}

/// Measures of a row.
const ROW_MEASURES: [&str; 6] = [
    "jain",
    "jain_normalized",
    "min_over_fair",
    "max_over_fair",
    "utilization_ratio",
    "sum_goodput_bps",
];

impl Row {
    /// Returns a measure by its name.
    pub fn measure(&self, name: &str) -> Option<Estimate> {
        match name {
            "jain" => Some(self.jain),
            "jain_normalized" => self.jain_normalized,
            "min_over_fair" => self.min_over_fair,
            "max_over_fair" => self.max_over_fair,
            "utilization_ratio" => self.utilization_ratio,
            "sum_goodput_bps" => Some(self.sum_goodput_bps),
            _ => None,
        }
    }

    fn of(keys: &[String], cells: &[Cell]) -> Self {
        let first = &cells[0];
        let over = |measure: &dyn Fn(&Cell) -> f64| {
            Estimate::of(&cells.iter().map(measure).collect::<Vec<_>>())
        };
        let of_fair = |measure: &dyn Fn(&Cell, &[f64]) -> f64| {
            let value = |c: &Cell| c.fair_bps.as_deref().map(|fair| measure(c, fair));
            let values: Option<Vec<f64>> = cells.iter().map(value).collect();
            values.map(|values| Estimate::of(&values))
        };
        let shared = |measure: &dyn Fn(&[f64], &[f64]) -> f64| {
            of_fair(&|c, fair| measure(&c.shared(&c.goodput_bps), &c.shared(fair)))
        };
        let utilization = |c: &Cell, fair: &[f64]| {
            let optimum = measures::utilization(fair, &c.hops);
            if optimum > 0.0 {
                measures::utilization(&c.goodput_bps, &c.hops) / optimum
            } else {
                0.0
            }
        };
        let flow = |(i, name): (usize, &String)| FlowRow {
            name: name.clone(),
            goodput_bps: over(&|c| c.goodput_bps[i]),
            fair_bps: first.fair_bps.as_ref().map(|fair| fair[i]),
        };
        let point = keys.iter().zip(&first.point);
        Row {
            point: point.map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect(),
            control: first.control.clone(),
            seeds: cells.len(),
            ours: first.ours,
            jain: over(&|c| measures::jain(&c.shared(&c.goodput_bps))),
            jain_normalized: shared(&measures::jain_normalized),
            min_over_fair: shared(&measures::min_over_fair),
            max_over_fair: shared(&measures::max_over_fair),
            utilization_ratio: of_fair(&utilization),
            sum_goodput_bps: over(&|c| c.goodput_bps.iter().sum()),
            flows: first.flows.iter().enumerate().map(flow).collect(),
        }
    }
}

/// Rows of the table of a sweep: one per run and flow, with one text column per varied key.
#[derive(Debug)]
pub struct Rows {
    keys: Vec<(String, Vec<String>)>,
    control: Vec<String>,
    seed: Vec<i64>,
    flow: Vec<String>,
    hops: Vec<i64>,
    goodput: Vec<f64>,
    fair: Vec<Option<f64>>,
    delay: Vec<Option<f64>>,
}

impl Rows {
    /// Builds a table without rows.
    pub fn new(keys: Vec<String>) -> Self {
        Rows {
            keys: keys.into_iter().map(|k| (k, Vec::new())).collect(),
            control: Vec::new(),
            seed: Vec::new(),
            flow: Vec::new(),
            hops: Vec::new(),
            goodput: Vec::new(),
            fair: Vec::new(),
            delay: Vec::new(),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.seed.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.seed.is_empty()
    }

    /// Adds the rows of a run.
    pub fn push(&mut self, cell: &Cell) {
        for (i, flow) in cell.flows.iter().enumerate() {
            for ((_, values), value) in self.keys.iter_mut().zip(&cell.point) {
                values.push(value.clone());
            }
            self.control.push(cell.control.clone());
            self.seed.push(cell.seed as i64);
            self.flow.push(flow.clone());
            self.hops.push(cell.hops[i].into());
            self.goodput.push(cell.goodput_bps[i]);
            self.fair.push(cell.fair_bps.as_ref().map(|fair| fair[i]));
            self.delay.push(cell.delay_s[i]);
        }
    }

    /// Returns the table of the rows so far, and begins an empty one.
    pub fn take(&mut self) -> Frame {
        use std::mem::take;

        let keys =
            self.keys.iter_mut().map(|(key, values)| (key.clone(), Values::Text(take(values))));
        let mut columns: Vec<(String, Values)> = keys.collect();
        columns.extend(
            [
                ("control", Values::Text(take(&mut self.control))),
                ("seed", Values::Int(take(&mut self.seed))),
                ("flow", Values::Text(take(&mut self.flow))),
                ("hops", Values::Int(take(&mut self.hops))),
                ("goodput_bps", Values::Float(take(&mut self.goodput))),
                ("fair_bps", Values::Maybe(take(&mut self.fair))),
                ("delay_mean_s", Values::Maybe(take(&mut self.delay))),
            ]
            .map(|(name, values)| (name.to_owned(), values)),
        );
        Frame {
            columns: columns.into_iter().map(|(name, values)| Column { name, values }).collect(),
        }
    }
}
