//! Runs of a sweep: checked, made and stored.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fairmesh_control::Registry;
use fairmesh_scenario::{Format, Scenario};
use rayon::prelude::*;

use super::axes::{Axis, Grid};
use super::cell::Cell;
use super::plan::{Base, Plan, SCENARIO_COLUMN, number_of, of_map};
use crate::batch::{self, check};
use crate::changes::{Assignment, Edit, assignments_of, set_parameters, with_controls};
use crate::files::folder::unreadable;
use crate::job::{Choice, Job, JobKey, Measures, ScenarioHash};
use crate::record::RunRecord;
use crate::source::build;
use crate::store::{OtherRevisions, Store};
use crate::{Changes, FileProblem, LabError, Pool, SettingProblem};

/// Folder of the runs, in the folder of a sweep.
pub const STORE_FOLDER: &str = "store";

/// All runs of a plan, checked.
///
/// A job is built when it is needed; of each scenario only the hash is stored.
#[derive(Debug)]
pub struct Sweep {
    plan: Plan,
    registry: Registry,
    /// The scenarios without variation.
    scenarios: Vec<Scenario>,
    grid: Grid,
    /// Names of the controls in results.
    controls: Vec<Arc<str>>,
    /// By point and control.
    cases: Vec<Case>,
    /// Measure of the rule for the number of seeds, by case and seed, as far as read.
    values: Mutex<Vec<Vec<f64>>>,
}

/// One point under one control.
#[derive(Clone, Copy, Debug)]
struct Case {
    point: u32,
    /// Place in the plan's controls.
    choice: u32,
    /// Place in the controls' names.
    control: u32,
    hash: ScenarioHash,
}

impl Sweep {
    /// Checks every point of a plan.
    ///
    /// # Errors
    /// If the changes, a key, a value or a control is invalid, a key is varied twice, or no point is left.
    pub fn new(plan: Plan, registry: &Registry) -> Result<Self, LabError> {
        let mut axes = plan.axes.clone();
        if plan.bases.len() > 1 {
            let names = plan.bases.iter().map(|b| b.name.clone()).collect();
            let axis = Axis::of(SCENARIO_COLUMN, names).map_err(|e| LabError::wrong("vary", e))?;
            axes.insert(0, axis);
        }
        let grid = Grid::new(axes).map_err(|e| LabError::wrong("vary", e))?;
        let keys = grid.keys();
        if let Some(i) = (1..keys.len()).find(|&i| keys[..i].contains(&keys[i])) {
            return Err(LabError::wrong("vary", SettingProblem::KeyTwice(keys[i].clone())));
        }
        // A scenario without variation must be valid: an error in it is reported with its line.
        let whole = |base: &Base| resolved(base, &base.changes, registry);
        let scenarios = plan.bases.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let mut sweep = Sweep {
            plan,
            registry: registry.clone(),
            scenarios,
            grid,
            controls: Vec::new(),
            cases: Vec::new(),
            values: Mutex::default(),
        };
        let of_point = |point| sweep.cases_of(point);
        let found: Vec<_> = (0..sweep.grid.len()).into_par_iter().map(of_point).collect();
        for cases in found {
            for (mut case, name) in cases? {
                // The number of different control names is small.
                let known = sweep.controls.iter().position(|n| **n == *name);
                case.control = known.unwrap_or(sweep.controls.len()) as u32;
                if known.is_none() {
                    sweep.controls.push(name);
                }
                sweep.cases.push(case);
            }
        }
        if sweep.cases.is_empty() {
            return Err(LabError::wrong("vary", SettingProblem::NoPoint));
        }
        Ok(sweep)
    }

