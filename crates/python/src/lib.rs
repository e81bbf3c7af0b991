//! The Python module `fairmesh._fairmesh` (docs/python.md).
//!
//! It has the laboratory's types and functions for Python, and is a thin layer without logic:
//! conversions of values, errors, threads and signals. The package around it (`python/fairmesh`)
//! has the functions that users call.

mod city;
mod errors;
mod frame;
mod mechanism;
mod results;
mod run;
mod scenario;
mod session;
mod sweep;
mod values;

use pyo3::prelude::*;

/// Simulates Wi-Fi meshes under fairness mechanisms.
#[pymodule(name = "_fairmesh")]
mod module {
    use fairmesh_lab::Revision;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::city::{City, run_islands};
    #[pymodule_export]
    use crate::frame::{Frame, measures};
    #[pymodule_export]
    use crate::mechanism::register;
    #[pymodule_export]
    use crate::results::{Analysis, Results};
    #[pymodule_export]
    use crate::run::{capacity, compare, controls, optimum, region, run};
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::sweep::{Sweep, run_jobs};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__revision__", Revision::current().as_str())
    }
}
