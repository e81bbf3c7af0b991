//! Tables for Python: Arrow's stream interface, and plain objects.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchOptions,
    StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use fairmesh_lab::LabError;
use fairmesh_lab::files::folder::write_file;
use fairmesh_lab::files::parquet;
use fairmesh_lab::frame::{self, Column, MEASURES, Values};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::errors::{OrRaise, defect};

/// A table of results.
///
/// pandas, polars, DuckDB and pyarrow read it without a copy (`__arrow_c_stream__`).
#[pyclass(frozen, module = "fairmesh")]
pub struct Frame {
    frame: Arc<frame::Frame>,
}

impl From<frame::Frame> for Frame {
    fn from(frame: frame::Frame) -> Self {
        Frame { frame: Arc::new(frame) }
    }
}

impl Frame {
    fn column(&self, name: &str) -> PyResult<&Column> {
        self.frame.column(name).ok_or_else(|| {
            let known: Vec<_> = self.frame.columns.iter().map(|c| c.name.as_str()).collect();
            PyKeyError::new_err(format!(
                "there is no column \"{name}\"; expected one of {}",
                known.join(", ")
            ))
        })
    }
}

#[pymethods]
impl Frame {
    /// Builds a table from lists of texts, integers, or numbers with `None` where one is absent.
    #[staticmethod]
    fn _of(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let column = |(name, values): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let values = if let Ok(v) = values.extract() {
                Values::Text(v)
            } else if let Ok(v) = values.extract() {
                Values::Int(v)
            } else if let Ok(v) = values.extract() {
                Values::Float(v)
            } else {
                Values::Maybe(values.extract()?)
            };
            Ok(Column { name: name.extract()?, values })
        };
        let columns: Vec<Column> = columns.iter().map(column).collect::<PyResult<_>>()?;
        match columns.iter().all(|c| c.values.len() == columns[0].values.len()) {
            true => Ok(frame::Frame { columns }.into()),
            false => Err(defect("the columns of a frame differ in length")),
        }
    }

    /// Writes the table to a Parquet file.
    fn to_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            let bytes =
                parquet::encode(&self.frame).map_err(|e| LabError::file(&path, e.to_string()))?;
            write_file(&path, &bytes)
        };
        py.detach(write).or_raise(py)
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.frame.columns.iter().map(|c| c.name.as_str()).collect()
    }

    /// Unit of each column that has one.
    #[getter]
    fn units(&self) -> HashMap<&str, &'static str> {
        let units = self.frame.columns.iter().map(|c| (c.name.as_str(), c.unit()));
        units.filter(|(_, unit)| !unit.is_empty()).collect()
    }

    fn __len__(&self) -> usize {
        self.frame.rows()
    }

    /// Values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        list(py, &self.column(name)?.values)
    }

    /// Lists of values by column.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for c in &self.frame.columns {
            out.set_item(&c.name, list(py, &c.values)?)?;
        }
        Ok(out)
    }

    /// One dict per row.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        (0..self.frame.rows()).map(|i| row(py, &self.frame, i)).collect()
    }

    /// One row as a dict.
    fn row<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        match index < self.frame.rows() {
            true => row(py, &self.frame, index),
            false => Err(PyIndexError::new_err(format!(
                "there is no row {index}; expected a number below {}",
                self.frame.rows()
            ))),
        }
    }

    /// Arrow's C stream interface; the requested schema is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batch = batch(&self.frame).map_err(|e| defect(e.to_string()))?;
        let schema = batch.schema();
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("fairmesh._show")?.call_method1("frame_text", (slf,))?.extract()
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("fairmesh._show")?.call_method1("frame_html", (slf,))?.extract()
    }
}

fn list<'py>(py: Python<'py>, values: &Values) -> PyResult<Bound<'py, PyList>> {
    match values {
        Values::Text(v) => PyList::new(py, v),
        Values::Int(v) => PyList::new(py, v),
        Values::Float(v) => PyList::new(py, v),
        Values::Maybe(v) => PyList::new(py, v),
    }
}

fn row<'py>(py: Python<'py>, frame: &frame::Frame, i: usize) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for c in &frame.columns {
        match &c.values {
            Values::Text(v) => out.set_item(&c.name, &v[i])?,
            Values::Int(v) => out.set_item(&c.name, v[i])?,
            Values::Float(v) => out.set_item(&c.name, v[i])?,
            Values::Maybe(v) => out.set_item(&c.name, v[i])?,
        }
    }
    Ok(out)
}

fn batch(frame: &frame::Frame) -> Result<RecordBatch, ArrowError> {
    let field = |c: &Column| {
        let (kind, optional) = match c.values {
            Values::Text(_) => (DataType::Utf8, false),
            Values::Int(_) => (DataType::Int64, false),
            Values::Float(_) => (DataType::Float64, false),
            Values::Maybe(_) => (DataType::Float64, true),
        };
        let facts = [("unit", c.unit()), ("definition", c.definition())];
        let facts = facts.into_iter().filter(|(_, text)| !text.is_empty());
        let facts: HashMap<_, _> =
            facts.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        Field::new(&c.name, kind, optional).with_metadata(facts)
    };
    let values = |c: &Column| -> ArrayRef {
        match &c.values {
            Values::Text(v) => Arc::new(StringArray::from_iter_values(v)),
            Values::Int(v) => Arc::new(Int64Array::from_iter_values(v.iter().copied())),
            Values::Float(v) => Arc::new(Float64Array::from_iter_values(v.iter().copied())),
            Values::Maybe(v) => Arc::new(Float64Array::from_iter(v.iter().copied())),
        }
    };
    let schema = Schema::new(frame.columns.iter().map(field).collect::<Vec<_>>());
    let rows = RecordBatchOptions::new().with_row_count(Some(frame.rows()));
    RecordBatch::try_new_with_options(
        Arc::new(schema),
        frame.columns.iter().map(values).collect(),
        &rows,
    )
}

/// Names, units and definitions of all measures: a frame with one row per measure.
#[pyfunction]
pub(crate) fn measures() -> Frame {
    let text = |name: &str, value: fn(&frame::Measure) -> &'static str| Column {
        name: name.to_owned(),
        values: Values::Text(MEASURES.iter().map(|m| value(m).to_owned()).collect()),
    };
    let columns = vec![
        text("name", |m| m.name),
        text("unit", |m| m.unit),
        text("definition", |m| m.definition),
    ];
    frame::Frame { columns }.into()
}
