//! `fairmesh validate`.

use std::io::Write;
use std::path::Path;

use fairmesh_control::Registry;
use fairmesh_engine::{fair_rates, needs_fair_rates};
use fairmesh_lab::Changes;
use fairmesh_lab::comparison::SCHEMA;
use fairmesh_lab::source::load;
use fairmesh_report::table;
use fairmesh_scenario::Scenario;
use serde::Serialize;

use crate::args::{FlowDirection, ValidateArgs};
use crate::commands::{print_json, warn};
use crate::error::CliError;

/// Checks a scenario.
///
/// # Errors
/// Bad input.
pub fn run(args: &ValidateArgs, registry: &Registry, out: &mut dyn Write) -> Result<(), CliError> {
    let changes = Changes {
        gateways: args.gateway.clone(),
        flows: args.flows.map(FlowDirection::direction),
        radio: args.radio.radio(),
        ..Changes::default()
    };
    check(&args.scenario, &changes, args.json, registry, out)
}

/// Summary of a valid scenario.
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
    /// Gateways, if there are several.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    fair_bps: Option<f64>,
}

fn check(
    path: &Path,
    changes: &Changes,
    json: bool,
    registry: &Registry,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let loaded = load(path, changes, registry)?;
    let s: &Scenario = &loaded.scenario;
    let refused =
        |e: fairmesh_engine::EngineError| CliError::run(loaded.path.display().to_string(), e);
    let mut notes = s.warnings().to_vec();
    let fair = match fair_rates(s) {
        Ok(fair) => Some(fair),
        Err(e) if needs_fair_rates(s, None) => return Err(refused(e)),
        Err(e) => {
            notes.push(format!("{e}; measures against fair rates are absent"));
            None
        }
    };
    let name = |n: &fairmesh_units::NodeId| s.nodes()[n.index()].name.as_str();
    let list = s.gateways().list();
    let several: Vec<&str> =
        if list.len() > 1 { list.iter().map(name).collect() } else { Vec::new() };
    let gateways = match list {
        [] => String::new(),
        [one] => format!("; gateway {}", name(one)),
        _ => format!("; gateways {}", several.join(", ")),
    };
    let flows = s.flows().iter().enumerate().map(|(i, f)| FlowSummary {
        name: &f.name,
        path: f.path.iter().map(name).collect(),
        hops: f.wireless_hops,
        fair_bps: fair.as_ref().map(|fair| fair.rates_bps[i]),
    });
    let summary = Summary {
        schema: SCHEMA,
        scenario: s.name(),
        nodes: s.nodes().len(),
        links: s.links().len(),
        wires: s.wires().len(),
        flows: flows.collect(),
        duration_s: s.duration().as_secs_f64(),
        warmup_s: s.warmup().as_secs_f64(),
        gateway: if several.is_empty() { s.gateways().first().as_ref().map(name) } else { None },
        gateways: several,
        control: s.control().to_string(),
        notes: &notes,
    };
    if json {
        return print_json(out, &summary);
    }
    warn(&notes);
    writeln!(
        out,
        "{}: correct. {} nodes, {} directed links, {} wires, {} flows; {} simulated, measured from \
         {} on; control {}{}\n",
        loaded.path.display(),
        summary.nodes,
        summary.links,
        summary.wires,
        summary.flows.len(),
        s.duration(),
        s.warmup(),
        summary.control,
        gateways,
    )?;
    let mut t = table::table(&["flow", "hops", "fair kbit/s", "path"]);
    for f in &summary.flows {
        let fair = table::optional(f.fair_bps, 1e-3, 1);
        table::row(&mut t, [f.name.to_owned(), f.hops.to_string(), fair, f.path.join(" ")]);
    }
    writeln!(out, "{t}")?;
    Ok(())
}
