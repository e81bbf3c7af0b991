//! Runs, comparisons, the optimum and the analytic models.

use std::path::PathBuf;
use std::sync::Arc;

use fairmesh_lab::analysis::Capacity;
use fairmesh_lab::analysis::region::RegionReport;
use fairmesh_lab::changes::{set_parameters, with_control};
use fairmesh_lab::job::Measures;
use fairmesh_lab::models::region::{Retries, Settings};
use fairmesh_lab::notes::notes;
use fairmesh_lab::optimum::{OptimumReport, SharingUnit, optimum_of};
use fairmesh_lab::units::Span;
use fairmesh_lab::{Batch, Comparison, OtherRevisions, Progress, Store, frame};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, setting};
use crate::frame::Frame;
use crate::mechanism::{self, Guard};
use crate::results::{Analysis, Results};
use crate::scenario::Scenario;
use crate::session::Session;
use crate::values::{assignments, quantity, seeds};

/// Runs a scenario once.
#[pyfunction]
#[pyo3(signature = (scenario, *, control, seed, options, sample, store, progress))]
#[allow(clippy::too_many_arguments)] // Keywords.
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Scenario,
    control: Option<&str>,
    seed: u64,
    options: Option<&Bound<'_, PyDict>>,
    sample: Option<&str>,
    store: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Results> {
    let guard = Arc::<Guard>::default();
    let registry = mechanism::registry(&guard);
    let mut world = scenario.world_with(py, &registry)?;
    if let Some(control) = control {
        world = with_control(&world, control, &registry).or_raise(py)?;
    }
    set_parameters(std::slice::from_mut(&mut world), &assignments(options)?).or_raise(py)?;
    let sample = quantity::<Span>(py, "sample", sample)?;
    let options = Measures { sample, ..Measures::default() }.options(seed);
    let store = open(py, store)?;
    let session = Session { guard: &guard, threads: Some(1), store: store.as_ref(), progress };
    let remarks = [world.warnings().to_vec(), notes(std::slice::from_ref(&world))].concat();
    let record = session.perform(py, |pool| pool.measured(&world, &options))?;
    let records = vec![vec![record]];
    let comparison = Comparison::of(&records).noted(remarks);
    Ok(Results::new(records, comparison, None))
}

/// Runs a scenario under several controls and seeds.
#[pyfunction]
#[pyo3(signature = (scenario, controls, *, seeds, options, sample, optimum, threads, store, progress))]
#[allow(clippy::too_many_arguments)] // Keywords.
pub(crate) fn compare(
    py: Python<'_>,
    scenario: &Scenario,
    controls: Vec<String>,
    seeds: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
    sample: Option<&str>,
    optimum: bool,
    threads: Option<usize>,
    store: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Results> {
    let guard = Arc::<Guard>::default();
    let registry = mechanism::registry(&guard);
    let world = &scenario.world_with(py, &registry)?;
    let seeds = self::seeds(seeds)?;
    let mut batch = Batch::new(world, &controls, &registry, seeds.bounds()).or_raise(py)?;
    set_parameters(&mut batch.scenarios, &assignments(options)?).or_raise(py)?;
    batch.sample = quantity(py, "sample", sample)?;
    let remarks = [world.warnings().to_vec(), notes(&batch.scenarios)].concat();
    let store = open(py, store)?;
    let session = Session { guard: &guard, threads, store: store.as_ref(), progress };
    let (records, best) = session.perform(py, |pool| {
        // The optimum is first, so that an error in the longer work is reported early.
        let best = optimum.then(|| search(pool, world, SharingUnit::usual(world))).transpose()?;
        Ok((batch.run(pool)?, best))
    })?;
    let comparison = Comparison::of(&records).noted(remarks);
    Ok(Results::new(records, comparison, best.map(|b| b.optimum)))
}

/// Searches the max-min rates that the simulator itself carries.
#[pyfunction]
#[pyo3(signature = (scenario, *, per, threads, store, progress))]
pub(crate) fn optimum(
    py: Python<'_>,
    scenario: &Scenario,
    per: Option<&str>,
    threads: Option<usize>,
    store: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Analysis> {
    let world = scenario.world();
    let per = match per {
        None => SharingUnit::usual(world),
        Some("flow") => SharingUnit::Flow,
        Some("subscriber") => SharingUnit::Subscriber,
        Some(other) => {
            let problem = format!("found \"{other}\"; expected flow or subscriber");
            return Err(setting(py, "per", problem));
        }
    };
    let store = open(py, store)?;
    let session = Session { guard: &Guard::default(), threads, store: store.as_ref(), progress };
    let found = session.perform(py, |pool| search(pool, world, per))?;
    let report = py.detach(|| OptimumReport::new(world, found.optimum, found.kept));
    Analysis::new(frame::optimum(&report), &report)
}

fn search(
    pool: &fairmesh_lab::Pool<'_>,
    world: &fairmesh_lab::scenario::Scenario,
    per: SharingUnit,
) -> Result<fairmesh_lab::optimum::Found, fairmesh_lab::LabError> {
    use std::ops::ControlFlow;

    optimum_of(world, per, pool.store, pool.threads, &|p| {
        let what = "searching the optimum";
        let stop = pool.progress.is_some_and(|report| {
            report(Progress { what, done: p.runs as usize, total: 0 }).is_break()
        });
        match stop || pool.cancel.is_some_and(|c| c.is_cancelled()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}

/// Computes the rates that the analytic models allow.
#[pyfunction]
pub(crate) fn capacity(py: Python<'_>, scenario: &Scenario) -> PyResult<Analysis> {
    let world = scenario.world();
    let report = py.detach(|| Capacity::of(world, None)).or_raise(py)?;
    Analysis::new(frame::bounds(&report), &report)
}

/// Computes the achievable rate region between two groups of flows.
#[pyfunction]
#[pyo3(signature = (scenario, *, group, utilization, retry_limits))]
pub(crate) fn region(
    py: Python<'_>,
    scenario: &Scenario,
    group: Vec<String>,
    utilization: f64,
    retry_limits: bool,
) -> PyResult<Analysis> {
    if !(utilization > 0.0 && utilization <= 1.0) {
        let problem = format!("found {utilization}; expected above 0, at most 1");
        return Err(setting(py, "utilization", problem));
    }
    let settings = Settings {
        utilisation: utilization,
        retries: if retry_limits { Retries::Mac } else { Retries::Unlimited },
        ..Settings::default()
    };
    let report = py.detach(|| RegionReport::of(scenario.world(), &group, settings)).or_raise(py)?;
    Analysis::new(frame::region(&report), &report)
}

/// All controls: name, origin, one line each.
#[pyfunction]
pub(crate) fn controls() -> Frame {
    frame::controls(&mechanism::registry(&Arc::default())).into()
}

fn open(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Option<Store>> {
    let open = |folder: PathBuf| py.detach(|| Store::open(&folder, OtherRevisions::Refuse));
    folder.map(|folder| open(folder).or_raise(py)).transpose()
}
