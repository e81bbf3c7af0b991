//! A reproduction as a page that can be opened from disk, in the style of the report.

use std::fmt::Write as _;

use fairmesh_lab::LabError;
use fairmesh_report::html::{self, escape, fill, table};

use super::catalogue::Entry;
use super::panel::Panel;
use super::record::{Record, Row};
use super::tally::Tally;
use super::text::{number, order_words, round, runs};
use super::verdict::{Outcome, Verdict};

/// Returns the page.
///
/// # Errors
/// Returns an error if a picture cannot be drawn.
pub fn page(record: &Record, entry: &Entry, panels: &[Panel]) -> Result<String, LabError> {
    let mut pictures = String::new();
    for p in panels {
        let svg = p.svg().map_err(|e| LabError::run(&p.title, e))?;
        let data = percent(&svg);
        let _ = write!(
            pictures,
            "<figure><img alt=\"{}\" width=\"640\" height=\"360\" src=\"data:image/svg+xml,{data}\"></figure>",
            escape(&p.title)
        );
    }
    if !pictures.is_empty() {
        pictures = format!(
            "<section><h2>Picture</h2><div class=\"pictures\">{pictures}</div>\
             <p class=\"note\">Black marks are the paper’s numbers, where it states any; whiskers are \
             95 % intervals over seeds. Curves over time are those of the first seed.</p></section>"
        );
    }
    let why = if Tally::of(record).differs() && !entry.notes.differs.is_empty() {
        format!("<section><h2>Why ours differs</h2>{}</section>", paragraphs(&entry.notes.differs))
    } else {
        String::new()
    };
    let body = fill(
        include_str!("../../assets/reproduction.html"),
        &[
            ("heading", &escape(&record.title)),
            ("subtitle", &escape(&subtitle(record))),
            ("verdicts", &verdicts(record)),
            ("about", &paragraphs(&entry.experiment.about)),
            ("table", &numbers(record)),
            ("source", &escape(&record.source)),
            ("pictures", &pictures),
            ("why", &why),
            ("read", &paragraphs(&entry.notes.read)),
            ("command", &escape(&record.command)),
            ("generator", &escape(&record.generator)),
            ("fingerprint", &escape(&record.fingerprint)),
        ],
    );
    let title = escape(&format!("{}, {}", record.paper, record.place));
    let own = include_str!("../../assets/reproduction.css");
    Ok(html::page(&title, &[html::STYLE, own], &body))
}

fn subtitle(r: &Record) -> String {
    let plural = if r.seeds == 1 { "" } else { "s" };
    format!("{}, {} · {} seed{plural}{}", r.paper, r.place, r.seeds, runs(r))
}

fn verdicts(r: &Record) -> String {
    let mut out = String::new();
    let mut item = |class: &str, text: &str| {
        let _ = write!(out, "<li class=\"{class}\">{}</li>", escape(text));
    };
    let t = Tally::of(r);
    let all = match t.differ + t.fail {
        1.. => "bad",
        0 if t.differs() => "middling",
        0 => "good",
    };
    item(all, &t.words());
    for o in &r.orders {
        item(class(o.outcome()), &order_words(o));
    }
    for c in &r.claims {
        let ours = c.ours.map_or(String::new(), |v| format!(": {}", round(v)));
        let word = c.outcome.words();
        item(class(c.outcome), &format!("{word}: {} ({}; {}{ours})", c.says, c.source, c.asked));
    }
    if let Some(timekeeping) = super::emulated::timekeeping(&r.emulated) {
        item("good", &timekeeping);
    }
    for m in &r.missing {
        item("middling", &format!("not run: {}: {}", m.arm, m.because));
    }
    out
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "good",
        Outcome::Open | Outcome::NotRun => "middling",
        Outcome::Fails => "bad",
    }
}

fn numbers(r: &Record) -> String {
    let mut header = vec![String::new()];
    header.extend(r.columns.iter().map(|c| escape(c)));
    header.push("verdict".into());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = r
        .rows
        .iter()
        .map(|row| {
            let mut cells = vec![escape(&row.label)];
            cells.extend(r.columns.iter().map(|c| cell(row, c)));
            cells.push(row.verdict.map_or(String::new(), |v| dot(v) + v.words()));
            cells
        })
        .collect();
    table(&header, &rows)
}

fn cell(row: &Row, column: &str) -> String {
    row.cells
        .iter()
        .find(|c| c.column == column)
        .map_or(String::new(), |n| n.verdict.map_or(String::new(), dot) + &escape(&number(n)))
}

fn dot(v: Verdict) -> String {
    let band = match v {
        Verdict::Agrees => "b3",
        Verdict::Open => "b1",
        Verdict::Differs => "b0",
    };
    format!("<span class=\"dot {band}\"></span>")
}

fn paragraphs(text: &str) -> String {
    let parts = text.split("\n\n").map(str::trim).filter(|p| !p.is_empty());
    parts.map(|p| format!("<p>{}</p>", escape(p))).collect()
}

/// Encodes SVG for a data address.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(byte as char),
            b'-' | b'.' | b'_' | b'~' | b' ' | b'=' | b':' | b'/' | b',' | b'(' | b')' => {
                out.push(byte as char)
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
