//! `fairmesh optimum`.

use std::io::Write;
use std::ops::ControlFlow;

use fairmesh_control::Registry;
use fairmesh_lab::Store;
use fairmesh_lab::optimum::{Found, OptimumReport, SharingUnit, Stop, optimum_of};
use fairmesh_lab::source::load;
use fairmesh_lab::summary::flow_label;
use fairmesh_report::table;
use fairmesh_scenario::Scenario;

use crate::args::{OptimumArgs, Share, ThreadArgs};
use crate::commands::{print_json, warn};
use crate::error::CliError;
use crate::terminal;

/// Searches the optimum of a scenario, and shows it beside the analytic models.
///
/// # Errors
/// Bad input.
pub fn run(args: &OptimumArgs, registry: &Registry, out: &mut dyn Write) -> Result<(), CliError> {
    let scenario =
        load(&args.scenario.scenario, &args.scenario.changes.changes(), registry)?.scenario;
    warn(scenario.warnings());
    let store = args.cache.open(args.revision)?;
    let found = search(&scenario, args.per, store.as_ref(), args.threads)?;
    let report = OptimumReport::new(&scenario, found.optimum, found.kept);
    if args.json {
        return print_json(out, &report);
    }
    out.write_all(text(&report).as_bytes())?;
    Ok(())
}

/// Takes the optimum from a store, or searches it; reports one that cannot be stored.
///
/// # Errors
/// Returns the engine's errors, and an error if the store cannot be read.
pub fn search(
    scenario: &Scenario,
    per: Option<Share>,
    store: Option<&Store>,
    threads: ThreadArgs,
) -> Result<Found, CliError> {
    let per = per.map_or_else(|| SharingUnit::usual(scenario), Share::per);
    let threads = terminal::threads(threads);
    let found = terminal::with_counter("searching the optimum", |count| {
        optimum_of(scenario, per, store, threads, &|p| {
            count(p.runs, 100 * p.events / p.most_events.max(1));
            ControlFlow::Continue(())
        })
    });
    let found = found?;
    if let Some(e) = &found.unkept {
        warn(&[format!("{e}; the optimum is not kept")]);
    }
    Ok(found)
}

fn text(r: &OptimumReport) -> String {
    let kbit = |rate: Option<f64>| table::optional(rate, 1e-3, 1);
    let mut flows = table::table(&[
        "flow",
        "hops",
        "optimum kbit/s",
        "limit kbit/s",
        "held by",
        "domains kbit/s",
        "cliques kbit/s",
    ]);
    for f in &r.flows {
        let held = match f.stop {
            Some(Stop::Air) => "air",
            Some(Stop::Demand) => "demand",
            Some(Stop::Effort) => "end of search",
            Some(Stop::Nothing) => "carries nothing",
            None => "–",
        };
        table::row(
            &mut flows,
            [
                flow_label(&f.name, &f.from, &f.to),
                f.hops.to_string(),
                kbit(Some(f.optimum_bps)),
                kbit(f.limit_bps),
                held.to_owned(),
                kbit(f.models_bps.domains),
                kbit(f.models_bps.cliques),
            ],
        );
    }
    let sum = [Some(r.sum_optimum_bps), None, None, r.sum_models_bps.domains];
    let sum = sum.into_iter().chain([r.sum_models_bps.cliques]).enumerate();
    let cells = sum.map(|(i, v)| if i == 1 || i == 2 { String::new() } else { kbit(v) });
    table::row(&mut flows, ["sum".to_owned(), String::new()].into_iter().chain(cells));
    let s = &r.search;
    let parts = match s.stretches.len() {
        1 => String::new(),
        n => format!(", averaged over {n} stretches with the same flows"),
    };
    let from = if r.kept { "kept from an earlier search" } else { "searched" };
    let ended = match r.bounded {
        false => String::new(),
        true => format!(
            "\nThe search ended at its bound, after {:.2} thousand million events of simulations: flows \
             that it had not finished may\nbe able to have more. All can have the rates above. Fewer \
             flows (--flow-count) are searched to the end.\n",
            s.events as f64 / 1e9
        ),
    };
    format!(
        "{}: max-min rates that the simulator carries under limits at the sources, {from} in {} \
         runs{parts}\n\n{flows}{ended}\n",
        r.scenario, s.runs,
    )
}
