//! `fairmesh validate`.

use std::io::Write;
use std::path::Path;

use fairmesh_capacity::bianchi::saturation;
use fairmesh_capacity::link::{Access, Traffic};
use fairmesh_engine::{fair_rates, measures};
use fairmesh_scenario::Scenario;
use fairmesh_wifi::airtime::DATA_OVERHEAD;
use serde::Serialize;

use crate::args::{ChangeArgs, ValidateArgs};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::load::load;
use crate::output::json::SCHEMA;
use crate::output::table;
use crate::runner;
use crate::validation::reference::{Measured, Row, read};
use crate::validation::scenario;
use crate::validation::verdict::{Verdict, judge};

/// Rows of `--quick`: every reception rule, RTS, UDP and TCP, short chains, the Stack.
const QUICK: [&str; 12] = [
    "a_11M_n5",
    "a_1M_n10",
    "b_ns2_h1",
    "b_ns2_h3",
    "b_sinr_h5",
    "b_nocap_h4",
    "bv_sack_h2",
    "c_ns2_up_tcp",
    "cj_ns2_up_udp_250k",
    "d_stack_rts1",
    "m_single_250",
    "m_pairs_540",
];

/// Checks a scenario, or the simulator.
///
/// # Errors
/// [`CliError::Verdict`] when a promised row does not agree; bad input as ever.
pub fn run(args: &ValidateArgs, out: &mut dyn Write) -> Result<(), CliError> {
    match &args.scenario {
        Some(path) => check(
            path,
            &ChangeArgs {
                gateway: args.gateway.clone(),
                flows: args.flows,
                ..ChangeArgs::default()
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
    gateway: Option<&'a str>,
    control: &'a str,
    notes: &'a [String],
}

#[derive(Serialize)]
struct FlowSummary<'a> {
    name: &'a str,
    path: Vec<&'a str>,
    hops: u32,
    fair_bps: f64,
}

fn check(
    path: &Path,
    changes: &ChangeArgs,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let loaded = load(path, changes)?;
    let s: &Scenario = &loaded.scenario;
    let refused = |e: fairmesh_engine::EngineError| CliError::Run {
        scenario: loaded.path.display().to_string(),
        problem: e.to_string(),
    };
    let fair = fair_rates(s).map_err(refused)?;
    let name = |n: &fairmesh_units::NodeId| s.nodes[n.index()].name.as_str();
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
        gateway: s.gateway.as_ref().map(name),
        control: &s.control.name,
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
        summary.gateway.map_or(String::new(), |g| format!("; gateway {g}")),
    )?;
    let mut t = table::table(&["flow", "hops", "fair kbit/s", "path"]);
    for f in &summary.flows {
        let fair = format!("{:.1}", f.fair_bps / 1e3);
        table::row(&mut t, [f.name.to_owned(), f.hops.to_string(), fair, f.path.join(" ")]);
    }
    writeln!(out, "{t}")?;
    Ok(())
}

/// A row's outcome with, for saturated cells, the closed form.
#[derive(Serialize)]
struct Outcome {
    #[serde(flatten)]
    verdict: Verdict,
    /// Bianchi's goodput with finite retries, bit/s.
    bianchi_bps: Option<f64>,
    /// Ours within the promised share of it.
    bianchi_agrees: Option<bool>,
}

impl Outcome {
    fn agrees(&self) -> bool {
        self.verdict.agrees && self.bianchi_agrees != Some(false)
    }
}

fn suite(args: &ValidateArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let rows: Vec<Row> = read(&args.reference, "reference.json")?;
    let groups: Vec<&str> = rows.iter().map(|r| r.case.group.as_str()).collect();
    if let Some(unknown) = args.group.iter().find(|g| !groups.contains(&g.as_str())) {
        let mut known = groups.clone();
        known.dedup();
        let problem =
            format!("there is no group \"{unknown}\"; expected one of {}", known.join(", "));
        return Err(CliError::option("--group", problem));
    }
    let wanted = |r: &&Row| {
        r.case.is_modelled()
            && (args.group.is_empty() || args.group.contains(&r.case.group))
            && (!args.quick || QUICK.contains(&r.case.tag.as_str()))
    };
    let rows: Vec<&Row> = rows.iter().filter(wanted).collect();
    let scenarios = rows
        .iter()
        .map(|r| scenario::build(&args.reference, &r.case))
        .collect::<Result<Vec<_>, _>>()?;
    let seeds = |r: &Row| args.seeds.map_or(r.seeds.len() as u64, u64::from);
    let jobs: Vec<(usize, u64)> = rows
        .iter()
        .enumerate()
        .flat_map(|(i, r)| (1..=seeds(r)).map(move |seed| (i, seed)))
        .collect();
    let goodputs = runner::all(args.threads, "validating", &jobs, |&(i, seed)| {
        let record = runner::once(&scenarios[i], seed, None)?;
        Ok(record.flows.iter().map(|f| f.goodput_bps).collect::<Vec<f64>>())
    })?;
    let mut goodputs = goodputs.into_iter();
    let outcomes: Vec<Outcome> = rows
        .iter()
        .zip(&scenarios)
        .map(|(row, s)| {
            let runs: Vec<Vec<f64>> = goodputs.by_ref().take(seeds(row) as usize).collect();
            outcome(row, s, &runs)
        })
        .collect();
    report(args, &outcomes, out)
}

fn outcome(row: &Row, s: &Scenario, runs: &[Vec<f64>]) -> Outcome {
    let measured = |values: Vec<f64>| {
        let (mean, half_width) = measures::mean_ci95(&values);
        Measured { mean, half_width }
    };
    let flows: Vec<Measured> =
        (0..row.flows.len()).map(|i| measured(runs.iter().map(|r| r[i]).collect())).collect();
    let sum = measured(runs.iter().map(|r| r.iter().sum()).collect());
    let bianchi = (row.case.group == "a").then(|| bianchi(row, s));
    let stations = row.flows.len();
    let tolerance = if stations > 20 { 0.03 } else { 0.015 };
    Outcome {
        verdict: judge(row, &flows, sum),
        bianchi_bps: bianchi,
        bianchi_agrees: bianchi.map(|b| (sum.mean / b - 1.0).abs() <= tolerance),
    }
}

/// Goodput of the row's saturated cell by the closed form.
fn bianchi(row: &Row, s: &Scenario) -> f64 {
    let payload = row.case.options.udp_payload_bytes as u32;
    let psdu = payload + 28 + s.mac.llc_bytes + DATA_OVERHEAD;
    let traffic = Traffic { payload, psdu, reverse_psdu: 0, reverse_per_packet: 0.0 };
    let access = if row.case.options.rts { Access::RtsCts } else { Access::Basic };
    saturation(&s.mac.phy, s.mac.rate, &traffic, access, row.flows.len() as u32).goodput
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
