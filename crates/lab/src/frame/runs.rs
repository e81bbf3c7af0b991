//! Tables of runs: one row per flow, run, node, sample or decision.

use fairmesh_engine::record::{FlowRecord, NodeRecord, RunRecord};

use super::{Frame, Values};
use crate::estimate::Estimate;
use crate::summary::ControlSummary;

/// Returns the table of flows: one row per control, seed and flow.
pub fn flows(records: &[Vec<RunRecord>]) -> Frame {
    type Row<'a> = (&'a RunRecord, &'a FlowRecord, Option<f64>);
    let of_run = |r: &'_ RunRecord| r.dues();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for r in records.iter().flatten() {
        let dues = of_run(r);
        let due = |i: usize| dues.as_ref().map(|d| d[i]);
        rows.extend(r.flows.iter().enumerate().map(|(i, f)| (r, f, due(i))));
    }
    let mut frame = Frame::default();
    let delivered = |f: &FlowRecord| f.packets_delivered > 0;
    macro_rules! columns {
        ($($kind:ident $name:literal: |$r:pat_param, $f:ident, $due:pat_param| $value:expr;)+) => {
            $( frame.$kind($name, rows.iter().map(|&($r, $f, $due)| $value)); )+
        };
    }
    columns! {
        text "control": |r, _f, _| r.control.as_str();
        int "seed": |r, _f, _| r.seed;
        text "flow": |_, f, _| f.name.as_str();
        text "from": |_, f, _| f.from.as_str();
        text "to": |_, f, _| f.to.as_str();
        int "hops": |_, f, _| f.hops.into();
        float "weight": |_, f, _| f.weight;
        float "goodput_bps": |_, f, _| f.goodput_bps;
        maybe "fair_bps": |_, f, _| f.fair_bps;
        maybe "over_fair": |_, f, due| due.filter(|d| *d > 0.0).map(|d| f.goodput_bps / d);
        maybe "delay_mean_s": |_, f, _| delivered(f).then_some(f.delay_s.mean);
        maybe "delay_std_s": |_, f, _| delivered(f).then_some(f.delay_s.std);
        maybe "delay_p50_s": |_, f, _| delivered(f).then_some(f.delay_s.p50);
        maybe "delay_p95_s": |_, f, _| delivered(f).then_some(f.delay_s.p95);
        maybe "delay_p99_s": |_, f, _| delivered(f).then_some(f.delay_s.p99);
        int "packets_sent": |_, f, _| f.packets_sent;
        int "packets_delivered": |_, f, _| f.packets_delivered;
        int "drops_queue": |_, f, _| f.drops.queue;
        int "drops_wire": |_, f, _| f.drops.wire;
        int "drops_retry_limit": |_, f, _| f.drops.retry_limit;
        int "drops_limiter": |_, f, _| f.drops.limiter;
        maybe "tcp_segments": |_, f, _| f.tcp.map(|t| t.segments as f64);
        maybe "tcp_retransmits": |_, f, _| f.tcp.map(|t| t.retransmits as f64);
        maybe "tcp_timeouts": |_, f, _| f.tcp.map(|t| t.timeouts as f64);
        maybe "tcp_mean_cwnd_bytes": |_, f, _| f.tcp.map(|t| t.mean_cwnd_bytes);
        maybe "quic_packets": |_, f, _| f.quic.map(|q| q.packets as f64);
        maybe "quic_retransmits": |_, f, _| f.quic.map(|q| q.retransmits as f64);
        maybe "quic_lost": |_, f, _| f.quic.map(|q| q.lost as f64);
        maybe "quic_probe_timeouts": |_, f, _| f.quic.map(|q| q.probe_timeouts as f64);
        maybe "quic_congestion_events": |_, f, _| f.quic.map(|q| q.congestion_events as f64);
        maybe "quic_marks": |_, f, _| f.quic.map(|q| q.marks as f64);
        maybe "quic_mean_cwnd_bytes": |_, f, _| f.quic.map(|q| q.mean_cwnd_bytes);
        maybe "transfers": |_, f, _| f.transfers.map(|t| t.completed as f64);
        maybe "transfer_mean_s": |_, f, _| f.transfers.map(|t| t.mean_s);
        maybe "transfer_p95_s": |_, f, _| f.transfers.map(|t| t.p95_s);
    }
    frame
}

