//! Goodput bars, and the curves that the page draws over time.

use std::fmt::Write as _;

use fairmesh_lab::record::RunRecord;
use fairmesh_lab::summary::flow_label;
use fairmesh_lab::summary::{ControlSummary, FlowSummary};
use serde_json::{Value, json};

use super::html::escape;
use super::table::share;

/// Flows in the bar chart; the rest is in the tables.
const MOST_BARS: usize = 60;
/// Curves per chart.
const MOST_CURVES: usize = 8;

/// Goodput per flow, one bar per control, with the interval and the fair rate.
pub fn bars(results: &[ControlSummary]) -> String {
    let shown = pick(&results[0].flows, MOST_BARS);
    let top = results
        .iter()
        .flat_map(|r| shown.iter().map(|&i| &r.flows[i]))
        // A wide interval (two seeds) must not squeeze the bars; its whisker is cut instead.
        .map(|f| {
            let to = f.goodput_bps.mean + f.goodput_bps.ci95.unwrap_or(0.0);
            f.fair_bps.unwrap_or(0.0).max(to.min(1.5 * f.goodput_bps.mean))
        })
        .fold(1.0, f64::max);
    let (step, end) = scale(top);
    let mut out =
        String::from("<div class=\"bars\"><div class=\"bar-row axis\"><span></span><div>");
    let mut tick = 0.0;
    while tick <= end * 1.0001 {
        let _ = write!(
            out,
            "<i style=\"left:{:.2}%\">{}</i>",
            100.0 * tick / end,
            (tick / 1e3 * 100.0).round() / 100.0
        );
        tick += step;
    }
    out.push_str("</div></div>");
    for &i in &shown {
        let f = &results[0].flows[i];
        let _ = write!(
            out,
            "<div class=\"bar-row\"><span>{}<small>{} hop{}</small></span>\
             <div class=\"track\" style=\"--step:{:.3}%\">",
            escape(&flow_label(&f.name, &f.from, &f.to)),
            f.hops,
            if f.hops == 1 { "" } else { "s" },
            100.0 * step / end
        );
        for (c, r) in results.iter().enumerate() {
            out += &bar(&r.flows[i], &r.control, c, end);
        }
        if let Some(fair) = f.fair_bps {
            let _ = write!(
                out,
                "<b class=\"fair\" style=\"left:{:.2}%\" title=\"fair rate: {:.1} kbit/s\"></b>",
                100.0 * fair / end,
                fair / 1e3
            );
        }
        out.push_str("</div></div>");
    }
    out.push_str("</div>");
    if shown.len() < results[0].flows.len() {
        let _ = write!(
            out,
            "<p class=\"note\">{} of {} flows: those with the least and the most of their fair rate \
             under {}. The tables below have all.</p>",
            shown.len(),
            results[0].flows.len(),
            escape(&results[0].control)
        );
    }
    out
}

fn bar(f: &FlowSummary, control: &str, c: usize, end: f64) -> String {
    let percent = |v: f64| (100.0 * v / end).clamp(0.0, 100.0);
    let mean = f.goodput_bps.mean;
    let whisker = f.goodput_bps.ci95.filter(|ci| *ci > 0.0).map_or(String::new(), |ci| {
        let (from, to) = (percent(mean - ci), percent(mean + ci));
        format!("<u style=\"left:{from:.2}%;width:{:.2}%\"></u>", to - from)
    });
    format!(
        "<div class=\"bar\" title=\"{}: {} kbit/s, {} of the fair rate\">\
         <s class=\"c{}\" style=\"width:{:.2}%\"></s>{whisker}</div>",
        escape(control),
        f.goodput_bps.show(1e-3, 1),
        share(f.over_fair),
        c % 6,
        percent(mean)
    )
}

