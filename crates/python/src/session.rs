//! Calls that run simulations.
//!
//! They use other threads, release the interpreter's lock, and can be interrupted.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fairmesh_lab::{LabError, Pool, Store};
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::mechanism::Guard;

/// Longest time between two checks for signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Options of a call apart from its work.
pub(crate) struct Session<'a> {
    /// Shared state with the mechanisms of Python in its runs.
    pub guard: &'a Guard,
    /// Number of concurrent runs; all cores by default.
    pub threads: Option<usize>,
    /// Store of runs.
    pub store: Option<&'a Store>,
    /// Called with the completed and the total number of runs; a total of 0 is unknown.
    pub progress: Option<Py<PyAny>>,
}

impl Session<'_> {
    /// Performs `work` on a separate thread and waits for it without the interpreter's lock.
    ///
    /// Signals are checked meanwhile. An exception of a handler, such as `KeyboardInterrupt`, or of
    /// the progress callback cancels the runs and is raised when they have ended.
    ///
    /// # Errors
    /// That exception, or the exception for the work's error.
    pub fn perform<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Pool<'_>) -> Result<T, LabError> + Send,
    ) -> PyResult<T> {
        let cancel = &self.guard.cancel;
        let (store, threads) = (self.store, self.threads.and_then(NonZero::new));
        let progress = self.progress.as_ref();
        let (outcome, raised) = py.detach(|| {
            thread::scope(|scope| {
                let (sender, receiver) = mpsc::channel();
                let token = cancel;
                let worker = scope.spawn(move || {
                    let report = |p: fairmesh_lab::Progress| {
                        // The receiver outlives this thread.
                        let _ = sender.send((p.done, p.total));
                        ControlFlow::Continue(())
                    };
                    let pool = Pool {
                        threads,
                        progress: Some(&report),
                        store,
                        cancel: Some(token),
                        around: Some(&attached),
                    };
                    Python::attach(|py| py.detach(|| work(&pool)))
                });
                let mut raised: Option<PyErr> = None;
                let mut latest = (0, 0);
                loop {
                    let news = match receiver.recv_timeout(SIGNAL_CHECK) {
                        // Only the latest report, because a callback may be slower than runs.
                        Ok(first) => {
                            let before = latest;
                            latest = std::iter::once(first)
                                .chain(receiver.try_iter())
                                .fold(latest, later);
                            (latest != before || latest.0 == 0).then_some(latest)
                        }
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                    if raised.is_none() {
                        raised = Python::attach(|py| attend(py, progress, news)).err();
                        if raised.is_some() {
                            cancel.cancel();
                        }
                    }
                    if cancel.is_cancelled() {
                        // A mechanism that never returns would prevent the end of its run.
                        Python::attach(|py| interrupt(py, &self.guard.inside()));
                    }
                }
                let outcome = worker.join().unwrap_or_else(|e| panic::resume_unwind(e));
                (outcome, raised)
            })
        });
        match raised.or_else(|| self.guard.failure()) {
            Some(e) => Err(e),
            None => outcome.or_raise(py),
        }
    }
}

/// Returns the later of two reports.
///
/// Reports of several threads may arrive in another order than they were counted.
fn later(latest: (usize, usize), next: (usize, usize)) -> (usize, usize) {
    // The first report of a batch has a count of 0.
    let newer = next.0 == 0 || next.1 != latest.1 || next.0 > latest.0;
    if newer { next } else { latest }
}

/// Performs a job on a thread that stays attached to the interpreter.
///
/// Calls of mechanisms then cost a tenth.
fn attached(job: &mut (dyn FnMut() + Send)) {
    Python::attach(|py| py.detach(job));
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

/// Raises `KeyboardInterrupt` in threads that execute code of mechanisms.
fn interrupt(py: Python<'_>, threads: &[u64]) {
    if threads.is_empty() {
        return;
    }
    let raise = || py.import("fairmesh._interrupt")?.call_method1("interrupt", (threads.to_vec(),));
    if let Err(e) = raise() {
        e.write_unraisable(py, None);
    }
}
