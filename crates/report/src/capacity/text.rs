//! The tables of `fairmesh capacity`.

use std::fmt::Write as _;

use fairmesh_lab::analysis::{Allocation, Bottleneck, Capacity, FlowInfo, Model, Unsolved};
use fairmesh_lab::models::analysis::Criterion;
use fairmesh_lab::summary::flow_label;

use crate::table::{row, table};

/// Maximum number of links of a bottleneck that are named individually.
const MOST_LINKS: usize = 12;

/// Returns all tables.
pub fn tables(c: &Capacity) -> String {
    let rts = if c.rts { "with" } else { "without" };
    let mut out = format!(
        "{}: {} nodes, {} flow{}; rates in kbit/s of application data, {rts} RTS/CTS\n",
        c.scenario,
        c.nodes,
        c.flows.len(),
        if c.flows.len() == 1 { "" } else { "s" },
    );
    for m in c.models.iter().filter(|m| m.rts == c.rts) {
        let _ = write!(out, "\n{}\n", heading(m));
        match &m.refused {
            Some(why) => out += &format!("  {why}\n"),
            None => out += &format!("{}\n\n{}\n", flows(c, m), bottlenecks(c, m)),
        }
    }
    let mut all = table(&CRITERIA);
    for cells in criteria(c) {
        row(&mut all, cells);
    }
    let _ = write!(out, "\nAll models and criteria\n{all}\n");
    out + &unsolved(c) + &bounds(c)
}

/// Returns a flow's name in tables.
pub(super) fn label(f: &FlowInfo) -> String {
    flow_label(&f.name, &f.from, &f.to)
}

/// Describes the model in words.
pub(super) fn heading(m: &Model) -> String {
    let relation = match m.hears {
        "decode" => "decodes",
        _ => "senses",
    };
    let sets = match (m.model, &m.refused) {
        (_, Some(_)) => "refused".to_owned(),
        ("domains", _) => format!("one domain per link, {} in all", m.sets),
        _ => format!("{} maximal cliques of {} links", m.sets, m.links.len()),
    };
    let name = if m.model == "domains" { "Collision domains" } else { "Cliques" };
    format!("{name} (contention where an end of one link {relation} an end of the other): {sets}")
}

pub(super) fn kbps(bps: f64) -> String {
    format!("{:.1}", bps / 1e3)
}

/// Returns the criteria with one column each; weighted ones only if weights differ.
fn columns(c: &Capacity) -> Vec<Criterion> {
    let mut columns = vec![Criterion::Unweighted];
    if c.weighted {
        columns.push(Criterion::MaxMin);
    }
    columns.push(Criterion::Proportional);
    columns
}

fn flows(c: &Capacity, m: &Model) -> comfy_table::Table {
    let columns: Vec<&Allocation> = columns(c).into_iter().filter_map(|k| m.by(k)).collect();
    let mut header = vec!["flow", "hops", "slowest hop"];
    if c.weighted {
        header.push("weight");
    }
    for a in &columns {
        header.extend([a.criterion, "limit"]);
    }
    let mut t = table(&header);
    for (i, f) in c.flows.iter().enumerate() {
        let slowest = f.hop_capacity_bps.iter().copied().fold(f64::INFINITY, f64::min);
        let mut cells = vec![label(f), f.hops.to_string(), kbps(slowest)];
        if c.weighted {
            cells.push(f.weight.to_string());
        }
        for a in &columns {
            cells.push(kbps(a.rates_bps[i]));
            cells.push(match a.bottleneck[i] {
                Some(b) => m.bottlenecks[b].label.clone(),
                None => "demand".to_owned(),
            });
        }
        row(&mut t, cells);
    }
    t
}

/// A bottleneck and the flows that it limits under fair rates.
pub(super) struct BottleneckSummary {
    /// Description, such as "A: the domain of 2–5, 8 links".
    pub description: String,
    /// Number of flows that it limits.
    pub limited: usize,
    /// Smallest rate of these flows, in bit/s.
    pub rate_bps: f64,
    /// Names of its links.
    pub links: String,
}

pub(super) fn summarize_bottleneck(
    c: &Capacity,
    m: &Model,
    index: usize,
    b: &Bottleneck,
) -> BottleneckSummary {
    let fair = m.by(c.fair());
    let limited: Vec<f64> = fair.map_or(vec![], |a| {
        let mine = a.bottleneck.iter().zip(&a.rates_bps).filter(|(l, _)| **l == Some(index));
        mine.map(|(_, &rate)| rate).collect()
    });
    let link = |&l: &u32| m.links[l as usize].join("–");
    let mut links = b.links.iter().take(MOST_LINKS).map(link).collect::<Vec<_>>().join(" ");
    if b.links.len() > MOST_LINKS {
        let _ = write!(links, " and {} more", b.links.len() - MOST_LINKS);
    }
    let what = match b.center {
        Some(l) => format!("domain of {}", link(&l)),
        None => "clique".to_owned(),
    };
    BottleneckSummary {
        description: format!(
            "{what}, {} link{}",
            b.links.len(),
            if b.links.len() == 1 { "" } else { "s" }
        ),
        limited: limited.len(),
        rate_bps: limited.iter().copied().fold(f64::INFINITY, f64::min),
        links,
    }
}

