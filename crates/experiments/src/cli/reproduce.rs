//! `fairmesh-experiments reproduce`.

use std::fs;
use std::io::Write;
use std::path::Path;

use fairmesh_control::Registry;

use crate::reproduce::catalogue::{Catalogue, RECORDS_FOLDER};
use crate::reproduce::cells::cells;
use crate::reproduce::plan::{Added, Extent, Plan, Runs};
use crate::reproduce::record::Record;
use crate::reproduce::tally::Tally;
use crate::reproduce::{chart, csv, html, kept, page, papers, present, study, text};
use fairmesh_lab::files::folder::{RESULTS_FILE, ResultFolder, write_file};
use fairmesh_lab::{LabError, StoreError};
use fairmesh_report::table;
use serde::Serialize;

use super::args::ReproduceArgs;
use fairmesh_front::output::print_json;

use super::realtime;
use fairmesh_front::error::CliError;
use fairmesh_front::terminal::with_bars_and;

/// Overview of the generated pages; the others are in folders beside it.
const OVERVIEW_PAGE: &str = "results/pages/reproductions.md";

/// Runs experiments, lists them, or generates the pages of the stored records.
///
/// # Errors
/// Bad input.
pub fn run(args: &ReproduceArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let catalogue = Catalogue::find(args.from.as_deref(), Registry::standard())?;
    match args.ids[..] {
        [ref one] if one == "list" => list(&catalogue, args.json, out),
        [ref one] if one == "page" => make_page(args, &catalogue, out),
        [ref one] if one == "judge" => judge(&catalogue, out),
        _ => reproduce(args, &catalogue, out),
    }
}

fn reproduce(
    args: &ReproduceArgs,
    catalogue: &Catalogue,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let extent = Extent {
        full: args.full,
        seeds: args.seeds,
        networks: args.networks,
        maps: args.map.clone(),
        controls: args.control.clone(),
        added: None,
    };
    let records = match (args.record, catalogue.folder()) {
        (true, None) => {
            let problem = "there is no folder reproductions here; expected one to keep records in";
            return Err(CliError::option("--record", problem));
        }
        (true, Some(folder)) => Some(folder.join(RECORDS_FOLDER)),
        (false, _) => None,
    };
    let cache = args.cache.open(args.revision)?;
    let mut plans = Vec::new();
    for id in catalogue.resolve(&args.ids)? {
        let entry = catalogue.read(&id)?;
        let mut extent = extent.clone();
        if args.missing {
            let Some(kept) = kept::kept(catalogue, &id)? else {
                let problem = format!("{id} has no kept record; expected one to complete");
                return Err(CliError::option("--missing", problem));
            };
            extent.added = Added::to(&kept, &entry)
                .map_err(|e| CliError::option("--missing", format!("{id}: {e}")))?;
            if extent.added.is_none() {
                writeln!(out, "{id}: no arm is missing")?;
                continue;
            }
        }
        plans.push(Plan::of(entry, extent, cache.as_ref(), &realtime::refuses)?);
    }
    // Folders are claimed before anything runs.
    let parent = match &args.out {
        Some(folder) => Some(folder.as_path()),
        None if args.json => None,
        None => Some(Path::new("results/reproduce")),
    };
    let folders = plans
        .iter()
        .map(|p| parent.map(|f| ResultFolder::claim(&f.join(&p.entry.id))).transpose())
        .collect::<Result<Vec<_>, _>>()?;
    let unfinished = args.cache.unfinished(args.revision)?;
    let kept = unfinished.as_ref();
    let mut runs = with_bars_and(args.threads, kept, |pool| Runs::of(&plans, pool))?;
    runs.emulate(&plans, realtime::run)?;
    let mut done = Vec::new();
    for ((i, plan), folder) in plans.iter().enumerate().zip(folders) {
        let found =
            with_bars_and(args.threads, kept, |pool| study::record(plan, cache.as_ref(), pool))?;
        let (record, files) = match found {
            Some(found) => (found.record, found.files),
            None => (Record::of(plan, i, &runs), Vec::new()),
        };
        if let Some(folder) = folder {
            let panels = chart::panels(plan, i, &runs, &cells(plan, i, &runs));
            for p in &panels {
                let svg = p.svg().map_err(|e| CliError::Verdict(format!("{}: {e}", p.title)))?;
                folder.write(&p.file_name(), svg.as_bytes())?;
            }
            folder.write("report.html", html::page(&record, &plan.entry, &panels)?.as_bytes())?;
            folder.write("table.csv", csv(&record).as_bytes())?;
            for (name, text) in &files {
                folder.write(name, text.as_bytes())?;
            }
            for (path, text) in present::files(&plan.entry, &record).map_err(CliError::Verdict)? {
                let name = path.rsplit('/').next().unwrap_or(&path);
                folder.write(name, text.as_bytes())?;
            }
            folder.write(RESULTS_FILE, &pretty(&record)?)?;
            folder.finish()?;
        }
        let partial = args.missing || !args.control.is_empty();
        let record = match (&records, partial) {
            (Some(_), true) => {
                let kept = kept::kept(catalogue, &record.id)?.ok_or_else(|| {
                    CliError::option(
                        "--control",
                        "there is no kept record; expected one to complete",
                    )
                })?;
                let id = plan.entry.id.as_str();
                let refused = |e| CliError::option("--record", format!("{id}: {e}"));
                record.completed(&kept, &plan.entry, args.missing).map_err(refused)?
            }
            _ => record,
        };
        if let Some(records) = &records {
            write_file(&records.join(format!("{}.json", record.id)), &pretty(&record)?)?;
        }
        if !args.json {
            writeln!(out, "{}", text::show(&record, &plan.entry))?;
            if let Some(parent) = parent {
                let report = parent.join(&record.id).join("report.html");
                writeln!(out, "Report: {}\n", report.display())?;
            }
        }
        done.push(record);
    }
    if let Some(store) = unfinished {
        match store.remove() {
            // The last process to finish removes all runs.
            Ok(()) | Err(StoreError::InUse(_)) => {}
            Err(e) => return Err(LabError::from(e).into()),
        }
    }
    if args.json {
        return print_json(out, &done);
    }
    if done.len() > 1 {
        writeln!(
            out,
            "{}",
            overview(done.iter().map(|r| (
                r.id.as_str(),
                r.place.as_str(),
                r.title.as_str(),
                Some(r)
            )))
        )?;
        if args.ids.iter().any(|id| id == "all") {
            absent(catalogue, out)?;
        }
    }
    Ok(())
}

