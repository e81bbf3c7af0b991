//! `fairmesh validate`.

use std::io::Write;
use std::path::Path;

use fairmesh_engine::fair_rates;
use fairmesh_experiments::validation::suite::{self, Choice, Outcome};
use fairmesh_lab::Changes;
use fairmesh_lab::comparison::SCHEMA;
use fairmesh_lab::source::load;
use fairmesh_report::table;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use crate::args::{ValidateArgs, Way};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::terminal::with_bars;

/// Checks a scenario, or the simulator.
///
/// # Errors
/// [`CliError::Verdict`] when a promised row does not agree; bad input as ever.
pub fn run(args: &ValidateArgs, out: &mut dyn Write) -> Result<(), CliError> {
    match &args.scenario {
        Some(path) => check(
            path,
            &Changes {
                gateways: args.gateway.clone(),
                flows: args.flows.map(Way::direction),
                radio: args.radio.radio(),
                ..Changes::default()
            },
            args.json,
            out,
        ),
        None => suite(args, out),
    }
}

/// What a correct scenario amounts to.
#[derive(Serialize)]
struct Summary<'a> {
    schema: u32,
    scenario: &'a str,
    nodes: usize,
    links: usize,
    wires: usize,
    flows: Vec<FlowSummary<'a>>,
    duration_s: f64,
    warmup_s: f64,
    /// The gateway, if there is one.
    gateway: Option<&'a str>,
    /// Where there are several, these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateways: Vec<&'a str>,
    control: String,
    notes: &'a [String],
}

#[derive(Serialize)]
struct FlowSummary<'a> {
    name: &'a str,
    path: Vec<&'a str>,
    hops: u32,
    fair_bps: f64,
}

fn check(path: &Path, changes: &Changes, json: bool, out: &mut dyn Write) -> Result<(), CliError> {
    let loaded = load(path, changes)?;
    let s: &Scenario = &loaded.scenario;
    let refused =
        |e: fairmesh_engine::EngineError| CliError::run(loaded.path.display().to_string(), e);
    let fair = fair_rates(s).map_err(refused)?;
    let name = |n: &fairmesh_units::NodeId| s.nodes[n.index()].name.as_str();
    let list = s.gateways.list();
    let several: Vec<&str> =
        if list.len() > 1 { list.iter().map(name).collect() } else { Vec::new() };
    let gateways = match list {
        [] => String::new(),
        [one] => format!("; gateway {}", name(one)),
        _ => format!("; gateways {}", several.join(", ")),
    };
    let flows = s.flows.iter().zip(&fair.rates_bps).map(|(f, &fair_bps)| FlowSummary {
        name: &f.name,
        path: f.path.iter().map(name).collect(),
        hops: f.wireless_hops,
        fair_bps,
    });
    let summary = Summary {
        schema: SCHEMA,
        scenario: &s.name,
        nodes: s.nodes.len(),
        links: s.links.len(),
        wires: s.wires.len(),
        flows: flows.collect(),
        duration_s: s.duration.as_secs_f64(),
        warmup_s: s.warmup.as_secs_f64(),
        gateway: if several.is_empty() { s.gateways.first().as_ref().map(name) } else { None },
        gateways: several,
        control: s.control.to_string(),
        notes: &s.warnings,
    };
    if json {
        return print_json(out, &summary);
    }
    warn(&s.warnings);
    writeln!(
        out,
        "{}: correct. {} nodes, {} directed links, {} wires, {} flows; {} simulated, measured from \
         {} on; control {}{}\n",
        loaded.path.display(),
        summary.nodes,
        summary.links,
        summary.wires,
        summary.flows.len(),
        s.duration,
        s.warmup,
        summary.control,
        gateways,
    )?;
    let mut t = table::table(&["flow", "hops", "fair kbit/s", "path"]);
    for f in &summary.flows {
        let fair = format!("{:.1}", f.fair_bps / 1e3);
        table::row(&mut t, [f.name.to_owned(), f.hops.to_string(), fair, f.path.join(" ")]);
    }
    writeln!(out, "{t}")?;
    Ok(())
}

fn suite(args: &ValidateArgs, out: &mut dyn Write) -> Result<(), CliError> {
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
    let mut t =
        table::table(&["case", "flow", "ns-3 kbit/s", "ours kbit/s", "difference", "verdict"]);
    let pair = |mean: f64, ci: f64| format!("{:.1} ± {:.1}", mean / 1e3, ci / 1e3);
    let percent = |v: Option<f64>| v.map_or("–".into(), |v| format!("{:+.1} %", v * 100.0));
    for o in outcomes {
        let v = &o.verdict;
        let word = |agrees: bool| match (agrees, v.promised) {
            (true, _) => "agrees".to_owned(),
            (false, true) => "DIFFERS".to_owned(),
            (false, false) => "differs (not promised)".to_owned(),
        };
        let mut tag = v.tag.clone();
        for l in &v.lines {
            let reference = pair(l.reference_bps, l.reference_half_width);
            let ours = pair(l.ours_bps, l.ours_half_width);
            let cells = [
                std::mem::take(&mut tag),
                l.what.clone(),
                reference,
                ours,
                percent(l.difference),
                word(l.agrees),
            ];
            table::row(&mut t, cells);
        }
        if v.same_starved == Some(false) {
            let cells = ["", "who starves", "", "", "", &word(false)].map(String::from);
            table::row(&mut t, cells);
        }
        if let (Some(b), Some(agrees), Some(l)) = (o.bianchi_bps, o.bianchi_agrees, v.lines.first())
        {
            let (form, ours) = (format!("{:.1}", b / 1e3), pair(l.ours_bps, l.ours_half_width));
            let cells = [
                String::new(),
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
        let promised = rows().next().is_some_and(|o| o.verdict.promised);
        writeln!(
            out,
            "group {g}: {} of {} rows agree{}",
            rows().filter(|o| o.agrees()).count(),
            rows().count(),
            if promised { "" } else { " (for information)" }
        )?;
    }
    Ok(())
}
