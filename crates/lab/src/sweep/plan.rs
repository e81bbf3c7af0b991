//! A sweep: every combination of some settings, under some controls, with some seeds.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use fairmesh_control::Registry;
use fairmesh_scenario::Scenario;

use super::cell::Cell;
use super::summary::{Summary, table};
use super::vary::{Axis, Point, grid};
use crate::batch::{self, check};
use crate::changes::{Assignment, Edit, assignments_of, set_parameters, with_controls};
use crate::files::folder::{unreadable, write_file};
use crate::files::parquet;
use crate::job::{Choice, Job, JobKey, Measures, ScenarioHash, Source};
use crate::record::RunRecord;
use crate::source::{build, read};
use crate::store::{OtherRevisions, Store};
use crate::{BoxedError, Changes, FileProblem, Frame, LabError, Pool, Seeds, SettingProblem};

/// Folder of the runs, in the folder of a sweep.
pub const STORE: &str = "store";

/// All runs of a sweep, checked.
///
/// A job is built when it is needed; only the hash of its scenario is stored.
#[derive(Debug)]
pub struct Sweep {
    scenario: Scenario,
    registry: Registry,
    source: Source,
    changes: Changes,
    axes: Vec<Axis>,
    points: Vec<Point>,
    /// Requested controls; if none, the scenario's own.
    controls: Vec<String>,
    parameters: Vec<Assignment>,
    /// By point and control.
    cases: Vec<Case>,
    seeds: Seeds,
}

/// One point under one control.
#[derive(Debug)]
struct Case {
    /// Name of the control in results.
    control: Arc<str>,
    hash: ScenarioHash,
}

impl Sweep {
    /// Reads a scenario and builds every point of the grid of `vary` (each `KEY=V1,V2,…`).
    /// Each point runs under every control with the parameters in `set`, with all `seeds`.
    ///
    /// # Errors
    /// If the file, the changes, a key, a value or a control is invalid.
    pub fn plan(
        path: &Path,
        changes: &Changes,
        vary: &[impl AsRef<str>],
        controls: &[impl AsRef<str>],
        parameters: &[Assignment],
        seeds: Seeds,
        registry: &Registry,
    ) -> Result<Self, LabError> {
        let axes = axes(vary)?;
        let source = Source::new(path, &read(path)?)?;
        Self::of(source, changes, axes, controls, parameters, seeds, registry)
    }

    /// Builds every point of the grid of `axes` of a scenario that was read; otherwise as [`Sweep::plan`].
    ///
    /// # Errors
    /// If the changes, a key, a value or a control is invalid, or a key is varied twice.
    pub fn of(
        source: Source,
        changes: &Changes,
        axes: Vec<Axis>,
        controls: &[impl AsRef<str>],
        parameters: &[Assignment],
        seeds: Seeds,
        registry: &Registry,
    ) -> Result<Self, LabError> {
        if let Some(i) = (1..axes.len()).find(|&i| axes[..i].iter().any(|a| a.key == axes[i].key)) {
            return Err(LabError::wrong("vary", SettingProblem::KeyTwice(axes[i].key.clone())));
        }
        let (file, text) = (source.file.clone(), std::sync::Arc::clone(&source.text));
        let (path, bytes) = (Path::new(&file), text.as_bytes());
        // The scenario without variation must be valid: an error in it is reported with its line.
        let scenario = build(path, bytes, changes, registry)?;
        let mut sweep = Sweep {
            scenario,
            registry: registry.clone(),
            source,
            changes: changes.clone(),
            points: grid(&axes),
            axes,
            controls: controls.iter().map(|c| c.as_ref().to_owned()).collect(),
            parameters: parameters.to_vec(),
            cases: Vec::new(),
            seeds,
        };
        // The number of different control names is small.
        let mut names: Vec<Arc<str>> = Vec::new();
        for point in &sweep.points {
            let (changes, numbers) = sweep.at(point);
            let of_point = |e| describe(e, &sweep.axes, point);
            let scenario = build(path, bytes, &changes, registry).map_err(of_point)?;
            let mut scenarios = with_controls(&scenario, &sweep.controls, registry)?;
            set_parameters(&mut scenarios, &numbers).map_err(of_point)?;
            for scenario in &scenarios {
                let control = scenario.controls();
                let name = names.iter().find(|n| ***n == *control).cloned();
                let control = name.unwrap_or_else(|| control.into());
                if !names.contains(&control) {
                    names.push(Arc::clone(&control));
                }
                sweep.cases.push(Case { control, hash: ScenarioHash::of_run(scenario) });
            }
        }
        Ok(sweep)
    }