/// A round step for four to eight ticks, and the end of the axis.
fn scale(top: f64) -> (f64, f64) {
    let magnitude = 10f64.powf((top / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * magnitude)
        .into_iter()
        .find(|s| top / s <= 5.0)
        .unwrap_or(magnitude * 10.0);
    (step, step * (top / step).ceil())
}

/// All flows when at most `most`; otherwise those with the smallest and largest shares, in order.
fn pick(flows: &[FlowSummary], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    let over = |f: &FlowSummary| f.over_fair.unwrap_or(f64::INFINITY);
    if flows.len() > most {
        order.sort_by(|&a, &b| over(&flows[a]).total_cmp(&over(&flows[b])));
        let tail = order.split_off(most.div_ceil(2));
        order.extend(tail.iter().rev().take(most / 2));
        order.sort_unstable();
    }
    order
}

/// The curves of the first seed of every control, for the page's script.
pub fn curves(results: &[ControlSummary], records: &[Vec<RunRecord>]) -> Value {
    let flows = pick(&results[0].flows, MOST_CURVES);
    let nodes = busiest_nodes(records);
    let first = &records[0][0];
    let label = |i: &usize| {
        let f = &first.flows[*i];
        flow_label(&f.name, &f.from, &f.to)
    };
    let take = |curves: &[Vec<f64>], which: &[usize], scale: f64| -> Vec<Vec<f64>> {
        let rounded = |v: &f64| (v * scale * 100.0).round() / 100.0;
        which
            .iter()
            .map(|&i| curves.get(i).map_or(vec![], |c| c.iter().map(rounded).collect()))
            .collect()
    };
    let charts: Vec<Value> = records
        .iter()
        .map(|r| {
            let s = &r[0].series;
            json!({
                "control": r[0].control,
                "time": s.time_s,
                "goodput": take(&s.goodput_bps, &flows, 1e-3),
                "window": take(&s.cwnd_bytes, &flows, 1e-3),
                "queue": take(&s.queue_packets, &nodes, 1.0),
            })
        })
        .collect();
    json!({
        "seed": first.seed,
        "flows": flows.iter().map(label).collect::<Vec<_>>(),
        "flows_of": first.flows.len(),
        "nodes": nodes.iter().map(|&i| first.nodes[i].name.clone()).collect::<Vec<_>>(),
        "nodes_of": first.nodes.len(),
        "charts": charts,
    })
}

/// The nodes with the longest queues under any control, in scenario order.
fn busiest_nodes(records: &[Vec<RunRecord>]) -> Vec<usize> {
    let queue = |i: usize| {
        let of = |r: &Vec<RunRecord>| r[0].nodes.get(i).map_or(0.0, |n| n.mean_queue);
        records.iter().map(of).fold(0.0, f64::max)
    };
    let mut order: Vec<usize> = (0..records[0][0].nodes.len()).collect();
    order.sort_by(|&a, &b| queue(b).total_cmp(&queue(a)).then(a.cmp(&b)));
    order.truncate(MOST_CURVES);
    order.sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::testing::record;

    #[test]
    fn bars_mark_the_fair_rate_and_the_interval() {
        let of = |c: &str| {
            ControlSummary::of(&[record(c, 1, &[(1e5, 2e5, 1)]), record(c, 2, &[(1.2e5, 2e5, 1)])])
        };
        let html = bars(&[of("fifo"), of("source")]);
        assert_eq!(html.matches("class=\"bar\"").count(), 2);
        assert_eq!(html.matches("class=\"fair\"").count(), 1);
        assert!(html.contains("c0") && html.contains("c1"));
    }

    #[test]
    fn axes_are_round_and_long_enough() {
        for top in [1.0, 9.0, 614.3e3, 1e6, 12_345_678.0] {
            let (step, end) = scale(top);
            assert!(end >= top && end / step <= 8.0, "{top}: {step} {end}");
        }
    }

    #[test]
    fn of_many_flows_the_extremes_are_shown() {
        let flows: Vec<_> = (0..100).map(|i| (f64::from(i) * 1e3, 5e4, 1)).collect();
        let s = ControlSummary::of(&[record("fifo", 1, &flows)]);
        assert_eq!(pick(&s.flows, 4), [0, 1, 98, 99]);
        assert_eq!(pick(&s.flows, 5), [0, 1, 2, 98, 99]);
        assert!(bars(&[s]).contains("60 of 100 flows"));
    }

    #[test]
    fn curves_name_what_they_show() {
        let records = [vec![record("fifo", 1, &[(1e5, 2e5, 1); 20])]];
        let v = curves(&[ControlSummary::of(&records[0])], &records);
        assert_eq!(v["flows"].as_array().unwrap().len(), MOST_CURVES);
        assert_eq!(v["flows_of"], 20);
        assert_eq!(v["charts"][0]["goodput"][0][0], 100.0);
        assert_eq!(v["charts"][0]["time"].as_array().unwrap().len(), 4);
    }
}
