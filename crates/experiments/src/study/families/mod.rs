//! Controls of the gateway on families of networks, compared with the optimum.
//!
//! Results are per subscriber: the flows of a home in both directions together.

mod networks;

use std::collections::BTreeSet;

use fairmesh_engine::measures;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;
use fairmesh_transport::traffic::TrafficSpec;

pub use networks::{Family, Network, Times, network};

use super::Settings;
use super::against::{Compared, MeasureSummary, Optima, goodput_bps, over_runs};
use fairmesh_lab::Store;
use fairmesh_lab::optimum::Optimum;
use fairmesh_lab::{Estimate, LabError, Pool};

/// Fraction of its optimum below which a home starves.
pub const STARVATION_FRACTION: f64 = 0.1;

/// Goodputs of one network's subscribers under one control, as fractions of their optimum.
///
/// Goodputs are means over seeds, as the optimum is one, and intervals are over seeds.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Index of the control.
    pub control: usize,
    /// Index of the network.
    pub network: usize,
    /// The smallest fraction of a subscriber.
    pub worst: Estimate,
    /// Sum of all goodputs over that of all optima.
    pub sum: Estimate,
    /// Jain's index of the fractions.
    pub jain: Estimate,
    /// Number of backlogged subscribers below [`STARVATION_FRACTION`].
    pub starved: usize,
}

/// All outcomes.
#[derive(Clone, Debug)]
pub struct Study {
    /// Names of the controls in results.
    pub controls: Vec<String>,
    /// By network and control.
    pub outcomes: Vec<Outcome>,
    /// Networks with a search that ended at its bound of effort.
    pub bounded: BTreeSet<usize>,
    /// Number of optima that were searched; the others were stored.
    pub searched: usize,
    /// Number of runs, without those of searches.
    pub runs: usize,
    /// Hash of their fingerprints, in order.
    pub fingerprint: u64,
}

/// A row of a table: the results of a control on a family.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Networks.
    pub networks: usize,
    /// Fraction of the worst home.
    pub worst: MeasureSummary,
    /// Sum over that of the optimum.
    pub sum: MeasureSummary,
    /// Jain's index.
    pub jain: MeasureSummary,
    /// Starved homes in all networks.
    pub starved: usize,
}

/// Runs every control on every network.
///
/// # Errors
/// Returns an error if the engine or the search rejects a scenario, or if a control does not exist.
pub fn run(
    networks: &[Network],
    settings: &Settings,
    cache: Option<&Store>,
    pool: &Pool<'_>,
) -> Result<Study, LabError> {
    let scenarios: Vec<Scenario> =
        networks.iter().map(Network::scenario).collect::<Result<_, _>>()?;
    let optima = Optima::of(&scenarios, &settings.search, cache, pool)?;
    let compared = Compared::run(&scenarios, settings, optima, false, pool)?;
    let outcomes = compared.arms().map(|(network, control, records)| {
        outcome(&scenarios[network], &compared.optima.list[network], records, network, control)
    });
    Ok(Study {
        outcomes: outcomes.collect(),
        bounded: compared.optima.bounded(),
        searched: compared.optima.searched,
        runs: compared.runs(),
        fingerprint: compared.fingerprint,
        controls: compared.controls,
    })
}

fn outcome(
    scenario: &Scenario,
    optimum: &Optimum,
    records: &[RunRecord],
    network: usize,
    control: usize,
) -> Outcome {
    let best = optimum.rates_bps();
    let sum = |rates: &[f64], flows: &[usize]| flows.iter().map(|&f| rates[f]).sum::<f64>();
    let able: Vec<&[usize]> =
        optimum.groups.iter().map(|g| &g.flows[..]).filter(|f| sum(&best, f) > 0.0).collect();
    let parts = |goodput: &[f64]| -> Vec<f64> {
        able.iter().map(|f| sum(goodput, f) / sum(&best, f)).collect()
    };
    let worst = |rates: &[f64]| parts(rates).into_iter().reduce(f64::min).unwrap_or(0.0);
    let mean = parts(&goodput_bps(records));
    let starves = |(part, flows): &(f64, &&[usize])| {
        *part < STARVATION_FRACTION && backlogged(scenario, flows)
    };
    Outcome {
        control,
        network,
        worst: over_runs(records, worst),
        sum: over_runs(records, |rates| optimum.sum_over(rates)),
        jain: over_runs(records, |rates| measures::jain(&parts(rates))),
        starved: mean.into_iter().zip(&able).filter(starves).count(),
    }
}

/// Returns true if at least one of these flows is backlogged.
fn backlogged(scenario: &Scenario, flows: &[usize]) -> bool {
    flows.iter().any(|&f| matches!(scenario.flows()[f].traffic, TrafficSpec::Bulk))
}

impl Study {
    /// Summarises a control's results on the networks of a family, or on all.
    ///
    /// `None` if there are none.
    pub fn row(&self, networks: &[Network], family: Option<Family>, control: usize) -> Option<Row> {
        let of = |o: &&Outcome| {
            o.control == control && family.is_none_or(|f| networks[o.network].family == f)
        };
        let own: Vec<&Outcome> = self.outcomes.iter().filter(of).collect();
        let over =
            |of: &dyn Fn(&Outcome) -> Estimate| MeasureSummary::of(own.iter().map(|o| of(o)));
        Some(Row {
            networks: own.len(),
            worst: over(&|o| o.worst)?,
            sum: over(&|o| o.sum)?,
            jain: over(&|o| o.jain)?,
            starved: own.iter().map(|o| o.starved).sum(),
        })
    }

    /// Returns one line per network and control, as comma-separated values.
    pub fn csv(&self, networks: &[Network]) -> String {
        let mut out =
            "network,about,optimum,control,worst_of_optimum,sum_of_optimum,jain,starved\n"
                .to_owned();
        for o in &self.outcomes {
            let n = &networks[o.network];
            let bounded = if self.bounded.contains(&o.network) { "bounded" } else { "found" };
            out += &format!(
                "{},\"{}\",{bounded},{},{:.3},{:.3},{:.3},{}\n",
                n.name,
                n.about,
                self.controls[o.control],
                o.worst.mean,
                o.sum.mean,
                o.jain.mean,
                o.starved
            );
        }
        out
    }
}

/// Returns the networks of some families, or about `most` of them.
///
/// They are distributed over the families as evenly as possible.
///
/// # Errors
/// Fails only through a mistake in this module.
pub fn networks(
    families: &[Family],
    most: Option<u32>,
    times: Times,
) -> Result<Vec<Network>, LabError> {
    let all: Vec<(Family, u32)> =
        families.iter().flat_map(|&f| (0..f.size()).map(move |n| (f, n))).collect();
    let chosen: Vec<(Family, u32)> = match most {
        Some(most) if (most as usize) < all.len() => {
            // One of each family in turn.
            let mut chosen: Vec<(Family, u32)> = (0..)
                .flat_map(|n| families.iter().filter(move |f| n < f.size()).map(move |&f| (f, n)))
                .take(most as usize)
                .collect();
            chosen.sort_by_key(|c| all.iter().position(|a| a == c));
            chosen
        }
        _ => all,
    };
    chosen.into_iter().map(|(family, number)| network(family, number, times)).collect()
}
