//! Optima in a store.
//!
//! The key has the network, the groups, the settings and the version of the search. A stored optimum
//! has the fingerprint of a short run under its limits, its witness; that run is repeated before the
//! optimum is used.

use fairmesh_scenario::Scenario;
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::error::OptimumError;
use super::meter::Meter;
use super::record::Optimum;
use super::settings::{Group, Settings};
use super::{OnProgress, find, steady, unobserved};
use crate::job::{JobKey, ScenarioHash};
use crate::store::{Store, StoreError, Stored};

/// Version of the search; to be raised when its results in the same simulator change.
const SEARCH_VERSION: u32 = 5;

/// An optimum and its origin.
#[derive(Debug)]
pub struct Found {
    /// The optimum.
    pub optimum: Optimum,
    /// True if it was in the store.
    pub kept: bool,
    /// Reason why a new optimum is not in the store.
    pub unkept: Option<StoreError>,
}

impl Found {
    /// Returns an optimum that is in no store.
    pub fn searched(optimum: Optimum) -> Self {
        Found { optimum, kept: false, unkept: None }
    }
}

/// A stored optimum.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Fingerprint of a short run under its limits.
    witness: String,
    optimum: Optimum,
}

impl Stored for Kept {
    const KIND: &'static str = "optimum";
}

/// Takes an optimum from a store, or searches it as [`find`] does and adds it.
///
/// # Errors
/// Those of [`find`]; a store that cannot be read; [`StoreError::Stale`] if the witness of a
/// stored optimum has another fingerprint now.
pub fn find_in(
    store: &Store,
    scenario: &Scenario,
    groups: &[Group],
    settings: &Settings,
    progress: OnProgress<'_>,
) -> Result<Found, OptimumError> {
    super::settings::check(scenario, groups, settings)?;
    let key = key(store, scenario, groups, settings);
    if let Some(Kept { witness: stored, optimum }) = store.get(&key)? {
        let now = witness(scenario, &optimum).unwrap_or_default();
        return match (now == stored, store.place(&key)) {
            (false, Some(place)) => Err(StoreError::Stale { place, stored, now }.into()),
            _ => Ok(Found { optimum, kept: true, unkept: None }),
        };
    }
    let optimum = find(scenario, groups, settings, progress)?;
    let Some(witness) = witness(scenario, &optimum) else {
        return Ok(Found::searched(optimum));
    };
    let kept = Kept { witness, optimum };
    let unkept = store.put(key, &kept).err();
    Ok(Found { optimum: kept.optimum, kept: false, unkept })
}

/// Returns the hash of the network and its flows, the groups, the settings and the search.
/// Name, description, control and subscribers of the scenario have no effect; the groups define the sharing.
fn key(store: &Store, scenario: &Scenario, groups: &[Group], settings: &Settings) -> JobKey {
    let text = format!("search = {SEARCH_VERSION}\ngroups = {groups:?}\nsettings = {settings:?}\n");
    JobKey::of(store.revision(), "optimum", &ScenarioHash::of_network(scenario), &text)
}

/// Returns the fingerprint of a short run under the limits of the first stretch.
/// `None` if the stretches are not those of the scenario.
fn witness(scenario: &Scenario, optimum: &Optimum) -> Option<String> {
    let asked: Vec<Option<f64>> = optimum.flows.iter().map(|f| f.demand_bps).collect();
    let stretches = steady::stretches(scenario, &asked).ok()?;
    let same = |(a, b): (&steady::Steady, &super::Stretch)| {
        a.flows.iter().map(|f| f.index).eq(b.flows.iter().map(|f| f.flow))
    };
    if stretches.len() != optimum.stretches.len() {
        return None;
    }
    let mut pairs = stretches.iter().zip(&optimum.stretches);
    if !pairs.clone().all(same) {
        return None;
    }
    let Some((steady, found)) = pairs.find(|(s, _)| !s.flows.is_empty()) else {
        return Some(String::new());
    };
    let meter = Meter::new(&optimum.settings, &unobserved);
    let limits: Vec<f64> = found.flows.iter().map(|f| f.limit_bps).collect();
    Bench::new(steady, &optimum.settings, &meter).witness(&limits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OtherRevisions;

    #[test]
    fn an_optimum_with_a_witness_that_does_not_repeat_is_refused() {
        let text = "name = \"pair\"\nduration = \"4 s\"\n[topology]\nchain = { hops = 1 }\n[[flow]]\n\
                    from = 1\nto = 0\n";
        let pair = fairmesh_scenario::draft_from_toml("pair.toml", text).unwrap().build().unwrap();
        let (groups, dir) = (Group::each(&pair), tempfile::tempdir().unwrap());
        let settings = Settings {
            search: vec![1, 2],
            check: vec![3],
            times_s: (1.0, 2.0),
            most_events: 1_000_000,
            ..Settings::default()
        };
        let store = Store::open(dir.path(), OtherRevisions::Refuse).unwrap();
        let optimum = find(&pair, &groups, &settings, &unobserved).unwrap();
        let key = key(&store, &pair, &groups, &settings);
        store.put(key, &Kept { witness: "0123".into(), optimum }).unwrap();
        let e = find_in(&store, &pair, &groups, &settings, &unobserved).unwrap_err();
        let stale =
            matches!(&e, OptimumError::Store(StoreError::Stale { stored, .. }) if stored == "0123");
        assert!(stale, "{e}");
    }
}
