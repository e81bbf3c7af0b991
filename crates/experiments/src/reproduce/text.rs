//! A reproduction in the terminal.

use std::fmt::Write as _;

use fairmesh_report::table;

use super::catalogue::Entry;
use super::declare::Dimension;
use super::emulated;
use super::record::{Number, Record, Row};
use super::tally::Tally;

/// Returns the table with ours and the paper's numbers, then orders, statements and reasons.
pub fn show(record: &Record, entry: &Entry) -> String {
    let mut out = format!(
        "{}: {}\n{}, {}; {} seed{}{}\n\n",
        record.id,
        record.title,
        record.paper,
        record.place,
        record.seeds,
        if record.seeds == 1 { "" } else { "s" },
        runs(record),
    );
    let judged = record.rows.iter().any(|r| r.verdict.is_some());
    let mut header = vec![String::new()];
    header.extend(record.columns.iter().cloned());
    if judged {
        header.push("verdict".to_owned());
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut t = table::table(&header);
    // The page has the rows of hundreds of topologies; the terminal shows those of families.
    let on = |row: &Row| {
        let all = entry.experiment.topologies.iter();
        all.into_iter().any(|t| row.label.ends_with(&format!(", {}", t.label)))
    };
    let folded = entry.experiment.lays_out(Dimension::Place);
    for row in record.rows.iter().filter(|row| !folded || !on(row)) {
        let mut cells = vec![row.label.clone()];
        cells.extend(record.columns.iter().map(|c| cell(row, c)));
        if judged {
            cells.push(row.verdict.map_or(String::new(), |v| v.words().to_owned()));
        }
        table::row(&mut t, cells);
    }
    let _ = writeln!(out, "{t}");
    if record.rows.iter().any(|r| r.cells.iter().any(|c| c.paper.is_some())) {
        let _ =
            writeln!(out, "ours (theirs; ≈ where the paper prints no number). {}", record.source);
    }
    for o in &record.orders {
        let _ = writeln!(out, "{}", order_words(o));
    }
    for c in &record.claims {
        let ours = c.ours.map_or(String::new(), |v| format!(", {}", round(v)));
        let word = c.outcome.words();
        let _ = writeln!(out, "{word}: {} ({}: {}{ours})", c.says, c.source, c.asked);
    }
    if let Some(timekeeping) = emulated::timekeeping(&record.emulated) {
        let _ = writeln!(out, "{timekeeping}.");
    }
    for m in &record.missing {
        let _ = writeln!(out, "not run: {}: {}", m.arm, m.because);
    }
    if Tally::of(record).differs() && !entry.notes.differs.is_empty() {
        let _ = writeln!(out, "\n{}", entry.notes.differs);
    }
    let _ = writeln!(out, "\n{}", Tally::of(record).words());
    out
}

/// Returns a cell such as "0.98 ± 0.01 (0.99)", or the available part of it.
pub fn cell(row: &Row, column: &str) -> String {
    row.cells.iter().find(|c| c.column == column).map_or(String::new(), number)
}

/// Returns a number such as "0.98 ± 0.01 (0.99)".
///
/// A number that the paper does not print is shown as "(≈ 0.99)". A computed number has no ±.
pub fn number(n: &Number) -> String {
    let d = n.digits;
    let mut text = format!("{:.d$}", n.ours);
    if let Some(ci) = n.ci95.filter(|ci| *ci > 0.0) {
        text += &format!(" ± {ci:.d$}");
    }
    if let Some(paper) = n.paper {
        let about = if n.printed { "" } else { "≈ " };
        text += &format!(" ({about}{paper:.d$})");
    }
    text
}

/// Describes the agreement of a column's order with the paper's.
pub fn order_words(o: &super::record::OrderResult) -> String {
    let pairs = |pairs: &[[String; 2]]| {
        pairs.iter().map(|[a, b]| format!("{a} below {b}")).collect::<Vec<_>>().join("; ")
    };
    let right = o.pairs - o.wrong.len() - o.open.len();
    let mut text = format!("order by {}: {right} of {} pairs as in the paper", o.column, o.pairs);
    if !o.open.is_empty() {
        text += &format!("; open: {}", pairs(&o.open));
    }
    if !o.wrong.is_empty() {
        text += &format!("; the other way round: {}", pairs(&o.wrong));
    }
    text
}

/// Returns ", 25 simulations"; empty if a study does not count them.
pub fn runs(r: &Record) -> String {
    if r.runs > 0 { format!(", {} simulations", r.runs) } else { String::new() }
}

/// Rounds to three significant digits.
pub fn round(v: f64) -> String {
    let digits = if v == 0.0 { 0 } else { (2 - v.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{v:.*}", digits as usize)
}
