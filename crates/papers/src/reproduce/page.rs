//! `docs/reproductions.md`, made from the kept records and nothing else but the notes.

use std::fmt::Write as _;

use fairmesh_lab::LabError;

use super::catalogue::{Catalogue, RECORDS};
use super::record::{Record, Row};
use super::text::{number, order_words, round, runs};

/// How an unbroken page begins.
const HEAD: &str = "\
<!-- Made by `fairmesh reproduce page` from reproductions/records and the notes beside them. Do not edit. -->

# Reproductions

`fairmesh reproduce ID` runs the experiment behind a table or figure and puts its numbers beside the
paper's. Every experiment is a folder of `reproductions/`: scenarios, the paper's numbers as data, a
declaration of what varies and how it is judged, and notes on what was read from text or decided where
the paper is silent.

**The rule.** A number *agrees* within the tolerance that its declaration states, or within the standard
deviation over networks where the paper states one (its networks are not ours). Otherwise its
*direction is the same* if it is ordered against every other number of its column (or row, where rows
are compared along) as the paper's are, ties within the tolerance apart; otherwise it *differs*. A row
is as good as the worst of its judged numbers. Beside rows there are orders of rows, and statements
that the text makes. In the tables the paper's number stands in brackets, and ± is half of the 95 %
interval (Student's t) over seeds, or over topologies where there are several.
";

/// The page, or the reason why it cannot be made.
///
/// # Errors
/// When a declaration or a record cannot be read.
pub fn page(catalogue: &Catalogue) -> Result<String, LabError> {
    let mut records = Vec::new();
    for id in catalogue.ids()? {
        if let Some(record) = kept(catalogue, &id)? {
            records.push((record, catalogue.read(&id)?));
        }
    }
    let mut out = HEAD.to_owned();
    out += "\n| experiment | shows | seeds | outcome |\n|---|---|---|---|\n";
    for (r, _) in &records {
        let anchor: String = r.id.replace('.', "");
        let _ = writeln!(
            out,
            "| [`{}`](#{anchor}) | {} | {} | {} |",
            r.id,
            r.title,
            r.seeds,
            super::tally::Tally::of(r).words()
        );
    }
    for (r, entry) in &records {
        let _ = write!(out, "\n## {}\n\n**{}.** {}, {}.\n\n", r.id, r.title, r.paper, r.place);
        let _ = write!(out, "{}\n\n", flow(&entry.experiment.about));
        out += &table(r);
        if !r.source.is_empty() {
            let _ = write!(out, "\nTheirs: {}\n", r.source);
        }
        for o in &r.orders {
            let _ = write!(out, "\n- {}.", order_words(o));
        }
        for c in &r.claims {
            let word = c.outcome.words();
            let ours = c.ours.map_or(String::new(), |v| format!("; ours {}", round(v)));
            let _ = write!(out, "\n- {} ({}): {word} ({}{ours}).", c.says, c.source, c.asked);
        }
        for m in &r.missing {
            let _ = write!(out, "\n- Not run: {}: {}.", m.arm, m.because);
        }
        if !(r.orders.is_empty() && r.claims.is_empty() && r.missing.is_empty()) {
            out.push('\n');
        }
        if super::tally::Tally::of(r).differs() && !entry.notes.differs.is_empty() {
            let _ = write!(out, "\n**Why ours differs.** {}\n", entry.notes.differs);
        }
        if !entry.notes.read.is_empty() {
            let _ = write!(out, "\n**Read and decided.** {}\n", entry.notes.read);
        }
        let plural = if r.seeds == 1 { "" } else { "s" };
        let _ = write!(
            out,
            "\n`{}`: {} seed{plural}{}, fingerprint `{}`.\n",
            r.command,
            r.seeds,
            runs(r),
            r.fingerprint
        );
    }
    Ok(out)
}

/// The kept record of an experiment.
///
/// # Errors
/// When it is there and cannot be read.
pub fn kept(catalogue: &Catalogue, id: &str) -> Result<Option<Record>, LabError> {
    let name = format!("{RECORDS}/{id}.json");
    let Some(text) = catalogue.file(&name)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|e| {
        let problem =
            format!("{e}; expected a record, as fairmesh reproduce {id} --record writes it");
        LabError::file(catalogue.shown(&name), problem)
    })
}

/// Lines of a paragraph joined.
fn flow(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
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
            let _ = write!(out, " {} |", row.verdict.map_or("", super::verdict::Verdict::words));
        }
    }
    out.push('\n');
    out
}

fn cell(row: &Row, column: &str) -> String {
    row.cells.iter().find(|c| c.column == column).map_or(String::new(), number)
}
