//! `fairmesh capacity`.

use std::io::Write;

use fairmesh_scenario::{Direction, ReceptionDraft};

use crate::args::{CapacityArgs, Reception, ScenarioArgs, Way};
use crate::capacity::{Capacity, page, text};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::load::load;
use crate::output::folder::PendingFile;
use crate::output::table;
use crate::report::Drawing;
use crate::study::accuracy;

/// Analyses a scenario, or the models themselves.
///
/// # Errors
/// Bad input; a page that cannot be written.
pub fn run(args: &CapacityArgs, command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    if let Some(topologies) = args.accuracy {
        return accuracy(args, topologies, out);
    }
    let wanted = ScenarioArgs {
        scenario: args.scenario.clone().unwrap_or_default(),
        gateway: args.gateway.clone(),
        flows: args.flows,
        flow_count: args.flow_count,
        rate: args.rate,
        ..ScenarioArgs::default()
    };
    let loaded = load(&wanted)?;
    let page = args.html.as_deref().map(PendingFile::create).transpose()?;
    let capacity = Capacity::of(&loaded.scenario, args.hears)?;
    if !args.json {
        warn(&loaded.scenario.warnings);
        out.write_all(text::tables(&capacity).as_bytes())?;
    }
    if let (Some((pending, mut file)), Some(path)) = (page, &args.html) {
        let drawing = Drawing::from(&loaded.scenario);
        file.write_all(page::render(&capacity, &drawing, command).as_bytes())
            .map_err(|e| CliError::file(path, format!("cannot be written: {e}")))?;
        pending.finish()?;
        if !args.json {
            writeln!(out, "\nPage: {}", path.display())?;
        }
    }
    if args.json {
        print_json(out, &capacity)?;
    }
    Ok(())
}

fn accuracy(args: &CapacityArgs, topologies: u32, out: &mut dyn Write) -> Result<(), CliError> {
    let settings = accuracy::Settings {
        topologies,
        seeds: args.seeds,
        direction: match args.flows {
            Some(Way::Down) => Direction::Down,
            _ => Direction::Up,
        },
        reception: match args.reception {
            Reception::Ns2 => ReceptionDraft::Ns2,
            Reception::Sinr => ReceptionDraft::Sinr,
        },
        ..accuracy::Settings::default()
    };
    let study = accuracy::run(settings, args.threads)?;
    if args.json {
        return print_json(out, &study);
    }
    writeln!(
        out,
        "Computed against simulated fair-share points (Jamshaid 2010, Table 4.1): {topologies} random \
         meshes of 25 to 40 streams, {} seeds per rate\n",
        args.seeds
    )?;
    let mut t = table::table(&["model", "RTS/CTS", "meshes", "mean error", "std deviation"]);
    for r in &study.rows {
        let rts = if r.rts { "with" } else { "without" };
        let cells = [format!("{:+.3}", r.mean), format!("{:.3}", r.std)];
        table::row(
            &mut t,
            [r.model.to_owned(), rts.to_owned(), r.cases.to_string()].into_iter().chain(cells),
        );
    }
    writeln!(out, "{t}")?;
    Ok(())
}
