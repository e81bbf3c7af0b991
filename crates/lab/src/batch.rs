//! Batches of runs on all cores, with results that do not depend on the number of cores.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairmesh_control::Registry;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{CancelToken, Inputs, RunOptions, Simulation, run, run_observed_until};
use fairmesh_scenario::Scenario;
use fairmesh_units::{NodeId, Span};
use rayon::prelude::*;

use crate::capture::{Capture, Ports};
use crate::changes::with_controls;
use crate::files::folder::PendingFile;
use crate::job::{JobKey, ScenarioHash};
use crate::store::{Place, Store, StoreError};
use crate::{FileProblem, LabError, SettingProblem};

/// Progress of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Name of the current activity.
    pub what: &'static str,
    /// Jobs completed.
    pub done: usize,
    /// Total number of jobs.
    pub total: usize,
}

/// Function that performs a job on its thread.
pub type Around<'a> = &'a (dyn Fn(&mut (dyn FnMut() + Send)) + Sync);

/// Threads, progress, store and cancellation of a batch.
/// By default all cores and none of the others; results depend on none of them.
#[derive(Clone, Copy, Default)]
pub struct Pool<'a> {
    /// Number of concurrent runs; `None`: the number of cores.
    pub threads: Option<NonZero<usize>>,
    /// Called before the first job and after each, from any thread.
    /// `Break` stops the batch: running jobs are completed, no further one starts, and the batch ends with
    /// [`LabError::Stopped`].
    pub progress: Option<&'a (dyn Fn(Progress) -> ControlFlow<()> + Sync)>,
    /// Store from which runs are taken and to which they are added.
    pub store: Option<&'a Store>,
    /// Function that is called with each job on the job's thread.
    ///
    /// It must perform the job once. It is for callers that prepare threads.
    pub around: Option<Around<'a>>,
    /// Switch that ends the batch within its current runs, with [`LabError::Stopped`].
    /// A run that it ends leaves no record.
    pub cancel: Option<&'a CancelToken>,
}

impl Pool<'_> {
    /// Runs a scenario once, or takes the run from the store.
    ///
    /// # Errors
    /// Returns an error if the engine rejects the scenario, or a store cannot be used.
    pub fn once(&self, scenario: &Scenario, seed: u64) -> Result<RunRecord, LabError> {
        self.measured(scenario, &RunOptions { seed, ..RunOptions::default() })
    }

    /// Runs a scenario once with the measures in `options`, or takes the run from the store.
    /// A new run is in the store when this returns.
    ///
    /// # Errors
    /// Returns an error if the engine rejects the scenario, or a store cannot be used.
    pub fn measured(
        &self,
        scenario: &Scenario,
        options: &RunOptions,
    ) -> Result<RunRecord, LabError> {
        self.kept_or(scenario, options, || self.run(scenario, options))
    }

    /// Runs a scenario once, even if the store has the run, until the token is used.
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        options: &RunOptions,
    ) -> Result<RunRecord, LabError> {
        let Some(cancel) = self.cancel else { return measured(scenario, options) };
        let run = || {
            let inputs = Inputs::analytic(scenario, None)?;
            let inputs = Inputs { cancel: cancel.clone(), ..inputs };
            Simulation::new(Arc::new(scenario.clone()), options, inputs)?.finish()
        };
        run().map_err(|e| refused(scenario, e))
    }

    /// Runs a scenario once and captures its frames to `file`, all of them or those of one node.
    ///
    /// # Errors
    /// If the engine rejects the scenario, the token is used, or the file cannot be written.
    pub fn captured(
        &self,
        scenario: &Scenario,
        options: &RunOptions,
        file: &Path,
        only: Option<NodeId>,
    ) -> Result<RunRecord, LabError> {
        let (pending, out) = PendingFile::beside(file)?;
        let unwritable = |e: std::io::Error| LabError::at(file, FileProblem::Unwritable(e));
        let out = std::io::BufWriter::with_capacity(1 << 16, out);
        let capture = Capture::new(out, ports(scenario), only).map_err(unwritable)?;
        let cancel = self.cancel.cloned().unwrap_or_default();
        let (record, capture) = run_observed_until(scenario, options, capture, cancel)
            .map_err(|e| refused(scenario, e))?;
        capture.finish().map_err(unwritable)?;
        pending.finish()?;
        Ok(record)
    }

    /// Returns file and line of a run in the store, if present.
    pub fn stored(&self, scenario: &Scenario, options: &RunOptions) -> Option<Place> {
        let store = self.store?;
        let scenario = ScenarioHash::of_run(scenario);
        store.place(&JobKey::of_run(store.revision(), &scenario, options))
    }

    fn kept_or(
        &self,
        scenario: &Scenario,
        options: &RunOptions,
        make: impl FnOnce() -> Result<RunRecord, LabError>,
    ) -> Result<RunRecord, LabError> {
        let Some(store) = self.store else { return make() };
        let key = JobKey::of_run(store.revision(), &ScenarioHash::of_run(scenario), options);
        if !store.contains(&key) {
            // Another process may have added it.
            store.refresh()?;
        }
        if let Some(record) = store.get(&key)? {
            return Ok(record);
        }
        let record = make()?;
        store.put(key, &record)?;
        Ok(record)
    }

    /// Repeats one of the stored runs of each control among `jobs`.
    /// Rejects the store if a fingerprint differs: its program gave other results under the same revision. Without a
    /// store, or if it has none of the jobs, nothing runs.
    ///
    /// # Errors
    /// [`StoreError::Stale`], or if the engine rejects a scenario.
    pub fn check_store(&self, jobs: &[(&Scenario, RunOptions)]) -> Result<(), LabError> {
        let Some(store) = self.store.filter(|s| !s.is_empty()) else { return Ok(()) };
        let mut controls = BTreeSet::new();
        let mut chosen = Vec::new();
        for (scenario, options) in jobs {
            let control = scenario.controls();
            if controls.contains(&control) {
                continue;
            }
            let key = JobKey::of_run(store.revision(), &ScenarioHash::of_run(scenario), options);
            if store.contains(&key) {
                controls.insert(control);
                chosen.push((key, *scenario, *options));
            }
        }
        check(self, store, &chosen, |(_, scenario, options)| self.run(scenario, options), |c| c.0)
    }
}

