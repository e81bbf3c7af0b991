//! Sweeps over all combinations of some settings, on this machine or as jobs for others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairmesh_lab::record::RunRecord;
use fairmesh_lab::sweep::Plan;
use fairmesh_lab::sweep::axes::{Axis, written};
use fairmesh_lab::{Job, LabError, OtherRevisions, Revision, Store, StoreError, sweep};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, setting};
use crate::frame::Frame;
use crate::mechanism::{self, Guard};
use crate::scenario::Scenario;
use crate::session::Session;
use crate::values::{assignments, seeds, toml_of};

/// All runs of a sweep, and the store with the complete ones.
#[pyclass(frozen, module = "fairmesh._fairmesh")]
pub struct Sweep {
    sweep: sweep::Sweep,
    store: Store,
    guard: Arc<Guard>,
}

impl Sweep {
    fn checked(py: Python<'_>, plan: Plan, guard: Arc<Guard>, folder: &Path) -> PyResult<Self> {
        let registry = mechanism::registry(&guard);
        let open = || {
            let sweep = sweep::Sweep::new(plan, &registry)?;
            let store = Store::open(folder, OtherRevisions::Refuse)?;
            Ok::<_, LabError>((sweep, store))
        };
        let (sweep, store) = py.detach(open).or_raise(py)?;
        Ok(Sweep { sweep, store, guard })
    }
}

#[pymethods]
impl Sweep {
    /// Every combination of the values of some keys of a scenario.
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
        let (source, changes) = scenario.parts();
        let mut plan = Plan::of(source.clone(), changes.clone());
        for (key, values) in vary.iter() {
            plan.axes.push(axis(&key.extract::<String>()?, &values)?);
        }
        plan.controls = controls;
        plan.options = assignments(options)?;
        plan.seeds = self::seeds(seeds)?;
        Self::checked(py, plan, Arc::default(), &folder)
    }

    /// A plan: the path of a file, a dict with its keys, or the JSON that the command line wrote.
    #[staticmethod]
    #[pyo3(signature = (plan, *, seeds, folder))]
    fn of_plan(
        py: Python<'_>,
        plan: &Bound<'_, PyAny>,
        seeds: Option<&Bound<'_, PyAny>>,
        folder: PathBuf,
    ) -> PyResult<Self> {
        let guard = Arc::<Guard>::default();
        let registry = mechanism::registry(&guard);
        let mut plan = match plan.cast::<PyDict>() {
            Ok(dict) => {
                let value = toml_of("plan", dict)?;
                let text = toml::to_string(&value).map_err(|e| setting(py, "plan", e))?;
                Plan::parse("plan", &text, Path::new(""), &registry).or_raise(py)?
            }
            Err(_) => {
                let path: PathBuf = plan.extract()?;
                match path.extension().is_some_and(|e| e == "json") {
                    true => sent(py, &path)?,
                    false => py.detach(|| Plan::read(&path, &registry)).or_raise(py)?,
                }
            }
        };
        if let Some(seeds) = seeds {
            plan.seeds = self::seeds(seeds)?;
        }
        Self::checked(py, plan, guard, &folder)
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

    /// Repeats one stored run of each control, and rejects a store with other results.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let session =
            Session { guard: &self.guard, threads: None, store: Some(&self.store), progress: None };
        session.perform(py, |pool| self.sweep.check(&self.store, pool))
    }

    /// Places of the runs that the store lacks.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let missing = || {
            self.store.refresh()?;
            self.sweep.missing(&self.store)
        };
        py.detach(missing).or_raise(py)
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

    /// The varied keys, in the order of the frame's columns.
    #[getter]
    fn keys(&self) -> Vec<String> {
        self.sweep.keys()
    }

    /// One row per run and flow, with a column for each varied key.
    fn frame(&self, py: Python<'_>) -> PyResult<Frame> {
        Ok(py.detach(|| self.sweep.frame(&self.store)).or_raise(py)?.into())
    }
}

/// Reads a plan from the command line's program.
fn sent(py: Python<'_>, path: &Path) -> PyResult<Plan> {
    let bytes = py.detach(|| fairmesh_lab::source::read(path)).or_raise(py)?;
    serde_json::from_slice(&bytes).map_err(|e| setting(py, "plan", e))
}

/// Reads the values of a key; text stays as written unless it would be read as another type.
fn axis(key: &str, values: &Bound<'_, PyAny>) -> PyResult<Axis> {
    let py = values.py();
    let expected = "expected a list of one or more different values";
    let wrong = || setting(py, "vary", format!("{key}: found {values}; {expected}"));
    if values.is_instance_of::<pyo3::types::PyString>() {
        return Err(wrong());
    }
    let mut out: Vec<String> = Vec::new();
    for item in values.try_iter().map_err(|_| wrong())? {
        let text = written(&toml_of(key, &item?)?);
        if out.contains(&text) {
            return Err(setting(py, "vary", format!("{key}: found {text} twice; {expected}")));
        }
        out.push(text);
    }
    match out.is_empty() {
        true => Err(setting(py, "vary", format!("{key}: found none; {expected}"))),
        false => Axis::of(key, out).map_err(|e| setting(py, "vary", e)),
    }
}

/// Makes runs of a sweep and returns their records. For workers of the same revision.
///
/// All on one thread, which keeps its memory from run to run.
#[pyfunction]
pub(crate) fn run_jobs(py: Python<'_>, jobs: Vec<String>, revision: &str) -> PyResult<Vec<String>> {
    same_revision(py, revision)?;
    let guard = Arc::<Guard>::default();
    let registry = mechanism::registry(&guard);
    let session = Session { guard: &guard, threads: Some(1), store: None, progress: None };
    session.perform(py, |pool| {
        let run = |job: &String| {
            let job: Job = serde_json::from_str(job).map_err(|e| LabError::setting("job", e))?;
            let resolved = job.resolve(&registry)?;
            record_text(&pool.measured(&resolved.scenario, &resolved.options)?)
        };
        jobs.iter().map(run).collect()
    })
}

/// Writes the record of a run as JSON.
pub(crate) fn record_text(record: &RunRecord) -> Result<String, LabError> {
    serde_json::to_string(record).map_err(|e| LabError::setting("record", e))
}

/// Rejects work of a program of another revision.
pub(crate) fn same_revision(py: Python<'_>, revision: &str) -> PyResult<()> {
    let own = Revision::current();
    if revision == own.as_str() {
        return Ok(());
    }
    let error = StoreError::OtherRevision {
        folder: "worker".into(),
        found: vec![own.to_string()],
        expected: revision.to_owned(),
    };
    Err(error).or_raise(py)
}
