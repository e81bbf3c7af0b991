//! Results of runs and of analyses.

use std::path::PathBuf;

use fairmesh_lab::files::folder::write_file;
use fairmesh_lab::files::runs::{self, Runs};
use fairmesh_lab::optimum::Optimum;
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::{Comparison, LabError, frame};
use pyo3::prelude::*;
use pyo3::types::PyType;
use pythonize::pythonize;
use serde_json::Value;

use crate::errors::{OrRaise, defect, setting};
use crate::frame::Frame;

/// Runs of one scenario under one or more controls and seeds.
#[pyclass(frozen, module = "fairmesh")]
pub struct Results {
    records: Vec<Vec<RunRecord>>,
    comparison: Comparison,
    optimum: Option<Optimum>,
}

impl Results {
    /// Builds the results of runs: one list per control, one record per seed.
    ///
    /// No list is empty. With the optimum of the scenario, the summary has measures relative to it.
    pub fn new(
        records: Vec<Vec<RunRecord>>,
        mut comparison: Comparison,
        optimum: Option<Optimum>,
    ) -> Self {
        if let Some(best) = &optimum {
            comparison = comparison.of_optimum(&records, best);
        }
        Results { records, comparison, optimum }
    }

    /// Returns the record of a control and seed; the first of both by default.
    ///
    /// # Errors
    /// Returns an error if there is no such run.
    pub fn record(
        &self,
        py: Python<'_>,
        control: Option<&str>,
        seed: Option<u64>,
    ) -> PyResult<&RunRecord> {
        let mut of_control = self.records.iter();
        let Some(records) = of_control.find(|r| control.is_none_or(|c| r[0].control == c)) else {
            let known = self.controls().join(", ");
            let problem = format!(
                "there are no runs of {}; expected one of {known}",
                control.unwrap_or_default()
            );
            return Err(setting(py, "control", problem));
        };
        records.iter().find(|r| seed.is_none_or(|s| r.seed == s)).ok_or_else(|| {
            let known: Vec<_> = records.iter().map(|r| r.seed.to_string()).collect();
            let problem = format!(
                "there is no run with seed {}; expected one of {}",
                seed.unwrap_or_default(),
                known.join(", ")
            );
            setting(py, "seed", problem)
        })
    }
}

#[pymethods]
impl Results {
    /// Name of the scenario.
    #[getter]
    fn scenario(&self) -> &str {
        &self.comparison.scenario
    }

    /// Names of the controls, in the requested order.
    #[getter]
    fn controls(&self) -> Vec<&str> {
        self.comparison.results.iter().map(|r| r.control.as_str()).collect()
    }

    /// The seeds.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.comparison.seed_list.clone()
    }

    /// Assumptions and warnings, a sentence each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.comparison.notes.clone()
    }

    /// One row per control, seed and flow.
    #[getter]
    fn flows(&self) -> Frame {
        frame::flows(&self.records).into()
    }

    /// One row per control and seed, with the measures over all flows.
    #[getter]
    fn runs(&self) -> Frame {
        frame::runs(&self.records).into()
    }

    /// One row per control, seed and node.
    #[getter]
    fn nodes(&self) -> Frame {
        frame::nodes(&self.records).into()
    }

    /// One row per control, seed, quantity, subject and instant; empty without `sample`.
    #[getter]
    fn series(&self) -> Frame {
        frame::series(&self.records).into()
    }

    /// One row per control, seed and decision of the control.
    #[getter]
    fn decisions(&self) -> Frame {
        frame::decisions(&self.records).into()
    }

    /// One row per control and measure: mean and 95 % interval over the seeds.
    #[getter]
    fn summary(&self) -> Frame {
        frame::estimates(&self.comparison).into()
    }

    /// The object that `fairmesh compare --json` prints.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &self.comparison)?)
    }

    /// Writes all runs to one Parquet file: flows, and the whole record of each run.
    fn to_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            let runs = Runs {
                records: self.records.clone(),
                notes: self.comparison.notes.clone(),
                optimum: self.optimum.clone(),
            };
            let bytes = runs::encode(&runs).map_err(|e| LabError::file(&path, e.to_string()))?;
            write_file(&path, &bytes)
        };
        py.detach(write).or_raise(py)
    }

    /// Reads a file of `to_parquet`.
    #[classmethod]
    fn read_parquet(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let Runs { records, notes, optimum } = py.detach(|| runs::read(&path)).or_raise(py)?;
        let comparison = Comparison::of(&records).noted(notes);
        Ok(Results::new(records, comparison, optimum))
    }

    /// Writes the curves of a run to a file for Flent (`.flent.gz`); results need `sample`.
    #[pyo3(signature = (path, *, control=None, seed=None))]
    fn to_flent(
        slf: &Bound<'_, Self>,
        path: PathBuf,
        control: Option<&str>,
        seed: Option<u64>,
    ) -> PyResult<()> {
        let py = slf.py();
        let record = pythonize(py, slf.get().record(py, control, seed)?)?;
        py.import("fairmesh._flent")?.call_method1("write", (path, record)).map(|_| ())
    }

    /// The record of each run, as `fairmesh run --json` prints it.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.records.iter().flatten().map(|r| Ok(pythonize(py, r)?)).collect()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("fairmesh._show")?.call_method1("results_text", (slf,))?.extract()
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("fairmesh._show")?.call_method1("results_html", (slf,))?.extract()
    }
}

/// Rates of flows that a search or the analytic models give.
#[pyclass(frozen, module = "fairmesh")]
pub struct Analysis {
    frame: frame::Frame,
    report: Value,
}

impl Analysis {
    /// Builds the analysis from a report and its table.
    ///
    /// # Errors
    /// None for the laboratory's reports.
    pub fn new(frame: frame::Frame, report: &impl serde::Serialize) -> PyResult<Self> {
        let report = serde_json::to_value(report).map_err(|e| defect(e.to_string()))?;
        Ok(Analysis { frame, report })
    }
}

#[pymethods]
impl Analysis {
    /// Rates by flow.
    #[getter]
    fn flows(&self) -> Frame {
        self.frame.clone().into()
    }

    /// The object that the command prints with `--json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &self.report)?)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py()
            .import("fairmesh._show")?
            .call_method1("frame_text", (slf.get().flows(),))?
            .extract()
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py()
            .import("fairmesh._show")?
            .call_method1("frame_html", (slf.get().flows(),))?
            .extract()
    }
}
