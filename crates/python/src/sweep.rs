//! Sweeps: every combination of some settings, on this machine or as jobs for others.

use std::path::PathBuf;
use std::sync::Arc;

use fairmesh_lab::record::RunRecord;
use fairmesh_lab::scenario::value as written;
use fairmesh_lab::sweep::vary::Axis;
use fairmesh_lab::{Job, LabError, OtherRevisions, Revision, Store, StoreError, sweep};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, setting};
use crate::frame::Frame;
use crate::mechanism::{self, Guard};
use crate::scenario::Scenario;
use crate::session::Session;
use crate::values::{assignments, seeds, toml_of};

/// All runs of a sweep, and the store that holds those that are complete.
#[pyclass(frozen, module = "fairmesh._fairmesh")]
pub struct Sweep {
    sweep: sweep::Sweep,
    store: Store,
    guard: Arc<Guard>,
}

#[pymethods]
impl Sweep {
    #[new]
    #[pyo3(signature = (scenario, vary, *, controls, seeds, options, folder))]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        vary: &Bound<'_, PyDict>,
        controls: Vec<String>,
        seeds: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
        folder: PathBuf,
    ) -> PyResult<Self> {
        let guard = Arc::<Guard>::default();
        let registry = mechanism::registry(&guard);
        let mut axes = Vec::with_capacity(vary.len());
        for (key, values) in vary.iter() {
            axes.push(axis(key.extract()?, &values)?);
        }
        let (seeds, options) = (self::seeds(seeds)?, assignments(options)?);
        let (source, changes) = scenario.parts();
        let (sweep, store) = py
            .detach(|| {
                let source = source.clone();
                let sweep =
                    sweep::Sweep::of(source, changes, axes, &controls, &options, seeds, &registry)?;
                let store = Store::open(&folder, OtherRevisions::Refuse)?;
                Ok::<_, LabError>((sweep, store))
            })
            .or_raise(py)?;
        Ok(Sweep { sweep, store, guard })
    }

    fn __len__(&self) -> usize {
        self.sweep.len()
    }

    /// Runs the jobs that the store lacks, on all cores or `threads` of them.
    #[pyo3(signature = (*, threads, progress))]
    fn fill(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let session = Session { guard: &self.guard, threads, store: Some(&self.store), progress };
        session.perform(py, |pool| self.sweep.fill(&self.store, pool))
    }

    /// Places of the runs that the store lacks.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        py.detach(|| self.store.refresh()).or_raise(py)?;
        Ok(self.sweep.missing(&self.store))
    }

    /// A run as JSON, for another process or machine.
    fn job(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        if index >= self.sweep.len() {
            return Err(setting(
                py,
                "index",
                format!("found {index}; expected below {}", self.sweep.len()),
            ));
        }
        let job = self.sweep.job(index).or_raise(py)?;
        serde_json::to_string(&job).map_err(|e| setting(py, "job", e))
    }

    /// Adds the record of a run, as JSON; it is on disk when this returns.
    fn put(&self, py: Python<'_>, index: usize, record: &str) -> PyResult<()> {
        let record: RunRecord =
            serde_json::from_str(record).map_err(|e| setting(py, "record", e))?;
        let key = self.sweep.key(&self.store, index);
        py.detach(|| self.store.put(key, &record)).or_raise(py)
    }

    /// One row per run and flow, with a column for each varied key.
    fn frame(&self, py: Python<'_>) -> PyResult<Frame> {
        Ok(py.detach(|| self.sweep.frame(&self.store)).or_raise(py)?.into())
    }
}

/// Reads the values of a key. Text stays as written unless it would be read as another type.
fn axis(key: String, values: &Bound<'_, PyAny>) -> PyResult<Axis> {
    let py = values.py();
    let expected = "expected a list of one or more different values";
    let items = match values.is_instance_of::<pyo3::types::PyString>() {
        true => Err(setting(py, "vary", format!("{key}: found {values}; {expected}"))),
        false => values
            .try_iter()
            .map_err(|_| setting(py, "vary", format!("{key}: found {values}; {expected}"))),
    };
    let mut out: Vec<String> = Vec::new();
    for item in items? {
        let value = toml_of(&key, &item?)?;
        let text = match &value {
            toml::Value::String(text) if written(text) == value => text.clone(),
            other => other.to_string(),
        };
        if out.contains(&text) {
            return Err(setting(py, "vary", format!("{key}: found {text} twice; {expected}")));
        }
        out.push(text);
    }
    match out.is_empty() {
        true => Err(setting(py, "vary", format!("{key}: found none; {expected}"))),
        false => Ok(Axis { key, values: out }),
    }
}

/// Makes a run of a sweep of a program of this revision; returns its record. For workers.
#[pyfunction]
pub(crate) fn run_job(py: Python<'_>, job: &str, revision: &str) -> PyResult<String> {
    let own = Revision::current();
    if revision != own.as_str() {
        let error = StoreError::OtherRevision {
            folder: "worker".into(),
            found: vec![own.to_string()],
            expected: revision.to_owned(),
        };
        return Err(error).or_raise(py);
    }
    let job: Job = serde_json::from_str(job).map_err(|e| setting(py, "job", e))?;
    let guard = Arc::<Guard>::default();
    let registry = mechanism::registry(&guard);
    let session = Session { guard: &guard, threads: Some(1), store: None, progress: None };
    let record = session.perform(py, |pool| {
        let resolved = job.resolve(&registry)?;
        pool.measured(&resolved.scenario, &resolved.options)
    })?;
    serde_json::to_string(&record).map_err(|e| setting(py, "record", e))
}
