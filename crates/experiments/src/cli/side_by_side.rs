//! `fairmesh-experiments side-by-side`.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::reproduce::catalogue::Catalogue;
use crate::side_by_side::arms::arms;
use crate::side_by_side::declare::Declaration;
use crate::side_by_side::plan::{Choice, Plan};
use crate::side_by_side::record::Record;
use crate::side_by_side::topology::Group;
use crate::side_by_side::{RECORD, page, picture};
use fairmesh_lab::files::folder::{MARK, ResultFolder, write_file};
use fairmesh_report::table;

use super::args::SideBySideArgs;
use super::documents::{Documents, check_all, write_all};
use super::today;
use fairmesh_front::error::CliError;
use fairmesh_front::terminal::with_bars;

/// Runs every control on every topology, or makes the page of the kept record.
///
/// # Errors
/// Bad input; [`CliError::Verdict`] when `--check` finds a page or picture that is not what the
/// record gives.
pub fn run(args: &SideBySideArgs, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    if args.today {
        return today::run(args, command, out);
    }
    let catalogue = Catalogue::find(args.from.as_deref())?;
    let docs = args.docs.clone().unwrap_or_else(|| PathBuf::from("docs"));
    if args.page || args.check {
        let record = Record::kept(&catalogue)?;
        return if args.check {
            check(&record, &docs, out)
        } else {
            write_docs(&record, &docs, out)
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
    let declaration = Declaration::read(&catalogue)?;
    let choice = Choice {
        maps: args.map.clone(),
        quick: args.quick,
        seeds: args.seeds,
        controls: args.control.clone(),
    };
    let plan = Plan::of(&catalogue, &declaration, &choice)?;
    // Some controls: what is kept of the others stays.
    let other = |what| {
        let problem = format!(
            "the kept record has {what}; expected the same maps and seeds as it has, or no --control"
        );
        CliError::option("--record", problem)
    };
    let kept = match args.record && !args.control.is_empty() {
        true => Some(Record::kept(&catalogue)?),
        false => None,
    };
    if let Some(kept) = &kept {
        kept.fits(&plan).map_err(other)?;
    }
    // The place is claimed before anything runs.
    let target = match &args.out {
        Some(folder) => Some(folder.as_path()),
        None if args.json => None,
        None => Some(Path::new("results/side-by-side")),
    };
    let folder = target.map(ResultFolder::claim).transpose()?;
    let outcomes = with_bars(args.threads, |pool| plan.run(pool))?;
    let mut record = Record::of(&plan, &outcomes, plain(args, command));
    if let Some(kept) = kept {
        let names: Vec<String> = arms(&declaration).into_iter().map(|a| a.name).collect();
        record = kept.updated(record, &names).map_err(other)?;
    }
    let json = record.json().map_err(|e| CliError::file(MARK, e))?;
    if let Some(folder) = folder {
        folder.write("side-by-side.svg", svg(&record)?.as_bytes())?;
        let local =
            page::page(&record).replace(&format!("../{}", page::PICTURE), "side-by-side.svg");
        folder.write("side-by-side.md", local.as_bytes())?;
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
            writeln!(out, "Page: {}", target.join("side-by-side.md").display())?;
        }
    }
    if keep.is_some() {
        let mut silent = std::io::sink();
        write_docs(&record, &docs, if args.json { &mut silent } else { out })?;
    }
    Ok(())
}

/// The command without the paths of whoever ran it.
fn plain(args: &SideBySideArgs, command: &str) -> String {
    if !args.record {
        return command.to_owned();
    }
    let mut line = "fairmesh-experiments side-by-side".to_owned();
    for map in &args.map {
        let name = map.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        line += &format!(" --map {name}");
    }
    if args.quick {
        line += " --quick";
    }
    if let Some(seeds) = args.seeds {
        line += &format!(" --seeds {seeds}");
    }
    if !args.control.is_empty() {
        line += &format!(" --control {}", args.control.join(","));
    }
    line + " --record"
}

fn svg(record: &Record) -> Result<String, CliError> {
    picture::svg(record).map_err(|e| CliError::Verdict(format!("the picture: {e}")))
}

fn documents(record: &Record, docs: &Path) -> Result<Documents, CliError> {
    Ok([(docs.join(page::PAGE), page::page(record)), (docs.join(page::PICTURE), svg(record)?)])
}

fn write_docs(record: &Record, docs: &Path, out: &mut dyn Write) -> Result<(), CliError> {
    write_all(&documents(record, docs)?, out)
}

fn check(record: &Record, docs: &Path, out: &mut dyn Write) -> Result<(), CliError> {
    check_all(&documents(record, docs)?, "fairmesh-experiments side-by-side --page", out)
}

/// The tables for people.
fn show(record: &Record, out: &mut dyn Write) -> Result<(), CliError> {
    for group in Group::ALL {
        let rows = record.group(group);
        if rows.is_empty() {
            continue;
        }
        let mut t = table::table(&page::COLUMNS);
        for (arm, mean) in rows {
            let told = if arm.told { "fair rates" } else { "nothing" };
            let first = [arm.name.clone(), arm.at.clone(), told.to_owned()];
            table::row(&mut t, first.into_iter().chain(page::row(&mean.measures)));
        }
        writeln!(out, "{}\n{t}\n", group.words())?;
    }
    Ok(())
}
