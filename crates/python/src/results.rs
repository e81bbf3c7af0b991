//! Results of runs and of analyses.

use fairmesh_lab::Comparison;
use fairmesh_lab::frame;
use fairmesh_lab::record::RunRecord;
use pyo3::prelude::*;
use pythonize::pythonize;
use serde_json::Value;

use crate::errors::defect;
use crate::frame::Frame;

/// Runs of one scenario under one or more controls and seeds.
#[pyclass(frozen, module = "fairmesh")]
pub struct Results {
    records: Vec<Vec<RunRecord>>,
    comparison: Comparison,
}

impl Results {
    /// Builds the results of runs: one list per control, one record per seed.
    ///
    /// No list is empty.
    pub fn new(records: Vec<Vec<RunRecord>>, comparison: Comparison) -> Self {
        Results { records, comparison }
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
