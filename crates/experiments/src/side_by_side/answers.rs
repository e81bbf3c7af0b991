//! Who is fairest, who is fastest, who is cheapest, and for whom: sentences from the record.

use std::fmt::Write as _;

use super::arms::{Arm, Deployment};
use super::record::{GroupMean, Record};
use super::topology::Group;

/// Fair enough to be asked for its price.
const FAIR: f64 = 0.9;
/// Below this part of a fair rate a flow starves, and a sum is high because of it.
const STARVED: f64 = 0.1;

type Row<'a> = (&'a Arm, &'a GroupMean);

/// The section of the page.
pub(super) fn answers(r: &Record) -> String {
    let mut out = String::from("## Who is what\n");
    for group in Group::ALL {
        let rows = r.group(group);
        if !rows.is_empty() {
            let _ = write!(out, "\n**{}.**\n\n", group.words());
            out += &of_group(&rows);
        }
    }
    out
}

fn of_group(all: &[Row<'_>]) -> String {
    // Over other topologies than the rest a mean says nothing beside theirs.
    let rows: Vec<Row<'_>> = all.iter().copied().filter(|(_, m)| m.ran == m.of).collect();
    let mut out = String::new();
    if let Some(fifo) = rows.iter().find(|(a, _)| a.name == "fifo") {
        let _ = writeln!(out, "- Without control: {}.", numbers(*fifo));
    }
    let of = |told: bool| -> Vec<Row<'_>> {
        rows.iter().copied().filter(|(a, _)| a.told == told && a.name != "fifo").collect()
    };
    let (told, untold) = (of(true), of(false));
    if let Some(best) = fairest(&untold) {
        let _ = writeln!(out, "- Fairest of those that are told nothing: {best}.");
    }
    if let Some(best) = fairest(&told) {
        let _ = writeln!(out, "- Fairest of those that are told the fair rates: {best}.");
    }
    let _ = writeln!(out, "- Fastest: {}.", fastest(&rows));
    let _ = writeln!(out, "- Cheapest: {}.", cheapest(&rows));
    for deployment in Deployment::ALL.into_iter().skip(1) {
        let mine: Vec<Row<'_>> =
            untold.iter().copied().filter(|(a, _)| a.deployment == deployment).collect();
        let line = match fairest(&mine) {
            Some(best) => best,
            None => {
                let mine: Vec<Row<'_>> =
                    told.iter().copied().filter(|(a, _)| a.deployment == deployment).collect();
                match fairest(&mine) {
                    Some(best) => format!("{best} (told the fair rates; nothing else runs there)"),
                    None => continue,
                }
            }
        };
        let _ = writeln!(out, "- Whoever can change {}: {line}.", whose(deployment));
    }
    out
}

fn whose(d: Deployment) -> &'static str {
    match d {
        Deployment::Nowhere => "nothing",
        Deployment::Gateway => "only the gateway or access point",
        Deployment::Neighbours => "the gateway's neighbours as well",
        Deployment::Sources => "the senders",
        Deployment::Everywhere => "every node",
    }
}

fn numbers((arm, m): Row<'_>) -> String {
    format!(
        "`{}` (Jain {}, least flow {} of fair, U {})",
        arm.name,
        m.measures.jain.show(1.0, 3),
        m.measures.least.show(1.0, 2),
        m.measures.utilization.show(1.0, 2)
    )
}

fn names(rows: &[Row<'_>]) -> String {
    let all: Vec<String> = rows.iter().map(|(a, _)| format!("`{}`", a.name)).collect();
    all.join(", ")
}

/// The highest Jain index, and those whose intervals reach it.
fn fairest(rows: &[Row<'_>]) -> Option<String> {
    let best = *rows.iter().max_by(|a, b| {
        let of = |r: &Row<'_>| r.1.measures.jain.mean;
        // Of equals the first, which the table has first.
        of(a).total_cmp(&of(b)).then(std::cmp::Ordering::Greater)
    })?;
    Some(with_level(best, rows, |r| r.1.measures.jain))
}

fn with_level(
    best: Row<'_>,
    rows: &[Row<'_>],
    by: impl Fn(&Row<'_>) -> fairmesh_lab::Estimate,
) -> String {
    let level: Vec<Row<'_>> = rows
        .iter()
        .copied()
        .filter(|r| r.0.name != best.0.name && !by(&best).above(&by(r)))
        .collect();
    if level.is_empty() {
        return numbers(best);
    }
    format!("{}; within both intervals: {}", numbers(best), names(&level))
}

/// The highest utilisation among those under which nobody starves.
fn fastest(rows: &[Row<'_>]) -> String {
    let fed: Vec<Row<'_>> =
        rows.iter().copied().filter(|r| r.1.measures.least.mean >= STARVED).collect();
    let u = |r: &Row<'_>| r.1.measures.utilization;
    let by = |a: &&Row<'_>, b: &&Row<'_>| u(a).mean.total_cmp(&u(b).mean);
    let Some(best) = fed.iter().max_by(by) else {
        return "under every control the worst flow has less than a tenth of its fair rate on \
                average, so sums say nothing"
            .to_owned();
    };
    let mut text = with_level(*best, &fed, u);
    if let Some(first) = rows.iter().max_by(by)
        && first.1.measures.least.mean < STARVED
    {
        let _ = write!(
            text,
            ". That is among those under which the worst flow has a tenth of its fair rate or more \
             on average; of all, {}",
            numbers(*first)
        );
    }
    let fair: Vec<Row<'_>> =
        rows.iter().copied().filter(|r| r.1.measures.jain.mean >= FAIR).collect();
    if let Some(best) = fair.iter().max_by(by) {
        let _ = write!(
            text,
            ". Of those with a Jain index of {FAIR} or more: {}",
            with_level(*best, &fair, u)
        );
    }
    text
}

/// What fairness costs in the air.
fn cheapest(rows: &[Row<'_>]) -> String {
    let fair: Vec<Row<'_>> =
        rows.iter().copied().filter(|r| r.1.measures.jain.mean >= FAIR).collect();
    let air = |r: &Row<'_>| r.1.measures.airtime_ms.mean;
    // Bytes may fit into a symbol that is sent anyway.
    let silent = |r: &Row<'_>| r.1.measures.bytes_per_s.mean == 0.0;
    if fair.is_empty() {
        let free: Vec<Row<'_>> =
            rows.iter().copied().filter(|r| silent(r) && r.0.name != "fifo").collect();
        return format!(
            "no control reaches a Jain index of {FAIR}; without any signalling: {}",
            names(&free)
        );
    }
    let (free, paid): (Vec<Row<'_>>, Vec<Row<'_>>) = fair.iter().partition(|r| silent(r));
    let mut text = format!("of those with a Jain index of {FAIR} or more ");
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
            r.0.name,
            r.1.measures.bytes_per_s.show(1.0, 0),
            r.1.measures.airtime_ms.show(1.0, 1)
        );
    }
    text
}
