//! `fairmesh capacity`.

use std::io::Write;

use crate::args::CapacityArgs;
use crate::commands::print_json;
use crate::error::CliError;
use crate::output::table;
use crate::study::accuracy;

/// Analyses a scenario, or the models themselves.
///
/// # Errors
/// Bad input; a page that cannot be written.
pub fn run(args: &CapacityArgs, _command: &str, out: &mut dyn Write) -> Result<(), CliError> {
    if let Some(topologies) = args.accuracy {
        return accuracy(args, topologies, out);
    }
    Ok(())
}

fn accuracy(args: &CapacityArgs, topologies: u32, out: &mut dyn Write) -> Result<(), CliError> {
    let settings =
        accuracy::Settings { topologies, seeds: args.seeds, ..accuracy::Settings::default() };
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