/// Returns the bottlenecks of the displayed columns.
fn bottlenecks(c: &Capacity, m: &Model) -> comfy_table::Table {
    let mut t = table(&["bottleneck", "limits", "at", "links"]);
    let shown: Vec<&Allocation> = columns(c).into_iter().filter_map(|k| m.by(k)).collect();
    for (i, b) in m.bottlenecks.iter().enumerate() {
        if !shown.iter().any(|a| a.bottleneck.contains(&Some(i))) {
            continue;
        }
        let summary = summarize_bottleneck(c, m, i, b);
        let flows = |n| format!("{n} flow{}", if n == 1 { "" } else { "s" });
        let rate = if summary.limited > 0 { kbps(summary.rate_bps) } else { "–".into() };
        let name = format!("{}: {}", b.label, summary.description);
        row(&mut t, [name, flows(summary.limited), rate, summary.links]);
    }
    t
}

/// Columns of [`criteria`].
pub(super) const CRITERIA: [&str; 8] =
    ["model", "RTS/CTS", "criterion", "Σ rate", "least", "Jain", "Σ rate × hops", "of largest"];

/// Builds one row of results for each model and criterion.
pub(super) fn criteria(c: &Capacity) -> Vec<Vec<String>> {
    let models = c.models.iter().filter(|m| m.refused.is_none());
    let all = models.flat_map(|m| m.criteria.iter().map(move |a| (m, a)));
    all.filter(|(_, a)| c.weighted || a.criterion != Criterion::MaxMin.name())
        .map(|(m, a)| {
            vec![
                m.model.to_owned(),
                if m.rts { "with" } else { "without" }.to_owned(),
                a.criterion.to_owned(),
                kbps(a.aggregate_bps),
                kbps(a.min_bps),
                format!("{:.3}", a.jain),
                kbps(a.utilization_bps),
                a.utilization_ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.3}")),
            ]
        })
        .collect()
}

/// Returns the missing criteria with their reasons.
pub(super) fn unsolved(c: &Capacity) -> String {
    let mut out = String::new();
    for m in &c.models {
        for u in &m.unsolved {
            let (with, Unsolved { criterion, problem }) =
                (if m.rts { "with" } else { "without" }, u);
            let _ = writeln!(out, "No {criterion} by {} {with} RTS/CTS: {problem}.", m.model);
        }
    }
    out
}

/// Returns the bounds, and the relation of the fair aggregates to them.
pub(super) fn bounds(c: &Capacity) -> String {
    let mut out = String::new();
    for m in c.models.iter().filter(|m| m.rts == c.rts && m.refused.is_none()) {
        let _ = writeln!(
            out,
            "By {}, any allocation that fills the air has a sum of at least {} kbit/s.",
            m.model,
            kbps(m.floor_bps)
        );
    }
    let Some(b) = c.bounds else { return out };
    let _ = writeln!(
        out,
        "A gateway without a map searches from {} (a third of its slowest link) to {} kbit/s (all \
         one hop away); by collision domains a long chain may have {} (a fifth).",
        kbps(b.lower_bps),
        kbps(b.upper_bps),
        kbps(b.lower_domains_bps)
    );
    for m in c.models.iter().filter(|m| m.rts == c.rts) {
        let Some(sum) = m.by(c.fair()).map(|a| a.aggregate_bps) else { continue };
        let side = match sum {
            s if s < b.lower_bps * (1.0 - 1e-9) => "below",
            s if s > b.upper_bps * (1.0 + 1e-9) => "above",
            _ => continue,
        };
        let fair = c.fair().name();
        let _ = writeln!(
            out,
            "The {fair} aggregate by {}, {} kbit/s, is {side} what that search covers.",
            m.model,
            kbps(sum)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use fairmesh_lab::Changes;
    use fairmesh_lab::control::Registry;
    use fairmesh_lab::source::build;

    use super::*;

    #[test]
    fn criteria_without_a_solution_are_named_below_the_table() {
        let text = include_str!("../../../../scenarios/jamshaid-fig-7.3.toml");
        let scenario =
            build("t.toml".as_ref(), text.as_bytes(), &Changes::default(), &Registry::standard())
                .unwrap();
        let mut c = Capacity::of(&scenario, None).unwrap();
        assert!(!tables(&c).contains("No "));
        for model in &mut c.models {
            let criterion = Criterion::Utilisation.name();
            model.criteria.retain(|a| a.criterion != criterion);
            model.criteria.iter_mut().for_each(|a| a.utilization_ratio = None);
            model.unsolved.push(Unsolved { criterion, problem: "2.5e-6 off".to_owned() });
        }
        let output = tables(&c);
        assert!(
            output.contains("\nNo max utilisation by cliques with RTS/CTS: 2.5e-6 off.\n"),
            "{output}"
        );
        assert!(output.contains("max aggregate") && output.contains("proportional"), "{output}");
    }
}
