//! A mesh as jobs: islands on this machine, or for other machines.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fairmesh_lab::changes::{Assignment, set_parameters, with_control};
use fairmesh_lab::control::Registry;
use fairmesh_lab::job::{Choice, Measures};
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::scenario::Scenario as World;
use fairmesh_lab::units::Span;
use fairmesh_lab::{Comparison, Job, LabError, OtherRevisions, Store, StoreError, city};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, setting};
use crate::mechanism::{self, Guard};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::session::Session;
use crate::sweep::{record_text, same_revision};
use crate::values::{assignments, quantity};

/// The islands of a scenario, and the runs of them that are complete.
#[pyclass(frozen, module = "fairmesh._fairmesh")]
pub struct City {
    city: city::City,
    job: Job,
    store: Option<Store>,
    guard: Arc<Guard>,
    done: Mutex<Vec<(usize, RunRecord)>>,
}

/// Resolves a job as [`Job::resolve`], and finds its islands.
fn city_of(job: &Job, registry: &Registry) -> Result<city::City, LabError> {
    let resolved = job.resolve(registry)?;
    Ok(city::City::new(resolved.scenario, resolved.options))
}

#[pymethods]
impl City {
    #[new]
    #[pyo3(signature = (scenario, *, control, seed, options, sample, store))]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        control: Option<String>,
        seed: u64,
        options: Option<&Bound<'_, PyDict>>,
        sample: Option<&str>,
        store: Option<PathBuf>,
    ) -> PyResult<Self> {
        let guard = Arc::<Guard>::default();
        let registry = mechanism::registry(&guard);
        let (source, changes) = scenario.parts();
        let options: Vec<Assignment> = assignments(options)?;
        // Options that no control has are rejected as in a run.
        let mut world: World = scenario.world_with(py, &registry)?;
        if let Some(control) = &control {
            world = with_control(&world, control, &registry).or_raise(py)?;
        }
        set_parameters(std::slice::from_mut(&mut world), &options).or_raise(py)?;
        let sample = quantity::<Span>(py, "sample", sample)?;
        let job = Job {
            source: source.clone(),
            changes: changes.clone(),
            control: Choice { name: control, options },
            seed,
            measures: Measures { sample, ..Measures::default() },
        };
        let run = job.measures.options(seed);
        let city = py.detach(|| city::City::new(world, run));
        let open = |folder: PathBuf| py.detach(|| Store::open(&folder, OtherRevisions::Refuse));
        let store = store.map(|folder| open(folder).or_raise(py)).transpose()?;
        Ok(City { city, job, store, guard, done: Mutex::default() })
    }

    fn __len__(&self) -> usize {
        self.city.len()
    }

    /// One line on the islands, and one per pair of gateways that are run together.
    fn report(&self) -> Vec<String> {
        self.city.report()
    }

    /// Number of nodes of each island.
    fn sizes(&self) -> Vec<usize> {
        self.city.islands().list.iter().map(|i| i.nodes.len()).collect()
    }

    /// Numbers of the islands without a run in the store, the largest first.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let mut all: Vec<usize> = (0..self.city.len()).collect();
        all.sort_by_key(|&i| std::cmp::Reverse(self.city.islands().list[i].nodes.len()));
        let Some(store) = &self.store else { return Ok(all) };
        let stored = || {
            let mut missing = Vec::new();
            for i in all {
                match store.get::<RunRecord>(&self.city.key(store, i))? {
                    Some(record) => self.keep(i, record),
                    None => missing.push(i),
                }
            }
            Ok::<_, StoreError>(missing)
        };
        py.detach(stored).or_raise(py)
    }

    /// The scenario and its settings as JSON, for `run_islands` of another process.
    fn job(&self, py: Python<'_>) -> PyResult<String> {
        serde_json::to_string(&self.job).map_err(|e| setting(py, "job", e))
    }

    /// Adds the record of an island, as JSON.
    fn put(&self, py: Python<'_>, island: usize, record: &str) -> PyResult<()> {
        let record: RunRecord =
            serde_json::from_str(record).map_err(|e| setting(py, "record", e))?;
        if let Some(store) = &self.store {
            let key = self.city.key(store, island);
            py.detach(|| store.put(key, &record)).or_raise(py)?;
        }
        self.keep(island, record);
        Ok(())
    }

    /// Runs all islands on this machine.
    #[pyo3(signature = (*, threads, progress))]
    fn run(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let store = self.store.as_ref();
        let session = Session { guard: &self.guard, threads, store, progress };
        let record = session.perform(py, |pool| self.city.run(pool))?;
        Ok(self.results(record))
    }

    /// Results of the whole, when the record of each island was added.
    fn merged(&self, py: Python<'_>) -> PyResult<Results> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, expected) = (done.len(), self.city.len());
        if found != expected {
            let problem = format!("found records of {found}; expected {expected}");
            return Err(setting(py, "islands", problem));
        }
        let records = std::mem::take(&mut *done);
        drop(done);
        let record = py.detach(|| self.city.merge(records));
        Ok(self.results(record))
    }
}

impl City {
    fn keep(&self, island: usize, record: RunRecord) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.retain(|d| d.0 != island);
        done.push((island, record));
    }

    fn results(&self, record: RunRecord) -> Results {
        let records = vec![vec![record]];
        let remarks = [self.city.scenario().warnings().to_vec(), self.city.report()].concat();
        let comparison = Comparison::of(&records).noted(remarks);
        Results::new(records, comparison, None)
    }
}

/// The city that a worker resolved last: all its islands are of one job.
static LAST_CITY: Mutex<Option<(String, Arc<city::City>)>> = Mutex::new(None);

/// Runs some islands of a job and returns their records. For workers of the same revision.
#[pyfunction]
pub(crate) fn run_islands(
    py: Python<'_>,
    job: &str,
    islands: Vec<usize>,
    revision: &str,
) -> PyResult<Vec<String>> {
    same_revision(py, revision)?;
    let guard = Arc::<Guard>::default();
    let session = Session { guard: &guard, threads: Some(1), store: None, progress: None };
    let registry = mechanism::registry(&guard);
    let resolve = || {
        let mut last = LAST_CITY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, city)) = last.as_ref().filter(|l| l.0 == job) {
            return Ok(Arc::clone(city));
        }
        let parsed: Job = serde_json::from_str(job).map_err(|e| LabError::setting("job", e))?;
        let city = Arc::new(city_of(&parsed, &registry)?);
        *last = Some((job.to_owned(), Arc::clone(&city)));
        Ok::<_, LabError>(city)
    };
    let city = py.detach(resolve).or_raise(py)?;
    if let Some(island) = islands.iter().find(|&&i| i >= city.len()) {
        let problem = format!("found {island}; expected below {}", city.len());
        return Err(setting(py, "islands", problem));
    }
    session.perform(py, |pool| {
        let run = |&island: &usize| record_text(&city.run_island(island, pool)?);
        islands.iter().map(run).collect()
    })
}
