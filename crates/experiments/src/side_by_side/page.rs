//! `docs/controls/side-by-side.md`, made from the record and nothing else.

use std::fmt::Write as _;

use fairmesh_lab::Estimate;
use fairmesh_lab::summary::is_ours;

use super::answers;
use super::arms::Arm;
use super::record::{Cell, Measures, Record};
use super::topology::{Group, TopologyInfo};

const HEAD: &str = "\
<!-- Made by `fairmesh-experiments side-by-side --page` from reproductions/side-by-side/record.json. Do not edit. -->

# Side by side

Every control of this project on every topology of the papers that `scenarios/` has, with each paper's own
traffic, and on two real maps. Scenarios that vary these (UDP, demands or link rates that change while they run) are not
among them.

![Fairness over utilisation of every control](../img/side-by-side.svg)

";

const READING: &str = "\
How to read it. *Jain / fair*: Jain's index of goodput over the analytic max-min rate, 1 when everybody has the same
part of it. *least / fair*: the worst flow's goodput over its fair rate. *U / U_fair*: Σ goodput × hops over the same
sum at the fair rates; where somebody starves it is high because of it. *delay*: mean over flows of the mean one-way
delay of their data, from the source's queue to the destination. *signalling*: bytes of messages and header fields in
all frames, and the airtime they took, summed over all nodes. *told*: is given the analytic fair rates, which no router
can measure. ± is half of the 95 % interval (Student's t) over seeds; in means over topologies, of the seeds' means. A
control that has no node to run at (one for gateways where there is none) is left out there. \\* is ours: not published,
or not as it is here.
";

/// The page.
pub fn page(r: &Record) -> String {
    let mut out = HEAD.to_owned();
    out += &origin(r);
    out += &answers::answers(r);
    out += "\n## The table\n\n";
    out += READING;
    for group in Group::ALL {
        out += &table(r, group);
    }
    out += "\n## Topology by topology\n\nEach cell: Jain / fair · least / fair · U / U_fair.\n";
    for paper in papers(r) {
        out += &matrix(r, &paper);
    }
    if !r.left_out.is_empty() {
        out += "\n## Left out\n";
        for (because, controls) in reasons(r) {
            let _ = write!(out, "\n- {controls}: {because}.");
        }
        out.push('\n');
    }
    out
}

/// The picture's place, seen from the documents.
pub const PICTURE: &str = "img/side-by-side.svg";
/// The page's place.
pub const PAGE: &str = "controls/side-by-side.md";

fn origin(r: &Record) -> String {
    let ran = || r.topologies.iter().filter(|t| t.ran);
    let count = ran().filter(|t| t.group != Group::Maps).count();
    let mut out = format!(
        "{} controls, {count} topologies of the papers, seeds 1 to {}, {} simulations, fingerprint `{}`. The command:\n\n```\n{}\n```\n\n",
        r.controls.len(),
        r.seeds,
        r.runs,
        r.fingerprint,
        r.command
    );
    let missing: Vec<&str> =
        r.topologies.iter().filter(|t| !t.ran).map(|t| t.label.as_str()).collect();
    if !missing.is_empty() {
        let _ = write!(
            out,
            "Not run: {}. Maps are no part of the project; `--map FILE` gives them.\n\n",
            missing.join(", ")
        );
    }
    out
}

fn safe(text: &str) -> String {
    text.replace('|', "\\|")
}

/// "0" for nothing at all.
fn cost(s: &Estimate, digits: usize) -> String {
    if s.mean == 0.0 { "0".to_owned() } else { s.show(1.0, digits) }
}

/// The columns of [`row`].
pub const COLUMNS: [&str; 9] = [
    "control",
    "deployed at",
    "told",
    "Jain / fair",
    "least / fair",
    "U / U_fair",
    "delay, ms",
    "signalling, B/s",
    "ms/s",
];

/// The numbers of a control in a group.
pub fn row(m: &Measures) -> [String; 6] {
    [
        m.jain.show(1.0, 3),
        m.least.show(1.0, 2),
        m.utilization.show(1.0, 2),
        m.delay_ms.as_ref().map_or("–".to_owned(), |d| d.show(1.0, 0)),
        cost(&m.bytes_per_s, 0),
        cost(&m.airtime_ms, 2),
    ]
}

/// One group: every control that has a node to run at in it, fairest first.
fn table(r: &Record, group: Group) -> String {
    let rows = r.group(group);
    if rows.is_empty() {
        return String::new();
    }
    let topologies: Vec<&TopologyInfo> =
        r.topologies.iter().filter(|t| t.group == group && t.ran).collect();
    let labels: Vec<&str> = topologies.iter().map(|t| t.label.as_str()).collect();
    let mut out = format!(
        "\n### {}\n\nMeans over {}: {}.\n\n| {} |\n|{}\n",
        group.words(),
        if labels.len() == 1 {
            "1 topology".to_owned()
        } else {
            format!("{} topologies", labels.len())
        },
        labels.join(", "),
        COLUMNS.join(" | "),
        "---|".repeat(COLUMNS.len())
    );
    for (arm, mean) in rows {
        let part = if mean.ran < mean.of {
            format!(" ({} of {} topologies)", mean.ran, mean.of)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "| {}{part} | {} | {} | {} |",
            named(arm),
            arm.at,
            if arm.told { "fair rates" } else { "nothing" },
            row(&mean.measures).join(" | ")
        );
    }
    out
}

/// A control's name; what is ours is marked.
fn named(arm: &Arm) -> String {
    let mark = if is_ours(&arm.name) { " \\*" } else { "" };
    format!("`{}`{mark}", safe(&arm.name))
}

fn papers(r: &Record) -> Vec<String> {
    let mut papers: Vec<String> = Vec::new();
    for t in &r.topologies {
        if t.ran && !papers.contains(&t.paper) {
            papers.push(t.paper.clone());
        }
    }
    papers
}

/// The topologies of one paper: controls in rows.
fn matrix(r: &Record, paper: &str) -> String {
    let topologies: Vec<&TopologyInfo> =
        r.topologies.iter().filter(|t| t.paper == paper && t.ran).collect();
    let mut out = format!("\n### {paper}\n\n| control |");
    for t in &topologies {
        let _ = write!(out, " {} |", safe(&t.label));
    }
    out += "\n|---|";
    out += &"---|".repeat(topologies.len());
    out += "\n| nodes, flows; measured |";
    for t in &topologies {
        let _ = write!(out, " {}, {}; {}–{} s |", t.nodes, t.flows, t.warmup_s, t.duration_s);
    }
    for arm in &r.controls {
        let cells: Vec<Option<&Cell>> = topologies
            .iter()
            .map(|t| r.cells.iter().find(|c| c.control == arm.name && c.topology == t.label))
            .collect();
        if cells.iter().all(|c| c.is_none_or(|c| c.measures.is_none() && c.because.is_none())) {
            continue;
        }
        let _ = write!(out, "\n| {} |", named(arm));
        for c in cells {
            let text = c.map_or(String::new(), |c| match (&c.measures, &c.because) {
                (Some(m), _) => {
                    format!(
                        "{} · {} · {}",
                        m.jain.show(1.0, 2),
                        m.least.show(1.0, 2),
                        m.utilization.show(1.0, 2)
                    )
                }
                (None, Some(why)) => safe(why),
                (None, None) => String::new(),
            });
            let _ = write!(out, " {text} |");
        }
    }
    out.push('\n');
    out
}

/// Reasons with their controls.
fn reasons(r: &Record) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for l in &r.left_out {
        match all.iter_mut().find(|(because, _)| *because == l.because) {
            Some((_, controls)) => {
                let _ = write!(controls, ", `{}`", l.control);
            }
            None => all.push((&l.because, format!("`{}`", l.control))),
        }
    }
    all
}