/// Repeats stored runs and compares their fingerprints.
pub(crate) fn check<J: Sync>(
    pool: &Pool<'_>,
    store: &Store,
    chosen: &[J],
    again: impl Fn(&J) -> Result<RunRecord, LabError> + Sync,
    key: impl Fn(&J) -> JobKey + Sync,
) -> Result<(), LabError> {
    if chosen.is_empty() {
        return Ok(());
    }
    all(pool, "checking stored runs", chosen, |job| {
        let key = key(job);
        let (Some(stored), Some(place)) = (store.get::<RunRecord>(&key)?, store.place(&key)) else {
            return Ok(());
        };
        let (stored, now) = (stored.fingerprint, again(job)?.fingerprint);
        match stored == now {
            true => Ok(()),
            false => Err(StoreError::Stale { place, stored, now }.into()),
        }
    })?;
    Ok(())
}

/// A scenario under several controls, with several seeds each.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The scenario, once per control.
    pub scenarios: Vec<Scenario>,
    /// The seeds.
    pub seeds: RangeInclusive<u64>,
    /// Interval of the curves; `None`: no curves.
    pub sample: Option<Span>,
    /// Existing folder for captures of the frames of the first seed: `CONTROL.pcap`.
    pub captures: Option<PathBuf>,
}

impl Batch {
    /// Builds a batch of these controls, or of the scenario's own if there are none.
    ///
    /// # Errors
    /// Returns an error if a control does not exist or is named twice, or there are no seeds.
    pub fn new(
        scenario: &Scenario,
        controls: &[impl AsRef<str>],
        registry: &Registry,
        seeds: RangeInclusive<u64>,
    ) -> Result<Self, LabError> {
        if seeds.is_empty() {
            return Err(LabError::wrong("seeds", SettingProblem::NoSeeds));
        }
        let scenarios = with_controls(scenario, controls, registry)?;
        Ok(Batch { scenarios, seeds, sample: None, captures: None })
    }

    /// Runs the whole batch: one list per control, one record per seed.
    ///
    /// # Errors
    /// Returns an error if the engine rejects a scenario, or a capture cannot be written.
    pub fn run(&self, pool: &Pool<'_>) -> Result<Vec<Vec<RunRecord>>, LabError> {
        let first = *self.seeds.start();
        let jobs: Vec<(&Scenario, u64)> = self
            .scenarios
            .iter()
            .flat_map(|s| self.seeds.clone().map(move |seed| (s, seed)))
            .collect();
        let options = |seed| RunOptions { seed, sample: self.sample, ..RunOptions::default() };
        let runs: Vec<_> = jobs.iter().map(|&(scenario, seed)| (scenario, options(seed))).collect();
        pool.check_store(&runs)?;
        let done = all(pool, "comparing", &runs, |(scenario, options)| match &self.captures {
            Some(folder) if options.seed == first => {
                let file = folder.join(format!("{}.pcap", scenario.control()));
                pool.captured(scenario, options, &file, None)
            }
            _ => pool.measured(scenario, options),
        })?;
        let (mut done, seeds) = (done.into_iter(), self.seeds.clone().count());
        Ok(self.scenarios.iter().map(|_| done.by_ref().take(seeds).collect()).collect())
    }
}

