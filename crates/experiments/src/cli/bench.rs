//! `fairmesh-experiments bench`.

use std::io::Write;
use std::path::Path;

use crate::bench::instructions::{self, Kept};
use crate::bench::row::{self, Cost};
use crate::bench::{Spread, ns3, scale};
use crate::validation::reference::{Case, read};
use fairmesh_lab::comparison::SCHEMA;
use fairmesh_lab::files::folder::write_file;
use fairmesh_report::table;
use serde::Serialize;

use super::args::{BenchArgs, BenchRowArgs};
use fairmesh_front::error::CliError;
use fairmesh_front::output::{print_json, warn};
use fairmesh_front::terminal;

/// CPU time of each run of this simulator, approximately, s.
const CPU_S: f64 = 1.0;

/// Measures speed.
///
/// # Errors
/// [`CliError::Verdict`] when stored instruction counts are exceeded; a tool that is missing.
pub fn run(args: &BenchArgs, out: &mut dyn Write) -> Result<(), CliError> {
    if args.scale {
        return curve(args, out);
    }
    let cases = cases(args)?;
    if cfg!(debug_assertions) {
        warn(&["not a release build; speeds mean nothing".to_owned()]);
    }
    if args.instructions { count(args, &cases, out) } else { speed(args, &cases, out) }
}

/// Performs one measurement in this process and prints it as JSON.
///
/// # Errors
/// Returns an error if there is no such row.
pub fn row(args: &BenchRowArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let scenario = row::scenario(&args.reference, &args.row, args.seconds)?;
    print_json(out, &row::measure(&args.row, &scenario)?)
}

/// A row and its folder.
type InFolder<'a> = (&'a Path, Case);

fn cases(args: &BenchArgs) -> Result<Vec<InFolder<'_>>, CliError> {
    let mut cases = Vec::new();
    for folder in &args.reference {
        let rows: Vec<Case> = read(folder, "cost.json")?;
        cases.extend(rows.into_iter().map(|case| (folder.as_path(), case)));
    }
    if let Some(unknown) = args.row.iter().find(|r| !cases.iter().any(|c| &c.1.tag == *r)) {
        let known: Vec<&str> = cases.iter().map(|c| c.1.tag.as_str()).collect();
        let problem =
            format!("there is no row \"{unknown}\"; expected one of {}", known.join(", "));
        return Err(CliError::Option { option: "--row".to_owned(), problem });
    }
    cases.retain(|c| args.row.is_empty() || args.row.contains(&c.1.tag));
    Ok(cases)
}

/// One row of the speed table, in MPDUs per CPU-second.
#[derive(Serialize)]
struct Speed {
    row: String,
    nodes: usize,
    fairmesh: Spread,
    ns3: Option<Spread>,
    ratio: Option<f64>,
    peak_kib: i64,
}

