//! Errors of the laboratory as exceptions of the module `fairmesh.errors`.

use fairmesh_lab::{ErrorPlace, LabError, StoreError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Converts an error to its exception: same message, its parts as attributes.
pub(crate) fn exception(py: Python<'_>, error: &LabError) -> PyErr {
    let class = match error {
        LabError::Scenario(_) => "ScenarioError",
        LabError::Setting { .. } => "SettingError",
        LabError::File { .. } => "FileError",
        LabError::Store(_) => "StoreError",
        LabError::Run { .. } | LabError::Stopped { .. } => "RunError",
    };
    let build = || {
        let ErrorPlace { file, line, key, expected } = error.place();
        let parts = PyDict::new(py);
        parts.set_item("file", file)?;
        parts.set_item("line", line)?;
        parts.set_item("key", key)?;
        parts.set_item("expected", expected)?;
        let class = py.import("fairmesh.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call((error.to_string(),), Some(&parts))?))
    };
    build().unwrap_or_else(|e| e)
}

/// Conversion of a result of the laboratory.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or raises the exception of the error.
    ///
    /// # Errors
    /// Returns the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, LabError> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| exception(py, &e))
    }
}

impl<T> OrRaise<T> for Result<T, StoreError> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|e| exception(py, &e.into()))
    }
}

/// Returns the exception of a setting with an unusable value.
pub(crate) fn setting(
    py: Python<'_>,
    name: &'static str,
    problem: impl Into<fairmesh_lab::BoxedError>,
) -> PyErr {
    exception(py, &LabError::setting(name, problem))
}

/// Returns the exception of a defect of this package.
pub(crate) fn defect(message: impl Into<String>) -> PyErr {
    PyRuntimeError::new_err(message.into())
}
