//! `fairmesh-experiments validate`.

use std::io::Write;

use fairmesh_front::error::CliError;
use fairmesh_front::output::print_json;
use fairmesh_front::terminal::with_bars;
use fairmesh_lab::comparison::SCHEMA;
use fairmesh_report::table;
use serde::Serialize;

use super::args::ValidateArgs;
use crate::validation::suite::{self, Choice, Outcome};

/// Compares the simulator with ns-3 and ns-2.
///
/// # Errors
/// [`CliError::Verdict`] when a promised row does not agree; references that cannot be read.
pub fn run(args: &ValidateArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let choice = Choice { quick: args.quick, groups: args.group.clone(), seeds: args.seeds };
    let outcomes = with_bars(args.threads, |pool| suite::run(&args.reference, &choice, pool))?;
    report(args, &outcomes, out)
}

fn report(args: &ValidateArgs, outcomes: &[Outcome], out: &mut dyn Write) -> Result<(), CliError> {
    let promised = || outcomes.iter().filter(|o| o.verdict.promised);
    let failed = promised().filter(|o| !o.agrees()).count();
    if args.json {
        #[derive(Serialize)]
        struct All<'a> {
            schema: u32,
            promised: usize,
            failed: usize,
            rows: &'a [Outcome],
        }
        print_json(
            out,
            &All { schema: SCHEMA, promised: promised().count(), failed, rows: outcomes },
        )?;
    } else {
        print(outcomes, out)?;
    }
    out.flush()?;
    if failed > 0 {
        let n = promised().count();
        return Err(CliError::Verdict(format!("{failed} of {n} promised rows do not agree")));
    }
    Ok(())
}

fn print(outcomes: &[Outcome], out: &mut dyn Write) -> Result<(), CliError> {
    let mut t = table::table(&[
        "case",
        "flow",
        "from",
        "reference kbit/s",
        "ours kbit/s",
        "difference",
        "verdict",
    ]);
    let pair = |mean: f64, ci: f64| format!("{:.1} ± {:.1}", mean / 1e3, ci / 1e3);
    let percent = |v: Option<f64>| v.map_or("–".into(), |v| format!("{:+.1} %", v * 100.0));
    for o in outcomes {
        let v = &o.verdict;
        let word = |agrees: bool| match (agrees, v.promised) {
            (true, _) => "agrees".to_owned(),
            (false, true) => "DIFFERS".to_owned(),
            (false, false) => "differs (not promised)".to_owned(),
        };
        if let Some(reason) = &v.not_run {
            let reason = format!("not run: {reason}");
            let cells = [v.tag.as_str(), "", v.simulator, "", "", "", &reason].map(String::from);
            table::row(&mut t, cells);
        }
        let mut tag = v.tag.clone();
        for l in &v.lines {
            let reference = pair(l.reference_bps, l.reference_half_width);
            let ours = pair(l.ours_bps, l.ours_half_width);
            let cells = [
                std::mem::take(&mut tag),
                l.what.clone(),
                v.simulator.to_owned(),
                reference,
                ours,
                percent(l.difference),
                word(l.agrees),
            ];
            table::row(&mut t, cells);
        }
        if v.same_starved == Some(false) {
            let cells = ["", "starving flows", "", "", "", "", &word(false)].map(String::from);
            table::row(&mut t, cells);
        }
        if let (Some(b), Some(agrees), Some(l)) = (o.bianchi_bps, o.bianchi_agrees, v.lines.first())
        {
            let (form, ours) = (format!("{:.1}", b / 1e3), pair(l.ours_bps, l.ours_half_width));
            let cells = [
                String::new(),
                "sum".into(),
                "Bianchi".into(),
                form,
                ours,
                percent(Some(l.ours_bps / b - 1.0)),
                word(agrees),
            ];
            table::row(&mut t, cells);
        }
    }
    writeln!(out, "{t}\n")?;
    let mut groups: Vec<&str> = outcomes.iter().map(|o| o.verdict.group.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    for g in groups {
        let rows = || outcomes.iter().filter(|o| o.verdict.group == g);
        let absent = rows().filter(|o| o.verdict.not_run.is_some()).count();
        let promised = rows().any(|o| o.verdict.promised);
        let absent_words = if absent > 0 { format!(", {absent} not run") } else { String::new() };
        writeln!(
            out,
            "group {g}: {} of {} rows agree{absent_words}{}",
            rows().filter(|o| o.agrees()).count(),
            rows().count() - absent,
            if promised || absent > 0 { "" } else { " (for information)" }
        )?;
    }
    Ok(())
}
