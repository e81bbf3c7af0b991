//! A world as jobs: each island is a separate run.
//!
//! An island is a part of the network without a connection to the rest. The record is that of a run
//! of the whole (`fairmesh_engine::Islands::merge`). Islands run on all cores or on other machines,
//! and are stored one by one.

use std::sync::Arc;

use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{Islands, RunOptions, islands};
use fairmesh_scenario::Scenario;

use crate::batch;
use crate::job::{JobKey, ScenarioHash};
use crate::store::Store;
use crate::{LabError, Pool};

/// A scenario under its control, and its islands.
#[derive(Clone, Debug)]
pub struct City {
    scenario: Arc<Scenario>,
    islands: Islands,
    options: RunOptions,
}

impl City {
    /// Finds the islands of a scenario.
    pub fn new(scenario: Scenario, options: RunOptions) -> Self {
        City { islands: islands(&scenario), scenario: Arc::new(scenario), options }
    }

    /// Returns the islands.
    pub fn islands(&self) -> &Islands {
        &self.islands
    }

    /// Returns the scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the number of islands.
    pub fn len(&self) -> usize {
        self.islands.list.len()
    }

    /// Returns true if there is no island.
    pub fn is_empty(&self) -> bool {
        self.islands.list.is_empty()
    }

    /// Returns an island as a world of its own, by its number below [`City::len`].
    pub fn part(&self, island: usize) -> Scenario {
        self.islands.list[island].part(&self.scenario)
    }

    /// Returns the key of an island's run in a store.
    pub fn key(&self, store: &Store, island: usize) -> JobKey {
        JobKey::of_run(store.revision(), &ScenarioHash::of_run(&self.part(island)), &self.options)
    }

    /// Runs an island, or takes its run from the store.
    ///
    /// # Errors
    /// Returns an error if the engine rejects the scenario, or a store cannot be used.
    pub fn run_island(&self, island: usize, pool: &Pool<'_>) -> Result<RunRecord, LabError> {
        pool.measured(&self.part(island), &self.options)
    }

    /// Runs all islands, the largest first, and returns the record of the whole.
    ///
    /// # Errors
    /// As [`City::run_island`]; [`LabError::Stopped`] if the caller stops the batch.
    pub fn run(&self, pool: &Pool<'_>) -> Result<RunRecord, LabError> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.islands.list[i].nodes.len()));
        // One pass over a queue, so that the cores end together.
        let records = batch::all(pool, "simulating islands", &order, |&i| {
            Ok((i, self.run_island(i, pool)?))
        })?;
        Ok(self.merge(records))
    }

    /// Returns the record of the whole from those of all islands, with their numbers.
    ///
    /// # Panics
    /// If an island is missing.
    pub fn merge(&self, mut records: Vec<(usize, RunRecord)>) -> RunRecord {
        records.sort_by_key(|r| r.0);
        let records = records.into_iter().map(|r| r.1).collect();
        self.islands.merge(&self.scenario, records)
    }

    /// Returns a line on the islands, and one per pair of gateways in one island.
    pub fn report(&self) -> Vec<String> {
        let sizes = || self.islands.list.iter().map(|i| i.nodes.len());
        let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        let size = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let plural = if self.len() == 1 { "" } else { "s" };
        let mut lines = vec![format!("{} island{plural} of {size} nodes", self.len())];
        let name = |n: fairmesh_units::NodeId| &self.scenario.nodes()[n.index()].name;
        let pair = |((a, b), why): &((_, _), fairmesh_engine::IslandLink)| {
            format!("gateways {} and {} are run together: {why}", name(*a), name(*b))
        };
        lines.extend(self.islands.touching.iter().map(pair));
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::path::Path;

    use fairmesh_control::Registry;

    use super::*;
    use crate::source::build;
    use crate::{Changes, OtherRevisions, Revision};

    /// Towns in a row, each a chain of three nodes with a gateway.
    fn towns(number: usize, apart: f64) -> Scenario {
        let mut text = String::from("duration = \"1 s\"\n");
        let mut flows = String::new();
        let mut gateways = Vec::new();
        for town in 0..number {
            for node in 0..3 {
                let x = apart * town as f64 + 100.0 * node as f64;
                text += &format!("[[node]]\nid = \"{town}-{node}\"\nposition = [{x}, 0]\n");
                if node > 0 {
                    flows += &format!("[[flow]]\nfrom = \"{town}-{node}\"\nto = \"{town}-0\"\n");
                }
            }
            gateways.push(format!("\"{town}-0\""));
        }
        text += &format!("[topology]\ngateways = [{}]\n{flows}", gateways.join(", "));
        build(Path::new("towns.toml"), text.as_bytes(), &Changes::default(), &Registry::standard())
            .unwrap()
    }

    fn text(record: RunRecord) -> String {
        let mut record = record;
        record.fingerprint.clear();
        serde_json::to_string(&record).unwrap()
    }

    #[test]
    fn islands_on_threads_and_from_a_store_give_the_record_of_the_whole() {
        let scenario = towns(5, 20_000.0);
        let options = RunOptions::default();
        let city = City::new(scenario.clone(), options);
        assert_eq!(city.report(), ["5 islands of 3 nodes"]);
        let whole = text(Pool::default().run(&scenario, &options).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let revision = Revision::named("1");
        let store = Store::open_at(dir.path(), revision, OtherRevisions::Refuse).unwrap();
        for threads in [1, 3] {
            let pool =
                Pool { threads: NonZero::new(threads), store: Some(&store), ..Pool::default() };
            assert_eq!(text(city.run(&pool).unwrap()), whole);
            assert_eq!(store.len(), 5, "each island once");
        }
        assert!(store.contains(&city.key(&store, 3)));
    }

    #[test]
    fn joined_islands_are_reported() {
        let city = City::new(towns(2, 700.0), RunOptions::default());
        assert_eq!(city.len(), 1);
        let report = city.report();
        assert_eq!(report.len(), 2);
        assert!(report[1].starts_with("gateways 0-0 and 1-0 are run together: "), "{report:?}");
        assert!(report[1].contains(" senses "), "{report:?}");
    }
}
