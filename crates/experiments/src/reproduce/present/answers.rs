//! Sentences on the best controls of a family, from the record.
//!
//! They name the fairest, fastest and cheapest controls, and those for each place of deployment.

use std::fmt::Write as _;

use fairmesh_lab::Estimate;

use super::view::View;
use crate::reproduce::kind::Kind;
use crate::reproduce::registry::{Deployment, Facts};

/// Jain's index above which the cost of a control is described.
const FAIR_JAIN_INDEX: f64 = 0.9;
/// Fraction of a fair rate below which a flow starves, which makes a sum high.
const STARVATION_FRACTION: f64 = 0.1;

/// A control over the topologies of a family.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub name: String,
    pub facts: Facts,
    pub jain: Estimate,
    pub least: Estimate,
    pub utilization: Estimate,
    pub bytes_per_s: Estimate,
    pub airtime_ms: Estimate,
}

/// Returns the controls that ran on all topologies of a family, fairest first.
///
/// A mean over other topologies is not comparable.
pub(super) fn rows(view: &View<'_>, family: &str) -> Vec<Row> {
    let of = view.topologies(family).len();
    let row = |name: &str| {
        let value = |kind| view.of_kind(name, family, kind);
        Some(Row {
            name: name.to_owned(),
            facts: Facts::of(name, view.registry())?,
            jain: value(Kind::JainNormalized)?,
            least: value(Kind::MinOverFair)?,
            utilization: value(Kind::Utilization)?,
            bytes_per_s: value(Kind::SignallingBytes)?,
            airtime_ms: value(Kind::SignallingAirtime)?,
        })
    };
    let all = view.arms(family).filter(|a| view.ran(&a.label, family) == of);
    let mut rows: Vec<Row> = all.filter_map(|a| row(&a.label)).collect();
    rows.sort_by(|a, b| b.jain.mean.total_cmp(&a.jain.mean));
    rows
}

/// Returns the sentences, each as an item of a list.
pub(super) fn of(view: &View<'_>, family: &str) -> String {
    let all = rows(view, family);
    let rows: Vec<&Row> = all.iter().collect();
    let mut out = String::new();
    if let Some(fifo) = rows.iter().find(|r| r.name == "fifo") {
        let _ = writeln!(out, "- Without control: {}.", numbers(fifo));
    }
    let of = |with_fair_rates: bool| -> Vec<&Row> {
        rows.iter()
            .copied()
            .filter(|r| r.facts.knows_fair_rates == with_fair_rates && r.name != "fifo")
            .collect()
    };
    let (with_fair_rates, without_fair_rates) = (of(true), of(false));
    if let Some(best) = fairest(&without_fair_rates) {
        let _ = writeln!(out, "- Fairest without knowledge of the fair rates: {best}.");
    }
    if let Some(best) = fairest(&with_fair_rates) {
        let _ = writeln!(out, "- Fairest with the fair rates as input: {best}.");
    }
    let _ = writeln!(out, "- Fastest: {}.", fastest(&rows));
    let _ = writeln!(out, "- Cheapest: {}.", cheapest(&rows));
    for deployment in Deployment::ALL.into_iter().skip(1) {
        let mine: Vec<&Row> = without_fair_rates
            .iter()
            .copied()
            .filter(|r| r.facts.deployment == deployment)
            .collect();
        let line = match fairest(&mine) {
            Some(best) => best,
            None => {
                let mine: Vec<&Row> = with_fair_rates
                    .iter()
                    .copied()
                    .filter(|r| r.facts.deployment == deployment)
                    .collect();
                match fairest(&mine) {
                    Some(best) => format!(
                        "{best} (with the fair rates as input; no other control runs there)"
                    ),
                    None => continue,
                }
            }
        };
        let _ = writeln!(out, "- With changes at {}: {line}.", deployment_phrase(deployment));
    }
    out.trim_end().to_owned()
}

fn deployment_phrase(d: Deployment) -> &'static str {
    match d {
        Deployment::Nowhere => "nothing",
        Deployment::Gateway => "the gateway or access point only",
        Deployment::Neighbours => "the gateway and its neighbours",
        Deployment::Sources => "the senders",
        Deployment::Everywhere => "every node",
    }
}

