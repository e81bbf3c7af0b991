//! The pages of the stored records.
//!
//! They are generated only from the records, the declarations and the notes: an overview, a screen
//! per paper with its main figures, details of every experiment, and the pages of experiments that
//! declare one. `make site` builds them into the site; none is stored in the project.

use std::fmt::Write as _;

use fairmesh_lab::LabError;

use super::catalogue::{Catalogue, Entry};
use super::chart;
use super::kept::{DETAILS_FOLDER, Kept, kept, total};
use super::papers::{Known, papers};
use super::present;
use super::record::Record;
use super::screen::screen;
use super::section::section;
use super::tally::Tally;

/// Folder of pictures, beside the pages that show them.
pub const FIGURES_FOLDER: &str = "figures";
/// Page of the experiments of no listed paper.
const UNLISTED_PAGE: &str = "others";

const GENERATED_HEADER: &str =
    "<!-- Made by `fairmesh-experiments reproduce page` from reproductions/. Do not edit. -->\n\n";

const VERDICT_RULE: &str = "\
**The rule.** A printed number *agrees* when the whole 95 % interval of ours is within a tenth of it, *differs* when the whole interval is
outside, and is *open* otherwise. Where the paper prints an interval, both are joined. A statement *holds* when its interval lies
wholly on the side that it names, *fails* when wholly on the other side, and is *open* otherwise; \"the same\" is within a tenth, \"starves\" is
below a tenth of the other rate. An order of rows is a statement. Statements that one quotation carries are one *sentence*, and its
worst cell decides. Only mechanisms as they are published are judged: our variants, and readings that the paper's text does not support,
are in second tables. A number that the paper does not print (≈) is shown and not judged. Every judged number and every constant of a statement stands in a
quotation of the paper. ± is half of the 95 % interval (Student's t) over seeds, or over networks where there are several.
";

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Path from the folder of the overview, with slashes.
    pub path: String,
    /// Text.
    pub text: String,
}

/// Returns every page and picture.
///
/// `name` is the file name of the overview, without an extension.
///
/// # Errors
/// Returns an error if a declaration or a record cannot be read, or a picture cannot be drawn.
pub fn pages(catalogue: &Catalogue, name: &str) -> Result<Vec<GeneratedFile>, LabError> {
    let mut all = Vec::new();
    for id in catalogue.ids()? {
        all.push(Kept { record: kept(catalogue, &id)?, entry: catalogue.read(&id)? });
    }
    let known = papers(catalogue)?;
    let of = |paper: Option<&Known>| -> Vec<&Kept> {
        let listed = |k: &Kept| {
            let e = &k.entry.experiment;
            known.iter().find(|p| p.name == e.paper && e.is_quoted()).map(|p| &p.name)
        };
        // An experiment with a separate page is on no other page.
        let shared = all.iter().filter(|k| k.entry.experiment.page.is_none());
        shared.filter(|k| listed(k) == paper.map(|p| &p.name)).collect()
    };
    let text = overview(name, &known, &|p| of(Some(p)));
    let mut made = vec![GeneratedFile { path: format!("{name}.md"), text }];
    for p in &known {
        let part = of(Some(p));
        let mut figures = Vec::new();
        for id in &p.figures {
            let found = part.iter().find(|k| k.entry.id == *id);
            let Some((k, record)) = found.and_then(|k| Some((k, k.record.as_ref()?))) else {
                let problem = format!(
                    "figures: \"{id}\" has no record; expected an experiment of {} that has one",
                    p.name
                );
                return Err(LabError::file(catalogue.shown("papers.toml"), problem));
            };
            let folder = Folder { path: format!("{name}/"), main: true };
            figures.extend(pictures(catalogue, &k.entry, record, &folder, &mut made)?);
        }
        let text = GENERATED_HEADER.to_owned() + &screen(name, p, &part, &figures);
        made.push(GeneratedFile { path: format!("{name}/{}.md", p.page), text });
        let head = format!(
            "# {}: details\n\n[The answers](../{}.md), [the rule](../../{name}.md).\n",
            p.name, p.page
        );
        details(catalogue, name, &p.page, head, &part, &mut made)?;
    }
    let rest = of(None);
    if rest.iter().any(|k| k.record.is_some()) {
        let head = "# Other measurements\n\nOur own measurements with our own targets, and papers of which the text is not at hand.\n";
        details(catalogue, name, UNLISTED_PAGE, head.to_owned(), &rest, &mut made)?;
    }
    for k in &all {
        let Some(record) = &k.record else { continue };
        let files = present::files(&k.entry, record).map_err(|e| LabError::run(&k.entry.id, e))?;
        made.extend(files.into_iter().map(|(path, text)| GeneratedFile { path, text }));
    }
    Ok(made)
}

