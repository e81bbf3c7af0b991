//! `fairmesh emulate`.

use std::io::{self, Write};

use fairmesh_agent::gateway::config::Mode;
use fairmesh_control::Registry;
use fairmesh_emulator::{EmulateOptions, KernelCongestion, Routing, TcpSettings, clean};
use fairmesh_engine::record::{EmulationRecord, RunRecord};
use fairmesh_lab::batch;
use fairmesh_lab::changes::with_controls;
use fairmesh_lab::comparison::{Comparison, OneRun};
use fairmesh_lab::files::folder::ResultFolder;
use fairmesh_lab::source::load;
use fairmesh_report::brief::Rows;
use fairmesh_report::{rate_changes, results};
use fairmesh_report::{stalls, table, text};
use fairmesh_scenario::Scenario;
use fairmesh_testbed::{Agent, Daemons, Hooks, Programs, Workspace};
use fairmesh_units::Span;

use crate::args::{CongestionArg, EmulateArgs, RoutingArg, TcpArg};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::interrupt;
use fairmesh_front::emulation::{announce, bar, show};
use fairmesh_lab::changes::set_parameters;

/// Emulates a scenario, or removes the remains of earlier emulations.
///
/// # Errors
/// Bad input, missing rights, an interrupt; all namespaces are removed. A run that did not keep
/// real time is [`CliError::Verdict`]; its results are written too.
pub fn run(
    args: &EmulateArgs,
    command: &str,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    if args.clean {
        let removed = clean().map_err(|e| CliError::option("--clean", e))?;
        for name in &removed {
            writeln!(out, "removed {name}")?;
        }
        writeln!(out, "{} namespaces of earlier emulations removed", removed.len())?;
        return Ok(());
    }
    // The parser requires a scenario except for `--clean`.
    let path = args.scenario.clone().unwrap_or_default();
    let loaded = load(&path, &args.changes.changes(), registry)?;
    let scenario = &loaded.scenario;
    warn(scenario.warnings());
    let folder = args.out.as_deref().map(ResultFolder::claim).transpose()?;
    let mut scenarios = with_controls(scenario, &args.control, registry)?;
    set_parameters(&mut scenarios, &args.set)?;
    let sample = args.sample.sample;
    let curves = folder.is_some() || !scenario.rate_changes().is_empty();
    let sample = sample.or_else(|| curves.then(|| batch::sample_interval(scenario.duration())));
    let mode = if args.observe { Mode::Observe } else { Mode::Apply };
    let daemons = (!args.control.is_empty()).then_some(Daemons { mode, ..Daemons::default() });
    let work = Workspace::new(&scenarios, daemons, &Programs::this()?)?;
    let mut emulated = Vec::new();
    for (i, scenario) in scenarios.iter().enumerate() {
        emulated.push(vec![one(scenario, args, sample, work.agent(i))?]);
    }
    let mut records = Vec::new();
    if args.beside {
        for scenario in &scenarios {
            let seeds = (0..args.beside_seeds).map(|n| args.seed.saturating_add(u64::from(n)));
            let runs = seeds.map(|seed| batch::once(scenario, seed, sample));
            records.push(runs.collect::<Result<Vec<_>, _>>()?);
        }
    }
    records.append(&mut emulated);
    if args.json {
        match &records[..] {
            [only] if args.control.is_empty() => {
                print_json(out, &OneRun::of(&only[0], scenario.warnings()))?
            }
            _ => print_json(out, &Comparison::of(&records))?,
        }
    } else {
        match &records[..] {
            [only] => out.write_all(text::run(&only[0]).as_bytes())?,
            _ => {
                out.write_all(text::comparison(&Comparison::of(&records), Rows::Worst).as_bytes())?
            }
        }
        let all: Vec<&RunRecord> = records.iter().flatten().collect();
        out.write_all(rate_changes::text(scenario, &all).as_bytes())?;
        for record in all {
            if let Some(e) = &record.emulation {
                write!(out, "\n{}: {}", record.control, summary(e))?;
            }
        }
    }
    if let Some(folder) = folder {
        for (name, bytes) in work.files()? {
            folder.write(&name, &bytes)?;
        }
        results::write(folder, &loaded, &Comparison::of(&records), &records, command)?;
    }
    out.flush()?;
    // Simulated runs among them are always valid.
    judged(records.iter().flatten())
}