fn speed(args: &BenchArgs, cases: &[InFolder<'_>], out: &mut dyn Write) -> Result<(), CliError> {
    // Built before any measurement, and used for each row.
    let harness = |folder| args.against.map(|_| ns3::harness(folder)).transpose();
    for (folder, _) in cases {
        harness(folder)?;
    }
    let bar = terminal::bar(cases.len() * args.repeat as usize, "measuring");
    let mut ours: Vec<Vec<Cost>> = vec![vec![]; cases.len()];
    let mut theirs: Vec<Vec<ns3::Run>> = vec![vec![]; cases.len()];
    let mut seconds = Vec::new();
    for (folder, c) in cases {
        seconds.push(row::long_enough(folder, &c.tag, c.duration_s, CPU_S)?);
    }
    // Alternating, so that a disturbance of the machine affects both.
    for _ in 0..args.repeat {
        for (i, (folder, case)) in cases.iter().enumerate() {
            ours[i].push(row::in_child(folder, &case.tag, Some(seconds[i]))?);
            if let Some(harness) = harness(folder)? {
                theirs[i].push(ns3::run(&harness, folder, case)?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let rows: Vec<Speed> = cases
        .iter()
        .zip(ours.iter().zip(&theirs))
        .map(|((_, case), (ours, theirs))| {
            let fairmesh = Spread::of(&ours.iter().map(Cost::speed).collect::<Vec<_>>());
            let ns3 = (!theirs.is_empty())
                .then(|| Spread::of(&theirs.iter().map(ns3::Run::speed).collect::<Vec<_>>()));
            Speed {
                row: case.tag.clone(),
                nodes: ours[0].nodes,
                fairmesh,
                ns3,
                ratio: ns3.map(|n| fairmesh.median / n.median),
                peak_kib: ours.iter().map(|c| c.peak_kib).max().unwrap_or(0),
            }
        })
        .collect();
    if args.json {
        return print_json(out, &serde_json::json!({ "schema": SCHEMA, "rows": rows }));
    }
    let spread =
        |s: &Spread| [s.median, s.min, s.max].map(|v| format!("{:.0}", v / 1e3)).into_iter();
    let mut header = vec!["row", "nodes", "fairmesh k MPDU/CPU s", "min", "max", "peak MiB"];
    if args.against.is_some() {
        header.extend(["ns-3 k MPDU/CPU s", "min", "max", "ratio"]);
    }
    let mut t = table::table(&header);
    for r in &rows {
        let mut cells = vec![r.row.clone(), r.nodes.to_string()];
        cells.extend(spread(&r.fairmesh));
        cells.push(format!("{:.1}", r.peak_kib as f64 / 1024.0));
        if let (Some(n), Some(ratio)) = (&r.ns3, r.ratio) {
            cells.extend([n.median, n.min, n.max].map(|v| format!("{:.1}", v / 1e3)));
            cells.push(format!("{ratio:.0}×"));
        }
        table::row(&mut t, cells);
    }
    writeln!(
        out,
        "Thousands of MPDUs per CPU-second, one core, control frames included; a frame that is no A-MPDU is one. \
         Median, smallest and largest of {} runs\n\n{t}",
        args.repeat
    )?;
    Ok(())
}

fn curve(args: &BenchArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let bar = terminal::bar(scale::NODE_COUNTS.len() * args.repeat as usize, "measuring");
    let mut rows: Vec<(Cost, Spread)> = Vec::new();
    // The curve is generated; it does not depend on the folder.
    let Some(folder) = args.reference.first() else { return Ok(()) };
    for nodes in scale::NODE_COUNTS {
        let name = format!("scale:{nodes}");
        let seconds = row::long_enough(folder, &name, 2.0, CPU_S)?;
        let mut costs = Vec::new();
        for _ in 0..args.repeat {
            costs.push(row::in_child(folder, &name, Some(seconds))?);
            bar.inc(1);
        }
        let speed = Spread::of(&costs.iter().map(Cost::speed).collect::<Vec<_>>());
        rows.extend(costs.pop().map(|c| (c, speed)));
    }
    bar.finish_and_clear();
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(c, s)| serde_json::json!({ "cost": c, "transmissions_per_cpu_s": s }))
            .collect();
        return print_json(out, &serde_json::json!({ "schema": SCHEMA, "rows": rows }));
    }
    let mut t = table::table(&[
        "nodes",
        "sensed by, mean",
        "tx per simulated s",
        "k tx/CPU s",
        "min",
        "max",
        "ns per tx",
        "peak MiB",
    ]);
    for (c, s) in &rows {
        table::row(
            &mut t,
            [
                c.nodes.to_string(),
                format!("{:.1}", c.mean_neighbours),
                format!("{:.0}", c.transmissions as f64 / c.simulated_s),
                format!("{:.0}", s.median / 1e3),
                format!("{:.0}", s.min / 1e3),
                format!("{:.0}", s.max / 1e3),
                format!("{:.0}", 1e9 / s.median),
                format!("{:.1}", c.peak_kib as f64 / 1024.0),
            ],
        );
    }
    writeln!(out, "Constant density, one flow per three nodes, 11 Mbit/s\n\n{t}")?;
    Ok(())
}

fn count(args: &BenchArgs, cases: &[InFolder<'_>], out: &mut dyn Write) -> Result<(), CliError> {
    let kept: Kept = match std::fs::read(&args.kept) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|e| CliError::file(&args.kept, format!("{e}; expected kept counts")))?,
        Err(_) if args.update => Kept::new(),
        Err(e) => {
            let problem =
                format!("cannot be read ({e}); expected kept counts, --update writes them");
            return Err(CliError::file(&args.kept, problem));
        }
    };
    let bar = terminal::bar(cases.len(), "counting");
    let mut found = Kept::new();
    for (folder, case) in cases {
        let seconds = match kept.get(&case.tag) {
            Some(k) if !args.update => k.simulated_s,
            _ => counted_seconds(folder, case)?,
        };
        found.insert(case.tag.clone(), instructions::count(folder, &case.tag, seconds)?);
        bar.inc(1);
    }
    bar.finish_and_clear();

    let mut t = table::table(&[
        "row",
        "transmissions",
        "instructions",
        "per tx",
        "per packet delivered",
        "change",
        "",
    ]);
    let mut wrong = 0;
    for (tag, f) in &found {
        let old = kept.get(tag);
        let problem = instructions::compare(old, f);
        wrong += usize::from(problem.is_some());
        let change = old.map_or("–".into(), |k| {
            format!("{:+.2} %", (f.instructions as f64 / k.instructions as f64 - 1.0) * 100.0)
        });
        table::row(
            &mut t,
            [
                tag.clone(),
                f.transmissions.to_string(),
                f.instructions.to_string(),
                format!("{:.0}", f.instructions as f64 / f.transmissions.max(1) as f64),
                format!("{:.0}", f.instructions as f64 / f.delivered.max(1) as f64),
                change,
                problem.unwrap_or_default(),
            ],
        );
    }
    if args.json {
        print_json(out, &serde_json::json!({ "schema": SCHEMA, "rows": found, "wrong": wrong }))?;
    } else {
        writeln!(out, "{t}")?;
    }
    out.flush()?;
    if args.update {
        // Rows that were not requested keep their counts.
        let all: Kept = kept.into_iter().chain(found).collect();
        let mut text =
            serde_json::to_vec_pretty(&all).map_err(|e| CliError::file(&args.kept, e))?;
        text.push(b'\n');
        return Ok(write_file(&args.kept, &text)?);
    }
    if wrong > 0 {
        let file = args.kept.display();
        return Err(CliError::Verdict(format!(
            "{wrong} rows cost other than kept in {file}; if the change is meant, run with --update"
        )));
    }
    Ok(())
}

/// Returns the simulated time with about [`instructions::MIN_TRANSMISSIONS`], s.
fn counted_seconds(folder: &Path, case: &Case) -> Result<f64, CliError> {
    let trial = row::in_child(folder, &case.tag, Some(case.duration_s))?;
    let per_second = trial.transmissions as f64 / trial.simulated_s;
    Ok((instructions::MIN_TRANSMISSIONS / per_second.max(1.0)).ceil())
}