/// Returns the table of runs: one row per control and seed, with the measures over its flows.
pub fn runs(records: &[Vec<RunRecord>]) -> Frame {
    let one = |r| (r, ControlSummary::of(std::slice::from_ref(r)));
    let rows: Vec<(&RunRecord, ControlSummary)> = records.iter().flatten().map(one).collect();
    let mut frame = Frame::default();
    let mean = |e: Option<Estimate>| e.map(|e| e.mean);
    macro_rules! columns {
        ($($kind:ident $name:literal: |$r:ident, $s:ident| $value:expr;)+) => {
            $( frame.$kind($name, rows.iter().map(|($r, $s)| $value)); )+
        };
    }
    columns! {
        text "control": |r, _s| r.control.as_str();
        int "seed": |r, _s| r.seed;
        float "jain": |_r, s| s.jain.mean;
        maybe "jain_normalized": |_r, s| mean(s.jain_normalized);
        maybe "min_over_fair": |_r, s| mean(s.min_over_fair);
        maybe "max_over_fair": |_r, s| mean(s.max_over_fair);
        maybe "utilization_ratio": |_r, s| mean(s.utilization_ratio);
        float "sum_goodput_bps": |_r, s| s.sum_goodput_bps.mean;
        int "starving": |_r, s| s.starving.len() as u64;
        float "signalling_bytes_per_s": |_r, s| s.signalling_bytes_per_s.mean;
        float "signalling_airtime": |_r, s| s.signalling_airtime.mean;
        int "drops_queue": |r, _s| r.totals.drops.queue;
        int "drops_wire": |r, _s| r.totals.drops.wire;
        int "drops_retry_limit": |r, _s| r.totals.drops.retry_limit;
        int "drops_limiter": |r, _s| r.totals.drops.limiter;
        int "transmissions": |r, _s| r.totals.transmissions;
        int "events": |r, _s| r.totals.events;
        text "fingerprint": |r, _s| r.fingerprint.as_str();
    }
    frame
}

/// Returns the table of nodes: one row per control, seed and node.
pub fn nodes(records: &[Vec<RunRecord>]) -> Frame {
    let of = |r: &'_ RunRecord| r.nodes.len();
    let mut rows: Vec<(&RunRecord, &NodeRecord)> =
        Vec::with_capacity(records.iter().flatten().map(of).sum());
    for r in records.iter().flatten() {
        rows.extend(r.nodes.iter().map(|n| (r, n)));
    }
    let mut frame = Frame::default();
    macro_rules! columns {
        ($($kind:ident $name:literal: |$r:ident, $n:ident| $value:expr;)+) => {
            $( frame.$kind($name, rows.iter().map(|&($r, $n)| $value)); )+
        };
    }
    columns! {
        text "control": |r, _n| r.control.as_str();
        int "seed": |r, _n| r.seed;
        text "node": |_r, n| n.name.as_str();
        maybe "x_m": |_r, n| n.position.map(|p| p.0);
        maybe "y_m": |_r, n| n.position.map(|p| p.1);
        float "airtime_tx": |_r, n| n.airtime_tx;
        float "airtime_busy": |_r, n| n.airtime_busy;
        float "airtime_idle": |_r, n| n.airtime_idle;
        float "mean_queue": |_r, n| n.mean_queue;
        int "frames_sent": |_r, n| n.mac.data;
        int "frames_unanswered": |_r, n| n.mac.timeouts;
    }
    frame
}

/// Returns the table of curves: one row per control, seed, quantity, subject and instant.
///
/// `quantity` is `goodput_bps`, `cwnd_bytes` or `limit_bps` (subject: a flow) or `queue_packets`
/// (subject: a node).
pub fn series(records: &[Vec<RunRecord>]) -> Frame {
    let (mut control, mut seed) = (Vec::new(), Vec::new());
    let (mut quantities, mut subject) = (Vec::new(), Vec::new());
    let (mut time, mut value) = (Vec::new(), Vec::new());
    for r in records.iter().flatten() {
        let s = &r.series;
        let mut add = |quantity: &str, name: &str, values: &[f64]| {
            for (t, v) in s.time_s.iter().zip(values) {
                control.push(r.control.clone());
                seed.push(r.seed as i64);
                quantities.push(quantity.to_owned());
                subject.push(name.to_owned());
                time.push(*t);
                value.push(*v);
            }
        };
        for (quantity, curves) in [
            ("goodput_bps", &s.goodput_bps),
            ("cwnd_bytes", &s.cwnd_bytes),
            ("limit_bps", &s.limit_bps),
        ] {
            curves.iter().zip(&r.flows).for_each(|(v, f)| add(quantity, &f.name, v));
        }
        s.queue_packets.iter().zip(&r.nodes).for_each(|(v, n)| add("queue_packets", &n.name, v));
    }
    let mut frame = Frame::default();
    frame
        .push("control", Values::Text(control))
        .push("seed", Values::Int(seed))
        .push("quantity", Values::Text(quantities))
        .push("subject", Values::Text(subject))
        .push("time_s", Values::Float(time))
        .push("value", Values::Float(value));
    frame
}

/// Returns the table of decisions: one row per control, seed and decision, oldest first.
pub fn decisions(records: &[Vec<RunRecord>]) -> Frame {
    let mut rows = Vec::new();
    for r in records.iter().flatten() {
        rows.extend(r.decisions.iter().map(|d| (r, d)));
    }
    let mut frame = Frame::default();
    frame
        .text("control", rows.iter().map(|(r, _)| r.control.as_str()))
        .int("seed", rows.iter().map(|(r, _)| r.seed))
        .float("time_s", rows.iter().map(|(_, d)| d.time_s))
        .text("node", rows.iter().map(|(_, d)| d.node.as_str()))
        .text("code", rows.iter().map(|(_, d)| &*d.code))
        .text("reason", rows.iter().map(|(_, d)| d.reason.as_str()));
    frame
}