/// Runs one emulation, with or without daemons.
fn one(
    scenario: &Scenario,
    args: &EmulateArgs,
    sample: Option<Span>,
    agent: Option<Agent>,
) -> Result<RunRecord, CliError> {
    let with_daemon = agent.is_some();
    let bar = bar(scenario, args.shell.is_none());
    let hooks = Hooks {
        stop: interrupt::awaited(),
        ready: &mut |network| announce(scenario, network, args.json),
        progress: &mut |p| show(&bar, p),
    };
    let record = fairmesh_testbed::run(scenario, &options(args, sample), agent, hooks);
    bar.finish_and_clear();
    let mut record = record?;
    if !with_daemon && !args.control.is_empty() {
        record.control += " fifo";
    }
    Ok(record)
}

fn options(args: &EmulateArgs, sample: Option<Span>) -> EmulateOptions {
    EmulateOptions {
        seed: args.seed,
        sample,
        routing: match args.routing {
            RoutingArg::Static => Routing::Static,
            RoutingArg::Babeld => Routing::Babeld,
        },
        congestion: match args.congestion {
            CongestionArg::Scenario => None,
            CongestionArg::Reno => Some(KernelCongestion::Reno),
            CongestionArg::Cubic => Some(KernelCongestion::Cubic),
            CongestionArg::Bbr => Some(KernelCongestion::Bbr),
        },
        tcp: match args.tcp {
            TcpArg::Scenario => TcpSettings::Scenario,
            TcpArg::Kernel => TcpSettings::Kernel,
        },
        arp: args.arp,
        traffic: !args.no_traffic,
        exec: args.exec.chunks_exact(2).map(|e| (e[0].clone(), e[1].clone())).collect(),
        shell: args.shell.clone(),
        kernel_time: args.kernel_time,
        log: false,
    }
}

/// Reports in red the runs that did not keep real time.
///
/// # Errors
/// [`CliError::Verdict`] if there is one.
pub(crate) fn judged<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> Result<(), CliError> {
    let why: Vec<String> = runs.filter_map(invalid).collect();
    if why.is_empty() {
        return Ok(());
    }
    let _ = writeln!(io::stderr(), "{}", red(&format!("INVALID: {}", why.join("; "))));
    Err(CliError::Verdict("the emulated run is invalid, see above".into()))
}

/// Returns the reason why an emulated run is invalid.
fn invalid(record: &RunRecord) -> Option<String> {
    let e = record.emulation.as_ref()?;
    (!e.valid).then(|| e.problems.join("; "))
}

/// Summarises the timing of the run and the losses of its queues.
pub(crate) fn summary(e: &EmulationRecord) -> String {
    let l = &e.lateness_s;
    let us = |s: f64| format!("{:.0} µs", s * 1e6);
    let mut t = table::table(&[
        "interface",
        "from kernel",
        "to kernel",
        "dropped, queue full",
        "no receiver",
    ]);
    for i in &e.interfaces {
        let counts = [i.from_kernel, i.to_kernel, i.queue_drops, i.unreachable];
        let name = format!("{} {}", i.node, i.interface);
        table::row(&mut t, [name].into_iter().chain(counts.map(|c| c.to_string())));
    }
    let notes: String = e.notes.iter().map(|n| format!("note: {n}\n")).collect();
    format!(
        "Frames between kernel and engine\n{t}\n\n{notes}\
         lateness of {} events: median {}, 99 % below {}, latest {}\n\
         {}\n",
        l.events,
        us(l.p50),
        us(l.p99),
        us(l.max),
        stalls::text(&e.stalls)
    )
}

/// Formats text in red if standard error is a terminal and NO_COLOR is not set.
fn red(text: &str) -> String {
    use std::io::IsTerminal;
    let plain = !io::stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    if plain { text.to_owned() } else { format!("\u{1b}[31m{text}\u{1b}[0m") }
}
