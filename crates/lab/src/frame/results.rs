//! Tables of summaries and of analytic results.

use super::{Frame, measures};
use crate::analysis::Capacity;
use crate::analysis::region::RegionReport;
use crate::estimate::Estimate;
use crate::optimum::OptimumReport;
use crate::{Comparison, summary::ControlSummary};

/// Returns the long table of a comparison: one row per control and measure.
///
/// Each row has the confidence interval over the seeds.
pub fn estimates(comparison: &Comparison) -> Frame {
    let mut rows: Vec<(&str, &str, Estimate)> = Vec::new();
    for s in &comparison.results {
        rows.extend(
            of_control(s).into_iter().filter_map(|(name, e)| Some((&*s.control, name, e?))),
        );
    }
    let mut frame = Frame::default();
    frame
        .text("control", rows.iter().map(|r| r.0))
        .text("measure", rows.iter().map(|r| r.1))
        .float("mean", rows.iter().map(|r| r.2.mean))
        .maybe("ci95", rows.iter().map(|r| r.2.ci95))
        .text("unit", rows.iter().map(|r| measures::find(r.1).map_or("", |m| m.unit)));
    frame
}

fn of_control(s: &ControlSummary) -> [(&'static str, Option<Estimate>); 11] {
    [
        ("jain", Some(s.jain)),
        ("jain_normalized", s.jain_normalized),
        ("min_over_fair", s.min_over_fair),
        ("max_over_fair", s.max_over_fair),
        ("utilization_ratio", s.utilization_ratio),
        ("min_over_optimum", s.min_over_optimum),
        ("sum_over_optimum", s.sum_over_optimum),
        ("jain_optimum", s.jain_optimum),
        ("sum_goodput_bps", Some(s.sum_goodput_bps)),
        ("signalling_bytes_per_s", Some(s.signalling_bytes_per_s)),
        ("signalling_airtime", Some(s.signalling_airtime)),
    ]
}

/// Returns the table of an optimum: one row per flow.
pub fn optimum(report: &OptimumReport) -> Frame {
    let flows = || report.flows.iter();
    let mut frame = Frame::default();
    frame
        .text("flow", flows().map(|f| f.name.as_str()))
        .text("from", flows().map(|f| f.from.as_str()))
        .text("to", flows().map(|f| f.to.as_str()))
        .int("hops", flows().map(|f| f.hops.into()))
        .float("weight", flows().map(|f| f.weight))
        .float("optimum_bps", flows().map(|f| f.optimum_bps))
        .maybe("limit_bps", flows().map(|f| f.limit_bps))
        .maybe("domains_bps", flows().map(|f| f.models_bps.domains))
        .maybe("cliques_bps", flows().map(|f| f.models_bps.cliques));
    frame
}

/// Returns the table of an achievable region: one row per criterion and flow.
pub fn region(report: &RegionReport) -> Frame {
    let fair = [("max-min", &report.max_min_bps), ("proportional", &report.proportional_bps)];
    let mut rows = Vec::new();
    for (criterion, rates) in fair {
        rows.extend(report.names.iter().zip(rates).map(|(f, r)| (criterion, f.as_str(), *r)));
    }
    let mut frame = Frame::default();
    frame
        .text("criterion", rows.iter().map(|r| r.0))
        .text("flow", rows.iter().map(|r| r.1))
        .float("rate_bps", rows.iter().map(|r| r.2));
    frame
}

/// Returns the table of the analytic models: one row per model, RTS/CTS, criterion and flow.
pub fn bounds(capacity: &Capacity) -> Frame {
    let mut rows = Vec::new();
    for model in &capacity.models {
        for criterion in &model.criteria {
            let flows = capacity.flows.iter().zip(&criterion.rates_bps);
            rows.extend(flows.map(|(f, rate)| (model, criterion.criterion, f, *rate)));
        }
    }
    let mut frame = Frame::default();
    frame
        .text("model", rows.iter().map(|r| r.0.model))
        .int("rts", rows.iter().map(|r| r.0.rts.into()))
        .text("criterion", rows.iter().map(|r| r.1))
        .text("flow", rows.iter().map(|r| r.2.name.as_str()))
        .int("hops", rows.iter().map(|r| r.2.hops.into()))
        .float("rate_bps", rows.iter().map(|r| r.3));
    frame
}
