//! A call that runs simulations: on other threads, without the interpreter's lock, interruptible.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fairmesh_lab::{CancelToken, LabError, Pool, Store};
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// Longest time between two checks for signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// What a call is given beside its work.
pub(crate) struct Session<'a> {
    /// Number of concurrent runs; all cores by default.
    pub threads: Option<usize>,
    /// Store of runs.
    pub store: Option<&'a Store>,
    /// Called with the completed and the total number of runs; a total of 0 is unknown.
    pub progress: Option<Py<PyAny>>,
}

impl Session<'_> {
    /// Performs `work` on a thread of its own and waits for it without the interpreter's lock.
    /// Signals are checked meanwhile: an exception of a handler, such as `KeyboardInterrupt`, or of the
    /// progress callback cancels the runs and is raised when they have ended.
    ///
    /// # Errors
    /// That exception, or the one of the work's error.
    pub fn perform<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Pool<'_>) -> Result<T, LabError> + Send,
    ) -> PyResult<T> {
        let cancel = CancelToken::default();
        let (store, threads) = (self.store, self.threads.and_then(NonZero::new));
        let progress = self.progress.as_ref();
        let (outcome, raised) = py.detach(|| {
            thread::scope(|scope| {
                let (sender, receiver) = mpsc::channel();
                let token = &cancel;
                let worker = scope.spawn(move || {
                    let report = |p: fairmesh_lab::Progress| {
                        // The receiver outlives this thread.
                        let _ = sender.send((p.done, p.total));
                        ControlFlow::Continue(())
                    };
                    let pool =
                        Pool { threads, progress: Some(&report), store, cancel: Some(token) };
                    work(&pool)
                });
                let mut raised: Option<PyErr> = None;
                loop {
                    let news = match receiver.recv_timeout(SIGNAL_CHECK) {
                        // Only the latest: a callback may be slower than runs are.
                        Ok(first) => Some(receiver.try_iter().last().unwrap_or(first)),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                    if raised.is_none() {
                        raised = Python::attach(|py| attend(py, progress, news)).err();
                        if raised.is_some() {
                            cancel.cancel();
                        }
                    }
                }
                let outcome = worker.join().unwrap_or_else(|e| panic::resume_unwind(e));
                (outcome, raised)
            })
        });
        match raised {
            Some(e) => Err(e),
            None => outcome.or_raise(py),
        }
    }
}

fn attend(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    news: Option<(usize, usize)>,
) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(progress), Some(news)) = (progress, news) {
        progress.call1(py, news)?;
    }
    Ok(())
}
