//! Controls on networks, compared with the optimum of the simulator.
//!
//! Every network's optimum is searched once ([`fairmesh_lab::optimum`]) and stored; every control
//! runs with every seed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairmesh_control::Registry;
use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;

use fairmesh_lab::Store;
use fairmesh_lab::changes::with_controls;
use fairmesh_lab::estimate::Estimate;
use fairmesh_lab::optimum::{
    Found, Optimum, Settings as Search, SharingUnit, find, find_in, unobserved,
};
use fairmesh_lab::{LabError, Pool, batch};

/// Controls, seeds and search of a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Controls.
    pub controls: Vec<String>,
    /// The mechanisms that they may name.
    pub registry: Registry,
    /// Largest seed of the runs of each network under each control; the first is 1.
    pub seeds: u32,
    /// Settings of the search for optima.
    pub search: Search,
}

/// Runs of a comparison and their results.
#[derive(Debug)]
pub(super) struct Compared {
    /// Names of the controls in results.
    pub(super) controls: Vec<String>,
    /// Optimum of each network.
    pub(super) optima: Optima,
    records: Vec<RunRecord>,
    seeds: usize,
    /// Hash of the runs' fingerprints, in order.
    pub(super) fingerprint: u64,
}

/// Optima of several networks.
#[derive(Debug)]
pub(super) struct Optima {
    /// One per network.
    pub(super) list: Vec<Optimum>,
    /// Number of optima that were searched; the others were stored.
    pub(super) searched: usize,
}

impl Optima {
    /// Takes the optima from the cache, or searches them.
    pub(super) fn of(
        scenarios: &[Scenario],
        search: &Search,
        cache: Option<&Store>,
        pool: &Pool<'_>,
    ) -> Result<Self, LabError> {
        let searched = AtomicUsize::new(0);
        let list = batch::all(pool, "searching optima", scenarios, |scenario| {
            let groups = SharingUnit::usual(scenario).groups(scenario);
            let found = match cache {
                Some(store) => find_in(store, scenario, &groups, search, &unobserved),
                None => find(scenario, &groups, search, &unobserved).map(Found::searched),
            };
            let Found { optimum, kept, unkept } =
                found.map_err(|e| LabError::optimum(scenario, e))?;
            if let Some(e) = unkept {
                return Err(e.into());
            }
            searched.fetch_add(usize::from(!kept), Ordering::Relaxed);
            Ok(optimum)
        })?;
        Ok(Optima { list, searched: searched.into_inner() })
    }

    /// Returns the networks with a search that ended at its bound of effort.
    pub(super) fn bounded(&self) -> BTreeSet<usize> {
        let bounded = |o: &Optimum| o.stretches.iter().any(|s| s.bounded);
        (0..self.list.len()).filter(|&n| bounded(&self.list[n])).collect()
    }
}

impl Compared {
    /// Runs every control on every network.
    ///
    /// `decisions`: true if the records keep the decisions of the controls.
    pub(super) fn run(
        scenarios: &[Scenario],
        settings: &Settings,
        optima: Optima,
        decisions: bool,
        pool: &Pool<'_>,
    ) -> Result<Self, LabError> {
        let mut jobs = Vec::new();
        let mut controls = Vec::new();
        for scenario in scenarios {
            let controlled = with_controls(scenario, &settings.controls, &settings.registry)?;
            controls = controlled.iter().map(|s| s.control().to_string()).collect();
            for one in controlled {
                jobs.extend((1..=u64::from(settings.seeds)).map(|seed| (one.clone(), seed)));
            }
        }
        let options = |seed| RunOptions { seed, ..RunOptions::default() };
        let jobs: Vec<_> = jobs.iter().map(|(scenario, seed)| (scenario, options(*seed))).collect();
        pool.check_store(&jobs)?;
        let records = batch::all(pool, "comparing", &jobs, |(scenario, options)| {
            let mut record = pool.measured(scenario, options)?;
            if !decisions {
                record.decisions = Vec::new();
            }
            Ok(record)
        })?;
        let fingerprint = hashed(&records);
        Ok(Compared { controls, optima, records, seeds: settings.seeds as usize, fingerprint })
    }

    /// Returns the number of runs, without those of searches.
    pub(super) fn runs(&self) -> usize {
        self.records.len()
    }

    /// Returns indices of a scenario and a control, and the runs with each seed.
    pub(super) fn arms(&self) -> impl Iterator<Item = (usize, usize, &[RunRecord])> {
        let controls = self.controls.len();
        let arms = self.records.chunks(self.seeds).enumerate();
        arms.map(move |(k, records)| (k / controls, k % controls, records))
    }
}

/// Returns the hash of the runs' fingerprints, in order.
pub(super) fn hashed(records: &[RunRecord]) -> u64 {
    let of = |r: &RunRecord| u64::from_str_radix(&r.fingerprint, 16).unwrap_or_default();
    records.iter().map(of).fold(0, |all, one| (all ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns the mean goodput of each flow over the runs, in bit/s.
pub(super) fn goodput_bps(records: &[RunRecord]) -> Vec<f64> {
    let flows = records.first().map_or(0, |r| r.flows.len());
    let mut mean = vec![0.0; flows];
    for record in records {
        for (sum, flow) in mean.iter_mut().zip(&record.flows) {
            *sum += flow.goodput_bps / records.len() as f64;
        }
    }
    mean
}

/// Returns a statistic of all flows' goodputs, in bit/s.
///
/// Its mean is that of the flows' means over the runs, because the optimum is a mean too. Its
/// interval is over its values in the runs.
pub(super) fn over_runs(records: &[RunRecord], of: impl Fn(&[f64]) -> f64) -> Estimate {
    let each: Vec<f64> =
        records.iter().map(|r| of(&goodput_bps(core::slice::from_ref(r)))).collect();
    Estimate { mean: of(&goodput_bps(records)), ci95: Estimate::of(&each).ci95 }
}

/// Summary of a measure over several networks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasureSummary {
    /// Mean over the networks, with its interval.
    pub mean: Estimate,
    /// Smallest value of a network, with its own interval over the runs.
    pub least: Estimate,
}

impl MeasureSummary {
    /// Returns the summary; `None` without values.
    pub(super) fn of(values: impl Iterator<Item = Estimate>) -> Option<MeasureSummary> {
        let values: Vec<Estimate> = values.collect();
        let least = values.iter().copied().min_by(|a, b| a.mean.total_cmp(&b.mean))?;
        let means: Vec<f64> = values.iter().map(|v| v.mean).collect();
        Some(MeasureSummary { mean: Estimate::of(&means), least })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_networks_the_mean_has_their_interval_and_the_least_its_own() {
        let of = |mean, half| Estimate { mean, ci95: Some(half) };
        let over =
            MeasureSummary::of([of(0.9, 0.2), of(0.5, 0.01), of(0.7, 0.3)].into_iter()).unwrap();
        assert_eq!(over.least, of(0.5, 0.01));
        assert_eq!(over.mean, Estimate::of(&[0.9, 0.5, 0.7]));
        assert_eq!(
            MeasureSummary::of([of(0.9, 0.2)].into_iter()).unwrap().mean,
            Estimate::exact(0.9)
        );
        assert!(MeasureSummary::of(core::iter::empty()).is_none());
    }
}
