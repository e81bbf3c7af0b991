//! The screen of a paper: every sentence with its outcome and number, then the main figures.

use std::fmt::Write as _;

use super::kept::{DETAILS_FOLDER, Kept, total};
use super::papers::{Cause, Known};
use super::record::Record;
use super::sentence::{Sentence, sentences};
use super::tally::Tally;
use super::text::round;
use super::verdict::Outcome;

/// Returns the page of a paper. `figures`: pictures beside the page, with their titles.
pub(super) fn screen(
    name: &str,
    p: &Known,
    part: &[&Kept],
    figures: &[(String, String)],
) -> String {
    let t = total(part);
    let records: Vec<&Record> = part.iter().filter_map(|k| k.record.as_ref()).collect();
    let mut out = format!("# {}\n\n{}. [The rule](../{name}.md).\n\n", p.name, p.title);
    let _ = writeln!(
        out,
        "Of {} printed numbers {} agree, {} are open, {} differ. Of {} sentences {} hold, {} are open, {} fail, {} were not run.\n\
         {} numbers are worked out from the text and only shown.",
        t.judged(),
        t.agree,
        t.open,
        t.differ,
        t.sentences(),
        t.hold,
        t.sentences_open,
        t.fail,
        t.sentences_not_run,
        t.not_printed,
    );
    if !p.open.is_empty() {
        let _ = writeln!(out, "\n{}", p.open);
    }
    let all = sentences(records.iter().copied());
    for (outcome, heading) in [
        (Outcome::Fails, "Sentences that fail"),
        (Outcome::Open, "Sentences that are open"),
        (Outcome::NotRun, "Sentences that were not run"),
    ] {
        let some: Vec<&Sentence<'_>> = all.iter().filter(|s| s.outcome == outcome).collect();
        if !some.is_empty() {
            let causes = if outcome == Outcome::Fails { &p.cause[..] } else { &[] };
            let _ = write!(out, "\n## {heading}\n\n{}", table(&some, causes));
        }
    }
    let holding: Vec<&Sentence<'_>> = all.iter().filter(|s| s.outcome == Outcome::Holds).collect();
    if !holding.is_empty() {
        let _ = write!(
            out,
            "\n<details><summary>{} sentences that hold</summary>\n\n{}\n</details>\n",
            holding.len(),
            table(&holding, &[])
        );
    }
    out += &numbers(part);
    if !figures.is_empty() {
        out += "\n## Figures\n\nWhiskers are 95 % intervals; black marks are printed by the paper, grey ones worked out from its text.\n";
        for (path, title) in figures {
            let _ = write!(out, "\n![{title}]({path})\n");
        }
    }
    if !p.absent.is_empty() {
        out += "\n## Absent\n\n";
        for a in &p.absent {
            let _ = writeln!(out, "- {}: {}.", a.what, a.because);
        }
    }
    let _ = write!(
        out,
        "\n[Details]({DETAILS_FOLDER}/{}.md): tables, second tables, cells of sentences, readings and causes.\n",
        p.page
    );
    out
}

/// Returns sentences with the number of their worst cell, and with their causes.
fn table(some: &[&Sentence<'_>], causes: &[Cause]) -> String {
    let mut out = String::from(match causes {
        [] => "| sentence | where | outcome | number |\n|---|---|---|---|\n",
        _ => "| sentence | where | outcome | number | cause |\n|---|---|---|---|---|\n",
    });
    let safe = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    for s in some {
        let (of, all) = (s.count(s.outcome), s.cells.len());
        let cells = if all > 1 { format!(" ({of} of {all} cells)") } else { String::new() };
        let number = s.worst().map_or(String::new(), |c| match c.ours {
            Some(v) => format!("{}: {}", safe(&c.asked), round(v)),
            None => safe(&c.asked),
        });
        let quote =
            if s.cells.is_empty() { safe(&s.words) } else { format!("“{}”", safe(&s.words)) };
        let _ = writeln!(
            out,
            "| {quote} | {} | {}{cells} | {number} |{}",
            safe(s.source),
            s.outcome.words(),
            match causes.iter().find(|c| c.is_of(s)) {
                Some(cause) => format!(" {} |", safe(&cause.words())),
                None => String::new(),
            }
        );
    }
    out
}

/// Returns counts of printed numbers by experiment, if there are any.
fn numbers(part: &[&Kept]) -> String {
    let mut out = String::new();
    for k in part {
        let Some(record) = &k.record else { continue };
        let t = Tally::of(record);
        if t.judged() == 0 {
            continue;
        }
        if out.is_empty() {
            out += "\n## Printed numbers\n\n| | agree | open | differ | experiment |\n|---|---|---|---|---|\n";
        }
        let place = k.entry.experiment.covered().join(", ");
        let full = k.entry.experiment.full.seeds;
        let seeds = match record.seeds < full {
            true => format!(", {} of {full} seeds", record.seeds),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "| {place} | {} | {} | {} | `{}`{seeds} |",
            t.agree, t.open, t.differ, record.id
        );
    }
    out
}
