//! Agreement of a measured row with the reference.
//!
//! SPECIFICATION.md has the rules as promises.

use fairmesh_lab::Estimate;
use serde::Serialize;

use super::reference::Row;

/// Agreement that a group of rows must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The sum over flows within this share of the reference.
    Sum(f64),
    /// Each flow within this share, or within the joint 95 % interval.
    Flows(f64),
    /// As `Flows`, and the same flows starve.
    FlowsAndStarved(f64),
}

impl Rule {
    /// Returns the rule of a group of rows, and true if it is a promise.
    ///
    /// Other rows are for information.
    pub fn of(group: &str) -> (Rule, bool) {
        match group {
            "a" => (Rule::Sum(0.01), true),
            "link" => (Rule::Flows(0.03), true),
            "cell" => (Rule::Sum(0.03), true),
            "ns2-udp" | "today-udp" => (Rule::FlowsAndStarved(0.03), true),
            "ns2-tcp" | "today-tcp" => (Rule::FlowsAndStarved(0.1), true),
            "m" | "b" | "bv" | "cj" => (Rule::Flows(0.03), true),
            // Strictly periodic sources lock their phases at a full queue; the outcome depends on
            // the seed in both simulators.
            "cu" => (Rule::Flows(0.03), false),
            "c" | "d" => (Rule::FlowsAndStarved(0.1), true),
            _ => (Rule::FlowsAndStarved(0.1), false),
        }
    }
}

/// Fraction of the row's best flow below which a flow starves.
const STARVATION_FRACTION: f64 = 0.1;

/// One compared number: a flow, or the sum.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Flow as `source→destination`, or `sum`.
    pub what: String,
    /// The reference's mean, in bit/s.
    pub reference_bps: f64,
    /// Half of its 95 % interval.
    pub reference_half_width: f64,
    /// Our mean, in bit/s.
    pub ours_bps: f64,
    /// Half of its 95 % interval.
    pub ours_half_width: f64,
    /// Ours over the reference, less 1; `None` if the reference is 0.
    pub difference: Option<f64>,
    /// True if it is within the rule.
    pub agrees: bool,
}

impl Line {
    fn new(what: String, reference: Estimate, ours: Estimate, tolerance: f64, joint: bool) -> Self {
        let apart = (ours.mean - reference.mean).abs();
        let interval = reference.half_width().hypot(ours.half_width());
        let close = apart <= tolerance * reference.mean;
        Line {
            what,
            reference_bps: reference.mean,
            reference_half_width: reference.half_width(),
            ours_bps: ours.mean,
            ours_half_width: ours.half_width(),
            difference: (reference.mean > 0.0).then(|| ours.mean / reference.mean - 1.0),
            agrees: close || (joint && apart <= interval),
        }
    }
}

/// The comparison of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The row's name.
    pub tag: String,
    /// Group of the row.
    pub group: String,
    /// Simulator that the reference comes from.
    pub simulator: &'static str,
    /// Reason why the reference has no results; then nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// True if agreement is promised.
    pub promised: bool,
    /// The compared numbers.
    pub lines: Vec<Line>,
    /// True if the same flows starve on both sides; `None` if the rule does not require it.
    pub same_starved: Option<bool>,
    /// True if everything agrees.
    pub agrees: bool,
}

/// Compares a row with our goodputs: one per flow, and their sum.
pub fn judge(row: &Row, flows: &[Estimate], sum: Estimate) -> Verdict {
    let (rule, promised) = Rule::of(&row.case.group);
    let per_flow = |tolerance| -> Vec<Line> {
        row.flows
            .iter()
            .zip(flows)
            .map(|(r, ours)| {
                let what = format!("{}→{}", r.source, r.destination);
                Line::new(what, r.goodput, *ours, tolerance, true)
            })
            .collect()
    };
    let (lines, same_starved) = match rule {
        Rule::Sum(t) => (vec![Line::new("sum".into(), row.sum_bps, sum, t, false)], None),
        Rule::Flows(t) => (per_flow(t), None),
        Rule::FlowsAndStarved(t) => {
            let reference: Vec<f64> = row.flows.iter().map(|f| f.goodput.mean).collect();
            let ours: Vec<f64> = flows.iter().map(|f| f.mean).collect();
            (per_flow(t), Some(same_starved(&reference, &ours)))
        }
    };
    let agrees = lines.iter().all(|l| l.agrees) && same_starved != Some(false);
    Verdict {
        tag: row.case.tag.clone(),
        group: row.case.group.clone(),
        simulator: row.case.options.rules.name(),
        not_run: None,
        promised,
        lines,
        same_starved,
        agrees,
    }
}

