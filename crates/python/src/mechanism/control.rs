//! A mechanism of Python as a control of the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairmesh_lab::control::units::{Span, Time};
use fairmesh_lab::control::{Actions, Control, Event};
use pyo3::intern;
use pyo3::prelude::*;

use super::actions::Types;
use super::events::Events;
use super::guard::Guard;

/// An object of a registered class, at one node of one run.
#[derive(Debug)]
pub(super) struct PythonControl {
    object: Py<PyAny>,
    on: Py<PyAny>,
    name: String,
    events: Arc<Events>,
    types: Arc<Types>,
    guard: Arc<Guard>,
    /// The thread that executes the object's code, for the guard.
    inside: Arc<AtomicU64>,
    /// Identifier of the run's thread.
    thread: u64,
    due: Option<Time>,
}

impl PythonControl {
    pub fn new(
        py: Python<'_>,
        object: Bound<'_, PyAny>,
        guard: Arc<Guard>,
        name: &str,
    ) -> PyResult<Self> {
        // A run is built and executed by one thread.
        let thread = py.import("threading")?.call_method0("get_ident")?.extract()?;
        Ok(PythonControl {
            on: object.getattr("on")?.unbind(),
            due: deadline(&object, name)?,
            object: object.unbind(),
            name: name.to_owned(),
            events: Events::get(py)?,
            types: Types::get(py)?,
            inside: guard.watch(),
            guard,
            thread,
        })
    }

    fn call(
        &mut self,
        py: Python<'_>,
        now: Time,
        event: &Event<'_>,
        actions: &mut Actions,
    ) -> PyResult<()> {
        let seconds = now.since(Time::ZERO).as_secs_f64();
        let event = self.events.object(py, event)?;
        let given = self.on.bind(py).call1((seconds, event))?;
        if !given.is_none() {
            self.types.take(&given, &self.name, actions)?;
        }
        self.due = deadline(self.object.bind(py), &self.name)?;
        Ok(())
    }
}

impl Control for PythonControl {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        if self.guard.cancel.is_cancelled() {
            self.due = None;
            return;
        }
        self.inside.store(self.thread, Ordering::Relaxed);
        let outcome = Python::attach(|py| {
            self.call(py, now, event, actions).inspect_err(|e| note(py, e, &self.name, now))
        });
        self.inside.store(0, Ordering::Relaxed);
        if let Err(e) = outcome {
            self.due = None;
            self.guard.fail(e);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }
}

/// Reads the time of the next deadline: `deadline`, in seconds of simulated time, or `None`.
fn deadline(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Time>> {
    let due = object.getattr(intern!(object.py(), "deadline"))?;
    if due.is_none() {
        return Ok(None);
    }
    match due.extract::<f64>() {
        Ok(s) if s >= 0.0 => Ok(Some(Time::ZERO + Span::from_secs_f64(s.min(1e9)))),
        _ => {
            let found = due.repr()?;
            let message = format!("{name}.deadline: found {found}; expected seconds or None");
            Err(super::actions::nonsense(object.py(), message))
        }
    }
}

/// Adds mechanism and time to an exception, where Python can (3.11 and later).
fn note(py: Python<'_>, e: &PyErr, name: &str, now: Time) {
    let text = format!("in mechanism {name}, at {:.6} s", now.since(Time::ZERO).as_secs_f64());
    let _ = e.value(py).call_method1("add_note", (text,));
}