fn pretty(record: &Record) -> Result<Vec<u8>, CliError> {
    record.json().map(String::into_bytes).map_err(|e| CliError::file(&record.id, e))
}

/// Returns one line per experiment.
fn overview<'a>(
    of: impl Iterator<Item = (&'a str, &'a str, &'a str, Option<&'a Record>)>,
) -> String {
    let mut t = table::table(&[]);
    // Text is left-aligned.
    t.set_header(["experiment", "of", "shows", "seeds", "outcome"]);
    for (id, place, title, record) in of {
        let seeds = record.map_or(String::new(), |r| r.seeds.to_string());
        let outcome = record.map_or("no record".to_owned(), |r| Tally::of(r).words());
        t.add_row([id.to_owned(), place.to_owned(), title.to_owned(), seeds, outcome]);
    }
    t.to_string()
}

fn list(catalogue: &Catalogue, json: bool, out: &mut dyn Write) -> Result<(), CliError> {
    #[derive(Serialize)]
    struct Listed {
        id: String,
        title: String,
        paper: String,
        place: String,
        recorded: Option<Record>,
    }
    let mut all = Vec::new();
    for id in catalogue.ids()? {
        let e = catalogue.read(&id)?.experiment;
        let recorded = kept::kept(catalogue, &id)?;
        all.push(Listed { id, title: e.title, paper: e.paper, place: e.place, recorded });
    }
    if json {
        return print_json(out, &all);
    }
    let lines = all
        .iter()
        .map(|l| (l.id.as_str(), l.place.as_str(), l.title.as_str(), l.recorded.as_ref()));
    writeln!(out, "{}", overview(lines))?;
    absent(catalogue, out)
}

/// Writes the tables and figures that have no experiment, with the reason.
fn absent(catalogue: &Catalogue, out: &mut dyn Write) -> Result<(), CliError> {
    for p in papers::papers(catalogue)? {
        for a in &p.absent {
            writeln!(out, "absent: {}, {}: {}", p.name, a.what, a.because)?;
        }
    }
    Ok(())
}

/// Judges the stored records again by the current declarations; runs nothing.
fn judge(catalogue: &Catalogue, out: &mut dyn Write) -> Result<(), CliError> {
    let Some(folder) = catalogue.folder() else {
        let problem = "there is no folder reproductions here; expected one with records";
        return Err(CliError::option("judge", problem));
    };
    for id in catalogue.ids()? {
        let Some(record) = kept::kept(catalogue, &id)? else { continue };
        let again = record.again(&catalogue.read(&id)?);
        if again != record {
            write_file(&folder.join(RECORDS_FOLDER).join(format!("{id}.json")), &pretty(&again)?)?;
            writeln!(out, "{id}: {}", Tally::of(&again).words())?;
        }
    }
    Ok(())
}

fn make_page(
    args: &ReproduceArgs,
    catalogue: &Catalogue,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let path = args.out.as_deref().unwrap_or(Path::new(OVERVIEW_PAGE));
    let name = path
        .file_stem()
        .and_then(|n| n.to_str())
        .filter(|_| path.extension().is_some_and(|e| e == "md"));
    let name = name.ok_or_else(|| {
        CliError::option("--out", "is not a page; expected the name of a .md file")
    })?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let made = page::pages(catalogue, name)?;
    for old in [kept::DETAILS_FOLDER, page::FIGURES_FOLDER].map(|f| parent.join(name).join(f)) {
        if old.is_dir() {
            fs::remove_dir_all(&old).map_err(|e| CliError::file(&old, e))?;
        }
    }
    for m in &made {
        write_file(&parent.join(&m.path), m.text.as_bytes())?;
    }
    let folder = parent.join(name);
    writeln!(out, "{}, and {} files in {}", path.display(), made.len() - 1, folder.display())?;
    Ok(())
}
