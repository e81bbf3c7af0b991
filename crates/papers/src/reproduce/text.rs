//! A reproduction in the terminal.

use std::fmt::Write as _;

use fairmesh_report::table;

use super::catalogue::Entry;
use super::record::{Number, Record, Row};

/// The table with ours and the paper's, then orders, statements and why.
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
    for row in &record.rows {
        let mut cells = vec![row.label.clone()];
        cells.extend(record.columns.iter().map(|c| cell(row, c)));
        if judged {
            cells.push(row.verdict.map_or(String::new(), |v| v.words().to_owned()));
        }
        table::row(&mut t, cells);
    }
    let _ = writeln!(out, "{t}");
    if record.rows.iter().any(|r| r.cells.iter().any(|c| c.paper.is_some())) {
        let _ = writeln!(out, "ours (theirs). {}", record.source);
    }
    for o in &record.orders {
        let _ = writeln!(out, "{}", order_words(o));
    }
    for c in &record.claims {
        let word = match c.holds {
            Some(true) => "holds",
            Some(false) => "DOES NOT HOLD",
            None => "not run",
        };
        let ours = c.ours.map_or(String::new(), |v| format!(", {}", round(v)));
        let _ = writeln!(out, "{word}: {} ({}: {}{ours})", c.says, c.source, c.asked);
    }
    for m in &record.missing {
        let _ = writeln!(out, "not run: {}: {}", m.arm, m.because);
    }
    if record.differs() && !entry.notes.differs.is_empty() {
        let _ = writeln!(out, "\n{}", entry.notes.differs);
    }
    let _ = writeln!(out, "\n{}", record.tally().words());
    out
}

/// "0.98 ± 0.01 (0.99)", or what there is of it.
pub fn cell(row: &Row, column: &str) -> String {
    row.cells.iter().find(|c| c.column == column).map_or(String::new(), number)
}

/// "0.98 ± 0.01 (0.99)".
pub fn number(n: &Number) -> String {
    let d = n.digits;
    let mut text = format!("{:.d$}", n.ours);
    if let Some(ci) = n.ci95 {
        text += &format!(" ± {ci:.d$}");
    }
    if let Some(paper) = n.paper {
        text += &format!(" ({paper:.d$})");
    }
    text
}

/// Whether the order of a column came out.
pub fn order_words(o: &super::record::OrderResult) -> String {
    if o.wrong.is_empty() {
        return format!("order by {}: as in the paper ({} pairs)", o.column, o.pairs);
    }
    let pairs: Vec<String> = o.wrong.iter().map(|[a, b]| format!("{a} is not below {b}")).collect();
    format!(
        "order by {}: {} of {} pairs the other way round: {}",
        o.column,
        o.wrong.len(),
        o.pairs,
        pairs.join("; ")
    )
}

/// ", 25 simulations"; nothing where a study does not count them.
pub fn runs(r: &Record) -> String {
    if r.runs > 0 { format!(", {} simulations", r.runs) } else { String::new() }
}

/// Three significant digits.
pub fn round(v: f64) -> String {
    let digits = if v == 0.0 { 0 } else { (2 - v.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{v:.*}", digits as usize)
}