/// Returns the details of some experiments as one page.
fn details(
    catalogue: &Catalogue,
    name: &str,
    file: &str,
    head: String,
    part: &[&Kept],
    made: &mut Vec<GeneratedFile>,
) -> Result<(), LabError> {
    let mut text = GENERATED_HEADER.to_owned() + &head;
    let folder = Folder { path: format!("{name}/{DETAILS_FOLDER}/"), main: false };
    for k in part {
        let Some(record) = &k.record else { continue };
        let drawn = match record.id.contains("figure") {
            true => pictures(catalogue, &k.entry, record, &folder, made)?,
            false => Vec::new(),
        };
        text += &section(record, &k.entry, &drawn);
    }
    made.push(GeneratedFile { path: format!("{name}/{DETAILS_FOLDER}/{file}.md"), text });
    Ok(())
}

/// A folder of pages and pictures.
struct Folder {
    path: String,
    /// True if its pictures show the main curves only.
    main: bool,
}

/// Draws the charts of a record into a folder; returns their paths and titles.
fn pictures(
    catalogue: &Catalogue,
    entry: &Entry,
    record: &Record,
    folder: &Folder,
    made: &mut Vec<GeneratedFile>,
) -> Result<Vec<(String, String)>, LabError> {
    let mut panels = chart::of_record(entry, record, folder.main);
    let marks = entry.experiment.chart.iter().flat_map(|c| &c.marks);
    for mark in marks {
        let (Some(panel), Some(of)) = (panels.first_mut(), kept(catalogue, &mark.of)?) else {
            continue;
        };
        let row = of.rows.iter().find(|r| r.label == mark.row);
        let value = |column: &String| Some(row?.cells.iter().find(|n| n.column == *column)?.ours);
        match (value(&mark.x), value(&mark.y)) {
            (Some(x), Some(y)) => panel.mark(&mark.row, (x, y)),
            _ => {
                let problem = format!(
                    "mark: {} has no row \"{}\" with columns \"{}\" and \"{}\"",
                    mark.of, mark.row, mark.x, mark.y
                );
                return Err(LabError::run(&entry.id, problem));
            }
        }
    }
    let mut paths = Vec::new();
    for (i, panel) in panels.iter().enumerate() {
        let number = if i == 0 { String::new() } else { format!("-{}", i + 1) };
        let path = format!("{FIGURES_FOLDER}/{}{number}.svg", record.id);
        let text = panel.svg().map_err(|e| LabError::run(&record.id, e))?;
        made.push(GeneratedFile { path: format!("{}{path}", folder.path), text });
        let place = record.place.split(',').next().unwrap_or_default();
        paths.push((path, format!("{place}: {}", record.title)));
    }
    Ok(paths)
}

/// Returns the first screen: the counts by paper, and the rule.
fn overview<'a>(name: &str, known: &[Known], of: &dyn Fn(&Known) -> Vec<&'a Kept>) -> String {
    let mut out = format!(
        "{GENERATED_HEADER}# Reproductions\n\n`fairmesh-experiments reproduce ID` runs the experiment behind a table or figure and puts its numbers beside the\n\
         paper's; `fairmesh-experiments reproduce list` names all, and what is absent with the reason. An experiment is a folder of\n`reproductions/`.\n\n\
         | | numbers | agree | open | differ | sentences | hold | open | fail | not run | absent |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    let mut sum = (Tally::default(), 0);
    let line = |out: &mut String, title: String, t: &Tally, absent: String| {
        let _ = writeln!(out, "| {title} | {} | {absent} |", t.cells());
    };
    for p in known {
        let t = total(&of(p));
        let title = format!("[{}]({name}/{}.md)", p.name, p.page);
        line(&mut out, title, &t, p.absent.len().to_string());
        sum.0 += t;
        sum.1 += p.absent.len();
    }
    if !known.is_empty() {
        line(&mut out, "all".to_owned(), &sum.0, sum.1.to_string());
    }
    let _ = write!(
        out,
        "\n*Not run*: sentences about runs that are declared and not in the records yet. *Absent*: tables and figures without an experiment.\n\n{VERDICT_RULE}"
    );
    let earlier: Vec<_> = known.iter().filter_map(|p| Some((p, p.earlier.as_ref()?))).collect();
    if !earlier.is_empty() {
        out += "\n## The records before this rule\n\n\
                The same count over the records of 26 November 2026, in which our variants were judged in place of the published mechanisms\n\
                and statements were asked in softer words than the papers have.\n\n\
                | | numbers | agree | open | differ | sentences | hold | open | fail | not run |\n|---|---|---|---|---|---|---|---|---|---|\n";
        let mut sum = Tally::default();
        let row = |out: &mut String, title: &str, t: &Tally| {
            let _ = writeln!(out, "| {title} | {} |", t.cells());
        };
        for (p, t) in &earlier {
            row(&mut out, &p.name, t);
            sum += **t;
        }
        row(&mut out, "all", &sum);
    }
    let _ = write!(
        out,
        "\nThe page of a paper links to its details: tables, second tables, pictures, cells of sentences and notes of every experiment.\n\
         [Other measurements]({name}/{DETAILS_FOLDER}/{UNLISTED_PAGE}.md) are our own.\n"
    );
    out
}