fn numbers(r: &Row) -> String {
    format!(
        "`{}` (Jain {}, least flow {} of fair, U {})",
        r.name,
        r.jain.show(1.0, 3),
        r.least.show(1.0, 2),
        r.utilization.show(1.0, 2)
    )
}

fn names(rows: &[&Row]) -> String {
    let all: Vec<String> = rows.iter().map(|r| format!("`{}`", r.name)).collect();
    all.join(", ")
}

/// Describes the highest Jain index, and the controls with intervals that reach it.
fn fairest(rows: &[&Row]) -> Option<String> {
    let best = *rows.iter().max_by(|a, b| {
        let of = |r: &Row| r.jain.mean;
        // Of equals the first, as in the table.
        of(a).total_cmp(&of(b)).then(std::cmp::Ordering::Greater)
    })?;
    Some(with_level(best, rows, |r| r.jain))
}

fn with_level(best: &Row, rows: &[&Row], by: impl Fn(&Row) -> Estimate) -> String {
    let level: Vec<&Row> =
        rows.iter().copied().filter(|r| r.name != best.name && !by(best).above(&by(r))).collect();
    if level.is_empty() {
        return numbers(best);
    }
    format!("{}; within both intervals: {}", numbers(best), names(&level))
}

/// Describes the highest utilisation among the controls under which no flow starves.
fn fastest(rows: &[&Row]) -> String {
    let fed: Vec<&Row> =
        rows.iter().copied().filter(|r| r.least.mean >= STARVATION_FRACTION).collect();
    let u = |r: &Row| r.utilization;
    let by = |a: &&Row, b: &&Row| u(a).mean.total_cmp(&u(b).mean);
    let Some(best) = fed.iter().copied().max_by(by) else {
        return "under every control the worst flow has less than a tenth of its fair rate on \
                average, so sums are not compared"
            .to_owned();
    };
    let mut text = with_level(best, &fed, u);
    if let Some(first) = rows.iter().copied().max_by(by)
        && first.least.mean < STARVATION_FRACTION
    {
        let _ = write!(
            text,
            ". That is among those under which the worst flow has a tenth of its fair rate or more \
             on average; of all, {}",
            numbers(first)
        );
    }
    let fair: Vec<&Row> = rows.iter().copied().filter(|r| r.jain.mean >= FAIR_JAIN_INDEX).collect();
    if let Some(best) = fair.iter().copied().max_by(by) {
        let _ = write!(
            text,
            ". Of those with a Jain index of {FAIR_JAIN_INDEX} or more: {}",
            with_level(best, &fair, u)
        );
    }
    text
}

/// Describes the cost of fairness in airtime.
fn cheapest(rows: &[&Row]) -> String {
    let fair: Vec<&Row> = rows.iter().copied().filter(|r| r.jain.mean >= FAIR_JAIN_INDEX).collect();
    let air = |r: &Row| r.airtime_ms.mean;
    // Bytes may fit into a symbol that is sent anyway.
    let silent = |r: &Row| r.bytes_per_s.mean == 0.0;
    if fair.is_empty() {
        let free: Vec<&Row> =
            rows.iter().copied().filter(|r| silent(r) && r.name != "fifo").collect();
        return format!(
            "no control reaches a Jain index of {FAIR_JAIN_INDEX}; without any signalling: {}",
            names(&free)
        );
    }
    let (free, paid): (Vec<&Row>, Vec<&Row>) = fair.iter().copied().partition(|r| silent(r));
    let mut text = format!("of those with a Jain index of {FAIR_JAIN_INDEX} or more ");
    if free.is_empty() {
        text += "all signal";
    } else {
        let _ = write!(text, "without any signalling: {}", names(&free));
    }
    let mut paid = paid;
    paid.sort_by(|a, b| air(a).total_cmp(&air(b)));
    for (i, r) in paid.iter().enumerate() {
        let _ = write!(
            text,
            "{}`{}` {} B/s, {} ms/s",
            if i == 0 { "; with it: " } else { ", " },
            r.name,
            r.bytes_per_s.show(1.0, 0),
            r.airtime_ms.show(1.0, 1)
        );
    }
    text
}