/// Performs `work` on every job and returns the results in the order of the jobs.
///
/// # Errors
/// The error of a job; jobs that have not started then never do. [`LabError::Stopped`] if
/// [`Pool::progress`] or [`Pool::cancel`] stops the batch before its last job is complete.
pub fn all<J: Sync, T: Send>(
    pool: &Pool<'_>,
    what: &'static str,
    jobs: &[J],
    work: impl Fn(&J) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(pool.threads.map_or(0, NonZero::get))
        .build()
        .map_err(|e| LabError::wrong("threads", e))?;
    let (total, done, stop) = (jobs.len(), AtomicUsize::new(0), AtomicBool::new(false));
    let cancelled = || pool.cancel.is_some_and(CancelToken::is_cancelled);
    let stopped = || LabError::Stopped { what, done: done.load(Ordering::Relaxed), total };
    let report = |done| {
        if let Some(progress) = pool.progress
            && progress(Progress { what, done, total }).is_break()
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let perform = |job| match pool.around {
        None => work(job),
        Some(around) => {
            let mut outcome = None;
            around(&mut || outcome = Some(work(job)));
            outcome.unwrap_or_else(|| Err(stopped()))
        }
    };
    report(0);
    threads.install(|| {
        jobs.par_iter()
            // One at a time: runs differ in length, and no thread should hold several.
            .with_max_len(1)
            .map(|job| {
                if stop.load(Ordering::Relaxed) || cancelled() {
                    return Err(stopped());
                }
                match perform(job) {
                    Ok(outcome) => {
                        report(done.fetch_add(1, Ordering::Relaxed) + 1);
                        Ok(outcome)
                    }
                    Err(_) if cancelled() => Err(stopped()),
                    Err(e) => Err(e),
                }
            })
            .collect()
    })
}

/// Runs a scenario once.
///
/// # Errors
/// Returns an error if the engine rejects the scenario.
pub fn once(scenario: &Scenario, seed: u64, sample: Option<Span>) -> Result<RunRecord, LabError> {
    measured(scenario, &RunOptions { seed, sample, ..RunOptions::default() })
}

/// Runs a scenario once with the requested measures.
///
/// # Errors
/// Returns an error if the engine rejects the scenario.
pub fn measured(scenario: &Scenario, options: &RunOptions) -> Result<RunRecord, LabError> {
    run(scenario, options).map_err(|e| refused(scenario, e))
}

fn refused(scenario: &Scenario, e: fairmesh_engine::EngineError) -> LabError {
    LabError::refused(scenario.name(), e)
}

/// Returns the ports of each flow: the server's is 5001, the client's distinguishes flows.
fn ports(scenario: &Scenario) -> Vec<Ports> {
    let ephemeral = |i: usize| 49_152 + (i % 16_384) as u16;
    let flows = scenario.flows().iter().enumerate();
    flows
        .map(|(i, f)| Ports { client: f.from, client_port: ephemeral(i), server_port: 5001 })
        .collect()
}

/// Returns a round sampling interval that gives about 200 points.
pub fn sample_interval(duration: Span) -> Span {
    const STEPS: [u64; 3] = [1, 2, 5];
    let wanted = duration.as_nanos() / 200;
    let mut unit = 1_000_000;
    loop {
        for step in STEPS {
            if step * unit >= wanted {
                return Span::from_nanos(step * unit);
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7] {
            let pool = Pool { threads: NonZero::new(threads), ..Pool::default() };
            assert_eq!(all(&pool, "", &jobs, |j| Ok(j * 2)).unwrap()[99], 198);
        }
        let e = all(&Pool::default(), "", &jobs, |j| match j {
            50 => Err(LabError::run("x", "no")),
            _ => Ok(()),
        });
        assert!(e.is_err());
    }

    #[test]
    fn a_caller_prepares_the_thread_of_each_job() {
        thread_local!(static READY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
        let around = |job: &mut (dyn FnMut() + Send)| {
            READY.set(true);
            job();
            READY.set(false);
        };
        let pool = Pool { around: Some(&around), ..Pool::default() };
        let done = all(&pool, "", &[1, 2, 3], |j| Ok((*j, READY.get()))).unwrap();
        assert_eq!(done, [(1, true), (2, true), (3, true)]);
        assert!(!READY.get());
    }

    #[test]
    fn a_stopped_batch_starts_no_further_job() {
        for threads in [1, 2] {
            let started = AtomicUsize::new(0);
            let progress = |p: Progress| match p.done {
                3.. => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            let pool = Pool {
                threads: NonZero::new(threads),
                progress: Some(&progress),
                ..Pool::default()
            };
            let e = all(&pool, "counting", &[(); 100], |()| {
                started.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            let e = e.unwrap_err();
            assert!(matches!(e, LabError::Stopped { done: 3.., total: 100, .. }), "{e}");
            assert!(started.into_inner() < 3 + threads + 1);
        }
    }

    #[test]
    fn sampling_is_round_and_dense_enough() {
        assert_eq!(sample_interval(Span::from_secs(200)), Span::from_secs(1));
        assert_eq!(sample_interval(Span::from_secs(60)), Span::from_millis(500));
        assert_eq!(sample_interval(Span::from_micros(1)), Span::from_millis(1));
    }
}