/// Returns the verdict on a row without results in the reference.
///
/// Nothing is compared or promised.
pub fn not_run(row: &Row, reason: &str) -> Verdict {
    Verdict {
        tag: row.case.tag.clone(),
        group: row.case.group.clone(),
        simulator: row.case.options.rules.name(),
        not_run: Some(reason.to_owned()),
        promised: false,
        lines: vec![],
        same_starved: None,
        agrees: false,
    }
}

fn same_starved(a: &[f64], b: &[f64]) -> bool {
    let shares = |rates: &[f64]| -> Vec<f64> {
        let best = rates.iter().copied().fold(0.0, f64::max);
        rates.iter().map(|r| if best > 0.0 { r / best } else { 1.0 }).collect()
    };
    let both = |(a, b): (f64, f64)| (a < STARVATION_FRACTION) == (b < STARVATION_FRACTION);
    shares(a).into_iter().zip(shares(b)).all(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(mean: f64, half_width: f64) -> Estimate {
        Estimate { mean, ci95: Some(half_width) }
    }

    fn row(group: &str, flows: &[Estimate]) -> Row {
        let flow = |(i, f): (usize, &Estimate)| {
            serde_json::json!({
                "protocol": "tcp", "source": i, "destination": 9,
                "mean": f.mean, "half_width": f.ci95,
            })
        };
        let sum: f64 = flows.iter().map(|f| f.mean).sum();
        serde_json::from_value(serde_json::json!({
            "tag": "t", "group": group, "scenario": "s", "duration_s": 1.0, "warm_up_s": 0.0,
            "options": {
                "reception": "ns2", "data_mbps": 1, "rts": false, "queue_packets": 50,
                "decode_range_m": 250.0, "sense_range_m": 550.0, "capture_db": 10.0,
                "udp_payload_bytes": 1500, "udp_gap_spread": 0.0, "tcp_mss_bytes": 1460,
                "tcp_sack": false, "tcp_segments_per_ack": 1, "tcp_initial_window": 2,
                "tcp_window_limit": 0, "tcp_min_rto_s": 0.2, "tcp_repaired": true,
            },
            "harness_arguments": [], "seeds": [1],
            "flows": flows.iter().enumerate().map(flow).collect::<Vec<_>>(),
            "sum_bps": { "mean": sum, "half_width": 5.0 },
        }))
        .unwrap()
    }

    #[test]
    fn three_percent_or_the_joint_interval() {
        let agrees = |reference, ours| judge(&row("b", &[reference]), &[ours], ours).agrees;
        assert!(agrees(m(100.0, 0.1), m(103.0, 0.1)));
        assert!(!agrees(m(100.0, 0.1), m(103.1, 0.1)));
        assert!(agrees(m(100.0, 6.0), m(109.9, 8.0)), "√(36 + 64) = 10");
        assert!(!agrees(m(100.0, 6.0), m(110.1, 8.0)));
    }

    #[test]
    fn saturation_counts_the_sum_and_no_interval() {
        let v = judge(&row("a", &[m(50.0, 9.0), m(50.0, 9.0)]), &[], m(101.1, 9.0));
        assert!(!v.agrees && v.lines.len() == 1);
        assert!(judge(&row("a", &[m(100.0, 0.0)]), &[], m(100.9, 0.0)).agrees);
    }

    #[test]
    fn the_same_flow_must_starve() {
        let reference = row("d", &[m(600.0, 1.0), m(0.1, 0.1)]);
        let judge = |a: Estimate, b: Estimate| judge(&reference, &[a, b], m(a.mean + b.mean, 1.0));
        assert!(judge(m(610.0, 1.0), m(0.2, 0.1)).agrees);
        let wide = judge(m(610.0, 1.0), m(150.0, 200.0));
        assert!(wide.lines.iter().all(|l| l.agrees) && !wide.agrees);
        assert_eq!(wide.same_starved, Some(false));
        assert!(!same_starved(&[100.0, 9.0], &[100.0, 11.0]), "no margin");
    }
}
