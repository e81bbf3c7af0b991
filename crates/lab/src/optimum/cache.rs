//! Optima that were found before.
//!
//! A file per scenario as it was built, groups, settings and version of the program. A kept optimum
//! is believed only if the program of today still does what that of then did: it holds the
//! fingerprint of a short run under its limits, and that run is made again. Everything else (a file
//! that is cut off, of another program, of somebody's making) is as good as none.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use fairmesh_scenario::Scenario;
use serde::{Deserialize, Serialize};

use super::bench::Bench;
use super::meter::Meter;
use super::record::Optimum;
use super::settings::{Group, OptimumError, Settings};
use super::{OnProgress, find, steady};
use crate::comparison::GENERATOR;
use crate::files::folder::write_file;
use crate::hash::Hash;

/// Version of the search: to be raised when it finds something else in the same simulator.
const SEARCH: u32 = 3;
/// No kept optimum is larger, bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A folder of optima.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// A kept optimum.
#[derive(Serialize, Deserialize)]
struct Kept {
    generator: String,
    key: String,
    /// Fingerprint of a short run under its limits.
    witness: String,
    optimum: Optimum,
}

impl Cache {
    /// In this folder, which is made when there is something to keep.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Cache { folder: folder.into() }
    }

    /// The optimum that is kept for exactly this question, or else the one that a search finds,
    /// which is then kept. The second value says whether it was kept before. A folder that cannot
    /// be written keeps nothing, and that is no error.
    ///
    /// # Errors
    /// Those of [`find`].
    pub fn find(
        &self,
        scenario: &Scenario,
        groups: &[Group],
        settings: &Settings,
        progress: OnProgress<'_>,
    ) -> Result<(Optimum, bool), OptimumError> {
        super::settings::check(scenario, groups, settings)?;
        let key = key(scenario, groups, settings);
        if let Some(kept) = self.read(&key, scenario, settings) {
            return Ok((kept, true));
        }
        let optimum = find(scenario, groups, settings, progress)?;
        if let Some(witness) = witness(scenario, &optimum) {
            let kept = Kept { generator: GENERATOR.to_owned(), key: key.clone(), witness, optimum };
            if let Ok(text) = serde_json::to_vec(&kept) {
                // Whoever cannot keep it searches again.
                let _ = write_file(&self.path(&key), &text);
            }
            return Ok((kept.optimum, false));
        }
        Ok((optimum, false))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("optimum-{key}.json"))
    }

    /// What is kept under a key and true of this scenario.
    fn read(&self, key: &str, scenario: &Scenario, settings: &Settings) -> Option<Optimum> {
        let mut text = Vec::new();
        File::open(self.path(key)).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        let optimum = kept.optimum;
        let fits = kept.generator == GENERATOR
            && kept.key == key
            && optimum.flows.iter().map(|f| &f.name).eq(scenario.flows().iter().map(|f| &f.name))
            && optimum.settings == *settings
            && rates(&optimum).all(|r| r.is_finite() && r >= 0.0)
            && optimum
                .stretches
                .iter()
                .flat_map(|s| &s.flows)
                .all(|f| f.flow < scenario.flows().len())
            && witness(scenario, &optimum)? == kept.witness;
        fits.then_some(optimum)
    }
}

/// Every rate in it.
fn rates(optimum: &Optimum) -> impl Iterator<Item = f64> + '_ {
    let there = optimum.stretches.iter().flat_map(|s| &s.flows);
    let there = there.flat_map(|f| [f.optimum_bps, f.received_bps, f.limit_bps]);
    let flows = optimum.flows.iter();
    flows.flat_map(|f| [Some(f.optimum_bps), f.demand_bps]).flatten().chain(there)
}

/// The fingerprint of a short run under the limits of the first stretch; `None` if the stretches are
/// not those of the scenario.
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
    let meter = Meter::new(&optimum.settings, &|_| {});
    let limits: Vec<f64> = found.flows.iter().map(|f| f.limit_bps).collect();
    Bench::new(steady, &optimum.settings, &meter).witness(&limits).ok()
}

/// Names the question: everything of the scenario that a search can see, the groups, the settings and
/// the program. What a scenario is called, who wrote what about it and its own control are no part.
fn key(scenario: &Scenario, groups: &[Group], settings: &Settings) -> String {
    // The groups stand for the subscribers.
    let none = fairmesh_control::Mechanism::none();
    let seen = scenario.clone().bare().with_control_everywhere(none);
    // What was kept before there were subscribers, nodes that take no part and access categories, stays true.
    let none = format!(", subscribers: {:?}", seen.subscribers());
    let seen = format!("{seen:?}").replacen(&none, "", 1).replacen(", taking_part: None", "", 1);
    let seen = seen.replacen(", at_gateways: None", "", 1);
    let seen = seen.replacen("definition: Definition {", "entry: Entry {", 1);
    let seen = seen.replace(", edca: None", "").replace(", access: BestEffort", "");
    Hash::of(format_args!("{SEARCH} {GENERATOR} {seen} {groups:?} {settings:?}"))
}
