//! Conversion of values of Python to the laboratory's: TOML, options, seeds, quantities.

use core::fmt::Display;
use core::str::FromStr;

use fairmesh_lab::Seeds;
use fairmesh_lab::changes::{Assignment, Edit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pythonize::depythonize;

use crate::errors::setting;

/// Converts a value to TOML.
///
/// # Errors
/// A value that TOML does not have, such as `None`.
pub(crate) fn toml_of(key: &str, value: &Bound<'_, PyAny>) -> PyResult<toml::Value> {
    depythonize(value).map_err(|_| {
        let found = value.repr().map_or_else(|_| "a value".to_owned(), |r| r.to_string());
        let problem = format!(
            "{key}: found {found}; expected a number, True or False, a string, a list or a dict of these"
        );
        setting(value.py(), "changes", problem)
    })
}

/// Converts an assignment to a key of a scenario.
///
/// # Errors
/// A value that TOML does not have.
pub(crate) fn edit(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Edit> {
    Ok(Edit { key: key.to_owned(), value: toml_of(key, value)?.to_string() })
}

/// Converts `{"epoch": 5, "pfrc.epoch": 2}` to options of controls.
///
/// # Errors
/// A value that is not a number.
pub(crate) fn assignments(options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<Assignment>> {
    let Some(options) = options else { return Ok(Vec::new()) };
    let mut out = Vec::with_capacity(options.len());
    for (name, value) in options.iter() {
        let name: String = name.extract()?;
        let number: f64 = value.extract().map_err(|_| {
            let problem = format!("{name}: found {value}; expected a number");
            setting(options.py(), "options", problem)
        })?;
        let (control, parameter) = match name.split_once('.') {
            Some((control, parameter)) => (Some(control.to_owned()), parameter.to_owned()),
            None => (None, name),
        };
        out.push(Assignment { control, parameter, value: number });
    }
    Ok(out)
}

/// Converts `10`, `"11..=20"` or `range(11, 21)` to seeds.
///
/// # Errors
/// No seeds, too many of them, or a range with steps.
pub(crate) fn seeds(value: &Bound<'_, PyAny>) -> PyResult<Seeds> {
    let py = value.py();
    let wrong = |e: fairmesh_lab::seeds::SeedsError| setting(py, "seeds", e);
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_cow()?.parse().map_err(wrong);
    }
    if let Ok(number) = value.extract::<u64>() {
        return Seeds::first(number).map_err(wrong);
    }
    let range = || {
        let part = |name| value.getattr(name).and_then(|v| v.extract::<u64>());
        Ok::<_, PyErr>((part("start")?, part("stop")?, part("step")?))
    };
    match range() {
        Ok((start, stop, 1)) if start < stop => Seeds::range(start..=stop - 1).map_err(wrong),
        _ => Err(wrong(fairmesh_lab::seeds::SeedsError { found: value.repr()?.to_string() })),
    }
}

/// Parses a quantity with its unit, such as `"24 Mbit/s"`.
///
/// # Errors
/// A text that is not such a quantity.
pub(crate) fn quantity<T: FromStr<Err: Display>>(
    py: Python<'_>,
    name: &'static str,
    text: Option<&str>,
) -> PyResult<Option<T>> {
    text.map(|text| text.parse::<T>().map_err(|e| setting(py, name, e.to_string()))).transpose()
}
