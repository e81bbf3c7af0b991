//! `fairmesh-experiments side-by-side --today`.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::reproduce::catalogue::Catalogue;
use crate::today::plan::{Choice, Plan};
use crate::today::record::Record;
use crate::today::{PAGE, PICTURE, RECORD, page, picture};
use fairmesh_lab::files::folder::{MARK, ResultFolder, write_file};
use fairmesh_report::table;

use super::args::SideBySideArgs;
use super::documents::{check_all, write_all};
use fairmesh_front::error::CliError;
use fairmesh_front::terminal::with_bars;

/// Runs every case on every topology, or makes the page of the kept record.
///
/// # Errors
/// Bad input; [`CliError::Verdict`] when `--check` finds a page or picture that is not what the
/// record gives.
pub fn run(args: &SideBySideArgs, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    let catalogue = Catalogue::find(args.from.as_deref())?;
    let docs = args.docs.clone().unwrap_or_else(|| PathBuf::from("docs"));
    if args.page || args.check {
        let made = documents(&Record::kept(&catalogue)?, &docs);
        return match args.check {
            true => check_all(&made, "fairmesh-experiments side-by-side --today --page", out),
            false => write_all(&made, out),
        };
    }
    let keep = match (args.record, catalogue.folder()) {
        (true, None) => {
            let problem = "there is no folder reproductions here; expected one to keep a record in";
            return Err(CliError::option("--record", problem));
        }
        (true, Some(folder)) => Some(folder.join(RECORD)),
        (false, _) => None,
    };
    let plan = Plan::of(&catalogue, Choice { quick: args.quick, seeds: args.seeds })?;
    // The place is claimed before anything runs.
    let target = match &args.out {
        Some(folder) => Some(folder.as_path()),
        None if args.json => None,
        None => Some(Path::new("results/today")),
    };
    let folder = target.map(ResultFolder::claim).transpose()?;
    let outcomes = with_bars(args.threads, |pool| plan.run(pool))?;
    let record = Record::of(&plan, &outcomes, plain(args, command))?;
    let json = record.json().map_err(|e| CliError::file(MARK, e))?;
    if let Some(folder) = folder {
        folder.write("today.svg", picture::svg(&record).as_bytes())?;
        let local = page::page(&record).replace(PICTURE, "today.svg");
        folder.write("today.md", local.as_bytes())?;
        folder.write(MARK, json.as_bytes())?;
        folder.finish()?;
    }
    if let Some(path) = &keep {
        write_file(path, json.as_bytes())?;
    }
    if args.json {
        write!(out, "{json}")?;
    } else {
        show(&record, out)?;
        if let Some(target) = target {
            writeln!(out, "Page: {}", target.join("today.md").display())?;
        }
    }
    if keep.is_some() {
        let mut silent = std::io::sink();
        write_all(&documents(&record, &docs), if args.json { &mut silent } else { out })?;
    }
    Ok(())
}

/// The command without the paths of whoever ran it.
fn plain(args: &SideBySideArgs, command: &str) -> String {
    if !args.record {
        return command.to_owned();
    }
    let mut line = "fairmesh-experiments side-by-side --today".to_owned();
    if args.quick {
        line += " --quick";
    }
    if let Some(seeds) = args.seeds {
        line += &format!(" --seeds {seeds}");
    }
    line + " --record"
}

fn documents(record: &Record, docs: &Path) -> [(PathBuf, String); 2] {
    [(docs.join(PAGE), page::page(record)), (docs.join(PICTURE), picture::svg(record))]
}

/// The tables for people.
fn show(record: &Record, out: &mut dyn Write) -> Result<(), CliError> {
    for (s, section) in record.sections.iter().enumerate() {
        let mut t = table::table(&page::COLUMNS);
        for (case, info) in record.of_section(s) {
            let first = std::iter::once(info.label.clone());
            table::row(&mut t, first.chain(page::row(record, case)));
        }
        writeln!(out, "{}\n{t}\n", section.title)?;
    }
    Ok(())
}
