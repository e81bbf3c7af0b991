//! A finished sweep: one row per point and control.

use fairmesh_engine::measures;
use serde::Serialize;
use serde_json::{Map, Value};

use super::cell::Cell;
use super::vary::Axis;
use crate::Estimate;
use crate::frame::Frame;
use crate::layout::{GENERATOR, SCHEMA};

/// Results of a sweep. Rates in bit/s.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Version of the layout.
    pub schema: u32,
    /// Program that wrote it.
    pub generator: &'static str,
    /// Command line that produced it.
    pub command: String,
    /// Scenario name.
    pub scenario: String,
    /// Number of seeds.
    pub seeds: usize,
    /// The varied keys.
    pub keys: Vec<String>,
    /// One entry per point and control.
    pub results: Vec<Row>,
}

/// One point under one control, over its seeds.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Value of every key, as written.
    pub point: Map<String, Value>,
    /// Control.
    pub control: String,
    /// True if a part of it is unpublished.
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

impl Summary {
    /// Builds the summary of finished runs, sorted by point, control and seed.
    pub fn of(command: &str, scenario: &str, seeds: usize, axes: &[Axis], cells: &[Cell]) -> Self {
        let groups = cells.chunk_by(|a, b| a.point == b.point && a.control == b.control);
        Summary {
            schema: SCHEMA,
            generator: GENERATOR,
            command: command.to_owned(),
            scenario: scenario.to_owned(),
            seeds,
            keys: axes.iter().map(|a| a.key.clone()).collect(),
            results: groups.map(|g| Row::of(axes, g)).collect(),
        }
    }
}

impl Row {
    fn of(axes: &[Axis], cells: &[Cell]) -> Self {
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
        let point = axes.iter().zip(&first.point);
        Row {
            point: point.map(|(a, v)| (a.key.clone(), Value::from(v.as_str()))).collect(),
            control: first.control.clone(),
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

/// Returns the table of a sweep: one row per run and flow, with one text column per varied key.
pub fn table(axes: &[Axis], cells: &[Cell]) -> Frame {
    let rows: Vec<(&Cell, usize)> =
        cells.iter().flat_map(|c| (0..c.flows.len()).map(move |i| (c, i))).collect();
    let mut frame = Frame::default();
    for (k, axis) in axes.iter().enumerate() {
        frame.text(&axis.key, rows.iter().map(|(c, _)| c.point[k].as_str()));
    }
    frame
        .text("control", rows.iter().map(|(c, _)| c.control.as_str()))
        .int("seed", rows.iter().map(|(c, _)| c.seed))
        .text("flow", rows.iter().map(|(c, i)| c.flows[*i].as_str()))
        .int("hops", rows.iter().map(|(c, i)| c.hops[*i].into()))
        .float("goodput_bps", rows.iter().map(|(c, i)| c.goodput_bps[*i]))
        .maybe("fair_bps", rows.iter().map(|(c, i)| Some(c.fair_bps.as_ref()?[*i])))
        .maybe("delay_mean_s", rows.iter().map(|(c, i)| c.delay_s[*i]));
    frame
}
