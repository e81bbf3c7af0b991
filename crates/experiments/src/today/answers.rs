//! The answer in sentences, from the record.

use std::fmt::Write as _;

use super::means::Means;
use super::record::{CaseInfo, Record};
use crate::side_by_side::arms::Deployment;

/// The section of the page.
pub(super) fn answers(r: &Record) -> String {
    let mut out = String::from("## In short\n\n");
    let none = |c: &CaseInfo| c.control.name == "fifo";
    let plain = |c: &CaseInfo| none(c) && c.queue == "FIFO" && c.tcp == "CUBIC";
    out += "**Who starves.** ";
    for radio in radios(r) {
        let of = |aggregated: bool| {
            find(r, |c| plain(c) && c.radio == radio && c.aggregated == aggregated)
        };
        match (of(false), of(true)) {
            (Some(lone), Some(all)) => {
                let (lone, all) = (Means::of(r, lone), Means::of(r, all));
                let _ = write!(
                    out,
                    "{radio}: on {} networks with lone frames, on {} with A-MPDUs, which carry {:.1} times as much. ",
                    lone.on(),
                    all.on(),
                    all.sum_mbit / lone.sum_mbit
                );
            }
            (Some(lone), None) => {
                let _ = write!(out, "{radio}: on {} networks. ", Means::of(r, lone).on());
            }
            _ => {}
        }
    }
    if let Some(far) = farthest(r) {
        out += &far;
    }
    out += "\n\n**Queues.** ";
    let today = |c: &CaseInfo| none(c) && c.radio == "802.11ac" && c.aggregated && c.tcp == "CUBIC";
    let queues = first_of(r, today, |c| c.queue.clone());
    let said: Vec<String> = queues
        .iter()
        .map(|&i| {
            let m = Means::of(r, i);
            let delay = m.delay_ms.map_or(String::new(), |d| format!(", packets take {d:.0} ms"));
            format!("{} on {}{delay}", r.cases[i].queue, m.on())
        })
        .collect();
    let _ = write!(out, "802.11ac with CUBIC starves somebody behind {}.", said.join("; "));
    out += "\n\n**Transports.** ";
    let tcps = |queue: &str| {
        let of =
            |c: &CaseInfo| none(c) && c.radio == "802.11ac" && c.aggregated && c.queue == queue;
        let said: Vec<String> = first_of(r, of, |c| c.tcp.clone())
            .iter()
            .map(|&i| format!("{} on {}", r.cases[i].tcp, Means::of(r, i).on()))
            .collect();
        said.join(", ")
    };
    let _ = write!(
        out,
        "Behind a FIFO: {}. Behind mac80211\'s queues: {}.",
        tcps("FIFO"),
        tcps("mac80211")
    );
    out += "\n\n**Controls**, over mac80211\'s queues; where they must run, and what all homes together still have of what they had without:\n\n";
    for radio in radios(r) {
        out += &controls(r, &radio);
    }
    out += &short_frames(r);
    out
}

/// What limits do to aggregates.
fn short_frames(r: &Record) -> String {
    let Some(base) =
        r.cases.iter().rposition(|c| c.radio == "802.11ac" && c.control.name == "fifo")
    else {
        return String::new();
    };
    let section = r.cases[base].section;
    let of = |c: &CaseInfo| c.radio == "802.11ac" && c.control.name != "fifo";
    let mut said: Vec<(f64, String)> = r
        .of_section(section)
        .filter(|(_, c)| of(c))
        .map(|(i, c)| (Means::of(r, i).per_frame, c.control.name.clone()))
        .collect();
    if said.is_empty() {
        return String::new();
    }
    said.sort_by(|a, b| b.0.total_cmp(&a.0));
    let said: Vec<String> = said.iter().map(|(n, c)| format!("{n:.1} under `{c}`")).collect();
    format!(
        "\n**What controls pay.** A frame is filled from the queue behind it. A control that holds flows to their shares keeps queues short, and with them frames: a frame of 802.11ac has \
         {:.1} packets without control, {}. Air is then spent on preambles, backoffs and answers, as if there were no A-MPDUs, and rates that full frames could carry are no longer carried. None of \
         these controls knows that: `source` is told rates that need full frames, the gateway's controls find out by trying and settle at what short frames carry.\n",
        Means::of(r, base).per_frame,
        said.join(", ")
    )
}