    /// Returns the scenario without variation.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the number of runs: points × controls × seeds.
    pub fn len(&self) -> usize {
        self.cases.len() * self.seeds.count()
    }

    /// Returns true if there is no run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the changes of a point, and its values of options of the controls.
    fn at(&self, point: &Point) -> (Changes, Vec<Assignment>) {
        let (mut changes, mut numbers) = (self.changes.clone(), self.parameters.clone());
        for (axis, value) in self.axes.iter().zip(point) {
            match number_of(axis, value).filter(|_| !self.controls.is_empty()) {
                Some(number) => numbers.push(number),
                None => {
                    changes.edits.push(Edit { key: axis.key.clone(), value: value.clone() });
                }
            }
        }
        (changes, numbers)
    }

    /// Returns case and seed of a run, by its place in the grid: seeds vary fastest, then controls.
    fn place(&self, index: usize) -> (usize, u64) {
        let seeds = self.seeds.count();
        (index / seeds, self.seeds.bounds().start() + (index % seeds) as u64)
    }

    fn point(&self, case: usize) -> &Point {
        &self.points[case / self.controls.len().max(1)]
    }

    /// Returns a run as data, by its place in the grid, below [`Sweep::len`].
    ///
    /// # Errors
    /// None for a sweep that was planned.
    pub fn job(&self, index: usize) -> Result<Job, LabError> {
        let (case, seed) = self.place(index);
        let (changes, numbers) = self.at(self.point(case));
        let control = match self.controls.get(case % self.controls.len().max(1)) {
            None => Choice { name: None, options: numbers },
            Some(name) => {
                let options = assignments_of(name, &numbers, &self.registry)?;
                Choice { name: Some(name.clone()), options }
            }
        };
        let source = self.source.clone();
        Ok(Job { source, changes, control, seed, measures: Measures::default() })
    }

    /// Returns the key of a run in a store, by its place in the grid.
    pub fn key(&self, store: &Store, index: usize) -> JobKey {
        let (case, seed) = self.place(index);
        let options = Measures::default().options(seed);
        JobKey::of_run(store.revision(), &self.cases[case].hash, &options)
    }

    /// Opens the store of a sweep's folder, which is created if it does not exist.
    ///
    /// # Errors
    /// If the folder has other content, or the store cannot be used.
    pub fn open(folder: &Path, others: OtherRevisions) -> Result<Store, LabError> {
        claim(folder)?;
        Ok(Store::open(&folder.join(STORE), others)?)
    }

    /// Runs the jobs missing from the store, adds them, and writes the summary of all to `folder`.
    /// `command` is the command line to record.
    ///
    /// # Errors
    /// If a store has other results of this revision, the engine rejects a scenario, or files cannot be written.
    /// All completed runs stay in the store.
    pub fn run(
        &self,
        store: &Store,
        folder: &Path,
        command: &str,
        pool: &Pool<'_>,
    ) -> Result<Summary, LabError> {
        self.fill(store, pool)?;
        let cells = self.cells(store)?;
        let summary =
            Summary::of(command, self.scenario.name(), self.seeds.count(), &self.axes, &cells);
        let encode = |e: BoxedError| LabError::at(folder, FileProblem::Encode(e));
        let json = serde_json::to_vec_pretty(&summary).map_err(|e| encode(e.into()))?;
        write_file(&folder.join("sweep.json"), &json)?;
        let rows = parquet::encode(&table(&self.axes, &cells)).map_err(|e| encode(e.into()))?;
        write_file(&folder.join("sweep.parquet"), &rows)?;
        Ok(summary)
    }

