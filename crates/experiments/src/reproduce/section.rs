//! One experiment's part of the details of its paper.

use std::fmt::Write as _;

use super::catalogue::Entry;
use super::emulated;
use super::record::{ClaimResult, Record};
use super::sentence::sentences;
use super::tally::Tally;
use super::text::{number, order_words, round, runs};
use super::verdict::Verdict;

/// Returns a fold with tables, pictures, cells of sentences and notes.
///
/// `pictures`: their files, beside the page, with titles.
pub fn section(r: &Record, entry: &Entry, pictures: &[(String, String)]) -> String {
    let tally = Tally::of(r);
    let place = r.place.replace('<', "&lt;");
    let mut out = format!(
        "\n<details id=\"{}\"><summary><b>{place}</b>: {}. {}</summary>\n\n",
        r.id,
        r.title,
        upper(&tally.words())
    );
    if !entry.experiment.quote.is_empty() {
        let _ = write!(out, "“{}”\n\n", entry.experiment.quote);
    }
    let _ = write!(out, "{}\n\n", flow(&entry.experiment.about));
    out += &table(r, &parts(r, entry, None));
    let source = r.source.trim_end_matches('.');
    if !source.is_empty() {
        let _ = write!(out, "\nIn brackets, theirs: {source}.\n");
    }
    let mut reasons: Vec<&str> = Vec::new();
    for reason in entry.experiment.arms.iter().filter_map(|a| a.second.as_deref()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    for reason in reasons {
        let second = table(r, &parts(r, entry, Some(reason)));
        if !second.is_empty() {
            let _ = write!(out, "\n**Not the paper's: {reason}.**\n\n{second}");
        }
    }
    for (path, title) in pictures {
        let _ = write!(out, "\n![{title}]({path})\n");
    }
    statements(&mut out, r);
    for o in &r.orders {
        let _ = write!(out, "\n- {}.", upper(&order_words(o)));
    }
    for m in &r.missing {
        let _ = write!(out, "\n- **Not run**: {}: {}.", m.arm, m.because);
    }
    if !(r.orders.is_empty() && r.missing.is_empty()) {
        out.push('\n');
    }
    if tally.differs() && !entry.notes.differs.is_empty() {
        let _ = write!(out, "\n**Why ours differs.** {}\n", entry.notes.differs);
    }
    if !entry.notes.read.is_empty() {
        let _ = write!(out, "\n**Readings.** {}\n", entry.notes.read);
    }
    let plural = if r.seeds == 1 { "" } else { "s" };
    let _ = write!(out, "\n`{}`: {} seed{plural}{}", r.command, r.seeds, runs(r));
    let full = entry.experiment.full.seeds;
    if full > r.seeds {
        let _ = write!(out, " (of {full} seeds that are declared)");
    }
    let _ = write!(out, ", fingerprint `{}`.", r.fingerprint);
    if let Some(words) = emulated::timekeeping(&r.emulated) {
        let _ = write!(out, " {words}.");
    }
    out + "\n\n</details>\n"
}

/// Writes cells of the sentences, below their quotations.
fn statements(out: &mut String, r: &Record) {
    for s in sentences([r]).iter().filter(|s| !s.cells.is_empty()) {
        let first: &ClaimResult = s.cells[0];
        let quote =
            if first.quote.is_empty() { String::new() } else { format!(" “{}”", first.quote) };
        let _ = write!(out, "\n- **{}**: {}{quote}", s.outcome.words(), first.source);
        for c in &s.cells {
            let ours = c.ours.map_or(String::new(), |v| format!("; ours {}", round(v)));
            let _ = write!(out, "\n  - {}: {}: {}{ours}", c.outcome.words(), c.says, c.asked);
        }
    }
    if !r.claims.is_empty() {
        out.push('\n');
    }
}

/// Returns for each row and number true if it belongs to the table.
///
/// The table is the paper's, or the second one of `reason`.
fn parts(r: &Record, entry: &Entry, reason: Option<&str>) -> Vec<Vec<bool>> {
    let cells = r.cells(entry);
    let second = |arm: &str| {
        let arm = entry.experiment.arms.iter().find(|a| a.label == arm);
        arm.and_then(|a| a.second.as_deref())
    };
    let mut of = cells.iter().map(|c| second(&c.arm) == reason);
    r.rows.iter().map(|row| of.by_ref().take(row.cells.len()).collect()).collect()
}

/// Returns the chosen numbers as a table; empty if there are none.
fn table(r: &Record, chosen: &[Vec<bool>]) -> String {
    let safe = |text: &str| text.replace('|', "\\|");
    let numbers = || {
        let rows = r.rows.iter().zip(chosen);
        rows.flat_map(|(row, of)| row.cells.iter().zip(of)).filter(|(_, of)| **of).map(|(n, _)| n)
    };
    if numbers().next().is_none() {
        return String::new();
    }
    let columns: Vec<&String> =
        r.columns.iter().filter(|c| numbers().any(|n| n.column == **c)).collect();
    let mut out = String::from("| |");
    for c in &columns {
        let _ = write!(out, " {} |", safe(c));
    }
    out += "\n|---|";
    out += &"---|".repeat(columns.len());
    for (row, of) in r.rows.iter().zip(chosen).filter(|(_, of)| of.contains(&true)) {
        let _ = write!(out, "\n| {} |", safe(&row.label));
        for column in &columns {
            let found = row.cells.iter().zip(of).find(|(n, of)| **of && n.column == **column);
            let _ = write!(
                out,
                " {} |",
                found.map_or(String::new(), |(n, _)| number(n) + mark(n.verdict))
            );
        }
    }
    out.push('\n');
    out
}

fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Differs) => " ✗",
        Some(Verdict::Open) => " ?",
        Some(Verdict::Agrees) => " ✓",
        None => "",
    }
}

/// Joins the lines of a paragraph.
fn flow(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().collect::<String>() + chars.as_str())
}