    /// Builds the scenarios of a point; returns the cases that the filters leave.
    fn cases_of(&self, point: usize) -> Result<Vec<(Case, Arc<str>)>, LabError> {
        let values = self.grid.point(point);
        let keys = self.grid.keys();
        let value = |key: &str, control: &str| match key {
            "control" => Some(control.to_owned()),
            _ => keys.iter().position(|k| k == key).map(|i| values[i].to_owned()),
        };
        let runs = |control: &str| {
            let matches = |f: &super::axes::Filter| f.matches(|key| value(key, control));
            (self.plan.only.is_empty() || self.plan.only.iter().any(matches))
                && !self.plan.skip.iter().any(matches)
        };
        let own = self.plan.controls.is_empty();
        if !own && !self.plan.controls.iter().any(|c| runs(c)) {
            return Ok(Vec::new());
        }
        let of_point = |e| describe(e, &keys, &values);
        let (base, changes, numbers) = self.at(point)?;
        let scenario = resolved(base, &changes, &self.registry).map_err(of_point)?;
        let mut scenarios = with_controls(&scenario, &self.plan.controls, &self.registry)?;
        set_parameters(&mut scenarios, &numbers).map_err(of_point)?;
        let mut cases = Vec::with_capacity(scenarios.len());
        for (choice, scenario) in scenarios.iter().enumerate() {
            let control = scenario.controls();
            if !runs(if own { &control } else { &self.plan.controls[choice] }) {
                continue;
            }
            let hash = ScenarioHash::of_run(scenario);
            let case = Case { point: point as u32, choice: choice as u32, control: 0, hash };
            cases.push((case, control.into()));
        }
        Ok(cases)
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the scenarios without variation.
    pub fn scenarios(&self) -> &[Scenario] {
        &self.scenarios
    }

    /// Returns the varied keys.
    pub fn keys(&self) -> Vec<String> {
        self.grid.keys()
    }

    /// Returns the largest number of runs: points × controls × seeds.
    pub fn len(&self) -> usize {
        self.cases.len() * self.plan.seeds.count()
    }

    /// Returns true if there is no run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of points that the filters leave.
    pub fn points(&self) -> usize {
        self.cases.chunk_by(|a, b| a.point == b.point).count()
    }

    /// Returns scenario and changes of a point, and its values of options of the controls.
    fn at(&self, point: usize) -> Result<(&Base, Changes, Vec<Assignment>), LabError> {
        let several = self.plan.bases.len() > 1;
        let base = &self.plan.bases[if several { self.grid.row(0, point) } else { 0 }];
        let (mut changes, mut numbers) = (base.changes.clone(), self.plan.options.clone());
        let (keys, values) = (self.grid.keys(), self.grid.point(point));
        for (key, value) in keys.into_iter().zip(values).skip(usize::from(several)) {
            match number_of(&key, value).filter(|_| !self.plan.controls.is_empty()) {
                Some(number) => numbers.push(number),
                None if base.source.format == Format::Toml => {
                    changes.edits.push(Edit { key, value: value.to_owned() });
                }
                None => changes = of_map(&changes, &key, value)?,
            }
        }
        Ok((base, changes, numbers))
    }

    /// Returns case and seed of a run by its place in the grid.
    ///
    /// Seeds vary fastest, then controls.
    fn place(&self, index: usize) -> (usize, u64) {
        let seeds = self.plan.seeds.count();
        (index / seeds, self.plan.seeds.bounds().start() + (index % seeds) as u64)
    }

    /// Returns a run as data, by its place in the grid, below [`Sweep::len`].
    ///
    /// # Errors
    /// None for a sweep that was checked.
    pub fn job(&self, index: usize) -> Result<Job, LabError> {
        let (case, seed) = self.place(index);
        let Case { point, choice, .. } = self.cases[case];
        let (base, changes, numbers) = self.at(point as usize)?;
        let control = match self.plan.controls.get(choice as usize) {
            None => Choice { name: None, options: numbers },
            Some(name) => {
                let options = assignments_of(name, &numbers, &self.registry)?;
                Choice { name: Some(name.clone()), options }
            }
        };
        let source = base.source.clone();
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
    /// Returns an error if the folder has other content, or the store cannot be used.
    pub fn open(folder: &Path, others: OtherRevisions) -> Result<Store, LabError> {
        claim(folder)?;
        Ok(Store::open(&folder.join(STORE_FOLDER), others)?)
    }

    /// Returns values and control of a case.
    #[cfg(test)]
    pub(super) fn name(&self, case: usize) -> String {
        let Case { point, control, .. } = self.cases[case];
        format!("{} {}", self.grid.point(point as usize).join(" "), self.controls[control as usize])
    }

    /// Returns the scenarios' names, for the summary.
    pub(super) fn title(&self) -> String {
        let names = self.scenarios.iter().map(Scenario::name).collect::<Vec<_>>();
        names.join(", ")
    }

    /// Returns the largest number of seeds of a point.
    pub(super) fn seeds(&self) -> usize {
        self.plan.seeds.count()
    }

    /// Returns the axes of the grid.
    pub(super) fn axes(&self) -> &[Axis] {
        self.grid.axes()
    }

    /// Returns the measure that decides the number of seeds.
    pub(super) fn until(&self) -> Option<&str> {
        self.plan.until.as_ref().map(|u| u.measure.as_str())
    }

    /// Calls `each` with the runs of each point and control that are in the store, in order.
    pub(super) fn each(
        &self,
        store: &Store,
        mut each: impl FnMut(&[Cell]) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut cells = Vec::new();
        for (case, at) in self.cases.iter().enumerate() {
            cells.clear();
            for n in 0..self.wanted(store, case)?.0 {
                let index = case * self.plan.seeds.count() + n;
                if let Some(record) = store.get(&self.key(store, index))? {
                    let point = self.grid.point(at.point as usize);
                    let point = point.into_iter().map(str::to_owned).collect();
                    let control = self.controls[at.control as usize].to_string();
                    cells.push(Cell::of(point, control, &record));
                }
            }
            if !cells.is_empty() {
                each(&cells)?;
            }
        }
        Ok(())
    }

    /// Returns the number of seeds wanted for a case by its stored runs, and true if it is final.
    fn wanted(&self, store: &Store, case: usize) -> Result<(usize, bool), LabError> {
        let most = self.plan.seeds.count();
        let Some(until) = &self.plan.until else { return Ok((most, true)) };
        let lock = || self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values = std::mem::take(lock().get_mut(case).unwrap_or(&mut Vec::new()));
        let mut wanted = until.least.min(most);
        let mut last = false;
        let outcome = loop {
            while values.len() < wanted {
                let key = self.key(store, case * most + values.len());
                let Some(record) = store.get::<RunRecord>(&key)? else { break };
                let Some(value) = until.value(&record) else {
                    let problem = SettingProblem::NoMeasure {
                        measure: until.measure.clone(),
                        control: record.control,
                    };
                    return Err(LabError::wrong("until", problem));
                };
                values.push(value);
            }
            if values.len() < wanted {
                break (wanted, false);
            }
            last |= wanted == most;
            if last || until.narrow(&values[..wanted]) {
                break (wanted, true);
            }
            wanted = super::until::StopRule::next(wanted).min(most);
        };
        let mut all = lock();
        if all.len() < self.cases.len() {
            all.resize(self.cases.len(), Vec::new());
        }
        all[case] = values;
        Ok(outcome)
    }

    /// Returns the places in the grid of the runs that are wanted and missing from the store.
    /// With a rule for the number of seeds there may be more when these are there.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or runs lack the measure of the rule.
    pub fn missing(&self, store: &Store) -> Result<Vec<usize>, LabError> {
        let seeds = self.plan.seeds.count();
        let mut missing = Vec::new();
        for case in 0..self.cases.len() {
            let all = (0..self.wanted(store, case)?.0).map(|n| case * seeds + n);
            missing.extend(all.filter(|&i| !store.contains(&self.key(store, i))));
        }
        Ok(missing)
    }

    /// Runs the jobs missing from the store and adds them.
    ///
    /// # Errors
    /// As [`Sweep::run`]; [`LabError::Stopped`] if the caller stops the batch.
    pub fn fill(&self, store: &Store, pool: &Pool<'_>) -> Result<(), LabError> {
        self.check(store, pool)?;
        loop {
            let missing = self.missing(store)?;
            batch::all(pool, "sweeping", &missing, |&index| {
                let key = self.key(store, index);
                // Another process may have added it.
                store.refresh()?;
                if !store.contains(&key) {
                    store.put(key, &self.make(index, pool)?)?;
                }
                Ok(())
            })?;
            if missing.is_empty() || self.plan.until.is_none() {
                return Ok(());
            }
        }
    }

    /// Repeats one stored run of each control, and refuses a store with other results.
    ///
    /// # Errors
    /// [`crate::StoreError::Stale`], or if the engine rejects a scenario.
    pub fn check(&self, store: &Store, pool: &Pool<'_>) -> Result<(), LabError> {
        let mut checked: Vec<(u32, usize)> = Vec::new();
        for index in 0..if store.is_empty() { 0 } else { self.len() } {
            let control = self.cases[self.place(index).0].control;
            if checked.len() == self.controls.len() {
                break;
            }
            if !checked.iter().any(|c| c.0 == control) && store.contains(&self.key(store, index)) {
                checked.push((control, index));
            }
        }
        check(pool, store, &checked, |c| self.make(c.1, pool), |c| self.key(store, c.1))
    }

    fn make(&self, index: usize, pool: &Pool<'_>) -> Result<RunRecord, LabError> {
        let job = self.job(index)?.resolve(&self.registry)?;
        pool.run(&job.scenario, &job.options)
    }
}

fn resolved(base: &Base, changes: &Changes, registry: &Registry) -> Result<Scenario, LabError> {
    build(Path::new(&base.source.file), base.source.text.as_bytes(), changes, registry)
}

/// Returns the error with the point that caused it.
fn describe(e: LabError, keys: &[String], values: &[&str]) -> LabError {
    match e {
        LabError::Scenario(e) => {
            let point = keys.iter().zip(values).map(|(k, v)| (k.clone(), (*v).to_owned()));
            LabError::wrong("vary", SettingProblem::Point { point: point.collect(), error: e })
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
    if !folder.join(STORE_FOLDER).exists() && entries.next().is_some() {
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
    use crate::job::{Revision, Source};
    use crate::store::StoreError;
    use crate::{Progress, Seeds};

    const TEXT: &str = "name = \"pair\"\nduration = \"200 ms\"\n[topology]\nchain = { hops = 1 }\n\
                        [[flow]]\nfrom = 1\nto = 0\n";

    fn plan(file: &Path, seeds: u64) -> Sweep {
        let source = Source::new(file, TEXT.as_bytes()).unwrap();
        let mut plan = Plan::of(source, Changes::default());
        plan.vary("radio.rts=false,true").unwrap();
        plan.controls = ["fifo", "source"].map(str::to_owned).to_vec();
        plan.options = vec!["room=0.1".parse().unwrap()];
        plan.seeds = Seeds::first(seeds).unwrap();
        Sweep::new(plan, &Registry::standard()).unwrap()
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
            // Serialised as for another machine.
            let text = serde_json::to_string(&sweep.job(i).unwrap()).unwrap();
            let job: Job = serde_json::from_str(&text).unwrap();
            assert_eq!(job.key(store.revision(), &Registry::standard()).unwrap(), *key, "{text}");
            assert!(!keys[..i].contains(key));
        }
        assert_eq!(keys.len(), 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// A sweep that is stopped anywhere and resumed has an equal store.
        ///
        /// This holds for any number of runs and threads.
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

    /// A program with changed results and the same revision.
    #[test]
    fn runs_that_do_not_repeat_are_reported_before_anything_is_added() {
        let dir = tempfile::tempdir().unwrap();
        let sweep = plan(&dir.path().join("pair.toml"), 2);
        let store = open(&dir.path().join("store"), "1", OtherRevisions::Refuse).unwrap();
        // The second control's: one of each is checked.
        let control = |i: usize| &*sweep.controls[sweep.cases[sweep.place(i).0].control as usize];
        let index = (0..sweep.len()).find(|&i| control(i) == "source");
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