    fn cells(&self, store: &Store) -> Result<Vec<Cell>, LabError> {
        let mut cells = Vec::with_capacity(self.len());
        for index in 0..self.len() {
            let (case, _) = self.place(index);
            if let Some(record) = store.get(&self.key(store, index))? {
                let control = self.cases[case].control.to_string();
                cells.push(Cell::of(self.point(case).clone(), control, &record));
            }
        }
        Ok(cells)
    }

    /// Returns the table of the runs in the store: one row per run and flow, one text column per varied key.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn frame(&self, store: &Store) -> Result<Frame, LabError> {
        Ok(table(&self.axes, &self.cells(store)?))
    }

    /// Returns the places in the grid of the runs missing from the store.
    pub fn missing(&self, store: &Store) -> Vec<usize> {
        (0..self.len()).filter(|i| !store.contains(&self.key(store, *i))).collect()
    }

    /// Runs the jobs missing from the store and adds them.
    ///
    /// # Errors
    /// As [`Sweep::run`]; [`LabError::Stopped`] if the caller stops the batch.
    pub fn fill(&self, store: &Store, pool: &Pool<'_>) -> Result<(), LabError> {
        let there = |index: &usize| store.contains(&self.key(store, *index));
        // One stored run of each control.
        let mut checked: Vec<(&str, usize)> = Vec::new();
        for index in (0..self.len()).filter(there) {
            let control = &*self.cases[self.place(index).0].control;
            if !checked.iter().any(|c| c.0 == control) {
                checked.push((control, index));
            }
        }
        check(pool, store, &checked, |c| self.make(c.1, pool), |c| self.key(store, c.1))?;
        let missing = self.missing(store);
        batch::all(pool, "sweeping", &missing, |&index| {
            let key = self.key(store, index);
            // Another process may have added it.
            store.refresh()?;
            if !store.contains(&key) {
                store.put(key, &self.make(index, pool)?)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn make(&self, index: usize, pool: &Pool<'_>) -> Result<RunRecord, LabError> {
        let job = self.job(index)?.resolve(&self.registry)?;
        pool.run(&job.scenario, &job.options)
    }
}

fn axes(vary: &[impl AsRef<str>]) -> Result<Vec<Axis>, LabError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in vary {
        let axis = Axis::parse(text.as_ref()).map_err(|e| LabError::wrong("vary", e))?;
        axes.push(axis);
    }
    Ok(axes)
}

/// Returns a parameter of the controls.
/// `control.epoch` applies to the requested controls, regardless of the file's.
fn number_of(axis: &Axis, value: &str) -> Option<Assignment> {
    let parameter =
        axis.key.strip_prefix("control.").filter(|p| !["use", "gateway"].contains(p))?;
    let value = value.parse().ok()?;
    Some(Assignment { control: None, parameter: parameter.to_owned(), value })
}

/// Returns the error with the point that caused it.
fn describe(e: LabError, axes: &[Axis], point: &[String]) -> LabError {
    match e {
        LabError::Scenario(e) => {
            let point = axes.iter().zip(point).map(|(a, v)| (a.key.clone(), v.clone())).collect();
            LabError::wrong("vary", SettingProblem::Point { point, error: e })
        }
        e => e,
    }
}

/// Claims a folder that is new, empty or a sweep's.
fn claim(folder: &Path) -> Result<(), LabError> {
    if folder.exists() && !folder.is_dir() {
        return Err(LabError::at(folder, FileProblem::File { expected: "a folder for results" }));
    }
    fs::create_dir_all(folder).map_err(|e| LabError::at(folder, FileProblem::Unwritable(e)))?;
    let mut entries = fs::read_dir(folder).map_err(|e| unreadable(folder, e))?;
    if !folder.join(STORE).exists() && entries.next().is_some() {
        return Err(LabError::at(folder, FileProblem::OtherContent { lacks: "holds no sweep" }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use fairmesh_engine::CancelToken;

    use super::*;
    use crate::Progress;
    use crate::job::Revision;
    use crate::store::StoreError;

    const TEXT: &str = "name = \"pair\"\nduration = \"200 ms\"\n[topology]\nchain = { hops = 1 }\n\
                        [[flow]]\nfrom = 1\nto = 0\n";

    fn plan(file: &Path, seeds: u64) -> Sweep {
        fs::write(file, TEXT).unwrap();
        let (vary, set) = (["radio.rts=false,true"], ["room=0.1".parse().unwrap()]);
        Sweep::plan(
            file,
            &Changes::default(),
            &vary,
            &["fifo", "source"],
            &set,
            Seeds::first(seeds).unwrap(),
            &Registry::standard(),
        )
        .unwrap()
    }

    fn open(folder: &Path, revision: &str, others: OtherRevisions) -> Result<Store, StoreError> {
        Store::open_at(folder, Revision::named(revision), others)
    }

    /// Returns keys and records of a store.
    fn content(store: &Store) -> Vec<(JobKey, String)> {
        let text = |key: JobKey| {
            let record: RunRecord = store.get(&key).unwrap().unwrap();
            (key, serde_json::to_string(&record).unwrap())
        };
        store.keys().into_iter().map(text).collect()
    }

    #[test]
    fn the_job_of_a_run_has_the_key_under_which_it_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let sweep = plan(&dir.path().join("pair.toml"), 2);
        let store = open(&dir.path().join("store"), "1", OtherRevisions::Refuse).unwrap();
        let keys: Vec<JobKey> = (0..sweep.len()).map(|i| sweep.key(&store, i)).collect();
        for (i, key) in keys.iter().enumerate() {
            // As another machine would receive it.
            let text = serde_json::to_string(&sweep.job(i).unwrap()).unwrap();
            let job: Job = serde_json::from_str(&text).unwrap();
            assert_eq!(job.key(store.revision(), &Registry::standard()).unwrap(), *key, "{text}");
            assert!(!keys[..i].contains(key));
        }
        assert_eq!(keys.len(), 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Stopped after any number of runs, on any number of threads, and resumed: the store is equal.
        #[test]
        fn stopped_anywhere_and_resumed_the_store_is_the_same(
            stops in prop::collection::vec(0..8_usize, 1..4),
            threads in 1..3_usize,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let sweep = plan(&dir.path().join("pair.toml"), 2);
            let at = |name: &str| {
                open(&dir.path().join(name), "1", OtherRevisions::Refuse).unwrap()
            };
            let whole = at("whole");
            sweep.fill(&whole, &Pool::default()).unwrap();
            let mut before = 0;
            for stop in stops {
                let progress = |p: Progress| match p.what == "sweeping" && p.done >= stop {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
                let pool = Pool {
                    threads: std::num::NonZero::new(threads),
                    progress: Some(&progress),
                    ..Pool::default()
                };
                let store = at("parts");
                match sweep.fill(&store, &pool) {
                    Ok(()) => prop_assert_eq!(store.len(), 8),
                    Err(LabError::Stopped { what: "sweeping", .. }) => {
                        prop_assert!(store.len() >= (before + stop).min(8), "{}", store.len());
                    }
                    Err(e) => prop_assert!(false, "{}", e),
                }
                before = store.len();
            }
            let parts = at("parts");
            sweep.fill(&parts, &Pool::default()).unwrap();
            prop_assert_eq!(content(&parts), content(&whole));
        }
    }

    /// A run that is cancelled is not stored; the sweep continues from the complete ones.
    #[test]
    fn cancelled_within_its_runs_a_sweep_continues_to_the_same_store() {
        let dir = tempfile::tempdir().unwrap();
        let sweep = plan(&dir.path().join("pair.toml"), 2);
        let at = |name: &str| open(&dir.path().join(name), "1", OtherRevisions::Refuse).unwrap();
        let cancel = CancelToken::default();
        let progress = |p: Progress| {
            if p.done == 3 {
                cancel.cancel();
            }
            ControlFlow::Continue(())
        };
        let pool = Pool { progress: Some(&progress), cancel: Some(&cancel), ..Pool::default() };
        let parts = at("parts");
        let e = sweep.fill(&parts, &pool).unwrap_err();
        assert!(matches!(e, LabError::Stopped { what: "sweeping", total: 8, .. }), "{e}");
        assert!((3..8).contains(&parts.len()), "{}", parts.len());
        sweep.fill(&parts, &Pool::default()).unwrap();
        let whole = at("whole");
        sweep
            .fill(&whole, &Pool { cancel: Some(&CancelToken::default()), ..Pool::default() })
            .unwrap();
        assert_eq!(content(&parts), content(&whole));
    }

    #[test]
    fn runs_of_another_revision_are_reported_and_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let sweep = plan(&dir.path().join("pair.toml"), 1);
        let folder = dir.path().join("store");
        let first = open(&folder, "1", OtherRevisions::Refuse).unwrap();
        let made = AtomicUsize::new(0);
        let progress = |p: Progress| {
            made.store(p.done, Ordering::Relaxed);
            if p.done == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let pool = Pool {
            threads: std::num::NonZero::new(1),
            progress: Some(&progress),
            ..Pool::default()
        };
        assert!(matches!(sweep.fill(&first, &pool), Err(LabError::Stopped { .. })));
        let old = content(&first);
        assert_eq!(old.len(), 2);
        drop(first);

        let e = open(&folder, "2", OtherRevisions::Refuse).unwrap_err();
        assert!(e.to_string().contains("has records of revision 1; expected 2"), "{e}");
        let kept = open(&folder, "2", OtherRevisions::Keep).unwrap();
        sweep.fill(&kept, &Pool::default()).unwrap();
        assert_eq!(kept.len(), 4, "all four runs were made by the second revision");
        assert!(kept.keys().iter().all(|k| old.iter().all(|o| o.0 != *k)));
        drop(kept);
        let old_again = open(&folder, "1", OtherRevisions::Keep).unwrap();
        assert_eq!(content(&old_again), old);
        drop(old_again);
        assert!(open(&folder, "2", OtherRevisions::Fresh).unwrap().is_empty());
    }

    /// A program whose results changed although its revision did not.
    #[test]
    fn runs_that_do_not_repeat_are_reported_before_anything_is_added() {
        let dir = tempfile::tempdir().unwrap();
        let sweep = plan(&dir.path().join("pair.toml"), 2);
        let store = open(&dir.path().join("store"), "1", OtherRevisions::Refuse).unwrap();
        // The second control's: one of each is checked.
        let index = (0..sweep.len()).find(|i| &*sweep.cases[sweep.place(*i).0].control == "source");
        let index = index.unwrap();
        let mut record = sweep.make(index, &Pool::default()).unwrap();
        let now = std::mem::replace(&mut record.fingerprint, "0123".into());
        store.put(sweep.key(&store, 0), &sweep.make(0, &Pool::default()).unwrap()).unwrap();
        store.put(sweep.key(&store, index), &record).unwrap();
        let e = sweep.fill(&store, &Pool::default()).unwrap_err();
        let LabError::Store(stale) = e else { panic!("{e}") };
        let StoreError::Stale { place, stored, now: found } = *stale else { panic!("{stale}") };
        assert_eq!((place.line, stored, found), (3, "0123".to_owned(), now));
        assert_eq!(store.len(), 2);
    }
}
