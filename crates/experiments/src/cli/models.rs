//! `fairmesh-experiments accuracy` and `boundary`: the analytic models against the simulator.

use std::io::Write;

use fairmesh_front::error::CliError;
use fairmesh_front::output::print_json;
use fairmesh_front::terminal;
use fairmesh_report::table;
use fairmesh_scenario::{Direction, ReceptionDraft};

use super::args::{AccuracyArgs, BoundaryArgs, FlowDirection, Reception};
use crate::study::{accuracy, boundary};

/// Compares the capacity models with the simulator.
///
/// # Errors
/// Returns an error if the scenario builder, a model or the engine rejects a scenario.
pub fn accuracy(args: &AccuracyArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let topologies = args.meshes;
    let settings = accuracy::Settings {
        topologies,
        seeds: args.seeds,
        direction: match args.flows {
            FlowDirection::Down => Direction::Down,
            FlowDirection::Up => Direction::Up,
        },
        reception: match args.reception {
            Reception::Ns2 => ReceptionDraft::Ns2,
            Reception::Sinr => ReceptionDraft::Sinr,
        },
        ..accuracy::Settings::default()
    };
    let study = terminal::with_bars(args.threads, |pool| accuracy::run(settings, pool))?;
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

/// Compares the region's boundary with the simulator's.
///
/// # Errors
/// Returns an error if the scenario builder, the model or the engine rejects a scenario.
pub fn boundary(args: &BoundaryArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let meshes = args.meshes;
    let settings = boundary::Settings {
        meshes,
        first: args.first,
        rts: !args.no_rts,
        ..boundary::Settings::default()
    };
    let study = terminal::with_bars(args.threads, |pool| boundary::run(settings, pool))?;
    if args.json {
        return print_json(out, &study);
    }
    writeln!(
        out,
        "The boundary of the achievable rate region against the simulator, {} RTS/CTS: {} of {meshes} \
         random meshes confirm it (every flow has {:.0} % at {} of it, and one has not at {})\n",
        if settings.rts { "with" } else { "without" },
        study.confirmed,
        100.0 * boundary::SERVED_FRACTION,
        boundary::INSIDE_MULTIPLE,
        boundary::OUTSIDE_MULTIPLE,
    )?;
    let mut t =
        table::table(&["mesh", "nodes", "hops", "least kbit/s", "inside", "outside", "simulated"]);
    for c in &study.cases {
        let hops: Vec<String> = c.hops.iter().map(ToString::to_string).collect();
        let least = c.rates_bps.iter().copied().fold(f64::INFINITY, f64::min);
        table::row(
            &mut t,
            [
                format!("{}{}", c.mesh, if c.confirmed { "" } else { " *" }),
                c.nodes.to_string(),
                hops.join(" "),
                format!("{:.1}", least / 1e3),
                format!("{:.3}", c.inside),
                format!("{:.3}", c.outside),
                c.simulated.map_or("–".into(), |s| format!("{s:.2}")),
            ],
        );
    }
    writeln!(out, "{t}")?;
    Ok(())
}