fn find(r: &Record, is: impl Fn(&CaseInfo) -> bool) -> Option<usize> {
    r.cases.iter().position(is)
}

/// The first case of each value among some.
fn first_of(
    r: &Record,
    is: impl Fn(&CaseInfo) -> bool,
    value: impl Fn(&CaseInfo) -> String,
) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut out = Vec::new();
    for (i, c) in r.cases.iter().enumerate().filter(|(_, c)| is(c)) {
        if !seen.contains(&value(c)) {
            seen.push(value(c));
            out.push(i);
        }
    }
    out
}

fn radios(r: &Record) -> Vec<String> {
    let cases = first_of(r, |_| true, |c| c.radio.clone());
    cases.into_iter().map(|i| r.cases[i].radio.clone()).collect()
}

/// Who starves in a line with A-MPDUs.
fn farthest(r: &Record) -> Option<String> {
    let line = r.topologies.iter().find(|t| t.label.starts_with("chain of"))?;
    let case = find(r, |c| {
        c.radio == "802.11ac" && c.aggregated && c.queue == "FIFO" && c.control.name == "fifo"
    })?;
    let cell = r.cells.iter().find(|k| k.case == case && k.topology == line.label)?;
    let starved = &cell.measures.as_ref()?.starved;
    let names: Vec<String> = starved.iter().map(|n| n.replace("->", "→")).collect();
    (!names.is_empty()).then(|| {
        format!(
            "In a line of five (802.11ac, A-MPDUs, FIFO) {} of {} starve: {}.",
            names.len(),
            line.flows.len(),
            names.join(", ")
        )
    })
}

/// The controls of a radio, those under which the fewest starve first.
fn controls(r: &Record, radio: &str) -> String {
    let Some(base) = r.cases.iter().rposition(|c| c.radio == radio && c.control.name == "fifo")
    else {
        return String::new();
    };
    let section = r.cases[base].section;
    let mut rows: Vec<(usize, Means)> = r
        .of_section(section)
        .filter(|(_, c)| c.radio == radio && c.control.name != "fifo")
        .map(|(i, _)| (i, Means::of(r, i)))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by(|a, b| {
        let part = |m: &Means| m.starves as f64 / m.of.max(1) as f64;
        part(&a.1).total_cmp(&part(&b.1)).then(b.1.worst_mbit.total_cmp(&a.1.worst_mbit))
    });
    let without = Means::of(r, base);
    let mut out = format!(
        "- {radio}: somebody starves on {} without; the worst home has {:.1} Mbit/s on average.",
        without.on(),
        without.worst_mbit
    );
    for (i, m) in rows {
        let c = &r.cases[i];
        let told = if c.control.told { ", told the fair rates" } else { "" };
        let _ = write!(
            out,
            " `{}` ({}{told}): {}, worst {:.1} Mbit/s, all {:.0} %.",
            c.control.name,
            place(c.control.deployment),
            m.on(),
            m.worst_mbit,
            100.0 * carried(r, i, base)
        );
    }
    out.push('\n');
    out
}

fn place(d: Deployment) -> &'static str {
    match d {
        Deployment::Nowhere => "nowhere",
        Deployment::Gateway => "gateway",
        Deployment::Neighbours => "gateway and its neighbours",
        Deployment::Sources => "senders",
        Deployment::Everywhere => "every node",
    }
}

/// The mean over networks of what all have, over what they have in another case.
fn carried(r: &Record, case: usize, base: usize) -> f64 {
    let base = r.row(base);
    let parts: Vec<f64> = r
        .row(case)
        .iter()
        .filter_map(|(k, m)| {
            let (_, b) = base.iter().find(|(b, _)| b.topology == k.topology)?;
            Some(m.sum_mbit.mean / b.sum_mbit.mean)
        })
        .collect();
    parts.iter().sum::<f64>() / parts.len().max(1) as f64
}
