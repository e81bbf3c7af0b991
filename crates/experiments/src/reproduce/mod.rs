//! Reproductions of the experiments of papers.
//!
//! The input is a declaration; the output is the paper's table or chart with our results beside it.
//! An experiment is a folder: `experiment.toml` (runs, variations, measures and judgement),
//! scenarios, `paper.toml` (the paper's numbers) and `notes.md`.

pub mod catalogue;
pub mod cell;
pub mod cells;
pub mod chart;
pub mod claim;
mod decisions;
pub mod declare;
pub mod emulated;
pub mod html;
mod judge;
pub mod kept;
pub mod kind;
mod locate;
pub mod measure;
mod neighbourhood;
mod over_time;
pub mod page;
pub mod panel;
pub mod paper;
pub mod papers;
mod places;
pub mod plan;
pub mod present;
pub mod quote;
pub mod record;
pub mod registry;
mod screen;
mod section;
pub mod sentence;
pub mod study;
pub mod tally;
pub mod text;
pub mod verdict;

/// Returns the table as comma-separated values, ours and the paper's in separate columns.
pub fn csv(record: &record::Record) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = "row,column,ours,ci95,paper,verdict\n".to_owned();
    let or_empty = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
    for row in &record.rows {
        for n in &row.cells {
            let verdict = n.verdict.map_or("", verdict::Verdict::words);
            let fields = [
                quoted(&row.label),
                quoted(&n.column),
                n.ours.to_string(),
                or_empty(n.ci95),
                or_empty(n.paper),
                (if n.paper.is_some() && !n.printed { "not printed" } else { verdict }).to_owned(),
            ];
            out += &fields.join(",");
            out.push('\n');
        }
    }
    out
}
