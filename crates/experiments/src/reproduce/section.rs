//! One experiment's part of its paper's page.

use std::fmt::Write as _;

use super::catalogue::Entry;
use super::emulated;
use super::record::{ClaimResult, Record, Row};
use super::tally::Tally;
use super::text::{number, order_words, round, runs};
use super::verdict::{Outcome, Verdict};

/// Title, table, pictures, statements, and what has to be known. `pictures`: their files, beside the page.
pub fn section(r: &Record, entry: &Entry, pictures: &[String]) -> String {
    let tally = Tally::of(r);
    let mut out = format!("\n## {}\n\n**{}.** {}.", r.id, r.title, r.place);
    if !entry.experiment.quote.is_empty() {
        let _ = write!(out, " “{}”", entry.experiment.quote);
    }
    let _ = write!(out, "\n\n{}\n\n{}.\n\n", flow(&entry.experiment.about), upper(&tally.words()));
    out += &table(r);
    let source = r.source.trim_end_matches('.');
    if !source.is_empty() {
        let _ = write!(out, "\nIn brackets, theirs: {source}.\n");
    }
    for p in pictures {
        let _ = write!(out, "\n![{}]({p})\n", r.title);
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
        let _ = write!(out, "\n**Read and decided.** {}\n", entry.notes.read);
    }
    let plural = if r.seeds == 1 { "" } else { "s" };
    let _ = write!(out, "\n`{}`: {} seed{plural}{}", r.command, r.seeds, runs(r));
    let full = entry.experiment.full.seeds;
    if full > r.seeds {
        let _ = write!(out, " (of {full} seeds that are declared)");
    }
    let _ = write!(out, ", fingerprint `{}`.", r.fingerprint);
    if let Some(told) = emulated::told(&r.emulated) {
        let _ = write!(out, " {told}.");
    }
    out.push('\n');
    out
}

/// What does not hold in full, what holds behind a fold.
fn statements(out: &mut String, r: &Record) {
    let (holding, open): (Vec<&ClaimResult>, Vec<&ClaimResult>) =
        r.claims.iter().partition(|c| c.outcome == Outcome::Holds);
    if !open.is_empty() {
        let _ = writeln!(out, "{}", listed(&open));
    }
    if !holding.is_empty() {
        let n = holding.len();
        let plural = if n == 1 { "statement holds" } else { "statements hold" };
        let _ = write!(out, "\n<details><summary>{n} {plural}</summary>\n");
        let _ = write!(out, "{}\n\n</details>\n", listed(&holding));
    }
}

/// Statements below the words that they come from, these once.
fn listed(claims: &[&ClaimResult]) -> String {
    let mut out = String::new();
    let mut last = None;
    for c in claims {
        if last.replace((&c.source, &c.quote)) != Some((&c.source, &c.quote)) {
            let quote =
                if c.quote.is_empty() { String::new() } else { format!(" “{}”", c.quote) };
            let _ = write!(out, "\n- {}{quote}", c.source);
        }
        let ours = c.ours.map_or(String::new(), |v| format!("; ours {}", round(v)));
        let word = match c.outcome {
            Outcome::Fails => "**fails**",
            other => other.words(),
        };
        let _ = write!(out, "\n  - {word}: {}: {}{ours}", c.says, c.asked);
    }
    out
}

fn table(r: &Record) -> String {
    let safe = |text: &str| text.replace('|', "\\|");
    let judged = r.rows.iter().any(|row| row.verdict.is_some());
    let mut out = String::from("| |");
    for c in &r.columns {
        let _ = write!(out, " {} |", safe(c));
    }
    if judged {
        out += " verdict |";
    }
    out += "\n|---|";
    out += &"---|".repeat(r.columns.len() + usize::from(judged));
    for row in &r.rows {
        let _ = write!(out, "\n| {} |", safe(&row.label));
        for c in &r.columns {
            let _ = write!(out, " {} |", cell(row, c));
        }
        if judged {
            let _ = write!(out, " {} |", row.verdict.map_or("", Verdict::words));
        }
    }
    out.push('\n');
    out
}

fn cell(row: &Row, column: &str) -> String {
    row.cells.iter().find(|c| c.column == column).map_or(String::new(), |n| {
        let mark = match n.verdict {
            Some(Verdict::Differs) => " ✗",
            Some(Verdict::NotDecided) => " ?",
            Some(Verdict::SameDirection) => " ~",
            Some(Verdict::Agrees) => " ✓",
            None => "",
        };
        number(n) + mark
    })
}

/// Lines of a paragraph joined.
fn flow(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().collect::<String>() + chars.as_str())
}
